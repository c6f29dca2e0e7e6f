r"""The base of both knowledge gradients: joint moments of the items asked and of the candidates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from torch import Tensor

from botorch_pref.data.checks import check_count
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError

REPEATS = (1, 2, 4, 8, 16)
NO_VARIANCE = 1e-16  # of an item or a difference: below it, an answer has no effect
_CHUNK = 256  # rows of a joint posterior beside the reference

Project = Callable[[Tensor], Tensor]


class Moments(NamedTuple):
    r"""The joint posterior of ``q`` items that are asked, and of ``M + q`` candidates for the best.

    Attributes:
        mean: ``b x (M + q)``-dim means of the latter, the reference first.
        asked_mean: ``b x q``-dim means of the former.
        asked: ``b x q x q``-dim covariance of the former.
        cross: ``b x (M + q) x q``-dim covariance of both.
    """

    mean: Tensor
    asked_mean: Tensor
    asked: Tensor
    cross: Tensor


class KnowledgeGradient(AcquisitionFunction):
    r"""Expected growth of the largest posterior mean, per answer, at the best number of answers.

    ``max_n gain(n) / n``, with ``gain(n) = E[max_j E[f_j | n answers]] - max_j E[f_j]`` over a
    table of items ``j`` and those that are asked. One answer may have no value where it takes
    several to change which item is best: the KG(*) policy of Frazier and Powell, *Paradoxes in
    Learning and the Marginal Value of Information* (2010). The unit is that of the utility, for
    values and duels alike, so that the query with the larger gain per cost is the better one.
    """

    reference: Tensor

    def __init__(
        self,
        model: Model,
        reference: Tensor,
        *,
        project: Project | None = None,
        repeats: Sequence[int] = REPEATS,
    ) -> None:
        r"""Set the candidates for the best item.

        Args:
            model: A model of the utility with a Gaussian joint ``posterior`` and one output.
            reference: ``M x d``-dim items among which the best is sought, such as maximisers
                of draws from the posterior; as ``project`` returns items.
            project: Maps ``... x d``-dim items as they are asked to the same items as their
                utility counts; see :class:`~botorch_pref.kernels.ComparisonBiasKernel`. By
                default these are the same.
            repeats: The numbers of answers that are tried.

        Raises:
            ComparisonDataError: If ``reference`` is no table or ``repeats`` are no counts.
            UnsupportedError: If the model is batched, or has several outputs.
        """
        super().__init__(model=model)
        if model.num_outputs != 1 or len(model.batch_shape):
            raise UnsupportedError("`model` must have one output and no batch shape.")
        if reference.dim() != 2 or not len(reference):
            raise ComparisonDataError(
                f"`reference` must be M x d with M at least 1, got {tuple(reference.shape)}."
            )
        if not repeats:
            raise ComparisonDataError("`repeats` must not be empty.")
        for number in repeats:
            check_count("repeats", number, 1)
        self.conditioned = model  # on what is pending
        self.project = project
        self.repeats = tuple(repeats)
        self.register_buffer("reference", reference.detach().clone())

    @abstractmethod
    def _gains(self, X: Tensor, moments: Moments) -> list[Tensor]:
        """The ``b``-dim gain of so many answers, one for each of ``repeats``."""

    def per_answer(self, X: Tensor) -> Tensor:
        r"""The gain per answer.

        Args:
            X: ``... x q x d``-dim items that are asked together.

        Returns:
            ``...``-dim gains, in units of the utility.
        """
        flat = X.reshape(-1, *X.shape[-2:])
        parts = flat.split(max(1, _CHUNK // (2 * X.shape[-2])))
        return torch.cat([self._part(part) for part in parts]).view(X.shape[:-2])

    def _part(self, X: Tensor) -> Tensor:
        if not len(X):
            return X.new_zeros(0)
        gains = self._gains(X, self._moments(X))
        each = [gain / number for gain, number in zip(gains, self.repeats, strict=True)]
        return torch.stack(each).amax(0)

    def _moments(self, X: Tensor) -> Moments:
        """Moments of a batch from one joint posterior of all its items and the reference."""
        b, q, _ = X.shape
        asked = X.flatten(end_dim=1)
        own = asked[:0] if self.project is None else self.project(asked)
        parts = [asked, own, self.reference.to(asked)]
        joint = cast(GPyTorchPosterior, self.conditioned.posterior(torch.cat(parts)))
        sizes = [len(part) for part in parts]
        mean, own_mean, reference_mean = joint.mean.squeeze(-1).split(sizes)
        covariance, own_covariance, reference = joint.covariance_matrix[:, : b * q].split(sizes)
        if self.project is None:
            own_mean, own_covariance = mean, covariance
        reference = reference.view(-1, b, q).movedim(1, 0)
        return Moments(
            torch.cat([reference_mean.expand(b, -1), own_mean.view(b, q)], dim=-1),
            mean.view(b, q),
            _diagonal_blocks(covariance, b, q),
            torch.cat([reference, _diagonal_blocks(own_covariance, b, q)], dim=-2),
        )


def relative_to_best(intercepts: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
    r"""Lines minus the line with the largest intercept: no gain is lost, and no digits."""
    best = intercepts.argmax(dim=-1, keepdim=True)
    return intercepts - intercepts.gather(-1, best), slopes - slopes.gather(-1, best)


def _diagonal_blocks(covariance: Tensor, b: int, q: int) -> Tensor:
    """The ``b x q x q`` blocks on the diagonal of a ``bq x bq`` matrix."""
    return covariance.view(b, q, b, q).diagonal(dim1=0, dim2=2).movedim(-1, 0)
