r"""The links that a model may be given."""

from __future__ import annotations

from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood, PairwiseProbitLikelihood
from torch.nn import Module

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood, ProbitLikelihood


def known_link(likelihood: object) -> BernoulliLikelihood | None:
    r"""A likelihood as one of this package.

    Args:
        likelihood: One of this package, or BoTorch's ``PairwiseLogitLikelihood`` or
            ``PairwiseProbitLikelihood``, which is ``Phi(h / sqrt(2))``.

    Returns:
        The likelihood; ``None`` for any other.
    """
    if isinstance(likelihood, PairwiseLogitLikelihood):
        return LogitLikelihood()
    if isinstance(likelihood, PairwiseProbitLikelihood):
        return ProbitLikelihood(scale=2**-0.5)
    return likelihood if isinstance(likelihood, BernoulliLikelihood) else None


def checked_link(likelihood: Module | None) -> BernoulliLikelihood:
    r"""A model's argument ``likelihood`` as a link of this package; logit by default.

    Raises:
        UnsupportedError: If it has no known link.
    """
    link = LogitLikelihood() if likelihood is None else known_link(likelihood)
    if link is None:
        raise UnsupportedError(
            "`likelihood` must be one of botorch_pref or one of BoTorch's pairwise ones, not "
            f"{type(likelihood).__name__}."
        )
    return link
