"""Pieces of HTML are well formed, and show no text as markup."""

import re
from html.parser import HTMLParser

import pytest

from seqloom import html

VOID = {"br"}
NASTY = '<b>&"x"</b>'


class Checker(HTMLParser):
    """Collects texts, and fails at a tag that is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attributes: object) -> None:  # noqa: ARG002
        self.open += [tag] * (tag not in VOID)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def texts(page: str) -> list[str]:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert not checker.open
    return checker.texts


@pytest.mark.parametrize(
    "page",
    [
        html.block(html.heading(NASTY, "x"), html.remark("y")),
        html.table([NASTY, ""], [[html.escape("1"), html.bar(0.5, "2")]]),
        html.pairs({NASTY: 3}),
        html.coloured_words([NASTY, "b"], [0.5, -1.0]),
        html.labelled_words([NASTY, "b"], ["O", "B-PER"]),
        html.heatmap([NASTY], ["a", "b"], [[0.25, 0.75]]),
        html.colour_scale(1.0, negative=NASTY, positive="x"),
        html.signed_heatmap([NASTY], [[1.0, -0.5]], label="time"),
        html.beside(html.curve([3.0, 2.0, 1.0], label=NASTY), ""),
    ],
)
def test_html_is_well_formed_and_escaped(page: str) -> None:
    assert any(NASTY in text for text in texts(page)), texts(page)


def test_bars_and_colours_have_the_size_of_their_values() -> None:
    assert "width:45px" in html.bar(0.5)
    assert "width:90px;height:9px;background:rgb" in html.bar(7.0)
    words = html.coloured_words(["a", "b", "c"], [1.0, 0.0, -2.0])
    assert f"rgba({html.BLUE},0.375)" in words
    assert f"rgba({html.BLUE},0.000)" in words
    assert f"rgba({html.ORANGE},0.750)" in words


def test_a_curve_needs_two_points() -> None:
    assert html.curve([1.0], label="loss") == ""
    assert "loss: 3 → 1" in "".join(texts(html.curve([3.0, 1.0], label="loss")))


def test_ticks_are_round() -> None:
    assert html.ticks(3) == [1, 2, 3]
    assert html.ticks(46) == [1, 5, 10, 15, 20, 25, 30, 35, 40, 45]
    assert html.ticks(1001) == [1, 200, 400, 600, 800, 1000]


def test_a_heat_map_has_an_axis_and_curves() -> None:
    drawn = html.signed_heatmap(["a"], [[1.0, -1.0]], label="time step", size=2, curves=[[0.0, 1.0, 3.0]], marked=3)
    assert texts(drawn) == ["a", "+1", "-1", "1", "2", "3", "time step"]
    (points,) = re.findall(r'points="(.*?)"', drawn)
    (first, bottom), _, (last, top) = [tuple(map(float, point.split(","))) for point in points.split()]
    assert last - first == pytest.approx(html.MAP_WIDTH / 2)  # two of four positions, since each cell holds two
    assert (bottom, top) == pytest.approx((0.9 * html.MAP_CURVE_ROW, 0.1 * html.MAP_CURVE_ROW))
    assert drawn.count("stroke-dasharray") == 1
    assert "polyline" not in html.signed_heatmap(["a"], [[1.0, -1.0]], label="time step")


def test_a_scale_of_colours_has_numbers_and_meanings() -> None:
    scale = html.colour_scale(0.5678, negative="against x", positive="for x")
    assert "<span>−152</span><span>0</span><span>+152</span>" in html.colour_scale(152.3, negative="", positive="")
    assert texts(scale) == ["−0.57", "0", "+0.57", "against x", "for x"]
