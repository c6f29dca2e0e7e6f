r"""The optimistic latent of an expert's labels alone."""

from __future__ import annotations

from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction
from botorch_pref.acquisition.expert_belief import ExpertBelief
from botorch_pref.acquisition.utils import TOLERANCE


class OptimisticAcceptance(ItemAcquisitionFunction):
    r"""``upper(x)``, the largest latent that an expert's labels allow.

    The limit of :class:`ExpertAugmentedLCB` for a large weight. COBOL's guarantee against harm
    holds for it, too (Xu et al. 2024b), and where no item is feasible for their Alg. 2, its best
    item is the least infeasible one.

    Example:
        >>> item, _ = optimize_acqf(OptimisticAcceptance(labels), bounds, q=1, ...)
    """

    def __init__(
        self, label_model: Model, *, x_ref: Tensor | None = None, tolerance: float = TOLERANCE
    ) -> None:
        r"""Set the model; arguments and errors as of :class:`ExpertAugmentedLCB`."""
        super().__init__(model=label_model)
        self.belief = ExpertBelief(label_model, x_ref=x_ref, tolerance=tolerance)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """``b``-dim latents, in logits, of ``b x 1 x d``-dim items."""
        return self.belief.upper(X.squeeze(-2))
