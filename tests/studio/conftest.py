"""Small runs with their data."""

from pathlib import Path

import pytest
from tests.test_workflow import settings

from seqloom import workflow


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two taggers of one data set, and a third of other data."""
    folder = tmp_path_factory.mktemp("trained")
    for name, data, seed in (("first", "data", 1), ("second", "data", 2), ("other", "other", 1)):
        (folder / data).mkdir(exist_ok=True)
        config = settings(folder / data, "tag", seed=seed, updates=20)
        workflow.train(config, output=folder / "runs" / name, plots=False)
    return folder / "runs"
