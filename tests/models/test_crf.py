"""CRFs against the score of every label sequence, and against a recursion in logarithms."""

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from seqloom.models.crf import CRF, Chain, allowed_transitions, log_partition, marginals, score, viterbi

NAMES = ["O", "B-x", "I-x", "B-y", "I-y"]


def noise(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64) * scale


def chain(labels: int, *, seed: int = 1, scale: float = 1.0) -> Chain:
    return Chain(*(noise(*shape, seed=seed, scale=scale) for shape in [(labels,), (labels, labels), (labels,)]))


def masked(*lengths: int, max_length: int) -> Tensor:
    return torch.arange(max_length) < torch.tensor(lengths).unsqueeze(1)


def paths(emissions: Tensor, scores: Chain) -> dict[tuple[int, ...], Tensor]:
    """The score of every sequence of labels, term by term."""
    totals = {}
    for labels in product(range(emissions.shape[1]), repeat=len(emissions)):
        total = emissions.new_zeros(())
        if labels:
            total = total + scores.start[labels[0]] + scores.end[labels[-1]]
        for time, label in enumerate(labels):
            total = total + emissions[time, label]
        for left, right in pairwise(labels):
            total = total + scores.transitions[left, right]
        totals[labels] = total
    return totals


def log_partition_by_logsumexp(emissions: Tensor, mask: Tensor, scores: Chain) -> Tensor:
    """The forward recursion in logarithms, by torch's own operations."""
    value = scores.start + emissions[:, 0]
    for time in range(1, emissions.shape[1]):
        following = (value.unsqueeze(2) + scores.transitions).logsumexp(dim=1) + emissions[:, time]
        value = torch.where(mask[:, time].unsqueeze(1), following, value)
    return (value + scores.end).logsumexp(dim=1)


LENGTHS = [4, 1, 0, 3, 2]


def test_partition_gradients_and_marginals_match_the_sum_over_all_paths() -> None:
    emissions, scores = noise(5, 4, 3), chain(3)
    mask = masked(*LENGTHS, max_length=4)
    leaves = [tensor.requires_grad_() for tensor in (emissions, *scores)]
    actual = log_partition(emissions, mask, scores)
    expected = torch.stack(
        [
            torch.stack(list(paths(row[:length], scores).values())).logsumexp(dim=0)
            for row, length in zip(emissions, LENGTHS, strict=True)
        ]
    )
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    weights = torch.tensor([1.0, -2.0, 3.0, 0.5, 1.5], dtype=torch.float64)
    gradients = torch.autograd.grad(actual @ weights, leaves)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected @ weights, leaves), rtol=0, atol=1e-12)
    torch.testing.assert_close(
        marginals(emissions, mask, scores) * weights.view(-1, 1, 1), gradients[0], rtol=0, atol=1e-12
    )


def test_viterbi_finds_the_best_of_all_paths() -> None:
    emissions, scores = noise(5, 4, 3, seed=4), chain(3, seed=5)
    mask = masked(*LENGTHS, max_length=4)
    best = viterbi(emissions, mask, scores)
    for row, labels, length in zip(emissions, best.tolist(), LENGTHS, strict=True):
        every = paths(row[:length], scores)
        assert tuple(labels[:length]) == max(every, key=lambda path: float(every[path]))
        assert not any(labels[length:])


def test_the_score_is_that_of_the_path() -> None:
    emissions, scores = noise(5, 4, 3), chain(3)
    labels = torch.randint(3, (5, 4), generator=torch.Generator().manual_seed(0))
    totals = score(emissions, masked(*LENGTHS, max_length=4), labels, chain=scores)
    for row, path, length, value in zip(emissions, labels.tolist(), LENGTHS, totals, strict=True):
        torch.testing.assert_close(value, paths(row[:length], scores)[tuple(path[:length])], rtol=0, atol=1e-13)


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    labels=st.integers(1, 12),
    scale=st.sampled_from([0.1, 1.0, 10.0, 40.0]),
    seed=st.integers(0, 1000),
)
def test_the_scaled_recursion_matches_logarithms(lengths: list[int], labels: int, scale: float, seed: int) -> None:
    emissions = noise(len(lengths), max(lengths), labels, seed=seed, scale=scale)
    scores = chain(labels, seed=seed + 1, scale=min(scale, 5.0))
    mask = masked(*lengths, max_length=max(lengths))
    leaves = [tensor.requires_grad_() for tensor in (emissions, *scores)]
    actual, expected = log_partition(emissions, mask, scores), log_partition_by_logsumexp(emissions, mask, scores)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
    gradients = torch.autograd.grad(actual.sum(), leaves)
    # Gradients of size 1 at up to 30 × 5 positions are added, and largely cancel.
    torch.testing.assert_close(
        gradients, torch.autograd.grad(expected.sum(), leaves, materialize_grads=True), rtol=1e-9, atol=1e-10
    )


def test_gradcheck() -> None:
    mask = masked(3, 0, 2, max_length=3)

    def function(emissions: Tensor, start: Tensor, transitions: Tensor, end: Tensor) -> Tensor:
        return log_partition(emissions, mask, Chain(start, transitions, end))

    leaves = [tensor.requires_grad_() for tensor in (noise(3, 3, 4), *chain(4))]
    assert torch.autograd.gradcheck(function, leaves)


