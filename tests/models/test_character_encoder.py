"""Word vectors from characters against words encoded one by one."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from seqloom.models.character_encoder import (
    MAX_CHARACTERS,
    CharacterConfig,
    CharacterEncoder,
    distinct_words,
    to_characters,
)

VOCABULARY = ("<pad>", "<unk>", *"etaoinshrdlu", "ß", "語", "😀")


def encoder(layers: int = 1) -> CharacterEncoder:
    torch.manual_seed(0)
    return CharacterEncoder(len(VOCABULARY), CharacterConfig(embedding_size=3, hidden_size=5, layers=layers)).double()


def characters(rows: list[list[str]]) -> Tensor:
    longest = max(map(len, rows))
    flat = [word for row in rows for word in [*row, *[""] * (longest - len(row))]]
    return torch.from_numpy(to_characters(flat, VOCABULARY)).view(len(rows), longest, MAX_CHARACTERS)


WORDS = [["the", "sun", "the", "語"], ["ß", "the"], ["antidisestablishmentarianism-untold", "sun", "hat"]]


def one_by_one(model: CharacterEncoder, rows: list[list[str]]) -> list[list[Tensor]]:
    """Each word alone: the last output of the forward direction and the first of the backward one."""
    vectors: list[list[Tensor]] = []
    for row in rows:
        vectors.append([])
        for word in row:
            ids = [VOCABULARY.index(character) if character in VOCABULARY else 1 for character in word]
            if len(ids) > MAX_CHARACTERS:
                ids = ids[: MAX_CHARACTERS // 2] + ids[-(MAX_CHARACTERS // 2) :]
            outputs, _ = model.layer(model.embed(torch.tensor([ids])))
            vectors[-1].append(torch.cat([outputs[0, -1, :5], outputs[0, 0, 5:]]))
    return vectors


def test_a_word_is_its_last_states_at_any_position() -> None:
    for layers in (1, 2):
        model = encoder(layers)
        vectors = model(characters(WORDS))
        for row, expected in enumerate(one_by_one(model, WORDS)):
            torch.testing.assert_close(vectors[row, : len(expected)], torch.stack(expected), rtol=0, atol=1e-14)


def test_gradients_are_those_of_words_one_by_one() -> None:
    model = encoder()
    weights = torch.randn(3, 4, model.size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]], dtype=torch.bool)
    (model(characters(WORDS)) * weights)[mask].sum().backward()
    vectors = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    alone = [torch.stack(row) * weights[index, : len(row)] for index, row in enumerate(one_by_one(model, WORDS))]
    torch.cat(alone).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(vectors[name], parameter.grad, rtol=0, atol=1e-12)


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=40))
def test_distinct_rows_restore_the_table(rows: list[list[int]]) -> None:
    table = torch.tensor([row * 2 for row in rows], dtype=torch.int16)
    words, inverse = distinct_words(table)
    assert torch.equal(words[inverse], table)
    assert len(words) == len({tuple(row) for row in rows})


@given(
    st.lists(st.text(st.sampled_from([*VOCABULARY[2:], "x", "\U0010ffff"]), max_size=2 * MAX_CHARACTERS), max_size=6)
)
def test_to_characters(words: list[str]) -> None:
    vectors = to_characters(words, VOCABULARY)
    assert vectors.shape == (len(words), MAX_CHARACTERS)
    for row, word in zip(vectors, words, strict=True):
        kept = word if len(word) <= MAX_CHARACTERS else word[: MAX_CHARACTERS // 2] + word[-(MAX_CHARACTERS // 2) :]
        ids = [VOCABULARY.index(character) if character in VOCABULARY else 1 for character in kept]
        assert np.array_equal(row, [*ids, *[0] * (MAX_CHARACTERS - len(ids))])
