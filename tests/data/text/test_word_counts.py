"""Word counts and word ids, against plain Python."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.text.passages import passages
from seqloom.data.text.word_counts import PhraseSettings, WordIndex, count_words

SIZE = 1 << 14  # bytes of a passage
BLANKS = " \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2005\u200a\u2028\u2029\u202f\u205f\u3000"
TEXTS = st.lists(st.text(st.sampled_from("abé語\u200b\u2030\u3001" + BLANKS), max_size=60), max_size=8)


@given(TEXTS, st.integers(1, 3))
def test_words_match_str_split(texts: list[str], minimum: int) -> None:
    counts = Counter(word for text in texts for word in text.split())
    expected = sorted((-number, word) for word, number in counts.items() if number >= minimum)
    for threads in (1, 3):
        actual = count_words(passages(texts), min_count=minimum, threads=threads)
        assert [(-number, word) for word, number in zip(actual.words, actual.counts.tolist(), strict=True)] == expected
        assert actual.passages == len(texts)


@given(TEXTS)
def test_encode_gives_the_ids_of_known_words(texts: list[str]) -> None:
    known = ["a", "語", "bé", "ab"]
    words = WordIndex("\n".join(known))
    for text in texts:
        lines = [[known.index(word) for word in line.split() if word in known] for line in text.split("\n")]
        actual = "".join(chr(65 + number) if number >= 0 else " " for number in words.encode(text.encode()).tolist())
        assert actual.split() == ["".join(chr(65 + number) for number in line) for line in lines if line]


def test_table_grows() -> None:
    texts = [
        " ".join(f"{'x' * (number % 40)}{number}" for number in range(start, start + 3000))
        for start in range(0, 60_000, 2000)
    ]
    counts = Counter(word for text in texts for word in text.split())
    for threads in (1, 2):
        actual = count_words(passages(texts), threads=threads)
        assert dict(zip(actual.words, actual.counts.tolist(), strict=True)) == counts
    words = WordIndex("\n".join(actual.words))
    assert len(words) == len(actual.words)
    assert list(words) == actual.words
    assert all(words.find(actual.words[number]) == number for number in range(0, len(words), 997))


def test_max_words() -> None:
    assert count_words(passages(["c c c b b a a"]), max_words=2).words == ["c", "a"]


def test_words_are_found_by_spelling() -> None:
    words = WordIndex("the\nking\nQueen")
    assert [words.find(word) for word in ("the", "The", "KING", "Queen", "queen", "", "the king")] == [
        0,
        0,
        1,
        2,
        -1,
        -1,
        -1,
    ]
    assert (words.nearest("kingg"), words.nearest("zzzzzz")) == ("king", "")
    with pytest.raises(ValueError, match="duplicate word 'a'"):
        WordIndex("a\nb\na").find("a")
    assert len(WordIndex("")) == 0


def test_frequent_pairs_become_phrases() -> None:
    texts = ["new york is far\nnew york", "new books about york\nnew york", "is far about it"]
    actual = count_words(passages(texts), phrases=PhraseSettings(2.0, 1))
    total = sum(len(text.split()) for text in texts)
    score = (3 - 1) * total / (4 * 4)
    assert score >= 2
    assert "new_york" in actual.words
    words = WordIndex("\n".join(actual.words), pairs=actual.pairs)
    spelt = [words[number] if number >= 0 else "/" for number in words.encode(texts[0].encode()).tolist()]
    assert spelt[:1] == spelt[-1:] == ["new_york"]
    assert actual.counts[actual.words.index("new_york")] == 3
    assert actual.counts[actual.words.index("new")] == 1
    assert "new_york" not in count_words(passages(texts), phrases=PhraseSettings(score + 0.01, 1)).words
    assert not count_words(passages(texts)).pairs


def test_long_lines_are_cut_between_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.data.text.passages.SIZE", SIZE)
    path = tmp_path / "long.txt"
    numbers = np.random.default_rng(0).integers(0, 1000, 20_000).tolist()
    path.write_text(" ".join(map(str, numbers)))
    actual = list(passages(path))
    assert len(actual) > 3
    assert max(len(each.data) for each in actual) <= 2 * SIZE
    assert [int(word) for each in actual for word in each.data.split()] == numbers


@pytest.mark.parametrize("pair", [(0, 1, 2), (0, 1, 10**6), (-1, 0, 1), (0, 2**40, 1)])
def test_phrases_of_unknown_words_are_refused(pair: tuple[int, int, int]) -> None:
    """Of a run that is well signed but malicious: training would write outside of the matrix."""
    assert len(WordIndex("a\nb\na_b", pairs=[(0, 1, 2)]).encode(b"a b")) == 1
    with pytest.raises(ValueError, match="expected ids from 0 to 1"):
        WordIndex("a\nb", pairs=[pair])
