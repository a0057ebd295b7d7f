"""Attention over an image as text and as plots."""

from pathlib import Path

import numpy as np
import pytest

from seqloom.insight.image_attention import draw_image_attention, image_attention_lines


def test_text_for_a_terminal() -> None:
    weights = np.array([[[1, 0], [0, 0]], [[0.25, 0.25], [0.25, 0.25]], [[0, 0.2], [0.1, 0.7]]])
    lines = image_attention_lines(weights, ["a", "b", "red"], width=20)
    assert lines == [
        "a          b",
        "██         ████",
        "           ████",
        "",
        "red",
        "  ░░",
        "░░██",
    ]
    assert image_attention_lines(np.zeros((0, 2, 2)), []) == []


@pytest.mark.parametrize("image", [np.zeros((6, 6, 3), np.uint8), np.full((6, 6), 0.5)])
def test_plot(image: np.ndarray, tmp_path: Path) -> None:
    draw_image_attention(image, np.full((8, 3, 3), 1 / 9), list("abcdefgh"), tmp_path / "p.png", title="a $ b $")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("shape", "maps", "words", "expected"),
    [
        ((4, 4, 2), (1, 2, 2), ["a"], "image has shape"),
        ((4, 4), (2, 2, 2), ["a"], "weights has"),
        ((4, 4), (0, 2, 2), [], "no words"),
    ],
)
def test_invalid_arguments_are_refused(
    shape: tuple[int, ...], maps: tuple[int, ...], words: list[str], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=expected):
        draw_image_attention(np.zeros(shape), np.zeros(maps), words, tmp_path / "p.png")
