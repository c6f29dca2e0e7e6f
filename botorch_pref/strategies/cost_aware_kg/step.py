r"""One step of the cost-aware knowledge gradient: the best duel, and the best value."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction, PosteriorMean
from botorch.acquisition.fixed_feature import FixedFeatureAcquisitionFunction
from torch import Tensor

from botorch_pref.acquisition import DiscreteKnowledgeGradient, DuelingKnowledgeGradient
from botorch_pref.inference.systems import prior_root
from botorch_pref.models import PreferenceGP
from botorch_pref.randomness import derive_seed
from botorch_pref.space import Maximum, SearchSpace
from botorch_pref.strategies.apart import apart
from botorch_pref.strategies.cost_aware_kg.beliefs import JUDGED, UTILITY, as_utility, marked
from botorch_pref.strategies.cost_aware_kg.options import Settings

_POOL = 512  # items at which draws are compared
_NEARBY = 128  # of these around the best ones
_SPREAD = 0.05  # of the box
_DRAWS = 40
_WELL_KNOWN = 8  # of the asked items those of the largest mean
_MOST_EXACT = 64  # choices among all of which the best is sought
_RAW_SAMPLES = 128
_JITTER = 1e-6
_RULE_OPTIONS = {"maxiter": 20}  # the rules have kinks, at which a line search takes its time


class Step:
    r"""What is best to be asked under a model.

    Args:
        model: The model, over items with a marker, open queries included.
        space: The domain.
        asked: ``k x d``-dim items that were asked.
        avoid: ``l x d``-dim items that are not to be measured now.
        settings: The options.
        noise: The variance of the noise of a value, in the model's units.
        seed: Of this step.
    """

    def __init__(
        self,
        model: PreferenceGP,
        space: SearchSpace,
        asked: Tensor,
        avoid: Tensor,
        settings: Settings,
        noise: float,
        seed: int,
    ) -> None:
        self.model, self.space, self.asked, self.avoid = model, space, asked, avoid
        self.settings, self.noise, self.seed = settings, noise, seed

    @cached_property
    def recommended(self) -> Maximum:
        """The maximiser of the posterior mean over the whole domain."""
        return self._maximum(
            PosteriorMean(self.model), UTILITY, starts=self._promising(), options=None
        )

    def value(self) -> Maximum:
        """The value that gains most."""
        rule = DiscreteKnowledgeGradient(
            self.model,
            marked(self.reference, UTILITY),
            noise=self.noise,
            repeats=self.settings.repeats,
        )
        found = self._maximum(rule, UTILITY, starts=self.reference.unsqueeze(-2))
        return self._apart(found, rule)

    def confirmed(self) -> Maximum:
        """What is recommended, if that can be measured; else the next best item."""
        return self._apart(self.recommended, PosteriorMean(self.model))

    def duel(self) -> Maximum:
        """The duel that gains most; of choices among those that may be best."""
        rule = DuelingKnowledgeGradient(
            self.model,
            marked(self.reference, UTILITY),
            project=as_utility,
            repeats=self.settings.repeats,
        )
        if self.space.choices is None:
            pairs = torch.stack(
                [self.recommended.items.expand_as(self.reference), self.reference], dim=-2
            )
            pairs = pairs[(pairs[:, 0] != pairs[:, 1]).any(-1)]
            return self._maximum(rule, JUDGED, q=2, starts=pairs)
        part = self.space.subset(self.contenders)
        found = part.maximize(_seen_as(rule, JUDGED, self.space.dim), q=2, seed=self.seed)
        assert found.indices is not None
        return found._replace(indices=tuple(int(self.contenders[row]) for row in found.indices))

    def _maximum(
        self,
        rule: AcquisitionFunction,
        marker: float,
        *,
        q: int = 1,
        starts: Tensor,
        options: dict[str, Any] | None = _RULE_OPTIONS,
    ) -> Maximum:
        return self.space.maximize(
            _seen_as(rule, marker, self.space.dim),
            q=q,
            seed=self.seed,
            starts=starts,
            raw_samples=_RAW_SAMPLES,
            options=options,
        )

    def _apart(self, found: Maximum, rule: AcquisitionFunction) -> Maximum:
        rule = _seen_as(rule, UTILITY, self.space.dim)
        return apart(found, self.space, rule, self.seed, self.avoid)

    def _promising(self) -> Tensor:
        """The asked items of the largest mean, ``k x 1 x d``-dim."""
        if not len(self.asked):
            return self.asked.unsqueeze(-2)
        mean = self._mean(self.asked)
        best = mean.topk(min(_WELL_KNOWN, len(mean))).indices
        return self.asked[best].unsqueeze(-2)

    @torch.no_grad()
    def _mean(self, items: Tensor) -> Tensor:
        return self.model.posterior(marked(items, UTILITY).unsqueeze(-2)).mean.flatten()

    @cached_property
    def contenders(self) -> Tensor:
        """The rows of the choices that may be best: those of the largest mean, or in a draw."""
        table = self.space.table
        top = self._mean(table).topk(min(_WELL_KNOWN, len(table))).indices
        return torch.cat([top, self._best_of_draws(table)]).unique()

    @cached_property
    def reference(self) -> Tensor:
        """The ``M x d``-dim items that may be best."""
        if self.space.choices is not None:
            table = self.space.table
            return table if len(table) <= _MOST_EXACT else table[self.contenders]
        promising = torch.cat([self.recommended.items, self._promising().squeeze(-2)])
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "nearby", 0))
        moves = torch.randn(_NEARBY, self.space.dim, generator=generator, dtype=torch.double)
        centres = promising[torch.arange(_NEARBY) % len(promising)]
        near = self.space.near(centres, moves, _SPREAD)
        pool = torch.cat([self.space.sample(_POOL - _NEARBY, self.seed), near, promising])
        chosen = torch.cat([promising, pool[self._best_of_draws(pool)]])
        return torch.unique(chosen, dim=0)

    @torch.no_grad()
    def _best_of_draws(self, items: Tensor) -> Tensor:
        """The rows of the maxima of draws at ``k x d``-dim items."""
        joint = self.model.posterior(marked(items, UTILITY))
        covariance = joint.covariance_matrix
        covariance = covariance + _JITTER * covariance.diagonal().mean() * torch.eye(
            len(items), dtype=covariance.dtype, device=covariance.device
        )
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "draws", 0))
        normal = torch.randn(len(items), _DRAWS, generator=generator, dtype=torch.double)
        draws = joint.mean + prior_root(covariance) @ normal.to(covariance)
        return draws.argmax(0).unique()


def _seen_as(rule: AcquisitionFunction, marker: float, dim: int) -> AcquisitionFunction:
    """A rule over items alone, with the column that says how they are seen filled in."""
    return FixedFeatureAcquisitionFunction(rule, d=dim + 1, columns=[dim], values=[marker])
