"""Drawings as SVG and as text: their lines are those of the strokes."""

import re
from pathlib import Path

import numpy as np
import pytest

from seqloom.insight.drawing import Drawing, save_drawings
from seqloom.insight.stroke_text import stroke_lines

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


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x\.txt: expected a file that ends in \.png, \.svg, \.pdf"):
        save_drawings([SQUARE], tmp_path / "x.txt")


def test_text_shows_the_frame_of_a_square() -> None:
    lines = stroke_lines(Drawing.from_rows([[0, 0, 0], [7, 0, 0], [0, 7, 0], [-7, 0, 0], [0, -7, 1]]), height=2)
    assert lines == ["⡏⠉⠉⢹", "⣇⣀⣀⣸"]
    assert stroke_lines(Drawing.from_rows([])) == []
