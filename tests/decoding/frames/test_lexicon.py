"""A lexicon's tree against a dictionary of spellings; saved, loaded, and from a cache that may be damaged."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.decoding.frames.lexicon import ARRAYS, Lexicon

PAIRS = [("tea", [3, 2]), ("ta", [3, 4]), ("tea", [3]), ("tee", [3, 2]), ("é", [2])]


def spelt(lexicon: Lexicon) -> dict[tuple[int, ...], set[str]]:
    """All spellings that the tree holds, and their words."""
    found = defaultdict(set)
    for node in range(len(lexicon.symbols)):
        for word in lexicon.words_at[lexicon.words_first[node] : lexicon.words_first[node + 1]]:
            path, at = [], node
            while at:
                path.append(int(lexicon.symbols[at]))
                at = int(lexicon.parents[at])
            found[tuple(path[::-1])].add(lexicon.words[word])
    return dict(found)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.text(max_size=3), st.lists(st.integers(0, 5), min_size=1, max_size=4)), min_size=1))
def test_the_tree_holds_what_was_given(pairs: list[tuple[str, list[int]]]) -> None:
    truth = defaultdict(set)
    for word, spelling in pairs:
        truth[tuple(spelling)].add(word)
    lexicon = Lexicon(pairs)
    assert spelt(lexicon) == truth
    assert lexicon.words == list(dict.fromkeys(word for word, _ in pairs))
    assert spelt(Lexicon(pairs, separator=6)) == {(*spelling, 6): words for spelling, words in truth.items()}
    for node in range(len(lexicon.symbols)):
        children = range(lexicon.first[node], lexicon.first[node + 1])
        assert all(lexicon.parents[child] == node for child in children)
        symbols = lexicon.symbols[lexicon.first[node] : lexicon.first[node + 1]]
        assert (np.diff(symbols) > 0).all()


def test_what_a_lexicon_must_be() -> None:
    for pairs, message in (
        ([], "at least one word"),
        ([("a", [1]), ("b", [])], "the word 'b' has an empty spelling"),
        ([("a", [1]), ("b", [2, -3])], "the spelling of 'b' holds -3"),
        ([("a", [1]), ("b", [2, 9])], "the spelling of 'b' holds 9, wanted symbols from 0 on without the separator 9"),
    ):
        with pytest.raises(ValueError, match=message):
            Lexicon(pairs, separator=9)


@pytest.mark.parametrize("separator", [None, 7])
def test_saved_and_loaded(tmp_path: Path, separator: int | None) -> None:
    lexicon = Lexicon(PAIRS, separator=separator)
    lexicon.save(tmp_path / "lexicon")
    loaded = Lexicon.load(tmp_path / "lexicon")
    assert spelt(loaded) == spelt(lexicon)
    assert loaded.words == lexicon.words
    assert loaded.separator == separator


def test_a_cache_is_used_and_a_damaged_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    wanted = spelt(Lexicon(PAIRS, separator=7))
    assert spelt(Lexicon.cached(PAIRS, separator=7)) == wanted
    (folder,) = (tmp_path / "lexica").iterdir()
    built = []
    monkeypatch.setattr(Lexicon, "_build", lambda *_: built.append(1))
    assert spelt(Lexicon.cached(iter(PAIRS), separator=7)) == wanted
    assert not built
    monkeypatch.undo()
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    for name in ARRAYS[:5]:
        whole = (folder / f"{name}.npy").read_bytes()
        for damaged in (whole[:-3], whole[:-4] + b"\xff\xff\xff\x7f", b""):
            (folder / f"{name}.npy").write_bytes(damaged)
            if name == "symbols" and len(damaged) == len(whole):
                continue  # the search refuses a symbol that frames do not have
            assert spelt(Lexicon.cached(PAIRS, separator=7)) == wanted
        (folder / f"{name}.npy").write_bytes(whole)
    assert list((tmp_path / "lexica").iterdir()) == [folder]


def test_a_cache_that_cannot_be_written_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "file"))
    assert Lexicon.cached(PAIRS).words == ["tea", "ta", "tee", "é"]
