r"""The utility model behind a strategy: data, hyperparameters and when they are fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, cast, get_args

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.utils.constraints import LogTransformedInterval
from gpytorch.kernels import ScaleKernel
from linear_operator import to_dense
from torch import Size

from botorch_pref.data import Comparisons
from botorch_pref.data.checks import check_count, checked_kappa, checked_positive
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference.finite import FiniteEngine, Regularizer, checked_regularizer
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.models.fitting import DEFAULT_MODES, KernelName, default_covar_module
from botorch_pref.queries import Duel
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.space import SearchSpace

REFIT_TENTHS = 11  # data are fitted again when they have grown to so many tenths
_SPAN = 32  # answers that are added to a posterior before it is found anew


_ANY_SCALE = (1e-30, 1e30)  # in single precision, too


class UtilityLearner:
    r"""A preference model over a search space, on a finite set or on a box.

    Inputs are mapped to the unit cube of the space's bounds, and lengthscales are in its
    units. Where hyperparameters are learnt, they are fitted anew, from the prior's
    median, whenever the data have grown by a tenth. In between, answers are added to the model
    one by one, from numbers of answers that depend on nothing else: so it is the same, on a CPU bit
    for bit, whenever it was asked for, and after it was stored and resumed.

    Args:
        space: The domain.
        hyperparameters: ``"evidence"``, or ``{"lengthscale": float | list, "outputscale":
            float}``; ``"penalty"``, the papers' ``lambda = 1 / outputscale``, may stand
            instead of ``"outputscale"``, and ``"kernel"`` is ``"rbf"`` unless ``"matern"``
            (5/2) or ``"matern15"`` (3/2) is asked for.
        kappa: ``"laplace"``, or the papers' answer-free curvature ``1 / kappa``.
        regularizer: See :class:`~botorch_pref.inference.finite.FiniteEngine`; choices only.
        seed: Of restarts of the fit.
        inducing_points: The number of inducing items of the model, on a box; ``None`` for none.
    """

    def __init__(
        self,
        space: SearchSpace,
        hyperparameters: Literal["evidence"] | Mapping[str, Any],
        kappa: Literal["laplace"] | float,
        regularizer: Regularizer,
        seed: int,
        inducing_points: int | None = None,
    ) -> None:
        if space.choices is None and regularizer != "rkhs":
            raise UnsupportedError(f"`regularizer` {regularizer!r} needs `choices`.")
        if inducing_points is not None:
            check_count("inducing_points", inducing_points, 1)
            inducing_points = int(inducing_points)
            if space.choices is not None:
                raise UnsupportedError(
                    "`inducing_points` are for boxes: on choices inference lives on their rows."
                )
        self.inducing_points = inducing_points
        self.space, self.seed = space, seed
        self.kappa = checked_kappa("kappa", kappa)
        self.regularizer = checked_regularizer(regularizer)
        self.learns = isinstance(hyperparameters, str)
        self._values = fixed_values(hyperparameters, space.num_features)
        self.kind = self.values.get("kernel", "rbf")
        self.num_fitted = 0
        items = space.bounds[:0] if space.choices is None else space.choices
        none = torch.zeros(0, 2, dtype=torch.long, device=items.device)
        self._data = Comparisons.from_comparisons(items, none)
        self._fresh: list[tuple[tuple[int, int], float]] = []  # not in the data yet
        self._engine: FiniteEngine | None = None
        self._model: PreferenceGP | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A copy of the model would find its posterior anew, which is the same but for rounding.
        return {**self.__dict__, "_model": None}

    @property
    def values(self) -> dict[str, Any]:
        """The hyperparameters of now, as plain JSON; none before they are learnt."""
        return self._values

    @values.setter
    def values(self, values: dict[str, Any]) -> None:
        self._values = values
        self._engine = self._model = None

    def restore(self, values: Mapping[str, Any], num_fitted: int) -> None:
        """Put back hyperparameters, and the number of data they were fitted to.

        Raises:
            ComparisonDataError: If they are none, or there are not so many data.
        """
        if num_fitted > self.data.num_comparisons:
            raise ComparisonDataError(f"`num_fitted` is {num_fitted}, more than there are answers.")
        self.values = fixed_values(values, self.space.num_features) if values else {}
        self.num_fitted = num_fitted

    @property
    def data(self) -> Comparisons:
        """All comparisons so far."""
        if self._fresh:
            # Together: the engine needs no data, and one append costs as much as many.
            pairs, answers = zip(*self._fresh, strict=True)
            told = self._data.datapoints.new_tensor(answers)
            self._data = self._data.append_indices(torch.tensor(pairs, device=told.device), told)
            self._fresh = []
        return self._data

    def add(self, duel: Duel, answer: float) -> bool:
        r"""Add an answer.

        Returns:
            Whether it became a comparison, as that of an identical pair does not.
        """
        told = self.space.bounds.new_tensor([answer])
        if duel.indices is None:
            if torch.equal(duel.items[0], duel.items[1]):
                return False
            self._data = self._data.append(duel.items.unsqueeze(0).to(told), told)
        else:
            if self._engine is not None:
                self._engine.append(torch.tensor(duel.indices, device=told.device), told[0])
            if duel.indices[0] == duel.indices[1]:
                return False
            self._fresh.append((duel.indices, answer))
        return True

    def covar_module(self) -> ScaleKernel:
        """The kernel with the current hyperparameters."""
        return kernel_of(self.values, self.space, self.kind)

    @property
    def penalty(self) -> float:
        """The papers' ``lambda``, the inverse of the output scale."""
        scale = self.values["outputscale"] if self.values else DEFAULT_MODES[0][1]
        return 1.0 / float(scale)

    def refit(self, at_once: bool = False) -> bool:
        r"""Fit the hyperparameters if they are learnt and the data have grown enough.

        Args:
            at_once: Whether one answer more is enough.

        Returns:
            Whether they were fitted.
        """
        size = self.data.num_comparisons
        due = size > self.num_fitted if at_once else refit_is_due(size, self.num_fitted)
        if not self.learns or not due:
            return False
        model = self._build(kernel_of({}, self.space, self.kind), self.data)
        with seeded(derive_seed(self.seed, "fit", size), model.items.device):
            fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        self.values = fitted_values(model.covar_module, self.kind)
        self.num_fitted = size
        return True

    def model(self) -> PreferenceGP:
        """The model of all comparisons so far."""
        data = self.data
        size = data.pairs.shape[-2]
        first = max(self.num_fitted, size - size % _SPAN, min(size, 1))
        model = self._model
        done = 0 if model is None or model.data is None else model.data.pairs.shape[-2]
        if model is None or done < first:
            model, done = self._build(self.covar_module(), self._first(first)), first
        for number in range(done + 1, size + 1):
            model.representer()  # what is found is added to
            model = model.with_data(self._first(number))
        self._model = model
        return model

    def engine(
        self, answers: Callable[[], Iterable[tuple[tuple[int, int] | None, float]]]
    ) -> FiniteEngine:
        r"""The finite-set posterior of all answers so far.

        Args:
            answers: Returns all indices and answers, to be replayed after hyperparameters
                have changed.
        """
        if self._engine is None:
            choices = self.space.normalize(self.space.table)
            with torch.no_grad():
                unit = to_dense(self.covar_module().base_kernel(choices))
            self._engine = FiniteEngine(
                unit, penalty=self.penalty, kappa=self.kappa, regularizer=self.regularizer
            )
            for pair, answer in answers():
                device = unit.device
                self._engine.append(
                    torch.tensor(pair, device=device), torch.tensor(answer, device=device)
                )
        return self._engine

    def _first(self, number: int) -> Comparisons:
        """The first so many comparisons; the items of a box are numbered as they appear."""
        data = self.data
        pairs, wins, count = (rows[:number] for rows in (data.pairs, data.wins, data.count))
        items = data.datapoints
        if self.space.choices is None:
            items = items[: 1 + int(pairs.max())] if number else items[:0]
        return Comparisons.unchecked(items, pairs, wins, count)

    def _build(self, covar_module: ScaleKernel, data: Comparisons) -> PreferenceGP:
        return PreferenceGP(
            data.datapoints,
            data,
            covar_module=covar_module,
            input_transform=self.space.input_transform(),
            variance=self.kappa,
            inducing_points=self.inducing_points,
        )


