"""Deviations of zero variances."""

import torch

from botorch_pref.models.moments import safe_deviation


def test_deviation_has_a_gradient_everywhere() -> None:
    variance = torch.tensor([0.0, 1e-300, 4.0], dtype=torch.float64, requires_grad=True)
    deviation = safe_deviation(variance)
    assert deviation.tolist() == [0.0, 1e-150, 2.0]
    (gradient,) = torch.autograd.grad(deviation.sum(), variance)
    assert gradient.isfinite().all()
    assert gradient[0] == 0.0
    assert gradient[2] == 0.25
