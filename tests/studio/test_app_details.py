"""Details of the pages in a real browser: pictures as SVG, colours, slices, thresholds, lists by keyboard, a phone."""

import json
import re
import statistics
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest
from tests.chromium import CHROMIUM, download, expect, new_page

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed: scripts/setup installs it as root")
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    """The texts of a drawing, in their order."""
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]  # noqa: S314  our own file


def test_bars_coloured_words_and_small_curves_are_saved_as_svg(page: Any) -> None:
    page.goto("/try?run=classify&text=a")
    bars = page.get_by_role("button", name="Save the probabilities as SVG")
    bars.focus()
    saved = download(page, bars)
    labels = page.locator(".meter > span").all_inner_texts()
    assert texts(saved)[1:] == labels  # after the title
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"[^>]*fill="rgb', saved)]
    shares = page.locator(".meter i").evaluate_all("(bars) => bars.map((bar) => bar.getBoundingClientRect().width)")
    assert all(min(abs(width - share) for width in widths) < 0.01 for share in shares)
    page.goto("/inside?run=first&text=the+Anna+sees+Paris")
    assert texts(download(page, page.get_by_role("button", name="Save the tokens as SVG")))[1] == "the"
    page.goto("/?task=tag")
    saved = download(page, page.get_by_role("button", name="Save the curves as SVG"))
    assert "first" in texts(saved)
    assert saved.count("<path") >= 2


def test_a_run_has_one_colour_in_the_table_and_in_comparisons(page: Any) -> None:
    page.goto("/")
    tint = "(element) => getComputedStyle(element).getPropertyValue('--colour')"
    in_table = {name: page.get_by_role("link", name=name, exact=True).evaluate(tint) for name in ("first", "second")}
    page.goto("/compare?runs=second&runs=first")  # in another order
    cells = page.locator("td.swatch")
    expect(cells).to_have_count(2)
    assert {cell.inner_text(): cell.evaluate(tint) for cell in cells.all()} == in_table
    chosen = page.evaluate(
        """async () => {
          const { distinctColours, runColours } = await import("/static/runs.js");
          const runs = [...Array(12).keys()].map((number) => ({ id: `${number}`, started: `${100 + number}` }));
          const colours = distinctColours(["10", "0", "1"], runColours(runs));  // 0 and 10 have the same
          return [...colours.values()];
        }"""
    )
    assert chosen[0] == "var(--c0)"
    assert chosen[2] == "var(--c1)"
    assert len(set(chosen)) == 3


def test_targets_stand_beside_answers_that_are_both_wrong(page: Any) -> None:
    page.goto("/compare?runs=first&runs=second&pair=first&pair=second")
    result = page.request.post("/api/disagreements", data=json.dumps({"runs": ["first", "second"]})).json()
    place = next(
        place
        for place, each in enumerate(result["shown"])
        if all(answer != each["target"] for answer in each["answers"])
    )
    row = page.locator("section", has_text="Where two runs disagree").locator("tbody tr").nth(place)
    expect(row).to_be_visible()
    labels = (
        row.locator("td")
        .nth(1)
        .locator(".aligned > span")
        .evaluate_all("(parts) => parts.map((part) => part.lastChild.textContent)")
    )
    assert labels == result["shown"][place]["target"].split("\t")


def test_a_saved_page_has_the_colours_of_the_page(page: Any, browser: Any) -> None:
    page.goto("/inside?run=first&text=the+Anna+sees+Paris")
    expect(page.locator("button.token")).to_have_count(4)
    colours = """(tokens) => tokens.map((token) => {
      const { backgroundColor, color } = getComputedStyle(token);
      return [token.textContent, backgroundColor, color];
    })"""
    page.mouse.move(0, 0)
    seen = page.locator("main .strip .token").evaluate_all(colours)
    assert len({ground for _, ground, _ in seen}) > 2
    other = browser.new_page()
    other.set_content(download(page, page.get_by_role("button", name="Save", exact=True)))
    assert other.locator(".strip .token").evaluate_all(colours) == seen
    other.close()


def test_a_saved_table_says_which_rows_it_holds(page: Any, browser: Any) -> None:
    table = page.request.get("/api/answers?run=first").json()
    rows = [{**table["rows"][0], "example": number} for number in range(457)]
    page.route("**/api/answers*", lambda route: route.fulfill(json={**table, "rows": rows}))
    page.goto("/data?run=first")
    expect(page.get_by_text("457 examples")).to_be_visible()
    other = browser.new_page()
    for scrolled, words in (
        (0, "The first {} of 457 are saved here."),
        (4000, "Rows {} to {} of 457 are saved here."),
    ):
        page.locator(".answers .table").evaluate("(frame, top) => frame.scrollTo(0, top)", scrolled)
        if scrolled:
            expect(page.locator("tr[aria-rowindex='2']")).to_have_count(0)
        other.set_content(download(page, page.get_by_role("button", name="Save", exact=True)))
        saved = [int(text) for text in other.locator(".answers td.col-example").all_inner_texts()]
        assert saved == list(range(saved[0], saved[-1] + 1))
        ends = (saved[0], saved[-1]) if scrolled else (len(saved),)
        expect(other.locator(".answers .note")).to_have_text(words.format(*ends))
    other.close()
    page.unroute("**/api/answers*")


