r"""Differences of plain JSON: a file has the state of a strategy before each answer, for undo.

Successive states are alike and their lists mostly grow, so a difference is short.
"""

from __future__ import annotations

from typing import Any

Difference = dict[str, Any] | None
"""Plain JSON; None where nothing differs."""


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
