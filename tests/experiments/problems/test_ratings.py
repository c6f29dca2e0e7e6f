import copy
import pickle

import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.problems import ItemError
from experiments.problems import Ratings, RatingsTable


def test_facts() -> None:
    problem = Ratings()
    assert problem.name == "ratings"
    assert problem.user == 0
    assert problem.dim == 32
    assert problem.bounds.tolist() == [[-1.0] * 32, [1.0] * 32]
    assert problem.choices.shape == (275, 32)
    assert problem.choices.dtype == problem.utilities.dtype == problem.ratings.dtype == torch.double
    norms = problem.choices.norm(dim=-1)
    assert torch.allclose(norms, torch.ones_like(norms), atol=1e-14)
    assert torch.equal(problem(problem.choices), problem.utilities)


@pytest.mark.parametrize("user", range(20))
def test_ratings_of_every_user(user: int) -> None:
    problem = Ratings(user=user)
    ratings, utilities = problem.ratings, problem.utilities
    assert ratings.min() >= 1.0
    assert ratings.max() <= 5.0
    assert ratings.mean().item() == pytest.approx(3.3, abs=0.02)
    assert ratings.std().item() == pytest.approx(0.65, abs=0.02)
    assert (utilities.min().item(), utilities.max().item()) == (-3.0, 3.0)
    width = ratings.max() - ratings.min()
    expected = 6.0 * (ratings - ratings.min()) / width - 3.0
    assert torch.allclose(utilities, expected, atol=1e-13)
    assert (utilities == problem.optimal_value).sum() <= 3  # few are clipped
    assert torch.equal(problem.choices, Ratings().choices)  # all rate the same items


def test_reference_values() -> None:
    # Of torch's own generator: a change here changes every published figure on this problem.
    problem = Ratings()
    assert problem.choices[0, :3].tolist() == pytest.approx(
        [0.1237798513, 0.2027701561, 0.1286103232], abs=1e-9
    )
    assert problem.ratings[:3].tolist() == pytest.approx(
        [3.601431858, 2.431506927, 3.346694018], abs=1e-8
    )
    assert problem.utilities[:3].tolist() == pytest.approx(
        [0.857767536, -1.094749167, 0.432629243], abs=1e-8
    )
    assert int(problem.utilities.argmax()) == 242
    assert problem.median_distance() == pytest.approx(0.8687462117, abs=1e-9)


def test_seeds_users_and_generator() -> None:
    state = torch.get_rng_state()
    problem = Ratings(user=3, seed=5)
    assert torch.equal(problem.utilities, Ratings(user=3, seed=5).utilities)
    assert not torch.allclose(problem.utilities, Ratings(user=4, seed=5).utilities)
    assert not torch.allclose(problem.choices, Ratings(user=3, seed=6).choices)
    assert torch.equal(torch.get_rng_state(), state)
    for twin in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert torch.equal(twin.utilities, problem.utilities)
        assert torch.equal(twin.ratings, problem.ratings)


def test_sizes() -> None:
    small = Ratings(user=1, num_items=12, num_users=2, dim=3)
    assert small.choices.shape == (12, 3)
    assert small.utilities.max() == 3.0


def test_clusters() -> None:
    problem = Ratings()
    near = torch.cdist(problem.choices, problem.choices) < 0.55 * problem.median_distance()
    # The connected components of close items are the 12 clusters.
    label = torch.arange(275)
    for first, second in near.nonzero().tolist():
        label[label == label[second]] = label[first].item()
    counts = label.unique(return_counts=True)[1]
    assert len(counts) == 12
    assert counts.min() >= 10


@pytest.mark.parametrize("user", [0, 7, 19])
def test_embedding_tells_about_the_ratings(user: int) -> None:
    problem = Ratings(user=user)
    known, unknown = slice(0, 90), slice(90, None)
    centre = problem.utilities[known].mean()

    def correlation(lengthscale: float) -> float:
        model = GaussianProcessRegressor(RBF(lengthscale, "fixed"), alpha=0.05)
        model.fit(problem.choices[known].numpy(), (problem.utilities[known] - centre).numpy())
        predicted = torch.as_tensor(model.predict(problem.choices[unknown].numpy()))
        both = torch.stack([predicted, problem.utilities[unknown]])
        return torch.corrcoef(both)[0, 1].item()

    assert correlation(problem.median_distance()) > 0.65
    assert correlation(0.1) < 0.5  # as the docstring warns


