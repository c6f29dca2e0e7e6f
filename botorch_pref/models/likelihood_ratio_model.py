r"""Functions that are about as likely as the best one: bounds in place of a posterior."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn, Self

import torch
from botorch.models.model import Model
from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Size, Tensor
from torch.nn import Module

from botorch_pref.data.blocks import DUEL, Block, match_items
from botorch_pref.data.checks import (
    LARGEST,
    Check,
    check_items,
    check_like,
    check_shape,
    checked_positive,
    finite,
    refuse,
)
from botorch_pref.data.comparisons import Comparisons
from botorch_pref.data.labels import Labels
from botorch_pref.exceptions import BoundConvergenceWarning, ComparisonDataError, UnsupportedError
from botorch_pref.inference.observations import Observations
from botorch_pref.kernels.items import default_covar_module, dense_covariance, dueling_variance
from botorch_pref.kernels.pairs import AdditivePairKernel
from botorch_pref.likelihood_ratio.confidence_set import (
    FINAL,
    FLOOR,
    Bound,
    ConfidenceSet,
    SlackRule,
    Whitening,
    slack_rule,
    whiten,
)
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood, checked_link
from botorch_pref.models.base import (
    HyperparameterCache,
    learn_bounds,
    map_tensors,
    num_columns,
    transformed_items,
    transformed_rows,
)

_CUTOFF = 1e-12  # of the largest eigenvalue; with jitter, nothing is below
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


class LikelihoodRatioModel(Model):
    r"""All ``f`` with ``|f|_k <= B`` and ``ell(f) >= max ell - slack``.

    The confidence set of Xu et al., *Principled Preferential Bayesian Optimization* (2024),
    eq. (9). It has no mean and no variance, but bounds: the smallest and the largest value of
    ``f(x)`` or ``f(x) - f(x')``, each a convex program that is solved to a certified gap, and the
    most likely function. Hyperparameters are not learnt here; take those of a fitted
    :class:`PreferenceGP`. Bounds are computed in float64 and lie in the set; :attr:`status` has
    their largest distance to the exact ones. The set is solved once, and again only where a
    hyperparameter of the kernel or an option has changed.

    Attributes:
        covar_module: The kernel.
        blocks: What was observed, in the order in which it came.
        likelihood: The link of the first answers, which further ones have, too.
        norm_bound: ``B``.
        slack_rule: The slack by the number of answers.
        box: The largest absolute utility, or None.
        jitter: What is added to the variance of an item.
        status: How the last bounds were found; None before there are any.

    Example:
        >>> kernel = RBFKernel()
        >>> model = LikelihoodRatioModel.from_comparisons(
        ...     X, comparisons, covar_module=kernel, norm_bound=3.0, slack="sqrt"
        ... )
        >>> model.lower(points), model.mle(points), model.upper(points)
    """

    _items: Tensor
    status: SolverStatus | None

    def __init__(
        self,
        items: Tensor,
        blocks: Sequence[Block],
        *,
        norm_bound: float,
        covar_module: Kernel | None = None,
        slack: float | str | Mapping[str, Any] | SlackRule = "sqrt",
        box: float | None = None,
        jitter: float = 1e-6,
        jitter_points: bool = True,
        input_transform: InputTransform | None = None,
    ) -> None:
        r"""Set up the set; see also :meth:`from_comparisons` and :meth:`from_labels`.

        Args:
            items: ``n x d``-dim distinct items.
            blocks: Observations that index the items; none at all leaves the whole ball.
            norm_bound: ``B``, in the norm of ``covar_module``.
            covar_module: The kernel, copied, without gradients; by default RBF with unit
                variance and a lengthscale of 0.2 on the unit cube.
            slack: See :func:`~botorch_pref.likelihood_ratio.slack_rule`; ``"sqrt"`` is
                the root of the number of answers.
            box: The largest absolute utility, at the items and of the values returned; None
                for no such bound.
            jitter: Added to the variance of each item.
            jitter_points: Whether points have it, too, and one equal to an item is that
                item, as Xu et al. (2024) have it; else points have none, as in COBOL.
            input_transform: Applied where items meet the kernel; copied, without gradients.

        Raises:
            ComparisonDataError: If an option is out of range.
            UnsupportedError: If the kernel is batched.
        """
        super().__init__()
        if covar_module is None:
            dim = num_columns(items, input_transform)
            covar_module = default_covar_module(dim, Size(), "rbf", lengthscale=0.2).base_kernel
        # The set depends on hyperparameters in ways that the envelope theorem leaves out.
        self.covar_module = copy.deepcopy(covar_module)
        self.blocks = tuple(block for block in blocks if block.weight.shape[-1])
        links = (b.likelihood for b in blocks if isinstance(b.likelihood, BernoulliLikelihood))
        self.likelihood = next(links, LogitLikelihood())
        self.register_buffer("_items", items.detach(), persistent=False)
        if input_transform is not None:
            self.input_transform = copy.deepcopy(input_transform)
        self.to(items)
        learn_bounds(self._transform, items)
        self.eval().requires_grad_(False)
        if batch := tuple(self.covar_module.batch_shape):
            raise UnsupportedError(f"`covar_module` must not be batched; its batch is {batch}.")
        self.norm_bound = checked_positive("norm_bound", norm_bound)
        self.slack_rule = slack_rule(slack)
        self.box = None if box is None else checked_positive("box", box)
        if not isinstance(jitter, int | float) or not 0.0 <= jitter <= LARGEST:
            raise ComparisonDataError(f"`jitter` must be finite and at least 0, not {jitter!r}.")
        self.jitter, self.jitter_points = float(jitter), jitter_points

    @classmethod
    def from_comparisons(
        cls,
        datapoints: Tensor,
        comparisons: Tensor | Comparisons,
        *,
        likelihood: Module | None = None,
        **options: Any,
    ) -> Self:
        r"""The set of utilities, from duels.

        Args:
            datapoints: ``n x d``-dim items, where equal ones are one.
            comparisons: ``m x 2``-dim ``[winner, loser]`` rows, or
                :class:`~botorch_pref.data.Comparisons`.
            likelihood: The link; logit by default.
            **options: As of the constructor; ``norm_bound`` has no default.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
            UnsupportedError: If they are batched.
        """
        data = Comparisons.from_arguments(datapoints, comparisons)  # annotators are pooled
        if data is None or comparisons is None:
            raise ComparisonDataError("`datapoints` and `comparisons` must be given.")
        if data.batch_shape:
            shape = tuple(data.batch_shape)
            raise UnsupportedError(f"`datapoints` must not be batched; their batch is {shape}.")
        [block] = data.blocks(checked_link(likelihood))
        block = block.select(data.count > 0)  # without padding
        # Equal items would have two utilities, which differ by what their jitter allows.
        indices, new = match_items(data.datapoints[:0], data.datapoints)
        return cls(data.datapoints[new], [replace(block, items=indices[block.items])], **options)

    @classmethod
    def from_labels(
        cls,
        X: Tensor,
        accept: Tensor,
        *,
        likelihood: Module | None = None,
        **options: Any,
    ) -> Self:
        r"""The set of latent functions whose sign accepts or rejects.

        Args:
            X: ``n x d``-dim labelled items, where equal ones are one.
            accept: ``n x 1`` or ``n``-dim labels: 1 accept, 0 reject, 0.5 undecided.
            likelihood: The link; logit by default.
            **options: As of the constructor; ``norm_bound`` has no default, and
                ``jitter_points`` is False.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
            UnsupportedError: If they are batched.
        """
        check_shape("X", X)
        check_shape("accept", accept)
        accept = accept.unsqueeze(-1) if accept.dim() == X.dim() - 1 else accept
        data = Labels(X, accept.to(X), ("X", "accept"))
        if X.dim() != 2:
            raise UnsupportedError(f"`X` must not be batched; its batch is {tuple(X.shape[:-2])}.")
        indices, new = match_items(X[:0], data.datapoints)
        [block] = data.blocks(checked_link(likelihood))
        block = replace(block, items=indices.unsqueeze(-1))
        return cls(data.datapoints[new], [block], **{"jitter_points": False, **options})

    @property
    def items(self) -> Tensor:
        """The ``n x d``-dim items as they were given."""
        return self._items

    @property
    def num_outputs(self) -> int:
        """One, the utility."""
        return 1

    @property
    def batch_shape(self) -> Size:
        """None, as there is one set."""
        return Size()

    @property
    def num_answers(self) -> int:
        """The number ``t`` of answers, which the slack depends on."""
        return round(sum(float(block.weight.sum()) for block in self.blocks))

    @property
    def confidence_set(self) -> ConfidenceSet:
        """The set in whitened coordinates."""
        return self._solved().confidence_set

    @property
    def value_bound(self) -> float:
        """``kappa B``, what no utility of an item exceeds, jitter aside."""
        return self._solved().deviation * self.norm_bound

    def posterior(self, *args: Any, **kwargs: Any) -> NoReturn:
        """There is none.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            "A likelihood-ratio confidence set has no posterior: use lower, upper, advantage, or "
            "mle for the estimate."
        )

    def condition_on_pairs(self, pairs: Tensor, answers: Tensor) -> Self:
        r"""The set after further duels.

        Args:
            pairs: ``m x 2 x d``-dim items; one equal to a stored one is that one.
            answers: ``m``-dim answers: 1 the first won, 0 the second, 0.5 no preference.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
        """
        none = self.items.new_empty(0)
        data = Comparisons.unchecked(self.items, self._no_pairs(), none, none)
        data = data.append(pairs, answers)
        [block] = data.blocks(self.likelihood)
        return self._with(data.datapoints, block)

    def with_items(self, items: Tensor) -> Self:
        r"""The same with ``k x d``-dim further items, without observations."""
        check_shape("items", items, "k", self.items.shape[-1], batch=False)
        check_like("items", items, self.items)
        _, new = match_items(self.items, items)
        return self._with(torch.cat([self.items, items[new]]), None)

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
            larger = model._with(model.items, None)
            larger.norm_bound = min(2.0 * model.norm_bound, limit)
            old, new = model.confidence_set, larger.confidence_set
            if not bool(new.mle.log_likelihood - old.mle.log_likelihood > new.slack):
                break
            model, left = larger, left - 1
        return model

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
        g, s = self._value(X)
        most = self.box or math.inf  # of values, which are clamped to it
        bound = self.confidence_set.lower(g, s, tolerance=tolerance, enough=most)
        return self._within_box(self._certified(bound).value)

    def upper(self, X: Tensor, *, tolerance: float = FINAL) -> Tensor:
        """``max f(x)`` over the set; arguments, result and errors as of :meth:`lower`."""
        return self.bound(X, tolerance=tolerance).value

    def advantage(self, X: Tensor, *, tolerance: float = FINAL) -> Tensor:
        r"""``max f(x) - f(x')`` over the set, problem (24), of ``... x 2 x d``-dim pairs.

        Result is as of :meth:`lower`; the advantage of an item over itself is 0.

        Raises:
            ComparisonDataError: If ``X`` has another shape, or is not finite.
        """
        _check_pairs(X)
        return self.bound(*X.unbind(-2), tolerance=tolerance).value

    def bound(
        self,
        X: Tensor,
        x_ref: Tensor | None = None,
        *,
        tolerance: float = FINAL,
    ) -> Bound:
        r"""``max f(x)``, or ``max f(x) - f(x_ref)``, and the function that attains it.

        Args:
            X: ``... x d``-dim points.
            x_ref: ``... x d``-dim points that the advantage is over.
            tolerance: The gap to stop at, in units of the utility.

        Returns:
            The bounds, whose ``value`` is as of :meth:`lower`.

        Raises:
            ComparisonDataError: As of :meth:`lower`.
        """
        g, s = self._coefficients(X, x_ref)
        most = self.box if self.box and x_ref is None else math.inf
        bound = self.confidence_set.upper(g, s, tolerance=tolerance, enough=most)
        self._certified(bound)
        return bound if x_ref is not None else bound._replace(value=self._within_box(bound.value))

    def rough_upper(self, X: Tensor, x_ref: Tensor | None = None) -> Tensor:
        r"""About the value of :meth:`bound`, without gradients: for ranking many points.

        See :meth:`~botorch_pref.likelihood_ratio.ConfidenceSet.rough_upper`.
        """
        value = self.confidence_set.rough_upper(*self._coefficients(X, x_ref))
        return value if x_ref is not None else self._within_box(value)

    def advantage_over_all(
        self, X: Tensor, opponents: Tensor, *, tolerance: float = FINAL
    ) -> Bound:
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
        a, s = self._value(X)
        differences = a.unsqueeze(-2) - self._solved().whitening.root[rows]
        found = self.confidence_set.upper_of_least(differences, s, tolerance=tolerance)
        return self._certified(found)

    def mle(self, X: Tensor) -> Tensor:
        r"""The most likely function of the ball, eq. (8); of several, that of least norm.

        Args:
            X: ``... x d``-dim points.

        Returns:
            ``...``-dim utilities, differentiable in ``X``.

        Raises:
            ComparisonDataError: As of :meth:`lower`.
        """
        return self._within_box(self._value(X)[0] @ self.confidence_set.mle.coordinates)

    def duel_sigma(self, X: Tensor) -> Tensor:
        r"""The answer-free width of pairs, eq. (16) with ``lambda = 1``; no standard deviation.

        Args:
            X: ``... x 2 x d``-dim pairs.

        Returns:
            ``...``-dim widths given all duels asked, of the additive pair kernel.

        Raises:
            ComparisonDataError: As of :meth:`advantage`.
        """
        _check_pairs(X)
        pairs, kernel = self._inputs(X), AdditivePairKernel(self.covar_module)
        flat = pairs.reshape(-1, 2 * pairs.shape[-1])
        cross = to_dense(kernel(self._asked(), flat))
        explained = torch.linalg.solve_triangular(self._asked_factor(), cross, upper=False)
        variance = to_dense(kernel(flat, diag=True)) - explained.square().sum(-2)
        return variance.clamp_min(0.0).sqrt().view(pairs.shape[:-2])

    def asked_duel_sigma(self) -> Tensor:
        """``sigma_t`` of each duel asked, given those before it; as :meth:`duel_sigma`."""
        return (self._asked_factor().diagonal().square() - 1.0).clamp_min(0.0).sqrt()

    def _asked_factor(self) -> Tensor:
        """The Cholesky factor of the covariance of all duels asked, with unit noise."""
        covariance = to_dense(AdditivePairKernel(self.covar_module)(self._asked()))
        return torch.linalg.cholesky(covariance + torch.eye(len(covariance)).to(covariance))

    def _asked(self) -> Tensor:
        """``m x 2d``-dim duels in the order of their arms, one row an answer."""
        rows = [
            block.items.repeat_interleave(block.weight.long(), dim=0)
            for block in self.blocks
            if block.coefficients == DUEL and isinstance(block.likelihood, BernoulliLikelihood)
        ]
        nodes = self.transformed_items()
        return nodes[torch.cat(rows) if rows else self._no_pairs()].flatten(-2)

    def _no_pairs(self) -> Tensor:
        return torch.empty(0, 2, dtype=torch.long, device=self.items.device)

    @property
    def _transform(self) -> InputTransform | None:
        return getattr(self, "input_transform", None)

    def transformed_items(self) -> Tensor:
        """The ``n x d``-dim items, transformed."""
        return transformed_items(self._transform, self.items)

    def _set_transformed_inputs(self) -> None:
        """Nothing: BoTorch's hook swaps the data, ours stay as they were given."""

    def _revert_to_original_inputs(self) -> None:
        """Nothing: see :meth:`_set_transformed_inputs`."""

    def _inputs(self, X: Tensor) -> Tensor:
        """``... x d``-dim points, checked and transformed."""
        if X.shape[-1:] != self.items.shape[-1:]:
            raise ComparisonDataError(
                f"`X` has {tuple(X.shape)[-1:]} columns, but the items have {self.items.shape[-1]}."
            )
        rows = X.reshape(-1, X.shape[-1])  # a transform takes no single item
        refuse(finite("X", rows))
        found = transformed_rows(self._transform, rows)
        return found.view(*X.shape[:-1], found.shape[-1])

    def _coefficients(self, X: Tensor, x_ref: Tensor | None) -> tuple[Tensor, Tensor]:
        """Those of ``f(x)`` or ``f(x) - f(x_ref)``; see :meth:`_value`."""
        if x_ref is None:
            return self._value(X)
        return self._difference(torch.stack([X, x_ref.to(X).expand_as(X)], dim=-2))

    def _value(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""``... x r``-dim ``a`` and ``...``-dim ``s`` with ``f(x) = a^T u + s w``.

        Notation of :func:`botorch_pref.likelihood_ratio.whiten`. The value of an item is a row of
        the root. A point may be a node that would be appended, with a jitter of its own, so that
        Xu et al. (2024), problem (24), holds as printed; or the value there of the function
        without the part that the jitter adds at items, as in Xu et al. (2024b), COBOL.
        """
        inputs = self._inputs(X)
        solved = self._solved()
        flat = inputs.reshape(-1, inputs.shape[-1])
        variance = to_dense(self.covar_module(flat, diag=True))
        variance = variance + self.jitter if self.jitter_points else variance
        cross = dense_covariance(self.covar_module, flat, solved.nodes)
        a, s = solved.whitening.split(cross.double(), variance.double())
        a, s = a.view(*X.shape[:-1], a.shape[-1]), s.view(X.shape[:-1])
        row = self._rows(X)
        node = row < len(self.items)
        if not self.jitter_points or not len(self.items) or not bool(node.any()):
            return a, s
        # Items have their own rows, whose gradient is that beside the item.
        own = solved.whitening.root[row.clamp_max(len(self.items) - 1)]
        a = torch.where(node.unsqueeze(-1), a + (own - a).detach(), a)
        return a, s.masked_fill(node, 0.0)

    def _difference(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients of ``f(x) - f(x')`` at ``... x 2 x d`` pairs; 0 of equal items."""
        a, s = self._value(X)
        g = a[..., 0, :] - a[..., 1, :]
        arms = self._inputs(X).unsqueeze(-3).unbind(dim=-2)  # shapes: (..., 1, d)
        prior = dueling_variance(self.covar_module, *arms).squeeze(-1).double()
        jitter = 2.0 * self.jitter if self.jitter_points else 0.0
        beyond = (prior + jitter - g.square().sum(-1)).clamp_min(FLOOR).sqrt()
        if self.jitter_points:
            first, second = (self._rows(X) < len(self.items)).unbind(dim=-1)
            beyond = torch.where(first, s[..., 1], torch.where(second, s[..., 0], beyond))
        same = (X[..., 0, :] == X[..., 1, :]).all(-1)
        return g.masked_fill(same.unsqueeze(-1), 0.0), beyond.masked_fill(same, 0.0)

    def _rows(self, X: Tensor) -> Tensor:
        """The item that each point is, and their number where it is none."""
        equal = (X.detach().unsqueeze(-2) == self.items).all(-1)
        last = equal.new_ones(*equal.shape[:-1], 1)
        return torch.cat([equal, last], dim=-1).to(torch.uint8).argmax(-1)

    def _within_box(self, value: Tensor) -> Tensor:
        return value if self.box is None else value.clamp(-self.box, self.box)

    def _certified(self, bound: Bound) -> Bound:
        """The same bound, noted in :attr:`status`, with a warning where it is far from certain."""
        gap = steps = 0.0
        if bound.gap.numel():
            gap, steps = float(bound.gap.amax()), float(bound.num_steps.amax())
        self.status = SolverStatus(bool(bound.converged.all()), gap, int(steps))
        root = self._solved().whitening.root
        largest = self.norm_bound * (float(root.norm(dim=-1).amax()) if len(root) else 1.0)
        if bool((~bound.converged & (bound.gap > _TOLERATED * largest)).any()):
            warnings.warn(
                f"A likelihood-ratio bound is certified to {gap:.1e} only.",
                BoundConvergenceWarning,
                stacklevel=3,
            )
        return bound

    def _solved(self) -> _Solution:
        with torch.no_grad():
            options = (self.norm_bound, self.slack_rule, self.box, self.jitter, self.jitter_points)
            found = self._cache.get(self, options, self.items)
            return self._cache.keep(self._solve()) if found is None else found

    def _solve(self) -> _Solution:
        nodes = self.transformed_items()
        covariance = to_dense(self.covar_module(nodes)).double()
        deviation = float(covariance.diagonal().amax().sqrt()) if len(nodes) else 1.0
        covariance = covariance + self.jitter * torch.eye(len(nodes)).to(covariance)
        whitening = whiten(covariance, cutoff=_CUTOFF)
        found = ConfidenceSet(
            whitening.root,
            Observations(self.blocks, len(nodes)) if self.blocks else None,
            norm_bound=self.norm_bound,
            slack=self.slack_rule(self.num_answers, deviation * self.norm_bound),
            box=self.box,
        )
        return _Solution(found, whitening, nodes, deviation)

    def _with(self, items: Tensor, block: Block | None) -> Self:
        """A copy with other items and a further block of observations."""
        new = copy.deepcopy(self)
        new._items = items.detach()
        if block is not None and block.weight.shape[-1]:
            new.blocks = (*new.blocks, block)
        new._forget()
        return new

    def _forget(self) -> None:
        """Drop all that was derived from data and options, and how the last bounds were found."""
        self._cache = HyperparameterCache[_Solution]()
        self.status = None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Torch's, of what moves a module: observations move, too."""
        super()._apply(fn, recurse)
        self.blocks = tuple(map_tensors(block, fn) for block in self.blocks)
        self._forget()
        return self


class _Solution(NamedTuple):
    """A confidence set, and what its coordinates are.

    Attributes:
        confidence_set: The set in whitened coordinates.
        whitening: The root of the covariance of the items.
        nodes: The transformed items.
        deviation: The largest prior deviation of an item, jitter aside; 1 where there is none.
    """

    confidence_set: ConfidenceSet
    whitening: Whitening
    nodes: Tensor
    deviation: float


def _check_pairs(X: Tensor) -> None:
    if X.dim() < 2 or X.shape[-2] != 2:
        raise ComparisonDataError(f"`X` must be ... x 2 x d pairs, got {tuple(X.shape)}.")
