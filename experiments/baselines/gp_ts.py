r"""GP-TS: Thompson sampling on noisy values, the scalar rival of PF-TS ([Lazzaro2026], Sec. 5).

References:
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import torch
from botorch.acquisition import AcquisitionFunction, PosteriorMean
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.settings import validate_input_scaling
from gpytorch.kernels import ScaleKernel
from gpytorch.means import ZeroMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.acquisition.dueling_thompson import ArmPath, DuelingThompsonSampling
from botorch_pref.data.checks import checked_positive
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference.finite import argmax_with_random_ties
from botorch_pref.inference.systems import prior_root
from botorch_pref.models.base import refit_is_due
from botorch_pref.queries import Answered, Evaluate, Query
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.base import Strategy
from botorch_pref.strategies.pf_ts import paper_scale
from botorch_pref.strategies.state import Entry, Form, number, whole
from botorch_pref.strategies.utility import fitted_values, fixed_values, kernel_of


class ValuePosterior:
    """``n`` utilities, less their prior mean, after ``count`` values each that sum to ``total``.

    In the ``n`` dimensions of the items: of repeated values only the average matters.
    """

    def __init__(
        self, covariance: Tensor, root: Tensor, count: Tensor, total: Tensor, noise: float
    ) -> None:
        self.covariance, self.root = covariance, root
        self.scale = (count / noise).sqrt()
        inner = self.scale.unsqueeze(-1) * covariance * self.scale
        inner.diagonal().add_(1.0)
        self.factor = torch.linalg.cholesky(inner)
        self.observed = count > 0
        self.mean = self._update(total / (noise * count.clamp_min(1.0)).sqrt())

    def _update(self, right: Tensor) -> Tensor:
        solved = torch.cholesky_solve(right.unsqueeze(-1), self.factor).squeeze(-1)
        return self.covariance @ (self.scale * solved)

    def best_of_a_draw(self, scale: float, seed: int) -> int:
        """The row of the maximum of a draw whose standard deviation is multiplied by a scale."""
        generator = torch.Generator().manual_seed(seed)
        size = (2, len(self.mean))
        prior, error = torch.randn(size, generator=generator, dtype=torch.double).to(self.mean)
        ties = torch.rand(len(self.mean), generator=generator, dtype=torch.double)
        path = self.root @ prior
        # Matheron's rule, as it stays exact where the covariance is singular.
        draw = path - self._update(self.scale * path + torch.where(self.observed, error, 0.0))
        return int(argmax_with_random_ties(self.mean + scale * draw, ties))


_EQUAL = 1e-12

_OUTPUT_SCALE = 4.0  # before any is learnt


def _read_hyperparameters(name: str, value: Any, owner: GPTS) -> dict[str, Any]:
    """Those of a state, which may be none yet."""
    is_none = owner.learns and value == {}
    return {} if is_none else fixed_values(value, owner.space.num_features)


class GPTS(Strategy):
    r"""Buys noisy values of the utility where a draw of it is largest.

    The draw is ``N(f_t, v_t^2 k_t)``, with eq. (5) of Lazzaro et al. (2026) for the
    posterior of values: their scalar baseline. It asks
    :class:`~botorch_pref.queries.Evaluate`. On choices draws are exact; on a box they are
    differentiable paths, and the first item is drawn at random.

    Example:
        >>> strategy = GPTS(choices=table, noise=0.1, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.7)
    """

    _asks = (Evaluate,)
    _entries = Strategy._entries | {
        "hyperparameters": Entry("values", Form(_read_hyperparameters, dict)),
        "num_fitted": Entry("num_fitted", whole(most=lambda own: len(own._told))),
        "offset": Entry("offset", number()),
    }

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        seed: int = 0,
        hyperparameters: Literal["evidence"] | Mapping[str, Any] = "evidence",
        noise: float = 1.0,
        scale: float | Literal["paper"] = 1.0,
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            seed: The seed of all draws.
            hyperparameters: Fixed values as in
                :class:`~botorch_pref.strategies.utility.UtilityLearner`, with a prior mean
                of zero; or ``"evidence"`` to learn them, with the average of the values
                for the prior mean, whenever the data have grown by a tenth.
            noise: The variance of the noise on a value, in squared units of the value. The
                papers' ridge is ``noise / outputscale``.
            scale: What the standard deviation of a draw is multiplied by, as in PF-TS.

        Raises:
            ComparisonDataError: If an option is none of these.
            SearchSpaceError: If the domain cannot be used.
        """
        super().__init__(bounds, choices, space, seed=seed)
        self.learns = isinstance(hyperparameters, str)
        self.values = fixed_values(hyperparameters, self.space.num_features)
        self.noise = checked_positive("noise", noise)
        self.scale = scale if scale == "paper" else checked_positive("scale", scale)
        self.round = self.num_fitted = 0
        self.offset = 0.0  # the prior mean
        self._told: list[tuple[Evaluate, float]] = []
        self._prior: tuple[Tensor, Tensor] | None = None

    @classmethod
    def paper(cls, *, ridge: float = 0.05, **kwargs: Any) -> Self:
        r"""The setting of the paper's experiments.

        Matern-5/2 of unit scale with lengthscale 0.1 on the unit cube, and
        ``v_t = (t + 1 + log 40) ** 0.25``.

        Args:
            ridge: That of eq. (5), which the paper does not state.
            **kwargs: Passed to the constructor.

        Returns:
            The strategy.
        """
        fixed = {"kernel": "matern", "lengthscale": 0.1, "outputscale": 1.0}
        options = {"scale": "paper", "hyperparameters": fixed, "noise": ridge}
        return cls(**{**options, **kwargs})

    def tell(self, query: Query, answer: float | None) -> None:
        r"""Learn a value, and the hyperparameters again if it is time to.

        Args:
            query: What :meth:`ask` returned.
            answer: The value, or ``None`` to skip.

        Raises:
            StaleQueryError: If the query is unknown, or was told already.
            ComparisonDataError: If it is no finite number; the query then stays open.
        """
        super().tell(query, answer)
        self._refit()

    def recommend(self) -> Tensor:
        r"""The maximiser of the posterior mean, over all choices or over the box.

        Raises:
            ComparisonDataError: On a box, if nothing was answered yet.
        """
        if self.space.choices is not None:
            return self.space.choices[self.recommend_index()]
        if not self._told:
            raise ComparisonDataError("Nothing was answered yet, so nothing is recommended.")
        rule = _Normalised(PosteriorMean(self._model()), self.space)
        seed = derive_seed(self.seed, "optimizer mean", len(self._told))
        return self.space.maximize(rule, seed=seed, starts=self._asked()).items[0]

    def recommend_index(self) -> int:
        """The row of the recommended item in the choices."""
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "tie", len(self._told)))
        mean = self._posterior().mean
        noise = torch.rand(len(mean), generator=generator, dtype=torch.double)
        return int(argmax_with_random_ties(mean, noise))

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        self.round += 1
        seed = derive_seed(self.seed, "pair", self.round, annotator)
        scale = self.scale
        if scale == "paper":
            scale = self._penalty**0.5 * paper_scale(self.round)
        if self.space.choices is not None:
            row = self._posterior().best_of_a_draw(scale, seed)
            return Evaluate(query_id, self.space.choices[row], row, annotator)
        if not self._told:
            return Evaluate(query_id, self.space.sample(1, seed)[0], None, annotator)
        paths = DuelingThompsonSampling(self._model(), scale=scale, seed=seed)
        rule = _Normalised(ArmPath(paths, 0), self.space)
        starts, seed = self._asked(), derive_seed(seed, "optimizer", 0)
        best = self.space.maximize(rule, seed=seed, starts=starts).items[0]
        return Evaluate(query_id, best, None, annotator)

    @property
    def _penalty(self) -> float:
        """The papers' ``lambda``, by which a unit kernel is divided."""
        return 1.0 / self.values.get("outputscale", _OUTPUT_SCALE)

    def _asked(self) -> Tensor:
        """The ``k x 1 x d``-dim items whose values are known."""
        items = torch.stack([query.items for query, _ in self._told])
        return items.to(self.space.bounds).unsqueeze(-2)

    def _refit(self) -> None:
        size = len(self._told)
        if not self.learns or not refit_is_due(size, self.num_fitted):
            return
        values = self._values()
        spread = _spread(values, self.noise)
        self.offset = float(values.mean())
        kernel = kernel_of({}, self.space)
        values = (values - self.offset) / spread
        items = self._asked().squeeze(-2)
        model = _exact_gp(self.space, items, values, kernel, self.noise / spread**2)
        with seeded(derive_seed(self.seed, "fit", size), items.device):
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        self.values = fitted_values(model.covar_module)
        self.values["outputscale"] *= spread**2
        self.num_fitted, self._prior = size, None

    def _values(self) -> Tensor:
        return torch.tensor([value for _, value in self._told], dtype=torch.double)

    def _model(self) -> SingleTaskGP:
        """The model of all values so far, less the prior mean, in the prior's deviations."""
        kernel = kernel_of(self.values, self.space)
        unit, kernel.outputscale = float(kernel.outputscale.detach()) ** 0.5, 1.0
        items, values = self._asked().squeeze(-2), (self._values() - self.offset) / unit
        return _exact_gp(self.space, items, values, kernel, self.noise / unit**2).eval()

    def _posterior(self) -> ValuePosterior:
        table = self.space.table
        if self._prior is None:
            with torch.no_grad():
                kernel = kernel_of(self.values, self.space)
                covariance = to_dense(kernel(self.space.normalize(table)))
            self._prior = covariance, prior_root(covariance)
        rows = torch.tensor([query.indices for query, _ in self._told], dtype=torch.long)
        count, total = table.new_zeros(2, len(table)).unbind()
        count.index_add_(0, rows.to(table.device), table.new_ones(len(rows)))
        total.index_add_(0, rows.to(table.device), (self._values() - self.offset).to(table))
        return ValuePosterior(*self._prior, count, total, self.noise)

    def _learn(self, answered: Answered) -> None:
        assert isinstance(answered.query, Evaluate)
        if answered.answer is not None:
            self._told.append((answered.query, answered.answer))

    def _options(self) -> dict[str, Any]:
        return {
            "hyperparameters": "evidence" if self.learns else dict(self.values),
            "noise": self.noise,
            "scale": self.scale,
        }


