r"""Items known by an embedding and rated by a person.

References:
.. [Kayal2025] A. Kayal, S. Vakili, L. Toni, D. Shiu, A. Bernacchia. Bayesian Optimization
    from Human Feedback: Near-Optimal Regret Bounds. ICML 2025.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.problems.base import TableProblem
from botorch_pref.randomness import derive_seed

# Largest and smallest utility, so that differences lie in [-6, 6] ([Kayal2025], Sec. 5).
UTILITY_BOUND = 3.0
_NO_NUMBERS = (torch.bool, torch.cfloat, torch.cdouble)
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


class RatingsTable(TableProblem):
    r"""A person's ratings of items that are known by their embedding.

    The utility is the rating, shifted and scaled so that the person's lowest is -3 and
    their highest 3 ([Kayal2025], Sec. 5). Only the rated items can be evaluated.

    Attributes:
        ratings: The ``n``-dim ratings of the choices, on their own scale.
    """

    name = "ratings"
    ratings: Tensor
    _kind = "rated item"

    def __init__(self, embeddings: Tensor, ratings: Tensor) -> None:
        r"""Set the items and their ratings.

        Args:
            embeddings: An ``n x d``-dim tensor of items. The bounds are ``[-1, 1]^d``,
                or ``[-r, r]^d`` where the largest absolute entry ``r`` exceeds 1.
            ratings: Their ``n``-dim ratings, on any scale, none missing.

        Raises:
            SearchSpaceError: If the shapes do not fit, an entry is not finite (names
                the row), or all ratings are the same.
        """
        if embeddings.dim() != 2 or embeddings.numel() == 0 or not embeddings.is_floating_point():
            raise SearchSpaceError(
                "embeddings must be a non-empty n x d floating-point tensor, got "
                f"{embeddings.dtype} of shape {tuple(embeddings.shape)}."
            )
        if ratings.shape != embeddings.shape[:1] or ratings.dtype in _NO_NUMBERS:
            raise SearchSpaceError(
                f"ratings must be {len(embeddings)} numbers, one a row of embeddings, got "
                f"{ratings.dtype} of shape {tuple(ratings.shape)}."
            )
        for argument, rows in (("embeddings", embeddings), ("ratings", ratings.unsqueeze(-1))):
            missing = ~rows.isfinite().all(dim=-1)
            if missing.any():
                row = int(missing.nonzero()[0])
                raise SearchSpaceError(f"{argument} is not finite in row {row}.")
        ratings = ratings.double()
        lowest, highest = ratings.aminmax()
        if lowest == highest:
            raise SearchSpaceError(f"ratings must differ, got {lowest:g} throughout.")
        # Both ends exact: lerp is.
        share = (ratings - lowest) / (highest - lowest)
        end = share.new_tensor(UTILITY_BOUND)
        radius = max(1.0, float(embeddings.abs().max()))
        bounds = [(-radius, radius)] * embeddings.shape[-1]
        super().__init__(embeddings, torch.lerp(-end, end, share), bounds=bounds)
        self.register_buffer("ratings", ratings)

    def median_distance(self) -> float:
        r"""The median Euclidean distance of two different choices, a usable lengthscale.

        [Kayal2025] has a lengthscale of 0.1. On unit vectors in many dimensions that is
        far below all distances, so that a duel says next to nothing about other items.

        Returns:
            The median over all pairs; the lower one where two are in the middle.
        """
        return float(torch.pdist(self.choices).median())


class Ratings(RatingsTable):
    r"""Synthetic ratings of embedded items, by one of a few people.

    A stand-in for the Yelp experiment of [Kayal2025], Sec. 5: as many items, people and
    dimensions. The data and the embeddings of that experiment may not be passed on, and
    nothing here comes from them; :meth:`from_table` takes one's own.

    The items are unit vectors around the centres of 12 clusters. What a person thinks of
    an item is linear in six factors, and four fifths of a factor's variance are linear in
    the embedding: ratings of some items tell about others, but not all. Each person's
    taste is the sum of a common and an own one of equal size. Ratings have mean 3.3 and
    standard deviation 0.65 for each person, before they are clipped to ``[1, 5]``.

    Attributes:
        user: Whose ratings they are.
    """

    def __init__(
        self,
        user: int = 0,
        seed: int = 0,
        num_items: int = 275,
        num_users: int = 20,
        dim: int = 32,
    ) -> None:
        r"""Draw items and people, and take one person's ratings.

        Args:
            user: The person, from 0 to ``num_users - 1``. All people rate the same items.
            seed: The seed of items and people.
            num_items: The number of items.
            num_users: The number of people.
            dim: The dimension of the embedding.

        Raises:
            SearchSpaceError: If there is no such person, or ``num_items``, ``num_users``
                or ``dim`` is too small.
        """
        for argument, value, least in (
            ("num_items", num_items, 2),
            ("num_users", num_users, 1),
            ("dim", dim, 2),
        ):
            if value < least:
                raise SearchSpaceError(f"{argument} must be at least {least}, got {value}.")
        if not 0 <= user < num_users:
            raise SearchSpaceError(f"user must lie in [0, {num_users}), got {user}.")
        embeddings, ratings = _draw(seed, num_items, num_users, dim)
        super().__init__(embeddings, ratings[user])
        self.user = user

    @staticmethod
    def from_table(embeddings: Tensor, ratings: Tensor) -> RatingsTable:
        r"""One's own items and ratings.

        Args:
            embeddings: An ``n x d``-dim tensor of items.
            ratings: Their ``n``-dim ratings, on any scale, none missing.

        Returns:
            The problem.

        Raises:
            SearchSpaceError: As :class:`RatingsTable` does.
        """
        return RatingsTable(embeddings, ratings)


def _draw(seed: int, num_items: int, num_users: int, dim: int) -> tuple[Tensor, Tensor]:
    """``num_items x dim``-dim unit vectors, and ``num_users x num_items``-dim ratings."""
    generator = torch.Generator().manual_seed(derive_seed(seed, "problem", 0))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.double)

    def directions(num: int) -> Tensor:
        return normalize(normal(num, dim), dim=-1)

    centres = directions(1) + _CLUSTER_WEIGHT * directions(_NUM_CLUSTERS)
    clusters = torch.randint(_NUM_CLUSTERS, (num_items,), generator=generator)
    embeddings = normalize(centres[clusters] + _ITEM_WEIGHT * directions(num_items), dim=-1)
    factors = _standardise(embeddings @ normal(dim, _NUM_FACTORS), dim=0)
    factors = factors + _UNSEEN_SD * normal(num_items, _NUM_FACTORS)
    tastes = normal(1, _NUM_FACTORS) + normal(num_users, _NUM_FACTORS)
    liking = _standardise(tastes @ factors.T, dim=-1)
    return embeddings, (_MEAN_RATING + _RATING_SD * liking).clamp(1.0, 5.0)


def _standardise(values: Tensor, dim: int) -> Tensor:
    """Mean 0 and mean square 1 along a dimension."""
    centred = values - values.mean(dim=dim, keepdim=True)
    return centred / centred.square().mean(dim=dim, keepdim=True).sqrt()
