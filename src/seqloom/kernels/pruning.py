"""What searches over frames share: sums of logarithms, the best of many candidates, tables of numbers."""

import math

import numpy as np
import numpy.typing as npt

from seqloom.kernels.compiled import compiled, inlined

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]

MIXING = np.int64(-7046029254386353131)  # 2^64 / golden ratio, as a signed number


FINE, FAR = 64, 37  # pieces in a unit of a difference; e^-37 is less than half a unit in the last place of one


def _pieces() -> Floats:  # (FAR · FINE, 4)
    """Of log(1 + e^-d) cubic pieces that meet with equal slopes (Hermite): wrong by 2 · 10^-11 at most."""
    ends = np.arange(FAR * FINE + 1) / FINE
    value, slope = np.log1p(np.exp(-ends)), -1 / (1 + np.exp(ends)) / FINE
    rise = np.diff(value)
    parts = [value[:-1], slope[:-1], 3 * rise - 2 * slope[:-1] - slope[1:], slope[:-1] + slope[1:] - 2 * rise]
    return np.stack(parts, axis=1)


PIECES = _pieces()


@compiled
def log_add(x: float, y: float) -> float:
    """log(exp x + exp y)."""
    high, low = (x, y) if x > y else (y, x)
    if not high - low < FAR:  # also where both are -inf
        return high
    far = (high - low) * FINE
    piece = int(far)
    t = far - piece
    a, b, c, d = PIECES[piece, 0], PIECES[piece, 1], PIECES[piece, 2], PIECES[piece, 3]
    return float(high + (a + t * (b + t * (c + t * d))))


@compiled
def keep_best(values: Floats, places: Integers, count: int, wanted: int) -> None:
    """Move the ``wanted`` greatest of the first ``count`` values to the front, their places along with them."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) >> 1
        first, second, third = values[low], values[middle], values[high]
        pivot = max(min(first, second), min(max(first, second), third))
        left, right = low, high
        while left <= right:
            while values[left] > pivot:
                left += 1
            while values[right] < pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                for part in range(places.shape[0]):
                    places[part, left], places[part, right] = places[part, right], places[part, left]
                left += 1
                right -= 1
        if wanted - 1 <= right:
            high = right
        elif wanted - 1 >= left:
            low = left
        else:
            return


@compiled
def least(values: Floats, count: int) -> float:
    found = math.inf
    for place in range(count):
        found = min(found, values[place])
    return found


@compiled
def greatest(values: Floats, count: int) -> float:
    found = -math.inf
    for place in range(count):
        found = max(found, values[place])
    return found


@compiled
def sort_descending(values: Floats, order: Integers, count: int) -> None:
    """Sort the first ``count`` numbers of ``order`` by their values (Shell 1959)."""
    gap = 1
    while 3 * gap + 1 < count:
        gap = 3 * gap + 1
    while gap:
        for place in range(gap, count):
            which = order[place]
            value, back = values[which], place - gap
            while back >= 0 and values[order[back]] < value:
                order[back + gap] = order[back]
                back -= gap
            order[back + gap] = which
        gap //= 3


@compiled
def hashed(key: int, mask: int) -> int:
    """Where to look first for a key, in a table of ``mask`` + 1 places."""
    return int(((key * MIXING) >> 32) & mask)


@compiled
def admit(frame: Floats, tried: Floats, blank: int, floor: float) -> None:
    """Copy a frame; symbols below ``floor`` become impossible, but the blank and the best of all."""
    best = 0
    for symbol in range(len(frame)):
        tried[symbol] = frame[symbol]
        if frame[symbol] > frame[best]:
            best = symbol
    if floor > -math.inf:
        for symbol in range(len(frame)):
            if tried[symbol] < floor and symbol not in (blank, best):
                tried[symbol] = -math.inf


@compiled
def find(table: Integers, parents: Integers, labels: Integers, parent: int, label: int) -> int:
    """The place in the table of a node's child by its label, or where it can be written."""
    mask = len(table) - 1
    at = hashed((np.int64(parent) << 20) ^ label, mask)
    while table[at] >= 0 and (parents[table[at]] != parent or labels[table[at]] != label):
        at = (at + 1) & mask
    return int(at)


@compiled
def fill(table: Integers, parents: Integers, labels: Integers, count: int) -> None:
    """Make the table of the first ``count`` nodes."""
    for at in range(len(table)):
        table[at] = -1
    for node in range(1, count):
        table[find(table, parents, labels, parents[node], labels[node])] = node


@compiled
def ancestors(parents: Integers, nodes: Integers) -> npt.NDArray[np.bool_]:  # (N,)
    """Which nodes these ones come from, themselves included; the root always is one."""
    found = np.zeros(len(parents), np.bool_)
    found[0] = True
    for node in nodes:
        at = node
        while not found[at]:
            found[at], at = True, parents[at]
    return found


@compiled
def lineage(parents: Integers, node: int, above: int) -> Integers:
    """The nodes from below another one, such as 0, the root, down to a node that comes from it."""
    length, at = 0, node
    while at != above:
        length, at = length + 1, parents[at]
    found = np.empty(length, np.int32)
    for place in range(length - 1, -1, -1):
        found[place], node = node, parents[node]
    return found


@compiled
def common(parents: Integers, nodes: Integers) -> int:
    """The last node that all of these come from; parents have lower numbers than children."""
    found = nodes[0] if len(nodes) else 0
    for node in nodes:
        at = node
        while at != found:
            if at > found:
                at = parents[at]
            else:
                found = parents[found]
    return int(found)


@inlined
def decided(parents: Integers, nodes: Integers, values: Floats, count: int, back: Integers, frame: int) -> int:
    """What the best of the first ``count`` hypotheses had said before the frames that are kept.

    It is told by the most probable way to its place in the beam: ``back`` (L, K) holds for each of the last frames,
    this ``frame`` among them, and each place twice the place before, and one more where something was said.
    """
    place, top = 0, -math.inf
    for other in range(count):
        if values[other] > top:
            place, top = other, values[other]
    node = nodes[place]
    for past in range(len(back)):
        came = back[(frame - past) % len(back), place]
        place = came >> 1
        if came & 1:
            node = parents[node]
    return int(node)


@compiled
def comes_from(parents: Integers, node: int, other: int) -> bool:
    """Whether a node is another one or comes from it."""
    while node > other:
        node = parents[node]
    return bool(node == other)
