r"""Duels and values, and two models of them, which share nothing."""

from __future__ import annotations

from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.settings import validate_input_scaling
from gpytorch.kernels import ScaleKernel
from gpytorch.settings import skip_posterior_variances
from torch import Tensor

from botorch_pref.models import BordaGP
from botorch_pref.models.borda import isotropic_kernel
from botorch_pref.queries import Duel, Evaluate, Query
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.apart import Expecting
from botorch_pref.strategies.budgeted.options import ModelSettings
from botorch_pref.strategies.exact_fit import fit_exactly
from botorch_pref.strategies.standardised import standardising

_KINDS = ("duels", "values")


class Beliefs(Expecting):
    r"""Duels and values, and a model of each.

    A duel is data of its first item alone; the opponent was drawn at random.

    Args:
        space: The domain.
        settings: The options.
        seed: Of the fits.

    Attributes:
        duels: The duels that were answered, and their answers.
        values: The evaluations and their values.
        num_fits: How often the duels' model was fitted.
    """

    def __init__(self, space: SearchSpace, settings: ModelSettings, seed: int) -> None:
        self.space, self.settings, self.seed = space, settings, seed
        self.duels: list[tuple[Duel, float]] = []
        self.values: list[tuple[Evaluate, float]] = []
        self.num_fits = 0
        self._fitted: dict[str, dict[str, Any]] = {}
        self._models: dict[str, SingleTaskGP] = {}

    def _knows_values(self) -> bool:
        return bool(self.values)

    def _forget_values(self) -> None:
        self._models = {kind: model for kind, model in self._models.items() if kind == "duels"}

    def add(self, query: Duel | Evaluate, answer: float) -> None:
        """Add an answer; the other model stays the very same."""
        if isinstance(query, Duel):
            self.duels.append((query, answer))
            self._models.pop("duels", None)
        else:
            self.values.append((query, answer))
            self._models.pop("values", None)

    def learn(self) -> None:
        """Fit each model that has seen enough more since it was fitted."""
        sizes = {"duels": len(self.duels), "values": len(self.values)}
        every = {"duels": self.settings.refit_duels, "values": self.settings.refit_values}
        for kind in _KINDS:
            before = self._fitted.get(kind, {"size": 0})["size"]
            # With one value nothing is known of scales.
            if sizes[kind] < 2 or (before and sizes[kind] < before + every[kind]):
                continue
            model = self._model(kind)
            if fit_exactly(model, derive_seed(self.seed, f"fit {kind}", sizes[kind])):
                self._fitted[kind] = {"size": sizes[kind], **hyperparameters(model)}
            else:
                self._fitted[kind] = {**self._fitted.get(kind, {}), "size": sizes[kind]}
            self._models.pop(kind, None)
            self.num_fits += kind == "duels"

    def borda(self) -> BordaGP:
        """The model of how often items win."""
        if "duels" not in self._models:
            self._models["duels"] = self._model("duels").eval()
        model = self._models["duels"]
        assert isinstance(model, BordaGP)
        return model

    def objective(self) -> SingleTaskGP:
        """The model of measured values."""
        if "values" not in self._models:
            model = self._model("values").eval()
            self._models["values"] = self._expecting(model) if self._unmeasured else model
        return self._models["values"]

    @torch.no_grad()
    def best(self, kind: str | None = None) -> tuple[Tensor, int | None] | None:
        r"""The item of the largest posterior mean of one kind of data, and its row.

        Args:
            kind: Which; by default values, if there are any.
        """
        kind = kind or ("values" if self.values else "duels")
        known: list[tuple[Any, float]] = [*self.duels] if kind == "duels" else [*self.values]
        if not known:
            return None
        model = self.borda() if kind == "duels" else self.objective()
        items = items_of([query for query, _ in known]).to(self.space.bounds)
        with skip_posterior_variances(kind == "duels"):  # of a thousand duels they take long
            mean = model.posterior(items).mean
        query = known[int(mean.argmax())][0]
        row = query.indices[0] if isinstance(query.indices, tuple) else query.indices
        return items_of([query])[0], row

    def items(self, kind: str) -> Tensor:
        """The ``k x d``-dim items of one kind of data: of a duel the first."""
        known: list[tuple[Any, float]] = [*self.duels] if kind == "duels" else [*self.values]
        if not known:
            return self.space.bounds[:0]
        return items_of([query for query, _ in known]).to(self.space.bounds)

    def progress(self) -> dict[str, Any]:
        """What is not in the answers, as plain JSON."""
        return {"fitted": dict(self._fitted), "num_fits": self.num_fits}

    def restore(self, progress: dict[str, Any]) -> None:
        """Put back what :meth:`progress` returned; answers are in place."""
        self._fitted, self.num_fits = dict(progress["fitted"]), progress["num_fits"]
        self._models.clear()

    def _model(self, kind: str) -> SingleTaskGP:
        known: list[tuple[Any, float]] = [*self.duels] if kind == "duels" else [*self.values]
        answers = _double([answer for _, answer in known]).to(self.space.bounds)
        make = self._duels_model if kind == "duels" else self._values_model
        model = make(self.items(kind), answers)
        set_hyperparameters(model, self._fitted.get(kind, {}))
        return model

    def _expecting(self, model: SingleTaskGP) -> SingleTaskGP:
        """A model of values, were unmeasured items measured with the values that it expects."""
        items = self.unmeasured_items()
        with torch.no_grad():
            expected = model.posterior(items).mean.squeeze(-1)
        told = _double([value for _, value in self.values]).to(items)
        more = self._values_model(
            torch.cat([self.items("values"), items]), torch.cat([told, expected])
        )
        set_hyperparameters(more, self._fitted.get("values", {}))
        return more.eval()

    def _duels_model(self, items: Tensor, answers: Tensor) -> BordaGP:
        return BordaGP.from_duels(
            items,
            answers,
            noise=self.settings.borda_noise,
            input_transform=self.space.input_transform(),
        )

    def _values_model(self, items: Tensor, values: Tensor) -> SingleTaskGP:
        units, targets = standardising(values), values.unsqueeze(-1)
        units(targets)
        with validate_input_scaling(False):  # the box is the unit cube, not what was measured
            return SingleTaskGP(
                items,
                targets,
                (self.settings.noise * units.stdvs.square()).expand_as(targets),
                covar_module=isotropic_kernel(items.shape[:-2], items, 1.0),
                input_transform=self.space.input_transform(),
                outcome_transform=standardising(values),
            )


