r"""BoTorch's own ways to ask duels: ``PairwiseGP``, and EUBO of both items by ``optimize_acqf``."""

from __future__ import annotations

import warnings

import torch
from botorch.acquisition import AcquisitionFunction, PosteriorMean
from botorch.acquisition.preference import (
    AnalyticExpectedUtilityOfBestOption,
    qExpectedUtilityOfBestOption,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import Normalize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

from botorch_pref.inference.finite import argmax_with_random_ties
from botorch_pref.queries import Duel, Query
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.utility import better_of_two

_RAW_SAMPLES, _RESTARTS, _SAMPLES = 128, 4, 64


class PairwiseEUBO:
    r"""``PairwiseGP`` of items in the unit cube, refitted for every duel; the first is random.

    EUBO of all pairs of choices is of their joint posterior, as one model call for each pair takes
    minutes; recommendations are of the largest posterior mean in the whole space.

    Args:
        space: A box of real numbers, or choices.
        seed: The seed of all draws.
    """

    def __init__(self, space: SearchSpace, seed: int = 0) -> None:
        self.space, self.seed = space, seed
        self.items = space.bounds[:0]
        self.comparisons: list[list[int]] = []
        self.num_asked = 0
        self._model: PairwiseGP | None = None

    def ask(self) -> Query:
        """The next duel."""
        self.num_asked += 1
        seed = derive_seed(self.seed, "pair", self.num_asked)
        if not self.comparisons:
            if self.space.choices is None:
                return Duel(self.num_asked, self.space.sample(2, seed))
            rows = tuple(self.space.sample_rows(2, seed).tolist())
            return Duel(self.num_asked, self.space.table[list(rows)], rows)
        if self.space.choices is not None:
            rows = self._best_rows(seed)
            return Duel(self.num_asked, self.space.table[list(rows)], rows)
        return Duel(self.num_asked, *self._best(self._rule(self.fitted(), seed), 2, seed))

    def tell(self, query: Query, answer: float) -> None:
        """Learn an answer."""
        first = len(self.items)
        self.items = torch.cat([self.items, query.items])
        self.comparisons.append([first, first + 1] if answer > 0.5 else [first + 1, first])
        self._model = None

    def recommend(self) -> Tensor:
        """The item of the largest posterior mean."""
        return self._recommended()[0]

    def recommend_index(self) -> int:
        """Its row in the choices."""
        rows = self._recommended()[1]
        assert rows is not None
        return rows[0]

    def fitted(self) -> PairwiseGP:
        """The model of all answers; its start where BoTorch's fit fails."""
        if self._model is None:
            transform = Normalize(self.space.dim, bounds=self.space.bounds)
            data = (self.items, torch.tensor(self.comparisons))
            self._model = PairwiseGP(*data, input_transform=transform)
            mll = PairwiseLaplaceMarginalLogLikelihood(self._model.likelihood, self._model)
            seed = derive_seed(self.seed, "fit", len(self.comparisons))
            with seeded(seed), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    fit_gpytorch_mll(mll)
                except Exception:
                    self._model = PairwiseGP(*data, input_transform=transform)
        return self._model

    def _rule(self, model: PairwiseGP, seed: int) -> AcquisitionFunction:
        return AnalyticExpectedUtilityOfBestOption(pref_model=model)

    def _best_rows(self, seed: int) -> tuple[int, ...]:
        """The choices whose better one is expected to be best, ties broken at random."""
        model, number = self.fitted(), len(self.space.table)
        with torch.no_grad():
            found = model.posterior(self.space.table)
        either = better_of_two(found.mean.squeeze(-1), found.mvn.covariance_matrix)
        pairs = torch.triu_indices(number, number, 1).T
        values = either[pairs[:, 0], pairs[:, 1]]
        noise = torch.rand(len(values), generator=torch.Generator().manual_seed(seed)).to(values)
        return tuple(pairs[argmax_with_random_ties(values, noise)].tolist())

    def _recommended(self) -> tuple[Tensor, tuple[int, ...] | None]:
        seed = derive_seed(self.seed, "recommend", len(self.comparisons))
        items, rows = self._best(PosteriorMean(self.fitted()), 1, seed)
        return items[0], rows

    def _best(
        self, rule: AcquisitionFunction, q: int, seed: int
    ) -> tuple[Tensor, tuple[int, ...] | None]:
        with seeded(seed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.space.choices is not None:
                found = self.space.maximize(rule, q=q, seed=seed)
                return found.items, found.indices
            options = {"num_restarts": _RESTARTS, "raw_samples": _RAW_SAMPLES}
            items, _ = optimize_acqf(rule, self.space.bounds, q=q, **options)
        return items, None


class PairwiseQEUBO(PairwiseEUBO):
    r"""The same, on boxes with qEUBO, which averages over draws (Astudillo et al. 2023)."""

    def _rule(self, model: PairwiseGP, seed: int) -> AcquisitionFunction:
        sampler = SobolQMCNormalSampler(torch.Size([_SAMPLES]), seed=seed % 2**31)
        return qExpectedUtilityOfBestOption(pref_model=model, sampler=sampler)
