"""The system's chromium for tests of pages: one browser for each module, and what goes wrong in its pages."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--use-fake-ui-for-media-stream"),
    "--use-fake-device-for-media-stream",
]
TIMEOUT = 60_000  # milliseconds


@contextmanager
def launched() -> Iterator[Any]:
    """A browser."""
    playwright.expect.set_options(timeout=TIMEOUT)
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def new_page(browser: Any, address: str, problems: list[str], **options: Any) -> Any:
    """A page that notes what it must not do: fail, open a dialog, break its policy, ask for anything outside."""
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(TIMEOUT)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    page.on("console", lambda message: problems.append(message.text) if _is_problem(message) else None)
    own = (address, "blob:", "data:")
    page.on("request", lambda request: problems.append(request.url) if not request.url.startswith(own) else None)
    return page


def expect(locator: Any) -> Any:
    """Assertions about a locator, which wait until they hold."""
    return playwright.expect(locator)


def download(page: Any, button: Any) -> str:
    """The text of the file that a button saves."""
    with page.expect_download() as saved:
        button.click()
    return Path(saved.value.path()).read_text()


def _is_problem(message: Any) -> bool:
    """Errors, but not answers with an error, which pages show."""
    return message.type == "error" and not message.text.startswith("Failed to load resource")
