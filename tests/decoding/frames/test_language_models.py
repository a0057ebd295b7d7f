"""N-gram models as automata against the models; decoders of every kind against teacher forcing."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.contracts.test_search import DECODERS
from tests.decoding.frames.test_prefix_beam import emit, model, search

from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import NGramLanguage, StepLanguage, scorer
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.kernels.language import score
from seqloom.models.ngram.ngram import NGram


def pruned(ngram: NGram) -> NGram:
    """Without some n-grams of the middle order, so that parts of longer ones are not known."""
    keys, values = ngram.keys[0], ngram.log_probabilities[1]
    kept = np.arange(len(keys)) % 3 > 0
    rows = np.cumsum(kept) - 1
    before, last = np.divmod(ngram.keys[1], ngram.vocabulary)
    longer = kept[before]
    return replace(
        ngram,
        keys=(keys[kept], rows[before[longer]] * ngram.vocabulary + last[longer]),
        log_probabilities=(ngram.log_probabilities[0], values[kept], ngram.log_probabilities[2][longer]),
        log_backoffs=(ngram.log_backoffs[0], ngram.log_backoffs[1][kept]),
    )


@pytest.mark.parametrize("ngram", [model(1, 6), model(2, 6), model(3, 9), model(5, 7), pruned(model(3, 6, seed=2))])
def test_an_automaton_says_what_the_model_says(ngram: NGram) -> None:
    words = scorer(NGramLanguage(ngram, numbers=[0]), count=1, weight=1.0, bonus=0.0, unknown=0.0)
    arrays = (words.words, words.first, words.suffixes, words.log_probabilities, words.log_backoffs, words.table)
    draw = np.random.default_rng(0)
    for _ in range(50):
        text = draw.integers(0, ngram.vocabulary - 2, draw.integers(0, 9)).tolist()
        state, found = words.start, []
        for word in [*text, ngram.end]:
            value, state = score(words.kind, *arrays, state, word)
            found.append(value)
        np.testing.assert_allclose(found, ngram.score([text])[0], atol=1e-6)  # tables are in single precision


@pytest.mark.parametrize("name", ["lstm", "gru-2", "transformer", "mixed"])
@pytest.mark.parametrize("size", [3, 40])
def test_decoders_score_as_they_were_taught(name: str, size: int) -> None:
    case = DECODERS[name]()
    state = case.start(torch.tensor([0]))
    language = StepLanguage(case.step, state, start=1, end=2, numbers=[2, 0, 1, 3])
    found = search(PrefixBeam(size=size, nbest=3), emit(1, 14, 4), guide=Guide(None, language, weight=0.5))
    assert len({tuple(one.symbols) for one in found}) == 3
    for one in found:
        text = [[2, 0, 1, 3][symbol] for symbol in one.symbols]
        read, wanted = torch.tensor([[1, *text]]), torch.tensor([*text, 2])
        with torch.no_grad():
            logits = case.decoder(read, case.start(torch.tensor([0])))[0][0].log_softmax(dim=-1)
        truth = float(logits[torch.arange(len(wanted)), wanted].sum())
        assert one.language == pytest.approx(truth, abs=1e-4)  # single precision
