r"""This package beside Optuna's preferential sampler and GPyTorch's variational classifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import BernoulliLikelihood
from gpytorch.means import ZeroMean
from gpytorch.mlls import VariationalELBO
from gpytorch.models import ApproximateGP
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from torch import Size, Tensor

from botorch_pref.kernels import DuelingKernel
from botorch_pref.kernels.items import default_covar_module
from botorch_pref.likelihoods import ProbitLikelihood
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.queries import Duel
from botorch_pref.strategies import EUBO, PFTS
from botorch_pref.strategies.base import Strategy
from experiments.speed.duels import DIM, Duels, Grid, duels, probes
from experiments.speed.timing import Case, Run, Side

OPERATION = "one suggestion (ask)"
_OURS: dict[str, type[Strategy]] = {"PF-TS": PFTS, "EUBO": EUBO}


def suggestion_cases(section: str, grid: Grid, device: torch.device) -> list[Case]:
    """The rows against Optuna."""
    cases = []
    for data, size, num_items in grid.points():
        known = duels(size, num_items)
        other = Side(
            "Optuna",
            partial(optuna_ask, known),
            needs=("optuna", "optuna_dashboard"),
            extra="optuna",
            gigabytes=15 * size**3 * 8e-9,  # as measured: 1.1 and 8 GB for 200 and 400 duels
            knows_devices=False,
        )
        for name, kind in _OURS.items():
            ours = Side(name, partial(strategy_ask, kind, known, device))
            cases.append(Case(section, OPERATION, data, size, ours, (other,)))
    return cases


def strategy_ask(kind: type[Strategy], known: Duels, device: torch.device) -> Run:
    """Prepares a strategy that was told all answers."""
    state = kind(bounds=known.X.new_tensor([[0.0], [1.0]]).expand(2, DIM)).state_dict()
    pairs = known.X[known.comparisons]
    state["history"] = [[Duel(i, pair).to_json(), 1.0] for i, pair in enumerate(pairs)]
    state["next_id"] = len(pairs)
    return kind.from_state_dict(state, device).ask


def optuna_ask(known: Duels) -> Run:
    """Prepares a study of Optuna that was told all answers."""
    import optuna
    from optuna_dashboard.preferential.samplers.gp import PreferentialGPSampler

    from experiments.optuna.study import new_study

    unit = optuna.distributions.FloatDistribution(0.0, 1.0)
    space: dict[str, Any] = {f"x{i}": unit for i in range(DIM)}
    study = new_study(PreferentialGPSampler(seed=0), n_generate=1)
    for item in known.X.tolist():
        params = dict(zip(space, item, strict=True))
        trial = optuna.trial.create_trial(params=params, distributions=space, value=0.0)
        study.add_trial(trial)
    trials = study.get_trials(deepcopy=False)
    for winner, loser in known.comparisons.tolist():
        study.report_preference(trials[winner], trials[loser])

    def run() -> Tensor:
        return torch.tensor([*study.ask(space).params.values()], dtype=torch.double)

    return run


NUM_INDUCING = 256
NUM_STEPS = 200
LEARNING_RATE = 0.1
NUM_HELD_OUT = 2_000
_ROWS_A_STEP = 1024

# The probability that the first item of each of ... x 2 x d-dim pairs wins.
Predict = Callable[[Tensor], Tensor]


def variational_cases(section: str, grid: Grid, device: torch.device) -> list[Case]:
    """The rows against GPyTorch."""
    cases = []
    for data, size, num_items in grid.points():
        known, held_out = split(size, num_items, device)
        remark = partial(_quality, held_out)
        name = f"fit, {NUM_INDUCING} inducing"
        sides = (_side(ours_fitted, known, 3), _side(other_fitted, known, 1))
        cases.append(Case(section, name, data, size, sides[0], sides[1:], remark))
        name = f"64 win probabilities, {NUM_INDUCING} inducing"
        sides = (_side(ours_predicting, known, 11), _side(other_predicting, known, 11))
        cases.append(Case(section, name, data, size, sides[0], sides[1:]))
    return cases


def _side(work: Callable[[Duels], Run], known: Duels, repeats: int) -> Side:
    ours = work in (ours_fitted, ours_predicting)
    return Side("PreferenceGP" if ours else "GPyTorch, variational", partial(work, known), repeats)


def split(size: int, num_items: int | None, device: torch.device) -> tuple[Duels, Tensor]:
    """Duels to learn from, and pairs whose first item won."""
    X, comparisons = duels(size + NUM_HELD_OUT, num_items, device=device)
    items = X[: 2 * size] if num_items is None else X
    return Duels(items, comparisons[:size]), X[comparisons[size:]]


class VariationalDuels(ApproximateGP):
    r"""GPyTorch's variational process of the differences of utilities.

    Args:
        inducing: ``p x 2 x d``-dim inducing pairs.
    """

    def __init__(self, inducing: Tensor) -> None:
        strategy = VariationalStrategy(
            self,
            inducing.flatten(start_dim=-2),
            CholeskyVariationalDistribution(len(inducing)),
            learn_inducing_locations=False,
        )
        super().__init__(strategy)
        self.mean_module = ZeroMean()
        self.covar_module = DuelingKernel(default_covar_module(DIM, Size()))
        self.likelihood = BernoulliLikelihood()
        self.to(inducing)

    def forward(self, pairs: Tensor) -> MultivariateNormal:
        """The prior of ``n x 2d``-dim pairs."""
        return MultivariateNormal(self.mean_module(pairs), self.covar_module(pairs))

    def win_probability(self, pairs: Tensor) -> Tensor:
        """As ``PreferenceGP`` has it, of ``n x 2 x d``-dim pairs."""
        probability: Tensor = self.likelihood(self(pairs.flatten(start_dim=-2))).mean
        return probability


def ours_of(known: Duels) -> PreferenceGP:
    """This package's model of the duels."""
    inducing, likelihood = min(NUM_INDUCING, len(known.X)), ProbitLikelihood()
    return PreferenceGP(*known, likelihood=likelihood, inducing_points=inducing).to(known.X)


