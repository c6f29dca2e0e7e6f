import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems import ItemError, PreferenceProblem, TableProblem


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
    with pytest.raises(UnsupportedError, match="bowl has no choices"):
        problem.utility(torch.tensor([0]))
    assert Bowl(bounds=[(0, 3)] * 4)(torch.full((4,), 3.0)).item() == -36.0
    assert problem.optimal_value == 0.0
    assert not problem.is_minimization_problem
    for batch_shape in ([], [3], [2, 3]):
        X = torch.rand(*batch_shape, 2, dtype=torch.double)
        assert torch.equal(problem(X), -X.square().sum(dim=-1))


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


def test_precision_copies_and_pickles() -> None:
    problem = Bowl(choices=CHOICES)
    assert problem.utilities.dtype == torch.double
    for twin in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert torch.equal(twin.utilities, problem.utilities)
    single = problem.to(torch.float)
    assert single.utilities.dtype == single.bounds.dtype == torch.float
    assert torch.equal(single(single.choices), single.utilities)


NAN, INF = float("nan"), float("inf")
SMALL = Bowl(choices=CHOICES)


@pytest.mark.parametrize(
    ("call", "given", "message"),
    [
        (SMALL, [[0.0, 1.0], [0.0, NAN]], r"X is not finite in row \[1\]"),
        (SMALL, [[0.0, INF], [0.0, 0.0]], r"X is not finite in row \[0\]"),
        (SMALL.evaluate_true, [[0.0, 1.0], [0.0, -0.1]], r"within the bounds.*Row \[1\]"),
        (SMALL, [[0.0, 1.0, 2.0]], r"`X` to have shape `\(batch_shape\) x 2`, got \(1, 3\)"),
        (SMALL, 1.0, r"`X` to have shape"),
        (SMALL, [[0, 1]], r"X must be floating point, got torch.int64"),
        (lambda X: Bowl(choices=X), torch.zeros(0, 2), "choices must be a non-empty n x d"),
        (lambda X: Bowl(choices=X), torch.zeros(2), "choices must be a non-empty n x d"),
        (lambda X: Bowl(choices=X), torch.zeros(2, 3), "`choices` to have shape"),
        (lambda X: Bowl(choices=X), [[3.0, 3.0]], r"`choices` to be within the .*Row \[0\]"),
        (SMALL.utility, [0, 3], r"lie in \[0, 3\), got 3 at \[1\]"),
        (SMALL.utility, [[0, 1], [-1, 2]], r"got -1 at \[1, 0\]"),
        (SMALL.utility, [0.0, 1.0], "whole numbers, got torch.float32"),
        (SMALL.utility, [True, False, True], "whole numbers, got torch.bool"),
    ],
)
def test_bad_items(call: Callable[[Tensor], Tensor], given: object, message: str) -> None:
    with pytest.raises(SearchSpaceError, match=message) as caught:
        call(torch.as_tensor(given))
    assert isinstance(caught.value, ItemError) or "non-empty" in message


# Tables.

ITEMS = torch.tensor([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0], [0.5, 0.5]], dtype=torch.double)
UTILITIES = torch.tensor([3.0, -1.0, 2.0, 0.5], dtype=torch.double)
UNIT = [(0.0, 1.0)] * 2


def test_items_are_looked_up() -> None:
    problem = TableProblem(ITEMS[:3], UTILITIES[:3], bounds=UNIT)
    assert torch.equal(problem.choices, ITEMS[:3])
    assert torch.equal(problem.utilities, UTILITIES[:3])
    assert problem.optimal_value == 3.0
    order = torch.tensor([[2, 0], [1, 1]])
    for dtype in (torch.float, torch.double):
        values = problem(problem.choices[order].to(dtype))
        assert values.dtype == dtype
        assert torch.equal(values, UTILITIES[order].to(dtype))
    assert problem(ITEMS[2]).item() == 2.0


def test_repeated_items_go_by_index() -> None:
    problem = TableProblem(ITEMS, UTILITIES, bounds=UNIT)
    assert problem(ITEMS[[0, 2]]).tolist() == [3.0, 2.0]
    with pytest.raises(ItemError, match=r"choice 1, row \[1\] of X, was measured more than once"):
        problem(ITEMS[[0, 3]])
    assert problem.utility(torch.tensor([3, 1])).tolist() == [0.5, -1.0]


@pytest.mark.parametrize(
    ("call", "given", "message"),
    [
        (None, [[0.0, 1.0], [0.25, 0.5]], r"X is not a choice in row \[1\]"),
        (None, [[0.0, 2.0]], "within the bounds"),
        (lambda X: TableProblem(X, UTILITIES, UNIT), 2.0 * ITEMS, "`choices` to be within"),
        (lambda U: TableProblem(ITEMS, U, UNIT), torch.zeros(3), "must be 4 numbers, one a"),
        (lambda U: TableProblem(ITEMS, U, UNIT), torch.zeros(4, 1), "must be 4 numbers, one a"),
        (lambda U: TableProblem(ITEMS, U, UNIT), UTILITIES.log(), r"not finite in row \[1\]"),
    ],
)
def test_bad_tables(call: Callable[[Tensor], Tensor] | None, given: Any, message: str) -> None:
    call = call or TableProblem(ITEMS, UTILITIES, bounds=UNIT)
    with pytest.raises(SearchSpaceError, match=message):
        call(torch.as_tensor(given).double())
