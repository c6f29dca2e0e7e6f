r"""The models that a paper's experiment is run under: as printed, and ours."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, NamedTuple, cast, get_args

import torch
from gpytorch.kernels import Kernel, LinearKernel, ScaleKernel
from linear_operator import to_dense
from scipy.special import gamma, kv
from torch import Size, Tensor

from botorch_pref.inference.finite import Regularizer
from botorch_pref.kernels.items import KernelName, default_covar_module

PENALTY = 0.05  # lambda of Kayal et al. (2025) and Lazzaro et al. (2026)
Units = Literal["own", "cube"]
GENERAL = "matern-"  # and the smoothness


class Setting(NamedTuple):
    r"""A kernel, its scale, and a predictor.

    Attributes:
        label: What stands behind the names of strategies; nothing behind those as printed.
        kernel: ``"rbf"``, ``"matern"`` (5/2), ``"matern15"`` (3/2), ``"linear"``, or ``"matern-"``
            and any smoothness, as ``"matern-3.5"``.
        lengthscale: In ``units``.
        units: Whether distances are those of the items as they are, or of the unit cube.
        regularizer: The penalty of the predictors; see
            :class:`~botorch_pref.inference.finite.FinitePosterior`.
        ridge: ``rho = lambda kappa`` of all variances, and the ridge of values.
        spread: The largest minus the smallest utility, of ``anchor``; None for the problem's own.
    """

    label: str = ""
    kernel: str = "matern"
    lengthscale: float = 0.1
    units: Units = "own"
    regularizer: Regularizer = "rkhs"
    ridge: float = PENALTY
    spread: float | None = None

    def row(self, strategy: str) -> str:
        """What a strategy is called under this setting."""
        return f"{strategy} ({self.label})" if self.label else strategy

    def text(self) -> str:
        """The setting in words."""
        scale = "" if self.kernel == "linear" else f" of lengthscale {self.lengthscale:g}"
        units = {"own": "in the items' own units", "cube": "on the unit cube"}[self.units]
        return (
            f"{self.label or 'as printed'}: {self.kernel} kernel{scale} {units}, "
            f"{self.regularizer} predictor, ridge {self.ridge:g}"
            + ("" if self.spread is None else f", utilities scaled to a range of {self.spread:g}")
        )

    def of_duels(self, bounds: Tensor) -> dict[str, Any]:
        """The options of a strategy that asks duels of items within ``2 x d``-dim bounds."""
        options: dict[str, Any] = {
            "kappa": self.ridge / PENALTY,
            "regularizer": self.regularizer,
            "hyperparameters": "evidence",  # of a kernel in which nothing is learnt
        }
        scales = self._scales(bounds)
        if self.kernel in get_args(KernelName):
            options["hyperparameters"] = self._values(scales) | {"penalty": PENALTY}
        else:
            options["covar_module"] = partial(fixed_kernel, self.kernel, scales)
        return options

    def of_values(self, bounds: Tensor) -> dict[str, Any] | None:
        """Those of GP-TS, which has the named kernels alone."""
        if self.kernel not in get_args(KernelName):
            return None
        values = self._values(self._scales(bounds)) | {"outputscale": 1.0}
        return {"hyperparameters": values, "ridge": self.ridge}

    def covariance(self, items: Tensor, bounds: Tensor) -> Tensor:
        """The ``n x n``-dim covariances of items within bounds, of unit variance but for a line."""
        scales, unit = self._scales(bounds), (items - bounds[0]) / (bounds[1] - bounds[0])
        if self.kernel in get_args(KernelName):
            name = cast(KernelName, self.kernel)
            kernel = default_covar_module(len(scales), Size(), name).base_kernel.to(unit)
            kernel.lengthscale = unit.new_tensor(scales)
        else:
            kernel = fixed_kernel(self.kernel, scales, len(scales)).base_kernel
        with torch.no_grad():
            return to_dense(kernel(unit))

    def _scales(self, bounds: Tensor) -> list[float]:
        """The lengthscales on the unit cube."""
        width = bounds[1] - bounds[0] if self.units == "own" else torch.ones_like(bounds[0])
        return [float(f"{self.lengthscale / one:.12g}") for one in width.tolist()]

    def _values(self, scales: list[float]) -> dict[str, Any]:
        return {"kernel": self.kernel, "lengthscale": scales if len({*scales}) > 1 else scales[0]}


PRINTED = Setting()
OURS = Setting("ours", units="cube", regularizer="theta_mean")


def fixed_kernel(name: str, scales: list[float], dim: int) -> ScaleKernel:
    """A linear kernel, or Matern's of any smoothness, of lengthscales on the unit cube.

    Nothing of it requires a gradient. The inverse of the penalty is its output scale.
    """
    base: Kernel
    if name == "linear":
        base = LinearKernel(ard_num_dims=dim).double()
        base.variance = torch.tensor(scales, dtype=torch.double).pow(-2).view(1, 1, dim)
    else:
        base = GeneralMatern(float(name.removeprefix(GENERAL)), ard_num_dims=dim).double()
        base.lengthscale = torch.tensor([scales], dtype=torch.double)
    kernel = ScaleKernel(base).double()
    kernel.outputscale = 1.0 / PENALTY
    return kernel.requires_grad_(False)


class GeneralMatern(Kernel):
    r"""Matern's kernel of any smoothness, by Bessel functions and without gradients.

    Kayal et al. (2025), App. A: with ``s = sqrt(2 nu) r / l``,
    ``2^(1 - nu) / Gamma(nu) s^nu K_nu(s)``. GPyTorch has ``nu`` 1/2, 3/2 and 5/2.

    Args:
        nu: The smoothness, above 0.
        **kwargs: Those of ``gpytorch.kernels.Kernel``.
    """

    has_lengthscale = True

    def __init__(self, nu: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.nu = nu

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """The ``... x n x m`` covariances, or with ``diag`` the ``... x n`` of rows."""
        left, right = x1 / self.lengthscale, x2 / self.lengthscale
        distance = self.covar_dist(left, right, diag=diag, **params)
        scaled = ((2.0 * self.nu) ** 0.5 * distance).detach().cpu().numpy()
        scaled = scaled.clip(1e-10)  # where the product below is 1 to all digits but is not 0 inf
        found = 2.0 ** (1.0 - self.nu) / gamma(self.nu) * scaled**self.nu * kv(self.nu, scaled)
        return torch.as_tensor(found).to(x1)


def is_kernel(name: str) -> bool:
    """Whether a setting's kernel can be of that name."""
    smoothness = name.removeprefix(GENERAL)
    try:
        general = name != smoothness and 0.0 < float(smoothness) < 50.0
    except ValueError:
        general = False
    return general or name in (*get_args(KernelName), "linear")