def items_of(queries: list[Query]) -> Tensor:
    """The ``k x d``-dim items of queries, of a duel the first."""
    return torch.stack([q.items[0] if q.items.dim() == 2 else q.items for q in queries])


def hyperparameters(model: SingleTaskGP) -> dict[str, Any]:
    """Those of a model with a scaled kernel and a constant mean, as plain JSON."""
    kernel = model.covar_module
    assert isinstance(kernel, ScaleKernel)
    return {
        "lengthscale": kernel.base_kernel.lengthscale.tolist(),
        "outputscale": kernel.outputscale.tolist(),
        "mean": model.mean_module.constant.tolist(),
    }


def set_hyperparameters(model: SingleTaskGP, found: dict[str, Any]) -> None:
    """Put back what :func:`hyperparameters` returned, if there is anything."""
    if "lengthscale" not in found:
        return
    kernel, like = model.covar_module, model.train_targets
    assert isinstance(kernel, ScaleKernel)
    kernel.base_kernel.lengthscale = _double(found["lengthscale"]).to(like)
    kernel.outputscale = _double(found["outputscale"]).to(like)
    model.mean_module.initialize(constant=_double(found["mean"]).to(like))


def _double(numbers: Any) -> Tensor:
    return torch.tensor(numbers, dtype=torch.double)