def test_unknown_words_are_named(page: Any) -> None:
    page.goto("/try?run=first&text=the+flurb+sees+<b>Zork</b>")
    note = page.get_by_text("not in the vocabulary")
    expect(note).to_contain_text("“flurb”, “<b>Zork</b>” are not in the vocabulary: the model reads them as <unk>")
    page.get_by_label("Input").fill("the flurb")
    expect(note).to_have_text(re.compile("^“flurb” is not in the vocabulary: the model reads it as <unk>"))
    page.get_by_role("link", name=re.compile("See inside")).click()
    expect(page.locator(".inside").get_by_text("“flurb” is not in the vocabulary")).to_be_visible()


def test_examples_are_one_tab_stop(page: Any) -> None:
    page.goto("/try?run=first&example=0")
    chips = page.locator(".list button")
    expect(chips.first).to_have_attribute("aria-pressed", "true")
    assert page.locator(".list button[tabindex='0']").count() == 1
    chips.first.focus()
    page.keyboard.press("ArrowRight")
    expect(chips.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(chips.nth(1)).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("End")
    expect(chips.last).to_be_focused()
    page.keyboard.press("Tab")
    assert page.locator(".list button:focus").count() == 0


def test_a_unit_is_chosen_by_its_number(page: Any) -> None:
    page.goto("/inside?run=first&example=1")
    field = page.get_by_label("Number of a unit")
    field.fill("3")
    field.press("Enter")
    expect(page.get_by_role("heading", name="What does unit 3 do?")).to_be_visible()
    assert re.search(r"unit=[^&]*3\b", page.url)
    expect(page.locator(".shaded-text .shaded[data-peak]")).to_have_count(1)
    peak = page.locator(".shaded-text .shaded[data-peak]").inner_text()
    expect(page.get_by_text(re.compile(rf"Strongest: \S+ at “{re.escape(peak)}” \(\d+\)\."))).to_be_visible()
    page.get_by_label("Layer of the states").select_option(index=1)  # the same unit of another layer
    expect(page.get_by_role("heading", name=re.compile("Unit 3 of encoder, backward"))).to_be_visible()
    field.fill("100000")
    field.press("Enter")
    expect(page.get_by_role("heading", name="What does unit 3 do?")).to_be_visible()  # there is no such unit


def test_all_differences_of_a_run_can_be_reached(page: Any) -> None:
    run = page.request.get("/api/runs").json()["runs"][0]
    settings = {f"task.setting_{number}": number for number in range(9)}
    own = {**run, "id": "own", "settings": {**run["settings"], **settings}, "changed": list(settings)}
    usual = [
        {**run, "id": f"usual-{number}", "settings": {**run["settings"], **dict.fromkeys(settings, -1)}}
        for number in range(3)
    ]
    answer = json.dumps({"folder": "many", "version": "1", "runs": [own, *usual]})
    page.route("**/api/runs*", lambda route: route.fulfill(body=answer))
    page.goto("/")
    more = page.get_by_role("button", name="What differs in own: show all 9")
    more.press("Enter")
    panel = page.get_by_role("dialog")
    expect(panel.locator(".chip")).to_have_count(9)
    expect(panel.get_by_text("setting_8")).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(more).to_be_focused()
    page.unroute("**/api/runs*")


def test_the_table_of_runs_fits_a_phone(browser: Any, address: str) -> None:
    problems: list[str] = []
    page = new_page(browser, address, problems, viewport={"width": 390, "height": 844}, base_url=address)
    page.goto("/?task=tag")
    frame = page.locator(".table")
    expect(page.get_by_role("row").filter(has_text="first")).to_be_visible()
    assert frame.evaluate("(element) => element.scrollWidth <= element.clientWidth")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="first", exact=True))
    assert row.bounding_box()["height"] == 76
    runs = {run["id"]: run for run in page.request.get("/api/runs").json()["runs"]}
    expect(row).to_contain_text(f"{runs['first']['best']['value']:.4g}")
    page.get_by_label("Sort").select_option("run")
    names = page.locator("tbody a").all_inner_texts()
    assert names == sorted(names)
    page.get_by_label("Select first").check()
    page.get_by_label("Select second", exact=True).check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("Settings that differ")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.context.close()
    assert problems == []


@pytest.mark.parametrize("width", [390, 1280])
def test_long_words_and_the_menu_fit_the_window(browser: Any, address: str, width: int) -> None:
    problems: list[str] = []
    page = new_page(browser, address, problems, viewport={"width": width, "height": 844}, base_url=address)
    word = "Supercali" * 17
    for path in (f"/try?run=first&text=the+{word}", f"/inside?run=first&text=the+{word}&from=0&to=2"):
        page.goto(path)
        expect(page.get_by_text("is not in the vocabulary")).to_be_visible()
        expect(page.locator(".token").last).to_contain_text(word)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        save = page.get_by_role("button", name="Save", exact=True)
        for part in [save, *page.locator("nav a").all()]:
            expect(part).to_be_in_viewport(ratio=1)
    page.context.close()
    assert problems == []


