r"""COBOHL: for experts who are known to help."""

from __future__ import annotations

from botorch_pref.strategies.cobol.step import Asked, Step
from botorch_pref.strategies.cobol.strategy import COBOL


class COBOHL(COBOL):
    r"""Xu et al. (2024b), Algorithm 2: the expert alone says where to look.

    The one candidate maximises ``mean + beta sd`` where the expert may accept, or is the least
    unacceptable item where he may not. While his belief there is uncertain he is asked, and
    whatever he says nothing is measured; then the item is. There is no guarantee against harm,
    and ``candidate``, ``trust``, ``trust_weight`` and ``max_rejections`` have no part in it, nor
    can an item be named. A label that is skipped is asked for again. Everything else is as of
    :class:`COBOL`.

    Example:
        >>> strategy = COBOHL(bounds=bounds, seed=0)
    """

    measures_accepted = False

    def _decide(self, step: Step) -> Asked:
        return step.decide_with_a_helper()
