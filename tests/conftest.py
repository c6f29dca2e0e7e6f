"""One thread per worker, and device tests only where there is a device."""

import gc
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests._reference.second_device import IS_THERE, registered, second_device
from tests.common import emulated

torch.set_num_threads(1)
# Thousands of tests are collected into lists that live to the end; to look through all of them for
# cycles as often as by default takes a third of the collection and a twentieth of what follows.
gc.set_threshold(50_000, 20, 100)
if IS_THERE and not torch.cuda.is_available():  # torch takes one kind of device for the accelerator
    registered()


@pytest.fixture(
    params=[pytest.param("emulated", marks=emulated), pytest.param("cuda", marks=pytest.mark.cuda)]
)
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """A device that is not the CPU: a real one, or where there is none an emulated one."""
    if request.param == "cuda":
        yield torch.device("cuda", 0)
    else:
        with second_device() as (device, _):
            yield device


@pytest.fixture
def open_browser() -> Iterator[Callable[[], Any]]:
    """Opens headless Chromium; each time another one, with cookies of its own."""
    if missing := [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    opened = []

    def one() -> Any:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in ("headless", "no-sandbox", "disable-gpu", "window-size=1400,1000"):
            options.add_argument(f"--{flag}")
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        opened.append(webdriver.Chrome(options=options, service=service))
        return opened[-1]

    yield one
    for driver in opened:
        driver.quit()


@pytest.fixture
def browser(open_browser: Callable[[], Any]) -> Any:
    """Headless Chromium, with a page of 1400 x 1000 pixels."""
    return open_browser()


@pytest.fixture
def short_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of a box end after a few steps, for tests of what does not depend on their end."""
    from tests.contracts.strategy import shorten_searches

    shorten_searches(monkeypatch)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests that need a device that is not there."""
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("cuda"):
            item.add_marker(pytest.mark.skipif(True, reason="needs a CUDA device"))
