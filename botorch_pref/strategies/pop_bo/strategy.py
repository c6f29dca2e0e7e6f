r"""POP-BO's rule: the item that may have the largest advantage over the last one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, Unpack

import torch
from torch import Tensor

from botorch_pref.acquisition.base import checked_beta
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.models import LikelihoodRatioModel
from botorch_pref.queries import Query
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.learning import ModelOptions
from botorch_pref.strategies.pop_bo.confidence import LikelihoodRatioConfidence
from botorch_pref.strategies.pop_bo.laplace import LaplaceAdvantage
from botorch_pref.strategies.pop_bo.reports import (
    Report,
    checked_report,
    interval_width,
    reported_arm,
)
from botorch_pref.strategies.pop_bo.search import (
    Challenger,
    MostLikelyUtility,
    challenger_among,
    challenger_on_box,
)

_CONFIDENCES = ("likelihood-ratio", "laplace")


class POPBO(LaplaceAdvantage):
    r"""Every item meets the first item of the duel before it, Xu et al. (2024).

    The first arm is where an optimist sees the largest advantage over the second arm, which
    is the previous first arm whoever won; at first it is drawn at random. With
    ``confidence="likelihood-ratio"`` the optimist has any utility within the norm bound that
    explains the answers well; where not even that one sees an advantage, the pair of the
    largest answer-free width is asked. With ``"laplace"`` it is the posterior's
    ``h_t(x, x') + beta sigma_t(x, x')``, as Lazzaro et al. (2026) run it.

    Example:
        >>> strategy = POPBO(bounds=bounds, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0)

    Args:
        bounds: ``2 x d``-dim box, or
        choices: ``n x d``-dim table of items, or
        space: a search space.
        confidence: What the optimist believes.
        norm_bound: ``B``, in the norm of the kernel, which has unit variance where it is
            learnt. 6 is the paper's for standardised functions.
        slack: A number, a name or a mapping; see
            :func:`~botorch_pref.likelihood_ratio.slack.slack_rule`.
        adapt_norm_bound: Whether the norm bound is doubled while the answers ask for it.
        value_bound: The largest absolute utility of an asked item, or None.
        report: What is recommended: ``"max-mle"`` the maximiser of the most likely utility,
            ``"max-mle-sampled"`` that of all items asked, ``"min-sigma"`` the paper's
            ``x_{t*}``, ``"min-width"`` the first arm whose advantage was best known when it
            was asked. With "laplace" only the first, and the utility is the posterior's mean.
        beta: With "laplace", multiplies the papers' ``sigma_t``, which is ``sqrt(lambda)``
            times the model's standard deviation; at least 0.
        exclude_identical: With "laplace", whether an item never meets itself, which has the
            index 0 and, where all others have less, is asked again and again.
        **model: ``seed``, ``hyperparameters``, ``kappa``, ``regularizer``,
            ``inducing_points``; see
            :class:`~botorch_pref.strategies.utility.UtilityStrategy`.

    Attributes:
        set: The confidence set of all answers; None with "laplace".
        num_deadlocks: How often no advantage was left.

    Raises:
        ComparisonDataError: If an option is none of these.
        SearchSpaceError: If the domain cannot be used.
        UnsupportedError: If an option is not for this kind of domain.
    """

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        confidence: Literal["likelihood-ratio", "laplace"] = "likelihood-ratio",
        norm_bound: float = 6.0,
        slack: float | str | Mapping[str, Any] = "sqrt",
        adapt_norm_bound: bool = True,
        value_bound: float | None = None,
        report: Report = "max-mle",
        beta: float = 1.0,
        exclude_identical: bool = True,
        **model: Unpack[ModelOptions],
    ) -> None:
        super().__init__(bounds, choices, space, **model)
        if confidence not in _CONFIDENCES:
            raise ComparisonDataError(
                f"`confidence` must be one of {', '.join(_CONFIDENCES)}, got {confidence!r}."
            )
        if not isinstance(exclude_identical, bool):
            raise ComparisonDataError(
                f"`exclude_identical` must be True or False, got {exclude_identical!r}."
            )
        self.confidence = confidence
        self.set = LikelihoodRatioConfidence(
            self.learner, norm_bound, slack, adapt_norm_bound, value_bound
        )
        self.report = checked_report(report)
        if confidence == "laplace" and report != "max-mle":
            raise ComparisonDataError(f'`report` {report!r} needs `confidence="likelihood-ratio"`.')
        self.beta = checked_beta(beta)
        self.exclude_identical = exclude_identical
        self.num_deadlocks = 0
        self.widths: list[float] = []

    @classmethod
    def paper(cls, **kwargs: Any) -> Self:
        r"""The setting of the experiments of Lazzaro et al. (2026).

        The Laplace posterior under Matern-5/2 with lengthscale 0.1 on the unit cube,
        ``lambda = 0.05``, ridge ``lambda``, ``beta = 1``, identical pairs allowed.

        Args:
            **kwargs: Passed to the constructor.

        Returns:
            The strategy.
        """
        fixed = {"kernel": "matern", "lengthscale": 0.1, "penalty": 0.05}
        setting = {"hyperparameters": fixed, "kappa": 1.0, "exclude_identical": False}
        return cls(**{"confidence": "laplace", **setting, **kwargs})

    def recommend(self) -> Tensor:
        r"""The reported item; on a box "max-mle" is optimised over all of it.

        Raises:
            ComparisonDataError: On a box, if nothing was asked yet.
        """
        if self.confidence == "laplace":
            return super().recommend()
        asked = self.asked_items()
        if self.space.choices is not None:
            return self.space.choices[self.recommend_index()]
        if not len(asked):
            raise ComparisonDataError("Nothing was answered yet, so nothing is recommended.")
        if self.report == "max-mle":
            rule = MostLikelyUtility(self.set.model())
            return self._best_item(rule, self._seed("report"))
        query, arm = self._reported()
        return query.items[arm].to(asked)

    def recommend_index(self) -> int:
        """The row of the reported item in the choices."""
        if self.confidence == "laplace" or self.space.choices is None:
            return super().recommend_index()
        if self.report == "max-mle" or not self.num_answers:
            return self._best_row(self.set.model().mle(self.space.table))
        query, arm = self._reported()
        return int(query.indices[arm])

    def _reported(self) -> tuple[Query, int]:
        number, arm = reported_arm(self.report, self.set.model(), self.history, self.widths)
        return self.history[number].query, arm

    def _refit(self) -> None:
        super()._refit()
        if self.confidence != "laplace":
            self.set.adapt()

    def _among_choices(self, row: int) -> int:
        if self.confidence == "laplace":
            return super()._among_choices(row)
        table, taken = self.space.table, self._barred_table()[row]
        model = self.set.believed(self._open_duels())
        found = challenger_among(model, table, table[row : row + 1], taken, self._best_row)
        self._note(model, found, table[row])
        assert found.row is not None
        return found.row

    def _on_a_box(self, reference: Tensor) -> Tensor:
        if self.confidence == "laplace":
            return super()._on_a_box(reference)
        model, taken = self.set.believed(self._open_duels()), self._taken(reference)
        found = challenger_on_box(
            model,
            self.space,
            reference.unsqueeze(0),
            lambda items: self._same(items.unsqueeze(-2), taken).any(-1),
            self._seed("optimizer"),
        )
        self._note(model, found, reference)
        return found.item

    def _note(self, model: LikelihoodRatioModel, found: Challenger, reference: Tensor) -> None:
        self.num_deadlocks += found.deadlock
        if self.report == "min-width":
            self.widths.append(interval_width(model, torch.stack([found.item, reference])))

    def _options(self) -> dict[str, Any]:
        own = {
            "confidence": self.confidence,
            **self.set.options(),
            "report": self.report,
            "beta": self.beta,
            "exclude_identical": self.exclude_identical,
        }
        return {**super()._options(), **own}

    def _progress(self) -> dict[str, Any]:
        own = {
            "norm_bound": self.set.norm_bound,
            "num_deadlocks": self.num_deadlocks,
            "widths": list(self.widths),
        }
        return {**super()._progress(), **own}

    def _restore(self, progress: dict[str, Any]) -> None:
        super()._restore(progress)
        self.set.norm_bound = progress["norm_bound"]
        self.num_deadlocks = progress["num_deadlocks"]
        self.widths = list(progress["widths"])
