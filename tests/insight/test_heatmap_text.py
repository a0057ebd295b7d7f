"""Values of tokens as bars below a text, and as background colours of a plot."""

from pathlib import Path

import pytest

from seqloom.insight.heatmap_text import BARS, draw_heatmap_text, heatmap_lines, signed_heatmap_lines


def test_characters_have_bars_below() -> None:
    assert heatmap_lines(list("a bc"), [0.0, 1.0, 2.0, 4.0]) == ["a␣bc", " ▂▄█"]
    assert heatmap_lines(["a", "</s>"], [0.5, 1.0], maximum=2.0) == ["a</s>", "▂▄▄▄▄"]


def test_words_are_separated_and_have_captions() -> None:
    assert heatmap_lines(["go", "on"], [1.0, 0.5], captions=["VERB", "PART"]) == ["go   on", "██   ▄▄", "VERB PART"]


def test_long_texts_are_wrapped() -> None:
    lines = heatmap_lines(list("abcdef"), [1.0] * 6, width=4)
    assert lines == ["abcd", "████", "", "ef", "██"]


def test_every_height_is_used() -> None:
    _, bars = heatmap_lines(list("abcdefghi"), [value / 8 for value in range(9)])
    assert bars == BARS


def test_plot(tmp_path: Path) -> None:
    draw_heatmap_text(
        ["$a", "b$"] * 60, [0.1, 0.9] * 60, tmp_path / "a.png", captions=["x", "y"] * 60, title="t", label="w"
    )
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="no tokens"):
        draw_heatmap_text([], [], tmp_path / "b.png")


def test_small_contributions_keep_their_digits() -> None:
    assert signed_heatmap_lines(["a", "b"], [-0.004, 2.0])[-1].split() == ["−0.004", "+2.00"]
