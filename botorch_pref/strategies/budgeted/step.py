r"""One step of a rule that is optimistic about duels, about values, or both."""

from __future__ import annotations

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition import ExpertAugmentedLCB
from botorch_pref.acquisition.base import upper_bound
from botorch_pref.models.borda import UNIFORM_VARIANCE
from botorch_pref.randomness import derive_seed
from botorch_pref.space import Feasible, Maximum, SearchSpace
from botorch_pref.strategies.apart import apart
from botorch_pref.strategies.budgeted.beliefs import Beliefs

RAW_SAMPLES = 512
_STARTS = 64  # the most promising items asked so far, from which searches start


class OptimisticStep:
    r"""What is promising at one step, and where.

    Args:
        beliefs: Both models.
        step: ``t = 1, 2, ...``, on which multiples of standard deviations depend.
        seed: Of the strategy.

    Attributes:
        beta: The multiple of this step.
        seed: Of everything random in this step.
    """

    def __init__(self, beliefs: Beliefs, step: int, seed: int) -> None:
        self.beliefs = beliefs
        self.space: SearchSpace = beliefs.space
        self.seed = derive_seed(seed, "optimizer", step)
        self.beta = beliefs.settings.beta_at(step, self.space.dim)

    def of_duels(self) -> AcquisitionFunction:
        """The upper bound of how often an item wins."""
        return _UpperBound(self.beliefs.borda(), self.beta)

    def of_values(self) -> AcquisitionFunction:
        """The upper bound of the objective, in standard deviations of the values."""
        return ExpertAugmentedLCB(self.beliefs.objective(), None, self.beta, 0.0)  # no expert

    @torch.no_grad()
    def maximum(
        self,
        rule: AcquisitionFunction,
        feasible: Feasible | None = None,
        known: Tensor | None = None,
    ) -> Maximum:
        """Where a rule is largest, but for items not to be measured now; ``known`` ones pass."""
        found = self.searched(rule, feasible, known)
        avoid = self.beliefs.unmeasured_items()
        return apart(found, self.space, rule, self.seed, avoid, feasible)

    def to_duel(self) -> Maximum:
        """Where the upper bound of how often an item wins is largest."""
        return self.searched(self.of_duels())

    @torch.no_grad()
    def searched(
        self,
        rule: AcquisitionFunction,
        feasible: Feasible | None = None,
        known: Tensor | None = None,
    ) -> Maximum:
        """See :meth:`~botorch_pref.space.SearchSpace.maximize`."""
        starts = self._starts(rule, feasible is not None)
        if known is not None:
            starts = torch.cat([starts, known.unsqueeze(-2)])
        return self.space.maximize(
            rule,
            seed=self.seed,
            starts=starts,
            raw_samples=RAW_SAMPLES,
            feasible=feasible,
        )

    @torch.no_grad()
    def ends(self, item: Tensor) -> tuple[float, float]:
        """The bounds of how often an item wins."""
        lower, upper = self.beliefs.borda().interval(item, self.beta)
        return float(lower), float(upper)

    def width(self, item: Tensor) -> float:
        """``beta sd`` of how often an item wins."""
        lower, upper = self.ends(item)
        return 0.5 * (upper - lower)

    @property
    def first_width(self) -> float:
        """``beta sd`` of how often any item wins, before any duel was answered."""
        return self.beta * UNIFORM_VARIANCE**0.5

    def asked(self) -> Tensor:
        """The ``k x d``-dim items that were measured or chosen for duels."""
        return torch.cat([self.beliefs.items("values"), self.beliefs.items("duels")])

    @torch.no_grad()
    def _starts(self, rule: AcquisitionFunction, filtered: bool) -> Tensor:
        """Where to start from: what was asked, of a filter the item that surely passes it."""
        asked = self.asked()
        if not len(asked):
            return asked.unsqueeze(-2)
        rows = rule(asked.unsqueeze(-2)).topk(min(_STARTS, len(asked))).indices
        if filtered and self.beliefs.duels:
            surest = self.beliefs.borda().interval(asked, self.beta)[0].argmax()
            rows = torch.cat([rows, surest.view(1)])
        return asked[rows].unsqueeze(-2)


class _UpperBound(AcquisitionFunction):
    """As BoTorch's ``UpperConfidenceBound``, by what a model of duels computes in one solve."""

    def __init__(self, model: Model, beta: float) -> None:
        super().__init__(model)
        self.beta = beta

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The bounds at ``b x 1 x d``-dim items."""
        return upper_bound(self.model, X, self.beta)


def row_of(found: Maximum) -> int | None:
    """The row of the item that was found, in choices."""
    return None if found.indices is None else found.indices[0]
