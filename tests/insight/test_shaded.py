from pathlib import Path

import pytest

from seqloom.insight.shaded import BARS, draw_shaded, shaded_lines


def test_characters_have_bars_below() -> None:
    assert shaded_lines(list("a bc"), [0.0, 1.0, 2.0, 4.0]) == ["a␣bc", " ▂▄█"]
    assert shaded_lines(["a", "</s>"], [0.5, 1.0], largest=2.0) == ["a</s>", "▂▄▄▄▄"]


def test_words_stand_apart_with_what_belongs_below() -> None:
    assert shaded_lines(["go", "on"], [1.0, 0.5], below=["VERB", "PART"]) == ["go   on", "██   ▄▄", "VERB PART"]


def test_long_texts_are_broken() -> None:
    lines = shaded_lines(list("abcdef"), [1.0] * 6, width=4)
    assert lines == ["abcd", "████", "", "ef", "██"]


def test_every_height_is_used() -> None:
    _, bars = shaded_lines(list("abcdefghi"), [value / 8 for value in range(9)])
    assert bars == BARS


def test_pictures(tmp_path: Path) -> None:
    draw_shaded(["$a", "b$"] * 60, [0.1, 0.9] * 60, tmp_path / "a.png", below=["x", "y"] * 60, title="t", what="w")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="no symbols"):
        draw_shaded([], [], tmp_path / "b.png")
