"""An n-gram model with the interface of a decoder against the n-gram model itself."""

from itertools import chain

import numpy as np
import pytest
import torch

from seqloom.data.batch import Batch, pad
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


def batch(texts: list[list[int]]) -> Batch:
    inputs = pad([np.array([END, *text]) for text in texts])
    return Batch(inputs, pad([np.array([*text, END]) for text in texts]).values, int(inputs.mask.sum()))


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_probabilities_are_those_of_the_model(order: int) -> None:
    model = estimate(TEXTS, order=order, start=0, end=END, vocabulary=len(SYMBOLS))
    texts = [*TEXTS, [1, 3], [5, 4, 3]]
    rows = counted(order).score_texts(batch(texts)).forward
    for actual, expected in zip(rows, model.score(texts), strict=True):
        assert actual == expected.tolist()


@pytest.mark.parametrize("order", [1, 2, 4])
def test_single_steps_have_the_same_probabilities(order: int) -> None:
    model = counted(order)
    together = batch([[3, 4, 5, 3], [5, 5, 1, 4]])
    target, expected = together.target, model.score_texts(together).forward
    state = model.start(None, 2)
    last = torch.tensor([END, END])  # as for any decoder, a text starts after an end token
    for position in range(target.shape[1]):
        log_probs, state = step(model, last, state)
        assert log_probs.exp().sum(dim=1).tolist() == pytest.approx([1.0, 1.0], abs=1e-6)
        assert log_probs[range(2), target[:, position]].tolist() == pytest.approx(
            [row[position] for row in expected], abs=1e-6
        )
        last = target[:, position]


def test_a_text_can_be_scored_in_parts() -> None:
    model, whole = counted(4), batch([[3, 4, 5, END, 4, 3], [5, 5, 1, 4, END, 3]])
    state, parts = None, list[list[list[float]]]()
    for columns in (slice(2), slice(2, 5), slice(5, None)):
        inputs = whole.inputs._replace(values=whole.inputs.values[:, columns], mask=whole.inputs.mask[:, columns])
        scores = model.score_texts(Batch(inputs, whole.target[:, columns], 0, state=state))
        state, parts = scores.state, [*parts, scores.forward]
    assert [list(chain.from_iterable(rows)) for rows in zip(*parts, strict=True)] == model.score_texts(whole).forward


def test_a_line_does_not_depend_on_the_one_before() -> None:
    model = counted()
    once, _ = model(torch.tensor([[END, 3]]), model.start(None, 1))
    twice, _ = model(torch.tensor([[END, 5, 5, END, 3]]), model.start(None, 1))
    assert torch.equal(once[:, -1], twice[:, -1])


def test_saved_and_loaded() -> None:
    model, other = counted(), NGramDecoder(lambda text: text, SYMBOLS, order=3, end=END)
    other.load_state_dict(model.state_dict())
    assert other.score_texts(batch(TEXTS)).forward == model.score_texts(batch(TEXTS)).forward


def test_an_unestimated_model_raises() -> None:
    empty = NGramDecoder(lambda text: text, SYMBOLS, order=3, end=END)
    assert empty.state_dict() == {}
    with pytest.raises(ValueError, match="the n-gram model has not been estimated yet"):
        empty.start(None, 1)
