r"""The states of a strategy before each answer, stored as differences.

The state of a strategy says all that its next query depends on, so that an answer is taken back
by putting the state before it in place. To ask everything once more would take a search for every
answer so far and, under another version of a library, might ask something else than what was
answered. States are alike and their lists mostly grow, so a difference is short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Difference = dict[str, Any] | None
"""Plain JSON; None where nothing differs."""


class Rewind:
    r"""The states before all answers, of which only the last is there in full.

    Args:
        differences: What turns each state into the one before it, the oldest first, and the
            state ``current`` into the last of them.
        current: The state now.
    """

    def __init__(self, differences: Sequence[Difference] = (), current: Any = None) -> None:
        self._differences = list(differences[:-1])
        self._states = [apply(current, differences[-1])] if differences else []

    def push(self, state: Any) -> Rewind:
        """With the state before a further answer."""
        longer = Rewind()
        longer._differences, longer._states = self.to_json(state), [state]
        return longer

    def pop(self) -> tuple[Any, Rewind]:
        """The state before the last answer, and the states before those before it."""
        (state,) = self._states
        return state, Rewind(self._differences, state)

    def to_json(self, current: Any) -> list[Difference]:
        """What the constructor takes, given the state now."""
        return [*self._differences, *(difference(current, last) for last in self._states)]


def difference(new: Any, old: Any) -> Difference:
    """What :func:`apply` turns ``new`` into ``old`` by; all three are plain JSON."""
    # 1, 1.0 and True are equal but not the same.
    if new == old and repr(new) == repr(old):
        return None
    if isinstance(new, dict) and isinstance(old, dict) and old.keys() <= new.keys():
        inner = {name: difference(new[name], value) for name, value in old.items()}
        return {
            "drop": sorted(new.keys() - old.keys()),
            "change": {name: change for name, change in inner.items() if change is not None},
        }
    if isinstance(new, list) and isinstance(old, list):
        shared = 0
        for one, other in zip(new, old, strict=False):
            if difference(one, other) is not None:
                break
            shared += 1
        return {"keep": shared, "add": old[shared:]}
    return {"set": old}


def apply(new: Any, change: Difference) -> Any:
    """The value that a :func:`difference` leads to; ``new`` is left as it is."""
    if change is None:
        return new
    if "set" in change:
        return change["set"]
    if "keep" in change:
        return [*new[: change["keep"]], *change["add"]]
    return {
        name: apply(value, change["change"].get(name))
        for name, value in new.items()
        if name not in change["drop"]
    }
