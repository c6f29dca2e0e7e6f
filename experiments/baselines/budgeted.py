r"""GP-UCB, MF-GP-UCB and Borda-UCB: rivals of COMP-GP-UCB with its prices and initial design."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction
from botorch_pref.acquisition.utils import upper_bound
from botorch_pref.data.checks import checked_nonnegative
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.strategies.base import Chosen
from botorch_pref.strategies.budgeted import Kind, QueryRecord
from botorch_pref.strategies.comp_gp_ucb import CompGPUCB, FilterRecord, OptimisticStep


@dataclass(kw_only=True, eq=False, repr=False)
class GPUCB(CompGPUCB):
    r"""Measures the item with the largest ``mean + beta sd`` of the objective.

    Srinivas, Krause, Kakade and Seeger (2010), Algorithm 1, as the baseline of Xu, Joshi, Singh
    and Dubrawski (2020), Algorithm 3 and App. B: the model, the multiple ``beta`` and the times at
    which hyperparameters are learnt are those of :class:`~botorch_pref.strategies.CompGPUCB`. Of
    duels, if the initial design has any, nothing is learnt but where searches start.

    With ``num_initial_values`` of what the budget pays for, all values are of random items: the
    control that chooses nothing. For the options see
    :class:`~botorch_pref.strategies.CompGPUCB`.

    Example:
        >>> strategy = GPUCB(bounds=bounds, value_cost=1, budget=100)
        >>> while not strategy.finished:
        ...     query = strategy.ask()
        ...     strategy.tell(query, measure(query.items))
    """

    num_initial_duels: int = 0
    num_initial_values: int = 10

    kinds = ("value",)
    record_type = QueryRecord

    def _next(self) -> Chosen:
        record = self.record_type("value", "values")
        if not self.values.answers:
            return Chosen(record, self._uniform("first", len(self.records)))
        step = self._step()
        return Chosen(record, step.maximum(step.of_values()))


@dataclass(kw_only=True, eq=False, repr=False)
class BordaUCB(CompGPUCB):
    r"""Duels the item that may win most often, against a random one.

    This is phase 1 of :class:`~botorch_pref.strategies.CompGPUCB` without an end, a control that
    never buys a value: GP-UCB on the Borda function, the algorithm of Theorem 2 of Xu, Joshi,
    Singh and Dubrawski (2020). For the options see
    :class:`~botorch_pref.strategies.CompGPUCB`.

    Example:
        >>> strategy = BordaUCB(choices=table, duel_cost=0.1, budget=100)
        >>> query = strategy.ask()
    """

    num_initial_duels: int = 100
    num_initial_values: int = 0

    kinds = ("duel",)

    def _next(self) -> Chosen:
        if not self.duels.answers:
            record = FilterRecord("duel", "duels")
            return Chosen(record, self._uniform("first", len(self.records)))
        step = self._step()
        found = step.to_duel()
        record = FilterRecord("duel", "duels", step.width(found.item))
        return Chosen(record, found)


class RandomDuels(BordaUCB):
    r"""Duels random items against random ones, whatever was answered.

    It models and recommends as :class:`BordaUCB` does, so a comparison with that one measures the
    rule alone; all its queries are such as the initial design consists of. For the options see
    :class:`~botorch_pref.strategies.CompGPUCB`.
    """

    record_type = QueryRecord

    def _next(self) -> Chosen:
        self.duels.learn()
        self.values.learn()
        record = self.record_type("duel", "random")
        return Chosen(record, self._uniform("random", self._num_later()))


class MultiFidelityUCB(ItemAcquisitionFunction):
    r"""The smaller of two upper bounds, of values and of a cheap function.

        ``min(mean(x) + beta sd(x), mean_c(x) + beta_c sd_c(x) + zeta)``

    If the cheap function is nowhere further than ``zeta`` below the objective, both terms are upper
    bounds of the objective, and so is the smaller one (Kandasamy, Dasarathy, Oliva, Schneider and
    Poczos 2016, eq. (3), with two fidelities). It has a kink where they are equal.

    Example:
        >>> rule = MultiFidelityUCB(gp, cheap_gp, beta=2.0, zeta=0.1)
        >>> found = SearchSpace(bounds).maximize(rule)
    """

    beta: Tensor
    cheap_beta: Tensor
    zeta: Tensor

    def __init__(
        self,
        value_model: Model,
        cheap_model: Model,
        beta: float,
        *,
        zeta: float,
        cheap_beta: float | None = None,
    ) -> None:
        r"""Fix both models and the bias.

        Args:
            value_model: A BoTorch model of measured values with one output and a Gaussian
                posterior.
            cheap_model: One of the cheap function, in the same units; for duels a ``BordaGP``.
            beta: Multiplies the standard deviation of values; BoTorch's ``UpperConfidenceBound``
                takes its square.
            zeta: By how much the objective may exceed the cheap function, at least 0.
            cheap_beta: Multiplies the standard deviation of the cheap function; ``beta`` by
                default.

        Raises:
            ComparisonDataError: If an option is out of range.
            UnsupportedError: If a model has several outputs.
        """
        super().__init__(model=value_model)
        for name, model in (("value_model", value_model), ("cheap_model", cheap_model)):
            if model.num_outputs != 1:
                raise UnsupportedError(
                    f"`{name}` must have one output, but has {model.num_outputs}."
                )
        self.cheap_model = cheap_model
        options = {
            "beta": checked_nonnegative("beta", beta),
            "cheap_beta": checked_nonnegative(
                "cheap_beta", beta if cheap_beta is None else cheap_beta
            ),
            "zeta": checked_nonnegative("zeta", zeta),
        }
        for name, value in options.items():
            self.register_buffer(name, torch.tensor(value, dtype=torch.double))

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""The smaller bound.

        Args:
            X: ``b x 1 x d``-dim items.

        Returns:
            ``b``-dim values, in units of the value model.
        """
        cheap = upper_bound(self.cheap_model, X, self.cheap_beta) + self.zeta
        return torch.minimum(upper_bound(self.model, X, self.beta), cheap)


