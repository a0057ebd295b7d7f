"""The loss against a sum over all paths and against torch; alignments against the best of all paths."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from seqloom.layers import ctc
from seqloom.layers.ctc import align, ctc_log_probabilities, ctc_loss, frames_needed

EXACT = 1e-10  # what is promised; sums of at most 4⁶ terms in float64


def collapse(path: tuple[int, ...], *, blank: int) -> list[int]:
    return [token for token, _ in itertools.groupby(path) if token != blank]


def brute_force(logits: Tensor, target: list[int], *, blank: int = 0) -> float:
    """Minus the logarithm of the summed probability of all paths that collapse to the target."""
    frames, tokens = logits.shape
    table = logits.double().softmax(dim=1).tolist()
    paths = itertools.product(range(tokens), repeat=frames)
    total = math.fsum(
        math.prod(table[t][token] for t, token in enumerate(path))
        for path in paths
        if collapse(path, blank=blank) == target
    )
    return -math.log(total) if total else math.inf


def random(*shape: int, seed: int = 0, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def torch_loss(logits: Tensor, lengths: Tensor, targets: Tensor, target_lengths: Tensor, *, blank: int = 0) -> Tensor:
    frames = logits.log_softmax(dim=2).transpose(0, 1)
    return functional.ctc_loss(
        frames, targets, lengths, target_lengths, blank=blank, reduction="none", zero_infinity=True
    )


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("frames", [1, 2, 3, 4, 5, 6])
def test_sum_over_all_paths(frames: int, blank: int) -> None:
    tokens = [token for token in range(3) if token != blank]
    targets = [list(target) for size in range(5) for target in itertools.product(tokens, repeat=size)]
    logits = random(len(targets), frames, 3, seed=frames, scale=2)
    lengths = torch.full((len(targets),), frames)
    actual = ctc_loss(logits, lengths, [torch.tensor(target) for target in targets], blank=blank)
    for row, target in enumerate(targets):
        expected = brute_force(logits[row], target, blank=blank)
        assert actual.feasible[row] == (expected != math.inf) == (frames >= frames_needed(target))
        assert abs(actual.losses[row] - (expected if actual.feasible[row] else 0)) < EXACT


@given(
    rows=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=5),
    tokens=st.integers(2, 8),
    scale=st.sampled_from([0.0, 1.0, 10.0]),
    seed=st.integers(0, 100),
)
def test_values_and_gradients_equal_those_of_torch(
    rows: list[tuple[int, int]], tokens: int, scale: float, seed: int
) -> None:
    lengths, sizes = torch.tensor(rows).T
    logits = random(len(rows), 31, tokens, seed=seed, scale=scale).requires_grad_()
    targets = torch.randint(1, tokens, (len(rows), 13), generator=torch.Generator().manual_seed(seed))
    weights = random(len(rows), seed=seed + 1)
    actual = ctc_loss(logits, lengths, targets, sizes)
    needed = [frames_needed(target[:size].tolist()) for target, size in zip(targets, sizes, strict=True)]
    assert actual.feasible.tolist() == (lengths >= torch.tensor(needed)).tolist()
    expected = torch_loss(logits, lengths, targets, sizes)
    feasible = actual.feasible & (lengths > 0)  # torch's loss of no frames at all is not always 0
    assert torch.allclose(actual.losses[feasible], expected[feasible], rtol=1e-12, atol=1e-12)
    assert not actual.losses[~feasible].any()
    (gradient,) = torch.autograd.grad((weights * actual.losses).sum(), logits)
    assert not gradient[~feasible].any()
    if feasible.any():
        (other,) = torch.autograd.grad((weights * feasible * expected).sum(), logits)
        assert torch.allclose(gradient, other, atol=1e-11)  # torch subtracts logarithms up to some hundred


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 30.0, 300.0])
def test_extreme_logits(dtype: torch.dtype, scale: float) -> None:
    lengths, sizes = torch.tensor([60, 41, 25, 60]), torch.tensor([20, 20, 5, 0])
    signs = random(4, 60, 9, scale=scale).clamp(-scale, scale).to(dtype).requires_grad_()
    targets = torch.randint(1, 9, (4, 20), generator=torch.Generator().manual_seed(1))
    actual = ctc_loss(signs, lengths, targets, sizes)
    exact = signs.detach().double().requires_grad_()
    expected = torch_loss(exact, lengths, targets, sizes)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-13
    assert actual.feasible.all()
    assert torch.allclose(actual.losses.double(), expected, rtol=tolerance)
    (gradient,), (other,) = (
        torch.autograd.grad(loss.sum(), at) for loss, at in ((actual.losses, signs), (expected, exact))
    )
    # The gradient of torch comes from differences of logarithms up to 2e4.
    assert torch.allclose(gradient.double(), other, atol=1e-5 if dtype == torch.float32 else 1e-10)


@pytest.mark.parametrize("likely", [0.0, 8.0, 30.0, -30.0])
def test_long_rows_of_equal_frames(likely: float) -> None:
    """The forward and the backward pass alone favour states that contribute nothing to the sum."""
    lengths, sizes = torch.tensor([900]), torch.tensor([150])
    logits = torch.zeros(1, 900, 30, dtype=torch.float64)
    logits[..., 0] = likely
    logits.requires_grad_()
    targets = torch.randint(1, 30, (1, 150), generator=torch.Generator().manual_seed(1))
    actual, expected = ctc_loss(logits, lengths, targets, sizes).losses, torch_loss(logits, lengths, targets, sizes)
    assert torch.allclose(actual, expected, rtol=1e-12)
    (gradient,), (other,) = (torch.autograd.grad(loss.sum(), logits) for loss in (actual, expected))
    assert torch.allclose(gradient, other, atol=1e-9)


def test_single_precision_stays_accurate_over_many_frames() -> None:
    logits = random(2, 500, 40, dtype=torch.float32)
    arguments = torch.tensor([500, 450]), torch.randint(1, 40, (2, 60)), torch.tensor([60, 60])
    actual = []
    for at in (logits.requires_grad_(), logits.detach().double().requires_grad_()):
        losses = ctc_loss(at, *arguments).losses
        actual.append((losses.double(), torch.autograd.grad(losses.sum(), at)[0].double()))
    (losses, gradient), (exact, reference) = actual
    assert torch.allclose(losses, exact, rtol=1e-6)
    assert (gradient - reference).abs().max() < 1e-6  # torch's own, in logarithms of some thousand, is 1e-3 away


def test_the_loss_without_gradient_is_the_same() -> None:
    logits, lengths, targets = random(3, 20, 6).requires_grad_(), torch.tensor([20, 2, 9]), torch.randint(1, 6, (3, 4))
    expected = ctc_loss(logits, lengths, targets, torch.tensor([4, 4, 0]))
    with torch.no_grad():
        actual = ctc_loss(logits, lengths, targets, torch.tensor([4, 4, 0]))
        transposed = ctc_loss(
            logits.transpose(0, 1).contiguous().transpose(0, 1), lengths, targets, torch.tensor([4, 4, 0])
        )
    assert torch.equal(actual.losses, expected.losses)
    assert torch.equal(transposed.losses, expected.losses)
    assert torch.equal(actual.feasible, expected.feasible)
    assert not actual.losses.requires_grad


def test_gradient_equals_finite_differences() -> None:
    logits = random(3, 7, 4).requires_grad_()
    lengths, targets, sizes = torch.tensor([7, 5, 2]), torch.tensor([[1, 1, 2], [3, 1, 3], [1, 1, 0]]), [3, 3, 2]

    def losses(logits: Tensor) -> Tensor:
        return ctc_loss(logits, lengths, targets, torch.tensor(sizes)).losses

    assert torch.autograd.gradcheck(losses, [logits])
    total = losses(logits).sum()
    first, second = (torch.autograd.grad(total, logits, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_infeasible_rows_have_zero_loss_and_gradient() -> None:
    logits = random(5, 4, 3, dtype=torch.float32).requires_grad_()
    lengths = torch.tensor([4, 3, 0, 0, 2])
    targets = [torch.tensor(target, dtype=torch.long) for target in ([1, 1, 1], [1, 1], [1], [], [])]
    actual = ctc_loss(logits, lengths, targets)
    assert actual.feasible.tolist() == [False, True, False, True, True]
    assert actual.losses[[0, 2, 3]].tolist() == [0, 0, 0]
    empty = -logits[4, :2].log_softmax(dim=1)[:, 0].sum()
    assert float(actual.losses[4].detach()) == pytest.approx(float(empty.detach()), rel=1e-6)
    actual.losses.sum().backward()
    assert logits.grad is not None
    assert logits.grad.flatten(1).any(dim=1).tolist() == [False, True, False, False, True]


def test_a_target_of_probability_zero_is_infeasible() -> None:
    logits = random(2, 5, 4)
    logits[0, :, 2] = -torch.inf
    actual = ctc_loss(
        logits.requires_grad_(), torch.tensor([5, 5]), torch.tensor([[1, 2], [1, 2]]), torch.tensor([2, 2])
    )
    assert actual.feasible.tolist() == [False, True]
    actual.losses.sum().backward()
    assert logits.grad is not None
    assert not logits.grad[0].any()
    assert logits.grad[1].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_padding_and_other_rows_are_invisible(dtype: torch.dtype) -> None:
    lengths, sizes = torch.tensor([12, 7, 9]), torch.tensor([3, 4, 0])
    logits = random(3, 12, 5, dtype=dtype)
    targets = torch.randint(1, 5, (3, 6), generator=torch.Generator().manual_seed(1))
    alone = []
    for row, length in enumerate(lengths.tolist()):
        part = logits[row : row + 1, :length].clone().requires_grad_()
        loss = ctc_loss(part, lengths[row : row + 1], targets[row : row + 1], sizes[row : row + 1]).losses
        loss.sum().backward()
        alone.append((loss, part.grad))
    padded = torch.full((3, 40, 5), torch.nan, dtype=dtype)
    for row, length in enumerate(lengths.tolist()):
        padded[row, :length] = logits[row, :length]
        targets[row, int(sizes[row]) :] = -100
    actual = ctc_loss(padded.requires_grad_(), lengths, targets, sizes).losses
    actual.sum().backward()
    assert padded.grad is not None
    for row, (loss, gradient) in enumerate(alone):
        length = int(lengths[row])
        assert gradient is not None
        assert torch.equal(loss[0], actual[row])
        assert torch.equal(gradient[0], padded.grad[row, :length])
        assert not padded.grad[row, length:].any()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_an_invalid_frame_affects_its_row_only(value: float) -> None:
    logits = random(3, 6, 4)
    logits[1, 3, 2] = value
    lengths, targets, sizes = torch.tensor([6, 6, 6]), torch.tensor([[1, 2]] * 3), torch.tensor([2, 2, 2])
    actual = ctc_loss(logits.requires_grad_(), lengths, targets, sizes)
    assert actual.losses.isnan().tolist() == [False, True, False]
    assert actual.feasible.all()
    actual.losses[[0, 2]].sum().backward()
    assert logits.grad is not None
    assert logits.grad[[0, 2]].isfinite().all()


def test_threads_change_nothing() -> None:
    lengths, sizes = torch.randint(20, 40, (9,)), torch.randint(0, 12, (9,))
    logits, targets = random(9, 40, 6, dtype=torch.float32), torch.randint(1, 6, (9, 12))

    def run(threads: int) -> tuple[Tensor, Tensor]:
        torch.set_num_threads(threads)
        at = logits.clone().requires_grad_()
        losses = ctc_loss(at, lengths, targets, sizes).losses
        return losses, torch.autograd.grad(losses.sum(), at)[0]

    for one, several in zip(run(1), run(3), strict=True):
        assert torch.equal(one, several)


@pytest.mark.parametrize("blank", [0, 2])
def test_a_loss_of_long_rows_needs_memory_for_one_frame(blank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour with 10,000 tokens takes 43 GB with its gradient; without it, the same value."""
    tokens = [token for token in range(4) if token != blank]
    targets = [list(target) for size in range(4) for target in itertools.product(tokens, repeat=size)]
    logits = random(len(targets), 5, 4, seed=1, scale=2)
    logits[3, 2] = math.nan
    logits[-1, :, tokens] = -math.inf  # no path
    lengths = torch.full((len(targets),), 5)
    rows = [torch.tensor(target, dtype=torch.int64) for target in targets]
    monkeypatch.setattr(ctc, "MAX_WORKSPACE", 0)
    monkeypatch.setattr(ctc, "_forward_backward", None)
    actual = ctc_loss(logits, lengths, rows, blank=blank)
    assert math.isnan(actual.losses[3])
    assert not actual.feasible[-1]
    for row, target in enumerate(targets[:-1]):
        if row != 3:
            expected = brute_force(logits[row], target, blank=blank)
            assert actual.feasible[row] == (expected != math.inf)
            assert abs(actual.losses[row] - (expected if actual.feasible[row] else 0)) < EXACT
    monkeypatch.undo()
    long, tokens_of_long = random(1, 3000, 6, seed=2, scale=3), [torch.arange(600) % 5 + 1]
    usual = ctc_loss(long, torch.tensor([3000]), tokens_of_long).losses
    monkeypatch.setattr(ctc, "MAX_WORKSPACE", 0)
    torch.testing.assert_close(ctc_loss(long, torch.tensor([3000]), tokens_of_long).losses, usual, rtol=1e-11, atol=0)


