import numpy as np
import pytest
import torch
from botorch.utils.testing import (
    BaseTestProblemTestCaseMixIn,
    BotorchTestCase,
    SyntheticTestFunctionTestCaseMixin,
)
from scipy.optimize import differential_evolution

from experiments.problems import CrossInTray, Levy13
from tests._reference.table2 import TABLE2


class TestAsBoTorchTestFunctions(
    BotorchTestCase, BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin
):
    functions = (CrossInTray(), CrossInTray(negate=True), Levy13(), Levy13(negate=True))


CLASSES = {"crossintray": CrossInTray, "levy13": Levy13}


@pytest.mark.parametrize("name", CLASSES)
def test_definition(name: str) -> None:
    reference = TABLE2[name]
    function = CLASSES[name]()
    X = -10.0 + 20.0 * torch.rand(
        500, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0)
    )
    expected = reference.utility(*X.numpy().T)
    assert np.allclose(-function(X).numpy(), expected, rtol=1e-12, atol=1e-12)
    # Single precision has no e^100.
    single = function(X.float())
    assert single.isfinite().all()
    assert np.allclose(-single.numpy(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", CLASSES)
def test_gradients(name: str) -> None:
    X = torch.tensor([[0.3, 7.1], [-4.4, 2.2]], dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(CLASSES[name]()._evaluate_true, (X,))


@pytest.mark.parametrize("name", CLASSES)
def test_minimum(name: str) -> None:
    reference, function = TABLE2[name], CLASSES[name]()
    found = differential_evolution(
        lambda x: -reference.utility(*x), [(-10.0, 10.0)] * 2, seed=0, tol=1e-12
    )
    assert function.optimal_value == pytest.approx(found.fun, abs=1e-9)
    reached = function(function.optimizers)
    assert torch.allclose(
        reached, torch.full_like(reached, function.optimal_value), rtol=0.0, atol=1e-14
    )
    distance = np.linalg.norm(function.optimizers.numpy() - found.x, axis=-1)
    assert distance.min() < 1e-5
