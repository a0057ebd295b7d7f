"""The pages in a real browser; all tests share one server, one browser and one page."""

import json
import re
import shutil
import signal
import statistics
from pathlib import Path
from typing import Any

import pytest
from tests.chromium import CHROMIUM, download, expect
from tests.service.running import KEPT, running
from tests.studio.conftest import MARKUP
from tests.test_workflow import at, send, settings

from seqloom import workflow
from seqloom.data.readers.midi import parse_midi
from seqloom.interrupt import Interrupted
from seqloom.run import Run
from seqloom.service.settings import ServiceSettings
from seqloom.studio.app import build_app
from seqloom.training.progress import Progress

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed: scripts/setup installs it as root")


def test_the_table_shows_runs_and_leads_to_a_comparison(page: Any, folder: Path) -> None:
    page.goto("/")
    rows = page.locator("tbody tr:not([aria-hidden])")
    expect(rows).to_have_count(len([*folder.iterdir()]))
    expect(page.get_by_role("link", name="second <b>tagger<b>")).to_be_visible()
    assert page.get_by_label("Note on second <b>").input_value() == MARKUP
    assert page.locator("main b, main img").count() == 0  # markup is inert
    page.get_by_label("Filter").fill("tagger")
    expect(rows).to_have_count(1)
    page.reload()
    expect(rows).to_have_count(1)  # the address keeps the filter
    page.get_by_label("Filter").fill("")
    page.get_by_label("Task").select_option("tag")
    expect(rows).to_have_count(4)
    page.get_by_label("Select first").check()
    page.get_by_label("Select second", exact=True).check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("Settings that differ")).to_be_visible()
    expect(page.locator("td", has_text="train.seed")).to_be_visible()
    # Both models answer the dev data; the interval is that of the API.
    expect(page.locator(".verdict")).to_contain_text("difference")
    result = page.request.post("/api/disagreements", data=json.dumps({"runs": ["first", "second"]})).json()
    expect(page.get_by_text(f"{result['disagreements']} of {result['examples']} dev examples differ")).to_be_visible()
    page.go_back()
    expect(rows).to_have_count(4)


def headings(page: Any) -> list[str]:
    expect(page.locator("thead th").first).to_be_visible()
    return [text.split(" ·")[0].strip(" ↓↑") for text in page.locator("thead th").all_inner_texts()][1:]


def test_columns_are_chosen_moved_and_kept_in_the_address(page: Any, folder: Path) -> None:
    page.goto("/?task=tag")
    page.locator("summary", has_text="Columns").click()
    page.get_by_label("Add a column").select_option("score:accuracy")
    assert headings(page)[-1] == "accuracy"
    stored = Run.open(folder / "first").facts()["metrics"]["accuracy"]
    row = page.locator("tr", has=page.get_by_role("link", name="first", exact=True))
    expect(row.locator("td").last).to_have_text(
        page.evaluate("(value) => String(Number(value.toPrecision(4)))", stored)
    )
    for _ in range(2):
        page.get_by_role("button", name="Move accuracy left").click()
    page.keyboard.press("Enter")  # the same button has the focus
    assert headings(page)[-4] == "accuracy"
    page.get_by_role("button", name="Remove Curve").click()
    assert "Curve" not in headings(page)
    page.locator("thead").get_by_role("button", name="accuracy").press("Alt+ArrowRight")
    assert headings(page)[-3] == "accuracy"
    page.locator("thead").get_by_role("button", name="accuracy").press("Enter")  # sorts, with the keyboard only
    order = headings(page)
    page.reload()
    assert headings(page) == order
    values = [float(text) for text in page.locator("tbody td:nth-last-child(3)").all_inner_texts() if text.strip("–")]
    assert values == sorted(values)
    page.locator("summary", has_text="Columns").click()
    page.get_by_role("button", name="Default columns").click()
    assert "column=" not in page.url
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Default columns")).to_be_hidden()


