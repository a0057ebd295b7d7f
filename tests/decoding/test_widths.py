"""The search for words at any width against a plain one, in which a hypothesis is the sum over its spellings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.decoding.every_path import Symbols, lexicon
from tests.decoding.frames.test_prefix_beam import SPELLINGS, emit, search
from tests.decoding.frames.test_prefix_stream import NEVER, Ends, both

from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import NGramLanguage
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.models.ngram.kneser_ney import estimate

State = tuple[Symbols, Symbols, int]  # words; symbols of the next one so far; the last symbol, -1 before the first
CLOSE = 1e-4  # what adds less than a part of 10^-5 is left out
EVERY = SPELLINGS | {
    "one end": ([(0, (1, 2)), (0, (3, 2)), (0, (2,)), (1, (1,)), (1, (3, 1)), (2, (3, 2)), (2, (2, 2))], None),
    "one separator": ([(0, (1,)), (0, (3,)), (0, (3, 1)), (1, (1, 3)), (1, (3, 3)), (2, (3,))], 2),
}
NUMBERS = [2, 0, 1, 3]
SAID = [[0, 0, 1, 1, 2, 0], [1, 0, 3], [2, 1, 0, 2], [3, 0, 0, 1], [2, 0, 1, 2, 0], [0, 1, 0]]
NGRAM = estimate(SAID, order=2, start=4, end=5, vocabulary=6)


def plain(
    frames: npt.NDArray[Any],
    spelling: list[tuple[int, Symbols]],
    separator: int | None,
    *,
    size: int,
    worth: Callable[[Symbols], float],  # of words so far
    ahead: Callable[[int], float],  # the most that is hoped for of one more word
) -> dict[Symbols, float]:
    """The score of each sequence of words, the end not counted."""
    ways = [(word, way if separator is None else (*way, separator)) for word, way in spelling]

    def rank(state: State, ends: Ends) -> float:
        deeper = [ahead(word) for word, way in ways if way[: len(state[1])] == state[1]]
        return both(ends) + worth(state[0]) + max(deeper)

    beam: dict[State, Ends] = {((), (), -1): (0.0, NEVER)}
    for frame in frames:
        after: dict[State, Ends] = {}
        for (words, begun, last), ends in beam.items():
            silent, again = after.get((words, begun, last), (NEVER, NEVER))
            stays = ends[1] + float(frame[last]) if last >= 0 else NEVER
            after[words, begun, last] = (
                float(np.logaddexp(silent, both(ends) + frame[0])),
                float(np.logaddexp(again, stays)),
            )
            for symbol in range(1, len(frame)):
                longer = (*begun, symbol)
                paths = (ends[0] if symbol == last else both(ends)) + float(frame[symbol])
                onward = [(words, longer, symbol)] * any(
                    way[: len(longer)] == longer and way != longer for _, way in ways
                )
                whole = {((*words, word), (), symbol) for word, way in ways if way == longer}
                for state in (*onward, *whole):
                    silent, again = after.get(state, (NEVER, NEVER))
                    after[state] = (silent, float(np.logaddexp(again, paths)))
        ranks = {state: rank(state, ends) for state, ends in after.items() if both(ends) > NEVER}
        order = sorted(ranks, key=lambda state: -ranks[state])
        edge = [ranks[state] for state in order[size - 1 : size + 1]]
        assume(len(edge) < 2 or edge[0] - edge[1] > 2 * CLOSE)  # where both are as good, either may live
        beam = {state: after[state] for state in order[:size]}
    found: dict[Symbols, float] = {}
    for (words, begun, _), ends in beam.items():
        ended = [words] if not begun else [(*words, word) for word, way in ways if way[:-1] == begun and separator]
        for said in set(ended):
            found[said] = float(np.logaddexp(found.get(said, NEVER), both(ends)))
    return {said: total + worth(said) for said, total in found.items()}


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
    guide = Guide(words, NGramLanguage(ngram, numbers=numbers), weight=weight, bonus=0.4)

    def worth(said: Symbols) -> float:
        scored = ngram.score([[numbers[word] for word in said]])[0][: len(said)]
        return weight * float(scored.sum()) + 0.4 * len(said)

    def ahead(word: int) -> float:
        return 0.4 + weight * float(ngram.log_probabilities[0][numbers[word]])

    wanted = plain(frames.numpy(), spelling, separator, size=size, worth=worth, ahead=ahead)
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
