r"""COBOL's rule: an optimistic objective plus the optimistic latent of an expert's labels."""

from __future__ import annotations

import math

from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction
from botorch_pref.acquisition.optimistic_acceptance import OptimisticAcceptance
from botorch_pref.acquisition.standard_units import StandardUnits, standardised_posterior
from botorch_pref.data.checks import checked_nonnegative
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihood_ratio.confidence_set import FINAL


class ExpertAugmentedLCB(ItemAcquisitionFunction):
    r"""``mean(x) + beta sd(x) + weight upper(x)``, to be maximised.

    The rule (5) of Xu et al. (2024b), *Principled Bayesian Optimisation in Collaboration with Human
    Experts*, with all signs changed: they minimise a lower bound, and their latent is large where
    the expert rejects. Mean and standard deviation are the objective's in standardised units
    (:class:`~botorch_pref.acquisition.standard_units.StandardUnits`) without observation noise, and
    ``upper`` is the largest latent that the expert's labels allow, in logits: 0 is where accepting
    is as likely as rejecting; of a Gaussian latent it is one deviation above the mean. With
    ``weight=0`` no bound is solved: it is the plain optimistic rule, or with a negative ``beta``
    the pessimistic one.

    The value has a kink at every labelled item, and far from labels ``upper`` is flat: use several
    restarts, and the best item of the plain rule among them.

    Example:
        >>> rule = ExpertAugmentedLCB(gp, labels, beta=1.0, weight=1.0)
        >>> item, _ = optimize_acqf(rule, bounds, q=1, num_restarts=4, raw_samples=256)
    """

    def __init__(
        self,
        objective_model: Model,
        label_model: Model | None = None,
        beta: float = 1.0,
        weight: float | None = None,
        *,
        x_ref: Tensor | None = None,
        tolerance: float = FINAL,
    ) -> None:
        r"""Set both models and the trade-off.

        Args:
            objective_model: A BoTorch model of measured values with one output.
            label_model: The expert's model, with the label 1 for accept: a
                :class:`~botorch_pref.models.LikelihoodRatioModel`, a
                :class:`~botorch_pref.models.BernoulliGP`, or, where pairs are compared, a
                :class:`~botorch_pref.models.PreferenceGP`; may be None if ``weight`` is 0.
            beta: Multiplies the standard deviation, as in the paper; BoTorch's
                ``UpperConfidenceBound`` takes its square.
            weight: Standardised units of the objective that a logit is worth, the paper's
                ``lambda``; at least 0. By default 1, and 0 without a label model.
            x_ref: ``d``-dim item that the latent is compared with, where pairs were compared.
            tolerance: The gap to which ``upper`` is solved, in logits. 1e-6 is enough for a
                line search, 1e-4 to compare raw samples, infinity for a first choice among very
                many: then nothing is solved, and there are no gradients.

        Raises:
            ComparisonDataError: If an option is out of range, or there is a ``weight`` and no
                label model.
            UnsupportedError: If a model has another form, or the objective's no units.
        """
        super().__init__(model=objective_model)
        StandardUnits(objective_model)  # raises
        if isinstance(beta, bool) or not isinstance(beta, int | float) or not math.isfinite(beta):
            raise ComparisonDataError(f"`beta` must be a finite number, not {beta!r}.")
        if weight is None:
            weight = 0.0 if label_model is None else 1.0
        self.weight = checked_nonnegative("weight", weight)
        if label_model is None and weight:
            raise ComparisonDataError("Give `label_model`, or a `weight` of 0.")
        self.beta = float(beta)
        self.belief = None
        if label_model is not None:
            self.belief = OptimisticAcceptance(label_model, x_ref=x_ref, tolerance=tolerance)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The ``b``-dim values of ``b x 1 x d``-dim items, in standardised units."""
        mean, deviation = standardised_posterior(self.model, X)
        value = (mean + self.beta * deviation).squeeze(-1)
        if self.belief is None or not self.weight:
            return value
        return value + self.weight * self.belief.upper(X.squeeze(-2))
