r"""Utilities sampled from a Gaussian process ([Xu2024], Secs. 6.1, 6.3 and App. P).

References:
.. [Xu2024] W. Xu, W. Wang, Y. Jiang, B. Svetozarevic, C. N. Jones. Principled
    Preferential Bayesian Optimization. ICML 2024.
"""

from __future__ import annotations

import math

import torch
from botorch.acquisition import PosteriorMean
from botorch.models.deterministic import GenericDeterministicModel
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems.base import PreferenceProblem, evenly_spaced
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace

_WIDTH = 10.0  # of the box in every dimension
_NUM_KNOTS, _VARIANCE = 10, 9.0
_PER_SIDE = 11  # points of the square of linear utilities
_RANK_TOLERANCE = 1e-12  # of the kernel matrix of the knots, relative to its largest eigenvalue
_AGREEING = 3  # searches that have to end at the same maximum
_MAX_SEARCHES = 20
_AGREEMENT = 1e-6  # relative to the prior's standard deviation


class LinearSample(PreferenceProblem):
    r"""A linear utility on 11 x 11 points of the unit square, ``f(x) = w^T x``.

    ``w`` is normal with variance 9, so this is a draw of the process with the linear kernel
    ``9 x^T x'`` of [Xu2024], App. L, and the norm of ``w / 3`` is its norm.

    Attributes:
        weights: The 2-dim ``w``.
    """

    weights: Tensor

    def __init__(self, seed: int = 0) -> None:
        """Draw the weights under a seed."""
        side = torch.linspace(0.0, 1.0, _PER_SIDE, dtype=torch.double)
        super().__init__(bounds=[(0.0, 1.0)] * 2, choices=torch.cartesian_prod(side, side))
        generator = torch.Generator().manual_seed(derive_seed(seed, "problem", 0))
        white = torch.randn(2, generator=generator, dtype=torch.double)
        self.register_buffer("weights", math.sqrt(_VARIANCE) * white)

    @property
    def norm(self) -> float:
        """The norm of the utility under the process's own kernel, variance included."""
        return float(self.weights.norm()) / math.sqrt(_VARIANCE)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return X @ self.weights.to(X)


class GPSample(PreferenceProblem):
    r"""The function of least norm through a Gaussian process's values at random knots.

    The knots are uniform in the box, their values a draw from the process, whose kernel is
    ``9 exp(-r^2 / l^2)`` ([Xu2024], App. L), and the utility is the interpolant of least norm,
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
        knots: The ``10 x d``-dim knots.
        weights: The ``10``-dim weights of the kernel at the knots.
        lengthscale: The kernel's lengthscale, in units of ``x``.
        variance: The kernel's variance.
    """

    variance = _VARIANCE

    knots: Tensor
    weights: Tensor
    _check_grad_at_opt = False  # the maximum may lie on the edge of the box

    def __init__(self, dim: int = 1, num_choices: int | None = None, seed: int = 0) -> None:
        r"""Draw the function on ``[0, 10]^d``.

        Args:
            dim: The dimension ``d``. The lengthscale is 1 in one dimension, else ``5 sqrt(d)``.
            num_choices: The number of evenly spaced choices, in one dimension only; ``None``
                for the whole box.
            seed: The seed of knots and values.

        Raises:
            UnsupportedError: If ``num_choices`` is given for ``dim > 1``.
        """
        if num_choices is not None and dim != 1:
            raise UnsupportedError(f"num_choices needs dim=1, got dim={dim}.")
        choices = None if num_choices is None else evenly_spaced(0.0, _WIDTH, num_choices)
        super().__init__(bounds=[(0.0, _WIDTH)] * dim, choices=choices)
        self.lengthscale = 1.0 if dim == 1 else 5.0 * math.sqrt(dim)
        self._draw(seed)
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
        return self.lengthscale * math.sqrt(0.5) / _WIDTH

    def _draw(self, seed: int) -> None:
        """Set knots, weights and norm."""
        generator = torch.Generator().manual_seed(derive_seed(seed, "problem", 0))
        lower, upper = self.bounds
        unit = torch.rand(_NUM_KNOTS, self.dim, generator=generator, dtype=torch.double)
        self.register_buffer("knots", torch.lerp(lower, upper, unit))
        white = torch.randn(_NUM_KNOTS, generator=generator, dtype=torch.double)
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
        """``... x 10``-dim kernel between ``... x d``-dim items and the knots."""
        distance = (X.unsqueeze(-2) - self.knots).square().sum(dim=-1)
        return self.variance * (-distance / self.lengthscale**2).exp()

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
