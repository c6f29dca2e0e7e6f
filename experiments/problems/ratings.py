r"""Items known by an embedding and rated by a person.

References:
.. [Kayal2025] A. Kayal, S. Vakili, L. Toni, D. Shiu, A. Bernacchia. Bayesian Optimization
    from Human Feedback: Near-Optimal Regret Bounds. ICML 2025.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from botorch_pref.problems.base import TableProblem
from botorch_pref.randomness import derive_seed

# Largest and smallest utility, so that differences lie in [-6, 6] ([Kayal2025], Sec. 5).
UTILITY_BOUND = 3.0
NUM_USERS, _NUM_ITEMS, _DIM = 20, 275, 32
# The synthetic ratings: about as many kinds of item as a town has cuisines, and a taste
# of few dimensions. Embeddings of texts on one subject share a direction; distances are
# then about 0.9 between clusters and 0.4 within. Few ratings are clipped, so that the
# best items seldom tie. What an embedding does not show is a fifth of a factor's variance.
_NUM_CLUSTERS = 12
_NUM_FACTORS = 6
_CLUSTER_WEIGHT = 0.7
_ITEM_WEIGHT = 0.4
_UNSEEN_SD = 0.5
_MEAN_RATING = 3.3
_RATING_SD = 0.65


class Ratings(TableProblem):
    r"""Synthetic ratings of 275 embedded items in 32 dimensions, by one of 20 people.

    A stand-in for the Yelp experiment of [Kayal2025], Sec. 5: as many items, people and
    dimensions. The data and the embeddings of that experiment may not be passed on, and
    nothing here comes from them. The utility is the rating, shifted and scaled so that the
    person's lowest is -3 and their highest 3. Only the rated items can be evaluated.

    The items are unit vectors around the centres of 12 clusters. What a person thinks of
    an item is linear in six factors, and four fifths of a factor's variance are linear in
    the embedding: ratings of some items tell about others, but not all. Each person's
    taste is the sum of a common and an own one of equal size. Ratings have mean 3.3 and
    standard deviation 0.65 for each person, before they are clipped to ``[1, 5]``.

    Args:
        user: The person, from 0 to 19. All people rate the same items.

    Attributes:
        user: Whose ratings they are.
        ratings: The ``275``-dim ratings of the choices, on their own scale.
    """

    name = "ratings"
    ratings: Tensor
    _kind = "rated item"

    def __init__(self, user: int = 0) -> None:
        embeddings, everyone = _draw()
        ratings = everyone[user]
        lowest, highest = ratings.aminmax()
        # Both ends exact: lerp is.
        share = (ratings - lowest) / (highest - lowest)
        end = share.new_tensor(UTILITY_BOUND)
        bounds = [(-1.0, 1.0)] * embeddings.shape[-1]
        super().__init__(embeddings, torch.lerp(-end, end, share), bounds=bounds)
        self.register_buffer("ratings", ratings)
        self.user = user

    def median_distance(self) -> float:
        r"""The median Euclidean distance of two different choices, a usable lengthscale.

        [Kayal2025] has a lengthscale of 0.1. On unit vectors in many dimensions that is
        far below all distances, so that a duel says next to nothing about other items.
        """
        return float(torch.pdist(self.choices).median())


def _draw() -> tuple[Tensor, Tensor]:
    """``275 x 32``-dim unit vectors, and ``20 x 275``-dim ratings."""
    generator = torch.Generator().manual_seed(derive_seed(0, "problem", 0))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.double)

    def directions(num: int) -> Tensor:
        return normalize(normal(num, _DIM), dim=-1)

    centres = directions(1) + _CLUSTER_WEIGHT * directions(_NUM_CLUSTERS)
    clusters = torch.randint(_NUM_CLUSTERS, (_NUM_ITEMS,), generator=generator)
    embeddings = normalize(centres[clusters] + _ITEM_WEIGHT * directions(_NUM_ITEMS), dim=-1)
    factors = _standardise(embeddings @ normal(_DIM, _NUM_FACTORS), dim=0)
    factors = factors + _UNSEEN_SD * normal(_NUM_ITEMS, _NUM_FACTORS)
    tastes = normal(1, _NUM_FACTORS) + normal(NUM_USERS, _NUM_FACTORS)
    liking = _standardise(tastes @ factors.T, dim=-1)
    return embeddings, (_MEAN_RATING + _RATING_SD * liking).clamp(1.0, 5.0)


def _standardise(values: Tensor, dim: int) -> Tensor:
    """Mean 0 and mean square 1 along a dimension."""
    centred = values - values.mean(dim=dim, keepdim=True)
    return centred / centred.square().mean(dim=dim, keepdim=True).sqrt()
