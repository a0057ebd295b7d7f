"""Attention heat maps as text and as plots."""

from pathlib import Path

import numpy as np
import pytest

from seqloom.insight.attention_plot import attention_lines, draw_attention, draw_attention_heads


def test_text_for_a_terminal() -> None:
    weights = [[1.0, 0.0, 0.0], [0.2, 0.5, 0.3], [0.0, 0.13, 0.87]]
    assert attention_lines(weights, list("a b"), ["x", "yy", "</s>"]) == [
        "     a ␣ b",
        "   x ██",
        "  yy ░░▒▒░░",
        "</s>   ░░▓▓",
    ]


def test_source_tokens_are_written_from_top_to_bottom() -> None:
    lines = attention_lines(np.eye(2), ["go", "extraordinarily"], ["va", "x"])
    assert len(lines) == 12 + 2
    assert "".join(line[5] if len(line) > 5 else " " for line in lines[:12]) == "extraordina…"
    assert [line[3] for line in lines[10:12]] == ["g", "o"]
    assert lines[-2:] == ["va ██", " x   ██"]


def test_every_shade_is_used() -> None:
    (_, row) = attention_lines([np.linspace(0, 1, 9)], list("abcdefghi"), ["x"])
    assert row == "x     ░░░░▒▒▒▒▓▓▓▓██"


def test_plot(tmp_path: Path) -> None:
    draw_attention(np.full((3, 4), 0.25), list("ab d"), ["one", "two", "</s>"], tmp_path / "new" / "a.png", title="a")
    assert (tmp_path / "new" / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("shape", [(2, 3), (0, 2)])
def test_invalid_weights_are_refused(shape: tuple[int, int], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"weights has shape|nothing to draw"):
        draw_attention(np.zeros(shape), ["a", "b"], [] if not shape[0] else ["x", "y"], tmp_path / "a.png")


def test_wide_sources_are_wrapped() -> None:
    lines = attention_lines(np.eye(12), list("abcdefghijkl"), list("abcdefghijkl"), width=20)
    assert max(map(len, lines)) <= 20
    assert len(lines) == 13 + 1 + 13
    assert lines[0] == "  a b c d e f g h i"
    assert lines[14] == "  j k l"


def test_heads_are_drawn_side_by_side(tmp_path: Path) -> None:
    maps = [(f"layer 1, head {number}", np.full((2, 3), 1 / 3)) for number in range(5)]
    draw_attention_heads(maps, ["a", "$b$", "</s>"], ["x", "y"], tmp_path / "heads.png")
    assert (tmp_path / "heads.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="no attention"):
        draw_attention_heads([], ["a"], ["b"], tmp_path / "heads.png")
