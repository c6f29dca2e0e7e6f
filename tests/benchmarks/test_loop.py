"""One closed loop: its problem, its models, and what it counts."""

import math

import pytest
import torch
from botorch.models import PairwiseGP
from gpytorch.kernels import MaternKernel, RBFKernel
from torch import Tensor

from botorch_pref.benchmarks import loop
from botorch_pref.benchmarks.loop import FUNCTIONS, MODELS, NUM_INITIAL, SPREAD, Cell
from botorch_pref.models import PreferenceGP
from botorch_pref.problems import get_problem

HORIZON = NUM_INITIAL + 2


@pytest.mark.parametrize("name", FUNCTIONS)
def test_standardised_utilities(name: str) -> None:
    raw = get_problem(name, **FUNCTIONS[name])
    problem = loop.StandardisedProblem(raw)
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(20_000, problem.dim, generator=generator, dtype=torch.double)
    values = problem(X)
    assert abs(values.mean()) < 0.1 * SPREAD
    assert values.std().item() == pytest.approx(SPREAD, rel=0.1)
    assert values.max() <= problem.optimal_value + 1e-6
    # The same function up to a positive scale and a shift.
    assert torch.equal(values.argsort(), raw(X).argsort())
    best = torch.tensor(problem.problem._optimizers, dtype=torch.double)
    assert problem(best).max().item() == pytest.approx(problem.optimal_value, abs=1e-3)


def test_eight_functions_in_two_to_eight_dimensions() -> None:
    dims = [get_problem(name, **options).dim for name, options in FUNCTIONS.items()]
    assert len(dims) >= 8
    assert (min(dims), max(dims)) == (2, 8)


def test_models_differ_in_the_kernel_only() -> None:
    pairs = torch.rand(3, 2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    answers = torch.tensor([1.0, 0.0, 1.0], dtype=torch.double)
    matern, rbf = MODELS["matern"](pairs, answers), MODELS["rbf"](pairs, answers)
    assert isinstance(matern, PreferenceGP)
    assert isinstance(rbf, PreferenceGP)
    assert isinstance(matern.covar_module.base_kernel, MaternKernel)
    assert isinstance(rbf.covar_module.base_kernel, RBFKernel)
    state = matern.state_dict()
    assert state.keys() == rbf.state_dict().keys()
    assert all(torch.equal(state[key], value) for key, value in rbf.state_dict().items())
    priors = [{name: type(p) for name, _, p, *_ in m.named_priors()} for m in (matern, rbf)]
    assert priors[0] == priors[1]
    assert len(priors[0]) == 2


def test_pairwise_gp_sees_the_same_answers() -> None:
    pairs = torch.tensor([[[0.0], [0.5]], [[0.2], [1.0]]], dtype=torch.double)
    model = MODELS["pairwise-gp"](pairs, torch.tensor([1.0, 0.0], dtype=torch.double))
    assert isinstance(model, PairwiseGP)
    winners_first = model.datapoints[model.comparisons].squeeze(-1)
    assert torch.equal(winners_first, torch.tensor([[0.0, 0.5], [1.0, 0.2]], dtype=torch.double))


def test_dimension_scaled_prior() -> None:
    pairs = torch.rand(3, 2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    model = MODELS["matern-dimension-scaled"](pairs, torch.ones(3, dtype=torch.double))
    kernel = model.covar_module.base_kernel
    assert kernel.lengthscale_prior.loc.item() == pytest.approx(math.sqrt(2) + math.log(4) / 2)
    mode = math.exp(math.sqrt(2) + math.log(4) / 2 - 3)
    assert torch.allclose(kernel.lengthscale, torch.full((1, 4), mode, dtype=torch.double))
    assert len(list(model.named_priors())) == 2


def test_models_meet_the_same_judge_and_pairs() -> None:
    loops = [loop._Loop(Cell("branin", 0, model, "eubo", 9)) for model in MODELS]
    assert all(torch.equal(torch.stack(one.pairs), torch.stack(loops[0].pairs)) for one in loops)
    assert all(one.answers == loops[0].answers for one in loops)
    other = loop._Loop(Cell("branin", 1, "matern", "eubo", 9))
    assert not torch.equal(torch.stack(other.pairs), torch.stack(loops[0].pairs))


def test_failures_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(loop, "fit_gpytorch_mll", fail)
    monkeypatch.setattr(loop, "optimize_acqf", fail)
    row = Cell("branin", 0, "matern", "eubo", HORIZON).run()
    assert row["failed_fits"] == row["fits"] == HORIZON - NUM_INITIAL + 1
    assert row["failed_asks"] == HORIZON - NUM_INITIAL


def test_an_identical_pair_adds_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(acq_function: object, bounds: Tensor, **kwargs: object) -> tuple[Tensor, None]:
        return bounds.mean(dim=0).expand(2, -1), None

    monkeypatch.setattr(loop, "optimize_acqf", same)
    row = Cell("branin", 0, "matern", "eubo", HORIZON).run()
    assert row["identical"] == HORIZON - NUM_INITIAL
    assert row["failed_fits"] == 0


def test_a_loop_is_reproducible_and_leaves_the_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        rows = [Cell("hartmann3", 1, "rbf", "pf-ts", HORIZON).run() for _ in range(2)]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    for name in ("regret", "duel_regret", "relative_duel_regret"):
        assert rows[0][name] == rows[1][name]
