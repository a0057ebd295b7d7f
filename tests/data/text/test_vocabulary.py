from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.config import ConfigError
from seqloom.data.readers.text_files import DataError, Location
from seqloom.data.text.vocabulary import END, START, Labels, Vocabulary, build_vocabulary

TOKENS = st.lists(st.sampled_from(["a", "b", "c", "ä", "", "<unk>", "<pad>", "<s>", "long word"]))


@given(TOKENS, st.integers(0, 8), st.integers(1, 3), st.sampled_from([(), (START, END)]))
def test_tokens_are_ordered_by_count(tokens: list[str], size: int, minimum: int, specials: tuple[str, ...]) -> None:
    first = ("<pad>", "<unk>", *specials)
    if 0 < size < len(first):
        size = len(first)
    actual = build_vocabulary(tokens, size=size, min_count=minimum, specials=specials)
    pairs = sorted(
        (-number, token) for token, number in Counter(tokens).items() if token not in first and number >= minimum
    )
    expected = [*first, *(token for _, token in pairs)]
    assert list(actual.tokens) == (expected[:size] if size else expected)
    known = actual.tokens
    assert actual.encode(tokens) == [known.index(token) if token in known else 1 for token in tokens]
    assert actual.decode(actual.encode(known)) == list(known)
    assert len(actual) == len(known)
    assert all((token in actual) == (token in known) for token in tokens)
    again = Vocabulary.model_validate_json(actual.model_dump_json())
    assert again == actual
    assert again.index(START) == (2 if START in known[:3] else again.encode([START])[0])


@pytest.mark.parametrize("tokens", [(), ("a",), ("<unk>", "<pad>"), ("<pad>", "<unk>", "a", "a")])
def test_invalid_vocabularies_are_rejected(tokens: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        Vocabulary(tokens=tokens)


def test_size_without_room_for_special_tokens() -> None:
    with pytest.raises(ValueError, match="vocab_size is 3, but there are 4 special tokens: <pad> <unk> <s> </s>"):
        build_vocabulary("abc", size=3, specials=(START, END))


def test_labels() -> None:
    labels = Labels.of(["O", "B-PER", "O", "I-PER"])
    assert labels.names == ("B-PER", "I-PER", "O")
    assert [labels.index(name) for name in labels.names] == [0, 1, 2]
    assert len(labels) == 3
    assert "O" in labels
    assert "X" not in labels
    assert Labels.model_validate_json(labels.model_dump_json()) == labels
    with pytest.raises(DataError) as caught:
        labels.index("B-PERS", location=Location("dev.conll", 7))
    assert str(caught.value) == "dev.conll:7: label 'B-PERS' does not occur in the training data; did you mean 'B-PER'?"
    with pytest.raises(DataError, match="known labels: B-PER, I-PER, O"):
        labels.index("zzz")
    with pytest.raises(ConfigError):
        Labels(names=("a", "a"))
