"""The model behind a strategy: data, hyperparameters and their fits; links and kernels."""

from __future__ import annotations

import copy
import itertools
import json
import math
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from gpytorch.kernels import Kernel, LinearKernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior
from torch import Size

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.kernels import NuggetKernel, SlopeKernel
from botorch_pref.kernels.items import default_covar_module
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.models import LaplaceMarginalLogLikelihood, MiddleMean, PreferenceGP
from botorch_pref.models.base import refit_is_due
from botorch_pref.queries import Answered, Duel
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import (
    COBOL,
    DTS,
    EUBO,
    MRLPF,
    PFTS,
    POPBO,
    CompGPUCB,
    CostAwareKG,
    DuelingKG,
    LaplacePOPBO,
    MaxMinLCBStrategy,
    MultipleChoicePOPBO,
    RandomPairs,
)
from botorch_pref.strategies.utility import UtilityLearner, last_refit
from tests.contracts.strategy import answer, shorten_searches, stored
from tests.models.common import rand
from tests.strategies import budget

FIXED = {"kernel": "matern", "lengthscale": [0.2, 0.5], "outputscale": 3.0}
BOUNDS = torch.tensor([[-1.0, 0.0], [2.0, 5.0]], dtype=torch.float64)
SMOOTH = {"lengthscale": 0.7}
ROUGH = {"lengthscale": 0.15 * 2**0.5, "outputscale": 1.5}
TABLE = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * rand(9, 2)


def make(
    hyperparameters: object = "evidence", box: bool = False, **kwargs: object
) -> UtilityLearner:
    space = SearchSpace(BOUNDS, None if box else TABLE)
    options = {"kappa": "laplace", "regularizer": "rkhs", "seed": 0, **kwargs}
    return UtilityLearner(space, hyperparameters, **options)


def duel(i: int, j: int, box: bool = False) -> Duel:
    return Duel(0, TABLE[[i, j]], None if box else (i, j))


def teach(learner: UtilityLearner, num_duels: int, seed: int = 0, box: bool = False) -> list:
    generator = torch.Generator().manual_seed(seed)
    told = []
    for _ in range(num_duels):
        i, j = torch.randperm(9, generator=generator)[:2].tolist()
        told.append(((i, j), float(TABLE[i].sum() > TABLE[j].sum())))
        assert learner.add(duel(i, j, box), told[-1][1])
    return told


@pytest.mark.parametrize("box", [False, True])
def test_an_identical_pair_is_no_comparison(box: bool) -> None:
    learner = make(FIXED, box)
    assert not learner.add(duel(3, 3, box), 1.0)
    assert learner.add(duel(3, 4, box), 0.5)
    assert learner.data.num_comparisons == 1
    assert learner.data.wins.tolist() == [0.5]


@pytest.mark.parametrize(
    ("kappa", "nugget"), [("laplace", {}), (2.0, {}), ("laplace", {"nugget": 0.4})]
)
def test_table_and_model_are_one_posterior(kappa: str | float, nugget: dict[str, float]) -> None:
    learner = make({**FIXED, **nugget}, kappa=kappa)
    told = teach(learner, 15)
    exact, model = learner.posterior(), learner.model()
    assert learner.posterior() is exact
    assert learner.model() is model
    posterior = model.posterior(TABLE)
    torch.testing.assert_close(posterior.mean.squeeze(-1), exact.mean, atol=1e-8, rtol=0.0)
    torch.testing.assert_close(posterior.covariance_matrix, exact.covariance, atol=1e-8, rtol=0.0)
    told += teach(learner, 5, seed=1)
    assert learner.model() is not model
    again = make({**FIXED, **nugget}, kappa=kappa)
    for pair, won in told:
        again.add(duel(*pair), won)
    found, expected = learner.posterior().mean, again.posterior().mean
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=0.0)


def test_lengthscales_are_in_units_of_the_box() -> None:
    learner = make(FIXED, box=True)
    kernel = learner.covar_module()
    assert kernel.base_kernel.lengthscale.flatten().tolist() == pytest.approx([0.2, 0.5])
    assert kernel.outputscale.item() == pytest.approx(3.0)
    assert learner.penalty == pytest.approx(1 / 3)
    teach(learner, 3, box=True)
    model = learner.model()
    covariance = model.covar_module(model.transform_inputs(TABLE)).to_dense()
    unit = (TABLE - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0])
    torch.testing.assert_close(covariance, kernel(unit).to_dense())


