"""One closed loop: its problem, its models, and what it counts."""

import pytest
import torch
from botorch.models import PairwiseGP
from gpytorch.kernels import MaternKernel, RBFKernel
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.models import PreferenceGP
from experiments.defaults import loop
from experiments.defaults.loop import (
    DEFAULT,
    FUNCTIONS,
    MULTIMODAL,
    NUM_INITIAL,
    PAIRWISE_GP,
    SPREAD,
    Cell,
    StandardisedProblem,
    build_model,
    check_model,
)

HORIZON = 3 * NUM_INITIAL


def cell(function: str = "branin", seed: int = 0, model: str = DEFAULT) -> Cell:
    return Cell(function, SPREAD, seed, model, HORIZON)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_standardised_utilities(name: str) -> None:
    raw = FUNCTIONS[name]
    problem = StandardisedProblem(raw)
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(20_000, problem.dim, generator=generator, dtype=torch.double)
    values = problem(X)
    assert abs(values.mean()) < 0.1 * SPREAD
    assert values.std().item() == pytest.approx(SPREAD, rel=0.1)
    assert values.max() <= problem.optimal_value + 1e-6
    # The same function up to a positive scale and a shift.
    assert torch.equal(values.argsort(), raw(X).argsort())
    if name in MULTIMODAL:  # whose optimizers BoTorch knows
        best = torch.tensor(raw._optimizers, dtype=torch.double)
        assert problem(best).max().item() == pytest.approx(problem.optimal_value, abs=1e-3)
    assert torch.equal(problem.bounds, torch.tensor([[0.0], [1.0]]).expand(2, raw.dim).double())


def test_smooth_functions_have_their_maximum() -> None:
    linear, quadratic = FUNCTIONS["linear4"], FUNCTIONS["quadratic6"]
    corner = torch.ones(1, 4, dtype=torch.double)
    # 1 + sqrt(2) + sqrt(3) + 2, as BoTorch's tutorial has it.
    assert linear(corner).item() == linear.optimal_value == pytest.approx(6.146264)
    X = torch.rand(4096, 6, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    gradient = torch.func.grad(lambda x: quadratic(x).sum())(X)
    best = X - gradient / (2 * -torch.arange(1, 7).double().sqrt())  # of a quadratic one step
    assert torch.allclose(best, best[:1].expand_as(best))
    assert quadratic(best[:1]).item() == pytest.approx(quadratic.optimal_value, abs=1e-12)
    assert ((best[0] - 0.5).abs() > 0.04).all()
    assert ((best[0] > 0.0) & (best[0] < 1.0)).all()


def test_models_by_name() -> None:
    X = torch.rand(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    rows = torch.tensor([[0, 1], [2, 3]])
    default = build_model(DEFAULT, X, rows)
    assert isinstance(default, PreferenceGP)
    assert str(default.covar_module) == str(PreferenceGP(X, rows).covar_module)
    matern = build_model("matern:0.3:5", X, rows).covar_module
    assert isinstance(matern.base_kernel, MaternKernel)
    assert torch.allclose(matern.base_kernel.lengthscale, torch.tensor(0.3).double())
    assert matern.outputscale.item() == pytest.approx(5.0)
    rbf = build_model("rbf:0.2/0.9:1/4", X, rows).covar_module
    assert isinstance(rbf.base_kernel, RBFKernel)
    assert rbf.scales_prior.modes == ((0.2, 1.0), (0.9, 4.0))
    pairwise = build_model(PAIRWISE_GP, X, rows)
    assert isinstance(pairwise, PairwiseGP)
    assert torch.equal(pairwise.datapoints, X)
    for name in ("nobody", "rbf:0.4", "rbf:0:4", "rbf:a:4", "linear:0.4:4", "rbf:0.2/0.7:4"):
        with pytest.raises(UnsupportedError, match="unknown model"):
            check_model(name)


def test_models_meet_the_same_judge_and_pairs() -> None:
    loops = [loop._Loop(cell(model=name)) for name in (DEFAULT, PAIRWISE_GP)]
    assert torch.equal(torch.stack(loops[0].pairs), torch.stack(loops[1].pairs))
    assert loops[0].answers == loops[1].answers
    other = loop._Loop(cell(seed=1))
    assert not torch.equal(torch.stack(other.pairs), torch.stack(loops[0].pairs))


def test_shares_of_better_items() -> None:
    one = loop._Loop(cell("linear4"))
    assert one.share(torch.zeros(4).double()).item() == pytest.approx(1.0)
    assert one.share(torch.ones(4).double()).item() == pytest.approx(0.5 / 2**17)
    assert one.share(torch.full((4,), 0.5).double()).item() == pytest.approx(0.5, abs=1e-3)


def test_the_incumbent_meets_another_item() -> None:
    one = loop._Loop(cell("linear4"))
    model = one.fitted()
    pair = one.ask(model, 4)
    assert torch.equal(pair[0], one.maximiser(model, 4))
    assert not torch.equal(pair[0], pair[1])


def test_failures_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(loop, "fit_gpytorch_mll", fail)
    monkeypatch.setattr(loop, "optimize_acqf", fail)
    row = cell().run()
    assert row["failed_fits"] == row["fits"] == HORIZON - NUM_INITIAL + 1
    assert row["failed_asks"] >= 2 * (HORIZON - NUM_INITIAL)


def test_equal_items_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(acq_function: object, bounds: Tensor, **kwargs: object) -> tuple[Tensor, None]:
        return bounds.mean(dim=0, keepdim=True), None

    monkeypatch.setattr(loop, "optimize_acqf", same)
    one = loop._Loop(cell())
    pair = one.ask(one.fitted(), NUM_INITIAL)
    assert torch.equal(pair[0], torch.full((2,), 0.5, dtype=torch.double))
    assert not torch.equal(pair[0], pair[1])


def test_a_loop_is_reproducible_and_leaves_the_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        rows = [cell("hartmann3", 1).run() for _ in range(2)]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    for name in ("share_1", "share_2", "share_3", "rank"):
        assert rows[0][name] == rows[1][name]
