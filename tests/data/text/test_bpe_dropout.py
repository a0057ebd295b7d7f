"""BPE-dropout against the tokenizers library, which splits without dropout, and against the definition."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.text.bpe_dropout import BPEDropout
from seqloom.data.text.tokenizers import TextConfig, Tokenizer

TEXTS = ["the lowest of the low", "newer and lower", "the widest river, the newest tower", "  two  spaces\nand a line"]


def fitted(*, lowercase: bool = False) -> Tokenizer:
    config = TextConfig(unit="subwords", vocab_size=300, lowercase=lowercase)
    return config.fit(TEXTS * 3, specials=("</s>",))


@given(st.one_of(st.sampled_from(TEXTS), st.text(max_size=30)))
def test_without_dropout_texts_are_split_as_by_the_library(text: str) -> None:
    tokenizer = fitted()
    assert BPEDropout(tokenizer, 0.0).encode(text, np.random.default_rng(1)) == tokenizer.encode(text)


@given(st.text(max_size=30), st.floats(0, 0.99), st.integers(0, 1000))
def test_every_split_is_one_of_the_same_text(text: str, dropout: float, seed: int) -> None:
    tokenizer = fitted()
    ids = BPEDropout(tokenizer, dropout).encode(text, np.random.default_rng(seed))
    assert tokenizer.decode(ids) == tokenizer.decode(tokenizer.encode(text))


def test_text_is_lowercased_as_usual() -> None:
    tokenizer = fitted(lowercase=True)
    encode = BPEDropout(tokenizer, 0.0).encode
    assert encode("The LOWEST", np.random.default_rng(1)) == tokenizer.encode("the lowest")


def test_the_probability_of_each_split_of_a_word() -> None:
    """By the definition, for a word of three characters with the merges (a b) and (ab c)."""
    tokenizer = TextConfig(unit="subwords", vocab_size=262).fit(["abc"] * 5, specials=("</s>",))
    merges = json.loads(tokenizer.tokenizer)["model"]["merges"]
    assert [tuple(pair) for pair in merges] == [("a", "b"), ("ab", "c")]
    encode, random, dropout = BPEDropout(tokenizer, 0.3).encode, np.random.default_rng(3), 0.3
    counts = {1: 0, 2: 0, 3: 0}
    for _ in range(4000):
        counts[len(encode("abc", random))] += 1
    expected = {3: dropout, 2: (1 - dropout) * dropout, 1: (1 - dropout) ** 2}
    for length, probability in expected.items():  # four standard deviations
        deviation = 4 * (probability * (1 - probability) / 4000) ** 0.5
        assert counts[length] / 4000 == pytest.approx(probability, abs=deviation)
