r"""MR-LPF's rounds on a box: witnesses instead of all items, and constrained maximisation."""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition import PosteriorMean
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from botorch_pref.acquisition import PairVariance
from botorch_pref.inference.finite import argmax_with_random_ties
from botorch_pref.models import PreferenceGP
from botorch_pref.randomness import derive_seed
from botorch_pref.space import Feasible, SearchSpace
from botorch_pref.strategies.mr_lpf.active_set import ActiveSet, AnsweredPair
from botorch_pref.strategies.mr_lpf.choices import steepness
from botorch_pref.strategies.mr_lpf.elimination import Elimination, Scale
from botorch_pref.strategies.mr_lpf.rounds import Outcome, RoundSetting
from botorch_pref.strategies.utility import Pair

_SAMPLE = 2048  # quasi-random items, of which the active ones are kept
_POOL = 256  # active items that pairs are looked for among, and that are witnesses
_THIN = 64  # fewer active items than that are not enough
_SHRINK = (0.3, 0.1, 0.03, 0.01, 0.003)  # steps around them, as shares of the box
_PAIR_STARTS = 1
_MEAN_STARTS = 2
_PAIR_OPTIONS = {"maxiter": 4}
_MEAN_OPTIONS = {"maxiter": 20}


class ActiveBox(ActiveSet):
    r"""The part of a box that is still in the running.

    Args:
        space: A box.
        ci_scale: See :func:`~botorch_pref.strategies.mr_lpf.elimination.upper_slack`.
        seed: Of the sample that represents the box.
        refine: Whether pairs are refined by constrained maximisation.

    Attributes:
        eliminations: The rules of the rounds that were closed; what satisfies all is active.
        pool: ``p x d``-dim active items, the best one by the last prediction among them.
        predictor: The model of the last full round; ``None`` before its end.
    """

    def __init__(self, space: SearchSpace, ci_scale: Scale, seed: int, refine: bool) -> None:
        super().__init__(ci_scale)
        self.space, self.refine = space, refine
        self.eliminations: list[Elimination] = []
        self.predictor: PreferenceGP | None = None
        self._sample = space.sample(_SAMPLE, seed)
        self.pool = self._sample[:_POOL]

    @property
    def share(self) -> float:
        """See the base class."""
        return len(self._sample) / _SAMPLE

    @property
    def num_items(self) -> int | None:
        """See the base class: of whole numbers and categories alone it is seen when one is left."""
        few = not self.space.parameters.real
        return 1 if few and len(self.pool.unique(dim=0)) == 1 else None

    def slack(self, X: Tensor) -> Tensor:
        r"""The ``...``-dim slack of ``... x d`` items; those of 0 at least are active."""
        if not self.eliminations:
            return torch.ones_like(X[..., 0])
        return torch.stack([rule.slack(X) for rule in self.eliminations]).amin(0)

    def maximise_mean(self, model: PreferenceGP, seed: int, starts: Tensor) -> Tensor:
        r"""The active item of largest posterior mean.

        Args:
            model: A model of the utility.
            seed: Of everything random.
            starts: ``s x d``-dim items to start from, beside the pool; those that are not
                active are left out.
        """
        items = torch.cat([self.pool, self._active(starts)])
        if not model.num_observations:  # all was skipped, and nothing is known
            return self.pool[0]
        best = self.space.maximize(
            PosteriorMean(model),
            seed=seed,
            starts=items.unsqueeze(-2),
            raw_samples=0,
            num_restarts=_MEAN_STARTS,
            options=_MEAN_OPTIONS,
            feasible=self._constraint(),
        )
        return best.items[0]

    def begin(self, kernel: ScaleKernel, setting: RoundSetting, past: list[AnsweredPair]) -> None:
        """See the base class."""
        self._kernel, self._kappa = kernel, setting.kappa
        self._pairs = [duel.items for duel in past]

    def select(self, seed: int) -> Pair:
        """See the base class: the best pair of the pool, possibly refined."""
        if len(self.pool) == 1 or self.num_items == 1:
            return self.pool[:1].expand(2, -1), None
        pairs = self._pairs
        answers = [0.5] * len(pairs)  # any would do: the variance does not depend on them
        model = self._model(self._kernel, self._kappa, pairs, answers)
        starts = self._best_pairs(model, seed)
        if not pairs or not self.refine:  # under the prior any two far apart are as good
            return starts[0], None
        best = self.space.maximize(
            PairVariance(model),
            q=2,
            seed=seed,
            starts=starts,
            raw_samples=0,
            num_restarts=_PAIR_STARTS,
            options=_PAIR_OPTIONS,
            feasible=self._constraint(),
        )
        return best.items, None

    def append(self, pair: Pair) -> None:
        """See the base class; an identical pair changes nothing."""
        items = pair[0]
        if not torch.equal(items[0], items[1]):
            self._pairs.append(items)

    def close(
        self,
        kernel: ScaleKernel,
        setting: RoundSetting,
        answered: list[AnsweredPair],
        seed: int,
    ) -> Outcome:
        """See the base class."""
        pairs, answers = [duel.items for duel in answered], [duel.answer for duel in answered]
        model = self._model(kernel, setting.kappa, pairs, answers)
        before = self.pool
        if not pairs:  # nothing was learnt
            return self._outcome(model, setting.penalty, before, before.new_zeros(0))
        if setting.full:
            self.predictor = model
        asked = self._active(torch.cat(pairs))
        best = self.maximise_mean(model, derive_seed(seed, "optimizer", 0), asked).unsqueeze(0)
        beta = setting.beta * setting.penalty**0.5
        witnesses = torch.cat([best, before, asked])
        self.eliminations.append(Elimination(model, witnesses, beta, self.ci_scale))
        self._sample = self._active(self._sample)
        self.pool = self._refill(best, self._active(asked), seed)
        with torch.no_grad():
            difference = model.pair_posterior(torch.stack(pairs)).mean.flatten()
        return self._outcome(model, setting.penalty, before, difference)

    def _outcome(
        self, model: PreferenceGP, penalty: float, before: Tensor, difference: Tensor
    ) -> Outcome:
        """What the round leaves: the pool as it is now, against that ``before`` and itself."""
        sigma = self._sigma(model, penalty, torch.cat([before, self.pool]))
        size = len(before)
        return Outcome(
            max_sigma=float(sigma[:size, :size].max()),
            left_sigma=float(sigma[size:, size:].max()),
            width=float(sigma[size:].max()),
            steepness=steepness(difference),
            share=self.share,
            num_left=None,
        )

    def _active(self, items: Tensor) -> Tensor:
        with torch.no_grad():
            return items[self.slack(items) >= 0]

    def _constraint(self) -> Feasible | None:
        return self.slack if self.eliminations else None

    def _refill(self, best: Tensor, asked: Tensor, seed: int) -> Tensor:
        """A pool of active items; where few are known, by ever smaller steps around them."""
        half = _POOL // 2
        pool = torch.cat([best, self._sample[:half], asked[:half], self._sample[half:]])
        generator = torch.Generator().manual_seed(derive_seed(seed, "witness", 0))
        for scale in _SHRINK:
            if len(pool) >= _THIN:
                break
            noise = torch.randn(_SAMPLE, self.space.dim, generator=generator, dtype=torch.double)
            around = pool[torch.arange(_SAMPLE) % len(pool)]
            pool = torch.cat([pool, self._active(self.space.near(around, noise, scale))])
        return pool[:_POOL]

    def _best_pairs(self, model: PreferenceGP, seed: int) -> Tensor:
        """Pairs of the pool that are largest by a table of their variances, the best one first."""
        size, device = len(self.pool), self.pool.device
        rows = torch.triu_indices(size, size, 1, device=device)
        values = self._sigma(model, 1.0, self.pool)[rows[0], rows[1]]
        noise = torch.rand(len(values), generator=torch.Generator().manual_seed(seed))
        best = argmax_with_random_ties(values, noise.to(values)).unsqueeze(0)
        top = values.topk(min(_PAIR_STARTS, len(values))).indices
        return self.pool[rows[:, torch.cat([best, top])].T]

    def _sigma(self, model: PreferenceGP, penalty: float, items: Tensor) -> Tensor:
        """The ``p x p``-dim table of ``sigma`` on ``p x d``-dim items."""
        with torch.no_grad():
            covariance = model.posterior(items).covariance_matrix
        own = covariance.diagonal()
        variance = own.unsqueeze(-1) + own - 2.0 * covariance
        return (penalty * variance).clamp_min(0.0).sqrt()

    def _model(
        self, kernel: ScaleKernel, kappa: float, pairs: list[Tensor], answers: list[float]
    ) -> PreferenceGP:
        transform = self.space.input_transform()
        options: dict[str, Any] = {"covar_module": kernel, "input_transform": transform}
        if not pairs:
            return PreferenceGP(None, None, variance=kappa, **options)
        shown = torch.stack(pairs)
        told = torch.tensor(answers, dtype=shown.dtype, device=shown.device)
        return PreferenceGP.from_pairs(shown, told, variance=kappa, **options)