def test_two_runs_stand_in_one_order(page: Any) -> None:
    for runs in (["first", "second"], ["second", "first"]):
        page.goto(f"/compare?runs={runs[0]}&runs={runs[1]}")
        headings = page.locator("th", has_text=re.compile("^span_f1 of "))
        expect(headings).to_have_text([f"span_f1 of {run}" for run in runs])
        assert [page.get_by_label(f"{name} run").input_value() for name in ("First", "Second")] == runs


def test_what_cannot_be_measured_says_why(page: Any) -> None:
    page.goto("/inside?run=forecast&given=numbers.1_2*2_3*3_4*4_5*5_6")
    card = page.locator("section", has=page.get_by_role("heading", name="How far back does each output see?"))
    expect(card).to_contain_text("Not shown: a model of the task forecast cannot show how far back its outputs see")


def test_units_above_a_threshold_are_those_of_the_states(page: Any) -> None:
    page.goto("/")
    states = np.random.default_rng(1).normal(size=(40, 9)).round(3)
    found = page.evaluate(
        """async ([values, start, stop, threshold]) => {
          const { activeUnits } = await import("/static/states.js");
          const numbers = Float64Array.from(values.flat());
          return activeUnits(numbers, values.length, values[0].length, [start, stop], threshold);
        }""",
        [states.tolist(), 0, 2, 0.3],
    )
    inside, after = (states[:, :2] >= 0.3).all(axis=1), states[:, 2] < 0.3  # nothing is before the first step
    assert found == np.flatnonzero(inside & after).tolist() != []
    page.goto("/inside?run=first&example=1&from=0&to=1")
    page.get_by_label("Threshold").fill("-1")
    expect(page.locator(".pick [role=status]")).to_have_text("none")  # all units are above it everywhere
    page.reload()
    assert page.get_by_label("Threshold").input_value() == "-1"


def test_dev_data_are_cut_into_slices(page: Any) -> None:
    table = page.request.get("/api/answers?run=first").json()
    rows = [row for _ in range(6) for row in table["rows"]]  # enough to compare
    table["rows"] = [{**row, "example": number} for number, row in enumerate(rows)]
    page.route("**/api/answers*", lambda route: route.fulfill(json=table))
    page.goto("/data?run=first")
    page.get_by_label("Slices of the dev data").select_option("word")
    bar = page.locator(".slices [role=button]").first
    label = bar.get_attribute("aria-label")
    ((name, score, count),) = re.findall(r"^(.+): mean span_f1 ([\d.]+), (\d+) examples?$", label)
    rows = [row for row in table["rows"] if name in row["input"].lower().split("\t")]
    assert len(rows) == int(count)
    assert statistics.mean(row["score"] for row in rows if row["score"] is not None) == pytest.approx(
        float(score), rel=5e-3
    )
    bar.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"{count} of {len(table['rows'])} examples")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name=f"Remove the filter with the word {name}")).to_be_visible()
    page.unroute("**/api/answers*")
    words = page.evaluate(
        """async () => {
          const { worstWords } = await import("/static/slices.js");
          const rows = [...Array(60).keys()].map((number) => ({
            input: `every ${number % 2 ? "good" : "bad"} ${number % 3 ? "" : "third"}`,
            score: number % 2 ? 0.9 : 0.1 + (number % 5) / 50,
          }));
          return [worstWords(rows, true), worstWords(rows, false)];
        }"""
    )
    assert words[0][0] == "bad"
    assert words[1][0] == "good"
    assert "every" not in words[0] + words[1]  # it tells no examples apart


def test_parallel_axes_are_read_with_the_keyboard(page: Any) -> None:
    page.goto("/")
    expect(page.locator("tbody a").first).to_be_visible()  # nothing else will be drawn
    page.evaluate(
        """async () => {
          const { parallelCard } = await import("/static/parallel.js");
          const runs = [...Array(6).keys()].map((number) => ({
            id: `run ${number}`, task: "tag", metric: "accuracy", higher_is_better: true, best: { value: number },
            settings: { "encoder.cell": number % 2 ? "gru" : "lstm", "learning_rate": 10 ** -number, "seed": 1 },
          }));
          document.querySelector("main").replaceChildren(parallelCard(runs, () => "var(--c0)"));
        }"""
    )
    picture = page.get_by_role("img", name=re.compile("Settings and accuracy of 6 runs"))
    expect(picture.locator("path")).to_have_count(6)
    expect(picture.locator(".strong")).to_contain_text("accuracy")
    assert page.locator("svg.parallel text", has_text="seed").count() == 0  # it does not differ
    reading = page.locator("section [role=status]")
    picture.focus()
    for name in ("run 5", "run 4"):  # from the best on
        page.keyboard.press("ArrowDown")
        expect(reading).to_contain_text(f"{name}: accuracy {name[-1]}; encoder.cell")
    assert "<path" in download(page, page.get_by_role("button", name="Save the settings and the score as SVG"))
