r"""MaxMinLCB: a leader that does well against its strongest follower."""

from __future__ import annotations

from typing import Literal

import torch
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction
from botorch_pref.acquisition.utils import check_columns, difference_moments, moments_between
from botorch_pref.data.checks import checked_nonnegative
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.kernels.items import safe_deviation
from botorch_pref.likelihoods import link_of

_CHUNK = 128  # leaders whose joint posterior with the followers is worth a call


class MaxMinLCB(ItemAcquisitionFunction):
    r"""``min_x' mu(E[f(x) - f(x')]) - beta sd(f(x) - f(x'))`` over a table of followers.

    The leader's value in the Stackelberg game of Pasztor, Kassraie and Krause, *Bandits
    with Preference Feedback: A Stackelberg Game Perspective* (2024): the lower confidence
    bound on the probability that ``x`` wins against the follower that makes it smallest.
    The bound is ``mu(h) - beta sd``, not ``mu(h - beta sd)``. The gradient is that of the
    bound with the follower held fixed (the envelope theorem).

    The value is continuous with kinks where the follower changes, and its maximum is often
    at one. There L-BFGS-B ends in a failed line search; the point it has by then is good,
    but BoTorch warns and starts again unless it is told not to, as in the example.

    Example:
        >>> rule = MaxMinLCB(model, beta=1.0, followers=candidates)
        >>> options = {"num_restarts": 4, "raw_samples": 256}
        >>> options["retry_on_optimization_warning"] = False
        >>> leader, _ = optimize_acqf(rule, bounds, q=1, **options)
        >>> pair = torch.cat([leader, rule.follower(leader)])
    """

    followers: Tensor

    def __init__(
        self,
        model: Model,
        beta: float,
        followers: Tensor,
        *,
        diagonal: Literal["keep", "exclude"] = "keep",
    ) -> None:
        r"""Set the model and the followers.

        Args:
            model: A model of the utility with a joint ``posterior`` and a link;
                :class:`~botorch_pref.models.PreferenceGP`, or BoTorch's ``PairwiseGP``.
            beta: Multiplies the model's standard deviation; at least 0. With the papers'
                unit-scale ``sigma`` it is their ``beta`` times ``sqrt(lambda)``, where
                ``lambda`` is one over the output scale.
            followers: ``w x d``-dim items that the follower chooses from.
            diagonal: The bound of a follower equal to the leader: ``"keep"`` for exactly 1/2,
                ``"exclude"`` to leave it out unless it is the only one.

        Raises:
            ComparisonDataError: If ``followers`` is not a table of items of one row at least,
                ``beta`` is negative, or ``diagonal`` is another word.
            UnsupportedError: If the model's link is unknown.
        """
        super().__init__(model=model)
        if followers.dim() != 2 or not len(followers):
            raise ComparisonDataError(
                f"`followers` must be w x d with w at least 1, got {tuple(followers.shape)}."
            )
        check_columns(model, "followers", followers)
        if diagonal not in ("keep", "exclude"):
            raise ComparisonDataError(f"`diagonal` must be keep or exclude, got {diagonal!r}.")
        self.beta = checked_nonnegative("beta", beta)
        self.link = link_of(model)
        self.diagonal = diagonal
        self.register_buffer("followers", followers.detach().clone())

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The ``b``-dim lower bounds of ``b x 1 x d``-dim leaders, as probabilities or below 0."""
        leader = X.squeeze(-2)
        follower = self.follower(leader)
        pairs = torch.stack([leader.expand_as(follower), follower], dim=-2)
        return self._lower_bound(*difference_moments(self.model, pairs))

    @torch.no_grad()
    def follower(self, X: Tensor) -> Tensor:
        r"""The answer of the follower to a leader, of several equal ones the first in the table.

        Args:
            X: ``... x d``-dim leaders; for a batched model its batch shape comes last in
                ``...``, or is broadcast there.

        Returns:
            ``... x d``-dim followers, constants to autograd.
        """
        batch = self.model.batch_shape
        shape = torch.broadcast_shapes(X.shape[:-1], batch)
        leaders = X.expand(*shape, X.shape[-1]).reshape(-1, *batch, X.shape[-1]).movedim(0, -2)
        # Blocks as long as the table, so that no more than 4 times the cross covariance is built.
        parts = leaders.split(max(len(self.followers), _CHUNK), dim=-2)
        index = torch.cat([self._best_rows(part) for part in parts], dim=-1)
        return self.followers[index.movedim(-1, 0).reshape(shape)]

    def _best_rows(self, leaders: Tensor) -> Tensor:
        """The followers' rows that make the bounds of ``... x n x d`` leaders smallest."""
        followers = self.followers.expand(*leaders.shape[:-2], *self.followers.shape)
        bound = self._lower_bound(*moments_between(self.model, leaders, followers))
        same = (leaders.unsqueeze(-2) == self.followers).all(dim=-1)
        bound = bound.masked_fill(same, 0.5 if self.diagonal == "keep" else torch.inf)
        return bound.argmin(dim=-1)

    def _lower_bound(self, mean: Tensor, variance: Tensor) -> Tensor:
        return self.link(mean) - self.beta * safe_deviation(variance)
