import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref.randomness import derive_seed, derive_uniform, seeded

STREAMS = ("pair", "tie", "label", "optimizer")


def draw() -> tuple[list[float], list[float], float]:
    """One draw from each global generator."""
    numpy_draw = np.random.rand(3).tolist()  # noqa: NPY002
    return torch.rand(3).tolist(), numpy_draw, random.random()


def test_seeds_are_the_same_everywhere() -> None:
    # Pinned: a saved study resumes to the identical next query in any later version.
    assert derive_seed(0, "pair", 1) == 4760229690358552845
    assert derive_seed(0, "pair", 1, "ann") == 3614721434695478306


def test_seeds_differ_in_every_argument() -> None:
    seeds = [
        derive_seed(seed, stream, step, annotator)
        for seed in range(3)
        for stream in STREAMS
        for step in range(20)
        for annotator in (None, "", "None", "ann")
    ]
    assert len(set(seeds)) == len(seeds)


@given(st.integers(-(2**70), 2**70), st.text(), st.integers(0), st.none() | st.text())
def test_ranges(seed: int, stream: str, step: int, annotator: str | None) -> None:
    assert 0 <= derive_seed(seed, stream, step, annotator) < 2**63
    assert 0.0 <= derive_uniform(seed, stream, step, annotator) < 1.0


@pytest.mark.parametrize(("seed", "step"), [(0.5, 1), (0, 1.0), ("0", 1)])
def test_only_whole_numbers(seed: int, step: int) -> None:
    with pytest.raises(TypeError):
        derive_seed(seed, "pair", step)


def test_uniform_is_uniform() -> None:
    sample = torch.tensor([derive_uniform(0, "label", t) for t in range(20_000)])
    counts = torch.histc(sample, bins=20, min=0.0, max=1.0)
    chi_square = ((counts - 1000.0).square() / 1000.0).sum()
    assert chi_square < 43.8  # the 0.1 % point at 19 degrees of freedom
    shifted = torch.corrcoef(torch.stack([sample[1:], sample[:-1]]))[0, 1]
    assert shifted.abs() < 4 / 20_000**0.5


def test_seeded_draws_repeat_and_leave_the_global_generators_alone() -> None:
    with seeded(7):
        first = draw()
    with seeded(8):
        other = draw()
    assert all(a != b for a, b in zip(first, other, strict=True))

    def draw_and_fail() -> None:
        with seeded(2):
            draw()
            raise ValueError("stop")

    with seeded(7):
        with seeded(2):
            draw()
        with pytest.raises(ValueError, match="stop"):
            draw_and_fail()
        assert draw() == first


@pytest.mark.cuda
@pytest.mark.parametrize("index", [0, 1])
def test_seeded_on_cuda(index: int) -> None:
    """On the current device, and on another."""
    if torch.cuda.device_count() <= index:
        pytest.skip("needs more CUDA devices")
    device = torch.device("cuda", index)
    torch.zeros(1, device=device)  # CUDA is in use
    before = torch.cuda.get_rng_state(device)
    with seeded(7, device):
        first = torch.rand(3, device=device)
    with seeded(7, device):
        assert torch.equal(torch.rand(3, device=device), first)
    assert torch.equal(torch.cuda.get_rng_state(device), before)
