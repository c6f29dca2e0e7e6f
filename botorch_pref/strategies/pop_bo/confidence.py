r"""The likelihood-ratio confidence set of a strategy's answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_pref.data import Comparisons
from botorch_pref.data.blocks import match_items
from botorch_pref.data.checks import checked_positive
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference import Block
from botorch_pref.likelihood_ratio.choices import choice_block
from botorch_pref.likelihood_ratio.slack import slack_rule, slack_to_json
from botorch_pref.likelihoods import LogitLikelihood
from botorch_pref.models import LikelihoodRatioModel
from botorch_pref.models.judgement_blocks import duels_block
from botorch_pref.queries import Choice, Duel
from botorch_pref.strategies.learner import UtilityLearner


class LikelihoodRatioConfidence:
    r"""The set of all answers, with a norm bound that only grows.

    Items with equal coordinates are one here, also among choices, and a duel of such items
    says nothing. Where hyperparameters are learnt, the kernel has unit variance, and the
    norm bound is the only scale; where they are fixed, the kernel is as it was given.

    Args:
        learner: Has the data and the kernel.
        norm_bound: The bound to begin with.
        slack: See :func:`~botorch_pref.likelihood_ratio.slack.slack_rule`; must be named.
        adapt_norm_bound: Whether the bound is doubled while the answers ask for it.
        value_bound: The largest absolute utility, or None.

    Raises:
        ComparisonDataError: If an option is out of range.
    """

    def __init__(
        self,
        learner: UtilityLearner,
        norm_bound: float,
        slack: float | str | Mapping[str, Any],
        adapt_norm_bound: bool,
        value_bound: float | None,
    ) -> None:
        if not isinstance(adapt_norm_bound, bool):
            raise ComparisonDataError(
                f"`adapt_norm_bound` must be True or False, got {adapt_norm_bound!r}."
            )
        self.learner = learner
        self.first_norm_bound = self.norm_bound = checked_positive("norm_bound", norm_bound)
        self.slack = slack_to_json(slack_rule(slack))
        self.adapts = adapt_norm_bound
        self.value_bound = (
            None if value_bound is None else checked_positive("value_bound", value_bound)
        )
        self._model: LikelihoodRatioModel | None = None
        self._key: tuple[object, ...] = ()

    def model(self) -> LikelihoodRatioModel:
        """The set of all answers so far."""
        key = (self._num_judgements(), str(self.learner.values), self.norm_bound)
        if self._model is None or self._key != key:
            self._model, self._key = self._build(*self._judged()), key
        return self._model

    def adapt(self) -> None:
        """Double the norm bound if the answers ask for it; the bound never shrinks."""
        if self.adapts:
            adapted = self.model().adapt_norm_bound()
            if adapted.norm_bound > self.norm_bound:
                self.norm_bound = adapted.norm_bound

    @torch.no_grad()
    def believed(self, duels: Sequence[Duel]) -> LikelihoodRatioModel:
        """The set, were duels answered as the most likely utility has it."""
        model = self.model()
        items = [duel.items.to(model.items) for duel in duels]
        pairs = [pair for pair in items if not torch.equal(pair[0], pair[1])]
        if not pairs:
            return model
        utilities = model.mle(torch.stack(pairs))
        answers = 0.5 * (1.0 + (utilities[..., 0] - utilities[..., 1]).sign())
        return model.condition_on_pairs(torch.stack(pairs), answers)

    def options(self) -> dict[str, Any]:
        """The arguments beside the learner, as plain JSON."""
        return {
            "norm_bound": self.first_norm_bound,
            "slack": self.slack,
            "adapt_norm_bound": self.adapts,
            "value_bound": self.value_bound,
        }

    def _kernel(self) -> Kernel:
        scaled = self.learner.covar_module()
        return scaled.base_kernel if self.learner.learns else scaled

    def _num_judgements(self) -> int:
        return self.learner.data.num_comparisons

    def _judged(self) -> tuple[Tensor, list[Block]]:
        """The distinct items, and what was judged of them."""
        data = self.learner.data
        pairs = data.datapoints[data.pairs]
        apart = (pairs[:, 0] != pairs[:, 1]).any(-1)
        asked = Comparisons.from_pairs(pairs[apart], data.wins[apart])
        return asked.datapoints, [duels_block(asked, LogitLikelihood())]

    def _build(self, items: Tensor, blocks: list[Block]) -> LikelihoodRatioModel:
        space = self.learner.space
        return LikelihoodRatioModel(
            items,
            blocks,
            covar_module=self._kernel(),
            norm_bound=self.norm_bound,
            slack=self.slack,
            box=self.value_bound,
            input_transform=space.input_transform(),
        )


class ChoiceConfidence(LikelihoodRatioConfidence):
    """The set of all choices of a favourite; arguments as of the base class.

    Attributes:
        told: The ``k x d``-dim items of every question, and its favourite's position.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.told: list[tuple[Tensor, int]] = []

    @torch.no_grad()
    def believed_choices(self, questions: Sequence[Choice]) -> LikelihoodRatioModel:
        """The set, were questions answered as the most likely utility has it."""
        model = self.model()
        if not questions:
            return model
        items = [question.items.to(model.items) for question in questions]
        believed = [(shown, int(model.mle(shown).argmax())) for shown in items]
        return self._build(*self._choices([*self.told, *believed]))

    def _num_judgements(self) -> int:
        return len(self.told)

    def _judged(self) -> tuple[Tensor, list[Block]]:
        return self._choices(self.told)

    def _choices(self, told: Sequence[tuple[Tensor, int]]) -> tuple[Tensor, list[Block]]:
        none = self.learner.space.bounds[:0]
        shown = torch.cat([none, *(items for items, _ in told)])
        rows, fresh = match_items(none, shown)
        sizes = [len(items) for items, _ in told]
        blocks = []
        for size in sorted(set(sizes)):
            alike = [k for k, other in enumerate(sizes) if other == size]
            questions = torch.stack([rows.split(sizes)[k] for k in alike])
            favourites = torch.tensor([told[k][1] for k in alike], device=rows.device)
            blocks.append(choice_block(questions, favourites))
        return shown[fresh], blocks
