"""Lexicon beam search at any beam size against the naive one."""

from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.decoding.frames.every_path import lexicon
from tests.decoding.frames.test_prefix_beam import SPELLINGS, emit, search

from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import NGramLM
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.kernels.ctc.naive import Tokens
from seqloom.kernels.frame_beam import naive
from seqloom.models.ngram.kneser_ney import estimate

TOLERANCE = 1e-4  # paths that would add less than 1e-5 are ignored
LEXICONS = SPELLINGS | {
    "shared ending": ([(0, (1, 2)), (0, (3, 2)), (0, (2,)), (1, (1,)), (1, (3, 1)), (2, (3, 2)), (2, (2, 2))], None),
    "one word separator": ([(0, (1,)), (0, (3,)), (0, (3, 1)), (1, (1, 3)), (1, (3, 3)), (2, (3,))], 2),
}
VOCABULARY_IDS = [2, 0, 1, 3]
TEXTS = [[0, 0, 1, 1, 2, 0], [1, 0, 3], [2, 1, 0, 2], [3, 0, 0, 1], [2, 0, 1, 2, 0], [0, 1, 0]]
NGRAM = estimate(TEXTS, order=2, start=4, end=5, vocabulary=6)


@pytest.mark.parametrize("name", LEXICONS)
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    seed=st.integers(0, 999),
    size=st.integers(1, 25),
    scale=st.sampled_from([0.5, 1.5, 3.0]),
    weight=st.sampled_from([0.3, 0.8]),  # not 0: homophones would have equal scores
    histories=st.sampled_from([0, 0, 1, 2]),
    merge=st.sampled_from(["sum", "max"]),
)
def test_the_beam_equals_the_naive_one(
    name: str, seed: int, size: int, scale: float, weight: float, histories: int, merge: Literal["sum", "max"]
) -> None:
    spelling, separator = LEXICONS[name]
    frames, words = emit(seed, 9, 4, scale), lexicon(spelling, separator)
    ids, ngram = VOCABULARY_IDS[: len(words)], NGRAM
    guide = Guide(words, NGramLM(ngram, vocabulary_ids=ids), weight=weight, word_score=0.4)

    def score_words(sequence: Tokens) -> float:
        scored = ngram.score([[ids[word] for word in sequence]])[0][: len(sequence)]
        return weight * float(scored.sum()) + 0.4 * len(sequence)

    def lookahead(word: int) -> float:
        return 0.4 + weight * float(ngram.log_probabilities[0][ids[word]])

    expected, margin = naive.lexicon_beam(
        frames.numpy(),
        spelling,
        separator,
        size=size,
        score_words=score_words,
        lookahead=lookahead,
        merge=max if merge == "max" else np.logaddexp,
        histories=histories,
    )
    assume(margin > 2 * TOLERANCE)  # where two scores are equal, either hypothesis may survive
    beam = PrefixBeam(size=size, nbest=100, histories=histories, merge=merge)
    end = {sequence: float(ngram.score([[ids[word] for word in sequence]])[0][-1]) for sequence in expected}
    actual = {tuple(transcript.words): transcript.score for transcript in search(beam, frames, guide=guide)}
    assert actual == pytest.approx(
        {sequence: score + weight * end[sequence] for sequence, score in expected.items()}, abs=TOLERANCE
    )


@pytest.mark.parametrize("nbest", [1, 3])
def test_spellings_are_merged_before_pruning(nbest: int) -> None:
    """Each of two spellings of a word is less probable than three other hypotheses, but their sum is not."""
    frames = torch.tensor([[0.01, 0.30, 0.30, 0.39], [0.12, 0.30, 0.30, 0.28]], dtype=torch.float64).log()
    words = lexicon([(0, (1, 3)), (0, (2, 3)), (1, (3,))], None)
    actual = search(PrefixBeam(size=3, nbest=nbest), frames, guide=Guide(words))
    assert actual[0].words == [0]
    assert actual[0].acoustic == pytest.approx(np.log(2 * 0.30 * 0.28), abs=1e-9)
