r"""The domain, and the package's only calls of BoTorch's optimizers."""

from botorch_pref.space.domain import Maximum, SearchSpace
from botorch_pref.space.feasible import Feasible

__all__ = ["Feasible", "Maximum", "SearchSpace"]
