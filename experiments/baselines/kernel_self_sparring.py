r"""KernelSelfSparring: duels of the maximisers of two posterior draws of one regression."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.sampling.pathwise.features import FeatureMap, gen_kernel_features
from botorch.utils.transforms import t_batch_mode_transform
from gpytorch.kernels import ScaleKernel
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.data.checks import check_count, checked_positive
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference.systems import prior_root
from botorch_pref.models import BordaGP
from botorch_pref.models.base import refit_is_due
from botorch_pref.queries import Duel, Query
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.base import Candidate, Chosen
from botorch_pref.strategies.budgeted import BudgetedStrategy, QueryRecord
from botorch_pref.strategies.regression import fit_exactly
from botorch_pref.strategies.state import Entry, tensors, whole
from experiments.baselines.gp_ts import ValuePosterior

_NUM_FEATURES = 2048


class Rows:
    r"""A zero-mean Gaussian process after noisy values, with the factor of their covariance.

    Rows that are added cost ``O(n^2)`` each, so a duel is cheap as long as the kernel stays.

    Args:
        kernel: The prior covariance, of items in the unit cube.
        noise: The variance of a value.
        items: ``n x d``-dim items in the unit cube.
        values: ``n``-dim values.
    """

    @torch.no_grad()
    def __init__(self, kernel: ScaleKernel, noise: float, items: Tensor, values: Tensor) -> None:
        self.kernel, self.noise = kernel, noise
        self.items, self.values = items, values
        self.factor = torch.linalg.cholesky(self._noisy(items))

    @torch.no_grad()
    def add(self, items: Tensor, values: Tensor) -> None:
        """Adds ``k x d``-dim items and their ``k``-dim values."""
        cross = to_dense(self.kernel(self.items, items))
        side = torch.linalg.solve_triangular(self.factor, cross, upper=False)
        corner = torch.linalg.cholesky(self._noisy(items) - side.T @ side)
        above = torch.cat([self.factor, side.new_zeros(side.shape)], dim=1)
        self.factor = torch.cat([above, torch.cat([side.T, corner], dim=1)])
        self.items = torch.cat([self.items, items])
        self.values = torch.cat([self.values, values])

    def mean(self) -> Tensor:
        """The ``n``-dim posterior mean at the rows' items."""
        return self._smoothed(self.values.unsqueeze(-1)).squeeze(-1)

    @torch.no_grad()
    def mean_at(self, items: Tensor) -> Tensor:
        """The ``k``-dim posterior mean at ``k x d``-dim items."""
        weights = torch.cholesky_solve(self.values.unsqueeze(-1), self.factor)
        mean: Tensor = to_dense(self.kernel(items, self.items)) @ weights
        return mean.squeeze(-1)

    @torch.no_grad()
    def draw(self, number: int, seed: int) -> Draws:
        r"""Independent draws of the posterior, by pathwise conditioning.

        Wilson et al. (2021), with random Fourier features for the prior.

        Args:
            number: How many.
            seed: Their seed.
        """
        size, dim = self.items.shape
        with seeded(seed):
            features = gen_kernel_features(self.kernel, dim, _NUM_FEATURES)
            weights = torch.randn(_NUM_FEATURES, number, dtype=torch.double).to(self.items)
            errors = torch.randn(size, number, dtype=torch.double).to(self.items)
        prior = features(self.items) @ weights
        gap = self.values.unsqueeze(-1) - prior - self.noise**0.5 * errors
        update = torch.cholesky_solve(gap, self.factor)
        return Draws(self, features, weights, update, prior + gap - self.noise * update)

    def _smoothed(self, values: Tensor) -> Tensor:
        # K (K + noise I)^-1 v without K.
        return values - self.noise * torch.cholesky_solve(values, self.factor)

    def _noisy(self, items: Tensor) -> Tensor:
        covariance = to_dense(self.kernel(items))
        return covariance + self.noise * torch.eye(len(items)).to(covariance)


class Draws(NamedTuple):
    r"""Draws of the posterior, as functions.

    Attributes:
        rows: The regression.
        features: ``F`` features of the prior.
        weights: ``F x k``-dim weights of ``k`` draws.
        update: ``n x k``-dim weights of the kernel at the rows.
        at_rows: ``n x k``-dim values at the rows.
    """

    rows: Rows
    features: FeatureMap
    weights: Tensor
    update: Tensor
    at_rows: Tensor


