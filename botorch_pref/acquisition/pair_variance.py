r"""MR-LPF's rule: the pair whose difference has the largest posterior variance."""

from __future__ import annotations

import torch
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import PairAcquisitionFunction
from botorch_pref.acquisition.utils import difference_moments


class PairVariance(PairAcquisitionFunction):
    r"""The posterior variance of ``f(x) - f(x')``.

    Eq. (11) of Kayal et al., *Bayesian Optimization from Human Feedback: Near-Optimal
    Regret Bounds* (2025), which needs ``PreferenceGP(variance=kappa)``: its variance does
    not depend on the answers. The value is ``1 / lambda`` times the square of the paper's
    ``sigma`` where ``lambda`` is one over the output scale. It is the variance, not its
    root, that has a gradient at ``x = x'``: zero, as the value.

    Example:
        >>> rule = PairVariance(PreferenceGP(datapoints, comparisons, variance=4.0))
        >>> pair, _ = optimize_acqf(rule, bounds, q=2, num_restarts=4, raw_samples=256)
    """

    def __init__(self, model: Model) -> None:
        """Take a model of the utility with a joint ``posterior``."""
        super().__init__(model=model)
        self.conditioned = model  # on what is pending

    def set_pending_pairs(self, pairs: Tensor | None) -> None:
        r"""Condition the model on pairs that are asked but not answered.

        Their answer is taken to be "no preference". For ``variance=kappa`` the answer does
        not matter, so this is exact; for ``variance="laplace"`` it moves the mode, and the
        variance that an actual answer will leave is only approximated.
        """
        self.conditioned = self.model_after(pairs, lambda X: torch.full_like(X[:, 0, 0], 0.5))

    @t_batch_mode_transform(expected_q=2)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The ``b``-dim variances of ``b x 2 x d``-dim pairs, in squared units of the utility."""
        return difference_moments(self.conditioned, X)[1]
