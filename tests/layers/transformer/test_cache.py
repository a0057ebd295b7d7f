"""Who goes on from a state twice, or after somebody else has, finds what there was."""

import torch
from tests.contracts.registry import make_mask, noise
from torch import Tensor

from seqloom import state as states
from seqloom.layers.transformer import cache
from seqloom.layers.transformer.cache import ROOM, Cache


def piece(seed: int, length: int = 1) -> tuple[Tensor, Tensor]:
    return noise(2, length, 3, 4, seed=seed), noise(2, length, 3, 4, seed=seed + 100)


def held(actual: Cache) -> Tensor:
    return actual.keys[:, : actual.length]


def test_two_that_go_on_from_one_state_do_not_see_each_other() -> None:
    with torch.no_grad():
        root = cache.begin(*piece(1), None).append(*piece(2), None)
        left, right = root.append(*piece(3), None), root.append(*piece(4), None)
        left = left.append(*piece(5), None)
    expected = [torch.cat([piece(seed)[0] for seed in seeds], dim=1) for seeds in ((1, 2, 3, 5), (1, 2, 4), (1, 2))]
    for actual, keys in zip((left, right, root), expected, strict=True):
        assert torch.equal(held(actual), keys)


def test_a_step_writes_in_place_while_there_is_room() -> None:
    with torch.no_grad():
        actual = cache.begin(*piece(0), None).append(*piece(1), None)
        store = actual.keys.data_ptr()
        for seed in range(2, ROOM):
            actual = actual.append(*piece(seed), None)
            assert actual.keys.data_ptr() == store
        assert actual.append(*piece(9), None).keys.data_ptr() != store


def test_selected_rows_can_be_gone_on_from() -> None:
    with torch.no_grad():
        root = cache.begin(*piece(1), None).append(*piece(2), None)
        chosen = states.select(root, torch.tensor([1, 1, 0]))
        new = noise(3, 1, 3, 4, seed=7)
        actual = chosen.append(new, new, None)
    assert torch.equal(held(actual), torch.cat([held(root)[[1, 1, 0]], new], dim=1))
    assert root.length == 2


def test_gaps_are_remembered() -> None:
    first, second = make_mask([2, 1], 2), make_mask([1, 2], 2)
    actual = cache.begin(*piece(1, 2), first).append(*piece(2, 2), second)
    assert actual.position.tolist() == [3, 3]
    assert torch.equal(actual.real(), torch.cat([first, second], dim=1))
    later = actual.append(*piece(3), None)
    assert later.real()[:, -1].all()


def test_only_what_nobody_sees_any_more_is_forgotten() -> None:
    whole = cache.begin(*piece(1, 5), None)
    assert torch.equal(held(whole.latest(2)), held(whole)[:, 3:])
    assert whole.latest(7) is whole
    gaps = cache.begin(*piece(1, 5), make_mask([5, 2], 5))
    assert gaps.latest(2).length == 5  # the shorter row still sees its first element
    assert cache.begin(*piece(1, 5), make_mask([5, 0], 5)).latest(2).length == 2
