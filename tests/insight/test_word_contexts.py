"""The vectors of a word in several contexts, compared, printed and drawn."""

import math
from pathlib import Path

import pytest

from seqloom.insight.word_contexts import MAX_PAIRS, compare_contexts, cosine, draw_contexts, print_contexts
from seqloom.models.pretrained.contextual import ContextualVectors


def text(words: str, *layers: list[float]) -> ContextualVectors:
    """Each word has the same vectors."""
    return ContextualVectors(words.split(), [list(layers) for _ in words.split()])


def test_words_in_several_contexts_are_compared_by_each_layer() -> None:
    first = ContextualVectors(
        ["he", "threw", "the", "stick"], [[[0.0, 0.0], [0.0, 1.0]]] * 3 + [[[1.0, 0.0], [1.0, 0.0]]]
    )
    second = ContextualVectors(
        ["Stick", "to", "it"], [[[2.0, 0.0], [1.0, math.sqrt(3)]]] + [[[0.0, 1.0], [1.0, 1.0]]] * 2
    )
    (pair,) = compare_contexts([first, second])
    assert (pair.word, pair.first, pair.second) == ("stick", "he threw the [stick]", "[Stick] to it")
    assert pair.similarities == pytest.approx([1.0, 0.5])  # the same direction; 60 degrees


def test_long_contexts_are_cut_and_all_pairs_are_ordered() -> None:
    long = text("a b c d x e f g h", [1.0, 0.0])
    pairs = compare_contexts([long, text("x", [0.0, 1.0]), text("x y", [1.0, 1.0])])
    assert [pair.similarities[-1] for pair in pairs] == pytest.approx([0.0, math.sqrt(0.5), math.sqrt(0.5)])
    assert pairs[0].first == "… b c d [x] e f g …"
    assert len(compare_contexts([text("x " * 20, [1.0])])) == MAX_PAIRS
    assert compare_contexts([text("a b", [1.0])]) == []


def test_nothing_is_similar_to_zero() -> None:
    assert cosine([0.0, 0.0], [1.0, 0.0]) == 0.0
    assert cosine([3.0, 4.0], [-3.0, -4.0]) == pytest.approx(-1.0)


def test_table_and_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = compare_contexts([text("the $ stick", [1.0, 0.0], [1.0, 0.0]), text("a stick", [1.0, 0.0], [0.0, 1.0])])
    print_contexts(pairs)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[-1].strip() == "layer 1"
    assert lines[1].split() == ["the", "$", "[stick]", "a", "[stick]", "1.000", "0.000"]
    draw_contexts(pairs, tmp_path / "new" / "contexts.png")
    assert (tmp_path / "new" / "contexts.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="no word occurs twice"):
        draw_contexts([], tmp_path / "none.png")