def test_users_agree_in_part() -> None:
    ratings = torch.stack([Ratings(user=user).ratings for user in range(20)])
    between = torch.corrcoef(ratings)[~torch.eye(20, dtype=torch.bool)]
    assert 0.3 < between.mean() < 0.7
    assert between.min() < 0.1


EMBEDDINGS = torch.tensor([[0.6, 0.8], [1.0, 0.0], [0.0, -1.0], [0.8, 0.6]], dtype=torch.double)


@pytest.mark.parametrize("dtype", [torch.long, torch.float, torch.double])
def test_own_table(dtype: torch.dtype) -> None:
    ratings = torch.tensor([4, 1, 3, 5], dtype=dtype)
    for problem in (Ratings.from_table(EMBEDDINGS, ratings), RatingsTable(EMBEDDINGS, ratings)):
        assert torch.equal(problem.choices, EMBEDDINGS)
        assert problem.bounds.tolist() == [[-1.0] * 2, [1.0] * 2]
        assert problem.ratings.tolist() == [4.0, 1.0, 3.0, 5.0]
        assert problem.utilities.tolist() == [1.5, -3.0, 0.0, 3.0]
        assert problem(EMBEDDINGS[[3, 1]]).tolist() == [3.0, -3.0]
        distances = sorted(
            (EMBEDDINGS[i] - EMBEDDINGS[j]).norm().item() for i in range(4) for j in range(i)
        )
        assert problem.median_distance() == pytest.approx(distances[2])


def test_own_table_off_the_sphere() -> None:
    problem = Ratings.from_table(-3.0 * EMBEDDINGS.float(), torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert problem.bounds.tolist() == [[-3.0] * 2, [3.0] * 2]
    assert problem.choices.dtype == problem.utilities.dtype == torch.double
    with pytest.raises(ItemError, match=r"X is not a rated item in row \[0\]"):
        problem(torch.zeros(1, 2, dtype=torch.double))


NAN = float("nan")
RATINGS = torch.tensor([4.0, 1.0, 3.0, 5.0])


@pytest.mark.parametrize(
    ("embeddings", "ratings", "message"),
    [
        (EMBEDDINGS[0], RATINGS[:2], "embeddings must be a non-empty n x d"),
        (EMBEDDINGS[:0], RATINGS[:0], "embeddings must be a non-empty n x d"),
        (EMBEDDINGS.long(), RATINGS, "embeddings must be .* floating-point .* torch.int64"),
        (EMBEDDINGS, RATINGS[:3], r"ratings must be 4 numbers.* \(3,\)"),
        (EMBEDDINGS, RATINGS.unsqueeze(-1), r"ratings must be 4 numbers.* \(4, 1\)"),
        (EMBEDDINGS, RATINGS.bool(), r"ratings must be 4 numbers.* torch.bool"),
        (EMBEDDINGS, RATINGS.to(torch.cfloat), r"ratings must be 4 numbers.* torch.complex64"),
        (EMBEDDINGS, torch.tensor([4.0, 1.0, NAN, 5.0]), "ratings is not finite in row 2"),
        (EMBEDDINGS * torch.tensor([[1.0], [NAN], [1.0], [1.0]]), RATINGS, "embeddings .* row 1"),
        (EMBEDDINGS, torch.full((4,), 2.0), "ratings must differ, got 2 throughout"),
    ],
)
def test_bad_tables(embeddings: Tensor, ratings: Tensor, message: str) -> None:
    with pytest.raises(SearchSpaceError, match=message):
        Ratings.from_table(embeddings, ratings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user": -1}, r"user must lie in \[0, 20\), got -1"),
        ({"user": 20}, r"user must lie in \[0, 20\), got 20"),
        ({"user": 2, "num_users": 2}, r"user must lie in \[0, 2\), got 2"),
        ({"num_items": 1}, "num_items must be at least 2, got 1"),
        ({"num_users": 0}, "num_users must be at least 1, got 0"),
        ({"dim": 1}, "dim must be at least 2, got 1"),
    ],
)
def test_bad_options(options: dict[str, int], message: str) -> None:
    with pytest.raises(SearchSpaceError, match=message):
        Ratings(**options)
