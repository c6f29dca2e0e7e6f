r"""Expected improvement times the probability that an expert accepts."""

from __future__ import annotations

from typing import Literal

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction
from botorch_pref.acquisition.expert_belief import ExpertBelief
from botorch_pref.acquisition.standard_units import StandardUnits
from botorch_pref.acquisition.utils import TOLERANCE
from botorch_pref.exceptions import ComparisonDataError

Acceptance = Literal["mle", "upper"]


class LogHumanConstrainedEI(ItemAcquisitionFunction):
    r"""``log EI(x) + log P(x accepted)``, the logarithm of HCEI.

    Xu et al. (2024b), eq. (70), which leaves open which probability it is. The improvement is in
    the objective's standardised units, so the value does not depend on the units of ``best_f``.

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
        acceptance: Acceptance = "mle",
        label_beta: float = 1.0,
        x_ref: Tensor | None = None,
        tolerance: float = TOLERANCE,
    ) -> None:
        r"""Set both models and the value to improve on.

        Args:
            objective_model: A BoTorch model of measured values with one output.
            label_model: As of :class:`ExpertAugmentedLCB`.
            best_f: The largest value so far, as it was measured.
            acceptance: The latent whose probability is taken: ``"mle"`` the most likely one (of
                a Gaussian latent the posterior mean), ``"upper"`` the largest one allowed.
            label_beta: Multiplies the standard deviation of a Gaussian latent for ``"upper"``.
            x_ref: ``d``-dim item that the latent is compared with, where pairs were compared.
            tolerance: The gap to which ``"upper"`` is solved, in logits.

        Raises:
            ComparisonDataError: If an option is out of range.
            UnsupportedError: If a model has another form, or the objective's no units.
        """
        super().__init__(model=objective_model)
        if acceptance not in ("mle", "upper"):
            raise ComparisonDataError(f'`acceptance` must be "mle" or "upper", not {acceptance!r}.')
        units = StandardUnits(objective_model)
        best = torch.as_tensor(best_f).to(units.offset).detach()
        if best.numel() != 1 or not bool(best.isfinite()):
            raise ComparisonDataError(f"`best_f` must be one finite number, not {best_f!r}.")
        self.acceptance = acceptance
        self.log_ei = LogExpectedImprovement(
            objective_model, best_f=units.evaluate(best.view(1, 1)), posterior_transform=units
        )
        self.belief = ExpertBelief(
            label_model, label_beta=label_beta, x_ref=x_ref, tolerance=tolerance
        )

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""The logarithm of the product.

        Args:
            X: ``b x 1 x d``-dim items.

        Returns:
            ``b``-dim values.
        """
        belief, items = self.belief, X.squeeze(-2)
        latent = belief.estimate(items) if self.acceptance == "mle" else belief.upper(items)
        return self.log_ei(X) + belief.log_probability(latent)
