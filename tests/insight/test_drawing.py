"""Drawings as SVG and as text: their lines are those of the strokes."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from seqloom.insight.drawing import Drawing, save_drawings
from seqloom.insight.stroke_text import stroke_lines

SVG = "{http://www.w3.org/2000/svg}"
SQUARE = Drawing.from_rows([[0, 0, 0], [8, 0, 0], [0, 8, 0], [-8, 0, 1], [4, -4, 1]], "<b>")


def test_lines_end_where_the_pen_is_lifted() -> None:
    square, dot = SQUARE.lines()
    assert square.tolist() == [[0, 0], [8, 0], [8, 8], [0, 8]]
    assert dot.tolist() == [[4, 4]]
    assert Drawing.from_rows([]).lines() == []


def test_svg_keeps_proportions_and_escapes_the_text() -> None:
    svg = SQUARE.to_svg()
    assert "<title>&lt;b&gt;</title>" in svg
    lines = [
        np.array([point.split(",") for point in part.split(" L")], dtype=float)
        for part in re.findall(r"M([^M\"]+)", svg)
    ]
    assert [len(line) for line in lines] == [4, 2]  # a dot is a line to itself
    side = lines[0][1, 0] - lines[0][0, 0]
    assert side == pytest.approx(600 / 1.1, abs=0.2)
    assert lines[0][1, 1] - lines[0][2, 1] == pytest.approx(
        side, abs=0.2
    )  # y points upwards in strokes, downwards in SVG
    assert Drawing.from_rows([]).to_svg().startswith("<svg")


def test_a_sheet_shows_each_drawing_in_its_own_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # which is not needed
    texts = ["<b>", "a", "", "b & c", "d"]
    drawings = [replace(SQUARE, text=text) for text in texts]
    save_drawings(drawings, tmp_path / "sheet.svg")
    sheet = ET.fromstring((tmp_path / "sheet.svg").read_text())  # noqa: S314  our own
    assert sheet.attrib["viewBox"] == "0 0 960 320"
    assert [title.text or "" for title in sheet.findall(f"{SVG}text")] == texts
    cells = sheet.findall(f"{SVG}svg")
    corners = [(cell.attrib["x"], cell.attrib["y"]) for cell in cells]
    assert corners == [("0", "24"), ("320", "24"), ("640", "24"), ("0", "184"), ("320", "184")]
    alone = ET.fromstring(SQUARE.to_svg())  # noqa: S314
    (path,) = alone.findall(f"{SVG}path")
    for cell in cells:
        assert (cell.attrib["width"], cell.attrib["height"]) == ("320", "136")
        assert cell.attrib["viewBox"] == alone.attrib["viewBox"]
        assert [each.attrib for each in cell] == [path.attrib]


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x\.txt: expected a file that ends in \.png, \.svg, \.pdf"):
        save_drawings([SQUARE], tmp_path / "x.txt")


def test_text_shows_the_frame_of_a_square() -> None:
    lines = stroke_lines(Drawing.from_rows([[0, 0, 0], [7, 0, 0], [0, 7, 0], [-7, 0, 0], [0, -7, 1]]), height=2)
    assert lines == ["⡏⠉⠉⢹", "⣇⣀⣀⣸"]
    assert stroke_lines(Drawing.from_rows([])) == []
