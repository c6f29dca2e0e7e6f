r"""Judged items and the confidence set of utilities, solved when it is needed."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import torch
from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Size, Tensor

from botorch_pref.data.checks import checked_positive, finite, refuse
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference import Block, Observations
from botorch_pref.likelihood_ratio import (
    ConfidenceSet,
    LikelihoodProgram,
    MaximumLikelihood,
    whiten,
)
from botorch_pref.likelihood_ratio.slack import SlackRule, slack_rule
from botorch_pref.models.cache import HyperparameterCache
from botorch_pref.models.fitting import default_covar_module
from botorch_pref.models.functionals import Functionals
from botorch_pref.models.judged_items import JudgedItems
from botorch_pref.models.judgement_blocks import merged
from botorch_pref.models.transforms import num_columns

_CUTOFF = 1e-12  # of the largest eigenvalue; with jitter, nothing is below


class Solution(NamedTuple):
    """A confidence set, and what points have to do with it."""

    confidence_set: ConfidenceSet
    functionals: Functionals
    value_bound: float


class ConfidenceModel(JudgedItems):
    r"""Judged items and the confidence set of utilities.

    Nothing is learnt: the program is solved once, and anew only where a hyperparameter of
    the kernel or an option has changed.

    Attributes:
        covar_module: The kernel.
        norm_bound: ``B``.
        slack_rule: The slack by the number of answers.
        box: The largest absolute utility, or None.
        jitter: What is added to the variance of a node.
        blocks: The judgements, in the order in which they came.
    """

    _solution: HyperparameterCache[Solution]

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
            blocks: Judgements that index the items; none at all leaves the whole ball.
            norm_bound: ``B``, in the norm of ``covar_module``.
            covar_module: The kernel, copied, without gradients; by default RBF with unit
                variance on the unit cube.
            slack: See :func:`~botorch_pref.likelihood_ratio.slack.slack_rule`; ``"sqrt"`` is
                the root of the number of answers.
            box: The largest absolute utility, at the items and of the values returned; None
                for no such bound.
            jitter: Added to the variance of each item.
            jitter_points: Whether points have it, too, and one equal to an item is that
                item, as Xu et al. (2024) have it; else points have none.
            input_transform: Applied where items meet the kernel; copied, without gradients.

        Raises:
            ComparisonDataError: If an option is out of range.
            UnsupportedError: If the kernel is batched.
        """
        default = default_covar_module(num_columns(items, input_transform), Size()).base_kernel
        # The set depends on hyperparameters in ways that the envelope theorem leaves out.
        kernel = copy.deepcopy(default if covar_module is None else covar_module)
        transform = copy.deepcopy(input_transform)
        super().__init__(items, blocks, kernel, transform)
        self.requires_grad_(False)
        if batch := tuple(kernel.batch_shape):
            raise UnsupportedError(f"`covar_module` must not be batched; its batch is {batch}.")
        self.norm_bound = checked_positive("norm_bound", norm_bound)
        self.slack_rule = slack_rule(slack)
        self.box = None if box is None else checked_positive("box", box)
        if not isinstance(jitter, int | float) or not 0.0 <= jitter < math.inf:
            raise ComparisonDataError(f"`jitter` must be finite and at least 0, not {jitter!r}.")
        self.jitter, self.jitter_points = float(jitter), jitter_points

    @property
    def slack(self) -> float:
        """What a function of the set may lack of the largest log likelihood."""
        return self._solved().confidence_set.slack

    @property
    def confidence_set(self) -> ConfidenceSet:
        """The set in whitened coordinates."""
        return self._solved().confidence_set

    @property
    def maximum_likelihood(self) -> MaximumLikelihood:
        """The most likely function of the ball, as coordinates, log likelihood, multiplier."""
        return self.confidence_set.mle

    @property
    def value_bound(self) -> float:
        """``kappa B``, what no utility of an item exceeds, jitter aside."""
        return self._solved().value_bound

    def functionals(self) -> Functionals:
        """Values and differences at points, as linear functions on the set."""
        return self._solved().functionals

    def with_norm_bound(self, norm_bound: float) -> Self:
        """The same with another bound on the norm."""
        new = copy.deepcopy(self)
        new.norm_bound = checked_positive("norm_bound", norm_bound)
        new.forget()
        return new

    def forget(self) -> None:
        """See the base class."""
        self._solution = HyperparameterCache()

    def _pairs(self, X: Tensor) -> Tensor:
        if X.dim() < 2 or X.shape[-2] != 2:
            raise ComparisonDataError(f"`X` must be ... x 2 x d pairs, got {tuple(X.shape)}.")
        return self.checked_inputs(X)

    def checked_inputs(self, X: Tensor) -> Tensor:
        """``... x d``-dim points, checked, as the kernel sees them."""
        if X.shape[-1:] != self.items.shape[-1:]:
            raise ComparisonDataError(
                f"`X` has {tuple(X.shape)[-1:]} columns, but the items have {self.items.shape[-1]}."
            )
        rows = X.reshape(-1, X.shape[-1])  # a transform takes no single item
        refuse(finite("X", rows))
        found = self.transform_rows(rows)
        return found.view(*X.shape[:-1], found.shape[-1])

    def _within_box(self, value: Tensor) -> Tensor:
        return value if self.box is None else value.clamp(-self.box, self.box)

    def _solved(self) -> Solution:
        modules = (self.covar_module, getattr(self, "input_transform", None))
        with torch.no_grad():
            options = (self.norm_bound, self.slack_rule, self.box, self.jitter, self.jitter_points)
            return self._solution.get(modules, options, self.items, self._solve)

    def _solve(self) -> Solution:
        nodes = self.transformed_items()
        covariance = to_dense(self.covar_module(nodes)).double()
        kappa = float(covariance.diagonal().amax().sqrt()) if len(nodes) else 1.0
        covariance = covariance + self.jitter * torch.eye(len(nodes)).to(covariance)
        whitening = whiten(covariance, cutoff=_CUTOFF)
        observations = None
        if self.blocks:
            observations = Observations(merged(self.blocks, len(nodes)), len(nodes))
        program = LikelihoodProgram(
            whitening.root, observations, norm_bound=self.norm_bound, box=self.box
        )
        slack = self.slack_rule(self.num_answers, kappa * self.norm_bound)
        found = ConfidenceSet(program, slack if observations is not None else math.inf)
        functionals = Functionals(
            self.covar_module, self.items, nodes, whitening, self.jitter, self.jitter_points
        )
        return Solution(found, functionals, kappa * self.norm_bound)
