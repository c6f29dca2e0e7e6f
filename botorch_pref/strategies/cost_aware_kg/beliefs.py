r"""One model of duels and values: its data, units and hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import ScaleKernel
from gpytorch.means import ConstantMean
from torch import Tensor

from botorch_pref.data import Comparisons, Values
from botorch_pref.data.checks import checked_positive
from botorch_pref.kernels import ComparisonBiasKernel
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.queries import Duel, Evaluate, Query
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.cost_aware_kg.options import Settings
from botorch_pref.strategies.learner import fitted_values, fixed_values, kernel_of, refit_is_due

UTILITY, JUDGED = 0.0, 1.0


class Units(NamedTuple):
    """What is taken from values, and what they are divided by then."""

    offset: float = 0.0
    spread: float = 1.0


class Beliefs:
    r"""Duels and values of one utility, of which duels may have a biased view.

    Args:
        space: The domain.
        settings: The options.
        seed: Of the fits.

    Attributes:
        duels: The duels that were answered, and their answers.
        values: The evaluations and their values.
        units: In which the model sees values.
    """

    def __init__(self, space: SearchSpace, settings: Settings, seed: int) -> None:
        self.space, self.settings, self.seed = space, settings, seed
        self.duels: list[tuple[Duel, float]] = []
        self.values: list[tuple[Evaluate, float]] = []
        self.units = Units()
        self._known = {} if settings.learns else _fixed(settings, space.num_features)
        self._fitted = (0, 0)  # numbers of duels and values
        self._model: PreferenceGP | None = None

    def add(self, query: Duel | Evaluate, answer: float) -> None:
        """Add an answer; a duel of an item with itself tells nothing."""
        if isinstance(query, Evaluate):
            self.values.append((query, answer))
        elif not torch.equal(query.items[0], query.items[1]):
            self.duels.append((query, answer))
        self._model = None

    def learn(self) -> None:
        """Fit the hyperparameters if they are learnt and the data have grown enough."""
        sizes = len(self.duels), len(self.values)
        if not self.settings.learns or not any(map(refit_is_due, sizes, self._fitted)):
            return
        self.units = _units([value for _, value in self.values])
        model = self._build({})
        with seeded(derive_seed(self.seed, "fit", sum(sizes)), model.items.device):
            fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        self._known = _hyperparameters(model)
        self._fitted = sizes
        self._model = None

    def model(self) -> PreferenceGP:
        """The model of all answers so far, over items with a marker as last column."""
        if self._model is None:
            if self.settings.learns and not self._known:
                self.units = _units([value for _, value in self.values])
            self._model = self._build(self._known)
        return self._model

    @torch.no_grad()
    def believed(self, pending: list[Query]) -> PreferenceGP:
        """The model, were open queries answered as it expects."""
        model = self.model()
        for query in pending:
            items = query.items.to(self.space.bounds)
            if isinstance(query, Evaluate):
                item = marked(items.unsqueeze(0), UTILITY)
                value = model.posterior(item).mean
                noise = torch.full_like(value, self.noise)
                model = model.condition_on_values(item, value, noise)
            elif not torch.equal(items[0], items[1]):
                pair = marked(items.unsqueeze(0), JUDGED)
                gap = model.pair_posterior(pair).mean.flatten()
                model = model.condition_on_pairs(pair, 0.5 * (1.0 + gap.sign()))
        return model

    @property
    def noise(self) -> float:
        """The variance of the noise of a value, in the model's units."""
        noise = self._known.get("noise", self.settings.noise)
        return 1.0 if noise is None else float(noise)

    def asked(self) -> Tensor:
        """The ``k x d``-dim items of all answers, those measured first."""
        items = [query.items.view(-1, self.space.dim) for query, _ in (*self.values, *self.duels)]
        return torch.cat([self.space.bounds[:0], *(one.to(self.space.bounds) for one in items)])

    def progress(self) -> dict[str, Any]:
        """What is not in the answers, as plain JSON."""
        return {"known": self._known, "fitted": list(self._fitted), "units": list(self.units)}

    def restore(self, progress: dict[str, Any]) -> None:
        """Put back what :meth:`progress` returned; answers are in place."""
        self._known, self.units = progress["known"], Units(*progress["units"])
        self._fitted = tuple(progress["fitted"])
        self._model = None

    def _build(self, known: Mapping[str, Any]) -> PreferenceGP:
        """A model with given hyperparameters; without any, one that is to learn them."""
        learns, like = not known, self.space.bounds
        bias = self.settings.bias if learns else known["bias"]
        base = kernel_of(known, self.space, known.get("kernel", "rbf"))
        mean = ConstantMean().to(like)
        pairs, answers = self._comparisons()
        data = Comparisons.from_pairs(pairs, answers)
        model = PreferenceGP(
            data.datapoints,
            data,
            values=self._measured(learns),
            covar_module=ComparisonBiasKernel(base, bias=bias).to(like),
            mean_module=mean,
            input_transform=self.space.input_transform(num_markers=1),
            link_scale=None if learns else known["link_scale"],
        )
        if not learns or not self.values:  # only values know of a constant
            mean.initialize(constant=known.get("mean", 0.0)).requires_grad_(False)
        return model

    def _comparisons(self) -> tuple[Tensor, Tensor]:
        like = self.space.bounds
        answers = like.new_tensor([answer for _, answer in self.duels])
        if not self.duels:
            return like.new_empty(0, 2, self.space.dim + 1), answers
        pairs = torch.stack([query.items.to(like) for query, _ in self.duels])
        return marked(pairs, JUDGED), answers

    def _measured(self, learns: bool) -> Values | None:
        if not self.values:
            return None
        like = self.space.bounds
        items = torch.stack([query.items.to(like) for query, _ in self.values])
        told = like.new_tensor([value for _, value in self.values]).unsqueeze(-1)
        told = (told - self.units.offset) / self.units.spread
        if learns and self.settings.noise is None:
            return Values(marked(items, UTILITY), told)
        return Values(marked(items, UTILITY), told, torch.full_like(told, self.noise))


def marked(items: Tensor, marker: float) -> Tensor:
    """``... x d``-dim items with a column that says how they are seen."""
    return torch.cat([items, torch.full_like(items[..., :1], marker)], dim=-1)


def as_utility(items: Tensor) -> Tensor:
    """``... x (d + 1)``-dim items as their utility counts."""
    return marked(items[..., :-1], UTILITY)


def _units(values: list[float]) -> Units:
    told = torch.tensor(values, dtype=torch.double)
    if not len(told):
        return Units()
    spread = float(told.std(correction=0))
    largest = float(told.abs().max())
    return Units(float(told.mean()), spread if spread > 1e-12 * largest else 1.0)


def _fixed(settings: Settings, dim: int) -> dict[str, Any]:
    given = settings.hyperparameters
    known = dict(given) if isinstance(given, Mapping) else {}
    scale = checked_positive("link_scale", known.pop("link_scale", 1.0))
    found = fixed_values(known, dim)
    return {**found, "link_scale": scale, "bias": settings.bias or 0.0}


def _hyperparameters(model: PreferenceGP) -> dict[str, Any]:
    kernel = model.covar_module
    assert isinstance(kernel, ComparisonBiasKernel)
    assert isinstance(kernel.base_kernel, ScaleKernel)
    found = {
        **fitted_values(kernel.base_kernel, "rbf"),
        "bias": float(kernel.bias.detach()),
        "link_scale": float(model.link_scale.detach()),
        "mean": float(model.mean_module.constant.detach()),
    }
    if model.calibration.learns_noise:
        found["noise"] = float(model.calibration.noise.detach())
    return found
