r"""What a model learns of answers beside the utility: of annotators, and bounds of grades."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import singledispatch
from typing import NamedTuple

import pandas as pd
import torch
from gpytorch import Module
from gpytorch.priors import NormalPrior
from torch import Size, Tensor
from torch.linalg import solve_triangular
from torch.nn import Parameter
from torch.nn.functional import pad

from botorch_pref.data.blocks import Block, BlockData
from botorch_pref.data.ordered import Grades, Ratings
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.kernels.items import Read, Write
from botorch_pref.likelihoods import (
    AnnotatedLikelihood,
    BernoulliLikelihood,
    IntervalLikelihood,
)

PEOPLE = "annotators"  # among what a model learns, all others by the argument of their data

# Standard deviations of people around what is typical, and of what is typical.
_OF_PEOPLE = {"reliability": 0.5, "offset": 0.5, "lapse": 1.0}
_TYPICAL_OFFSET = (0.0, 0.5)
_TYPICAL_LAPSE = (-4.0, 1.0)  # of its logit: of 1.8 %
_CURVATURE = 1.0 / 6.0  # that an answer adds to the evidence's, in an offset
_STEP = 2.0  # the root of the curvature in the logarithm of a lengthscale
_MOST_A_ANSWER = 100  # annotators, most of whom then say nothing
_OPEN = 1e9  # a bound where there is none, in units of the link
_GAP = (-0.2, 0.7)  # mean and standard deviation of the logarithm of a gap
_CENTRE = (0.0, 2.0)
_CENTRE_OF_PEOPLE, _GAP_OF_PEOPLE = 1.0, 0.3  # standard deviations around what is typical


class AnnotatorEffects(Module):
    r"""Reliability, offset of the first item and lapses of each annotator, with priors.

    The three of :class:`~botorch_pref.likelihoods.AnnotatedLikelihood`, of answers of every kind;
    a lapse in a ranking is in one of the choices that it is made of. The logarithm of the
    reliability of people is normal around 0, as the output scale of the kernel is the only scale of
    all; offsets and logits of lapses are normal around what is typical, which is learnt, too. So
    people of whom there are few answers are taken for typical ones, as are new ones.

    Args:
        number: The number ``A`` of annotators, who are 0 to ``A - 1``.
        batch_shape: That of the model's hyperparameters.

    Attributes:
        log_reliability: ``batch_shape x A``-dim logarithms of the reliabilities.
        offset: ``batch_shape x A``-dim, what offsets exceed the typical one by, in units of the
            link.
        logit_lapse: ``batch_shape x A``-dim, the same for the logits of lapses.
        typical_offset: ``batch_shape x 1``-dim.
        typical_logit_lapse: ``batch_shape x 1``-dim.
    """

    def __init__(self, number: int, batch_shape: Size) -> None:
        super().__init__()
        zero = torch.zeros(*batch_shape, number, dtype=torch.double)
        one = torch.zeros(*batch_shape, 1, dtype=torch.double)
        for name, prior in (("log_reliability", "reliability"), ("offset", "offset")):
            self._add(name, zero.clone(), 0.0, _OF_PEOPLE[prior])
        self._add("logit_lapse", zero.clone(), 0.0, _OF_PEOPLE["lapse"])
        self._add("typical_offset", one.clone(), *_TYPICAL_OFFSET)
        self._add("typical_logit_lapse", one + _TYPICAL_LAPSE[0], *_TYPICAL_LAPSE)

    def _add(self, name: str, value: Tensor, mean: float, deviation: float) -> None:
        self.register_parameter(name, Parameter(value))
        prior = NormalPrior(mean, deviation)
        self.register_prior(f"{name}_prior", prior, Read(name), Write(name))

    def values(self) -> People:
        """Those of the annotators, then of a typical one, and last of one without an offset."""
        zero = torch.zeros_like(self.typical_offset)
        log_reliability = torch.cat([self.log_reliability, zero, zero], dim=-1)
        offset = torch.cat([self.offset, zero], dim=-1) + self.typical_offset
        lapse = torch.cat([self.logit_lapse, zero, zero], dim=-1) + self.typical_logit_lapse
        return People(log_reliability.exp(), torch.cat([offset, zero], dim=-1), lapse.sigmoid())

    def moves(self, steps: Mapping[str, Tensor], count: Tensor) -> dict[str, Tensor]:
        """What parameters change by for steps in which the evidence is about equally curved.

        An answer adds about a sixth to the curvature in an offset, or in the logarithm of a
        reliability. People's offsets move against the typical one as far as their answers tell
        them, so that only the prior resists it.

        Args:
            steps: The steps of some parameters, by name; one has the effect of a step of the
                logarithm of a lengthscale, about.
            count: ``... x A``-dim numbers of answers of the annotators.
        """
        told = _CURVATURE * count
        share = told / (told + _OF_PEOPLE["offset"] ** -2)
        added = {
            "log_reliability": told,
            "offset": told,
            "typical_offset": share.sum(-1, keepdim=True) * _OF_PEOPLE["offset"] ** -2,
        }
        moves = {}
        for name, step in steps.items():
            prior = getattr(self, f"{name}_prior").scale ** -2
            moves[name] = _STEP * step * (prior + added.get(name, 0.0)) ** -0.5
        if {"offset", "typical_offset"} <= moves.keys():
            moves["offset"] = moves["offset"] - share * moves["typical_offset"]
        return moves

    def table(self, log_prob: Callable[[People], Tensor]) -> pd.DataFrame:
        """Values and standard errors of all annotators, and last of a typical one.

        Errors are by the curvature of the likelihood at given utilities and that of the priors;
        of the typical one they are the priors' standard deviations, of what a new one may be. NaN
        where the answers are no maximum.

        Args:
            log_prob: The log probability of all answers, of values as :meth:`values` has them.
        """
        reliability, offset, lapse = (value.detach()[:-1] for value in self.values())
        own = torch.stack([reliability.log(), offset, lapse.logit()], dim=-1).requires_grad_()
        with torch.enable_grad():
            log_reliability, place, logit = torch.cat([own, own[-1:]]).unbind(-1)
            total = log_prob(People(log_reliability.exp(), place, logit.sigmoid()))
            (slope,) = torch.autograd.grad(total, own, create_graph=True)
            # The answers of two annotators have nothing in common, so a sum over them is exact.
            columns = [torch.autograd.grad(s.sum(), own, retain_graph=True)[0] for s in slope.T]
        priors = own.new_tensor([*_OF_PEOPLE.values()]).square().reciprocal().diag()
        information = priors - torch.stack(columns, dim=-1)
        information[-1] = priors
        root, failed = torch.linalg.cholesky_ex(information)
        whitened = solve_triangular(root, torch.eye(3).to(root), upper=False)
        variance = whitened.square().sum(-2)
        variance[failed > 0] = torch.nan
        units = torch.stack([reliability, torch.ones_like(offset), lapse * (1.0 - lapse)], dim=-1)
        values = torch.stack([reliability, offset, lapse], dim=-1)
        both = torch.cat([values, variance.sqrt() * units], dim=-1)
        names = [*_OF_PEOPLE, *(f"{name}_error" for name in _OF_PEOPLE)]
        people = [*range(len(own) - 1), "typical"]
        return pd.DataFrame(both.cpu().numpy(), columns=names, index=pd.Index(people, name="who"))


class People(NamedTuple):
    """What annotators differ in: :class:`AnnotatorEffects` as numbers.

    Attributes:
        reliability: ``batch_shape x (A + 2)``-dim, as all; after the annotators comes a typical
            one, and last one without an offset.
        offset: Offsets of the first item.
        lapse: Probabilities of an answer by chance.
    """

    reliability: Tensor
    offset: Tensor
    lapse: Tensor

    def told(self, part: BlockData, block: Block) -> Block:
        """A block of some data, as its annotators answer, where there are any.

        New ones are typical. Of unknown ones the order is taken for unknown, too: no offset.
        """
        if part.annotator is None:
            return block
        index = self._index(part.annotator)
        reliability, offset, lapse = [_taken(value, index) for value in self]
        if part.shown_first is None:
            stands_first = torch.zeros_like(block.items, dtype=offset.dtype)
        else:
            stands_first = (block.items == part.shown_first.unsqueeze(-1)).to(offset)
        shift = offset.unsqueeze(-1) * (stands_first @ offset.new_tensor(block.design).mT)
        shift = shift.squeeze(-1) if block.latent_dim == 1 else shift
        number = getattr(part, "num_grades", max(block.latent_dim, 2))
        person = AnnotatedLikelihood(block.likelihood, reliability, shift, lapse, number)
        return replace(block, likelihood=person)

    def of_each(self, link: BernoulliLikelihood, annotator: Tensor) -> AnnotatedLikelihood:
        """That of ``...``-dim annotators, of which the last dimensions are the model's batch."""
        index = self._index(annotator).unsqueeze(-1)
        shape = annotator.shape
        reliability, offset, lapse = [
            value.expand(*shape, -1).gather(-1, index).squeeze(-1) for value in self
        ]
        return AnnotatedLikelihood(link, reliability, offset, lapse)

    def _index(self, annotator: Tensor) -> Tensor:
        number = self.reliability.shape[-1] - 2
        index = annotator.clamp_max(number)
        return torch.where(annotator < 0, number + 1, index)


