"""The n-gram automaton against the n-gram model and against the naive look-up."""

from dataclasses import replace

import numpy as np
import pytest
from tests.decoding.frames.test_prefix_beam import model

from seqloom.decoding.frames.language_models import NGramLM, build_scorer
from seqloom.kernels.frame_beam import naive
from seqloom.kernels.frame_beam.ngram_scorer import score
from seqloom.models.ngram.ngram import NGram

Table = dict[tuple[int, ...], float]


def tables(ngram: NGram) -> tuple[Table, Table]:
    """The log-probability of every n-gram, and the back-off of every context, by its scorer."""
    rows: list[tuple[int, ...]] = [(word,) for word in range(ngram.vocabulary)]
    log_probs, log_backoffs = Table(), Table()
    for order, values in enumerate(ngram.log_probabilities):
        if order:
            rows = [(*rows[key // ngram.vocabulary], key % ngram.vocabulary) for key in ngram.keys[order - 1].tolist()]
        log_probs |= dict(zip(rows, values.tolist(), strict=True))
        if order < len(ngram.log_backoffs):
            log_backoffs |= dict(zip(rows, ngram.log_backoffs[order].tolist(), strict=True))
    return log_probs, log_backoffs


def pruned(ngram: NGram) -> NGram:
    """The model without some n-grams of the middle order, so that parts of longer ones are missing."""
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
def test_the_automaton_equals_the_model_and_the_naive_look_up(ngram: NGram) -> None:
    scorer = build_scorer(NGramLM(ngram, vocabulary_ids=[0]), count=1, weight=1.0, word_score=0.0, unk_score=0.0)
    arrays = (
        *(scorer.ngram_words, scorer.first_children, scorer.backoff_states),
        *(scorer.log_probs, scorer.log_backoffs, scorer.table),
    )
    log_probs, log_backoffs = tables(ngram)
    draw = np.random.default_rng(0)
    for _ in range(50):
        text = draw.integers(0, ngram.vocabulary - 2, draw.integers(0, 9)).tolist()
        state, actual = scorer.start, []
        sentence = (ngram.start, *text, ngram.end)
        for position, word in enumerate(sentence[1:], start=1):
            value, state = score(scorer.kind, *arrays, state, word)
            actual.append(value)
            context = sentence[max(0, position + 1 - len(ngram.log_probabilities)) : position]
            assert value == pytest.approx(naive.ngram_log_prob(log_probs, log_backoffs, context, word), abs=1e-6)
        np.testing.assert_allclose(actual, ngram.score([text])[0], atol=1e-6)  # tables are in single precision
