r"""COBOL: Bayesian optimisation in collaboration with an expert who accepts or rejects.

Xu, Adachi, Jones and Osborne, *Principled Bayesian Optimisation in Collaboration with Human
Experts* (2024), cited as Xu et al. (2024b).
"""

from botorch_pref.strategies.cobol.decision import Decision
from botorch_pref.strategies.cobol.helpful import COBOHL
from botorch_pref.strategies.cobol.strategy import COBOL

__all__ = ["COBOHL", "COBOL", "Decision"]
