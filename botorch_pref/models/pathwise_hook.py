r"""Lets BoTorch's pathwise registry find the draws of these models.

The draws live in :mod:`botorch_pref.models.pathwise`, which knows the models and is not known by
them. A registry entry made only there would be missing for a user who imports a model and
calls ``draw_matheron_paths``; this one loads the real entries when it is first asked.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths
from botorch.sampling.pathwise.prior_samplers import DrawKernelFeaturePaths
from botorch.sampling.pathwise.utils import GetTrainInputs
from botorch.utils.dispatcher import Dispatcher

from botorch_pref.models.laplace_gp import LaplaceGP

_OWNER = "botorch_pref.models.pathwise"


def _load_and_dispatch(dispatcher: Dispatcher, model: LaplaceGP, **kwargs: Any) -> Any:
    import_module(_OWNER)  # which replaces this entry by its own
    return dispatcher(model, **kwargs)


def register() -> None:
    """Add the entries that load the real ones."""
    for dispatcher in (DrawMatheronPaths, DrawKernelFeaturePaths, GetTrainInputs):
        dispatcher.register(LaplaceGP)(partial(_load_and_dispatch, dispatcher))
