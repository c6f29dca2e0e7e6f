r"""The hallucination believer of the skew Gaussian process: a draw that fits all answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from botorch.acquisition import (
    AcquisitionFunction,
    LogExpectedImprovement,
    UpperConfidenceBound,
)
from botorch.models import SingleTaskGP
from botorch.settings import validate_input_scaling
from gpytorch.kernels import Kernel
from gpytorch.means import ZeroMean
from linear_operator import to_dense
from numpy.typing import NDArray
from torch import Tensor

from botorch_pref.data.checks import check_word, checked_positive
from botorch_pref.inference.systems import prior_root
from botorch_pref.strategies.base import Pair, UtilityStrategy

_BETA = 4.0  # BoTorch's, the square of the multiple of the standard deviation
_VALUE_NOISE = 1e-5  # of believed values, in units of the prior variance
_TOLERANCE = {"ftol": 1e-6, "factr": None}  # interpolated values have no more digits
_TRAJECTORIES = 4
_MAX_BOUNCES = 30_000  # where many answers contradict each other, of little noise

_Array = NDArray[np.float64]
Challenger = Literal["ei", "ucb"]


@dataclass(kw_only=True, eq=False, repr=False)
class SGP(UtilityStrategy):
    r"""The last winner meets the best item under one draw that fits all answers.

    The hallucination believer of Takeno et al. (2023): an answer says
    ``f(winner) - f(loser) + e > 0``, with a little Gaussian noise ``e``, under which the
    posterior is a skew Gaussian process. The utilities of all asked items are drawn from
    it once and then believed. The first arm is the winner of the last answered duel, at
    first any item; the second maximises a rule of ordinary Bayesian optimisation under
    the Gaussian process that is conditioned on these values. A tie is a win of the first
    item. No item meets itself, and none meets another while that duel is open.

    Takeno, Nomura and Karasuyama, *Towards Practical Preferential Bayesian Optimization
    with Skew Gaussian Processes* (2023). Only lengthscales matter to it: the output scale
    changes neither the signs of differences nor where a rule is largest. Where they are
    learnt, it is by our evidence, whose link is not their probit; and the draw comes from
    another sampler than theirs, ``believed_values``. For the other arguments see
    :class:`~botorch_pref.strategies.UtilityStrategy`; ``kappa`` and ``regularizer`` change
    nothing here.

    Args:
        challenger: What the second arm maximises: ``"ei"`` the expected improvement over the
            largest value drawn, ``"ucb"`` the mean plus 2 standard deviations.
        noise: The variance of ``e`` as a fraction of the prior variance of the utility,
            positive. The smaller it is, the longer a draw takes where answers contradict each
            other.

    Example:
        >>> strategy = SGP(choices=table, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0)
    """

    challenger: Challenger = "ei"
    noise: float = 1e-4

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_word("challenger", self.challenger, Challenger)
        self.noise = checked_positive("noise", self.noise)

    def recommend(self) -> Tensor:
        r"""The first arm of the next duel: the winner of the last one.

        Raises:
            ComparisonDataError: On a box, if nothing was asked yet.
        """
        if not self.num_answers:
            return super().recommend()
        return self._items()[self._winners_first()[-1, 0]]

    def recommend_index(self) -> int:
        """The row of the recommended item in the choices; before any answer, any row."""
        if self.space.choices is None or not self.num_answers:
            return super().recommend_index()
        return int(self._winners_first()[-1, 0])

    def _pair(self, annotator: str | None) -> Pair:
        seed, duels = self._seed("pair", annotator), self._winners_first()
        items = self._items()
        if len(duels):
            first = int(duels[-1, 0])
        elif self.space.choices is not None:
            first = self._best_row(torch.zeros_like(items[:, 0]), "tie of the first arm")
        else:
            first, items = 0, self.space.sample(1, seed)
        rows = torch.cat([duels.flatten(), duels.new_tensor([first])]).unique()
        rule = self._rule(items[rows], torch.searchsorted(rows, duels), seed)
        if self.space.choices is None:
            return torch.stack([items[first], self._challenger(rule, items, first)]), None
        with torch.no_grad():
            values = rule(items.unsqueeze(-2))
        values[first] = -torch.inf
        values = self._unbarred(values, first)
        return self._rows(first, self._best_row(values))

    def _challenger(self, rule: AcquisitionFunction, items: Tensor, first: int) -> Tensor:
        """Where the rule is largest on a box; each asked item is one start, however often asked."""
        seed, taken = self._seed("optimizer"), self._taken(items[first])
        starts = items.unsqueeze(-2)
        best = self.space.maximize(rule, seed=seed, starts=starts, options=_TOLERANCE).items[0]
        return self._best_item(rule, seed, taken) if self._same(best, taken).any() else best

    def _items(self) -> Tensor:
        """The choices, or the items of a box that were asked."""
        choices = self.space.choices
        return self.learner.data.datapoints if choices is None else choices

    def _winners_first(self) -> Tensor:
        """The ``m x 2``-dim winners and losers as rows of the items, in order."""
        data = self.learner.data
        pairs = data.pairs
        if self.space.choices is not None:
            asked = [query.indices for query, _ in self.learner.answered]
            rows = [pair for pair in asked if pair[0] != pair[1]]
            pairs = torch.tensor(rows, dtype=torch.long).view(-1, 2).to(pairs)
        return torch.where(data.wins.unsqueeze(-1) >= 0.5, pairs, pairs.flip(-1))

    def _rule(self, items: Tensor, duels: Tensor, seed: int) -> AcquisitionFunction:
        """What the second arm maximises, under one draw of the values of the asked items."""
        kernel: Kernel = self.learner.covar_module().base_kernel
        with torch.no_grad():
            covariance = to_dense(kernel(self.space.normalize(items)))
            values = believed_values(covariance, duels, self.noise, seed)
        # The zero mean and the unit scale are the prior's: nothing is to be standardised.
        with validate_input_scaling(False):
            model = SingleTaskGP(
                items,
                values.unsqueeze(-1),
                torch.full_like(values, _VALUE_NOISE).unsqueeze(-1),
                covar_module=kernel,
                mean_module=ZeroMean(),
                outcome_transform=None,
                input_transform=self.space.input_transform(),
            )
        if self.challenger == "ucb":
            return UpperConfidenceBound(model, beta=_BETA)
        return LogExpectedImprovement(model, best_f=values.max())


def believed_values(covariance: Tensor, duels: Tensor, noise: float, seed: int) -> Tensor:
    r"""A draw of the utilities of ``n`` items, given that all winners won.

    That is, of ``f ~ N(0, covariance)`` given ``v = f(winners) - f(losers) + e > 0``, by
    Hamiltonian Monte Carlo with exact trajectories (Pakman and Paninski, *Exact
    Hamiltonian Monte Carlo for Truncated Multivariate Gaussians*, 2014). A quarter of a
    period forgets where it started, while a Gibbs sampler takes hundreds of sweeps where
    answers agree and ``v`` is strongly correlated.

    Args:
        covariance: ``n x n``-dim prior covariance of the utilities.
        duels: ``m x 2``-dim long tensor of winners and losers.
        noise: The variance of ``e``, in the units of the covariance.
        seed: Of the draw.

    Returns:
        ``n``-dim utilities, the end of a few trajectories.
    """
    size, root, deviation = len(covariance), prior_root(covariance), math.sqrt(noise)
    winner, loser = duels.unbind(-1)
    generator = torch.Generator().manual_seed(seed)
    shape = (_TRAJECTORIES, size + len(duels))
    normal = torch.randn(shape, generator=generator, dtype=torch.double).to(covariance)
    prior = normal[:, :size] @ root.mT
    if not len(duels):
        return prior[-1]
    latent = prior[:, winner] - prior[:, loser] + deviation * normal[:, size:]
    cross = covariance[winner] - covariance[loser]
    joint = cross[:, winner] - cross[:, loser]
    joint.diagonal().add_(noise)
    start = covariance.new_zeros(shape[1])
    start[size:] = deviation  # all utilities are equal, and all answers due to noise
    moved = _bounce(
        start.cpu().numpy(),
        torch.cat([prior, latent], dim=-1).cpu().numpy(),
        torch.cat([cross, joint], dim=-1).cpu().numpy(),
    )
    return torch.from_numpy(moved[:size]).to(covariance)


# Bounces follow one another, each a few operations on short vectors: NumPy's calls cost least.
def _bounce(position: _Array, velocities: _Array, columns: _Array) -> _Array:
    r"""Where a point ends that is kicked, and reflected by walls, several times.

    It moves along ``x cos(t) + u sin(t)`` for a quarter of a period after each kick. The
    last ``m`` of its ``k`` coordinates stay positive: in the metric of the covariance, the
    normal of such a wall is that coordinate's column.

    Args:
        position: ``k``-dim point within the walls.
        velocities: ``s x k``-dim draws from the normal distribution without walls.
        columns: ``m x k``-dim covariance of the last ``m`` coordinates with all.

    Returns:
        The ``k``-dim end, at the latest after ``_MAX_BOUNCES`` reflections.
    """
    first = position.shape[-1] - len(columns)
    normals = 2.0 * columns / columns[:, first:].diagonal()[:, None]
    bounces = 0
    for kick in velocities:
        velocity, left = kick, math.pi / 2
        while left > 0.0 and bounces < _MAX_BOUNCES:
            hits = np.arctan2(position[first:], -velocity[first:])
            wall = int(hits.argmin())
            step = min(float(hits[wall]), left)
            cos, sin = math.cos(step), math.sin(step)
            position, velocity = cos * position + sin * velocity, cos * velocity - sin * position
            np.maximum(position[first:], 0.0, out=position[first:])  # as rounding may have it
            left -= step
            if left > 0.0:
                bounces += 1
                velocity -= velocity[first + wall] * normals[wall]
                position[first + wall] = 0.0
    return position
