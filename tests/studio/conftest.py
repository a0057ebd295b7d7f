"""Small runs with their data."""

from pathlib import Path

import pytest
from tests.test_workflow import settings

from seqloom import workflow


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two taggers of one data set, which lies in two folders, and a third of other data."""
    folder = tmp_path_factory.mktemp("trained")
    for name, data, seed in (("first", "data", 1), ("second", "copy", 2), ("other", "other", 1)):
        (folder / data).mkdir(exist_ok=True)
        config = settings(folder / data, "tag", seed=seed, updates=20)
        if name == "other":
            dev = Path(config.task.dev)
            dev.write_text(f"{dev.read_text()}\n{dev.read_text()}")
        workflow.train(config, output=folder / "runs" / name, plots=False)
    return folder / "runs"
