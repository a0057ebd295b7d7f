"""Live hypotheses at the children of a node, by one bit each, and by the index where there are more children."""

import numpy as np
import pytest

from seqloom.kernels.frame_beam.lexicon_state import ANY_CHILD, CHILD_BITS, CHILDREN, ROOT, child_bit, find_live_child
from seqloom.kernels.frame_beam.primitives import find_key


@pytest.mark.parametrize("count", [3, CHILD_BITS, CHILD_BITS + 9])
@pytest.mark.parametrize("node", [ROOT, 1])
def test_live_children(count: int, node: int) -> None:
    links = np.zeros((count + 4, 4), np.int32)
    first = node + 1
    links[:, CHILDREN] = first + count
    links[node, CHILDREN] = first
    keys, slots, bits = np.full(256, -1), np.zeros(256, np.int32), np.int64(0)
    live = {first: 5, first + count - 1: 7}
    for child, slot in live.items():
        at = find_key(keys, 1000 + child)
        keys[at], slots[at] = 1000 + child, slot
        bits |= child_bit(links, node, child)
    for child in range(first, first + count):
        for known in (bits, np.int64(ANY_CHILD)) if node == ROOT else (bits,):
            slot = find_live_child(keys, slots, known, 1000 + child, links, node, child)
            assert (slot >= 0) == (child in live)
            if node == ROOT or count > CHILD_BITS:
                assert slot == live.get(child, -1)
