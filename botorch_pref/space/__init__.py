r"""The search space, and the package's only calls of BoTorch's optimizers."""

from botorch_pref.space.maximize import Feasible
from botorch_pref.space.search_space import Maximum, SearchSpace

__all__ = ["Feasible", "Maximum", "SearchSpace"]