@pytest.mark.parametrize("seed", range(3))
def test_a_judge_who_hardly_errs_is_believed_and_one_who_guesses_is_not(seed: int) -> None:
    """On boxes, where it is asked for, and whoever stands behind the answers."""
    pairs = BOUNDS[0] + rand(40, 2, 2, seed=seed) * (BOUNDS[1] - BOUNDS[0])
    utility = -((pairs - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0]) - 0.4).norm(dim=-1)
    errs = rand(40, seed=seed + 10) < 0.5
    for sure, guesses, found in (
        (True, False, "ep"),
        (True, True, "laplace"),
        (False, False, "laplace"),
    ):
        learner = make(box=True, sure=sure)
        for items, wins, wrong in zip(pairs, utility[:, 0] > utility[:, 1], errs, strict=True):
            learner.add(Duel(0, items, None), float(wins ^ (guesses and wrong)))
        learner.refit()
        assert learner.inference == learner.model().inference == found


def test_the_inference_of_fixed_values() -> None:
    """A word, and Laplace's on choices."""
    learner = make({**FIXED, "inference": "ep"}, box=True)
    teach(learner, 3, box=True)
    assert learner.model().inference == learner.inference == "ep"
    with pytest.raises(ComparisonDataError, match="`inference` must be one of laplace, ep"):
        make({**FIXED, "inference": "exact"}, box=True)
    with pytest.raises(ComparisonDataError, match="`inference` of choices"):
        make({**FIXED, "inference": "ep"})
    with pytest.raises(ComparisonDataError, match="`inference` of choices"):
        make().values = make().checked({**FIXED, "inference": "ep"})


def test_fixed_values_are_never_fitted() -> None:
    """The penalty is the inverse of the output scale."""
    learner = make({"lengthscale": 0.3, "penalty": 0.05})
    assert learner.penalty == pytest.approx(0.05, rel=1e-12)
    assert learner.values["outputscale"] == pytest.approx(20.0)
    teach(learner, 10)
    assert not learner.refit()
    lengthscale = learner.covar_module().base_kernel.lengthscale
    assert lengthscale.flatten().tolist() == pytest.approx([0.3, 0.3])


@pytest.mark.parametrize("rough", [False, True])
def test_priors_are_chosen_by_evidence(rough: bool) -> None:
    """A fit is under the prior at whose modes the evidence is larger, mostly the one that suits."""
    right = 0
    for seed in range(5):
        learner = make(box=True, seed=seed, falls=True)
        for pair in rand(40, 2, 2, seed=seed):
            utility = 3.0 * torch.sin(12.0 * pair).sum(-1) if rough else 8.0 * pair.sum(-1)
            item = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * pair
            learner.add(Duel(0, item), float(utility[0] > utility[1]))
        values, found = [], []
        for modes, falls in itertools.product((SMOOTH, ROUGH), (False, True)):
            kernel = default_covar_module(2, Size(), **modes)
            transform = learner.space.input_transform()
            data = learner.data
            model = PreferenceGP(
                data.datapoints,
                data,
                covar_module=kernel,
                mean_module=MiddleMean(2, 0.5) if falls else None,
                input_transform=transform,
            )
            values.append(model.log_evidence().item() + 0.2 * falls)
            fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
            found.append(kernel.base_kernel.lengthscale.flatten().tolist())
        assert learner.refit()
        chosen = values.index(max(values))
        assert learner.values["lengthscale"] == pytest.approx(found[chosen], rel=1e-3)
        assert ("fall" in learner.values) == chosen % 2
        right += chosen // 2 == rough
    assert right >= 4


