"""Log-probabilities of whole texts, all at once, against one text after the other."""

import numpy as np
import pytest
from tests.decoding.frames.test_prefix_beam import EMPTY, START, model, neural

from seqloom.decoding.frames.language_models import LM, NeuralLM, NGramLM
from seqloom.decoding.rescoring import text_log_probabilities

TEXTS = [[0, 2, 1], [], [3], [2, 0, 0, 3, 2, 1]]
ENDED = [True, True, False, False]
IDS = [2, 0, -1, 1]
UNKNOWN = 3


@pytest.mark.parametrize("order", [1, 2, 3])
def test_an_n_gram_model(order: int) -> None:
    ngram = model(order, 6)
    found = text_log_probabilities(NGramLM(ngram, vocabulary_ids=IDS, unknown=UNKNOWN), TEXTS, ended=ENDED)
    for value, text, ended in zip(found, TEXTS, ENDED, strict=True):
        (parts,) = ngram.score([[UNKNOWN if IDS[word] < 0 else IDS[word] for word in text]])
        assert value == pytest.approx(float(parts.sum() if ended else parts[:-1].sum()), abs=1e-12)


def test_a_decoder() -> None:
    step, score = neural(6, 5)
    lm = NeuralLM(step, EMPTY, start=START, end=5, vocabulary_ids=IDS, unknown=UNKNOWN)
    found = text_log_probabilities(lm, TEXTS[:2], ended=ENDED[:2])
    assert found == pytest.approx([score([2, 3, 0]), score([])], abs=1e-12)


@pytest.mark.parametrize("kind", ["n-gram", "decoder"])
def test_unknown_words_are_impossible_without_an_unknown_word(kind: str) -> None:
    lm: LM = NGramLM(model(2, 6), vocabulary_ids=IDS)
    if kind == "decoder":
        lm = NeuralLM(neural(6, 5)[0], EMPTY, start=START, end=5, vocabulary_ids=IDS)
    found = text_log_probabilities(lm, TEXTS, ended=ENDED)
    assert np.isneginf(found).tolist() == [True, False, False, True]
    assert len(text_log_probabilities(lm, [], ended=[])) == 0
