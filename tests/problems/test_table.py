import copy
import pickle

import pytest
import torch

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.problems import ItemError, TableProblem

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
    for twin in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert torch.equal(twin(ITEMS[:3]), UTILITIES[:3])


def test_repeated_items_go_by_index() -> None:
    problem = TableProblem(ITEMS, UTILITIES, bounds=UNIT)
    assert problem(ITEMS[[0, 2]]).tolist() == [3.0, 2.0]
    with pytest.raises(ItemError, match=r"choice 1, row \[1\] of X, was measured more than once"):
        problem(ITEMS[[0, 3]])
    assert problem.utility(torch.tensor([3, 1])).tolist() == [0.5, -1.0]


def test_other_items_are_refused() -> None:
    problem = TableProblem(ITEMS, UTILITIES, bounds=UNIT)
    with pytest.raises(ItemError, match=r"X is not a choice in row \[0, 1\]"):
        problem(torch.tensor([[[0.0, 1.0], [0.25, 0.5]]], dtype=torch.double))
    with pytest.raises(ItemError, match="within the bounds"):
        problem(torch.tensor([[0.0, 2.0]], dtype=torch.double))
    with pytest.raises(SearchSpaceError, match="`choices` to be within the bounds"):
        TableProblem(2.0 * ITEMS, UTILITIES, bounds=UNIT)


@pytest.mark.parametrize("shape", [(3,), (4, 1), ()])
def test_every_choice_has_one_utility(shape: tuple[int, ...]) -> None:
    with pytest.raises(SearchSpaceError, match="utilities must be 4 numbers, one a choice"):
        TableProblem(ITEMS, torch.zeros(shape), bounds=UNIT)


def test_utilities_are_finite() -> None:
    utilities = UTILITIES.clone()
    utilities[2] = float("nan")
    with pytest.raises(SearchSpaceError, match="utilities is not finite in row 2"):
        TableProblem(ITEMS, utilities, bounds=UNIT)
