r"""PF-TS: one Thompson path of the utility for each arm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, cast

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from botorch.sampling.pathwise import draw_matheron_paths
from botorch.utils.transforms import t_batch_mode_transform
from torch import Size, Tensor

from botorch_pref.acquisition.base import PairAcquisitionFunction
from botorch_pref.randomness import derive_seed, seeded


class DuelingThompsonSampling(PairAcquisitionFunction):
    r"""``f1(x) + f2(x')`` for two independent posterior paths ``f1, f2``.

    The sum separates, so maximising it jointly over a pair maximises each path over its
    own arm: Algorithm 1 of Lazzaro et al., *A Finite Time Analysis of Thompson Sampling
    for Bayesian Optimization with Preferential Feedback* (2026), by its Proposition 1.
    The draws are fixed at construction, so the value is a deterministic function.

    Example:
        >>> rule = DuelingThompsonSampling(model, seed=0)
        >>> pair, _ = optimize_acqf(rule, bounds, q=2, num_restarts=4, raw_samples=256)
    """

    def __init__(self, model: Model, scale: float = 1.0, seed: int | None = None) -> None:
        r"""Draw the two paths.

        Args:
            model: A model that ``draw_matheron_paths`` knows:
                :class:`~botorch_pref.models.PreferenceGP`, or any exact GP.
            scale: What the posterior standard deviation is multiplied by; 1 is Bayesian
                Thompson sampling.
            seed: The seed of the draws; by default they come from torch's global
                generator. Draws of this package's models are the same on every device.
        """
        super().__init__(model=model)
        self.scale = scale
        self.seed = int(torch.randint(2**62, ())) if seed is None else seed
        self.redraw()

    def redraw(self, draw: int = 0) -> None:
        r"""Replace both paths; of one rule the same number ``draw`` is the same draw."""
        self._draw = draw
        device = next(self.model.parameters(), torch.empty(0)).device
        with seeded(derive_seed(self.seed, "pair", draw), device):
            self.paths = [draw_matheron_paths(self.model, Size()) for _ in range(2)]

    def set_pending_pairs(self, pairs: Tensor | None) -> None:
        """Draw new paths: the pairs of a batch are independent of each other."""
        # BoTorch may improve a batch pair by pair, with all others pending each time.
        self.redraw(0 if pairs is None else max(len(pairs), self._draw + 1))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moving a module cannot move paths, which are drawn again."""
        super()._apply(fn, recurse)
        self.redraw(self._draw)
        return self

    @t_batch_mode_transform(expected_q=2)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The ``b``-dim sums of both paths at ``b x 2 x d``-dim pairs."""
        return self.arm(0, X[..., 0, :]) + self.arm(1, X[..., 1, :])

    def arm(self, index: int, X: Tensor) -> Tensor:
        r"""The ``...``-dim values of the path of arm 0 or 1 at ``... x d``-dim items."""
        path = self.paths[index]
        if self.model.batch_shape:
            value = path(X.unsqueeze(-2)).squeeze(-1)
        else:  # one kernel matrix for all items instead of one for each
            value = path(X.reshape(-1, X.shape[-1])).view(X.shape[:-1])
        if self.scale != 1.0:
            posterior = cast(GPyTorchPosterior, self.model.posterior(X.unsqueeze(-2)))
            mean = posterior.mean[..., 0, 0]
            value = mean + self.scale * (value - mean)
        return value


class ArmPath(AcquisitionFunction):
    """The path of one arm as an acquisition function of single items."""

    def __init__(self, rule: DuelingThompsonSampling, arm: int) -> None:
        super().__init__(rule.model)
        self.rule, self.arm = rule, arm

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The path at ``b x 1 x d``-dim items."""
        return self.rule.arm(self.arm, X.squeeze(-2))
