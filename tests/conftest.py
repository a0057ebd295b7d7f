"""Settings for all tests: one thread, reproducible examples, kernels cached inside the checkout, quick runs."""

import gc
import os
import signal
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

from seqloom import run_plots

os.environ.setdefault("OMP_NUM_THREADS", "1")  # also in the processes that tests start
torch.set_num_threads(1)  # modules build layers when they are imported
os.environ.setdefault("SEQLOOM_CACHE", str(Path(__file__).parent.parent / ".pytest_cache" / "seqloom"))

# A shell starts background jobs with SIGINT ignored, and every process inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("seqloom", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("sampled", parent=hypothesis.settings.get_profile("seqloom"), max_examples=30)
hypothesis.settings.load_profile("seqloom")

DRAW = run_plots.draw

LONG = {
    "test_documentation.py",
    "test_runner.py",
    "test_sklearn.py",
    "test_subprocess_trial.py",
    "test_sweep.py",
    "test_wheel.py",
    "test_workflow.py",
    "test_main.py",
    "test_distributed_machines.py",
}
"""Modules that train much or start processes."""

SMALL_MATRIX = 12  # cases: all of them are kept


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sampled",
        action="store_true",
        help="leave out tests marked exhaustive, most cases of tests marked sampled, and most random examples",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.sampled:
        hypothesis.settings.load_profile("sampled")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long modules come first: a worker takes whole modules, and would be the last one to end with one of these."""
    items.sort(key=lambda item: item.path.name not in LONG)
    if config.option.sampled:
        cases = Counter(item.nodeid.partition("[")[0] for item in items)
        out = {item for item in items if left_out(item, cases[item.nodeid.partition("[")[0]])}
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]


def pytest_collection_finish() -> None:
    """Keep the garbage collector away from modules and tests, and call it less often: it took 7 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def left_out(item: pytest.Item, cases: int) -> bool:
    """Whether ``--sampled`` leaves out the test, which is one of so many cases.

    Of a matrix marked ``sampled(n)``, such as every law × every cell, one case in n is kept: always the same ones,
    chosen by their names, so that each law and each cell remain covered by some.
    """
    if item.get_closest_marker("exhaustive") is not None:
        return True
    sampled = item.get_closest_marker("sampled")
    return sampled is not None and cases > SMALL_MATRIX and zlib.crc32(item.nodeid.encode()) % int(sampled.args[0]) != 0


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tests run in parallel, one thread each; a test that needs more sets the number, which is reset afterwards."""
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def quick_runs() -> Iterator[None]:
    """Runs draw no learning curves and do not wait for the disk: both take longer than a tiny training.

    No test simulates a power failure; processes that tests start and kill do flush their files.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        patch.setattr(run_plots, "draw", lambda *_, **__: None)
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; for one module, since its event loop would be in the way of other tests."""
    from tests.chromium import launched

    with launched() as browser:
        yield browser


@pytest.fixture
def drawn_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what is drawn."""
    monkeypatch.setattr(run_plots, "draw", DRAW)
