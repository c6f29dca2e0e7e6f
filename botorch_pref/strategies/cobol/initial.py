r"""COBOL's initial design: values of a space-filling sample, and labels of another."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.cobol.candidates import Rows
from botorch_pref.strategies.cobol.decision import Decision
from botorch_pref.strategies.cobol.options import Settings

# Whether the expert is asked, the item or the pair, and its row or rows in the choices.
Initial = tuple[bool, Tensor, Rows]


def initial_query(
    space: SearchSpace,
    settings: Settings,
    seed: int,
    decisions: Sequence[Decision],
    *,
    measured: bool,
) -> Initial | None:
    r"""The next query of the initial design.

    Args:
        space: The domain.
        settings: How many values and labels there are; without labels where items are named.
        seed: Of both samples.
        decisions: All that was asked so far.
        measured: Whether a value was told; where all were skipped, others are asked for.

    Returns:
        The query, or None where the design is complete.
    """
    started = [decision.asks for decision in decisions if decision.source == "initial"]
    values, labels = started.count(False), started.count(True)
    if values < settings.num_initial_values or not measured:
        asks, number = False, values
    elif labels < settings.num_initial_labels and settings.candidate != "pinpoint":
        asks, number = True, labels
    else:
        return None
    size = 2 if asks and settings.feedback == "compare" else 1
    sample_seed = derive_seed(seed, f"initial {asks}", 0)
    items = space.sample(size * (number + 1), sample_seed)[size * number :]
    rows: list[int] = []
    if space.choices is not None:
        rows = space.sample_rows(size * (number + 1), sample_seed)[size * number :].tolist()
    if size == 1:
        return asks, items[0], rows[0] if rows else None
    return asks, items, (rows[0], rows[1]) if rows else None