class _Normalised(AcquisitionFunction):
    """A rule of what models see, as one of items: paths of BoTorch's models want no transform."""

    def __init__(self, rule: AcquisitionFunction, space: SearchSpace) -> None:
        super().__init__(model=rule.model)
        self.rule, self.space = rule, space

    def forward(self, X: Tensor) -> Tensor:
        """The rule's values at ``b x q x d``-dim items."""
        return self.rule(self.space.normalize(X))


def _spread(values: Tensor, noise: float) -> float:
    """The unit of values: their deviation, or where they are equal, that of the noise."""
    spread = float(values.std(correction=0))
    return spread if spread > _EQUAL * float(values.abs().max()) else noise**0.5


_LEAST_NOISE = 1e-6  # GPyTorch's


def _exact_gp(
    space: SearchSpace, items: Tensor, values: Tensor, kernel: ScaleKernel, noise: float
) -> SingleTaskGP:
    """A zero-mean model of ``k`` values at ``k x d`` items as :class:`_Normalised` gives them."""
    targets = values.to(space.bounds).unsqueeze(-1)
    with validate_input_scaling(False):  # the box is the unit cube, not what was asked
        return SingleTaskGP(
            space.normalize(items),
            targets,
            torch.full_like(targets, max(noise, _LEAST_NOISE)),
            covar_module=kernel,
            mean_module=ZeroMean(),
            outcome_transform=None,
        )