def test_runs_are_grouped_with_mean_and_spread(page: Any, folder: Path) -> None:
    page.goto("/?task=tag&group=seeds&sort=best")
    group = page.locator("tr.group", has_text="2 runs")
    values = [Run.open(folder / name).facts()["metrics"]["span_f1"] for name in ("first", "second")]
    expected = [statistics.mean(values), statistics.stdev(values)]
    shown = group.locator("td.number").first.inner_text().splitlines()[0].strip("★ ").split(" ± ")
    assert [float(text) for text in shown] == pytest.approx(expected, rel=0.06)  # of two digits
    disclosure = group.locator(".disclosure")
    disclosure.press("Enter")
    expect(page.locator("tr.member")).to_have_count(2)
    page.reload()
    expect(page.locator("tr.member")).to_have_count(2)  # the address keeps what is open
    group.get_by_role("checkbox").check()
    expect(page.get_by_text("2 marked")).to_be_visible()
    expect(page.get_by_label("Select first")).to_be_checked()
    page.get_by_role("button", name="Compare").click()
    # The curves are those of the group: the mean of both runs, and from the lowest to the highest.
    expect(page.get_by_role("columnheader", name="standard deviation")).to_be_visible()
    rows = [[row["loss"] for row in Run.open(folder / name).rows() if "loss" in row] for name in ("first", "second")]
    first, last = (statistics.mean(row[place] for row in rows) for place in (0, -1))
    chart = page.get_by_role("img", name=re.compile("Loss on the training data"))
    label = chart.get_attribute("aria-label")
    assert [float(text) for text in re.findall(r"from ([\d.]+) to ([\d.]+)", label)[0]] == pytest.approx(
        [first, last], rel=1e-3
    )
    expect(page.locator("svg path[opacity]").first).to_be_attached()
    page.get_by_label("Smoothing of the training loss").select_option("0.8")
    expect(chart).not_to_have_attribute("aria-label", label)  # it ends where its moving average does
    assert "smoothing=0.8" in page.url


def test_a_part_of_the_curves_is_zoomed_by_dragging_and_by_keys(page: Any) -> None:
    page.goto("/run?run=first")
    chart = page.get_by_role("img", name=re.compile("^Loss"))
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 60, steps=4)
    page.mouse.up()
    assert "zoom=" in page.url
    ((low, high),) = re.findall(r"zoom=([\d.]+)%7E([\d.]+)", page.url)
    low, high = float(low), float(high)
    resets = page.get_by_role("button", name="Reset zoom")
    shown = resets.count()
    assert shown >= 3  # all curves of the page show the same part
    whole = page.evaluate(
        "fetch('/api/run?run=first').then((answer) => answer.json()).then((run) => run.rows.map((row) => row.update))"
    )
    for share, end in ((0.4, low), (0.7, high)):
        place = (share * box["width"] - 52) / (box["width"] - 64)  # margins of a chart
        assert end == pytest.approx(whole[0] + place * (whole[-1] - whole[0]), rel=0.03)
    page.reload()
    expect(resets).to_have_count(shown)
    resets.first.click()
    expect(resets.first).to_be_hidden()
    assert "zoom=" not in page.url
    chart.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tip:visible")).to_contain_text("training data")
    page.keyboard.press("+")
    expect(resets.first).to_be_visible()
    page.keyboard.press("0")
    expect(resets.first).to_be_hidden()


