r"""MF-GP-UCB's rule: the smaller of what two fidelities promise."""

from __future__ import annotations

import torch
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction, checked_beta, upper_bound
from botorch_pref.data.checks import checked_positive
from botorch_pref.exceptions import UnsupportedError


class MultiFidelityUCB(ItemAcquisitionFunction):
    r"""The smaller of two upper bounds, of values and of a cheap function.

        ``min(mean(x) + beta sd(x), mean_c(x) + beta_c sd_c(x) + zeta)``

    If the cheap function is nowhere further than ``zeta`` below the objective, both terms are upper
    bounds of the objective, and so is the smaller one (Kandasamy, Dasarathy, Oliva, Schneider and
    Poczos 2016, eq. (3), with two fidelities). It has a kink where they are equal.

    Example:
        >>> rule = MultiFidelityUCB(gp, cheap_gp, beta=2.0, zeta=0.1)
        >>> found = SearchSpace(bounds).maximize(rule)
    """

    _instead = (
        "chooses one item at a time and has no pending points. Build the rule on models that are "
        "conditioned on what is pending."
    )
    beta: Tensor
    cheap_beta: Tensor
    zeta: Tensor

    def __init__(
        self,
        value_model: Model,
        cheap_model: Model,
        beta: float,
        *,
        zeta: float,
        cheap_beta: float | None = None,
    ) -> None:
        r"""Fix both models and the bias.

        Args:
            value_model: A BoTorch model of measured values with one output and a Gaussian
                posterior.
            cheap_model: One of the cheap function, in the same units; for duels a ``BordaGP``.
            beta: Multiplies the standard deviation of values; BoTorch's ``UpperConfidenceBound``
                takes its square.
            zeta: By how much the objective may exceed the cheap function, at least 0.
            cheap_beta: Multiplies the standard deviation of the cheap function; ``beta`` by
                default.

        Raises:
            ComparisonDataError: If an option is out of range.
            UnsupportedError: If a model has several outputs.
        """
        super().__init__(model=value_model)
        for name, model in (("value_model", value_model), ("cheap_model", cheap_model)):
            if model.num_outputs != 1:
                raise UnsupportedError(
                    f"`{name}` must have one output, but has {model.num_outputs}."
                )
        self.cheap_model = cheap_model
        options = {
            "beta": checked_beta(beta),
            "cheap_beta": checked_beta(beta if cheap_beta is None else cheap_beta, "cheap_beta"),
            "zeta": 0.0 if zeta == 0 else checked_positive("zeta", zeta),
        }
        for name, value in options.items():
            self.register_buffer(name, torch.tensor(value, dtype=torch.double))

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""The smaller bound.

        Args:
            X: ``b x 1 x d``-dim items.

        Returns:
            ``b``-dim values, in units of the value model.
        """
        cheap = upper_bound(self.cheap_model, X, self.cheap_beta) + self.zeta
        return torch.minimum(upper_bound(self.model, X, self.beta), cheap)
