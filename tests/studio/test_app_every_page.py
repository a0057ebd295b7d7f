"""Every page of the studio for a run of every task, with its data, in a real browser."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.chromium import CHROMIUM, new_page, playwright
from tests.service.running import running
from tests.test_workflow import train_all

from seqloom import tasks
from seqloom.service.settings import ServiceSettings
from seqloom.studio.app import build_app

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed: scripts/setup installs it as root"),
]
PAGES = ("run", "data", "try", "inside", "doctor")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("every") / "runs"
    train_all(folder, workers=0)
    settings = ServiceSettings(port=0)
    with pytest.MonkeyPatch.context() as patch, running(build_app(folder, settings), settings) as port:
        patch.chdir(folder)  # the runs name their data relative to it
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("task", tasks.names())
def test_every_page_opens_without_an_error(task: str, address: str, browser: Any) -> None:
    problems: list[str] = []
    page = new_page(browser, address, problems, viewport={"width": 1280, "height": 800}, base_url=address)
    shown = {}
    for name in PAGES:
        page.goto(f"/{name}?run={task}")
        playwright.expect(page.locator("main").get_by_role("heading").first).to_be_visible()
        page.wait_for_load_state("networkidle")
        shown[name] = page.get_by_role("alert").all_inner_texts()
    page.context.close()
    assert (shown, problems) == ({name: [] for name in PAGES}, [])
