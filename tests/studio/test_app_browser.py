"""The pages in a real browser."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.running import KEPT, running

from seqloom import checkpoint
from seqloom.run import FILES, Run
from seqloom.service.settings import ServiceSettings
from seqloom.studio.app import build_app
from seqloom.studio.catalog import write_note

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed: scripts/setup installs it as root")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each task, a second tagger, and a run whose name and note are markup."""
    folder = tmp_path_factory.mktemp("browser")
    for path in KEPT.iterdir():
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
def browser() -> Iterator[Any]:
    playwright.expect.set_options(timeout=60_000)
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page that may neither fail nor ask for anything outside."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, base_url=address, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(60_000)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    page.on(
        "request",
        lambda request: (
            problems.append(request.url) if not request.url.startswith((address, "blob:", "data:")) else None
        ),
    )
    yield page
    context.close()
    assert problems == []


def test_the_table_shows_runs_and_leads_to_a_comparison(page: Any) -> None:
    page.goto("/")
    rows = page.locator("tbody tr")
    playwright.expect(rows).to_have_count(len([*KEPT.iterdir()]) + 1)
    page.get_by_label("Filter").fill("tagger")
    playwright.expect(rows).to_have_count(1)
    page.reload()
    playwright.expect(rows).to_have_count(1)  # the address keeps the filter
    page.get_by_label("Filter").fill("")
    page.get_by_label("Task").select_option("tag")
    playwright.expect(rows).to_have_count(2)
    playwright.expect(rows.first).to_contain_text("hidden_size")
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Compare").click()
    playwright.expect(page.get_by_text("Settings that differ")).to_be_visible()
    playwright.expect(page.locator("td", has_text="task.encoder.hidden_size")).to_be_visible()
    page.go_back()
    playwright.expect(rows).to_have_count(2)


def test_markup_in_names_and_notes_is_inert(page: Any) -> None:
    page.goto("/")
    playwright.expect(page.get_by_role("link", name="second <b>tagger<b>")).to_be_visible()
    assert page.get_by_label("Note on second").input_value() == MARKUP
    assert page.locator("main b, main img").count() == 0


@pytest.mark.parametrize("task", sorted(path.name for path in KEPT.iterdir()))
def test_a_run_of_every_task_has_its_page(page: Any, task: str) -> None:
    page.goto(f"/run?run={task}")
    playwright.expect(page.get_by_role("heading", name=task)).to_be_visible()
    playwright.expect(page.get_by_text("Training loss")).to_be_visible()
    playwright.expect(page.locator(".badge")).to_have_text("finished")


def test_new_rows_appear_while_a_run_trains(page: Any, folder: Path) -> None:
    page.goto("/run?run=language_model")
    playwright.expect(page.locator(".badge")).to_have_text("finished")
    run = Run.open(folder / "language_model")
    with run.lock():
        playwright.expect(page.locator(".badge")).to_have_text("training")
        playwright.expect(page.get_by_role("button", name="Stop")).to_be_visible()
        run.record({"update": 4321, "epoch": 7.0, "loss": 0.5})
        playwright.expect(page.get_by_text("update 4,321")).to_be_visible()
    playwright.expect(page.locator(".badge")).to_have_text("finished")


def test_answers_follow_the_typing(page: Any) -> None:
    page.goto("/try?run=tag")
    page.get_by_label("Input").type("the Anna")
    playwright.expect(page.locator(".token")).to_have_count(2)
    page.get_by_label("Second run").select_option("second <b>tagger<b>")
    playwright.expect(page.get_by_role("heading", name="second")).to_be_visible()
    assert "text=the+Anna" in page.url


def test_numbers_and_files_are_inputs(page: Any, tmp_path: Path) -> None:
    page.goto("/try?run=forecast")
    page.get_by_text("or type numbers").click()
    page.get_by_label("Rows of numbers").fill("1 2\n2 3\n3 4\n4 5\n5 6")
    page.get_by_role("button", name="Use these numbers").click()
    playwright.expect(page.locator("table")).to_contain_text("two")
    damaged = tmp_path / "damaged.wav"
    damaged.write_bytes(b"RIFF")
    page.locator("input[type=file]").set_input_files(damaged)
    playwright.expect(page.get_by_role("alert")).to_contain_text("damaged.wav")


def test_one_cursor_moves_through_all_views(page: Any) -> None:
    page.goto("/inside?run=tag&text=the+Anna+sees+Paris")
    tokens = page.locator("button.token")
    playwright.expect(tokens).to_have_count(4)
    tokens.nth(2).hover()
    playwright.expect(tokens.nth(2)).to_contain_class("current")
    assert page.locator(".cursor:not([hidden])").count() >= 2
    page.keyboard.press("Tab")
    tokens.nth(0).focus()
    page.keyboard.press("ArrowRight")
    playwright.expect(tokens.nth(1)).to_be_focused()
    playwright.expect(page.locator("tr[aria-selected=true]")).to_contain_text("Anna")
    page.get_by_label("Input").fill("the Anna")
    playwright.expect(tokens).to_have_count(2)


def test_pictures_are_saved_as_files(page: Any) -> None:
    page.goto("/run?run=tag")
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG").first.click()
    text = Path(download.value.path()).read_text()
    assert text.startswith("<svg")
    assert "var(" not in text.replace("var(--", "var(--") or 'stroke="rgb' in text
    page.goto("/inside?run=tag&text=the+Anna")
    playwright.expect(page.locator("button.token")).to_have_count(2)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as HTML").click()
    saved = Path(download.value.path()).read_text()
    assert saved.startswith("<!doctype html>")
    assert "<script" not in saved
    assert "data:image/png" in saved


def test_colours_can_be_switched_and_are_kept(page: Any) -> None:
    page.goto("/")
    theme = page.locator("#theme")
    before = page.evaluate("document.documentElement.dataset.theme")
    theme.click()
    after = page.evaluate("document.documentElement.dataset.theme")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == after != before


def test_a_thousand_runs_are_a_table_of_few_rows(page: Any) -> None:
    page.goto("/")
    run = page.evaluate("fetch('/api/runs').then((response) => response.json())")
    runs = [{**run["runs"][0], "id": f"run-{number}"} for number in range(1000)]
    page.route("**/api/runs*", lambda route: route.fulfill(body=json.dumps({"folder": "many", "runs": runs})))
    page.goto("/?sort=run")
    playwright.expect(page.get_by_text("1000 runs")).to_be_visible()
    assert page.locator("tbody tr").count() < 80
    page.locator(".table").evaluate("(element) => element.scrollTo(0, element.scrollHeight)")
    playwright.expect(page.get_by_role("link", name="run-999", exact=True)).to_be_visible()


def test_errors_are_shown_in_words(page: Any) -> None:
    page.goto("/run?run=nothing")
    playwright.expect(page.get_by_role("alert")).to_contain_text("there is no run 'nothing'")


def test_an_empty_folder_says_what_to_do(browser: Any, tmp_path: Path) -> None:
    settings = ServiceSettings(port=0)
    with running(build_app(tmp_path, settings), settings) as port:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        playwright.expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
        page.close()


def test_the_doctor_and_the_lab_show_their_findings(page: Any) -> None:
    page.goto("/doctor?run=tag")
    playwright.expect(page.locator(".card .badge").first).to_be_visible()
    page.goto("/lab")
    card = page.locator("section.card", has_text="When do gradients vanish")
    card.get_by_role("button", name="Quick look").click()
    playwright.expect(card.get_by_text("the verdict means little")).to_be_visible()
    playwright.expect(card.get_by_role("img")).to_be_visible()
