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
    corners = []
    for cell in sheet.findall(f"{SVG}g"):
        (path,) = cell
        left, top = re.findall(r"[\d.]+", cell.attrib["transform"])
        points = np.array(re.findall(r"([\d.]+),([\d.]+)", path.attrib["d"]), dtype=float)
        assert (points.min(), points.max()) == (pytest.approx(6.2, abs=0.1), pytest.approx(136 - 6.2, abs=0.1))
        corners.append((float(left), float(top)))
    assert corners == [(92, 24), (412, 24), (732, 24), (92, 184), (412, 184)]  # in the middle of 320 columns


def test_lines_of_a_sheet_are_equally_wide(tmp_path: Path) -> None:
    tall, wide = Drawing.from_rows([[0, 5, 0], [1, 5, 1]]), Drawing.from_rows([[50, 0, 0], [50, 1, 1]])
    save_drawings([tall, wide], tmp_path / "sheet.svg")
    sheet = ET.fromstring((tmp_path / "sheet.svg").read_text())  # noqa: S314  our own
    assert [path.attrib["stroke-width"] for path in sheet.iter(f"{SVG}path")] == ["2.0", "2.0"]
    points = [re.findall(r"([\d.]+),([\d.]+)", path.attrib["d"]) for path in sheet.iter(f"{SVG}path")]
    sizes = [np.ptp(np.array(each, dtype=float), axis=0).round().tolist() for each in points]
    assert sizes[0][1] == pytest.approx(136 / 1.1, abs=10)
    assert sizes[1][0] == pytest.approx(320 / 1.1, abs=10)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x\.txt: expected a file that ends in \.png, \.svg, \.pdf"):
        save_drawings([SQUARE], tmp_path / "x.txt")


def test_text_shows_the_frame_of_a_square() -> None:
    lines = stroke_lines(Drawing.from_rows([[0, 0, 0], [7, 0, 0], [0, 7, 0], [-7, 0, 0], [0, -7, 1]]), height=2)
    assert lines == ["⡏⠉⠉⢹", "⣇⣀⣀⣸"]
    assert stroke_lines(Drawing.from_rows([])) == []
