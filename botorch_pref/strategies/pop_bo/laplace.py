r"""The optimist who believes the Laplace posterior, as Lazzaro et al. (2026) run it."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.acquisition import AdvantageUCB
from botorch_pref.strategies.pop_bo.last_item import LastItemStrategy
from botorch_pref.strategies.utility import difference_table


class LaplaceAdvantage(LastItemStrategy):
    """The first arm maximises ``h_t(x, x') + beta sigma_t(x, x')``.

    Attributes:
        beta: Multiplies the papers' ``sigma_t``, which is ``sqrt(lambda)`` times the model's
            standard deviation.
        exclude_identical: Whether an item never meets itself.
    """

    beta: float
    exclude_identical: bool

    def _among_choices(self, row: int) -> int:
        posterior = self._believed_posterior()
        mean, deviation = difference_table(posterior.mean, posterior.covariance)
        index = (mean + self._width() * deviation)[:, row]
        # Also in the last digit, as it is tied with duplicates.
        index[row] = -torch.inf if self.exclude_identical else 0.0
        return self._best_row(self._unbarred(index, row))

    def _on_a_box(self, reference: Tensor) -> Tensor:
        seed = self._seed("optimizer")
        rule = AdvantageUCB(self._believed_model(), reference, self._width())
        if self.exclude_identical:
            return self._opponent(rule, reference, seed)
        best = self._best_item(rule, seed)
        with torch.no_grad():
            return best if float(rule(best.unsqueeze(-2))) > 0.0 else reference

    def _width(self) -> float:
        """What the model's own standard deviation is multiplied by."""
        return float(self.beta * self.learner.penalty**0.5)
