r"""``botorch-pref advise``: COBOL with a person, who accepts, rejects and measures items."""

from __future__ import annotations

import argparse

import torch

from botorch_pref.cli.parser import UsageError
from botorch_pref.cli.session import Session
from botorch_pref.queries import Query
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.base import Strategy
from botorch_pref.strategies.cobol import COBOL
from botorch_pref.study.study import Study


def advise(args: argparse.Namespace) -> int:
    """Run the command; see :meth:`Session.run`."""
    return _Advise(args).run()


class _Advise(Session):
    domain_options = "--bounds"
    greeting = "{name}: {answers} so far. Large values are good."

    def begin(self, space: SearchSpace) -> Strategy:
        return COBOL(space=space, seed=self.args.seed or 0)

    def check(self, study: Study, name: str) -> None:
        strategy = study.strategy
        if not isinstance(strategy, COBOL):
            raise UsageError(f"{name} is one of {type(strategy).__name__}, not of COBOL.")
        if strategy.feedback != "accept":
            raise UsageError(f"{name} asks for comparisons; here one accepts or rejects items.")

    def shown(self, study: Study, query: Query) -> str:
        """The item, and why it is asked about, or is to be measured."""
        assert isinstance(study.strategy, COBOL)  # which was seen to when it was opened
        decision = study.strategy.decisions[query.id]
        if decision.asks:
            why = f"You are asked: {decision.reason}."
        elif decision.reason == "accepted":
            why = "To be measured: you accepted it."
        else:
            why = f"To be measured without asking you: {decision.reason}."
        return f" {study.describe(query.items)}\n    {why}"

    def report(self, study: Study) -> None:
        history = study.strategy.history
        told = [(query, answer) for query, answer in history if answer is not None]
        measured = [(query.items, answer) for query, answer in told if query.measures]
        lines = {"recommended item": "none, as no value was given yet"}
        if measured:
            best = study.strategy.recommend()
            own = [f"{value:.6g}" for item, value in measured if torch.equal(item.to(best), best)]
            largest = max(value for _, value in measured)
            lines["recommended item"] = study.describe(best)
            lines["measured value"] = f"{', '.join(own)} (the largest of all: {largest:.6g})"
        labels, skipped = len(told) - len(measured), len(history) - len(told)
        lines["answers"] = f"{len(measured)} values, {labels} labels, {skipped} skipped"
        lines["saved in"] = str(study.path)
        print("\n" + "\n".join(f"{name:<18} {text}" for name, text in lines.items()))
