"""Inputs of one's own in a real browser: drawings, files and numbers have addresses."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.chromium import CHROMIUM, expect, new_page

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed: scripts/setup installs it as root")
LINES = [[[20, 20.5], [21, 20], [90, 60]], [[4, 119], [3.5, 0]]]


def draw(page: Any) -> None:
    """A line on the pad."""
    pad = page.get_by_label("Draw here").bounding_box()
    page.mouse.move(pad["x"] + 20, pad["y"] + 20)
    page.mouse.down()
    page.mouse.move(pad["x"] + 90, pad["y"] + 60, steps=5)
    page.mouse.up()


def pixels(page: Any) -> str:
    """What is on the pad."""
    return str(page.get_by_label("Draw here").evaluate("(canvas) => canvas.toDataURL()"))


def test_a_drawing_is_the_same_after_it_was_text(page: Any) -> None:
    page.goto("/")
    result = page.evaluate(
        """async (lines) => {
          const { Drawing, decodeDrawing, encodeDrawing } = await import("/static/drawing.js");
          const text = encodeDrawing(new Drawing(480, 120, lines)), back = decodeDrawing(text);
          const damaged = ["", "%", text.slice(0, 3), "____", "gICAgICA"].map(decodeDrawing);
          return { text, lines: back.lines, size: [back.width, back.height], damaged };
        }""",
        LINES,
    )
    assert result["lines"] == LINES
    assert result["size"] == [480, 120]
    assert re.fullmatch(r"[\w-]+", result["text"])
    assert len(result["text"]) <= 32  # of 5 points
    assert result["damaged"] == [None] * 5


def test_a_drawing_is_there_again_after_a_reload_and_inside(page: Any) -> None:
    # The runs here have no data, from which the size of a pen is known.
    pen = {"input_kind": "strokes", "pen": {"step": 0.2, "height": 1.0}}
    page.route("**/api/model*", lambda route: route.fulfill(json={**route.fetch().json(), **pen}))
    page.goto("/try?run=transcribe")
    draw(page)
    expect(page.get_by_role("link", name=re.compile("See inside"))).to_be_visible()
    answer = page.locator("[aria-live]").nth(1).inner_text()
    drawn = pixels(page)
    assert "given=drawing." in page.url
    kept = page.url
    page.reload()
    expect(page.get_by_role("link", name=re.compile("See inside"))).to_be_visible()
    assert pixels(page) == drawn
    assert page.locator("[aria-live]").nth(1).inner_text() == answer
    page.get_by_role("link", name=re.compile("See inside")).click()
    expect(page.get_by_role("heading", name="How the transcript was read")).to_be_visible()
    assert pixels(page) == drawn
    page.go_back()
    expect(page.get_by_role("link", name=re.compile("See inside"))).to_be_visible()
    assert page.url == kept
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_text("Give the model something to read")).to_be_visible()
    assert "given" not in page.url
    page.unroute("**/api/model*")


def test_back_leads_to_an_input_of_ones_own(page: Any, tmp_path: Path) -> None:
    page.goto("/")
    page.goto("/try?run=first")
    field = page.get_by_label("Input", exact=True)
    link = page.get_by_role("link", name=re.compile("See inside"))
    field.fill("the Anna sees")
    page.locator(".list button").nth(1).click()  # at once: the answer to the text is not there yet
    expect(page.get_by_text("labels are those of the data")).to_be_visible()
    page.locator(".list button").nth(2).click()
    expect(page.locator(".list button").nth(2)).to_have_attribute("aria-pressed", "true")
    assert "text=" not in page.url
    page.go_back()
    expect(field).to_have_value("the Anna sees")
    expect(page.locator(".token")).to_have_count(3)
    page.go_forward()
    expect(page.locator(".list button").nth(2)).to_have_attribute("aria-pressed", "true")
    # Inside too.
    page.goto("/inside?run=first&text=the+Anna")
    expect(page.locator("button.token")).to_have_count(2)
    page.locator(".list button").nth(1).click()
    expect(page.locator("button.token")).not_to_have_count(2)
    page.go_back()
    expect(page.locator("button.token")).to_have_count(2)
    # A file takes the place of a drawing, which is no longer on the pad.
    page.goto("/try?run=transcribe")
    empty = pixels(page)
    draw(page)
    page.wait_for_url(re.compile("given=drawing"))
    drawn = pixels(page)
    rows = tmp_path / "rows.npy"
    np.save(rows, np.zeros((12, 3), np.float32))
    page.locator("input[type=file]").set_input_files(rows)
    expect(page.get_by_text("The model has read “rows.npy”.")).to_be_visible()
    expect(link).to_be_visible()
    assert pixels(page) == empty != drawn
    page.go_back()
    expect(page.get_by_text("The model has read")).to_be_hidden()
    page.wait_for_url(re.compile("given=drawing"))
    page.wait_for_function("() => document.querySelector('.pad')")
    assert pixels(page) == drawn


def test_the_menu_takes_an_input_from_try_to_inside_and_back(page: Any) -> None:
    menu = page.get_by_role("navigation")
    page.goto("/try?run=first")
    page.get_by_label("Input", exact=True).fill("the Anna")
    menu.get_by_role("link", name="Inside").click()
    expect(page.locator("button.token")).to_have_text([re.compile("the"), re.compile("Anna")])
    page.get_by_label("Input", exact=True).fill("Paris sees Anna")
    menu.get_by_role("link", name="Try").press("Enter")
    expect(page.get_by_label("Input", exact=True)).to_have_value("Paris sees Anna")
    expect(page.locator(".token")).to_have_count(3)
    menu.get_by_role("link", name="Data").click()  # which is not about one input
    expect(page.get_by_role("heading", name="Data")).to_be_visible()
    assert "text=" not in page.url
    page.goto("/try?run=transcribe")
    draw(page)
    page.wait_for_url(re.compile("given=drawing"))
    drawn = pixels(page)
    menu.get_by_role("link", name="Inside").click()
    page.wait_for_url(re.compile("/inside.*given=drawing"))
    expect(page.get_by_label("Draw here")).to_be_visible()
    assert pixels(page) == drawn


def test_a_file_that_cannot_be_read_is_not_kept(page: Any, tmp_path: Path) -> None:
    page.goto("/")
    page.evaluate("import('/static/kept.js').then(({ deleteFiles }) => deleteFiles())")
    damaged = tmp_path / "damaged.wav"
    damaged.write_bytes(b"RIFF")
    for path in ("/try?run=transcribe", "/inside?run=transcribe"):
        page.goto(path)
        page.locator("input[type=file]").set_input_files(damaged)
        expect(page.get_by_role("alert")).to_contain_text("damaged.wav")
        assert "given" not in page.url
        assert page.evaluate("import('/static/kept.js').then(({ countFiles }) => countFiles())") == 0


def test_files_and_recordings_are_kept_in_the_browser(page: Any, address: str, browser: Any, tmp_path: Path) -> None:
    page.goto("/try?run=forecast")
    page.get_by_text("or type numbers").click()
    page.get_by_label("Rows of numbers").fill("1 2\n2 3\n3 4\n4 5\n5 6")
    page.get_by_role("button", name="Use these numbers").click()
    expect(page.locator("table")).to_contain_text("two")
    page.reload()
    expect(page.locator("table")).to_contain_text("two")
    assert page.get_by_label("Rows of numbers").input_value() == "1 2\n2 3\n3 4\n4 5\n5 6"
    # A file whose name is markup, and a recording.
    page.goto("/try?run=transcribe")
    rows = tmp_path / "<b>rows.npy"
    np.save(rows, np.zeros((12, 3), np.float32))
    page.locator("input[type=file]").set_input_files(rows)
    link = page.get_by_role("link", name=re.compile("See inside"))
    expect(link).to_be_visible()
    kept = page.url
    assert "given=file." in kept
    read = {"prediction": {"text": "a"}, "unknown": {"words": [], "read_by": ""}}  # no run here reads sound
    page.route("**/api/predict", lambda route: route.fulfill(json=read))
    page.get_by_role("button", name="Record").click()
    page.get_by_role("button", name="Stop").click()
    page.wait_for_url(re.compile("recording.wav"))
    page.unroute("**/api/predict")
    page.goto(kept)
    expect(link).to_be_visible()
    link.click()
    expect(page.get_by_role("heading", name="How the transcript was read")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="How far back does each output see?")).to_be_visible()
    # Another browser does not have the file, and says so.
    problems: list[str] = []
    other = new_page(browser, address, problems, base_url=address)
    for path in (kept, kept.replace("/try", "/inside")):
        other.goto(path)
        expect(other.get_by_role("alert")).to_contain_text("“<b>rows.npy”, which this browser does not have")
    other.goto("/inside?run=transcribe&given=drawing.%25")
    expect(other.get_by_role("alert")).to_contain_text("perhaps it was cut")
    other.context.close()
    assert problems == []
    # Nor this one, once they were deleted.
    page.goto("/try?run=transcribe")
    page.get_by_role("button", name="Delete them").click()
    expect(page.get_by_text("Links to them no longer work")).to_be_visible()
    page.goto(kept)
    expect(page.get_by_role("alert")).to_contain_text("this browser does not have")


def test_only_the_last_files_are_kept(page: Any) -> None:
    page.goto("/")
    kept = page.evaluate(
        """async () => {
          const { countFiles, deleteFiles, keepFile, keptFile } = await import("/static/kept.js");
          await deleteFiles();
          const hashes = [];
          for (let number = 0; number < 26; number++) {
            hashes.push(await keepFile(new File([`content ${number}`], "name")));
            if (number === 20) await keptFile(hashes[0]);  // used again: it stays
          }
          const same = await keepFile(new File(["content 25"], "other name"));
          const found = await Promise.all(hashes.map(async (hash) => (await keptFile(hash))?.text() ?? null));
          return { count: await countFiles(), found, same: same === hashes.at(-1) };
        }"""
    )
    assert kept["same"]
    assert kept["count"] == 24
    assert kept["found"] == [None if number in (1, 2) else f"content {number}" for number in range(26)]


def test_similar_states_are_marked_in_small_pictures_of_inputs(page: Any) -> None:
    match = {"example": 0, "place": "/data/dev.tsv:4", "start": 2, "stop": 4, "steps": 10, "value": 0.9, "cut": False}
    found = {"matches": [{**match, "before": [], "phrase": [], "after": []}], "examples": 1, "elements": 10}
    page.route("**/api/model*", lambda route: route.fulfill(json={**route.fetch().json(), "input_kind": "vectors"}))
    page.route("**/api/similar", lambda route: route.fulfill(json=found))
    page.goto(f"/inside?run=transcribe&given=numbers.{'*'.join(['0_1_0'] * 12)}&from=2&to=4")
    expect(page.locator(".framed i")).to_have_attribute("style", "left: 20%; width: 20%;")
    expect(page.locator(".places tbody tr")).to_contain_text("dev.tsv:4")
    expect(page.locator(".places mark")).to_have_text("steps 3–4")
    for path in ("**/api/model*", "**/api/similar"):
        page.unroute(path)


def test_a_drawing_that_is_too_long_for_an_address_is_kept_in_the_browser(page: Any) -> None:
    page.goto("/")
    result = page.evaluate(
        """async () => {
          const { Drawing } = await import("/static/drawing.js");
          const { keepInput, keptInput } = await import("/static/given.js");
          const line = [...Array(3000).keys()].map((step) => [(step * 37) % 480, (step * 11) % 120]);
          const text = await keepInput(new Drawing(480, 120, [line])), back = await keptInput(text);
          const rows = await keptInput(await keepInput([[1.5, -2], [3e-7, 4]]));
          return { text, same: JSON.stringify(back.lines) === JSON.stringify([line]), rows };
        }"""
    )
    assert re.fullmatch(r"file\.[0-9a-f]{32}\.drawing", result["text"])
    assert result["same"]
    assert result["rows"] == [[1.5, -2], [3e-7, 4]]
