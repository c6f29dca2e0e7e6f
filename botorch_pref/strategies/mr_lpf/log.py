r"""The log of MR-LPF's duels: what every bound needs."""

from __future__ import annotations

from typing import NamedTuple

import torch
from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.kernels import DuelingKernel
from botorch_pref.strategies.mr_lpf.bounds import information_gain, selected_sigma
from botorch_pref.strategies.mr_lpf.rounds import RoundSetting


class StepRecord(NamedTuple):
    r"""A duel, when it was chosen; in the units of Kayal et al. (2025).

    Attributes:
        step: The number of the duel, from 1.
        round: The round it belongs to, from 1.
        share: The share of all items that is active in that round.
        sigma: ``sigma_{n-1}(z_n)``, how unsure it was.
        gain: The information gain of the round's duels up to this one.
        ridge: ``rho_r``.
        beta: ``beta_(r)`` as it was known then.
    """

    step: int
    round: int
    share: float
    sigma: float
    gain: float
    ridge: float
    beta: float


def step_records(
    kernel: Kernel, setting: RoundSetting, pairs: Tensor, num_past: int, offset: int, share: float
) -> list[StepRecord]:
    r"""The log of the duels of one round, which follows from its pairs.

    Args:
        kernel: The unit kernel.
        setting: The round's setting.
        pairs: ``n x 2 x d``-dim pairs in the unit cube, in the order of the duels.
        num_past: How many of them are data of former rounds, which have no record here.
        offset: The number of duels in the rounds before.
        share: The share of all items that was active.

    Returns:
        ``n - num_past`` records.
    """
    with torch.no_grad():
        gram = to_dense(DuelingKernel(kernel)(pairs.flatten(start_dim=-2)))
    sigma = selected_sigma(gram, setting.ridge)[num_past:]
    gain = information_gain(sigma, setting.ridge)
    both = enumerate(zip(sigma.tolist(), gain.tolist(), strict=True), start=1)
    ridge, beta = setting.ridge, setting.beta
    return [
        StepRecord(offset + n, setting.number, share, *values, ridge, beta) for n, values in both
    ]