class CutPoints(Module):
    r"""The bounds between adjoining grades, with priors.

    Gaps between bounds are log-normal. Symmetric bounds are those of differences: swapping both
    items turns the grades around. Others have a centre, and may differ between annotators, whose
    centres and logarithms of gaps are normal around what is typical.

    Args:
        num_grades: The number ``L`` of grades, at least 2.
        is_symmetric: Whether the bounds are those of differences.
        num_annotators: The number ``A`` of annotators who have bounds of their own.
        batch_shape: That of the model's hyperparameters.
    """

    def __init__(
        self, num_grades: int, is_symmetric: bool, num_annotators: int, batch_shape: Size
    ) -> None:
        super().__init__()
        self.num_grades, self.is_symmetric = num_grades, is_symmetric
        self.num_annotators = num_annotators
        gaps = (num_grades - 1) // 2 if is_symmetric else num_grades - 2
        self._add("log_gap", _GAP, *batch_shape, gaps)
        if not is_symmetric:
            self._add("centre", _CENTRE, *batch_shape, 1)
        if num_annotators:
            people = (*batch_shape, num_annotators)
            self._add("own_centre", (0.0, _CENTRE_OF_PEOPLE), *people, 1)
            self._add("own_log_gap", (0.0, _GAP_OF_PEOPLE), *people, gaps)

    def _add(self, name: str, prior: tuple[float, float], *shape: int) -> None:
        self.register_parameter(name, Parameter(torch.full(shape, prior[0], dtype=torch.double)))
        self.register_prior(f"{name}_prior", NormalPrior(*prior), Read(name), Write(name))

    def values(self) -> Tensor:
        """The ``batch_shape x (A + 1) x (L - 1)``-dim bounds; those of a typical person last."""
        log_gap = self.log_gap.unsqueeze(-2)
        if self.is_symmetric:
            upper = log_gap.exp().cumsum(-1)
            # An even number of grades has a bound at 0, an odd one a grade around it.
            middle = upper.new_zeros(*upper.shape[:-1], 1 - self.num_grades % 2)
            return torch.cat([-upper.flip(-1), middle, upper], dim=-1)
        centre = self.centre.unsqueeze(-2)
        if self.num_annotators:
            centre = centre + pad(self.own_centre, (0, 0, 0, 1))
            log_gap = log_gap + pad(self.own_log_gap, (0, 0, 0, 1))
        places = pad(log_gap.exp().cumsum(-1), (1, 0))
        return centre + places - places.mean(-1, keepdim=True)

    def likelihood(
        self, link: BernoulliLikelihood, grade: Tensor, annotator: Tensor | None = None
    ) -> IntervalLikelihood:
        """That of ``... x m`` grades, from 0, of as many annotators."""
        bounds = pad(pad(self.values(), (1, 0), value=-_OPEN), (0, 1), value=_OPEN)
        person = torch.zeros_like(grade)
        if annotator is not None:
            known = (annotator >= 0) & (annotator < self.num_annotators)
            person = torch.where(known, annotator, self.num_annotators)
        row = person * (self.num_grades + 1) + grade
        flat = bounds.flatten(-2)
        return IntervalLikelihood(link, _taken(flat, row), _taken(flat, row + 1))