def test_all_dev_examples_are_sorted_filtered_and_opened(page: Any, folder: Path) -> None:
    page.goto("/data?run=first")
    table = page.request.get("/api/answers?run=first").json()
    rows = page.locator("tbody tr:not([aria-hidden])")
    expect(page.get_by_text(f"{len(table['rows'])} examples")).to_be_visible()
    worst = min(row["score"] for row in table["rows"])
    expect(rows.first.locator("td.number").nth(1)).to_have_text(re.compile(rf"^{worst:.3g}"))
    pair = max((pair for pair in table["pairs"] if pair["label"] != pair["predicted"]), key=lambda pair: pair["count"])
    index = table["pairs"].index(pair)
    cell = page.get_by_role("button", name=f"{pair['label']} answered as {pair['predicted']}: {pair['count']}")
    cell.click()
    with_pair = [row for row in table["rows"] if index in row["pairs"]]
    expect(page.get_by_text(f"{len(with_pair)} of {len(table['rows'])} examples")).to_be_visible()
    page.reload()
    expect(cell).to_have_attribute("aria-pressed", "true")  # the address keeps the cell
    # With the keyboard only: the cell is chosen, another one is reached, and the first one is left again.
    cell.focus()
    page.keyboard.press("ArrowLeft")
    expect(cell).not_to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(cell).to_have_attribute("aria-pressed", "false")
    page.get_by_label("Which examples").select_option("right")
    right = [row for row in table["rows"] if not row["wrong"]]
    expect(page.get_by_text(f"{len(right)} of {len(table['rows'])} examples")).to_be_visible()
    page.get_by_label("Which examples").select_option("")
    page.get_by_label("Filter").fill("nothing like this")
    expect(page.get_by_text("No example fits.")).to_be_visible()
    page.get_by_label("Filter").fill("")
    page.get_by_role("button", name=re.compile("^Words")).click()
    longest = max(row["length"] for row in table["rows"])
    expect(rows.first.locator("td").last).to_have_text(str(longest))
    assert "<svg" in download(page, page.get_by_role("button", name="Save the confusion matrix as SVG"))
    number = int(rows.first.locator("td").first.inner_text()) - 1
    rows.first.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Inside")).to_be_visible()
    assert f"example={number}" in page.url
    page.go_back()
    expect(rows.first.locator("td").last).to_have_text(str(longest))
    page.goto("/data?run=tag")  # its data are not here
    expect(page.get_by_role("heading", name="No answers to show")).to_be_visible()


def test_a_run_of_every_task_has_its_page(page: Any) -> None:
    for path in sorted(KEPT.iterdir()):
        page.goto(f"/run?run={path.name}")
        expect(page.get_by_role("heading", name=path.name)).to_be_visible()
        expect(page.get_by_role("heading", name="Loss", exact=True)).to_be_visible()
        expect(page.locator(".badge")).to_have_text("finished")
    page.goto("/run?run=nothing")
    expect(page.get_by_role("alert")).to_contain_text("there is no run 'nothing'")


def test_a_training_is_watched_stopped_and_resumed(page: Any, folder: Path, tmp_path: Path) -> None:
    seen: list[str] = []

    def watch(run: Run, event: Progress) -> None:
        if not seen:
            page.goto("/run?run=live")
            expect(page.locator(".badge")).to_have_text("training")
            expect(page.get_by_role("button", name="Stop")).to_be_visible()
        if event.evaluation:
            expect(page.get_by_text("right at each evaluation")).to_be_visible()
            expect(page.locator(".fact", has_text="epoch").last).to_be_visible()
        seen.append(f"update {event.update}")

    # Stopped after twelve updates of very many, and resumed by a process of its own, which the button stops.
    chosen = settings(tmp_path, "tag", updates=10**7, log_every=1)
    listeners = [watch, at(12, lambda: send(signal.SIGINT))]
    with pytest.raises(Interrupted):
        workflow.train(chosen, output=folder / "live", listeners=listeners, plots=False)
    expect(page.locator(".badge")).to_have_text("stopped")
    samples = page.get_by_role("slider", name="Evaluation")
    assert samples.get_attribute("max") == "1"  # two evaluations
    samples.press("Home")
    expect(page.get_by_text("update 5", exact=False).first).to_be_visible()
    page.get_by_label("Horizontal axis").select_option("minutes")
    expect(page.locator("svg[role=img] text", has_text="minutes").first).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".badge")).to_have_text("training")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".badge")).to_have_text("stopped")
    assert Run.training_process(folder / "live") is None
    shutil.rmtree(folder / "live")


