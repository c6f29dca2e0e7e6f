r"""Base classes of the rules, which register them with BoTorch's input constructors."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, cast

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import (
    ACQF_INPUT_CONSTRUCTOR_REGISTRY,
    allow_only_specific_variable_kwargs,
)
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from botorch_pref.acquisition.utils import ConfidenceSetModel, given_items
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError

# How many quasi-random items of a box are added to a model's, for a table that is not given.
_TABLES = {"followers": 128, "reference": 64}


class _Rule(AcquisitionFunction):
    """A rule without pending points; ``pending_hint`` names the alternative for its error.

    Every subclass is registered with BoTorch's input constructors, with the arguments of its own
    constructor: ``cls(**get_acqf_input_constructor(cls)(model=model, ...))`` is the rule for a
    fitted ``model``, which is the first argument. Of the others those without a default may be
    left out where :func:`_derived` knows one. As everywhere in that registry, ``training_data``,
    ``objective``, ``posterior_transform`` and their like may be given and are ignored.
    """

    pending_hint: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        parameters = {
            name: parameter
            for name, parameter in inspect.signature(cls).parameters.items()
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }

        def construct(model: Model, X_pending: Tensor | None = None, **given: Any) -> Any:
            if X_pending is not None:
                raise UnsupportedError(f"{cls.__name__} {cls.pending_hint}")
            first, *others = parameters
            bounds = given.pop("bounds", None)
            for name in others:
                if name not in given and parameters[name].default is inspect.Parameter.empty:
                    given[name] = _derived(name, model, bounds)
            return {first: model, **given}

        construct.__name__ = cls.__name__
        known = dict.fromkeys(["model", "X_pending", "bounds", *list(parameters)[1:]])
        keyword = inspect.Parameter.KEYWORD_ONLY
        signature = inspect.Signature([inspect.Parameter(name, keyword) for name in known])
        construct.__signature__ = signature  # type: ignore[attr-defined]
        ACQF_INPUT_CONSTRUCTOR_REGISTRY[cls] = allow_only_specific_variable_kwargs(construct)

    @property  # type: ignore[override]
    def X_pending(self) -> Tensor | None:
        """Always ``None``."""
        return None

    @X_pending.setter
    def X_pending(self, value: Tensor | None) -> None:
        self.set_X_pending(value)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Refuse pending points.

        Raises:
            UnsupportedError: If ``X_pending`` is not ``None``.
        """
        if X_pending is not None:
            raise UnsupportedError(f"{type(self).__name__} {self.pending_hint}")


class PairAcquisitionFunction(_Rule):
    r"""A rule whose value belongs to a pair, ``b x 2 x d``, maximised with ``q=2``.

    The two items of a pair are one query, so BoTorch's pending *points* do not apply;
    pending *pairs* reach a rule through :class:`~botorch_pref.acquisition.PairAsPoint`.
    """

    pending_hint = (
        "chooses pairs and has no pending points. Wrap it in PairAsPoint, under which a "
        "pending point is a pending pair."
    )

    def __call__(self, X: Tensor) -> Tensor:
        r"""The values of ``b x 2 x d``-dim pairs, ``b``-dim.

        Raises:
            UnsupportedError: If ``X`` has another number of items.
        """
        if X.dim() >= 2 and X.shape[-2] != 2:
            raise UnsupportedError(
                f"{type(self).__name__} chooses one pair at a time (q=2), but X has q="
                f"{X.shape[-2]} items. For several pairs at a time wrap it in PairAsPoint, "
                "under which a pair is one point of 2d columns, and use sequential=True."
            )
        value: Tensor = super().__call__(X)
        return value

    @abstractmethod
    def set_pending_pairs(self, pairs: Tensor | None) -> None:
        r"""Take ``k x 2 x d``-dim pairs that are asked but not answered into account.

        Raises:
            UnsupportedError: If the rule needs the model conditioned on them, and cannot have that.
        """

    def model_after(self, pairs: Tensor | None, answers: Callable[[Tensor], Tensor]) -> Model:
        r"""The model after pending pairs, less those of an item and itself.

        Args:
            pairs: ``k x 2 x d``-dim pairs, or ``None`` for none.
            answers: Maps ``m x 2 x d``-dim pairs to ``m``-dim answers.

        Raises:
            UnsupportedError: If the model has no ``condition_on_pairs``.
        """
        if pairs is None:
            return self.model
        if not hasattr(self.model, "condition_on_pairs"):
            raise UnsupportedError(
                f"{type(self.model).__name__} has no condition_on_pairs, so {type(self).__name__} "
                "cannot take pending pairs into account; use PreferenceGP, or choose one pair at a "
                "time."
            )
        distinct = pairs[(pairs[:, 0] != pairs[:, 1]).any(dim=-1)]
        if not len(distinct):
            return self.model
        return cast(Any, self.model).condition_on_pairs(distinct, answers(distinct))


class ItemAcquisitionFunction(_Rule):
    r"""A rule whose value belongs to a single item, ``b x 1 x d``, maximised with ``q=1``.

    A pending query may be a duel, of which an item is one half, so pending points do not apply
    here either.
    """

    pending_hint = (
        "chooses one item at a time and has no pending points. Build the rule on models that "
        "are conditioned on what is pending, for instance by condition_on_pairs."
    )


def _derived(argument: str, model: Model, bounds: Any) -> Any:
    """An argument without a default that is not given to an input constructor.

    ``followers`` and ``reference`` are the model's items, and a Sobol sample of the box if there
    are ``bounds``; ``x_ref`` is the best item by the posterior mean, or the most likely utility.
    """
    if argument == "beta":
        return 1.0
    if argument not in ("x_ref", *_TABLES):
        raise ComparisonDataError(f"Give `{argument}`.")
    items = given_items(model).detach()
    if items.dim() != 2:
        raise UnsupportedError("The items of a batched model are no one table; name the items.")
    if argument in _TABLES and bounds is not None:
        box = torch.as_tensor(bounds, dtype=items.dtype, device=items.device).mT
        columns = items.shape[-1] if len(items) else box.shape[-1]
        if box.shape != (2, columns) or not bool((box[0] < box[1]).all()):
            raise ComparisonDataError(
                "`bounds` must be d pairs (lower, upper) with lower < upper, got "
                f"{torch.as_tensor(bounds).tolist()}."
            )
        sample = draw_sobol_samples(box, n=_TABLES[argument], q=1, seed=0).squeeze(-2)
        return torch.cat([items, sample]) if len(items) else sample
    if not len(items):
        hint = f"`{argument}` or `bounds`" if argument in _TABLES else f"`{argument}`"
        raise ComparisonDataError(f"Give {hint}: the model has no items.")
    if argument in _TABLES:
        return items
    with torch.no_grad():
        if isinstance(model, ConfidenceSetModel):
            return items[model.mle(items).argmax()]
        posterior = cast(GPyTorchPosterior, model.posterior(items))
        return items[posterior.mean.squeeze(-1).argmax()]
