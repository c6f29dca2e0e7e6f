"""Repeated evaluations of an evidence use the memory that they have."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource
import torch
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP

torch.set_num_threads(1)
X = torch.rand(800, 6, dtype=torch.double)
model = PreferenceGP(X, torch.arange(800).view(-1, 2))
mll = LaplaceMarginalLogLikelihood(model.likelihood, model).train()

def evaluate():
    mll(None, None).backward()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

*_, before = [evaluate() for _ in range(3)]
*_, after = [evaluate() for _ in range(5)]
print((after - before) * resource.getpagesize() // 5)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts Linux' page faults")
def test_pages_are_kept_between_evaluations() -> None:
    """In a program of its own, whose allocator has seen nothing yet."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120
    )
    matrix = 800**2 * 8
    assert int(done.stdout) < 2 * matrix  # without care it was eight times a matrix