@pytest.mark.parametrize("corner", [False, True])
def test_whether_the_middle_is_better_is_decided_by_evidence(corner: bool) -> None:
    """It is for a bowl, and not for a slope; what was found is in the state of a strategy."""
    falls = []
    for seed in range(5):
        told, uniform = [], rand(40, seed=100 + seed)
        for number, pair in enumerate(rand(40, 2, 2, seed=seed)):
            utility = 6.0 * pair.sum(-1) if corner else -8.0 * (pair - 0.5).square().sum(-1)
            chance = (utility[0] - utility[1]).sigmoid()  # or the judge is taken for a sure one
            item = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * pair
            told.append(Answered(Duel(number, item), float(uniform[number] < chance)))
        strategy = DuelingKG(bounds=BOUNDS, seed=seed, known=told)
        learner = strategy.learner
        assert learner.refit()
        falls.append(learner.values.get("fall", 0.0))
        assert getattr(learner.model().mean_module, "fall", 0.0) == falls[-1]
        state = json.loads(json.dumps(strategy.state_dict()))
        assert DuelingKG.from_state_dict(state).learner.values == learner.values
        plain = make(box=True, seed=seed)
        plain.answered = learner.answered
        assert plain.refit()
        assert "fall" not in plain.values
    assert set(falls) <= {0.0, 0.5}
    assert falls.count(0.0) in ((4, 5) if corner else (0, 1))


@pytest.mark.parametrize(
    ("dim", "corner", "slopes"), [(8, True, False), (9, True, True), (9, False, False)]
)
def test_in_many_dimensions_a_utility_may_slope(dim: int, corner: bool, slopes: bool) -> None:
    """Where the evidence is for it; what was found is in the state of a strategy."""
    bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double).expand(2, dim)
    told, uniform = [], rand(60, seed=1)
    for number, pair in enumerate(2.0 * rand(60, 2, dim)):
        utility = pair.sum(-1) if corner else 2.0 * torch.cos(6.0 * (pair - 1.0)).sum(-1)
        chance = (utility[0] - utility[1]).sigmoid()
        told.append(Answered(Duel(number, pair), float(uniform[number] < chance)))
    strategy = DuelingKG(bounds=bounds, seed=0, known=told)
    learner = strategy.learner
    gained = []
    for modes in ({"lengthscale": 0.7}, {"lengthscale": 0.15 * dim**0.5, "outputscale": 1.5}):
        for fall, slope in ((0.0, None), (0.5, None), (1.3, 0.8))[: 3 if dim > 8 else 2]:
            kernel = default_covar_module(dim, Size(), **modes)
            if slope is not None:
                kernel = default_covar_module(dim, Size(), **{**modes, "outputscale": 1.0})
                kernel.base_kernel = SlopeKernel(kernel.base_kernel, slope)
            data = learner.data
            model = PreferenceGP(
                data.datapoints,
                data,
                covar_module=kernel,
                mean_module=MiddleMean(dim, fall) if fall else None,
                input_transform=learner.space.input_transform(),
            )
            evidence = model.log_evidence().item()
            against = 0.2 * (fall == 0.0) + 0.5 * (dim == 9 and slope is None)
            gained.append((evidence - against, fall, slope))
    _, fall, slope = max(gained)
    assert slope == (0.8 if slopes else None)
    assert learner.refit()
    assert (learner.values.get("fall", 0.0), learner.values.get("slope")) == (fall, slope)
    if slopes:  # of both alone the best item is at 1/2 + slope / (8 fall / sqrt(d)): anywhere
        deviation = math.sqrt(slope * 12.0 / dim) / (8.0 * fall / math.sqrt(dim))
        assert deviation == pytest.approx(math.sqrt(1 / 12), rel=0.05)
    state = json.loads(json.dumps(strategy.state_dict()))
    again = DuelingKG.from_state_dict(state)
    assert again.learner.values == learner.values
    items = 2.0 * rand(7, dim, seed=2)
    means = [one.model().posterior(items).mean for one in (learner, again.learner)]
    torch.testing.assert_close(*means)


@pytest.mark.parametrize(("dim", "fall"), [(8, 0.5), (9, 1.3)])
def test_what_is_believed_first(dim: int, fall: float) -> None:
    """Answers to a pair of nearly the same items, either way, are evidence for nothing."""
    learner = UtilityLearner(SearchSpace(BOUNDS[:, :1].expand(2, dim)), falls=True)
    items = BOUNDS[0, 0] + (BOUNDS[1, 0] - BOUNDS[0, 0]) * torch.tensor([0.495, 0.505]).double()
    pair = items.unsqueeze(-1).expand(2, dim)
    for number in range(4):
        learner.add(Duel(number, pair), float(number % 2))
    assert learner.refit()
    assert learner.values["fall"] == fall
    assert ("slope" in learner.values) == (dim == 9)