def test_answers_follow_the_typing(page: Any, tmp_path: Path) -> None:
    page.goto("/try?run=tag")
    page.get_by_label("Input").type("the Anna")
    expect(page.locator(".token")).to_have_count(2)
    page.get_by_label("Second run").select_option("second <b>tagger<b>")
    expect(page.get_by_role("heading", name="second")).to_be_visible()
    assert "text=the+Anna" in page.url
    page.goto("/try?run=first")
    page.locator(".list button").first.click()  # a dev example
    expect(page.get_by_text("of 7 labels are those of the data")).to_be_visible()
    page.goto("/try?run=language_model")
    page.get_by_label("Input").fill("a")
    page.get_by_role("button", name="Continue").click()
    expect(page.locator(".generated")).to_contain_text(re.compile(r"\S"))  # a sample
    page.goto("/try?run=translate&text=a")
    page.locator("summary", has_text="Decoding").click()
    page.get_by_label("Decoding method").select_option("beam")
    page.get_by_label("nbest", exact=True).fill("3")
    page.keyboard.press("Enter")
    expect(page.locator(".two table tbody tr")).to_have_count(3)
    assert "search=beam+nbest%3D3" in page.url
    page.goto("/try?run=forecast")
    page.get_by_text("or type numbers").click()
    page.get_by_label("Rows of numbers").fill("1 2\n2 3\n3 4\n4 5\n5 6")
    page.get_by_role("button", name="Use these numbers").click()
    expect(page.locator("table")).to_contain_text("two")
    damaged = tmp_path / "damaged.wav"
    damaged.write_bytes(b"RIFF")
    page.locator("input[type=file]").set_input_files(damaged)
    expect(page.get_by_role("alert")).to_contain_text("damaged.wav")


def test_a_model_of_music_composes(page: Any, tmp_path: Path) -> None:
    page.goto("/try?run=music")
    page.get_by_role("button", name="Compose").click()
    expect(page.get_by_role("heading", name="Piano roll")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as MIDI").click()
    assert download.value.suggested_filename == "composed_1.mid"
    song = tmp_path / "song.mid"
    download.value.save_as(song)
    assert parse_midi(song.read_bytes()).notes
    page.locator("input[type=file]").set_input_files(song)  # what it composed is also something to read
    expect(page.locator(".answer")).to_contain_text("nats per frame")
    expect(page.get_by_role("heading", name="Piano roll")).to_have_count(2)
    cut = tmp_path / "cut.mid"
    cut.write_bytes(song.read_bytes()[:40])
    page.locator("input[type=file]").set_input_files(cut)
    expect(page.get_by_role("alert")).to_contain_text("cut.mid")


def test_a_drawing_for_a_model_of_pen_strokes_is_sent_as_movements(page: Any) -> None:
    rows = page.evaluate(
        """async () => {
          const { penStrokes } = await import("/static/drawing.js");
          return penStrokes([[[10, 40], [40, 40], [40, 10]], [[60, 20]]], 2, 0.1);  // right by 3, up by 3; a dot
        }"""
    )
    expected = [[0, 0, 0], [2, 0, 0], [1, 1, 0], [0, 2, 1], [2, -1, 1]]
    assert rows == [pytest.approx(row) for row in expected]


def test_a_drawing_and_a_recording_are_sent_as_files(page: Any) -> None:
    page.goto("/try?run=transcribe")
    sent: list[tuple[str, bytes]] = []
    known: dict[str, Any] = {"unknown": {"words": [], "read_by": ""}}

    def keep(route: Any) -> None:
        body = route.request.post_data_buffer
        name = re.search(rb'filename="([^"]+)"', body)
        sent.append((name[1].decode() if name else "", body))
        answer = {"version": "", "prediction": {"text": f"answer {len(sent)}"}, **known}
        route.fulfill(body=json.dumps(answer))

    page.route("**/api/predict", keep)
    try:
        pad = page.get_by_label("Draw here").bounding_box()
        page.mouse.move(pad["x"] + 20, pad["y"] + 20)
        page.mouse.down()
        page.mouse.move(pad["x"] + 90, pad["y"] + 60, steps=4)
        page.mouse.up()
        expect(page.get_by_text("answer 1")).to_be_visible()
        expect(page.get_by_text("The image that the model reads")).to_be_visible()
        assert page.get_by_label("Draw here").bounding_box() == pad  # it stays under the pen
        page.get_by_role("button", name="Record").click()
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_text("answer 2")).to_be_visible()
    finally:
        page.unroute("**/api/predict")
    assert [name for name, _ in sent] == ["drawing.png", "recording.wav"]
    assert b"\x89PNG" in sent[0][1]
    assert b"WAVEfmt " in sent[1][1]


