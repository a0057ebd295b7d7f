"""Forced alignment against the naive one and against all paths; blocks of frames against all frames at once."""

import math
from itertools import chain, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.kernels.ctc import naive
from seqloom.kernels.ctc.loss import loss
from seqloom.kernels.ctc.viterbi import align, align_graph, build_graph, frames_needed

SPELLING = st.lists(st.integers(1, 2), min_size=1, max_size=3)
WORDS = st.lists(st.lists(SPELLING, min_size=1, max_size=3), max_size=3)


def emit(seed: int, time: int, tokens: int = 3) -> npt.NDArray[Any]:
    logits = 2 * np.random.default_rng(seed).normal(size=(time, tokens))
    return np.asarray(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))


@given(st.integers(0, 99), st.integers(0, 6), WORDS, st.booleans(), st.integers(1, 7))
def test_the_alignment_is_the_best_path_of_all_spellings(
    seed: int, time: int, words: list[list[list[int]]], optional_end: bool, block: int
) -> None:
    if optional_end and words:
        words[-1] = [[*spelling, 1] for spelling in words[-1]]
    frames, graph = emit(seed, time), build_graph(words, optional_end=optional_end)
    spellings = [list(chain(*parts)) for parts in product(*words)]
    if optional_end and words:
        spellings += [spelling[:-1] for spelling in spellings]
    paths = naive.path_log_probs(frames)
    truth = max((max(paths.get(tuple(spelling), [-math.inf])) for spelling in spellings), default=-math.inf)
    spans = align_graph(frames, graph, blank=0)
    if spans is None:
        assert truth == -math.inf
        return
    visited = spans[:, 0] >= 0
    path = np.zeros(time, np.int64)
    for token, (first, last) in zip(graph.tokens[visited].tolist(), spans[visited].tolist(), strict=True):
        assert not path[first : last + 1].any()
        path[first : last + 1] = token
    assert graph.tokens[visited].tolist() in spellings
    assert frames[np.arange(time), path].sum() == pytest.approx(truth, abs=1e-12)
    np.testing.assert_array_equal(np.asarray(align_graph(frames, graph, blank=0, block=block)), spans)


@pytest.mark.parametrize("seed", range(5))
def test_alignment_in_blocks_equals_alignment_of_all_frames(seed: int) -> None:
    draw = np.random.default_rng(seed)
    words = [
        [draw.integers(1, 6, draw.integers(1, 6)).tolist() for _ in range(draw.choice([1, 1, 2, 4]))]
        for _ in range(draw.integers(10, 60))
    ]
    frames, graph = emit(seed, 400, 6), build_graph(words)
    whole = align_graph(frames, graph, blank=0)
    assert whole is not None
    for block in (1, 7, 64, 399):
        np.testing.assert_array_equal(np.asarray(align_graph(frames, graph, blank=0, block=block)), whole)


def test_float32_arrays_are_aligned() -> None:
    table = emit(1, 9, 4).astype(np.float32)
    spans = align(table, np.array([1, 1, 3]), 0)
    assert spans.shape == (3, 2)
    assert spans.dtype == np.int64
    assert (spans[:, 0] <= spans[:, 1]).all()
    assert spans[0, 1] + 1 < spans[1, 0]  # a blank between equal tokens
    assert spans[1, 1] < spans[2, 0]
    assert math.isinf(loss(table[:3], table[:3].copy(), np.array([1, 1, 3]), 0))


@given(frames=st.integers(1, 50), size=st.integers(1, 20), seed=st.integers(0, 1000))
def test_the_alignment_equals_the_naive_one(frames: int, size: int, seed: int) -> None:
    target = np.random.default_rng(seed).integers(1, 4, size)
    table = emit(seed, frames, 4)
    if frames_needed(target) > frames:
        with pytest.raises(ValueError, match=f"needs {frames_needed(target)} frames, not {frames}"):
            align(table, target, 0)
        return
    path = np.zeros(frames, np.int64)
    for token, (first, last) in zip(target.tolist(), align(table, target, 0).tolist(), strict=True):
        assert not path[first : last + 1].any()
        path[first : last + 1] = token
    score, expected = naive.viterbi(table, target.tolist())
    assert table[np.arange(frames), path].sum() == pytest.approx(score, rel=1e-12)
    assert naive.collapse(path.tolist(), 0) == naive.collapse(expected, 0) == tuple(target.tolist())
