r"""The units of answers and of measured values, in the coordinates of one Laplace approximation.

A comparison sees ``s (f(x) - f(x'))`` with the link's scale ``s``; a measurement
``y = f(x) + e`` with ``e ~ N(0, v)`` is a standard normal of ``(f(x) - y) / v^1/2``. So all rows
are of the kind that the approximation knows, once the utilities of the compared items are
multiplied by ``s`` and those of the measured ones by ``v^-1/2``. As these factors are part of
the prior covariance and mean of the items, the evidence is differentiated with respect to them
like with respect to any other hyperparameter.
"""

from __future__ import annotations

import torch
from botorch.models.utils.gpytorch_modules import get_gaussian_likelihood_with_lognormal_prior
from botorch.utils.constraints import LogTransformedInterval
from gpytorch import Module
from gpytorch.priors import LogNormalPrior
from torch import Size, Tensor
from torch.nn import Parameter

from botorch_pref.data.checks import checked_positive
from botorch_pref.data.values import Values
from botorch_pref.exceptions import ComparisonDataError

_ITEM = (1.0,)


class Calibration(Module):
    r"""What ties the units of comparisons and measurements: a link's scale and a noise.

    Args:
        batch_shape: The batch shape of what is learnt.
        link_scale: The scale of the link if it is fixed; ``None`` to learn it, under a
            log-normal prior of median 1 and log standard deviation 1.
        learns_noise: Whether one variance of the noise is learnt, with the prior and the
            bound of BoTorch's ``SingleTaskGP``.

    Raises:
        ComparisonDataError: If ``link_scale`` is not positive.
    """

    def __init__(self, batch_shape: Size, link_scale: float | None, learns_noise: bool) -> None:
        super().__init__()
        self.fixed_scale: float | None = None
        if link_scale is not None:
            self.fixed_scale = checked_positive("link_scale", link_scale)
        else:
            self.register_parameter("raw_link_scale", Parameter(torch.zeros(*batch_shape, 1)))
            self.register_prior(
                "link_scale_prior",
                LogNormalPrior(0.0, 1.0),
                _read_link_scale,
                Calibration.set_link_scale,
            )
            constraint = LogTransformedInterval(1e-3, 1e3, initial_value=1.0)
            self.register_constraint("raw_link_scale", constraint)
            self.set_link_scale(1.0)
        if learns_noise:
            self.noise_model = get_gaussian_likelihood_with_lognormal_prior(batch_shape)

    @property
    def learns_noise(self) -> bool:
        """Whether the noise is a hyperparameter."""
        return hasattr(self, "noise_model")

    @property
    def link_scale(self) -> Tensor:
        """The ``... x 1``-dim scale of the link; no dimensions if it is fixed."""
        if self.fixed_scale is not None:
            return torch.tensor(self.fixed_scale, dtype=torch.float64)
        found: Tensor = self.raw_link_scale_constraint.transform(self.raw_link_scale)
        return found

    def link_scale_like(self, values: Tensor) -> Tensor:
        """The scale of the link on the device and in the precision of ``values``."""
        if self.fixed_scale is not None:
            return values.new_full((), self.fixed_scale)  # which is not sent there
        return self.link_scale.to(values)

    def set_link_scale(self, value: float | Tensor) -> None:
        """Set the scale of the link.

        Raises:
            ComparisonDataError: If it is fixed and ``value`` is not one positive number.
        """
        if self.fixed_scale is not None:
            number = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
            self.fixed_scale = checked_positive("link_scale", number)
            return
        value = torch.as_tensor(value).to(self.raw_link_scale).expand_as(self.raw_link_scale)
        raw = self.raw_link_scale_constraint.inverse_transform(value)
        self.initialize(raw_link_scale=raw)

    @property
    def noise(self) -> Tensor:
        """The ``... x 1``-dim learnt variance of the noise."""
        return self.noise_model.noise

    def deviations(self, values: Values) -> Tensor:
        """``batch_shape x k``-dim standard deviations of the noise of measurements."""
        variance = self.noise if values.variances is None else values.variances.squeeze(-1)
        shape = torch.broadcast_shapes(variance.shape, values.datapoints.shape[:-1])
        return variance.sqrt().expand(shape)

    def check(self, values: Values | None) -> None:
        """Checks that the noise of measurements is known in one way and not in two.

        Raises:
            ComparisonDataError: If it is in none or in two.
        """
        if values is None:
            return
        name = values.names[2]
        if values.variances is None and not self.learns_noise:
            raise ComparisonDataError(f"`{name}` must be given: this model learns no noise.")
        if values.variances is not None and self.learns_noise:
            raise ComparisonDataError(f"`{name}` must be None: this model learns the noise.")


def _read_link_scale(module: Calibration) -> Tensor:
    return module.link_scale
