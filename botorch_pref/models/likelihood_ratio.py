r"""Functions that are about as likely as the best one: bounds in place of a posterior."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple, NoReturn, Self

import torch
from torch import Tensor

from botorch_pref.data.blocks import match_items
from botorch_pref.data.checks import Check, check_items, refuse
from botorch_pref.exceptions import BoundConvergenceWarning, UnsupportedError
from botorch_pref.likelihood_ratio import FINAL, Bound, LeastAdvantage, least_advantage
from botorch_pref.models.confidence_model import ConfidenceModel
from botorch_pref.models.duel_deviation import PairKernelName, asked_deviations, duel_deviation
from botorch_pref.models.judgement_blocks import asked_duels

_TOLERATED = 1e-6  # of the largest value in the ball: a gap that is not worth a warning


class SolverStatus(NamedTuple):
    r"""How the last bounds were found.

    Attributes:
        converged: Whether each was certified to its tolerance.
        gap: The largest certified distance to an exact bound, in units of the utility.
        num_steps: The most Newton steps that a bound took.
    """

    converged: bool
    gap: float
    num_steps: int


class LikelihoodRatioModel(ConfidenceModel):
    r"""All ``f`` with ``|f|_k <= B`` and ``ell(f) >= max ell - slack``.

    The confidence set of Xu et al., *Principled Preferential Bayesian Optimization* (2024),
    eq. (9). It has no mean and no variance: what can be asked of it are the smallest and the
    largest value of ``f(x)`` or ``f(x) - f(x')``, each a convex program that is solved to a
    certified gap, and the most likely function. Hyperparameters are not learnt here; take
    those of a fitted :class:`PreferenceGP`. Bounds are computed in float64 and lie in the
    set: what they lack of the exact ones is in :attr:`status`.

    Example:
        >>> kernel = RBFKernel()
        >>> model = LikelihoodRatioModel.from_comparisons(
        ...     X, comparisons, covar_module=kernel, norm_bound=3.0, slack="sqrt"
        ... )
        >>> model.lower(points), model.mle(points), model.upper(points)
    """

    _last_bound: Bound | None = None

    @property
    def status(self) -> SolverStatus | None:
        """How the last bounds were found; None before there are any."""
        if self._last_bound is None:
            return None
        found = self._last_bound
        if not found.gap.numel():
            return SolverStatus(True, 0.0, 0)
        gap, steps = float(found.gap.amax()), int(found.num_steps.amax())
        return SolverStatus(bool(found.converged.all()), gap, steps)

    def posterior(self, *args: Any, **kwargs: Any) -> NoReturn:
        """There is none.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            "A likelihood-ratio confidence set has no posterior: ask lower, upper, advantage, or "
            "mle for the estimate."
        )

    def lower(self, X: Tensor, *, tolerance: float = FINAL) -> Tensor:
        r"""``min f(x)`` over the set, eq. (12).

        Args:
            X: ``... x d``-dim points.
            tolerance: The gap to stop at, in units of the utility.

        Returns:
            ``...``-dim bounds, once differentiable in ``X`` (the envelope theorem).

        Raises:
            ComparisonDataError: If ``X`` has another number of columns than the items, or
                is not finite.
        """
        functional = self.functionals().value(X, self.checked_inputs(X))
        bound = self.confidence_set.lower(*functional, tolerance=tolerance)
        return self._within_box(self.certified(bound).value)

    def upper(self, X: Tensor, *, tolerance: float = FINAL) -> Tensor:
        """``max f(x)`` over the set; arguments, result and errors as of :meth:`lower`."""
        return self.upper_bound(X, tolerance=tolerance).value

    def upper_bound(
        self, X: Tensor, *, tolerance: float = FINAL, start: Bound | None = None
    ) -> Bound:
        """As :meth:`upper`, from a bound nearby if one is known, and with all of it."""
        functional = self.functionals().value(X, self.checked_inputs(X))
        bound = self.confidence_set.upper(*functional, tolerance=tolerance, start=start)
        return bound._replace(value=self._within_box(self.certified(bound).value))

    def rough_upper(self, X: Tensor, x_ref: Tensor | None = None) -> Tensor:
        r"""About ``max f(x)``, or ``max f(x) - f(x_ref)``: cheap, for ranking many points.

        Args:
            X: ``... x d``-dim points.
            x_ref: ``d``-dim item.

        Returns:
            ``...``-dim values, without gradients; see
            :meth:`~botorch_pref.likelihood_ratio.ConfidenceSet.rough_upper`.

        Raises:
            ComparisonDataError: As of :meth:`lower`.
        """
        if x_ref is None:
            functional = self.functionals().value(X, self.checked_inputs(X))
            return self._within_box(self.confidence_set.rough_upper(*functional))
        pairs = torch.stack([X, x_ref.to(X).expand_as(X)], dim=-2)
        functional = self.functionals().difference(pairs, self._pairs(pairs))
        return self.confidence_set.rough_upper(*functional)

    def advantage(self, X: Tensor, *, tolerance: float = FINAL) -> Tensor:
        r"""``max f(x) - f(x')`` over the set, problem (24).

        Args:
            X: ``... x 2 x d``-dim pairs.
            tolerance: The gap to stop at, in units of the utility.

        Returns:
            ``...``-dim bounds, once differentiable in ``X``; 0 where an item meets itself.

        Raises:
            ComparisonDataError: If ``X`` has another shape, or is not finite.
        """
        return self.advantage_bound(X, tolerance=tolerance).value

    def advantage_bound(
        self, X: Tensor, *, tolerance: float = FINAL, start: Bound | None = None
    ) -> Bound:
        """As :meth:`advantage`, from a bound nearby if one is known, and with all of it."""
        functional = self.functionals().difference(X, self._pairs(X))
        bound = self.confidence_set.upper(*functional, tolerance=tolerance, start=start)
        return self.certified(bound)

    def advantage_over_all(
        self, X: Tensor, opponents: Tensor, *, tolerance: float = FINAL
    ) -> LeastAdvantage:
        r"""``max min_j f(x) - f(x_j)`` over the set, Xu et al. (2024), problem (101) of App. I.

        Args:
            X: ``... x d``-dim points.
            opponents: ``J x d``-dim items of the model; see :meth:`with_items`.
            tolerance: The gap to stop at, in units of the utility.

        Returns:
            The ``...``-dim advantages, once differentiable in ``X`` (the envelope theorem), each
            with a certified gap.

        Raises:
            ComparisonDataError: If ``X`` or ``opponents`` has another shape or is not finite, or
                an opponent is no item of the model.
        """
        check_items("opponents", opponents, "J", self.items.shape[-1], batch=False)
        rows, _ = match_items(self.items, opponents)
        unknown = rows >= len(self.items)
        refuse(Check("opponents", opponents, unknown, "it is no item of the model"))
        points = self.functionals()
        a, s = points.value(X, self.checked_inputs(X))
        differences = a.unsqueeze(-2) - points.whitening.root[rows]
        return least_advantage(self.confidence_set, differences, s, tolerance=tolerance)

    def mle(self, X: Tensor) -> Tensor:
        r"""The most likely function of the ball, eq. (8); of several, that of least norm.

        Args:
            X: ``... x d``-dim points.

        Returns:
            ``...``-dim utilities, differentiable in ``X``.

        Raises:
            ComparisonDataError: If ``X`` has another number of columns than the items, or
                is not finite.
        """
        coefficients, _ = self.functionals().value(X, self.checked_inputs(X))
        return self._within_box(coefficients @ self.maximum_likelihood.coordinates)

    def duel_sigma(
        self, X: Tensor, *, kernel: PairKernelName = "additive", penalty: float = 1.0
    ) -> Tensor:
        r"""The answer-free width of pairs, eq. (16); no posterior standard deviation.

        Args:
            X: ``... x 2 x d``-dim pairs.
            kernel: ``"additive"`` as in the paper, or ``"difference"``.
            penalty: ``lambda``.

        Returns:
            ``...``-dim widths given all duels asked.

        Raises:
            ComparisonDataError: If an argument cannot be used.
        """
        asked = self._asked()
        return duel_deviation(self.covar_module, asked, self._pairs(X), kernel, penalty)

    def asked_duel_sigma(
        self, *, kernel: PairKernelName = "additive", penalty: float = 1.0
    ) -> Tensor:
        """``sigma_t`` of each duel asked, given those before it; as :meth:`duel_sigma`."""
        return asked_deviations(self.covar_module, self._asked(), kernel, penalty)

    def adapt_norm_bound(
        self, *, limit: float = math.inf, max_doublings: int | None = None
    ) -> Self:
        r"""Double the norm bound while the answers ask for it (App. G).

        That is while the largest log likelihood within ``2 B`` exceeds that within ``B`` by more
        than the slack at ``2 B``.

        Args:
            limit: The largest bound.
            max_doublings: The most doublings; None for any number.

        Returns:
            This model, or another with a larger bound.
        """
        model, left = self, math.inf if max_doublings is None else max_doublings
        while self.blocks and left > 0 and model.norm_bound < limit:
            larger = model.with_norm_bound(min(2.0 * model.norm_bound, limit))
            gain = (
                larger.maximum_likelihood.log_likelihood - model.maximum_likelihood.log_likelihood
            )
            if not bool(gain > larger.slack):
                break
            model, left = larger, left - 1
        return model

    def forget(self) -> None:
        """See the base class; also how the last bounds were found."""
        super().forget()
        self._last_bound = None

    def certified(self, bound: Bound) -> Bound:
        """The same bound, noted in :attr:`status`, with a warning where it is far from certain."""
        self._last_bound = Bound(*(part.detach() for part in bound))
        largest = self.norm_bound * self.functionals().scale
        if bool((~bound.converged & (bound.gap > _TOLERATED * largest)).any()):
            gap = float(bound.gap.amax())
            warnings.warn(
                f"A likelihood-ratio bound is certified to {gap:.1e} only.",
                BoundConvergenceWarning,
                stacklevel=3,
            )
        return bound

    def _asked(self) -> Tensor:
        rows = asked_duels(self.blocks).to(self.items.device)
        return self.functionals().nodes[rows]
