r"""COMP-GP-UCB's rule: optimistic values among the items that cheap duels do not rule out."""

from __future__ import annotations

import math

import torch
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction
from botorch_pref.acquisition.utils import IntervalModel, upper_bound
from botorch_pref.data.checks import checked_nonnegative
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError


class ComparisonFilteredUCB(ItemAcquisitionFunction):
    r"""``mean(x) + beta sd(x)`` of measured values, maximised where duels do not rule out an item.

    The filter is :meth:`feasibility`, lines 8 and 9 of Algorithm 1 of Xu, Joshi, Singh and
    Dubrawski (2020): an item may be measured if the upper bound on its probability to win against
    a random item is at least the lower bound that the best item reaches, minus a slack for the
    disagreement of values and duels,

        ``phi(x) = mean_r(x) + beta sd_r(x) - lower_bound + slack >= 0``.

    Values are in the units of the value model; ``phi`` is a difference of probabilities. With the
    default lower bound, the largest one of the items that were chosen for duels, that item is
    feasible, so there always is one.

    Example:
        >>> rule = ComparisonFilteredUCB(gp, borda, beta=2.0, borda_slack=0.02)
        >>> starts = borda.items.unsqueeze(-2)
        >>> found = SearchSpace(bounds).maximize(rule, starts=starts, feasible=rule.feasibility)
    """

    def __init__(
        self,
        value_model: Model,
        borda_model: Model,
        beta: float = 2.0,
        *,
        borda_slack: float = 0.0,
        lower_bound: float | None = None,
    ) -> None:
        r"""Set both models and the filter.

        Args:
            value_model: A BoTorch model of measured values with one output and a Gaussian
                posterior.
            borda_model: The model of duels against random items.
            beta: Multiplies both standard deviations, as in the paper; BoTorch's
                ``UpperConfidenceBound`` takes its square.
            borda_slack: ``L_2 zeta``, at least 0: by how much, as a probability, the best item by
                value may fall short of the best by duels.
            lower_bound: A lower bound on the probability of the best item; by default the
                largest lower bound of all items in ``borda_model``.

        Raises:
            ComparisonDataError: If an option is out of range.
            UnsupportedError: If a model has several outputs, or the other one is no ``BordaGP``, or
                a batch of them.
        """
        super().__init__(model=value_model)
        if value_model.num_outputs != 1:
            raise UnsupportedError(
                f"`value_model` must have one output, but has {value_model.num_outputs}."
            )
        if not isinstance(borda_model, IntervalModel) or borda_model.batch_shape:
            raise UnsupportedError("`borda_model` must be a BordaGP, and not a batch of them.")
        self.borda_model = borda_model
        self.borda_slack = checked_nonnegative("borda_slack", borda_slack)
        self.beta = checked_nonnegative("beta", beta)
        if lower_bound is None:
            with torch.no_grad():
                lower_bound = float(borda_model.interval(borda_model.items, self.beta)[0].amax())
        elif math.isnan(lower_bound):
            raise ComparisonDataError("`lower_bound` must be a number, not nan.")
        self.lower_bound = float(lower_bound)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The ``b``-dim bounds of ``b x 1 x d``-dim items, in units of the value model."""
        return upper_bound(self.model, X, self.beta)

    def feasibility(self, X: Tensor) -> Tensor:
        r"""``phi(x)``, at least 0 where an item may be measured.

        Args:
            X: ``... x d``-dim items.

        Returns:
            ``...``-dim differences of probabilities, differentiable.
        """
        _, upper = self.borda_model.interval(X, self.beta)
        return upper - self.lower_bound + self.borda_slack