def test_float32_is_float64_rounded() -> None:
    emissions, scores, mask = noise(4, 50, 20, scale=3), chain(20), masked(50, 40, 7, 1, max_length=50)
    single = [tensor.float().requires_grad_() for tensor in (emissions, *scores)]
    double = [tensor.detach().double().requires_grad_() for tensor in single]
    actual = log_partition(single[0], mask, Chain(*single[1:]))
    expected = log_partition(double[0], mask, Chain(*double[1:]))
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual.double(), expected, rtol=1e-7, atol=0)
    for left, right in zip(
        torch.autograd.grad(actual.sum(), single), torch.autograd.grad(expected.sum(), double), strict=True
    ):
        assert left.dtype == torch.float32
        torch.testing.assert_close(left.double(), right, rtol=1e-6, atol=1e-7)


def test_scores_far_apart_stay_finite() -> None:
    generator = torch.Generator().manual_seed(0)
    emissions = torch.randint(2, (8, 40, 5), generator=generator) * 600.0 - 300
    emissions.requires_grad_()
    mask = torch.ones(8, 40, dtype=torch.bool)
    crf = CRF(5, allowed=allowed_transitions(NAMES), strict=True)
    labels = torch.zeros(8, 40, dtype=torch.long)
    actual = crf(emissions, mask, labels)
    actual.sum().backward()
    assert actual.isfinite().all()
    assert (actual >= 0).all()
    assert emissions.grad is not None
    assert emissions.grad.isfinite().all()
    torch.testing.assert_close(
        actual + score(emissions, mask, labels, chain=crf.chain),
        log_partition_by_logsumexp(emissions.detach().double(), mask, crf.allowed_chain).float(),
    )


@pytest.mark.parametrize("fill", [0.0, 1e30, torch.nan, torch.inf])
def test_padding_is_invisible(fill: float) -> None:
    crf = CRF(3).double()
    for parameter, values in zip(crf.parameters(), chain(3), strict=True):
        parameter.data = values
    emissions, labels = noise(3, 4, 3), torch.tensor([[0, 1, 2, 1], [2, 0, 1, 0], [1, 1, 1, 1]])
    mask = masked(4, 2, 0, max_length=4)
    wide = torch.full((3, 9, 3), fill, dtype=torch.float64)
    wide[:, :4] = torch.where(mask.unsqueeze(2), emissions, wide[:, :4])
    wide.requires_grad_()
    wide_labels = torch.full((3, 9), -1)
    wide_labels[:, :4] = labels.masked_fill(~mask, -1)
    wide_mask = masked(4, 2, 0, max_length=9)
    actual = crf(wide, wide_mask, wide_labels)
    torch.testing.assert_close(actual, crf(emissions, mask, labels), rtol=0, atol=1e-13)
    assert actual[2] == 0
    actual.sum().backward()
    assert wide.grad is not None
    assert not wide.grad[~wide_mask].any()
    emissions.requires_grad_()
    crf(emissions, mask, labels).sum().backward()
    assert emissions.grad is not None
    torch.testing.assert_close(wide.grad[:, :4], emissions.grad, rtol=0, atol=1e-13)
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in crf.parameters())
    assert torch.equal(crf.decode(wide, wide_mask)[:, :4], crf.decode(emissions, mask))
    assert not crf.marginals(wide, wide_mask)[~wide_mask].any()


def valid(labels: tuple[int, ...]) -> bool:
    before = "O"
    for label in labels:
        if NAMES[label][0] == "I" and before[2:] != NAMES[label][2:]:
            return False
        before = NAMES[label]
    return True


def test_a_constrained_crf_considers_valid_paths_only() -> None:
    crf = CRF(5, allowed=allowed_transitions(NAMES), strict=True).double()
    for parameter, values in zip(crf.parameters(), chain(5), strict=True):
        parameter.data = values
    emissions, mask = noise(3, 4, 5, scale=3), torch.ones(3, 4, dtype=torch.bool)
    best = crf.decode(emissions, mask)
    for row, labels in zip(emissions, best.tolist(), strict=True):
        every = {path: value.detach() for path, value in paths(row, crf.chain).items() if valid(path)}
        assert tuple(labels) == max(every, key=lambda path: float(every[path]))
        total = torch.stack(list(every.values())).logsumexp(dim=0)
        row_mask = torch.ones(1, 4, dtype=torch.bool)
        actual = crf(row.unsqueeze(0), row_mask, torch.tensor([labels]))
        torch.testing.assert_close(actual[0], total - every[tuple(labels)], rtol=0, atol=1e-12)


def test_allowed_transitions_of_labels_with_ends() -> None:
    names = ["O", "B-x", "I-x", "E-x", "S-x", "B-y", "E-y"]
    start, transitions, end = allowed_transitions(names)
    followers = {
        name: {names[index] for index in transitions[row].nonzero().flatten()} for row, name in enumerate(names)
    }
    openers = {"O", "B-x", "S-x", "B-y"}
    assert followers == {
        "O": openers,
        "B-x": {"I-x", "E-x"},
        "I-x": {"I-x", "E-x"},
        "E-x": openers,
        "S-x": openers,
        "B-y": {"E-y"},
        "E-y": openers,
    }
    assert {names[index] for index in start.nonzero().flatten()} == openers
    assert {names[index] for index in end.nonzero().flatten()} == {"O", "E-x", "S-x", "E-y"}
