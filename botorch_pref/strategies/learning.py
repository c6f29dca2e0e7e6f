r"""See :mod:`botorch_pref.strategies.utility`."""

from botorch_pref.strategies.utility import LearningStrategy, ModelOptions

__all__ = ["LearningStrategy", "ModelOptions"]