def test_choices_have_no_middle() -> None:
    learner = make(falls=True)
    teach(learner, 30)
    assert learner.refit()
    assert "fall" not in learner.values
    for name in ("fall", "slope"):
        with pytest.raises(ComparisonDataError, match=f"`{name}` is of a box"):
            make({**FIXED, name: 0.5})
    for share in (-1.0, 1.0):
        with pytest.raises(ComparisonDataError, match="`slope`"):
            make({**FIXED, "slope": share}, box=True)
    with pytest.raises(ComparisonDataError, match="`fall`"):
        make({**FIXED, "fall": -1.0}, box=True)
    found = make({**FIXED, "fall": 2.0}, box=True).model().mean_module
    assert isinstance(found, MiddleMean)
    assert found.fall == 2.0
    for kind, own in (MRLPF, {"horizon": 20}), (POPBO, {}):  # of the kernel alone
        with pytest.raises(UnsupportedError, match='`hyperparameters` "fall"'):
            kind(bounds=BOUNDS, hyperparameters={**FIXED, "fall": 1.0}, **own)


@pytest.mark.parametrize(("dim", "rough"), [(1, 0.15), (4, 0.3), (100, 0.7)])
def test_more_dimensions_are_wider(dim: int, rough: float) -> None:
    """Before any answer counts, a rough utility of more dimensions has longer lengthscales."""
    learner = UtilityLearner(SearchSpace(torch.tensor([[0.0], [1.0]]).double().expand(2, dim)))
    smooth, rougher = (learner._default_kernel({}, modes) for modes in learner._prior_modes())
    for kernel, mode in (smooth, 0.7), (rougher, rough):
        lengthscale = kernel.base_kernel.lengthscale
        assert lengthscale.flatten().tolist() == pytest.approx([mode] * dim)


@pytest.mark.parametrize("dim", [3, 9, 64, 768])
def test_rows_of_many_columns_are_not_unrelated(dim: int) -> None:
    """Typical rows are correlated alike before any answer, however many columns tell of them."""
    learner = UtilityLearner(SearchSpace(choices=rand(100, dim)))
    smooth, rougher = (learner._default_kernel({}, modes) for modes in learner._prior_modes())
    typical = []
    for kernel in (smooth, rougher):
        kernel.base_kernel.nugget = 1e-6
        matrix = kernel(rand(100, dim)).to_dense().detach()
        typical.append(float(matrix.median()) / float(matrix.diagonal().max()))
    assert 0.4 < typical[0] < 0.6
    assert 0.005 < typical[1] < 0.1


@pytest.mark.parametrize("levels", [2, 7, 50])
def test_a_category_counts_for_one_number(levels: int) -> None:
    """However many levels it has, what is believed of the numbers beside it stays as it was."""
    kinds = torch.arange(100).double() % levels
    rows = torch.cat([kinds.unsqueeze(-1), rand(100, 2)], dim=-1)
    mixed = UtilityLearner(SearchSpace(choices=rows, categorical=[0]))
    assert mixed.space.num_features == levels + 2
    assert mixed._prior_modes() == UtilityLearner(SearchSpace(choices=rand(100, 3)))._prior_modes()


def test_names_of_rows_change_nothing() -> None:
    """Not a question, nor what is recommended."""
    numbers = rand(30, 2)
    names = torch.randperm(30, generator=torch.Generator().manual_seed(0)).double()
    named = SearchSpace(choices=torch.cat([numbers, names.unsqueeze(-1)], -1), categorical=[2])
    asked = []
    for space in (SearchSpace(choices=numbers), named):
        strategy = DuelingKG(space=space, seed=0)
        for _ in range(8):
            query = strategy.ask()
            strategy.tell(query, float(query.items[0, 0] > query.items[1, 0]))
        asked.append([*(done.query.indices for done in strategy.history)])
        asked[-1].append(strategy.recommend_index())
    assert asked[0] == asked[1]
    # Of a version whose models saw names.
    state = strategy.state_dict()
    scales = state["progress"]["hyperparameters"]["lengthscale"]
    assert len(scales) == 2
    state["progress"]["hyperparameters"]["lengthscale"] = [*scales, *[3.0] * 30]
    again = DuelingKG.from_state_dict(state)
    assert again.learner.values["lengthscale"] == scales
    assert again.ask().indices == strategy.ask().indices


