"""Lexicon beam search at any beam size against the naive one."""

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
from seqloom.kernels.ctc.naive import Symbols
from seqloom.kernels.frame_beam import naive
from seqloom.models.ngram.kneser_ney import estimate

CLOSE = 1e-4  # what adds less than a part of 10^-5 is left out
EVERY = SPELLINGS | {
    "one end": ([(0, (1, 2)), (0, (3, 2)), (0, (2,)), (1, (1,)), (1, (3, 1)), (2, (3, 2)), (2, (2, 2))], None),
    "one separator": ([(0, (1,)), (0, (3,)), (0, (3, 1)), (1, (1, 3)), (1, (3, 3)), (2, (3,))], 2),
}
NUMBERS = [2, 0, 1, 3]
SAID = [[0, 0, 1, 1, 2, 0], [1, 0, 3], [2, 1, 0, 2], [3, 0, 0, 1], [2, 0, 1, 2, 0], [0, 1, 0]]
NGRAM = estimate(SAID, order=2, start=4, end=5, vocabulary=6)


@pytest.mark.parametrize("name", EVERY)
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    seed=st.integers(0, 999),
    size=st.integers(1, 25),
    scale=st.sampled_from([0.5, 1.5, 3.0]),
    weight=st.sampled_from([0.3, 0.8]),  # not 0: words that sound the same would be equally good
)
def test_a_beam_of_words_keeps_what_a_plain_one_keeps(
    name: str, seed: int, size: int, scale: float, weight: float
) -> None:
    spelling, separator = EVERY[name]
    frames, words = emit(seed, 9, 4, scale), lexicon(spelling, separator)
    numbers, ngram = NUMBERS[: len(words)], NGRAM
    guide = Guide(words, NGramLM(ngram, vocabulary_ids=numbers), weight=weight, word_score=0.4)

    def worth(said: Symbols) -> float:
        scored = ngram.score([[numbers[word] for word in said]])[0][: len(said)]
        return weight * float(scored.sum()) + 0.4 * len(said)

    def ahead(word: int) -> float:
        return 0.4 + weight * float(ngram.log_probabilities[0][numbers[word]])

    wanted, margin = naive.lexicon_beam(
        frames.numpy(), spelling, separator, size=size, score_words=worth, lookahead=ahead
    )
    assume(margin > 2 * CLOSE)  # where two are as good, either may survive
    beam = PrefixBeam(size=size, nbest=100)
    end = {said: float(ngram.score([[numbers[word] for word in said]])[0][-1]) for said in wanted}
    found = {tuple(one.words): one.score for one in search(beam, frames, guide=guide)}
    assert found == pytest.approx({said: score + weight * end[said] for said, score in wanted.items()}, abs=CLOSE)


@pytest.mark.parametrize("best", [1, 3])
def test_two_spellings_are_one_before_the_best_are_kept(best: int) -> None:
    """A word that is said in two ways, each less probable than three other hypotheses, but not both together."""
    frames = torch.tensor([[0.01, 0.30, 0.30, 0.39], [0.12, 0.30, 0.30, 0.28]], dtype=torch.float64).log()
    read = lexicon([(0, (1, 3)), (0, (2, 3)), (1, (3,))], None)
    found = search(PrefixBeam(size=3, nbest=best), frames, guide=Guide(read))
    assert found[0].words == [0]
    assert found[0].acoustic == pytest.approx(np.log(2 * 0.30 * 0.28), abs=1e-9)
