"""Scaled products against logarithms, wherever they claim to be exact."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.kernels import ctc, ctc_logarithms


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    table: np.ndarray = powers / powers.sum(axis=1, keepdims=True)
    return table


@given(
    frames=st.integers(1, 60),
    size=st.integers(0, 20),
    scale=st.sampled_from([0.0, 1.0, 20.0, 100.0]),
    blanks=st.sampled_from([-50.0, 0.0, 5.0, 50.0]),
    single=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_scaled_products_are_exact_or_say_so(
    frames: int, size: int, scale: float, blanks: float, single: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    target = random.integers(1, 5, size)
    if ctc.frames_needed(target) > frames:
        return
    kind = np.float32 if single else np.float64
    table = scale * random.normal(size=(frames, 5))
    table[:, 0] += blanks
    logits = table.astype(kind)
    gradient, wanted = softmax(logits), np.empty_like(logits)
    found = ctc.scaled(gradient, target, 0)
    truth = ctc_logarithms.logarithmic(logits, wanted, target, 0)
    if found >= 0:
        assert found == pytest.approx(truth, rel=1e-6 if single else 1e-12, abs=1e-6 if single else 1e-12)
        assert np.abs(gradient - wanted).max() < (2e-5 if single else 1e-11)


@pytest.mark.parametrize("likely", [0.0, 5.0, 10.0])
def test_frames_that_are_all_alike_need_no_logarithms(likely: float) -> None:
    logits = np.zeros((2000, 30))
    logits[:, 0] = likely
    assert ctc.scaled(softmax(logits), np.arange(200) % 29 + 1, 0) > 0


def test_viterbi_needs_no_torch_and_no_copy() -> None:
    table = np.log(softmax(np.random.default_rng(1).normal(size=(9, 4)))).astype(np.float32)
    spans = ctc.viterbi(table, np.array([1, 1, 3]), 0)
    assert spans.shape == (3, 2)
    assert spans.dtype == np.int64
    assert (spans[:, 0] <= spans[:, 1]).all()
    assert spans[0, 1] + 1 < spans[1, 0]  # a blank between equal symbols
    assert spans[1, 1] < spans[2, 0]
    assert math.isinf(ctc.loss(table[:3], table[:3].copy(), np.array([1, 1, 3]), 0))
