"""Scaled products against logarithms, wherever they claim to be exact."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from seqloom.kernels import ctc, ctc_logarithms, ctc_products


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    table: np.ndarray = powers / powers.sum(axis=1, keepdims=True)
    return table


def memory(frames: int, size: int) -> np.ndarray:
    return np.full(ctc_products.memory_needed(frames, size), np.nan)


@given(
    frames=st.integers(1, 60),
    size=st.integers(0, 20),
    scale=st.sampled_from([0.0, 1.0, 20.0, 100.0]),
    blanks=st.sampled_from([-50.0, 0.0, 5.0, 50.0]),
    single=st.booleans(),
    dropped=st.sampled_from(ctc_products.DROPPED),
    seed=st.integers(0, 1000),
)
def test_scaled_products_are_exact_or_say_so(
    frames: int, size: int, scale: float, blanks: float, single: bool, dropped: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    target = random.integers(1, 5, size)
    assume(ctc.frames_needed(target) <= frames)
    kind = np.float32 if single else np.float64
    table = scale * random.normal(size=(frames, 5))
    table[:, 0] += blanks
    logits = table.astype(kind)
    before = softmax(logits)
    gradient, wanted = before.copy(), np.empty_like(logits)
    found = ctc_products.scaled(gradient, target, 0, dropped, memory(frames, size))
    truth = ctc_logarithms.logarithmic(logits, wanted, target, 0)
    if found >= 0:
        assert found == pytest.approx(truth, rel=1e-6 if single else 1e-12, abs=1e-6 if single else 1e-12)
        assert np.abs(gradient - wanted).max() < (2e-5 if single else 1e-11)
    else:
        assert np.array_equal(gradient, before)  # for another try


@pytest.mark.parametrize("likely", [0.0, 5.0, 10.0])
def test_frames_that_are_all_alike_need_no_logarithms(likely: float) -> None:
    logits = np.zeros((2000, 30))
    logits[:, 0] = likely
    assert (
        ctc_products.scaled(softmax(logits), np.arange(200) % 29 + 1, 0, ctc_products.DROPPED[0], memory(2000, 200)) > 0
    )


def test_viterbi_needs_no_torch_and_no_copy() -> None:
    table = np.log(softmax(np.random.default_rng(1).normal(size=(9, 4)))).astype(np.float32)
    spans = ctc.viterbi(table, np.array([1, 1, 3]), 0)
    assert spans.shape == (3, 2)
    assert spans.dtype == np.int64
    assert (spans[:, 0] <= spans[:, 1]).all()
    assert spans[0, 1] + 1 < spans[1, 0]  # a blank between equal symbols
    assert spans[1, 1] < spans[2, 0]
    assert math.isinf(ctc.loss(table[:3], table[:3].copy(), np.array([1, 1, 3]), 0))


def chain(table: np.ndarray, target: np.ndarray) -> float:
    """The score of the best path through blanks and symbols, state by state."""
    states = [0, *(state for symbol in target for state in (symbol, 0))]
    scores = [0.0, *[-math.inf] * (len(states) - 1)]
    for t, row in enumerate(table):
        new = []
        for state, symbol in enumerate(states):
            before = [scores[state]] if t or not state else []
            before += [scores[state - 1]] if state and (t or state == 1) else []
            if t and state > 1 and symbol not in (0, states[state - 2]):
                before.append(scores[state - 2])
            new.append(max(before, default=-math.inf) + float(row[symbol]))
        scores = new
    return max(scores[-2:])


@given(frames=st.integers(1, 50), size=st.integers(1, 20), seed=st.integers(0, 1000))
def test_viterbi_finds_the_best_path(frames: int, size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    target = random.integers(1, 4, size)
    table = np.log(softmax(3 * random.normal(size=(frames, 4))))
    if ctc.frames_needed(target) > frames:
        with pytest.raises(ValueError, match=f"needs {ctc.frames_needed(target)} frames, not {frames}"):
            ctc.viterbi(table, target, 0)
        return
    path = np.zeros(frames, np.int64)
    behind = 0
    for symbol, (first, last) in zip(target.tolist(), ctc.viterbi(table, target, 0).tolist(), strict=True):
        assert behind <= first <= last
        path[first : last + 1], behind = symbol, last + 1
    changes = np.flatnonzero(np.diff(path, prepend=-1))
    assert [symbol for symbol in path[changes].tolist() if symbol] == target.tolist()
    assert table[np.arange(frames), path].sum() == pytest.approx(chain(table, target), rel=1e-12)
