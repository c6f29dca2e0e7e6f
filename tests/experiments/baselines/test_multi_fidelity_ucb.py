"""MF-GP-UCB's rule: the smaller of two bounds, in the units of its models."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.models import ModelListGP

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.models import BordaGP
from experiments.baselines import MultiFidelityUCB
from tests.acquisition.expert import objective
from tests.contracts.acquisition import ItemAcquisitionContract
from tests.models.common import rand, utility

AT = rand(60, 2, seed=4)


def duels() -> BordaGP:
    X = rand(25, 2, seed=3)
    worth = utility(X)
    return BordaGP.from_duels(X, (worth > worth.median()).double())


def made(**options: Any) -> MultiFidelityUCB:
    return MultiFidelityUCB(objective(), duels(), 1.5, **{"zeta": 9.5, **options})


class TestContract(ItemAcquisitionContract):
    instead = "conditioned on what is pending"

    def make(self) -> MultiFidelityUCB:
        return made()


@torch.no_grad()
def test_the_smaller_bound() -> None:
    bounds = []
    for model, beta, zeta in ((objective(), 1.5, 0.0), (duels(), 0.4, 9.5)):
        posterior = model.posterior(AT)
        bounds.append((posterior.mean + beta * posterior.variance.sqrt()).squeeze(-1) + zeta)
    expected = torch.stack(bounds).amin(0)
    torch.testing.assert_close(made(cheap_beta=0.4)(AT.unsqueeze(-2)), expected)
    assert 0 < int((expected == bounds[0]).sum()) < len(AT)
    same = made(cheap_beta=1.5)(AT.unsqueeze(-2))
    assert torch.equal(made()(AT.unsqueeze(-2)), same)


@torch.no_grad()
def test_copies_and_constructors() -> None:
    rule = made(cheap_beta=1.0)
    construct = get_acqf_input_constructor(MultiFidelityUCB)
    options = {"model": objective(), "cheap_model": duels()}
    arguments = construct(**options, beta=1.5, zeta=9.5, cheap_beta=1.0)
    for other in (
        copy.deepcopy(rule),
        pickle.loads(pickle.dumps(rule)),
        MultiFidelityUCB(**arguments),
    ):
        assert torch.equal(other(AT.unsqueeze(-2)), rule(AT.unsqueeze(-2)))
    with pytest.raises(UnsupportedError, match="pending"):
        construct(**options, X_pending=AT[:1])


def test_bad_arguments() -> None:
    for options, match in (({"zeta": -0.1}, "`zeta`"), ({"cheap_beta": -1.0}, "`cheap_beta`")):
        with pytest.raises(ComparisonDataError, match=match):
            made(**options)
    both = ModelListGP(objective(), objective())
    for models, name in (((both, duels()), "value_model"), ((objective(), both), "cheap_model")):
        with pytest.raises(UnsupportedError, match=f"`{name}` must have one output"):
            MultiFidelityUCB(*models, 1.0, zeta=0.0)
