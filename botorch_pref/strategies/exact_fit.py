r"""Fits of exact models that always end with a usable one."""

from __future__ import annotations

import warnings
from copy import deepcopy

from botorch.exceptions.warnings import OptimizationWarning
from botorch.models import SingleTaskGP
from botorch.optim.fit import fit_gpytorch_mll_scipy
from gpytorch.mlls import ExactMarginalLogLikelihood
from linear_operator.utils.errors import NanError, NotPSDError
from linear_operator.utils.warnings import NumericalWarning

from botorch_pref.randomness import seeded


def fit_exactly(model: SingleTaskGP, seed: int) -> bool:
    r"""Learn the hyperparameters of a model of values, by the evidence and their priors, if any.

    Where values repeat themselves and there is no prior, the evidence is so steep that a line
    search may end in rounding errors: where it stopped is taken then.

    Args:
        model: The model.
        seed: Of everything random.

    Returns:
        Whether there was an optimum to be found; if not, everything is as it was.
    """
    before = deepcopy(model.state_dict())
    model.train()
    with seeded(seed, model.train_targets.device), warnings.catch_warnings():
        for category in (OptimizationWarning, NumericalWarning):  # of lengthscales on the way
            warnings.simplefilter("ignore", category)
        try:
            fit_gpytorch_mll_scipy(ExactMarginalLogLikelihood(model.likelihood, model))
            fitted = all(bool(one.isfinite().all()) for one in model.parameters())
        except (NanError, NotPSDError, ValueError):  # a prior refuses what a search rounds to 0
            fitted = False
    if not fitted:
        model.load_state_dict(before)
    model.eval()
    return fitted
