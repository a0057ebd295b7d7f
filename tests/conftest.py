"""Settings for all tests: one thread, examples that are the same in every run, kernels cached inside the checkout."""

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

os.environ.setdefault("SEQLOOM_CACHE", str(Path(__file__).parent.parent / ".pytest_cache" / "seqloom"))

hypothesis.settings.register_profile("seqloom", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("seqloom")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tests run side by side, one thread each; a test that needs more sets them itself, and they are taken back."""
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)
