r"""The settings of the cost-aware knowledge gradient, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from botorch_pref.acquisition.knowledge_gradient import REPEATS
from botorch_pref.data.checks import check_count, checked_positive
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.strategies.budgeted import BudgetOptions, BudgetSettings


class CostAwareKGOptions(BudgetOptions, total=False):
    r"""The options of :class:`~botorch_pref.strategies.CostAwareKG`; see :class:`Settings`."""

    hyperparameters: Literal["evidence"] | Mapping[str, Any]
    bias: float | None
    noise: float | None
    repeats: tuple[int, ...]
    confirm: bool


@dataclass(frozen=True)
class Settings(BudgetSettings):
    r"""What a cost-aware knowledge gradient is set to.

    Attributes:
        hyperparameters: ``"evidence"`` to learn them from standardised values whenever duels or
            values have grown by a tenth; or fixed values, in units of the values, as in
            :class:`~botorch_pref.strategies.learner.UtilityLearner`, where the prior mean is 0,
            and ``"link_scale"`` is 1 unless it is given as well.
        bias: The variance of the bias of duels relative to that of the utility, see
            :class:`~botorch_pref.kernels.ComparisonBiasKernel`; None to learn it, 0 to trust
            duels as much as values. With fixed hyperparameters None is 0.
        noise: The variance of the noise of a value, in squared standard deviations of the values,
            or in squared units of these with fixed hyperparameters; None to learn it.
        repeats: The numbers of equal answers of which the best is looked for.
        confirm: Whether the price of one value is kept to the end, to measure what is
            recommended then. Only with a budget, of which the initial design leaves that much.
    """

    hyperparameters: Any = "evidence"
    bias: float | None = None
    noise: float | None = 1e-4
    repeats: tuple[int, ...] = REPEATS
    confirm: bool = True

    @property
    def learns(self) -> bool:
        """Whether hyperparameters are learnt."""
        return isinstance(self.hyperparameters, str)

    def _check(self) -> None:
        super()._check()
        if self.learns and self.hyperparameters != "evidence":
            raise ComparisonDataError(
                f"`hyperparameters` must be evidence or values, not {self.hyperparameters!r}."
            )
        if self.bias is not None and self.bias != 0:
            checked_positive("bias", self.bias)
        if self.noise is not None:
            checked_positive("noise", self.noise)
        elif not self.learns:
            raise ComparisonDataError("`noise` must be given where `hyperparameters` are.")
        if not isinstance(self.repeats, tuple | list) or not self.repeats:
            raise ComparisonDataError(f"`repeats` must be whole numbers, not {self.repeats!r}.")
        for number in self.repeats:
            check_count("repeats", number, 1)
        if not isinstance(self.confirm, bool):
            raise ComparisonDataError(f"`confirm` must be true or false, not {self.confirm!r}.")

    def to_json(self) -> dict[str, Any]:
        """See the base class."""
        return super().to_json() | {"repeats": list(self.repeats)}
