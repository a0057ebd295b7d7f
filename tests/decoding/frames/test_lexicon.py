"""A lexicon's tree against a dictionary of spellings; saved, loaded, and from a cache that may be damaged."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.decoding.frames.lexicon import ARRAYS, Lexicon

PAIRS = [("tea", [3, 2]), ("ta", [3, 4]), ("tea", [3]), ("tee", [3, 2]), ("é", [2])]


def spellings(lexicon: Lexicon) -> dict[tuple[int, ...], set[str]]:
    """All spellings in the tree, and their words."""
    by_spelling = defaultdict(set)
    for node in range(len(lexicon.tokens)):
        for word in lexicon.words_at[lexicon.words_first[node] : lexicon.words_first[node + 1]]:
            path, at = [], node
            while at:
                path.append(int(lexicon.tokens[at]))
                at = int(lexicon.parents[at])
            by_spelling[tuple(path[::-1])].add(lexicon.words[word])
    return dict(by_spelling)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.text(max_size=3), st.lists(st.integers(0, 5), min_size=1, max_size=4)), min_size=1))
def test_the_tree_holds_the_spellings(pairs: list[tuple[str, list[int]]]) -> None:
    truth = defaultdict(set)
    for word, spelling in pairs:
        truth[tuple(spelling)].add(word)
    lexicon = Lexicon(pairs)
    assert spellings(lexicon) == truth
    assert lexicon.words == list(dict.fromkeys(word for word, _ in pairs))
    assert spellings(Lexicon(pairs, separator=6)) == {(*spelling, 6): words for spelling, words in truth.items()}
    for node in range(len(lexicon.tokens)):
        children = range(lexicon.first[node], lexicon.first[node + 1])
        assert all(lexicon.parents[child] == node for child in children)
        tokens = lexicon.tokens[lexicon.first[node] : lexicon.first[node + 1]]
        assert (np.diff(tokens) > 0).all()


def test_invalid_lexica_are_rejected() -> None:
    for pairs, message in (
        ([], "at least one word"),
        ([("a", [1]), ("b", [])], "the word 'b' has an empty spelling"),
        ([("a", [1]), ("b", [2, -3])], "the spelling of 'b' contains -3"),
        (
            [("a", [1]), ("b", [2, 9])],
            "the spelling of 'b' contains 9, expected token ids of at least 0 without the separator 9",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            Lexicon(pairs, separator=9)


@pytest.mark.parametrize("separator", [None, 7])
def test_save_and_load(tmp_path: Path, separator: int | None) -> None:
    lexicon = Lexicon(PAIRS, separator=separator)
    lexicon.save(tmp_path / "lexicon")
    loaded = Lexicon.load(tmp_path / "lexicon")
    assert spellings(loaded) == spellings(lexicon)
    assert loaded.words == lexicon.words
    assert loaded.separator == separator


def test_the_cache_is_used_unless_it_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    expected = spellings(Lexicon(PAIRS, separator=7))
    assert spellings(Lexicon.cached(PAIRS, separator=7)) == expected
    (folder,) = (tmp_path / "lexica").glob("?" * 32)
    built = []
    monkeypatch.setattr(Lexicon, "_build", lambda *_: built.append(1))
    assert spellings(Lexicon.cached(iter(PAIRS), separator=7)) == expected
    assert not built
    monkeypatch.undo()
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    for name in (*ARRAYS, "sha256"):
        whole = (folder / f"{name}.npy").read_bytes()
        flipped = [bytes([*whole[:at], whole[at] ^ 1, *whole[at + 1 :]]) for at in range(-8, 0)]
        for damaged in (whole[:-3], whole[:-4] + b"\xff\xff\xff\x7f", b"", *flipped):
            (folder / f"{name}.npy").write_bytes(damaged)
            assert spellings(Lexicon.cached(PAIRS, separator=7)) == expected
            assert (folder / f"{name}.npy").read_bytes() == whole
        (folder / f"{name}.npy").write_bytes(whole)
    assert list((tmp_path / "lexica").iterdir()) == [folder]


def test_a_cache_that_cannot_be_written_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "file"))
    assert Lexicon.cached(PAIRS).words == ["tea", "ta", "tee", "é"]