def test_a_fit_is_that_of_the_evidence() -> None:
    learner = make()
    assert not learner.refit()
    teach(learner, 12)
    assert learner.refit()
    kernel = default_covar_module(2, Size(), **SMOOTH)
    kernel.base_kernel = NuggetKernel(kernel.base_kernel)
    model = PreferenceGP(
        TABLE,
        learner.data,
        covar_module=kernel,
        input_transform=Normalize(2, bounds=learner.space.bounds),
    )
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    fitted = model.covar_module
    assert learner.values["lengthscale"] == pytest.approx(
        fitted.base_kernel.base_kernel.lengthscale.flatten().tolist(), rel=1e-3
    )
    assert [learner.values["nugget"]] == pytest.approx(fitted.base_kernel.nugget.tolist(), rel=1e-3)
    assert learner.values["outputscale"] == pytest.approx(fitted.outputscale.item(), rel=1e-3)
    gram = fitted(learner.space.normalize(TABLE)).to_dense()
    prior = learner.posterior().prior_covariance
    torch.testing.assert_close(prior, gram, atol=1e-2, rtol=1e-2)
    assert not learner.refit()


def test_fits_are_repeated_as_the_data_grow_by_a_tenth() -> None:
    learner, sizes = make(), []
    for size in range(1, 31):
        teach(learner, 1, seed=size)
        if learner.refit():
            sizes.append(size)
    assert sizes[:3] == [1, 2, 3]
    for last, size in itertools.pairwise(sizes):
        assert 1.1 * last - 1e-9 <= size <= math.ceil(1.1 * last + 1e-9)
    assert 1.1 * sizes[-1] > 30


@pytest.mark.parametrize("kappa", ["laplace", 2.0])
@pytest.mark.parametrize("box", [False, True])
def test_the_model_does_not_depend_on_when_it_was_asked_for(box: bool, kappa: str | float) -> None:
    steady, late, copied = (make(FIXED, box, kappa=kappa) for _ in range(3))
    for size in range(5):
        for learner in (steady, late, copied):
            teach(learner, 1, seed=size, box=box)
        expected = steady.model().posterior(TABLE)
        copied = copy.deepcopy(copied)
        assert torch.equal(
            copied.model().posterior(TABLE).covariance_matrix, expected.covariance_matrix
        )
    found = late.model().posterior(TABLE)
    assert torch.equal(found.mean, expected.mean)
    assert torch.equal(found.covariance_matrix, expected.covariance_matrix)


def test_the_last_refit_is_that_of_answers_one_by_one() -> None:
    fitted = 0
    for size in range(60):
        if refit_is_due(size, fitted):
            fitted = size
        assert last_refit(size) == fitted
    assert fitted < 59


# Every strategy takes a link and a kernel, learns the kernel's parameters, and stores both.

STRATEGIES = (PFTS, MRLPF, MaxMinLCBStrategy, POPBO, LaplacePOPBO, EUBO, DTS, RandomPairs)


def matern(dim: int) -> Kernel:
    """Matern-3/2 with a lengthscale for each dimension, all of them learnt."""
    prior = LogNormalPrior(0.0, 1.0)
    base = MaternKernel(nu=1.5, ard_num_dims=dim, lengthscale_prior=prior)
    return ScaleKernel(base, outputscale_prior=prior)


def play(strategy: Any, num_queries: int) -> None:
    for step in range(num_queries):
        query = strategy.ask()
        strategy.tell(query, answer(query) if step else 0.5)


