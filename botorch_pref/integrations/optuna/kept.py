r"""What is learnt from the answers of a study, kept from one trial to the next."""

from __future__ import annotations

from typing import NamedTuple

import torch
from optuna.distributions import BaseDistribution
from torch import Tensor

from botorch_pref.integrations.optuna.parameters import Parameters
from botorch_pref.queries import Duel
from botorch_pref.strategies.learner import UtilityLearner, last_refit


class Kept(NamedTuple):
    r"""A learner, and all that its state follows from.

    Attributes:
        distributions: What is searched.
        pairs: ``m x 2 x d``-dim pairs, the better item first.
        learner: The learner that was told them.
    """

    distributions: dict[str, BaseDistribution]
    pairs: Tensor
    learner: UtilityLearner


def told(kept: Kept | None, parameters: Parameters, pairs: Tensor, seed: int) -> Kept:
    r"""A learner of given pairs, whose state depends on nothing but them and the seed.

    Args:
        kept: What is used where it fits; its learner is changed.
        parameters: What is searched.
        pairs: ``m x 2 x d``-dim pairs, the better item first.
        seed: Of the fit.

    Returns:
        The learner, with what it was told.
    """
    fitted = last_refit(len(pairs))
    if (
        kept is None
        or kept.distributions != parameters.distributions
        or kept.learner.num_fitted != fitted
        or not torch.equal(kept.pairs, pairs[: len(kept.pairs)])
    ):
        learner = UtilityLearner(
            parameters.space, "evidence", kappa="laplace", regularizer="rkhs", seed=seed
        )
        _tell(learner, pairs[:fitted], 0)
        learner.refit()
        kept = Kept(parameters.distributions, pairs[:fitted], learner)
    _tell(kept.learner, pairs[len(kept.pairs) :], len(kept.pairs))
    return kept._replace(pairs=pairs)


def _tell(learner: UtilityLearner, pairs: Tensor, start: int) -> None:
    for i, pair in enumerate(pairs, start=start):
        learner.add(Duel(i, pair), 1.0)
