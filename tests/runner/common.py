"""Strategies that cost nothing to run."""

from __future__ import annotations

from fractions import Fraction

import pandas as pd
import torch
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import Catalyst
from botorch_pref.queries import Duel, Evaluate, Label
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace


class RandomPairs:
    """Asks random pairs of choices, and recommends what has won most often."""

    def __init__(self, space: SearchSpace, seed: int = 0) -> None:
        self.space, self.seed, self.step = space, seed, 0
        self.wins = torch.zeros(len(space.table))

    def draw(self, number: int) -> list[int]:
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "pair", self.step))
        return torch.randint(len(self.space.table), (number,), generator=generator).tolist()

    def ask(self) -> Duel:
        first, second = self.draw(2)
        return Duel(self.step, self.space.table[[first, second]], (first, second))

    def tell(self, query: Duel, answer: float) -> None:
        assert query.indices is not None
        self.wins[query.indices[0 if answer else 1]] += 1
        self.step += 1

    def recommend(self) -> Tensor:
        return self.space.table[self.recommend_index()]

    def recommend_index(self) -> int:
        return int(self.wins.argmax())


class RandomValues(RandomPairs):
    """Buys the values of random choices, and recommends the largest value seen."""

    def ask(self) -> Evaluate:  # type: ignore[override]
        (index,) = self.draw(1)
        return Evaluate(self.step, self.space.table[index], index)

    def tell(self, query: Evaluate, answer: float) -> None:  # type: ignore[override]
        self.wins[query.indices or 0] = answer
        self.step += 1


class LabelsAndValues:
    """Asks for the label of one choice and the value of another in turn, from row 6 on."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self.answers: list[float | None] = []

    def ask(self) -> Label | Evaluate:
        step = len(self.answers)
        kind, row = (Evaluate, 5 + step) if step % 2 else (Label, 7 + step)
        return kind(step, self.space.table[row], row)

    def tell(self, query: Label | Evaluate, answer: float | None) -> None:
        self.answers.append(answer)

    def recommend(self) -> Tensor:
        return self.space.table[0]

    def recommend_index(self) -> int:
        return 0


class Budgeted(RandomPairs):
    """A value of 3 after every two duels of 1, chosen whether or not it can be paid."""

    def __init__(self, space: SearchSpace, seed: int = 0, budget: int = 7) -> None:
        super().__init__(space, seed)
        self.budget, self.spent, self.finished = budget, Fraction(0), False

    def ask(self) -> Duel | Evaluate:  # type: ignore[override]
        price = 3 if self.step % 3 == 2 else 1
        self.finished = self.spent + price > self.budget
        if self.finished:
            raise UnsupportedError("spent")
        self.spent += price
        duel = super().ask()
        assert duel.indices is not None
        row = duel.indices[0]
        return duel if price == 1 else Evaluate(duel.id, self.space.table[row], row)

    def tell(self, query: Duel | Evaluate, answer: float) -> None:
        self.wins[query.indices[0] if isinstance(query, Duel) else query.indices or 0] = answer
        self.step += 1


class Failing(RandomPairs):
    """Fails at its third duel."""

    def ask(self) -> Duel:
        if self.step == 2:
            raise ZeroDivisionError("on purpose")
        return super().ask()


def assert_same(first: pd.DataFrame, second: pd.DataFrame) -> None:
    """Bit for bit, types and order of the columns included, times aside."""
    pd.testing.assert_frame_equal(
        first.drop(columns="seconds"), second.drop(columns="seconds"), check_exact=True
    )


def catalyst_of(seed: int) -> Catalyst:
    """Another problem for odd seeds."""
    return Catalyst(dedupe="mean" if seed % 2 else "keep")
