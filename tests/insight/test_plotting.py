"""The style that all plots share: formats, titles, fonts, and orders of units."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from seqloom.insight import plotting
from seqloom.insight.learning_curves import draw_learning_curves
from seqloom.insight.plotting import named_plots, panel_figure, save_figure, sorted_units, titled


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_suffix_chooses_the_format(suffix: str, start: bytes, tmp_path: Path) -> None:
    first, second = tmp_path / "a" / f"x.{suffix}", tmp_path / "b" / f"x.{suffix}"
    for path in (first, second):
        figure = panel_figure(1, width=2, height=2)
        figure.axes[0].plot([1, 2], [2, 1])
        save_figure(figure, path, title="costs $1")
    assert first.read_bytes().startswith(start)
    assert first.read_bytes() == second.read_bytes()


def test_titles_begin_with_the_name_of_the_run() -> None:
    with named_plots("tag-2"):
        assert titled("gates") == "tag-2: gates"
        assert titled("") == "tag-2"
    assert titled("gates") == "gates"


def test_characters_without_a_font_are_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plotting._reported.clear()
    for number in range(2):
        figure = Figure()
        figure.text(0.5, 0.5, "\U0001f9f5\U00013000")  # an emoji and a hieroglyph
        save_figure(figure, tmp_path / f"{number}.png")
    error = capsys.readouterr().err
    assert error.count("no installed font has the characters") <= 1
    assert ("\U00013000" in error) == bool(error)


def test_all_fonts_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plotting, "_families", lambda: ("DejaVu Sans", "DejaVu Serif"))
    figure = panel_figure(1, width=2, height=2)
    label = figure.axes[0].set_xlabel("x")
    save_figure(figure, tmp_path / "x.png")
    assert label.get_fontfamily() == ["DejaVu Sans", "DejaVu Serif"]


def test_units_are_sorted_by_the_time_of_their_peak() -> None:
    values = np.zeros((4, 6))
    for unit, peak in enumerate((5, 1, 3, 0)):
        values[unit, peak] = 1
    assert sorted_units(values) == [3, 1, 2, 0]
    assert sorted_units(np.array([[2.0], [1.0]])) == [1, 0]


def test_updates_are_whole_numbers(tmp_path: Path) -> None:
    rows = [{"update": update, "epoch": update / 2, "loss": 1 / (1 + update)} for update in range(3)]
    figure = draw_learning_curves(rows, tmp_path / "x.png")
    ticks = [tick for tick in figure.axes[0].get_xticks() if 0 <= tick <= 2]
    assert ticks == [0, 1, 2]
