"""An n-gram model with the interface of a decoder against the n-gram model itself."""

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.data.batch import pad
from seqloom.models.decoder import step
from seqloom.models.ngram.kneser_ney import estimate
from seqloom.models.ngram.ngram_decoder import NGramDecoder

SYMBOLS = ("<pad>", "<unk>", "</s>", "a", "b", "c")
END = 2
TEXTS = [[3, 4, 5], [3, 4], [], [5, 5, 3, 4], [4, 3, 4, 5, 3]]


def counted(order: int = 3) -> NGramDecoder:
    model = NGramDecoder(lambda text: text, SYMBOLS, order=order, end=END)
    model.count(TEXTS)
    return model


def batch(texts: list[list[int]]) -> tuple[Tensor, Tensor]:
    padded = pad([[*text, END] for text in texts], dtype=np.int64)
    return padded.values, padded.mask


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_probabilities_are_those_of_the_model(order: int) -> None:
    model = estimate(TEXTS, order=order, start=0, end=END, vocabulary=len(SYMBOLS))
    texts = [*TEXTS, [1, 3], [5, 4, 3]]
    rows = counted(order).log_probabilities(*batch(texts))
    for actual, expected in zip(rows, model.score(texts), strict=True):
        assert actual == expected.tolist()


@pytest.mark.parametrize("order", [1, 2, 4])
def test_single_steps_have_the_same_probabilities(order: int) -> None:
    model = counted(order)
    target, mask = batch([[3, 4, 5, 3], [5, 5, 1, 4]])
    expected = model.log_probabilities(target, mask)
    state = model.start(None, 2)
    last = torch.tensor([END, END])  # as for any decoder, a text starts after an end token
    for position in range(target.shape[1]):
        log_probs, state = step(model, last, state)
        assert log_probs.exp().sum(dim=1).tolist() == pytest.approx([1.0, 1.0], abs=1e-6)
        assert log_probs[range(2), target[:, position]].tolist() == pytest.approx(
            [row[position] for row in expected], abs=1e-6
        )
        last = target[:, position]


def test_a_line_does_not_depend_on_the_one_before() -> None:
    model = counted()
    once, _ = model(torch.tensor([[END, 3]]), model.start(None, 1))
    twice, _ = model(torch.tensor([[END, 5, 5, END, 3]]), model.start(None, 1))
    assert torch.equal(once[:, -1], twice[:, -1])


def test_saved_and_loaded() -> None:
    model, other = counted(), NGramDecoder(lambda text: text, SYMBOLS, order=3, end=END)
    other.load_state_dict(model.state_dict())
    assert other.log_probabilities(*batch(TEXTS)) == model.log_probabilities(*batch(TEXTS))


def test_an_unestimated_model_raises() -> None:
    empty = NGramDecoder(lambda text: text, SYMBOLS, order=3, end=END)
    assert empty.state_dict() == {}
    with pytest.raises(ValueError, match="the n-gram model has not been estimated yet"):
        empty.start(None, 1)