@singledispatch
def learnt_of(data: BlockData, batch_shape: Size) -> Module | None:
    """What is learnt of the answers beside the utility, with priors; ``None`` where nothing is.

    A kind of answer of which something is registers a function of its class here; what that returns
    is handed to :meth:`~botorch_pref.data.BlockData.blocks`.

    Args:
        data: The answers.
        batch_shape: That of the model's hyperparameters.
    """
    return None


@learnt_of.register
def _(data: Grades, batch_shape: Size) -> CutPoints:
    return CutPoints(data.num_grades, True, 0, batch_shape)


@learnt_of.register
def _(data: Ratings, batch_shape: Size) -> CutPoints:
    number = 0 if data.annotator is None else _number(data.annotator)
    return CutPoints(data.num_grades, False, number, batch_shape)


def effects_of(parts: Iterable[BlockData], batch_shape: Size) -> AnnotatorEffects | None:
    """What is learnt of the annotators of all answers; ``None`` if none are given."""
    named = (part.annotator for part in parts)
    numbers = [_number(annotator) for annotator in named if annotator is not None]
    return AnnotatorEffects(max(numbers), batch_shape) if numbers else None


def _number(annotator: Tensor) -> int:
    number = int(annotator.amax()) + 1 if annotator.numel() else 0
    if number > _MOST_A_ANSWER * annotator.shape[-1]:
        raise ComparisonDataError(
            f"`annotator` goes up to {number - 1}, with {annotator.shape[-1]} answers: number the "
            "annotators from 0 on."
        )
    return number


def _taken(values: Tensor, index: Tensor) -> Tensor:
    """Entries of ``... x g`` at ``... x m`` indices."""
    if values.dim() == 1:
        return values[index]
    shape = torch.broadcast_shapes(values.shape[:-1], index.shape[:-1])
    return values.expand(*shape, -1).gather(-1, index.expand(*shape, -1))
