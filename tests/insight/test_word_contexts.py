import math
from dataclasses import dataclass
from pathlib import Path

import pytest

from seqloom.insight.word_contexts import MAX_PAIRS, compare_contexts, cosine, draw_contexts, print_contexts


@dataclass
class Text:
    words: list[str]
    vectors: list[list[list[float]]]


def text(words: str, *layers: list[float]) -> Text:
    """Each word has the same vectors."""
    return Text(words.split(), [list(layers) for _ in words.split()])


def test_words_at_several_places_are_compared_by_each_layer() -> None:
    one = Text(["he", "threw", "the", "stick"], [[[0.0, 0.0], [0.0, 1.0]]] * 3 + [[[1.0, 0.0], [1.0, 0.0]]])
    other = Text(["Stick", "to", "it"], [[[2.0, 0.0], [1.0, math.sqrt(3)]]] + [[[0.0, 1.0], [1.0, 1.0]]] * 2)
    (pair,) = compare_contexts([one, other])
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
