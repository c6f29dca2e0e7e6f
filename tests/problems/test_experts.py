import pickle
from collections.abc import Callable
from functools import partial

import pytest
import torch

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import Expert, ItemError, LogisticJudge, SyntheticExpert
from botorch_pref.queries import Choice, Duel, Evaluate, Label
from experiments.problems import AccuracySchedule, ExpertBenchmark, MVNExpert, TimeVaryingExpert

FACTORIES: dict[str, Callable[..., Expert]] = {
    "synthetic": SyntheticExpert,
    "mvn": partial(MVNExpert, mean="weak", covariance=0.2),
    "timevarying": partial(TimeVaryingExpert, schedule=AccuracySchedule(0.3)),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_labels_have_the_right_frequency(name: str) -> None:
    problem = ExpertBenchmark("holder2")
    expert = FACTORIES[name](problem, seed=4)
    item = torch.tensor([0.78, 0.93], dtype=torch.double)
    for t in range(-3, 0):
        expert(Evaluate(0, item), t)
    probability = float(expert.probability(item))
    assert 0.05 < probability < 0.95
    runs = 4000
    answers = [expert(Label(0, item), t) for t in range(runs)]
    assert {*answers} == {0.0, 1.0}
    share = sum(answer == 1.0 for answer in answers) / runs
    assert abs(share - probability) < 4.0 * (probability * (1.0 - probability) / runs) ** 0.5


@pytest.mark.parametrize("name", FACTORIES)
def test_answers_follow_from_seed_step_and_annotator(name: str) -> None:
    problem = ExpertBenchmark("holder2")
    item = torch.tensor([0.78, 0.93])
    state = torch.get_rng_state()

    def answers(seed: int, annotator: str | None = None) -> list[float | None]:
        expert = FACTORIES[name](problem, seed=seed, value_noise=0.5, absence=0.3)
        queries = (Evaluate(0, item, None, annotator), Label(1, item, None, annotator))
        return [expert(query, t) for t in range(40) for query in queries]

    first = answers(1)
    assert answers(1) == first
    assert {*first[1::2]} == {None, 0.0, 1.0}
    assert first not in (answers(2), answers(1, "ann"))
    assert torch.equal(torch.get_rng_state(), state)
    expert = FACTORIES[name](problem, seed=1, value_noise=0.5, absence=0.3)
    twin = pickle.loads(pickle.dumps(expert))
    assert [twin(Label(0, item), t) for t in range(40)] == [
        expert(Label(0, item), t) for t in range(40)
    ]


@pytest.mark.parametrize("name", FACTORIES)
def test_values_are_those_of_the_judge(name: str) -> None:
    problem = ExpertBenchmark("holder2")
    query = Evaluate(0, torch.tensor([0.3, 0.6], dtype=torch.double))
    expert = FACTORIES[name](problem, seed=5)
    assert [expert(query, t) for t in range(3)] == [float(problem(query.items))] * 3
    noisy = FACTORIES[name](problem, seed=5, value_noise=2.0, absence=1.0)
    judge = LogisticJudge(problem, seed=5, value_noise=2.0)
    assert [noisy(query, t) for t in range(50)] == [judge(query, t) for t in range(50)]


def test_absence() -> None:
    problem = ExpertBenchmark("holder2")
    query = Label(0, torch.tensor([0.78, 0.93]))
    runs = 3000
    always = [SyntheticExpert(problem, seed=1)(query, t) for t in range(runs)]
    expert = SyntheticExpert(problem, seed=1, absence=0.25)
    answers = [expert(query, t) for t in range(runs)]
    missing = sum(answer is None for answer in answers)
    assert abs(missing / runs - 0.25) < 4.0 * (0.25 * 0.75 / runs) ** 0.5
    # What is answered is answered as ever, and by chance.
    assert all(a in (None, b) for a, b in zip(answers, always, strict=True))
    answered = [b for a, b in zip(answers, always, strict=True) if a is not None]
    shares = [sum(map(bool, some)) / len(some) for some in (answered, always)]
    assert shares[0] == pytest.approx(shares[1], abs=0.03)
    silent = SyntheticExpert(problem, absence=1.0)
    assert {silent(query, t) for t in range(50)} == {None}


@pytest.mark.parametrize("name", FACTORIES)
def test_bad_items_and_queries(name: str) -> None:
    expert = FACTORIES[name](ExpertBenchmark("holder2"))
    with pytest.raises(ItemError, match=r"`items` to have shape .* x 2`, got \(4, 3\)"):
        expert.probability(torch.zeros(4, 3))
    with pytest.raises(ItemError, match=r"`items` to be within the bounds.*\n?.*Row \[1\]"):
        expert.probability(torch.tensor([[0.5, 0.5], [0.5, 1.5]]))
    with pytest.raises(ItemError, match="x 2`, got"):
        expert(Label(0, torch.zeros(3)), 1)
    with pytest.raises(ItemError, match="within the bounds"):
        expert(Label(0, torch.full((2,), 2.0)), 1)
    with pytest.raises(UnsupportedError, match="labels and evaluations, not Choice"):
        expert(Choice(0, torch.zeros(2, 2)), 1)
    if name == "mvn":
        with pytest.raises(UnsupportedError, match="labels and evaluations, not Duel"):
            expert(Duel(0, torch.zeros(2, 2)), 1)


@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"absence": 1.5}, "absence must be a probability, got 1.5"),
        ({"absence": float("nan")}, "absence must be a probability"),
        ({"value_noise": -1.0}, "value_noise must be a finite number"),
    ],
)
def test_bad_options_of_all(name: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        FACTORIES[name](ExpertBenchmark("holder2"), **options)


@pytest.mark.parametrize("accuracy", [0.5, -0.2])
def test_duels_are_judged_by_the_difference(accuracy: float) -> None:
    """A duel that is not answered is ``None``."""
    problem, items = ExpertBenchmark("holder2"), torch.tensor([[0.78, 0.93], [0.4, 0.9]])
    expert = SyntheticExpert(problem, accuracy, seed=2)
    logits = accuracy * expert.rho(problem(items.double()))
    expected = float(torch.sigmoid(logits[0] - logits[1]))
    assert 0.02 < expected < 0.98
    runs = 1500
    share = sum(expert(Duel(0, items), t) == 1.0 for t in range(runs)) / runs
    assert abs(share - expected) < 4.0 * (expected * (1.0 - expected) / runs) ** 0.5
    assert SyntheticExpert(problem, absence=1.0)(Duel(0, items), 1) is None
