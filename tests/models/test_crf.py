from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from seqloom.models.crf import CRF, Chain, allow_spans, log_partition, marginals, score, viterbi

NAMES = ["O", "B-x", "I-x", "B-y", "I-y"]


def noise(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64) * scale


def chain(labels: int, *, seed: int = 1, scale: float = 1.0) -> Chain:
    return Chain(*(noise(*shape, seed=seed, scale=scale) for shape in [(labels,), (labels, labels), (labels,)]))


def masked(*lengths: int, longest: int) -> Tensor:
    return torch.arange(longest) < torch.tensor(lengths).unsqueeze(1)


def paths(emissions: Tensor, links: Chain) -> dict[tuple[int, ...], Tensor]:
    """The score of every sequence of labels, term by term."""
    found = {}
    for labels in product(range(emissions.shape[1]), repeat=len(emissions)):
        total = emissions.new_zeros(())
        if labels:
            total = total + links.start[labels[0]] + links.end[labels[-1]]
        for time, label in enumerate(labels):
            total = total + emissions[time, label]
        for left, right in pairwise(labels):
            total = total + links.between[left, right]
        found[labels] = total
    return found


def plain(emissions: Tensor, mask: Tensor, links: Chain) -> Tensor:
    """The forward recursion in logarithms, by torch's own operations."""
    value = links.start + emissions[:, 0]
    for time in range(1, emissions.shape[1]):
        following = (value.unsqueeze(2) + links.between).logsumexp(dim=1) + emissions[:, time]
        value = torch.where(mask[:, time].unsqueeze(1), following, value)
    return (value + links.end).logsumexp(dim=1)


LENGTHS = [4, 1, 0, 3, 2]


def test_all_paths_give_values_gradients_and_marginals() -> None:
    emissions, links = noise(5, 4, 3), chain(3)
    mask = masked(*LENGTHS, longest=4)
    leaves = [tensor.requires_grad_() for tensor in (emissions, *links)]
    found = log_partition(emissions, mask, links)
    wanted = torch.stack(
        [
            torch.stack(list(paths(row[:length], links).values())).logsumexp(dim=0)
            for row, length in zip(emissions, LENGTHS, strict=True)
        ]
    )
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    weights = torch.tensor([1.0, -2.0, 3.0, 0.5, 1.5], dtype=torch.float64)
    gradients = torch.autograd.grad(found @ weights, leaves)
    torch.testing.assert_close(gradients, torch.autograd.grad(wanted @ weights, leaves), rtol=0, atol=1e-12)
    torch.testing.assert_close(
        marginals(emissions, mask, links) * weights.view(-1, 1, 1), gradients[0], rtol=0, atol=1e-12
    )


def test_all_paths_give_the_best_one() -> None:
    emissions, links = noise(5, 4, 3, seed=4), chain(3, seed=5)
    mask = masked(*LENGTHS, longest=4)
    found = viterbi(emissions, mask, links)
    for row, labels, length in zip(emissions, found.tolist(), LENGTHS, strict=True):
        every = paths(row[:length], links)
        assert tuple(labels[:length]) == max(every, key=lambda path: float(every[path]))
        assert not any(labels[length:])


def test_score_is_that_of_the_path() -> None:
    emissions, links = noise(5, 4, 3), chain(3)
    labels = torch.randint(3, (5, 4), generator=torch.Generator().manual_seed(0))
    found = score(emissions, masked(*LENGTHS, longest=4), labels, chain=links)
    for row, path, length, value in zip(emissions, labels.tolist(), LENGTHS, found, strict=True):
        torch.testing.assert_close(value, paths(row[:length], links)[tuple(path[:length])], rtol=0, atol=1e-13)


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    labels=st.integers(1, 12),
    scale=st.sampled_from([0.1, 1.0, 10.0, 40.0]),
    seed=st.integers(0, 1000),
)
def test_scaled_recursion_is_the_one_in_logarithms(lengths: list[int], labels: int, scale: float, seed: int) -> None:
    emissions = noise(len(lengths), max(lengths), labels, seed=seed, scale=scale)
    links = chain(labels, seed=seed + 1, scale=min(scale, 5.0))
    mask = masked(*lengths, longest=max(lengths))
    leaves = [tensor.requires_grad_() for tensor in (emissions, *links)]
    found, wanted = log_partition(emissions, mask, links), plain(emissions, mask, links)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    gradients = torch.autograd.grad(found.sum(), leaves)
    # Each of up to 30 × 5 places has gradients of size 1 that cancel out to sums.
    torch.testing.assert_close(
        gradients, torch.autograd.grad(wanted.sum(), leaves, materialize_grads=True), rtol=1e-9, atol=1e-10
    )


