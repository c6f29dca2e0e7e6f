r"""How well a model predicts held-out answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.data.blocks import match_items
from botorch_pref.data.checks import Check, check_count, check_shape, refuse
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.progress import tracked
from botorch_pref.randomness import derive_seed


class Estimate(NamedTuple):
    """A mean and its standard error, which is NaN for a single pair."""

    value: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class PairwisePredictions:
    r"""Predicted win probabilities of pairs, and what was answered.

    Scores are means over answers, "no preference" being half a win of each item. Answers of one
    pair share the model's error, so standard errors are those of independent pairs.

    Args:
        probability: ``m``-dim predicted probabilities that the first item of each pair wins.
        wins: ``m``-dim wins of the first item, "no preference" being 0.5.
        count: ``m``-dim positive numbers of answers.
        pairs: The ``m x 2 x d``-dim items, if known.
        fold: The ``m``-dim numbers of the folds that the pairs were held out in, if they were.

    Raises:
        ComparisonDataError: If shapes differ, there is no pair, or a row cannot be; names the
            argument and the row.

    Example:
        >>> answers = torch.tensor([1.0, 0.0, 1.0])
        >>> PairwisePredictions(model.win_probability(pairs), answers, torch.ones(3)).accuracy
    """

    probability: Tensor
    wins: Tensor
    count: Tensor
    pairs: Tensor | None = None
    fold: Tensor | None = None

    def __post_init__(self) -> None:
        check_shape("probability", self.probability, "m", batch=False)
        size = len(self.probability)
        check_shape("wins", self.wins, size, batch=False)
        check_shape("count", self.count, size, batch=False)
        if not size:
            raise ComparisonDataError("`probability` has no rows.")
        chance, wins, count = self.probability, self.wins, self.count
        refuse(
            Check("probability", chance, ~((chance >= 0) & (chance <= 1)), "no probability"),
            Check("count", count, ~(count > 0), "there must be an answer"),
            Check("wins", wins, ~((wins >= 0) & (wins <= count)), "not between 0 and `count`"),
        )

    @property
    def num_answers(self) -> int:
        """The number of answers."""
        return int(self.count.sum())

    @property
    def accuracy(self) -> Estimate:
        """The share of answers for the item that was predicted; half where neither was."""
        losses, chance = self.count - self.wins, self.probability
        right = torch.where(chance > 0.5, self.wins, losses)
        return self._mean(torch.where(chance == 0.5, 0.5 * self.count, right))

    @property
    def log_score(self) -> Estimate:
        """The mean log predictive probability of an answer; ``-log 2`` for a coin."""
        chance, losses = self.probability, self.count - self.wins
        return self._mean(torch.xlogy(self.wins, chance) + torch.special.xlog1py(losses, -chance))

    @property
    def brier_score(self) -> Estimate:
        """The mean squared error of the probabilities; 0.25 for a coin."""
        chance, losses = self.probability, self.count - self.wins
        return self._mean(self.wins * (1.0 - chance).square() + losses * chance.square())

    def _mean(self, total: Tensor) -> Estimate:
        """The ratio of totals of pairs to numbers of answers (Cochran 1977, sec. 6.3)."""
        size, answers = len(total), self.count.sum()
        value = total.sum() / answers
        spread = (total - value * self.count).square().sum()
        error = (spread * size / (size - 1)).sqrt() / answers if size > 1 else answers * torch.nan
        return Estimate(float(value), float(error))


def pairwise_cross_validation(
    model: PreferenceGP, folds: int | None = 10, *, seed: int = 0
) -> PairwisePredictions:
    r"""Predict the answers of each pair by the model without all answers of that pair.

    All answers of a pair, of either order and of items that are equal in value, are held out
    together; items and measured values stay. All folds have the model's hyperparameters: if these
    were fitted to the same answers, the scores are a little too good.

    Args:
        model: The model, not batched.
        folds: The number of folds of random pairs; ``None``, or more than pairs, for one a pair.
        seed: Of the folds.

    Returns:
        The predictions, one row a pair that was answered.

    Raises:
        ComparisonDataError: If fewer than two pairs were answered, or ``folds`` is below 2.
        UnsupportedError: If the model is a batch.
    """
    data = _distinct_pairs(model)
    size = len(data.pairs)
    if folds is not None:
        check_count("folds", folds, 2)
    number = size if folds is None else min(folds, size)
    generator = torch.Generator().manual_seed(derive_seed(seed, "fold", 0))
    fold = torch.empty(size, dtype=torch.long)
    fold[torch.randperm(size, generator=generator)] = torch.arange(size) % number
    fold = fold.to(data.pairs.device)
    pairs, probability = data.datapoints[data.pairs], torch.empty_like(data.wins)
    for i in tracked(range(number), "cross-validation", number, unit="fold", delay=2.0):
        held = fold == i
        rows = (row[~held] for row in (data.pairs, data.wins, data.count))
        rest = model.with_comparisons(Comparisons.unchecked(data.datapoints, *rows))
        with torch.no_grad():
            probability[held] = rest.win_probability(pairs[held])
    return PairwisePredictions(probability, data.wins, data.count, pairs, fold)


def _distinct_pairs(model: PreferenceGP) -> Comparisons:
    """All answers, one row for each pair of items of different values."""
    data = model.merged_data
    if len(model.learnt):
        raise UnsupportedError(
            "`model` has annotators, grades or ratings, which are not held out by pairs."
        )
    if model.batch_shape:
        raise UnsupportedError(f"`model` is a batch of {tuple(model.batch_shape)} models.")
    if data is None:
        raise ComparisonDataError("`model` has no comparisons.")
    items = data.datapoints.detach()
    number, new = match_items(items[:0], items)
    pairs = number[data.pairs]
    # Answers to a pair of equal items do not depend on the utility.
    differ = pairs[:, 0] != pairs[:, 1]
    rows = Comparisons.unchecked(items[new], pairs[differ], data.wins[differ], data.count[differ])
    rows = rows.merged()
    if len(rows.pairs) < 2:
        raise ComparisonDataError(f"`model` has answers to {len(rows.pairs)} pairs, not to 2.")
    return rows