def test_one_cursor_moves_through_all_views(page: Any) -> None:
    page.goto("/inside?run=tag&text=the+Anna+sees+Paris")
    tokens = page.locator("button.token")
    expect(tokens).to_have_count(4)
    tokens.nth(2).hover()
    expect(tokens.nth(2)).to_contain_class("current")
    assert page.locator(".cursor:not([hidden])").count() >= 2
    tokens.nth(0).focus()
    page.keyboard.press("ArrowRight")
    expect(tokens.nth(1)).to_be_focused()
    expect(page.locator("tr[aria-selected=true]")).to_contain_text("Anna")
    page.get_by_label("Input", exact=True).fill("the Anna")
    expect(tokens).to_have_count(2)
    saved = download(page, page.get_by_role("button", name="Save", exact=True))
    assert saved.startswith("<!doctype html>")
    assert "<script" not in saved
    assert "data:image/png" in saved
    assert "the Anna" in saved
    # What an edit changes stands beside what was there before, also after a reload.
    page.get_by_role("button", name="Compare with an edit").click()
    expect(page.get_by_text("Edit it above")).to_be_visible()
    page.get_by_label("Input", exact=True).fill("the Paris")
    changed = page.locator("#difference")
    expect(changed.get_by_text("After", exact=True)).to_be_visible()
    page.reload()
    expect(changed.locator("mark.edit")).to_have_text(["Anna", "Paris"])
    expect(changed.get_by_role("img", name=re.compile("How much the hidden states change"))).to_be_visible()
    changed.get_by_role("button", name="Close").click()
    expect(changed).to_have_count(0)
    picture = page.get_by_role("button", name=re.compile("Save .* state as SVG")).first
    picture.focus()
    assert "<image" in download(page, picture)


def test_a_phrase_and_a_unit_lead_to_places_in_the_dev_data(page: Any) -> None:
    page.goto("/inside?run=first&example=1")
    tokens = page.locator("button.token")
    tokens.nth(0).focus()
    page.keyboard.down("Shift")
    page.keyboard.press("ArrowRight")
    page.keyboard.up("Shift")  # selected with the keyboard only
    expect(page.locator(".places tbody tr").first).to_contain_text("1")
    assert "from=0&to=2" in page.url
    page.reload()
    expect(page.locator(".places tbody tr").first).to_be_visible()  # the address keeps the phrase
    expect(page.locator("button.token.selected")).to_have_count(2)
    states = page.get_by_role("img", name=re.compile("hidden state")).first
    states.press("ArrowDown")
    states.press("Enter")  # a unit is chosen with the keyboard only
    expect(page.get_by_role("columnheader", name="lowest")).to_be_visible()
    expect(page.locator(".shaded-text .shaded")).to_have_count(tokens.count())  # its value at each token
    unit = page.get_by_role("heading", name=re.compile("What does unit")).inner_text()
    page.reload()
    expect(page.get_by_role("heading", name=unit)).to_be_visible()  # the address keeps the unit
    expect(page.get_by_text("The norm of the gradient")).to_be_visible()
    page.locator(".places a").first.click()
    expect(page.get_by_role("heading", name="Inside")).to_be_visible()


def test_the_inside_of_every_task_is_shown(page: Any, folder: Path) -> None:
    for name in ("classify", "language_model", "translate"):
        question = json.loads((KEPT / name / "answers.json").read_text())["inputs"][0]
        if isinstance(question, str):
            page.goto(f"/inside?run={name}&text={question}")
            expect(page.get_by_role("heading", name="Answer")).to_be_visible()
            assert page.get_by_role("alert").count() == 0
    page.get_by_label("show the search").check()
    expect(page.get_by_role("img", name=re.compile("Search with"))).to_be_visible()
    for name in ("forecast", "caption", "embed", "transcribe"):
        page.goto(f"/inside?run={name}")
        expect(page.get_by_role("heading", name=re.compile("Choose an input|Type a text"))).to_be_visible()
    page.get_by_text("or type numbers").click()
    page.get_by_label("Rows of numbers").fill("0 1 0\n" * 12)
    page.get_by_role("button", name="Use these numbers").click()
    expect(page.get_by_role("heading", name="How the transcript was read")).to_be_visible()
    page.get_by_role("img", name=re.compile("hidden state")).first.hover()
    for chart in page.locator("line.cross").all():  # of what the model reads, and of the frames
        expect(chart).to_have_attribute("visibility", "visible")


