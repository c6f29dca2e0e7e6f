"""One thread per worker, and device tests only where there is a device."""

import pytest
import torch

from tests._reference.second_device import registered

torch.set_num_threads(1)
if not torch.cuda.is_available():  # torch takes one kind of device for the accelerator
    registered()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests that need a device that is not there."""
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("cuda"):
            item.add_marker(pytest.mark.skipif(True, reason="needs a CUDA device"))