def test_half_precision_is_computed_in_full() -> None:
    logits = random(1, 6, 4).bfloat16().requires_grad_()
    arguments = torch.tensor([6]), torch.tensor([[1, 2]]), torch.tensor([2])
    actual = ctc_loss(logits, *arguments)
    assert torch.allclose(actual.losses, ctc_loss(logits.float(), *arguments).losses)
    actual.losses.sum().backward()
    assert logits.grad is not None
    assert logits.grad.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": torch.tensor([[1, 2], [1, 4]])}, "second: the target contains the token 4, expected 0 to 3"),
        ({"targets": torch.tensor([[-1, 2], [1, 1]])}, "first: the target contains the token -1"),
        ({"targets": torch.tensor([[1, 2], [0, 1]])}, "second: the target contains the blank, 0"),
        ({"targets": torch.tensor([[1, 2]])}, "2 rows, but there are 2 lengths, 1 targets"),
        ({"lengths": torch.tensor([5, 6])}, "second: length is 6, expected 0 to 5 frames"),
        ({"lengths": torch.tensor([-1, 5])}, "first: length is -1"),
        ({"target_lengths": torch.tensor([3, 2])}, "first: target length is 3, expected 0 to 2"),
        ({"target_lengths": None}, "need it"),
        ({"targets": torch.tensor([[1.7, 2.0], [1.0, 1.0]])}, "targets are torch.float32, expected integers"),
        ({"targets": [torch.tensor([1]), torch.tensor([1.5])]}, "targets are torch.float32"),
        ({"lengths": torch.tensor([4.6, 4.0])}, "lengths are torch.float32"),
        ({"target_lengths": torch.tensor([2.0, 2.0])}, "target_lengths are torch.float32"),
        ({"blank": 4}, "blank is 4, expected a token from 0 to 3"),
        ({"logits": torch.zeros(2, 5)}, r"logits are torch.float32 \(2, 5\)"),
    ],
)
def test_errors_name_the_row_and_the_value(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {
        "logits": torch.zeros(2, 5, 4),
        "lengths": torch.tensor([5, 4]),
        "targets": torch.tensor([[1, 2], [1, 1]]),
        "target_lengths": torch.tensor([2, 2]),
        "names": ["first", "second"],
    }
    with pytest.raises(ValueError, match=message):
        ctc_loss(**(arguments | change))  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_probabilities_of_several_targets_equal_those_of_torch(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    logits = 3 * torch.randn(9, 5, dtype=dtype)
    logits[:, 4] = -math.inf
    targets = [[], [1], [3, 3, 0], [0, 1, 3, 1, 0, 3], [1, 4], [1, 1, 1, 1, 1, 1]]  # two infeasible ones
    actual = ctc_log_probabilities(logits, targets, blank=2)
    table = logits.double().log_softmax(dim=1)
    lengths = [(torch.tensor(9), torch.tensor(len(target))) for target in targets]
    pairs = zip(targets, lengths, strict=True)
    expected = [float(-functional.ctc_loss(table, torch.tensor(t), *n, blank=2, reduction="sum")) for t, n in pairs]
    assert expected[-2:] == [-math.inf] * 2
    np.testing.assert_allclose(actual, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="row 1: the target contains the token 5, expected 0 to 4"):
        ctc_log_probabilities(logits, [[1], [5]])


def test_frames_needed() -> None:
    assert [frames_needed(target) for target in ([], [1], [1, 2], [1, 1], [1, 1, 1, 2, 2])] == [0, 1, 2, 3, 8]


def best_path(table: np.ndarray, target: list[int], *, blank: int) -> float:
    frames, tokens = table.shape
    paths = itertools.product(range(tokens), repeat=frames)
    return max(
        math.fsum(table[t, token] for t, token in enumerate(path))
        for path in paths
        if collapse(path, blank=blank) == target
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("blank", [0, 1])
def test_the_alignment_is_the_best_of_all_paths(blank: int, dtype: type) -> None:
    other = 1 - blank
    for seed, target in enumerate(([other], [2], [other, 2], [2, 2], [other, other, 2], [2, other, 2], [2, 2, 2])):
        table: np.ndarray = random(6, 3, seed=seed, scale=3).log_softmax(dim=1).numpy().astype(dtype)
        spans = align(table, target, blank=blank)
        path = [blank] * 6
        for token, (first, last) in zip(target, spans, strict=True):
            path[first : last + 1] = [token] * (last + 1 - first)
        assert collapse(tuple(path), blank=blank) == target
        actual = sum(float(table[t, token]) for t, token in enumerate(path))
        assert actual == pytest.approx(best_path(table, target, blank=blank), rel=1e-12)


def test_alignment_of_any_frames() -> None:
    assert align(np.zeros((3, 2)), []) == []
    assert align(np.full((3, 2), -np.inf), [1, 1]) == [(0, 0), (2, 2)]
    assert align(np.full((2, 3), np.nan, np.float32), [1, 2]) == [(0, 0), (1, 1)]
    with pytest.raises(ValueError, match="needs 3 frames, not 2"):
        align(np.zeros((2, 2)), [1, 1])
    with pytest.raises(ValueError, match="the target contains the token 2"):
        align(np.zeros((2, 2)), [2])
    with pytest.raises(ValueError, match="int64"):
        align(np.zeros((2, 2), np.int64), [1])
