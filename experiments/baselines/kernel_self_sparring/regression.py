r"""Duels as values of both of their items, and the regression on them."""

from __future__ import annotations

from typing import Any

import torch
from experiments.baselines.kernel_self_sparring.rows import DrawnPath, Rows
from experiments.baselines.value_posterior import ValuePosterior
from gpytorch.kernels import ScaleKernel
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.inference.systems import prior_root
from botorch_pref.models import BordaGP
from botorch_pref.queries import Duel
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.budgeted.beliefs import hyperparameters, set_hyperparameters
from botorch_pref.strategies.exact_fit import fit_exactly
from botorch_pref.strategies.utility import refit_is_due

_PRIOR_MEAN = 0.5
_RAW_SAMPLES = 512
_STARTS = 64
_FIT_DUELS = 500  # the most that two hyperparameters are learnt from, where each has its own rows

Found = tuple[Tensor, int | None]


class SparringRegression:
    r"""What duels say of the items in them, each as a value: 1 won, 0 lost, 0.5 neither.

    A duel ``(x, x')`` with answer ``z`` is two values, ``z`` of ``x`` and ``1 - z`` of ``x'``. On
    choices the posterior lives in the dimensions of the table, whatever the number of duels. On a
    box a factor grows by two rows a duel; it is built anew when hyperparameters were learnt, which
    is when duels have grown by ``refit`` and by a tenth, from 500 duels at most, early and late.

    Args:
        space: The domain.
        noise: The variance of an answer.
        refit: After how many more duels hyperparameters are learnt at the earliest.
        seed: Of the fits.
    """

    def __init__(self, space: SearchSpace, noise: float, refit: int, seed: int) -> None:
        self.space, self.noise, self.refit, self.seed = space, noise, refit, seed
        self.items: list[Tensor] = []
        self.rows: list[int | None] = []
        self.values: list[float] = []
        self._alone: list[Found] = []  # items that met themselves
        self._fitted: dict[str, Any] = {"size": 0}
        self._kernel: ScaleKernel | None = None
        self._grown: Rows | None = None
        self._prior: tuple[Tensor, Tensor] | None = None

    def add(self, duel: Duel, answer: float) -> bool:
        r"""Adds a duel, as two values.

        Returns:
            Whether it was added, as that of an item with itself is not.
        """
        items, rows = duel.items.to(self.space.bounds), duel.indices or (None, None)
        same = torch.equal(*items) if duel.indices is None else rows[0] == rows[1]
        if same:
            self._alone.append((items[0], rows[0]))
            return False
        self.items += items.unbind()
        self.rows += rows
        self.values += [answer, 1.0 - answer]
        return True

    def learn(self) -> None:
        """Learn the hyperparameters if it is time to, from where they were."""
        size, before = len(self.values) // 2, self._fitted["size"]
        if size < 2 or (before and size < before + self.refit) or not refit_is_due(size, before):
            return
        model = self._model()
        found = fit_exactly(model, derive_seed(self.seed, "fit duels", size))
        self._fitted = {**(hyperparameters(model) if found else self._fitted), "size": size}
        self._forget()

    def duel(self, seed: int) -> tuple[Found, Found]:
        """The maximisers of two independent draws of the posterior."""
        if self.space.choices is not None:
            posterior, table = self._on_table(), self.space.table
            found = [posterior.best_of_a_draw(1.0, derive_seed(seed, "draw", i)) for i in (0, 1)]
            return (table[found[0]], found[0]), (table[found[1]], found[1])
        draws = self._rows().draw(2, derive_seed(seed, "draw", 0))
        items = torch.stack(self.items).unsqueeze(-2)
        ends = []
        for number in (0, 1):
            starts = draws.at_rows[:, number].topk(min(_STARTS, len(items))).indices
            best = self.space.maximize(
                DrawnPath(draws, number, self.space),
                seed=derive_seed(seed, "optimizer", number),
                starts=items[starts],
                raw_samples=_RAW_SAMPLES,
            )
            ends.append((best.items[0], None))
        return ends[0], ends[1]

    @torch.no_grad()
    def best(self) -> Found | None:
        """The item of the largest posterior mean of those in duels, and its row."""
        met = [*zip(self.items, self.rows, strict=True), *self._alone]
        if not self.values:
            return met[0] if met else None
        if self.space.choices is not None:
            mean = self._on_table().mean[torch.tensor([row for _, row in met])]
        else:
            mean = self._rows().mean()
            if self._alone:
                alone = self.space.normalize(torch.stack([item for item, _ in self._alone]))
                mean = torch.cat([mean, self._rows().mean_at(alone)])
        return met[int(mean.argmax())]

    def progress(self) -> dict[str, Any]:
        """What is not in the answers, as plain JSON."""
        return {"fitted": self._fitted}

    def restore(self, progress: dict[str, Any]) -> None:
        """Put back what :meth:`progress` returned; answers are in place."""
        self._fitted = progress["fitted"]
        self._forget()

    def _forget(self) -> None:
        self._kernel = self._grown = self._prior = None

    def _model(self) -> BordaGP:
        """A model of the duels, or of some all along, for its hyperparameters."""
        items = self._unit_items()
        values = torch.tensor(self.values, dtype=torch.double).to(items)
        if self.space.choices is None and len(values) > 2 * _FIT_DUELS:
            duels = torch.linspace(0, len(values) // 2 - 1, _FIT_DUELS).long()
            rows = torch.stack([2 * duels, 2 * duels + 1], dim=-1).flatten()
            items, values = items[rows], values[rows]
        model = BordaGP.from_duels(items, values, noise=self.noise)
        set_hyperparameters(model, self._fitted)
        return model

    def _prior_kernel(self) -> ScaleKernel:
        if self._kernel is None:
            kernel = self._model().covar_module
            assert isinstance(kernel, ScaleKernel)
            self._kernel = kernel.requires_grad_(False).eval()
        return self._kernel

    def _unit_items(self) -> Tensor:
        return self.space.normalize(torch.stack(self.items))

    def _rows(self) -> Rows:
        """The regression on all duels so far, on a box."""
        items = self._unit_items()
        values = torch.tensor(self.values, dtype=torch.double).to(items) - _PRIOR_MEAN
        if self._grown is None:
            start = max(2 * self._fitted["size"], 2)
            self._grown = Rows(self._prior_kernel(), self.noise, items[:start], values[:start])
        # One duel at a time, whenever this is called, so that rounding is always the same.
        for row in range(len(self._grown.values), len(values), 2):
            self._grown.add(items[row : row + 2], values[row : row + 2])
        return self._grown

    def _on_table(self) -> ValuePosterior:
        """The posterior at all choices, less the prior mean."""
        table = self.space.table
        if self._prior is None:
            with torch.no_grad():
                covariance = to_dense(self._prior_kernel()(self.space.normalize(table)))
            self._prior = covariance, prior_root(covariance)
        rows = torch.tensor(self.rows, device=table.device)
        values = torch.tensor(self.values, dtype=torch.double).to(table) - _PRIOR_MEAN
        count, total = table.new_zeros(2, len(table)).unbind()
        count.index_add_(0, rows, torch.ones_like(values))
        total.index_add_(0, rows, values)
        return ValuePosterior(*self._prior, count, total, self.noise)
