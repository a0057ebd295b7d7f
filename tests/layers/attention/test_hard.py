"""Hard attention: its choices, and its gradient estimator against an enumeration of all samples."""

import copy
from itertools import product

import pytest
import torch
from tests.contracts.registry import make_mask, noise, randomize
from torch import Tensor, nn

from seqloom.layers.attention.attention import masked_softmax
from seqloom.layers.attention.hard import HardAttention, estimator


def build(*, entropy: float = 0.002, decay: float = 0.9) -> HardAttention:
    hard = HardAttention(3, 2, score="multiplicative", entropy=entropy, decay=decay)
    randomize(hard)
    return hard


def test_in_evaluation_it_chooses_the_best_position() -> None:
    hard = build().eval()
    query, keys, values, mask = noise(3, 4, 3), noise(3, 5, 2, seed=1), noise(3, 5, 2, seed=2), make_mask([5, 2, 0], 5)
    prepared = hard.prepare(keys)
    context, weights = hard(query, prepared, values, mask=mask)
    best = masked_softmax(query @ prepared.transpose(1, 2), mask).argmax(dim=-1)
    for b, t in product(range(2), range(4)):
        assert torch.equal(context[b, t], values[b, best[b, t]])
        assert weights[b, t].nonzero().tolist() == [[int(best[b, t])]]
    assert torch.equal(weights[2], torch.zeros(4, 5, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="there are no samples"):
        hard.estimator(torch.zeros(3, 4))


def test_samples_follow_the_softmax_and_are_never_masked() -> None:
    hard = build()
    query, keys = noise(1, 1, 3).expand(1, 4_000, 3), noise(1, 4, 2, seed=1)
    mask = torch.tensor([[True, True, False, True]])
    torch.manual_seed(0)
    weights = hard.weights(query, hard.prepare(keys), mask=mask)
    expected = masked_softmax(query[:, :1] @ hard.prepare(keys).transpose(1, 2), mask)[0, 0]
    assert torch.equal(weights.sum(dim=-1), torch.ones(1, 4_000, dtype=torch.float64))
    # Four standard deviations of a frequency in 4,000 samples.
    torch.testing.assert_close(weights.mean(dim=1)[0], expected, rtol=0, atol=4 * 0.5 / 4_000**0.5)
    assert not weights[..., 2].any()


def run(hard: HardAttention, query: Tensor, keys: Tensor) -> tuple[tuple[int, ...], Tensor, Tensor]:
    """Two steps, the second query depends on the first value: choices, losses (1, 2), log-probability ()."""
    prepared, values = hard.prepare(keys), torch.tanh(keys)
    choices, losses, probability = [], [], torch.zeros((), dtype=torch.float64)
    for _ in range(2):
        value, weights = hard(query, prepared, values)
        choices.append(int(weights.argmax()))
        probability = probability + (query @ prepared.transpose(1, 2)).log_softmax(dim=-1)[0, 0, choices[-1]]
        query = torch.cat([query[..., 1:], value.sum(dim=-1, keepdim=True)], dim=-1) * 1.5
        losses.append((value - query[..., :2]).square().sum(dim=-1))
    return tuple(choices), torch.cat(losses, dim=1), probability


@pytest.mark.parametrize("baseline", [0.0, 0.7])
def test_the_expected_gradient_of_the_estimator_is_the_gradient_of_the_expected_loss(baseline: float) -> None:
    hard = build(entropy=0.0)
    query, keys = noise(1, 1, 3).requires_grad_(), noise(1, 3, 2, seed=1).requires_grad_()
    variables = [query, keys, *hard.parameters()]
    expected_loss = torch.zeros((), dtype=torch.float64)
    estimated, biased = ([torch.zeros_like(variable) for variable in variables] for _ in range(2))
    missing = set(product(range(3), repeat=2))
    for seed in range(500):
        torch.manual_seed(seed)
        choices, loss, probability = run(hard, query, keys)
        if choices not in missing:
            continue
        missing.remove(choices)
        hard.baseline.fill_(baseline)
        expected_loss = expected_loss + probability.exp() * loss.sum()
        for total, term in ((estimated, loss.sum() + hard.estimator(loss)), (biased, loss.sum())):
            slopes = torch.autograd.grad(term, variables, retain_graph=True, allow_unused=True, materialize_grads=True)
            for gradient, slope in zip(total, slopes, strict=True):
                gradient.add_(probability.exp().detach() * slope)
    assert not missing
    reference = torch.autograd.grad(expected_loss, variables)
    for actual, expected in zip(estimated, reference, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    assert not torch.allclose(biased[2], reference[2], atol=1e-2)  # without the estimator the gradient is wrong


def test_samples_are_kept_until_the_estimator_is_called_and_padding_has_no_effect() -> None:
    hard = build(entropy=0.1, decay=0.5)
    query, keys, values = noise(2, 3, 3), noise(2, 4, 2, seed=1), noise(2, 4, 2, seed=2)
    mask, loss = make_mask([3, 1], 3), torch.tensor([[1.0, 2.0, 3.0], [4.0, float("nan"), float("nan")]]).double()
    whole, chunked = copy.deepcopy(hard), copy.deepcopy(hard)
    torch.manual_seed(0)
    prepared = whole.prepare(keys)
    _, weights = whole(query, prepared, values)
    probabilities = (query @ prepared.transpose(1, 2)).softmax(dim=-1)
    log_probabilities = (probabilities * weights).sum(dim=-1).log()
    entropy = -(probabilities * probabilities.log()).sum(dim=-1)
    cost = torch.tensor([[6.0, 5.0, 3.0], [4.0, 0.0, 0.0]])
    expected = ((cost * log_probabilities - 0.1 * entropy) * mask).sum()
    torch.testing.assert_close(whole.estimator(loss, mask), expected)
    torch.testing.assert_close(whole.baseline, torch.tensor(0.5 * 10 / 4).double())
    with pytest.raises(RuntimeError, match="there are no samples"):
        whole.estimator(loss, mask)
    prepared = chunked.prepare(keys)
    for chunk in query.split([1, 2], dim=1):
        chunked(chunk, prepared, values)
    copied = copy.deepcopy(chunked)  # without samples
    assert torch.isfinite(chunked.estimator(loss, mask))
    with pytest.raises(RuntimeError, match="there are no samples"):
        copied.estimator(loss, mask)
    whole(query, whole.prepare(keys), values)
    whole.prepare(keys)
    with pytest.raises(RuntimeError, match="there are no samples"):
        whole.estimator(loss, mask)
    whole(query, prepared, values)
    with pytest.raises(ValueError, match=r"loss has shape \(2, 2\), expected \(2, 3\): one per sample"):
        whole.estimator(loss[:, :2])


def test_the_estimators_of_a_model() -> None:
    assert estimator(nn.Linear(2, 2), torch.ones(2, 3)) == 0
    parts = [build(entropy=0.0) for _ in range(2)]
    for part in parts:
        part(noise(2, 3, 3), part.prepare(noise(2, 4, 2)), noise(2, 4, 2))
    log_probabilities = torch.stack([part._samples[0][0] for part in parts])
    expected = (log_probabilities * torch.tensor([3.0, 2.0, 1.0])).sum()
    torch.testing.assert_close(estimator(nn.ModuleList(parts), torch.ones(2, 3).double()), expected)


def test_empty_sources() -> None:
    hard = build()
    context, weights = hard(noise(2, 3, 3), hard.prepare(noise(2, 0, 2)), noise(2, 0, 2))
    assert (context.shape, weights.shape) == ((2, 3, 2), (2, 3, 0))
