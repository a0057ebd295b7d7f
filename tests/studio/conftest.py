"""Small runs with their data, and the studio in a browser."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.running import KEPT, running
from tests.test_workflow import settings

from seqloom import checkpoint, workflow
from seqloom.run import FILES
from seqloom.service.settings import ServiceSettings
from seqloom.studio.app import build_app
from seqloom.studio.catalog import write_note

MARKUP = "<img src=x onerror=alert(1)>"


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, trained: Path) -> Path:
    """A run of each task, two trained taggers with their data, and a run whose name and note are markup."""
    folder = tmp_path_factory.mktemp("browser")
    for path in [*KEPT.iterdir(), trained / "first", trained / "second"]:
        shutil.copytree(path, folder / path.name)
    other = Path(shutil.copytree(KEPT / "tag", folder / "second <b>tagger<b>"))
    text = (other / "config.toml").read_text()
    (other / "config.toml").write_text(text.replace("hidden_size = 6", "hidden_size = 7", 1))
    (other / checkpoint.MANIFEST).unlink()
    checkpoint.write_manifest(other, FILES)
    write_note(other, MARKUP)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    settings = ServiceSettings(port=0)
    with running(build_app(folder, settings), settings) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def opened(browser: Any, address: str) -> Iterator[tuple[Any, list[str]]]:
    """A page, and what went wrong in it: errors, dialogs, requests to elsewhere."""
    from tests.chromium import new_page

    problems: list[str] = []
    view = {"width": 1280, "height": 800}
    page = new_page(browser, address, problems, viewport=view, base_url=address, permissions=["microphone"])
    yield page, problems
    page.context.close()


@pytest.fixture
def page(opened: tuple[Any, list[str]]) -> Iterator[Any]:
    """The page, which may neither fail nor ask for anything outside; the tests of a module share it."""
    page, problems = opened
    yield page
    assert problems == []
