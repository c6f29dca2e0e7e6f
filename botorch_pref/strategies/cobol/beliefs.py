r"""What COBOL has been told, and its two models."""

from __future__ import annotations

import math
from typing import Any

import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import ConstantKernel, Kernel, RBFKernel, ScaleKernel
from torch import Tensor

from botorch_pref.likelihood_ratio.label_theory import objective_beta
from botorch_pref.models import LikelihoodRatioModel
from botorch_pref.queries import Duel, Evaluate, Label, Query
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.apart import Expecting
from botorch_pref.strategies.cobol.objective import (
    information_gain,
    objective_kernel,
    objective_model,
)
from botorch_pref.strategies.cobol.options import Settings
from botorch_pref.strategies.exact_fit import fit_exactly

# The paper's, of standardised values; the scale of their noise is their variance.
_OBJECTIVE_NORM, _FAILURE = 1.0, 0.01


class Beliefs(Expecting):
    r"""Values and labels, the model of each, and what both have learnt.

    The label model has the objective's lengthscales, or a multiple of them, as both see the unit
    cube.

    Args:
        space: The domain.
        settings: The options.
        seed: Of restarts of fits.

    Attributes:
        measured: Evaluations and their values.
        labelled: Labels or duels, and their answers.
        norm_bound: The bound on the norm of the expert's belief, which only grows.
    """

    def __init__(self, space: SearchSpace, settings: Settings, seed: int) -> None:
        self.space, self.settings, self.seed = space, settings, seed
        self.measured: list[tuple[Query, float]] = []
        self.labelled: list[tuple[Query, float]] = []
        self.norm_bound = settings.norm_bound
        self.lengthscales: list[float] | None = None
        self._num_fitted = self._num_adapted = 0
        self._objective: SingleTaskGP | None = None
        self._expert: LikelihoodRatioModel | None = None

    def _knows_values(self) -> bool:
        return bool(self.measured)

    def _forget_values(self) -> None:
        self._objective = None

    def add(self, query: Label | Duel | Evaluate, answer: float) -> None:
        """Add a label, a duel or a value; a duel of an item with itself says nothing."""
        if isinstance(query, Evaluate):
            self.measured.append((query, answer))
            self._objective = None
        elif isinstance(query, Label) or not torch.equal(*query.items):
            self.labelled.append((query, answer))
            self._expert = None

    def learn(self, round_number: int) -> None:
        """Fit lengthscales to new values, and double the norm bound if new labels ask for it."""
        size = len(self.measured)
        if size > self._num_fitted:
            kernel = objective_kernel(self.space.num_features, self.settings.lengthscale_prior)
            model = self._model_of_values(kernel)
            if fit_exactly(model, derive_seed(self.seed, "fit", round_number)):
                self.lengthscales = kernel.lengthscale.detach().flatten().tolist()
            self._num_fitted = size
            self._objective = self._expert = None
        if len(self.labelled) > self._num_adapted:
            limit = self.settings.norm_bound_limit
            adapted = self.expert().adapt_norm_bound(
                limit=math.inf if limit is None else limit, max_doublings=1
            )
            self._num_adapted = len(self.labelled)
            if adapted.norm_bound > self.norm_bound:
                self.norm_bound, self._expert = adapted.norm_bound, adapted

    def objective(self) -> SingleTaskGP:
        """The model of all values, in standard deviations of these."""
        if self._objective is None:
            self._objective = self._model_of_values(self._kernel())
            if self._unmeasured:
                expected = self.means(self.unmeasured_items())
                self._objective = self._model_of_values(self._kernel(), expected)
        return self._objective

    def beta(self) -> float:
        """The multiple of the objective's deviation that bounds are taken at."""
        if self.settings.beta is not None:
            return self.settings.beta
        noise = self.settings.noise
        gain = information_gain(self.objective(), noise)
        return objective_beta(_OBJECTIVE_NORM, noise, gain, _FAILURE)

    def expert(self) -> LikelihoodRatioModel:
        """The set of what the expert may believe, logits of accepting or preferring."""
        if self._expert is None:
            self._expert = LikelihoodRatioModel.from_labels(
                *self._last_labels(Label),
                covar_module=self._label_kernel(),
                norm_bound=self.norm_bound,
                slack=self.settings.slack,
                box=self.settings.value_bound,
                input_transform=self.space.input_transform(),
            )
            if self.settings.feedback == "compare":
                self._expert = self._expert.condition_on_pairs(*self._last_labels(Duel))
        return self._expert

    def incumbent(self) -> Query:
        """The evaluation of the measured item with the largest posterior mean."""
        items = torch.stack([query.items for query, _ in self.measured]).to(self.space.bounds)
        return self.measured[int(self.means(items).argmax())][0]

    def means(self, items: Tensor) -> Tensor:
        """The ``k``-dim posterior means of the objective at ``k x d`` items."""
        with torch.no_grad():
            return self.objective().posterior(items).mean.squeeze(-1)

    def progress(self) -> dict[str, Any]:
        """What is not in the answers, as plain JSON."""
        return {
            "norm_bound": self.norm_bound,
            "lengthscales": self.lengthscales,
            "num_fitted": self._num_fitted,
            "num_adapted": self._num_adapted,
        }

    def restore(self, progress: dict[str, Any]) -> None:
        """Put back what :meth:`progress` returned; answers are in place."""
        self.norm_bound, self.lengthscales = progress["norm_bound"], progress["lengthscales"]
        self._num_fitted, self._num_adapted = progress["num_fitted"], progress["num_adapted"]
        self._objective = self._expert = None

    def _last_labels(self, kind: type[Label] | type[Duel]) -> tuple[Tensor, Tensor]:
        """The items or pairs of one kind that the window holds, and their answers."""
        last = self.labelled[-(self.settings.label_window or 0) :]
        chosen = [(query.items, answer) for query, answer in last if isinstance(query, kind)]
        shape = (2, self.space.dim) if kind is Duel else (self.space.dim,)
        items = [items for items, _ in chosen] or [self.space.bounds.new_empty(0, *shape)]
        stack = torch.stack if chosen else torch.cat
        answers = self.space.bounds.new_tensor([answer for _, answer in chosen])
        return stack(items).to(self.space.bounds), answers

    def _kernel(self, factor: float = 1.0) -> RBFKernel:
        kernel = RBFKernel(ard_num_dims=self.space.num_features).double()
        if self.lengthscales is not None:
            kernel.lengthscale = factor * torch.tensor(self.lengthscales, dtype=torch.double)
        return kernel

    def _label_kernel(self) -> Kernel:
        """The belief's, of unit variance: a share of it is a constant."""
        kernel, share = self._kernel(self.settings.label_lengthscale), self.settings.label_intercept
        if share == 0.0:
            return kernel
        local, constant = ScaleKernel(kernel).double(), ConstantKernel().double()
        local.outputscale, constant.constant = torch.tensor([1.0 - share, share]).double()
        return local + constant

    def _model_of_values(self, kernel: RBFKernel, expected: Tensor | None = None) -> SingleTaskGP:
        """The model of the values that there are, and of those expected of unmeasured items."""
        items = torch.stack([query.items for query, _ in self.measured]).to(self.space.bounds)
        values = torch.tensor([value for _, value in self.measured], dtype=torch.double)
        if expected is not None:
            items = torch.cat([items, self.unmeasured_items()])
            values = torch.cat([values, expected.to(values)])
        return objective_model(self.space, items, values, self.settings.noise, kernel)