def other_of(known: Duels) -> VariationalDuels:
    """GPyTorch's."""
    X, comparisons = known
    if len(X) < len(comparisons):  # in a chain, whose differences are those of all items
        rows = torch.arange(len(X), device=X.device)
        return VariationalDuels(X[torch.stack([rows[:-1], rows[1:]], dim=-1)])
    return VariationalDuels(X[comparisons[:NUM_INDUCING]])


def ours_fitted(known: Duels) -> Run:
    """Prepares a fit, which returns the predictions of the fitted model."""
    model = ours_of(known)
    mll = LaplaceMarginalLogLikelihood(model.likelihood, model)

    def run() -> Predict:
        fit_gpytorch_mll(mll)
        return model.win_probability

    return run


def other_fitted(known: Duels) -> Run:
    """As :func:`ours_fitted`, by steps of Adam."""
    model = other_of(known).train()
    pairs, size = known.X[known.comparisons].flatten(start_dim=-2), len(known.comparisons)
    mll = VariationalELBO(model.likelihood, model, num_data=size)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def run() -> Predict:
        for _ in range(NUM_STEPS):
            some = pairs
            if size > _ROWS_A_STEP:
                some = pairs[torch.randint(size, (_ROWS_A_STEP,)).to(pairs.device)]
            optimizer.zero_grad()
            loss = -mll(model(some), some.new_ones(len(some)))
            loss.backward()
            optimizer.step()
        return model.eval().win_probability

    return run


def ours_predicting(known: Duels) -> Run:
    """Prepares predictions before any fit."""
    return _predicting(ours_of(known).win_probability, known)


def other_predicting(known: Duels) -> Run:
    """As :func:`ours_predicting`."""
    return _predicting(other_of(known).eval().win_probability, known)


def _predicting(predict: Predict, known: Duels) -> Run:
    pairs = probes(known.X)

    def run() -> Tensor:
        with torch.no_grad():
            return predict(pairs)

    run()  # both cache what does not depend on the pairs
    return run


def mean_log_probability(predict: Predict, held_out: Tensor) -> float:
    """How well answers are predicted."""
    with torch.no_grad():
        return float(predict(held_out).log().mean())


def _quality(held_out: Tensor, results: Sequence[object]) -> str:
    found = [
        "-" if one is None else f"{mean_log_probability(cast(Predict, one), held_out):.4f}"
        for one in results
    ]
    return f"held-out mean log probability: {', '.join(found)}"