def refit_is_due(size: int, num_fitted: int) -> bool:
    """Whether data have grown by a tenth since hyperparameters were fitted to them."""
    return size > num_fitted and 10 * size >= REFIT_TENTHS * num_fitted


def last_refit(size: int) -> int:
    """The number of data at which a refit was last due, of data that were told one by one."""
    fitted = 0
    for number in range(1, size + 1):
        fitted = number if refit_is_due(number, fitted) else fitted
    return fitted


def kernel_of(values: Mapping[str, Any], space: SearchSpace, kind: str) -> ScaleKernel:
    """The kernel of a space with given hyperparameters, or with its prior's where there are none.

    Args:
        values: ``lengthscale`` and ``outputscale``, or nothing.
        space: The domain, whose unit cube the lengthscale is measured in.
        kind: ``"rbf"``, ``"matern"`` or ``"matern15"``.
    """
    kernel = default_covar_module(space.num_features, Size(), cast(KernelName, kind)).to(
        space.bounds
    )
    if values:
        # Bounds are for what is learnt, in standard units; what is given may be in any unit.
        for owner, name in ((kernel.base_kernel, "lengthscale"), (kernel, "outputscale")):
            owner.register_constraint(f"raw_{name}", LogTransformedInterval(*_ANY_SCALE))
            setattr(owner, name, values[name])
    return kernel


def fitted_values(kernel: ScaleKernel, kind: str) -> dict[str, Any]:
    """The hyperparameters of a kernel as plain JSON."""
    return {
        "lengthscale": kernel.base_kernel.lengthscale.detach().flatten().tolist(),
        "outputscale": float(kernel.outputscale.detach()),
        "kernel": kind,
    }


def fixed_values(hyperparameters: object, dim: int) -> dict[str, Any]:
    """The hyperparameters that a user gave, and none where they are to be learnt.

    Raises:
        ComparisonDataError: If they are neither ``"evidence"`` nor such values.
    """
    if isinstance(hyperparameters, str) and hyperparameters == "evidence":
        return {}
    values = dict(hyperparameters) if isinstance(hyperparameters, Mapping) else {}
    if "penalty" in values and "outputscale" not in values:
        values["outputscale"] = 1.0 / checked_positive("penalty", values.pop("penalty"))
    values.setdefault("kernel", "rbf")
    wanted = {"lengthscale", "outputscale", "kernel"}
    if set(values) != wanted or values["kernel"] not in get_args(KernelName):
        raise ComparisonDataError(
            '`hyperparameters` must be "evidence" or hold lengthscale, either outputscale or '
            f"penalty, and possibly kernel (rbf, matern or matern15), got {hyperparameters!r}."
        )
    values["outputscale"] = checked_positive("outputscale", values["outputscale"])
    lengthscale = values["lengthscale"]
    if isinstance(lengthscale, list | tuple):
        if len(lengthscale) != dim:
            raise ComparisonDataError(
                f"`lengthscale` has {len(lengthscale)} entries for {dim} dimensions."
            )
        values["lengthscale"] = [checked_positive("lengthscale", v) for v in lengthscale]
    else:
        values["lengthscale"] = checked_positive("lengthscale", lengthscale)
    return values
