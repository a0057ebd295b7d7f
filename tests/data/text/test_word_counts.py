"""Words counted and found again, against Python's own."""

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
def test_words_are_those_of_python(texts: list[str], minimum: int) -> None:
    counts = Counter(word for text in texts for word in text.split())
    wanted = sorted((-number, word) for word, number in counts.items() if number >= minimum)
    for threads in (1, 3):
        found = count_words(passages(texts), min_count=minimum, threads=threads)
        assert [(-number, word) for word, number in zip(found.words, found.counts.tolist(), strict=True)] == wanted
        assert found.passages == len(texts)


@given(TEXTS)
def test_numbers_are_those_of_the_words_that_are_known(texts: list[str]) -> None:
    known = ["a", "語", "bé", "ab"]
    words = WordIndex("\n".join(known))
    for text in texts:
        lines = [[known.index(word) for word in line.split() if word in known] for line in text.split("\n")]
        found = "".join(chr(65 + number) if number >= 0 else " " for number in words.encode(text.encode()).tolist())
        assert found.split() == ["".join(chr(65 + number) for number in line) for line in lines if line]


def test_a_table_grows() -> None:
    texts = [
        " ".join(f"{'x' * (number % 40)}{number}" for number in range(start, start + 3000))
        for start in range(0, 60_000, 2000)
    ]
    counts = Counter(word for text in texts for word in text.split())
    for threads in (1, 2):
        found = count_words(passages(texts), threads=threads)
        assert dict(zip(found.words, found.counts.tolist(), strict=True)) == counts
    words = WordIndex("\n".join(found.words))
    assert len(words) == len(found.words)
    assert list(words) == found.words
    assert all(words.find(found.words[number]) == number for number in range(0, len(words), 997))


def test_at_most_so_many() -> None:
    assert count_words(passages(["c c c b b a a"]), max_words=2).words == ["c", "a"]


def test_words_are_found_by_their_spelling() -> None:
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


def test_pairs_become_one() -> None:
    texts = ["new york is far\nnew york", "new books about york\nnew york", "is far about it"]
    found = count_words(passages(texts), phrases=PhraseSettings(2.0, 1))
    total = sum(len(text.split()) for text in texts)
    score = (3 - 1) * total / (4 * 4)
    assert score >= 2
    assert "new_york" in found.words
    words = WordIndex("\n".join(found.words), pairs=found.pairs)
    spelt = [words[number] if number >= 0 else "/" for number in words.encode(texts[0].encode()).tolist()]
    assert spelt[:1] == spelt[-1:] == ["new_york"]
    assert found.counts[found.words.index("new_york")] == 3
    assert found.counts[found.words.index("new")] == 1
    assert "new_york" not in count_words(passages(texts), phrases=PhraseSettings(score + 0.01, 1)).words
    assert not count_words(passages(texts)).pairs


def test_long_lines_are_cut_between_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.data.text.passages.SIZE", SIZE)
    path = tmp_path / "long.txt"
    numbers = np.random.default_rng(0).integers(0, 1000, 20_000).tolist()
    path.write_text(" ".join(map(str, numbers)))
    found = list(passages(path))
    assert len(found) > 3
    assert max(len(each.data) for each in found) <= 2 * SIZE
    assert [int(word) for each in found for word in each.data.split()] == numbers
