r"""Exact regression on the answers of a strategy, whose hyperparameters are learnt as they come."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions.warnings import OptimizationWarning
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Standardize
from botorch.optim.fit import fit_gpytorch_mll_scipy
from botorch.settings import validate_input_scaling
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.settings import skip_posterior_variances
from linear_operator.utils.errors import NanError, NotPSDError
from linear_operator.utils.warnings import NumericalWarning
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.queries import Answered, Query
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.base import Candidate, expected_answers
from botorch_pref.strategies.utility import parameters_of, set_parameters

_SAME = 1e-12  # of the largest value: a deviation below it is rounding


@dataclass
class Regression:
    r"""Answers to queries, and a Gaussian process on them.

    Args:
        space: The domain.
        build: Makes a model of ``n x d``-dim items and their ``n``-dim answers.
        refit: After how many more answers hyperparameters are learnt again.
        least: The number of answers from which they are learnt.
        warm: Whether a fit starts from the hyperparameters found before, not from the prior's.

    Attributes:
        answers: The queries and their answers.
    """

    space: SearchSpace
    build: Callable[[Tensor, Tensor], SingleTaskGP]
    refit: int
    least: int = 1
    warm: bool = False

    def __post_init__(self) -> None:
        self.answers: list[Answered] = []
        self._num_fitted = 0
        self._hyperparameters: dict[str, Any] = {}
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
            self._hyperparameters = parameters_of(model)
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

    def progress(self) -> dict[str, Any]:
        """What is not in the answers, as plain JSON."""
        return {"hyperparameters": dict(self._hyperparameters), "num_fitted": self._num_fitted}

    def restore(self, progress: dict[str, Any]) -> None:
        """Put back what :meth:`progress` returned; answers are in place."""
        self._hyperparameters = dict(progress["hyperparameters"])
        self._num_fitted = progress["num_fitted"]
        self._model = None

    def _built(
        self, hyperparameters: dict[str, Any], expected: Sequence[Answered] = ()
    ) -> SingleTaskGP:
        """A model with given hyperparameters."""
        answers = [*self.answers, *expected]
        items = self._items(answers)
        values = torch.tensor([answer for _, answer in answers], dtype=torch.double)
        model = self.build(items, values.to(items))
        set_parameters(model, hyperparameters)
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
    space: SearchSpace,
    items: Tensor,
    values: Tensor,
    noise: float,
    covar_module: Kernel,
    mean_module: Mean | None = None,
) -> SingleTaskGP:
    """A model of ``n`` values in any unit at ``n x d`` items, standardised by BoTorch's transform.

    The variance of the noise and the prior are of values with a standard deviation of 1 and items
    of the space's unit cube.
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
            mean_module=mean_module,
            input_transform=space.input_transform(),
            outcome_transform=Standardize(m=1, min_stdv=least),
        )