@pytest.mark.parametrize(
    ("kind", "domain"),
    [
        *((kind, {"choices": TABLE}) for kind in STRATEGIES),
        *((kind, {"bounds": BOUNDS}) for kind in (PFTS, POPBO)),
        *(
            pytest.param(kind, {"bounds": BOUNDS}, marks=pytest.mark.slow)
            for kind in STRATEGIES
            if kind not in (PFTS, POPBO)
        ),
    ],
)
def test_a_probit_judge_and_a_kernel_that_is_learnt(
    kind: Any, domain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_searches(monkeypatch)
    options = {**domain, **({"horizon": 4} if kind is MRLPF else {})}
    strategy = kind(**options, likelihood=ProbitLikelihood(0.7), covar_module=matern, seed=1)
    play(strategy, 2)
    item, model = strategy.recommend(), strategy.learner.model()
    assert isinstance(model.likelihood, ProbitLikelihood)
    kernel = strategy.learner.covar_module()
    assert isinstance(kernel.base_kernel, MaternKernel)
    assert not torch.equal(kernel.base_kernel.lengthscale, matern(2).base_kernel.lengthscale)
    state = json.loads(json.dumps(strategy.state_dict()))
    assert state["options"]["likelihood"] == {"link": "probit", "scale": 0.7}
    read = kind.from_state_dict(state, covar_module=matern)
    assert read.state_dict() == state
    assert torch.equal(read.recommend(), item)
    assert read.ask() == strategy.ask()
    assert strategy.with_state(state).ask() == strategy.ask()
    with pytest.raises(ComparisonDataError, match="`covar_module`"):
        kind.from_state_dict(state)
    with pytest.raises(ComparisonDataError, match="`covar_module` has parameters"):
        kind.from_state_dict(state, covar_module=RBFKernel())


@pytest.mark.parametrize("kind", [COBOL, CompGPUCB, CostAwareKG])
def test_a_kernel_of_values_that_is_learnt(kind: Any) -> None:
    options = {"num_initial_values": 3, "covar_module": matern}
    options["num_initial_labels" if kind is COBOL else "num_initial_duels"] = 3
    if kind is CostAwareKG:
        options["likelihood"] = ProbitLikelihood(0.5)
    strategy = kind(choices=TABLE, **options)
    budget.play(strategy, 8)
    model = strategy.model() if kind is CostAwareKG else strategy.values.model()
    assert kind is not CostAwareKG or model.likelihood.scale == 0.5
    (kernel,) = (one for one in model.modules() if isinstance(one, MaternKernel))
    assert not torch.allclose(kernel.lengthscale, matern(2).base_kernel.lengthscale.double())
    read = kind.from_state_dict(strategy.state_dict(), covar_module=matern)
    assert read.ask() == strategy.ask()
    with pytest.raises(ComparisonDataError, match="`covar_module`"):
        stored(strategy)


def test_a_kernel_without_an_output_scale_is_the_unit_kernel() -> None:
    kernel = RBFKernel() + LinearKernel()
    strategy = PFTS.paper(choices=TABLE, covar_module=kernel, hyperparameters="evidence")
    play(strategy, 4)
    assert strategy.learner.penalty == 1.0
    assert {"kernels.0.raw_lengthscale", "kernels.1.raw_variance"} == set(strategy.learner.values)
    unit = strategy.space.normalize(TABLE)
    prior = strategy.learner.posterior().prior_covariance
    torch.testing.assert_close(prior, strategy.learner.covar_module()(unit).to_dense())
    assert kernel.kernels[0].lengthscale.item() == RBFKernel().lengthscale.item()  # a copy learns


def test_a_kernel_that_requires_no_gradient_stays_as_it_is() -> None:
    kernel = ScaleKernel(RBFKernel())
    kernel.base_kernel.lengthscale, kernel.outputscale = 0.3, 4.0
    given = PFTS(choices=TABLE, covar_module=kernel.requires_grad_(False), seed=2)
    fixed = {"lengthscale": 0.3, "outputscale": 4.0}
    named = PFTS(choices=TABLE, hyperparameters=fixed, seed=2)
    for strategy in (given, named):
        play(strategy, 6)
    assert given.learner.num_fitted == 0
    assert given.learner.penalty == pytest.approx(0.25)
    assert [done.query for done in given.history] == [done.query for done in named.history]


@pytest.mark.parametrize("nugget", [0.0, 1.0, "much"])
def test_a_nugget_is_a_share(nugget: Any) -> None:
    with pytest.raises(ComparisonDataError, match="`nugget` must be"):
        make({**FIXED, "nugget": nugget})


def test_arguments_that_are_no_kernel_and_no_link() -> None:
    for wrong in ({"covar_module": "rbf"}, {"covar_module": lambda dim: dim}):
        with pytest.raises(ComparisonDataError, match="`covar_module`"):
            EUBO(choices=TABLE, **wrong)
    with pytest.raises(ComparisonDataError, match="`hyperparameters` or `covar_module`"):
        EUBO(choices=TABLE, covar_module=matern, hyperparameters=FIXED)
    for wrong in ("probit", {"link": "cauchit", "scale": 1.0}):
        with pytest.raises(ComparisonDataError, match="`likelihood`"):
            EUBO(choices=TABLE, likelihood=wrong)
    with pytest.raises(UnsupportedError, match="softmax"):
        MultipleChoicePOPBO(choices=TABLE, likelihood=ProbitLikelihood())
    read = stored(MultipleChoicePOPBO(choices=TABLE, likelihood=LogitLikelihood(2.0)))
    assert read.likelihood.scale == 2.0
    state = EUBO(choices=TABLE).state_dict()
    with pytest.raises(ComparisonDataError, match="leave out `covar_module`"):
        EUBO.from_state_dict(state, covar_module=matern)


@pytest.mark.parametrize("box", [True, False])
def test_samples_of_hyperparameters_are_a_mixture(box):
    """The posterior is the average over models of the single samples, and is restored."""
    learner = make("samples", box=box)
    for number in range(12):
        rows = (number % 9, (5 * number + 1) % 9)
        items = TABLE[list(rows)]
        learner.add(Duel(number, items, None if box else rows), float(items[0, 0] > items[1, 0]))
    assert learner.refit()
    values = json.loads(json.dumps(learner.values))
    assert len(values["outputscale"]) == 8
    assert len({*values["outputscale"]}) > 4
    assert ("nugget" in values) is not box
    means = []
    for i in range(8):
        single = {name: value[i] for name, value in values.items() if name != "kernel"}
        one = make({**single, "kernel": "matern"}, box=box)
        for query, told in learner.answered:
            one.add(query, told)
        means.append(one.model().posterior(TABLE).mean.squeeze(-1))
    expected = torch.stack(means).mean(0).detach()
    found = learner.model().posterior(TABLE).mean.squeeze(-1).detach()
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    if not box:
        table = learner.posterior()
        torch.testing.assert_close(table.mean, expected, rtol=1e-6, atol=1e-6)
        assert table.covariance.shape == (9, 9)
    drawn = learner.drawn_model(3).posterior(TABLE).mean.squeeze(-1)
    assert any(torch.allclose(drawn, mean, rtol=1e-6) for mean in means)
    again = make("samples", box=box)
    for query, told in learner.answered:
        again.add(query, told)
    again.values, again.num_fitted = again.checked(values), learner.num_fitted
    same = again.model().posterior(TABLE).mean.squeeze(-1).detach()
    torch.testing.assert_close(same, found, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "space"),
    [
        *((kind, {"bounds": BOUNDS}) for kind in (DTS, EUBO, MaxMinLCBStrategy)),
        *((kind, {"choices": TABLE}) for kind in (DuelingKG, LaplacePOPBO, PFTS, RandomPairs)),
    ],
)
def test_strategies_go_on_with_their_samples(kind, space, monkeypatch):
    shorten_searches(monkeypatch)
    strategy = kind(hyperparameters="samples", seed=1, **space)
    for _ in range(6):
        query = strategy.ask()
        strategy.tell(query, float(query.items[0].sum() > query.items[1].sum()))
    other = kind.from_state_dict(json.loads(json.dumps(strategy.state_dict())))
    assert strategy.learner.samples
    assert torch.equal(strategy.ask().items, other.ask().items)
    assert torch.equal(strategy.recommend(), other.recommend())


def test_samples_are_refused_where_one_kernel_is_wanted():
    for kind, options in ((POPBO, {}), (MRLPF, {"horizon": 20})):
        with pytest.raises(UnsupportedError, match=kind.__name__):
            kind(bounds=BOUNDS, hyperparameters="samples", **options)
    with pytest.raises(UnsupportedError, match="kappa"):
        make("samples", kappa=1.0)
    with pytest.raises(ComparisonDataError, match="covar_module"):
        make("samples", covar_module=RBFKernel())
    values = {"lengthscale": 8 * [[0.1, 0.2]], "outputscale": 8 * [2.0], "kernel": "matern"}
    with pytest.raises(ComparisonDataError, match="outputscale"):
        make(values, box=True)
    learner = make("samples", box=True)
    for wrong in (8 * [-1.0], 7 * [2.0], 2.0, None):
        with pytest.raises(ComparisonDataError, match="outputscale"):
            learner.checked({**values, "outputscale": wrong})
    with pytest.raises(ComparisonDataError, match="lengthscale"):
        learner.checked({"outputscale": 8 * [2.0], "kernel": "matern"})
    learner.values = learner.checked(values)
    assert learner.values == values