def test_gradcheck() -> None:
    mask = masked(3, 0, 2, longest=3)

    def function(emissions: Tensor, start: Tensor, between: Tensor, end: Tensor) -> Tensor:
        return log_partition(emissions, mask, Chain(start, between, end))

    leaves = [tensor.requires_grad_() for tensor in (noise(3, 3, 4), *chain(4))]
    assert torch.autograd.gradcheck(function, leaves)


def test_float32_is_float64_rounded() -> None:
    emissions, links, mask = noise(4, 50, 20, scale=3), chain(20), masked(50, 40, 7, 1, longest=50)
    single = [tensor.float().requires_grad_() for tensor in (emissions, *links)]
    double = [tensor.detach().double().requires_grad_() for tensor in single]
    found = log_partition(single[0], mask, Chain(*single[1:]))
    wanted = log_partition(double[0], mask, Chain(*double[1:]))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), wanted, rtol=1e-7, atol=0)
    for left, right in zip(
        torch.autograd.grad(found.sum(), single), torch.autograd.grad(wanted.sum(), double), strict=True
    ):
        assert left.dtype == torch.float32
        torch.testing.assert_close(left.double(), right, rtol=1e-6, atol=1e-7)


def test_scores_far_apart_stay_finite() -> None:
    generator = torch.Generator().manual_seed(0)
    emissions = torch.randint(2, (8, 40, 5), generator=generator) * 600.0 - 300
    emissions.requires_grad_()
    mask = torch.ones(8, 40, dtype=torch.bool)
    crf = CRF(5, allowed=allow_spans(NAMES), strict=True)
    labels = torch.zeros(8, 40, dtype=torch.long)
    found = crf(emissions, mask, labels)
    found.sum().backward()
    assert found.isfinite().all()
    assert (found >= 0).all()
    assert emissions.grad is not None
    assert emissions.grad.isfinite().all()
    torch.testing.assert_close(
        found + score(emissions, mask, labels, chain=crf.chain),
        plain(emissions.detach().double(), mask, crf.allowed_chain).float(),
    )


@pytest.mark.parametrize("fill", [0.0, 1e30, torch.nan, torch.inf])
def test_padding_is_invisible(fill: float) -> None:
    crf = CRF(3).double()
    for parameter, values in zip(crf.parameters(), chain(3), strict=True):
        parameter.data = values
    emissions, labels = noise(3, 4, 3), torch.tensor([[0, 1, 2, 1], [2, 0, 1, 0], [1, 1, 1, 1]])
    mask = masked(4, 2, 0, longest=4)
    wide = torch.full((3, 9, 3), fill, dtype=torch.float64)
    wide[:, :4] = torch.where(mask.unsqueeze(2), emissions, wide[:, :4])
    wide.requires_grad_()
    wide_labels = torch.full((3, 9), -1)
    wide_labels[:, :4] = labels.masked_fill(~mask, -1)
    wide_mask = masked(4, 2, 0, longest=9)
    found = crf(wide, wide_mask, wide_labels)
    torch.testing.assert_close(found, crf(emissions, mask, labels), rtol=0, atol=1e-13)
    assert found[2] == 0
    found.sum().backward()
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


def test_constraint_leaves_the_valid_paths_only() -> None:
    crf = CRF(5, allowed=allow_spans(NAMES), strict=True).double()
    for parameter, values in zip(crf.parameters(), chain(5), strict=True):
        parameter.data = values
    emissions, mask = noise(3, 4, 5, scale=3), torch.ones(3, 4, dtype=torch.bool)
    best = crf.decode(emissions, mask)
    for row, labels in zip(emissions, best.tolist(), strict=True):
        every = {path: value.detach() for path, value in paths(row, crf.chain).items() if valid(path)}
        assert tuple(labels) == max(every, key=lambda path: float(every[path]))
        total = torch.stack(list(every.values())).logsumexp(dim=0)
        row_mask = torch.ones(1, 4, dtype=torch.bool)
        found = crf(row.unsqueeze(0), row_mask, torch.tensor([labels]))
        torch.testing.assert_close(found[0], total - every[tuple(labels)], rtol=0, atol=1e-12)


def test_constraint_of_spans_that_are_ended() -> None:
    names = ["O", "B-x", "I-x", "E-x", "S-x", "B-y", "E-y"]
    start, between, end = allow_spans(names)
    follow = {name: {names[index] for index in between[row].nonzero().flatten()} for row, name in enumerate(names)}
    openers = {"O", "B-x", "S-x", "B-y"}
    assert follow == {
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
