r"""MR-LPF: rounds of duels of largest variance, and elimination between them.

Kayal, Vakili, Toni, Shiu and Bernacchia, *Bayesian Optimization from Human Feedback:
Near-Optimal Regret Bounds* (2025).
"""

from botorch_pref.strategies.mr_lpf.bounds import Width
from botorch_pref.strategies.mr_lpf.rounds import RoundRecord, round_sizes
from botorch_pref.strategies.mr_lpf.strategy import MRLPF

__all__ = ["MRLPF", "RoundRecord", "Width", "round_sizes"]
