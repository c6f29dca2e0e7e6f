r"""``botorch-pref ask``: a person answers duels."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from matplotlib.figure import Figure

from botorch_pref.cli.parser import UsageError
from botorch_pref.cli.session import Session
from botorch_pref.plotting.style import save_figure
from botorch_pref.plotting.win_probabilities import plot_win_probabilities
from botorch_pref.queries import Query
from botorch_pref.randomness import derive_seed
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.base import Strategy, UtilityStrategy
from botorch_pref.strategies.max_min_lcb import MaxMinLCBStrategy
from botorch_pref.strategies.mr_lpf import MRLPF
from botorch_pref.strategies.registry import (
    DEFAULT_STRATEGY,
    get_strategy,
    strategy_name,
    strategy_names,
)
from botorch_pref.study.recommendation import Recommendation
from botorch_pref.study.study import Study

_HORIZON = 50
_NO_DOUBT = 1e-9  # an epsilon that is reached only once a single item is left
_BAR = 20
_WIDTH = 88
_TOP = 8  # items in the figure


def ask(args: argparse.Namespace) -> int:
    """Run the command; see :meth:`Session.run`."""
    return _Ask(args).run()


class _Ask(Session):
    domain_options = "--bounds or --choices"
    greeting = "{name}: {strategy}, {answers} so far. Which is better?"
    settled = False  # by the stopping rule, when last seen

    def begin(self, space: SearchSpace) -> Strategy:
        args = self.args
        name = args.strategy or DEFAULT_STRATEGY
        if name not in (names := strategy_names(UtilityStrategy)):
            raise UsageError(f"--strategy: {name!r} is none of {', '.join(names)}.")
        options: dict[str, Any] = {"seed": args.seed or 0, "horizon": args.horizon or _HORIZON}
        # With one candidate left, either would ask for duels of an item with itself.
        if name == "mr-lpf":
            return MRLPF(space=space, epsilon=_NO_DOUBT, **options)
        if args.horizon is not None:
            raise UsageError(f"--horizon: {name} does not plan for a number of duels.")
        if name == "max-min-lcb":
            return MaxMinLCBStrategy(space=space, seed=options["seed"], candidate_filter=False)
        return get_strategy(name, space, **options)

    def check(self, study: Study, name: str) -> None:
        args, kind = self.args, type(study.strategy)
        if not issubclass(kind, UtilityStrategy):
            raise UsageError(f"{name} is one of {kind.__name__}, which asks not only duels.")
        if args.strategy not in (None, strategy_name(study.strategy)):
            raise UsageError(f"{name} was not begun with --strategy {args.strategy}.")
        planned = getattr(study.strategy, "horizon", None)
        if args.horizon not in (None, planned):
            other = f"with --horizon {planned}" if planned else "without --horizon"
            raise UsageError(f"{name} was begun {other}, not with {args.horizon}.")

    def shown(self, study: Study, query: Query) -> str:
        """Both items as columns, what differs marked."""
        order = (1, 0) if is_swapped(study, query) else (0, 1)
        items, texts = query.items[[*order]], [study.value_texts(query.items[i]) for i in order]
        rows: list[tuple[str, ...]] = [("", "1", "2", "")]
        if query.indices is not None:
            rows.append(("choice", *(f"#{query.indices[i]}" for i in order), ""))
        marks = ["*" if differs else "" for differs in (items[0] != items[1]).tolist()]
        labels = [dimension.label for dimension in study.dimensions]
        rows += zip(labels, *texts, marks, strict=True)
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = (
            f"    {label:<{widths[0]}}  {one:>{widths[1]}}  {two:>{widths[2]}}  {mark}".rstrip()
            for label, one, two, mark in rows
        )
        return "\n" + "\n".join(lines)

    def tell(self, study: Study, query: Query, said: float) -> None:
        study.tell(query, 1.0 - said if is_swapped(study, query) else said)
        found = study.recommend()
        print(_progress_bar(study, found))
        if found.is_settled and not self.settled:
            print("That is enough by the stopping rule: quit with q, or go on.")
        self.settled = found.is_settled

    def report(self, study: Study) -> None:
        """The recommendation, and a figure beside the study."""
        answers = study.strategy.num_answers
        skipped = len(study.history) - answers
        print(f"\n{answers} answers, {skipped} skipped, saved in {study.path}")
        if not answers:
            print("Nothing is recommended, as nothing was answered yet.")
            return
        found = study.recommend()
        print("\n" + textwrap.fill(f"Recommended: {found.statement}", _WIDTH))
        print(_progress_bar(study, found).strip())
        if (figure := _figure(study, found)) is None:
            return
        path = study.path.with_name(study.path.name + ".png")  # a name that no other study has
        try:
            saved = save_figure(figure, path)
        except OSError as error:
            raise UsageError(f"cannot write to {str(path)!r}: {error.strerror}") from error
        print(f"plot: {saved}")


def is_swapped(study: Study, query: Query) -> bool:
    """Whether the second item stands first: many strategies name the best one so far first."""
    return bool(derive_seed(study.strategy.seed, "order shown", query.id) % 2)


def _progress_bar(study: Study, found: Recommendation) -> str:
    full = int(_BAR * found.progress)
    text = f"    progress [{'#' * full}{'.' * (_BAR - full)}] {int(100 * found.progress)} %"
    beliefs = study.beliefs()
    if beliefs is None or beliefs.num_answers < study.stopping.min_answers:
        return text  # as in the statement: a probability would mostly tell of the prior
    return f"{text}; good enough with probability {found.good_enough:.2f}"


def _figure(study: Study, found: Recommendation) -> Figure | None:
    """How likely the best items win against each other; of items that hardly differ, one."""
    beliefs = study.beliefs()
    if beliefs is None:
        return None
    beliefs, row = beliefs.with_item(found.item)
    rows = beliefs.distinct(_TOP, row)
    if len(rows) < 2:
        return None
    items = beliefs.items[rows]
    labels = [", ".join(study.value_texts(item)) for item in items]
    return plot_win_probabilities(beliefs.model, items, labels=labels)
