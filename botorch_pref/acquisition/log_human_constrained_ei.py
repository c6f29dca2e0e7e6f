r"""Expected improvement times the probability that an expert accepts."""

from __future__ import annotations

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction
from botorch_pref.acquisition.optimistic_acceptance import OptimisticAcceptance
from botorch_pref.acquisition.standard_units import StandardUnits
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihoods import link_of


class LogHumanConstrainedEI(ItemAcquisitionFunction):
    r"""``log EI(x) + log P(x accepted)``, the logarithm of HCEI.

    Xu et al. (2024b), eq. (70), with the probability at the most likely latent of the labels, or
    at the posterior mean of a Gaussian one. The improvement is in the objective's standardised
    units, so the value does not depend on the units of ``best_f``.

    Example:
        >>> rule = LogHumanConstrainedEI(gp, labels, best_f=Y.max())
        >>> item, _ = optimize_acqf(rule, bounds, q=1, num_restarts=4, raw_samples=256)
    """

    def __init__(
        self,
        objective_model: Model,
        label_model: Model,
        best_f: float | Tensor,
        *,
        x_ref: Tensor | None = None,
    ) -> None:
        r"""Set both models and the value to improve on.

        Args:
            objective_model: A BoTorch model of measured values with one output.
            label_model: As of :class:`ExpertAugmentedLCB`.
            best_f: The largest value so far, as it was measured.
            x_ref: ``d``-dim item that the latent is compared with, where pairs were compared.

        Raises:
            ComparisonDataError: If an option is out of range.
            UnsupportedError: If a model has another form, or the objective's no units.
        """
        super().__init__(model=objective_model)
        units = StandardUnits(objective_model)
        best = torch.as_tensor(best_f).to(units.offset).detach()
        if best.numel() != 1 or not bool(best.isfinite()):
            raise ComparisonDataError(f"`best_f` must be one finite number, not {best_f!r}.")
        self.log_ei = LogExpectedImprovement(
            objective_model, best_f=units.evaluate(best.view(1, 1)), posterior_transform=units
        )
        self.belief = OptimisticAcceptance(label_model, x_ref=x_ref)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The ``b``-dim logarithms of the product at ``b x 1 x d``-dim items."""
        latent = self.belief.estimate(X.squeeze(-2))
        return self.log_ei(X) + link_of(self.belief.model).log_cdf(latent)
