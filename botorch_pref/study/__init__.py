r"""A strategy, its search space and its history, saved together."""

from botorch_pref.study.dimensions import Dimension
from botorch_pref.study.recommendation import Recommendation, StoppingRule
from botorch_pref.study.study import Study

__all__ = ["Dimension", "Recommendation", "StoppingRule", "Study"]
