"""The CTC loss and its gradient against the naive ones, and against the sum over all paths."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from seqloom.kernels.ctc import naive
from seqloom.kernels.ctc.loss import log_space_loss, log_space_value, loss, loss_value
from seqloom.kernels.ctc.scaled import UNDERFLOWS, scaled_loss, scaled_value, workspace_size
from seqloom.kernels.ctc.viterbi import frames_needed


def softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    table: np.ndarray = exponentials / exponentials.sum(axis=1, keepdims=True)
    return table


def workspace(frames: int, size: int) -> np.ndarray:
    return np.full(workspace_size(frames, size), np.nan)


def example(seed: int, frames: int, size: int, scale: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    """Logits (T, 4) and a target."""
    random = np.random.default_rng(seed)
    return scale * random.normal(size=(frames, 4)), random.integers(1, 4, size)


@given(seed=st.integers(0, 1000), frames=st.integers(1, 15), size=st.integers(0, 8), scale=st.sampled_from([1.0, 30.0]))
def test_the_loss_and_its_log_space_version_equal_the_naive_one(
    seed: int, frames: int, size: int, scale: float
) -> None:
    logits, target = example(seed, frames, size, scale)
    if frames_needed(target) > frames:
        gradient = softmax(logits)
        assert loss(logits, gradient, target, 0) == np.inf
        assert not gradient.any()
        return
    expected, expected_gradient = naive.loss_and_gradient(logits, target.tolist())
    for compute in (loss, log_space_loss):
        gradient = softmax(logits)
        assert compute(logits, gradient, target, 0) == pytest.approx(expected, rel=1e-10, abs=1e-10)
        np.testing.assert_allclose(gradient, expected_gradient, atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_the_naive_loss_is_the_sum_over_all_paths(seed: int) -> None:
    logits, target = example(seed, 6, seed % 4)
    log_probs = np.log(softmax(logits))
    value, gradient = naive.loss_and_gradient(logits, target.tolist())
    log_probs_by_sequence = naive.sequence_log_probs(log_probs)
    assert value == pytest.approx(-log_probs_by_sequence[tuple(target.tolist())], rel=1e-12)
    for t, v in ((0, 0), (2, 1), (5, 3)):  # finite differences
        step = np.zeros_like(logits)
        step[t, v] = 1e-5
        higher, lower = (naive.loss_and_gradient(logits + sign * step, target.tolist())[0] for sign in (1, -1))
        assert gradient[t, v] == pytest.approx((higher - lower) / 2e-5, abs=1e-8)


@given(
    frames=st.integers(1, 60),
    size=st.integers(0, 20),
    scale=st.sampled_from([0.0, 1.0, 20.0, 100.0]),
    blanks=st.sampled_from([-50.0, 0.0, 5.0, 50.0]),
    single=st.booleans(),
    underflow=st.sampled_from(UNDERFLOWS),
    seed=st.integers(0, 1000),
)
def test_the_scaled_loss_is_exact_or_reports_underflow(
    frames: int, size: int, scale: float, blanks: float, single: bool, underflow: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    target = random.integers(1, 5, size)
    assume(frames_needed(target) <= frames)
    dtype = np.float32 if single else np.float64
    table = scale * random.normal(size=(frames, 5))
    table[:, 0] += blanks
    logits = table.astype(dtype)
    before = softmax(logits)
    gradient, expected = before.copy(), np.empty_like(logits)
    actual = scaled_loss(gradient, target, 0, underflow, workspace(frames, size))
    truth = log_space_loss(logits, expected, target, 0)
    if actual >= 0:
        assert actual == pytest.approx(truth, rel=1e-6 if single else 1e-12, abs=1e-6 if single else 1e-12)
        assert np.abs(gradient - expected).max() < (2e-5 if single else 1e-11)
    else:
        assert np.array_equal(gradient, before)  # unchanged, for the next attempt


@given(
    frames=st.integers(0, 60),
    size=st.integers(0, 20),
    scale=st.sampled_from([0.0, 1.0, 20.0, 100.0, 1000.0]),
    blanks=st.sampled_from([-500.0, -50.0, 0.0, 5.0, 50.0, 500.0]),
    seed=st.integers(0, 1000),
)
def test_the_scaled_value_is_exact_or_reports_underflow(
    frames: int, size: int, scale: float, blanks: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    target = random.integers(1, 5, size)
    logits = scale * random.normal(size=(frames, 5))
    logits[:, 0] += blanks
    probabilities = softmax(logits)
    if frames_needed(target) > frames:
        assert loss_value(logits, target, 0, probabilities) == np.inf
        return
    truth, actual = log_space_value(logits, target, 0), scaled_value(probabilities, target, 0)
    assert actual == -1 or actual == pytest.approx(truth, rel=1e-12, abs=1e-12)
    assert loss_value(logits, target, 0, probabilities) == pytest.approx(truth, rel=1e-12, abs=1e-12)


def test_the_scaled_value_of_an_improbable_target_in_a_long_recording() -> None:
    """Its probability is far below the smallest double, but no path is more probable than any other."""
    logits, target = np.zeros((1500, 40)), np.arange(300) % 39 + 1
    truth = log_space_value(logits, target, 0)
    assert truth > 4000
    assert scaled_value(softmax(logits), target, 0) == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("likely", [0.0, 5.0, 10.0])
def test_equal_frames_do_not_underflow(likely: float) -> None:
    logits = np.zeros((2000, 30))
    logits[:, 0] = likely
    assert scaled_loss(softmax(logits), np.arange(200) % 29 + 1, 0, UNDERFLOWS[0], workspace(2000, 200)) > 0