class MFGPUCB(CompGPUCB):
    r"""Takes the smaller of both bounds for the objective's; duels what duels know little of.

    Kandasamy, Dasarathy, Oliva, Schneider and Poczos (2016), Algorithm 1 with two fidelities, as
    Xu, Joshi, Singh and Dubrawski (2020) adapt it: a duel against a random item is a cheap look at
    the objective. The item has the largest ``min(mean_r + beta sd_r + zeta, mean + beta sd)``; it
    is duelled where ``beta sd_r`` is at least ``gamma``, else measured. ``gamma`` is multiplied
    after many duels in a row, an addition of their experiments. The bias must be known, and how
    often an item wins lies between 0 and 1: on an objective of another scale the rule maximises
    one of the two bounds alone.

    For the options see :class:`~botorch_pref.strategies.CompGPUCB`; here ``borda_slack`` is
    ``zeta``, by how much the objective may exceed how often an item wins, both taken as they are.

    Example:
        >>> options = {"duel_cost": 0.1, "value_cost": 1, "budget": 100}
        >>> strategy = MFGPUCB(bounds=bounds, borda_slack=0.25, **options)
        >>> query = strategy.ask()
    """

    def _next(self) -> Chosen:
        step = self._step()
        if self.duels.answers:
            rule = self._bounds(step) if self.values.answers else step.of_duels()
            chosen = step.maximum(rule)
            width = step.width(chosen.item)
        else:
            width, chosen = step.first_width, self._uniform("first", len(self.records))
        kind: Kind = "duel" if width >= self.current_gamma else "value"
        record = FilterRecord(kind, "multi-fidelity", width, self.current_gamma)
        self._advance(record)
        return Chosen(record, chosen)

    def _bounds(self, step: OptimisticStep) -> MultiFidelityUCB:
        return MultiFidelityUCB(step.objective, step.borda, step.beta, zeta=self.borda_slack)
