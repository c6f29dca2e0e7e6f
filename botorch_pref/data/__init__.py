r"""What was told, as tensors that are validated once."""

from botorch_pref.data.blocks import BlockData
from botorch_pref.data.checks import UNKNOWN_ANNOTATOR
from botorch_pref.data.choices import Choices
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.data.labels import Labels
from botorch_pref.data.ordered import Grades, Ratings
from botorch_pref.data.rankings import Rankings
from botorch_pref.data.values import Values

__all__ = [
    "UNKNOWN_ANNOTATOR",
    "BlockData",
    "Choices",
    "Comparisons",
    "Grades",
    "Labels",
    "Rankings",
    "Ratings",
    "Values",
]
