import copy
import pickle

import pytest
import torch
from botorch.exceptions.errors import BotorchError
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems import ItemError, PreferenceProblem


class Bowl(PreferenceProblem):
    """Written the way BoTorch's users write a test problem."""

    _bounds = [(-1.0, 1.0), (0.0, 2.0)]  # noqa: RUF012
    _optimal_value = 0.0

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return -X.square().sum(dim=-1)


CHOICES = torch.tensor([[0.5, 0.0], [0.0, 2.0], [-0.5, 1.0]], dtype=torch.double)


def test_box() -> None:
    problem = Bowl()
    assert problem.name == "bowl"
    assert problem.dim == 2
    assert problem.bounds.tolist() == [[-1.0, 0.0], [1.0, 2.0]]
    assert problem.choices is None
    assert problem.optimal_value == 0.0
    assert not problem.is_minimization_problem
    for batch_shape in ([], [3], [2, 3]):
        X = torch.rand(*batch_shape, 2, dtype=torch.double)
        assert torch.equal(problem(X), -X.square().sum(dim=-1))


def test_box_has_no_choices() -> None:
    with pytest.raises(UnsupportedError, match="bowl has no choices"):
        _ = Bowl().utilities
    with pytest.raises(UnsupportedError, match="bowl has no choices"):
        Bowl().utility(torch.tensor([0]))


def test_choices() -> None:
    problem = Bowl(choices=CHOICES)
    assert problem.choices is not None
    assert torch.equal(problem.choices, CHOICES)
    expected = torch.tensor([-0.25, -4.0, -1.25], dtype=torch.double)
    assert torch.equal(problem.utilities, expected)
    assert problem.optimal_value == -0.25  # of the choices, not of the box
    indices = torch.tensor([[0, 2], [1, 1]])
    assert torch.equal(problem.utility(indices), expected[indices])
    assert problem.utility(torch.tensor(1)).item() == -4.0


def test_bounds_of_an_instance() -> None:
    problem = Bowl(bounds=[(0, 3)] * 4)
    assert problem.dim == 4
    assert problem(torch.full((4,), 3.0)).item() == -36.0
    assert Bowl().dim == 2


def test_precision_copies_and_pickles() -> None:
    problem = Bowl(choices=CHOICES)
    assert problem.utilities.dtype == torch.double
    for twin in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert torch.equal(twin.utilities, problem.utilities)
    single = problem.to(torch.float)
    assert single.utilities.dtype == single.bounds.dtype == torch.float
    assert torch.equal(single(single.choices), single.utilities)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[0.0, 1.0], [0.0, NAN]], r"X is not finite in row \[1\]"),
        ([[0.0, INF], [0.0, 0.0]], r"X is not finite in row \[0\]"),
        ([[0.0, 1.0], [0.0, -0.1]], r"within the bounds.*Row \[1\]"),
        ([[0.0, 2.1]], r"within the bounds.*Row \[0\]"),
        ([[0.0, 1.0, 2.0]], r"`X` to have shape `\(batch_shape\) x 2`, got \(1, 3\)"),
        (1.0, r"`X` to have shape"),
        ([[0, 1]], r"X must be floating point, got torch.int64"),
    ],
)
def test_bad_items(X: object, message: str) -> None:
    problem = Bowl()
    for evaluate in (problem, problem.evaluate_true):
        with pytest.raises(ItemError, match=message):
            evaluate(torch.tensor(X))


def test_item_error_is_in_both_trees() -> None:
    assert issubclass(ItemError, BotorchError)
    assert issubclass(ItemError, SearchSpaceError)
    assert issubclass(ItemError, ValueError)  # as BoTorch's own test problems raise


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (torch.zeros(0, 2), "choices must be a non-empty n x d"),
        (torch.zeros(2), "choices must be a non-empty n x d"),
        (torch.zeros(2, 3), "`choices` to have shape"),
        (torch.full((2, 2), 3.0), r"`choices` to be within the bounds.*Row \[0\]"),
        (torch.tensor([[0.0, 0.0], [NAN, 0.0]]), r"choices is not finite in row \[1\]"),
        (torch.zeros(2, 2, dtype=torch.long), "choices must be floating point"),
    ],
)
def test_bad_choices(choices: Tensor, message: str) -> None:
    with pytest.raises(SearchSpaceError, match=message):
        Bowl(choices=choices)


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        (torch.tensor([0, 3]), r"lie in \[0, 3\), got 3 at \[1\]"),
        (torch.tensor([[0, 1], [-1, 2]]), r"got -1 at \[1, 0\]"),
        (torch.tensor([0.0, 1.0]), "whole numbers, got torch.float32"),
        (torch.tensor([True, False, True]), "whole numbers, got torch.bool"),
    ],
)
def test_bad_indices(indices: Tensor, message: str) -> None:
    with pytest.raises(ItemError, match=message):
        Bowl(choices=CHOICES).utility(indices)
