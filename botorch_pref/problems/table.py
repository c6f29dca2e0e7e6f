r"""Problems whose utility is known for the items of a table, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.problems.base import ItemError, PreferenceProblem


class TableProblem(PreferenceProblem):
    r"""A utility that was measured, or rated, item by item.

    Calling the problem looks items up: each has to be a choice, to the last bit. A
    choice that occurs more than once has more than one utility, and has to be named by
    its index.
    """

    choices: Tensor
    # What errors call a choice, and what they offer besides naming it by its index.
    _kind = "choice"
    _remedy = ""

    def __init__(
        self,
        choices: Tensor,
        utilities: Tensor,
        bounds: Sequence[tuple[float, float]] | None = None,
    ) -> None:
        r"""Set the table.

        Args:
            choices: An ``n x d``-dim tensor of items within the bounds.
            utilities: Their ``n``-dim utilities.
            bounds: ``d`` pairs of a lower and an upper bound; those of the class if
                omitted.

        Raises:
            SearchSpaceError: If the choices are no table of items within the bounds, or
                the utilities are not a finite number each.
        """
        super().__init__(bounds=bounds, choices=choices)
        if utilities.shape != (len(choices),):
            raise SearchSpaceError(
                f"utilities must be {len(choices)} numbers, one a choice, got shape "
                f"{tuple(utilities.shape)}."
            )
        missing = ~utilities.isfinite()
        if missing.any():
            raise SearchSpaceError(f"utilities is not finite in row {int(missing.nonzero()[0])}.")
        self._utilities = utilities.to(self.choices)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        same = (X.unsqueeze(-2) == self.choices.to(X)).all(dim=-1)
        matches = same.sum(dim=-1)
        if (matches != 1).any():
            position = (matches != 1).nonzero()[0].tolist()
            if matches[tuple(position)] == 0:
                raise ItemError(f"X is not a {self._kind} in row {position}.")
            name = self._name_of(int(same[tuple(position)].long().argmax()))
            raise ItemError(
                f"{name}, row {position} of X, was measured more than once: name it by its "
                f"index, in .utility(indices){self._remedy}."
            )
        return self.utilities.to(X)[same.long().argmax(dim=-1)]

    def _name_of(self, index: int) -> str:
        """What an error calls a choice."""
        return f"{self._kind} {index}"
