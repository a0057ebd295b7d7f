"""The most probable path through alternatives against every path; blocks of frames against the whole at once."""

import math
from itertools import chain, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.decoding.every_path import paths

from seqloom.kernels.ctc_path import follow, join

SPELLING = st.lists(st.integers(1, 2), min_size=1, max_size=3)
WORDS = st.lists(st.lists(SPELLING, min_size=1, max_size=3), max_size=3)


def emit(seed: int, time: int, symbols: int = 3) -> npt.NDArray[Any]:
    logits = 2 * np.random.default_rng(seed).normal(size=(time, symbols))
    return np.asarray(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))


@given(st.integers(0, 99), st.integers(0, 6), WORDS, st.booleans(), st.integers(1, 7))
def test_the_best_of_all_paths_of_all_spellings(
    seed: int, time: int, words: list[list[list[int]]], loose: bool, block: int
) -> None:
    if loose and words:
        words[-1] = [[*way, 1] for way in words[-1]]
    frames, graph = emit(seed, time), join(words, loose=loose)
    spelt = [list(chain(*ways)) for ways in product(*words)]
    if loose and words:
        spelt += [way[:-1] for way in spelt]
    every = paths(frames)
    truth = max((max(every.get(tuple(way), [-math.inf])) for way in spelt), default=-math.inf)
    spans = follow(frames, graph, blank=0)
    if spans is None:
        assert truth == -math.inf
        return
    passed = spans[:, 0] >= 0
    path = np.zeros(time, np.int64)
    for symbol, (first, last) in zip(graph.symbols[passed].tolist(), spans[passed].tolist(), strict=True):
        assert not path[first : last + 1].any()
        path[first : last + 1] = symbol
    assert graph.symbols[passed].tolist() in spelt
    assert frames[np.arange(time), path].sum() == pytest.approx(truth, abs=1e-12)
    np.testing.assert_array_equal(np.asarray(follow(frames, graph, blank=0, block=block)), spans)


@pytest.mark.parametrize("seed", range(5))
def test_blocks_of_frames_find_what_the_whole_finds(seed: int) -> None:
    draw = np.random.default_rng(seed)
    words = [
        [draw.integers(1, 6, draw.integers(1, 6)).tolist() for _ in range(draw.choice([1, 1, 2, 4]))]
        for _ in range(draw.integers(10, 60))
    ]
    frames, graph = emit(seed, 400, 6), join(words)
    whole = follow(frames, graph, blank=0)
    assert whole is not None
    for block in (1, 7, 64, 399):
        np.testing.assert_array_equal(np.asarray(follow(frames, graph, blank=0, block=block)), whole)