class DrawnPath(AcquisitionFunction):
    r"""One draw as a rule for single items of a space.

    Args:
        draws: The draws.
        number: Which.
        space: The domain, whose unit cube the draw is over.
    """

    def __init__(self, draws: Draws, number: int, space: SearchSpace) -> None:
        super().__init__(model=None)  # type: ignore[arg-type]
        self.draws, self.space = draws, space
        self.weights, self.update = draws.weights[:, number], draws.update[:, number]

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The draw at ``b x 1 x d``-dim items."""
        items, rows = self.space.normalize(X.squeeze(-2)), self.draws.rows
        cross = to_dense(rows.kernel(items, rows.items))
        value: Tensor = self.draws.features(items) @ self.weights + cross @ self.update
        return value


_PRIOR_MEAN = 0.5
_RAW_SAMPLES = 512
_STARTS = 64
_FIT_DUELS = 500  # the most that two hyperparameters are learnt from, where each has its own rows

Found = tuple[Tensor, int | None]


class SparringRegression:
    r"""What duels say of the items in them, each as a value: 1 won, 0 lost, 0.5 neither.

    A duel ``(x, x')`` with answer ``z`` is two values, ``z`` of ``x`` and ``1 - z`` of ``x'``. On
    choices the posterior lives in the dimensions of the table, whatever the number of duels. On a
    box a factor grows by two rows a duel; it is built again when hyperparameters were learnt, which
    is when duels have grown by ``refit`` and by a tenth, from 500 duels at most, early and late.

    Args:
        space: The domain.
        noise: The variance of an answer.
        refit: After how many more duels hyperparameters are learnt at the earliest.
    """

    _entries: ClassVar[dict[str, Entry]] = {
        "fitted": Entry("_fitted", tensors(lambda own: own._model() if own.values else None)),
        "size": Entry("_num_fitted", whole(most=lambda own: len(own.values) // 2)),
    }

    def __init__(self, space: SearchSpace, noise: float, refit: int) -> None:
        self.space, self.noise, self.refit = space, noise, refit
        self.items: list[Tensor] = []
        self.rows: list[int | None] = []
        self.values: list[float] = []
        self._alone: list[Found] = []  # items that met themselves
        self._fitted: dict[str, Tensor] = {}
        self._num_fitted = 0
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
        size, before = len(self.values) // 2, self._num_fitted
        if size < 2 or (before and size < before + self.refit) or not refit_is_due(size, before):
            return
        model = self._model()
        if fit_exactly(model):
            found = dict(model.named_parameters())
            self._fitted = {name: value.detach() for name, value in found.items()}
        self._num_fitted = size
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
        model.load_state_dict(self._fitted, strict=False)
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
            start = max(2 * self._num_fitted, 2)
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


class KernelSelfSparring(BudgetedStrategy):
    r"""Thompson sampling against itself, with a Gaussian process.

    Sui, Zhuang, Burdick and Yue (2017), KernelSelfSparring with two arms, a baseline of Xu, Joshi,
    Singh and Dubrawski (2020). Two independent draws of the posterior are maximised, and their
    maximisers duel. A duel ``(x, x')`` with answer ``z`` is two values of an ordinary regression,
    ``z`` at ``x`` and ``1 - z`` at ``x'``: the regression is on how often an item wins against
    those that are drawn, which changes as they do. The initial design is duels of random items,
    and they are learnt from in the same way; initial values, if any, are not.

    Prior and noise are those of :class:`~botorch_pref.models.BordaGP`. On choices draws are exact
    and joint; on a box they are differentiable paths. Two draws may have one maximiser, and then
    an item duels itself, which is counted and adds no values. The recommendation is the item of the
    largest posterior mean of those that were in a duel.

    Example:
        >>> strategy = KernelSelfSparring(bounds=bounds, duel_cost=0.1, budget=100)
        >>> query = strategy.ask()

    Attributes:
        regression: The data and their model.
        num_identical: The number of answered duels in which an item met itself.
    """

    kinds = ("duel",)
    _entries = BudgetedStrategy._entries | {"regression": Entry("regression")}

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        seed: int = 0,
        num_initial_duels: int = 100,
        num_initial_values: int = 0,
        borda_noise: float = 0.25,
        refit_duels: int = 20,
        **options: Any,
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            seed: The seed of all draws.
            num_initial_duels: Duels of two random items to begin with.
            num_initial_values: Values of random items to begin with.
            borda_noise: The variance of an answer.
            refit_duels: After how many more duels hyperparameters are learnt at the earliest;
                duels must have grown by a tenth, too.
            **options: See :class:`~botorch_pref.strategies.BudgetedStrategy`.

        Raises:
            ComparisonDataError: If an option is unknown or out of range; names it.
            SearchSpaceError: If the domain cannot be used.
        """
        design = {"num_initial_duels": num_initial_duels, "num_initial_values": num_initial_values}
        super().__init__(bounds, choices, space, seed=seed, **design, **options)
        self.borda_noise = checked_positive("borda_noise", borda_noise)
        self.refit_duels = check_count("refit_duels", refit_duels, 1)
        self.num_identical = 0
        self.regression = SparringRegression(self.space, self.borda_noise, self.refit_duels)

    def _next(self) -> Chosen:
        record = QueryRecord("duel", "sparring")
        if not self.regression.values:
            return Chosen(record, self._uniform("first", len(self.records)))
        self.regression.learn()
        seed = derive_seed(self.seed, "pair", self._num_later())
        first, second = self.regression.duel(seed)
        return Chosen(record, Candidate(*first), Candidate(*second))

    def _add(self, query: Query, answer: float) -> None:
        if isinstance(query, Duel):
            self.num_identical += not self.regression.add(query, answer)

    def _recommended(self) -> Candidate:
        found = self.regression.best()
        if found is None:
            raise ComparisonDataError("Nothing was answered yet, so nothing is recommended.")
        return Candidate(*found)
