r"""POP-BO's rule: the item that may have the largest advantage over the last one."""

from __future__ import annotations

from typing import Any, Literal, Self, Unpack

import torch
from torch import Tensor

from botorch_pref.acquisition import AdvantageUCB
from botorch_pref.acquisition.base import checked_beta
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.queries import Query
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.utility import (
    ModelOptions,
    Pair,
    UtilityStrategy,
    difference_table,
    masked,
)


class POPBO(UtilityStrategy):
    r"""Every item meets the first item of the duel before it, Xu et al. (2024).

    The first arm maximises ``h_t(x, x') + beta sigma_t(x, x')`` over ``x``, where ``x'``,
    the second arm, is the previous first arm; at first it is drawn at random. The
    posterior stands in for the paper's likelihood-ratio set, as in Lazzaro et al. (2026).

    Example:
        >>> strategy = POPBO(choices=table, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0)
    """

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        confidence: Literal["laplace"] = "laplace",
        beta: float = 1.0,
        exclude_identical: bool = True,
        **model: Unpack[ModelOptions],
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            confidence: ``"laplace"``, the only one so far.
            beta: Multiplies the papers' ``sigma_t``, which is ``sqrt(lambda)`` times the
                model's standard deviation; at least 0.
            exclude_identical: Whether an item never meets itself. That pair has the index
                0 and, where all others have less, is asked again and again.
            **model: ``seed``, ``hyperparameters``, ``kappa``, ``regularizer``; see
                :class:`~botorch_pref.strategies.utility.UtilityStrategy`.

        Raises:
            ComparisonDataError: If an option is none of these.
            UnsupportedError: If another ``confidence`` is asked for.
            SearchSpaceError: If the domain cannot be used.
        """
        super().__init__(bounds, choices, space, **model)
        if confidence != "laplace":
            raise UnsupportedError(f'`confidence` must be "laplace", got {confidence!r}.')
        if not isinstance(exclude_identical, bool):
            raise ComparisonDataError(
                f"`exclude_identical` must be True or False, got {exclude_identical!r}."
            )
        self.confidence = confidence
        self.beta = checked_beta(beta)
        self.exclude_identical = exclude_identical

    @classmethod
    def paper(cls, **kwargs: Any) -> Self:
        r"""The setting of the experiments of Lazzaro et al. (2026).

        Matern-5/2 with lengthscale 0.1 on the unit cube, ``lambda = 0.05``, ridge
        ``lambda``, ``beta = 1``, identical pairs allowed.

        Args:
            **kwargs: Passed to the constructor.

        Returns:
            The strategy.
        """
        fixed = {"kernel": "matern", "lengthscale": 0.1, "penalty": 0.05}
        return cls(**{"hyperparameters": fixed, "kappa": 1.0, "exclude_identical": False, **kwargs})

    def _pair(self, annotator: str | None) -> Pair:
        last = self._last()
        if self.space.choices is not None:
            return self._choice(last)
        if last is None:
            reference = self.space.sample(1, self._seed("pair"))[0]
        else:
            reference = last.items[0].to(self.space.bounds)
        return torch.stack([self._challenger(reference), reference]), None

    def _choice(self, last: Query | None) -> Pair:
        if last is None or last.indices is None:
            generator = torch.Generator().manual_seed(self._seed("pair"))
            reference = int(torch.randint(len(self.space.table), (), generator=generator))
        else:
            reference = last.indices[0]
        posterior = self._believed_posterior()
        mean, deviation = difference_table(posterior.mean, posterior.covariance)
        index = (mean + self._width() * deviation)[:, reference]
        if not self.exclude_identical:
            index[reference] = 0.0  # also in the last digit, as it is tied with duplicates
        else:
            index[reference] = -torch.inf
        if self._open:
            index = masked(index, self._open_table()[reference])
        return self._rows(self._best_row(index), reference)

    def _challenger(self, reference: Tensor) -> Tensor:
        rule = AdvantageUCB(self._believed_model(), reference, self._width())
        seed = self._seed("optimizer")
        if self.exclude_identical:
            return self._opponent(rule, reference, seed)
        best = self._best_item(rule, seed)
        with torch.no_grad():
            return best if float(rule(best.unsqueeze(-2))) > 0.0 else reference

    def _width(self) -> float:
        """What the model's own standard deviation is multiplied by."""
        return float(self.beta * self.learner.penalty**0.5)

    def _last(self) -> Query | None:
        """The query chosen last, answered or not."""
        for query in (*self._open.values(), *(done.query for done in reversed(self.history))):
            if query.id == self._next_id - 1:
                return query
        return None

    def _options(self) -> dict[str, Any]:
        own = {
            "confidence": self.confidence,
            "beta": self.beta,
            "exclude_identical": self.exclude_identical,
        }
        return {**super()._options(), **own}
