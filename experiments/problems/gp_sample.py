r"""Utilities sampled from a Gaussian process ([Xu2024], Secs. 6.1, 6.3 and App. P).

References:
.. [Xu2024] W. Xu, W. Wang, Y. Jiang, B. Svetozarevic, C. N. Jones. Principled
    Preferential Bayesian Optimization. ICML 2024.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from botorch.acquisition import PosteriorMean
from botorch.models.deterministic import GenericDeterministicModel
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems.base import PreferenceProblem, check_positive, evenly_spaced
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace

# What the squared distance over the squared lengthscale is multiplied by.
_CONVENTIONS = {"paper": 1.0, "gpytorch": 0.5}
_RANK_TOLERANCE = 1e-12  # of the kernel matrix of the knots, relative to its largest eigenvalue
_AGREEING = 3  # searches that have to end at the same maximum
_MAX_SEARCHES = 20
_AGREEMENT = 1e-6  # relative to the prior's standard deviation


class GPSample(PreferenceProblem):
    r"""The function of least norm through a Gaussian process's values at random knots.

    The knots are uniform in the box, their values a draw from the process, whose kernel is
    squared exponential, and the utility is the interpolant of least norm,
    ``f(x) = k(x, knots) k(knots, knots)^{-1} values``. So its squared norm is chi-squared
    with as many degrees of freedom as the knots' kernel matrix has numerical rank, which
    is, as a rule, their number. (The authors' code takes the values from a draw on a coarse
    grid instead. The number of knots is theirs; the paper has none.)

    ``GPSample()``, ``GPSample(7)`` and ``GPSample(12)`` are the paper's experiments, where
    it has 30, 20 and 10 instances (seeds); the lengthscale in 12 dimensions is by analogy.

    On a box the maximum is searched for once, by L-BFGS-B from the knots and from the best of
    a Sobol sample, again and again from other samples until three searches have ended within
    1e-6 standard deviations of the largest value found. Where that does not happen in 20
    searches, the problem does not know its maximum.

    Attributes:
        knots: The ``num_knots x d``-dim knots.
        weights: The ``num_knots``-dim weights of the kernel at the knots.
        lengthscale: The kernel's lengthscale, in units of ``x``.
        variance: The kernel's variance.
        convention: How the kernel's lengthscale is meant.
    """

    knots: Tensor
    weights: Tensor
    _check_grad_at_opt = False  # the maximum may lie on the edge of the box

    def __init__(
        self,
        dim: int = 1,
        lengthscale: float | None = None,
        variance: float = 9.0,
        num_knots: int = 10,
        bounds: tuple[float, float] = (0.0, 10.0),
        num_choices: int | None = None,
        seed: int = 0,
        convention: Literal["paper", "gpytorch"] = "paper",
    ) -> None:
        r"""Draw the function.

        Args:
            dim: The dimension ``d``.
            lengthscale: The kernel's lengthscale, in units of ``x``; the paper's if omitted,
                which is 1 in one dimension and ``5 sqrt(d)`` in more.
            variance: The kernel's variance.
            num_knots: The number of knots.
            bounds: The lower and the upper bound, the same in all dimensions.
            num_choices: The number of evenly spaced choices, in one dimension only; ``None``
                for the whole box.
            seed: The seed of knots and values.
            convention: ``"paper"`` for the kernel ``exp(-r^2 / l^2)`` of [Xu2024], App. L;
                ``"gpytorch"`` for ``exp(-r^2 / 2 l^2)``, as in GPyTorch and the authors' code.

        Raises:
            SearchSpaceError: If a number is too small or not finite, the bounds are not in
                order, or there is no such convention.
            UnsupportedError: If ``num_choices`` is given for ``dim > 1``.
        """
        if lengthscale is None:
            lengthscale = 1.0 if dim == 1 else 5.0 * math.sqrt(max(dim, 0))
        _check(dim, num_knots, bounds, num_choices, convention)
        check_positive(lengthscale=lengthscale, variance=variance)
        choices = None if num_choices is None else evenly_spaced(*bounds, num_choices)
        super().__init__(bounds=[bounds] * dim, choices=choices)
        self.lengthscale, self.variance = float(lengthscale), float(variance)
        self.convention = convention
        self._draw(num_knots, seed)
        if choices is None:
            self._find_maximum(seed)

    @property
    def norm(self) -> float:
        r"""The RKHS norm of the utility under the process's own kernel, variance included.

        Under the kernel of unit variance it is ``sqrt(variance)`` times as large.
        """
        return self._norm

    @property
    def unit_lengthscale(self) -> float:
        """The lengthscale of GPyTorch's ``RBFKernel`` that is this kernel, on the unit cube."""
        lower, upper = self._bounds[0]
        half = math.sqrt(0.5 / _CONVENTIONS[self.convention])
        return self.lengthscale * half / (upper - lower)

    def _draw(self, num_knots: int, seed: int) -> None:
        """Set knots, weights and norm."""
        generator = torch.Generator().manual_seed(derive_seed(seed, "problem", 0))
        lower, upper = self.bounds
        unit = torch.rand(num_knots, self.dim, generator=generator, dtype=torch.double)
        self.register_buffer("knots", torch.lerp(lower, upper, unit))
        white = torch.randn(num_knots, generator=generator, dtype=torch.double)
        # The symmetric root of the kernel matrix, which is the same on every machine: the
        # values are root @ white, the weights the inverse root @ white.
        scales, vectors = torch.linalg.eigh(self._kernel(self.knots))
        kept = scales > _RANK_TOLERANCE * scales[-1]
        scales, vectors = scales[kept], vectors[:, kept]
        coordinates = vectors.mT @ white
        self.register_buffer("weights", vectors @ (coordinates / scales.sqrt()))
        self._norm = float(coordinates.norm())

    def _evaluate_true(self, X: Tensor) -> Tensor:
        # In double precision, where there is any: the weights may be large and cancel.
        return (self._kernel(X.to(self.knots)) @ self.weights).to(X)

    def _kernel(self, X: Tensor) -> Tensor:
        """``... x num_knots``-dim kernel between ``... x d``-dim items and the knots."""
        distance = (X.unsqueeze(-2) - self.knots).square().sum(dim=-1)
        factor = _CONVENTIONS[self.convention] / self.lengthscale**2
        return self.variance * (-factor * distance).exp()

    def _find_maximum(self, seed: int) -> None:
        """Set the maximum and where it is, unless the searches disagree."""
        space = SearchSpace(bounds=self.bounds)
        model = GenericDeterministicModel(lambda X: self._evaluate_true(X).unsqueeze(-1))
        rule = PosteriorMean(model)
        ends = []
        for search in range(_MAX_SEARCHES):
            ends.append(
                space.maximize(
                    rule,
                    seed=derive_seed(seed, "optimizer", search),
                    starts=self.knots.unsqueeze(-2),
                    num_restarts=8,
                )
            )
            best = max(ends, key=lambda end: float(end.value))
            enough = float(best.value) - _AGREEMENT * math.sqrt(self.variance)
            if sum(float(end.value) >= enough for end in ends) >= _AGREEING:
                self._optimizers = [tuple(best.items[0].tolist())]
                self.register_buffer("optimizers", best.items)
                self._optimal_value = float(best.value)
                return


def _check(
    dim: int,
    num_knots: int,
    bounds: tuple[float, float],
    num_choices: int | None,
    convention: str,
) -> None:
    """Raise the errors of ``GPSample``'s other arguments."""
    for argument, value in (("dim", dim), ("num_knots", num_knots)):
        if value < 1:
            raise SearchSpaceError(f"{argument} must be at least 1, got {value}.")
    if num_choices is not None and dim != 1:
        raise UnsupportedError(f"num_choices needs dim=1, got dim={dim}.")
    lower, upper = bounds
    if not -math.inf < lower < upper < math.inf:
        raise SearchSpaceError(f"bounds must be two numbers in ascending order, got {bounds}.")
    if convention not in _CONVENTIONS:
        raise SearchSpaceError(
            f"convention must be one of {', '.join(_CONVENTIONS)}, got {convention!r}."
        )
