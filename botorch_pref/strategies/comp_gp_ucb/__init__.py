r"""COMP-GP-UCB: duels are cheap, values are dear.

Y. Xu, A. Joshi, A. Singh and A. Dubrawski, *Zeroth Order Non-convex Optimization with
Dueling-Choice Bandits* (2020), cited as Xu et al. (2020).
"""

from botorch_pref.strategies.comp_gp_ucb.record import FilterRecord
from botorch_pref.strategies.comp_gp_ucb.strategy import CompGPUCB

__all__ = ["CompGPUCB", "FilterRecord"]
