"""A cache that is continued more than once keeps its content."""

import torch
from tests.contracts.registry import make_mask, noise
from torch import Tensor

from seqloom import state as states
from seqloom.layers.transformer import cache
from seqloom.layers.transformer.cache import BLOCK, Cache


def keys_and_values(seed: int, length: int = 1) -> tuple[Tensor, Tensor]:
    return noise(2, length, 3, 4, seed=seed), noise(2, length, 3, 4, seed=seed + 100)


def used_keys(cached: Cache) -> Tensor:
    return cached.keys[:, : cached.length]


def test_two_continuations_of_a_state_are_independent() -> None:
    with torch.no_grad():
        root = cache.start_cache(*keys_and_values(1), None).append(*keys_and_values(2), None)
        left, right = root.append(*keys_and_values(3), None), root.append(*keys_and_values(4), None)
        left = left.append(*keys_and_values(5), None)
    expected = [
        torch.cat([keys_and_values(seed)[0] for seed in seeds], dim=1) for seeds in ((1, 2, 3, 5), (1, 2, 4), (1, 2))
    ]
    for actual, keys in zip((left, right, root), expected, strict=True):
        assert torch.equal(used_keys(actual), keys)


def test_a_step_writes_in_place_while_there_are_spare_slots() -> None:
    with torch.no_grad():
        actual = cache.start_cache(*keys_and_values(0), None).append(*keys_and_values(1), None)
        store = actual.keys.data_ptr()
        for seed in range(2, BLOCK):
            actual = actual.append(*keys_and_values(seed), None)
            assert actual.keys.data_ptr() == store
        assert actual.append(*keys_and_values(9), None).keys.data_ptr() != store


def test_selected_rows_can_be_continued() -> None:
    with torch.no_grad():
        root = cache.start_cache(*keys_and_values(1), None).append(*keys_and_values(2), None)
        chosen = states.select(root, torch.tensor([1, 1, 0]))
        new = noise(3, 1, 3, 4, seed=7)
        actual = chosen.append(new, new, None)
    assert torch.equal(used_keys(actual), torch.cat([used_keys(root)[[1, 1, 0]], new], dim=1))
    assert root.length == 2


def test_gaps_are_kept() -> None:
    first, second = make_mask([2, 1], 2), make_mask([1, 2], 2)
    actual = cache.start_cache(*keys_and_values(1, 2), first).append(*keys_and_values(2, 2), second)
    assert actual.position.tolist() == [3, 3]
    assert torch.equal(actual.real(), torch.cat([first, second], dim=1))
    later = actual.append(*keys_and_values(3), None)
    assert later.real()[:, -1].all()


def test_only_slots_that_are_no_longer_needed_are_dropped() -> None:
    whole = cache.start_cache(*keys_and_values(1, 5), None)
    assert torch.equal(used_keys(whole.latest(2)), used_keys(whole)[:, 3:])
    assert whole.latest(7) is whole
    gaps = cache.start_cache(*keys_and_values(1, 5), make_mask([5, 2], 5))
    assert gaps.latest(2).length == 5  # the shorter row still attends to its first element
    assert cache.start_cache(*keys_and_values(1, 5), make_mask([5, 0], 5)).latest(2).length == 2


def test_selected_rows_keep_spare_slots_and_those_not_written_are_released() -> None:
    rows = torch.tensor([1, 0, 1, 1])
    with torch.no_grad():
        root = cache.start_cache(*keys_and_values(1), None).append(*keys_and_values(2, 2), None)
        selected = states.select(root, rows)
        grown = selected.reserve(3)
    assert selected.keys.shape[1] == root.keys.shape[1]
    assert torch.equal(used_keys(selected), used_keys(root)[rows])
    assert torch.equal(selected.values[:, :3], root.values[rows, :3])
    assert grown is not None
    assert (selected.length, grown.length) == (3, 6)
    assert selected.reserve(1) is None  # another state writes there
    kept = grown.release(2)
    assert (kept.length, kept.position.tolist()) == (4, [4] * 4)
    assert kept.reserve(2) is not None
    with torch.enable_grad():
        keys, values = keys_and_values(1)
        differentiable = cache.start_cache(keys.requires_grad_(), values, None)
        assert states.select(differentiable, rows).keys.requires_grad
