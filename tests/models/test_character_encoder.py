import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from seqloom.models.character_encoder import LONGEST, CharacterConfig, CharacterEncoder, distinct_words, to_characters

SYMBOLS = ("<pad>", "<unk>", *"etaoinshrdlu", "ß", "語", "😀")


def encoder(layers: int = 1) -> CharacterEncoder:
    torch.manual_seed(0)
    return CharacterEncoder(len(SYMBOLS), CharacterConfig(embedding_size=3, hidden_size=5, layers=layers)).double()


def spelled(rows: list[list[str]]) -> Tensor:
    longest = max(map(len, rows))
    flat = [word for row in rows for word in [*row, *[""] * (longest - len(row))]]
    return torch.from_numpy(to_characters(flat, SYMBOLS)).view(len(rows), longest, LONGEST)


WORDS = [["the", "sun", "the", "語"], ["ß", "the"], ["antidisestablishmentarianism-untold", "sun", "hat"]]


def one_by_one(model: CharacterEncoder, rows: list[list[str]]) -> list[list[Tensor]]:
    """Each word alone: the last output of the way ahead and the first one of the way back."""
    found: list[list[Tensor]] = []
    for row in rows:
        found.append([])
        for word in row:
            numbers = [SYMBOLS.index(symbol) if symbol in SYMBOLS else 1 for symbol in word]
            if len(numbers) > LONGEST:
                numbers = numbers[: LONGEST // 2] + numbers[-(LONGEST // 2) :]
            outputs, _ = model.layer(model.embed(torch.tensor([numbers])))
            found[-1].append(torch.cat([outputs[0, -1, :5], outputs[0, 0, 5:]]))
    return found


def test_a_word_is_its_last_states_whatever_its_place() -> None:
    for layers in (1, 2):
        model = encoder(layers)
        found = model(spelled(WORDS))
        for row, wanted in enumerate(one_by_one(model, WORDS)):
            torch.testing.assert_close(found[row, : len(wanted)], torch.stack(wanted), rtol=0, atol=1e-14)


def test_gradients_are_those_of_words_one_by_one() -> None:
    model = encoder()
    weights = torch.randn(3, 4, model.size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]], dtype=torch.bool)
    (model(spelled(WORDS)) * weights)[mask].sum().backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    alone = [torch.stack(row) * weights[number, : len(row)] for number, row in enumerate(one_by_one(model, WORDS))]
    torch.cat(alone).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=0, atol=1e-12)


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=40))
def test_distinct_rows_put_back_are_the_table(rows: list[list[int]]) -> None:
    table = torch.tensor([row * 2 for row in rows], dtype=torch.int16)
    words, places = distinct_words(table)
    assert torch.equal(words[places], table)
    assert len(words) == len({tuple(row) for row in rows})


@given(st.lists(st.text(st.sampled_from([*SYMBOLS[2:], "x", "\U0010ffff"]), max_size=2 * LONGEST), max_size=6))
def test_spelling(words: list[str]) -> None:
    found = to_characters(words, SYMBOLS)
    assert found.shape == (len(words), LONGEST)
    for row, word in zip(found, words, strict=True):
        kept = word if len(word) <= LONGEST else word[: LONGEST // 2] + word[-(LONGEST // 2) :]
        numbers = [SYMBOLS.index(symbol) if symbol in SYMBOLS else 1 for symbol in kept]
        assert np.array_equal(row, [*numbers, *[0] * (LONGEST - len(numbers))])
