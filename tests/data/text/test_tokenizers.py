import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.config import ConfigError
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.data.text.vocabulary import END, START

TEXTS = ["the cat sat on the mat", "The Cat's mats", "the dog", "  two  blanks ", "ä 三 😀"] * 3
ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
SUBWORDS = {
    name: TextConfig(unit="subwords", vocab_size=300, algorithm=name).fit(TEXTS, specials=(START, END))
    for name in ("bpe", "unigram")
}


@given(ANY)
def test_characters(text: str) -> None:
    encoding = TextConfig(unit="characters").fit(TEXTS, specials=(START,))
    known = set("".join(TEXTS))
    ids = encoding.encode(text)
    assert encoding.tokens(text) == list(text)
    assert [number == 1 for number in ids] == [character not in known for character in text]
    assert encoding.decode([2, *ids, 0, 0]) == "".join(
        character if character in known else "\ufffd" for character in text
    )


def test_words() -> None:
    encoding = TextConfig(lowercase=True, min_count=4).fit(TEXTS)
    assert encoding.vocabulary.tokens == ("<pad>", "<unk>", "the")
    assert encoding.tokens("The  CAT\tflew ") == ["the", "cat", "flew"]
    assert encoding.encode("THE flew") == [2, 1]
    assert encoding.decode([2, 1, 0]) == "the <unk>"
    assert len(TextConfig(vocab_size=4).fit(TEXTS).vocabulary) == 4


def test_vocabulary_size_and_min_count() -> None:
    encoding = TextConfig(vocab_size=6).fit(["b a c a b a d"], specials=(END,))
    assert encoding.vocabulary.tokens == ("<pad>", "<unk>", END, "a", "b", "c")


@given(ANY)
def test_bpe_round_trips_any_text(text: str) -> None:
    encoding = SUBWORDS["bpe"]
    ids = encoding.encode(text)
    assert encoding.decode(ids) == text
    assert min(ids, default=4) >= 4
    assert encoding.vocabulary.encode(encoding.tokens(text)) == ids


@given(
    st.text(
        "thecatsonmdg' ",
    )
)
def test_unigram_round_trips_words(text: str) -> None:
    encoding = SUBWORDS["unigram"]
    ids = encoding.encode(text)
    assert encoding.decode(ids) == " ".join(text.split())
    assert encoding.vocabulary.encode(encoding.tokens(text)) == ids


@given(ANY)
def test_unigram_encodes_any_text(text: str) -> None:
    encoding = SUBWORDS["unigram"]
    known = {token for token in encoding.vocabulary.tokens if len(token) == 1}
    normal = unicodedata.normalize("NFKC", text)
    ids = encoding.encode(text)
    assert set(ids) <= set(range(1, len(encoding.vocabulary)))
    if set(normal) <= known and normal.strip():
        assert 1 not in ids


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_subword_training_is_deterministic(algorithm: Any) -> None:
    lines = [
        " ".join(f"w{number % 17}{number % 5}{number % 3}" for number in range(start, start + 9)) for start in range(60)
    ]
    text = TextConfig(unit="subwords", algorithm=algorithm, vocab_size=320)
    assert len({text.fit(lines).model_dump_json() for _ in range(4)}) == 1


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
@pytest.mark.parametrize("unit", ["characters", "words", "subwords"])
@pytest.mark.parametrize("lower", [False, True])
def test_save_and_load(algorithm: Any, unit: Any, lower: bool) -> None:
    encoding = TextConfig(unit=unit, algorithm=algorithm, lowercase=lower, vocab_size=300).fit(
        TEXTS, specials=(START, END)
    )
    again = Tokenizer.model_validate_json(encoding.model_dump_json())
    assert again == encoding
    text = "The cat sat on a <unk> mat </s>"
    assert again.encode(text) == encoding.encode(text)
    assert again.decode(again.encode(text)) == encoding.decode(encoding.encode(text))
    assert len(again.vocabulary) <= 300
    assert again.vocabulary.tokens[:4] == ("<pad>", "<unk>", START, END)
    if lower:
        assert "T" not in again.decode(again.encode(text))