def test_a_chart_is_saved_and_colours_are_kept(page: Any) -> None:
    page.goto("/run?run=tag")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save Loss as SVG").click()
    assert saved.value.suggested_filename == "tag-loss.svg"
    text = Path(saved.value.path()).read_text()
    assert text.startswith("<svg")
    for written in (">tag: Loss<", ">Loss<", ">training data<"):  # title, axis and legend
        assert written in text
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save", exact=True).click()
    assert saved.value.suggested_filename == "tag-run.html"
    content = Path(saved.value.path()).read_text()
    assert "<title>tag: Run</title>" in content
    assert "<button" not in content
    assert "See inside" not in content
    assert 'stroke="rgb' in text
    before = page.evaluate("document.documentElement.dataset.theme")
    page.locator("#theme").click()
    after = page.evaluate("document.documentElement.dataset.theme")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == after != before


def test_a_thousand_runs_are_a_table_of_few_rows(page: Any) -> None:
    page.goto("/")
    run = page.request.get("/api/runs").json()
    runs = [{**run["runs"][0], "id": f"run-{number}"} for number in range(1000)]
    page.route("**/api/runs*", lambda route: route.fulfill(body=json.dumps({"folder": "many", "runs": runs})))
    page.goto("/?sort=run")
    expect(page.get_by_text("1000 runs")).to_be_visible()
    assert page.locator("tbody tr").count() < 80
    page.locator(".table").evaluate("(element) => element.scrollTo(0, element.scrollHeight)")
    expect(page.get_by_role("link", name="run-999", exact=True)).to_be_visible()
    page.unroute("**/api/runs*")


def test_every_page_can_be_used_with_the_keyboard_and_read_aloud(page: Any) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # brand, first page, second page
    expect(page.get_by_role("heading", name="Compare", exact=True)).to_be_visible()
    for address in (
        "/",
        "/run?run=first",
        "/compare?runs=first&runs=second",
        "/data?run=first",
        "/try?run=first",
        "/inside?run=first&example=0",
        "/lab",
    ):
        page.goto(address)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("button, select, input, textarea, canvas, main svg[role=img], a")]
                .filter((each) => each.offsetParent !== null || each instanceof SVGElement)
                .filter((each) => !(each.getAttribute("aria-label") || each.textContent.trim() || each.title
                    || each.labels?.length || each.placeholder))
                .map((each) => each.outerHTML.slice(0, 120))"""
        )
        assert nameless == []
        assert page.locator("nav a[aria-current=page]").count() == 1


def test_an_empty_folder_says_what_to_do(browser: Any, tmp_path: Path) -> None:
    settings = ServiceSettings(port=0)
    with running(build_app(tmp_path, settings), settings) as port:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
        page.close()


def test_the_doctor_and_the_lab_show_their_findings(page: Any) -> None:
    page.goto("/doctor?run=first")
    expect(page.locator(".badge").first).to_be_visible()
    expect(page.get_by_text("Measured on")).to_be_visible()
    # tests/studio/test_app.py runs an experiment; here its answer is made up.
    verdict = {"status": "holds", "sentence": f"It does. {MARKUP}"}
    answer = {"verdict": verdict, "preset": "quick", "minutes": 0.1}
    page.route("**/api/lab/run", lambda route: route.fulfill(body=json.dumps(answer)))
    page.goto("/lab")
    card = page.locator("section.card", has_text="When do gradients vanish")
    card.get_by_role("button", name="Quick look").click()
    expect(card.get_by_text("the verdict means little")).to_be_visible()
    expect(card.get_by_text(MARKUP)).to_be_visible()
    page.unroute("**/api/lab/run")
