r"""Exact regression on the answers of a strategy, whose hyperparameters are learnt as they come."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from botorch.exceptions.warnings import OptimizationWarning
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Standardize
from botorch.optim.fit import fit_gpytorch_mll_scipy
from botorch.settings import validate_input_scaling
from gpytorch.kernels import Kernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.settings import skip_posterior_variances
from linear_operator.utils.errors import NanError, NotPSDError
from linear_operator.utils.warnings import NumericalWarning
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.queries import Answered, Query
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.base import Candidate, expected_answers
from botorch_pref.strategies.state import Entry, tensors, whole

_SAME = 1e-12  # of the largest value: a deviation below it is rounding


@dataclass
class Regression:
    r"""Answers to queries, and a Gaussian process on them.

    Args:
        space: The domain.
        build: Makes a model of ``n x d``-dim items and their ``n``-dim answers, with a
            ``covar_module`` and an ``input_transform``.
        kernel: The prior covariance, which each model has a copy of.
        refit: After how many more answers hyperparameters are learnt again.
        least: The number of answers from which they are learnt.
        warm: Whether a fit starts from the hyperparameters found before, not from the prior's.

    Attributes:
        answers: The queries and their answers.
    """

    space: SearchSpace
    build: Callable[..., SingleTaskGP]
    kernel: Kernel | None
    refit: int
    least: int = 1
    warm: bool = False

    _entries: ClassVar[dict[str, Entry]] = {
        "hyperparameters": Entry("_hyperparameters", tensors(lambda own: own._blank())),
        "num_fitted": Entry("_num_fitted", whole(most=lambda own: len(own.answers))),
    }

    def __post_init__(self) -> None:
        self.answers: list[Answered] = []
        self._num_fitted = 0
        self._hyperparameters: dict[str, Tensor] = {}
        self._model: SingleTaskGP | None = None

    def add(self, query: Query, answer: float) -> None:
        """Add an answer."""
        self.answers.append(Answered(query, answer))
        self._model = None

    @property
    def items(self) -> Tensor:
        """The ``n x d``-dim items of all answers, of a duel the first."""
        return self._items(self.answers)

    def learn(self) -> bool:
        """Fit the hyperparameters, if there are enough more answers; returns whether it did."""
        size, before = len(self.answers), self._num_fitted
        if size < max(self.least, before + self.refit if before else 1):
            return False
        model = self._built(self._hyperparameters if self.warm else {})
        if fit_exactly(model):
            found = dict(model.named_parameters())
            self._hyperparameters = {name: value.detach() for name, value in found.items()}
        self._num_fitted = size
        self._model = None
        return True

    def model(self, pending: Sequence[Query] = ()) -> SingleTaskGP:
        """The model of all answers, and of pending queries as if they were answered as expected."""
        if self._model is None:
            self._model = self._built(self._hyperparameters).eval()
        known = self._model
        if not pending or not self.answers:
            return known
        like = self.space.bounds
        expected = expected_answers(
            pending, lambda query: known.posterior(query.items.view(1, -1).to(like)).mean
        )
        return self._built(self._hyperparameters, expected).eval()

    @torch.no_grad()
    def best(self) -> Candidate:
        """The item of the largest posterior mean among those of :attr:`items`; raises if none."""
        if not self.answers:
            raise ComparisonDataError("Nothing was answered yet, so nothing is recommended.")
        with skip_posterior_variances():  # which take long for thousands of duels
            mean = self.model().posterior(self.items).mean
        item, row = Candidate.of_query(self.answers[int(mean.argmax())].query)
        return Candidate(item.to(self.space.bounds), row)

    def _blank(self) -> SingleTaskGP | None:
        """The model of which parameters are learnt by now."""
        return self._built({}) if self.answers else None

    def _built(
        self, hyperparameters: Mapping[str, Tensor], expected: Sequence[Answered] = ()
    ) -> SingleTaskGP:
        """A model with given hyperparameters."""
        answers = [*self.answers, *expected]
        items = self._items(answers)
        values = torch.tensor([answer for _, answer in answers], dtype=torch.double)
        model = self.build(
            items,
            values.to(items),
            covar_module=deepcopy(self.kernel),
            input_transform=self.space.input_transform(),
        )
        # Of the standardisation it has that of its own values.
        model.load_state_dict(hyperparameters, strict=False, keep_transforms=False)
        return model

    def _items(self, answers: Sequence[Answered]) -> Tensor:
        like = self.space.bounds
        items = [Candidate.of_query(query).item.to(like) for query, _ in answers]
        return torch.stack(items) if items else like[:0]


def fit_exactly(model: SingleTaskGP) -> bool:
    """Learn the hyperparameters of a model; returns whether there was an optimum, else keeps them.

    Where values repeat themselves and there is no prior, the evidence is so steep that a line
    search may end in rounding errors: where it stopped is taken then.
    """
    if not any(one.requires_grad for one in model.parameters()):
        return False
    before = deepcopy(model.state_dict())
    model.train()
    with warnings.catch_warnings():
        for category in (OptimizationWarning, NumericalWarning):  # of lengthscales on the way
            warnings.simplefilter("ignore", category)
        try:
            fit_gpytorch_mll_scipy(ExactMarginalLogLikelihood(model.likelihood, model))
            fitted = all(bool(one.isfinite().all()) for one in model.parameters())
        except (NanError, NotPSDError, ValueError):  # a prior refuses what a search rounds to 0
            fitted = False
    if not fitted:
        model.load_state_dict(before)
    model.eval()
    return fitted


def standardised_gp(
    items: Tensor, values: Tensor, *, noise: float, covar_module: Kernel, **options: Any
) -> SingleTaskGP:
    """A model of ``n`` values in any unit at ``n x d`` items, standardised by BoTorch's transform.

    The variance of the noise and the prior are of values with a standard deviation of 1. Further
    options are those of ``SingleTaskGP``.
    """
    # BoTorch's default takes every deviation below 1e-8 for none, which in farads is a lot.
    least = max(_SAME * float(values.abs().max()), 1e-300)
    units, targets = Standardize(m=1, min_stdv=least), values.unsqueeze(-1)
    units(targets)
    with validate_input_scaling(False):  # the box is the unit cube, not what was measured
        return SingleTaskGP(
            items,
            targets,
            (noise * units.stdvs.square()).expand_as(targets),
            covar_module=covar_module,
            outcome_transform=Standardize(m=1, min_stdv=least),
            **options,
        )