@pytest.mark.parametrize("encoding", SUBWORDS.values(), ids=SUBWORDS)
def test_every_id_decodes(encoding: Tokenizer) -> None:
    text = encoding.decode(range(len(encoding.vocabulary)))
    assert "the" in text
    assert not {START, END, "<pad>"} & {text[start : start + size] for start in range(len(text)) for size in (3, 4, 5)}


def test_unk_in_the_text_is_unknown() -> None:
    assert TextConfig().fit(["a <unk> b <unk>"]).encode("<unk> a") == [1, 2]


@pytest.mark.parametrize("specials", [(), (END,), (START, END)])
def test_special_tokens_in_the_text_are_unknown(specials: tuple[str, ...]) -> None:
    encoding = TextConfig().fit(["a </s> <pad> <s> <s> </s> <pad>"], specials=specials)
    assert encoding.vocabulary.tokens == ("<pad>", "<unk>", *specials, "a")
    assert encoding.encode("<pad> a </s> <s> <unk>") == [1, 2 + len(specials), 1, 1, 1]


@pytest.mark.parametrize("unit", ["characters", "words", "subwords"])
def test_fit_without_texts(unit: Any) -> None:
    for algorithm in ("bpe", "unigram"):
        encoding = TextConfig(unit=unit, algorithm=algorithm, vocab_size=300).fit([])
        assert encoding.encode("") == []
        assert encoding.decode([0]) == ""
        assert set(encoding.encode("a")) <= set(range(1, 300))


def test_too_small_vocabulary_sizes_are_errors() -> None:
    with pytest.raises(ValueError, match="BPE needs one for each of the 256 bytes"):
        TextConfig(unit="subwords", vocab_size=100).fit(TEXTS)
    with pytest.raises(ValueError, match="set it to more than 2"):
        TextConfig(unit="subwords", algorithm="unigram", vocab_size=2).fit(TEXTS)
    with pytest.raises(ConfigError):
        TextConfig(vocab_size=-1)


def test_texts_are_streamed_once() -> None:
    for unit in ("characters", "words", "subwords"):
        text = TextConfig(unit=unit, vocab_size=300)
        assert text.fit(iter(TEXTS)) == text.fit(TEXTS)


def test_library_tokens_are_preserved() -> None:
    encoding = SUBWORDS["bpe"]
    vocabulary = json.loads(encoding.tokenizer)["model"]["vocab"]
    assert sorted(vocabulary, key=vocabulary.get) == list(encoding.vocabulary.tokens[4:])
    assert "Ġthe" in vocabulary


def test_texts_with_line_breaks() -> None:
    """Every byte-level BPE can write a line break; that its texts have some shows in longer tokens."""
    code, prose = ["a:\n  b\n  c"] * 9, ["a b c \\N Ċ"] * 9
    for options in ({"unit": "characters"}, {"unit": "subwords", "vocab_size": 280}):
        assert [TextConfig(**options).fit(texts).has_line_breaks for texts in (code, prose)] == [True, False]
    assert TextConfig(split="lines").fit(code).has_line_breaks
    assert not TextConfig(split="punctuation").fit(code).has_line_breaks


def test_cased_tokens_align_with_tokens() -> None:
    words = TextConfig(lowercase=True).fit(["The cat"])
    assert (words.cased_tokens("The CAT"), words.tokens("The CAT")) == (["The", "CAT"], ["the", "cat"])
    letters = TextConfig(unit="characters", lowercase=True).fit(["abc"])
    assert letters.cased_tokens("Ab") == ["A", "b"]
    assert letters.cased_tokens("Aİ") == letters.tokens("Aİ")  # its lowercase form has two characters
    pieces = TextConfig(unit="subwords", lowercase=True, vocab_size=270).fit(["the cat"])
    assert pieces.cased_tokens("The Cat") == pieces.tokens("The Cat")
