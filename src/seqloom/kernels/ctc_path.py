"""The most probable path of CTC (Graves et al. 2006) through symbols, some of them alternatives (Viterbi 1967).

Places are numbered from 0, before all symbols; at each place a path is on its symbol or on the blank behind it. How
places were reached is kept for one block of frames only: on the way back each block is gone through once more, as far
as the path can have come from, so that an hour needs little memory.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.kernels.compiled import compiled, compiled_sums

Floats = NDArray[np.floating[Any]]
Numbers = NDArray[np.int64]
Bytes = NDArray[np.uint8]

BLOCK = 2048
FLOOR = -1e30
"""What -inf and NaN count on a path: every target that fits into the frames has a most probable one."""


class Graph(NamedTuple):
    """Words one behind the other, each in one or several spellings."""

    symbols: Numbers  # (N,) of all spellings of all words
    links: Numbers  # (L, 2) symbols that follow others than the one before them, in their order, and whom; -1: nobody
    ends: Numbers  # (E,) the last symbol is one of these


def join(spellings: Sequence[Sequence[Sequence[int]]], *, loose: bool = False) -> Graph:
    """The graph of words, by all spellings of each; a ``loose`` end may lack its last symbol, but not its only one."""
    symbols: list[int] = []
    links: list[tuple[int, int]] = []
    before = [-1]
    for ways in spellings:
        ends = []
        for way in ways:
            if before != [len(symbols) - 1]:
                links += [(len(symbols), end) for end in before]
            symbols += way
            ends.append(len(symbols) - 1)
        before = ends
    last = [*before, *(end - 1 for end in before)] if loose and symbols else before
    return Graph(np.array(symbols, np.int64), np.array(links, np.int64).reshape(-1, 2), np.array(last, np.int64))


def follow(
    log_probabilities: Floats,  # (T, V), contiguous
    graph: Graph,
    *,
    blank: int,
    block: int = BLOCK,  # frames
) -> Numbers | None:  # (N, 2)
    """The first and the last frame of each symbol, -1 of those that the path leaves out; None where frames are few."""
    (symbols, links, ends), size = graph, len(graph.symbols)
    spans = np.full((size, 2), -1, np.int64)
    if not size:
        return spans
    parts = [log_probabilities[first : first + block] for first in range(0, len(log_probabilities), block)]
    skip = np.zeros(size)  # -inf for a symbol like the one before it: they have a blank between them
    skip[0], skip[1:][symbols[1:] == symbols[:-1]] = -np.inf, -np.inf
    row = np.full((2, size + 1), -np.inf)
    row[0, 0] = 0.0
    saved = [row]
    for part in parts[:-1]:
        saved.append(_through(part, symbols, skip, links, blank, saved[-1], kept=1)[0].copy())
    low, high, state = int(ends.min()) + 1, size, None
    for number, part in reversed(list(enumerate(parts))):
        low = _earliest(low, len(part) + 1, size, links)  # one frame more: what is read at the edge is never used
        near = links
        if len(links):
            near = links[np.searchsorted(links[:, 0], low) : np.searchsorted(links[:, 0], high)] - low
        row, steps, sources = _through(
            part, symbols[low:high], skip[low:high], near, blank, saved[number][:, low : high + 1], kept=len(part)
        )
        state = state or _ending(row, ends, low)
        if state is None:
            break
        state = retrace(steps, sources, near, low, number * block, state, spans)
        low = high = state[0]
    return None if state is None else spans


def _through(
    part: Floats,
    symbols: Numbers,
    skip: Floats,
    links: Numbers,
    blank: int,
    row: Floats,  # (2, S + 1) before these frames
    *,
    kept: int,
) -> tuple[Floats, Bytes, Numbers]:
    """The row behind some frames, and the steps of so many of them; see ``sweep``."""
    rows = np.empty((2, *row.shape))
    rows[0], rows[1, 1, 0] = row, -np.inf  # nothing leads to the symbol of the first place
    steps, sources = np.empty((kept, *row.shape), np.uint8), np.empty((kept, len(links)), np.int64)
    turn = sweep(part, symbols, skip, links, blank, rows, steps, sources)
    return rows[turn], steps, sources


def _earliest(place: int, frames: int, size: int, links: Numbers) -> int:
    """No place before this one leads to a place, or to one behind it, within so many frames."""
    if place <= frames:
        return 0
    reach = np.maximum(np.arange(-1, size), 0)
    np.minimum.at(reach, links[:, 0] + 1, links[:, 1] + 1)
    first = np.minimum.accumulate(reach[::-1])[::-1].tolist()
    for _ in range(frames):
        place = first[place]
    return place


def _ending(row: Floats, ends: Numbers, low: int) -> tuple[int, bool, bool] | None:
    """Where the best path ends, as ``retrace`` wants it; None if there is none."""
    scores = row[::-1, ends + 1 - low]  # on the symbol, or on the blank behind it
    best = int(scores.argmax())
    on_blank, which = divmod(best, len(ends))
    return None if scores.flat[best] == -np.inf else (int(ends[which]) + 1, not on_blank, True)


@compiled
def retrace(
    steps: Bytes,
    sources: Numbers,
    links: Numbers,
    low: int,
    first: int,
    state: tuple[int, bool, bool],
    spans: Numbers,
) -> tuple[int, bool, bool]:
    """Go back through some frames; the place before them, whether on its symbol, whether it was left just there."""
    place, on_symbol, fresh = state
    joined = np.full(steps.shape[2], -1)
    for row in range(len(links) - 1, -1, -1):
        joined[links[row, 0]] = row
    for t in range(len(steps) - 1, -1, -1):
        step = steps[t, 1 if on_symbol else 0, place - low]
        if on_symbol:
            if fresh:
                spans[place - 1, 1] = first + t
            spans[place - 1, 0] = first + t
            if step > 0:
                row = joined[place - 1 - low]
                place = place - 1 if row < 0 else low + sources[t, row]
        fresh = step > 0
        if step == 1:
            on_symbol = not on_symbol
    return place, on_symbol, fresh


@compiled
def sweep(
    part: Floats,  # (T, V)
    symbols: Numbers,  # (S,)
    skip: Floats,  # (S,) 0, or -inf for a symbol like the one before it
    links: Numbers,
    blank: int,
    rows: Floats,  # (2, 2, S + 1) of this frame and the next in turn, of blanks and symbols; the first ones are given
    steps: Bytes,  # (T or 1, 2, S + 1) 0: stayed, 1: from a symbol to a blank or back, 2: from a symbol to the next
    sources: Numbers,  # (T or 1, L) the place from which one with links was reached, in the first row of its links
) -> int:
    """Go through some frames; which of the rows are those of the last. Steps are kept if there is room for them."""
    size, turn, emitted = len(symbols), 0, np.empty(len(symbols) + 1)
    for t in range(len(part)):
        before, above, here, there = rows[turn, 0], rows[turn, 1], rows[1 - turn, 0], rows[1 - turn, 1]
        kept = t if len(steps) == len(part) else 0
        emit_floored(part[t], symbols, blank, emitted)
        better_blanks(before, above, emitted[size], here, steps[kept, 0])
        better_symbols(before, above, emitted, skip, there, steps[kept, 1])
        if len(links):
            better_links(before, above, emitted, symbols, links, there, steps[kept, 1], sources[kept])
        turn = 1 - turn
    return turn


@compiled_sums
def emit_floored(row: Floats, target: Numbers, blank: int, emitted: Floats) -> None:
    size = len(target)
    for i in range(size):
        emitted[i] = row[target[i]]
    emitted[size] = row[blank]
    for i in range(size + 1):
        emitted[i] = max(FLOOR, emitted[i])  # in this order it is FLOOR for NaN


@compiled_sums
def better_blanks(before: Floats, above: Floats, of_blank: float, here: Floats, steps: Bytes) -> None:
    for i in range(len(here)):
        stay, come = before[i], above[i]
        here[i] = max(stay, come) + of_blank
        steps[i] = 1 if come > stay else 0


@compiled_sums
def better_symbols(before: Floats, above: Floats, emitted: Floats, skip: Floats, there: Floats, steps: Bytes) -> None:
    for i in range(len(skip)):
        stay, come, jump = above[i + 1], before[i], above[i] + skip[i]
        best = max(stay, come)
        step = 1 if come > stay else 0
        there[i + 1] = max(best, jump) + emitted[i]
        steps[i + 1] = 2 if jump > best else step


@compiled
def better_links(
    before: Floats,
    above: Floats,
    emitted: Floats,
    symbols: Numbers,
    links: Numbers,
    there: Floats,
    steps: Bytes,
    sources: Numbers,
) -> None:
    best, head = -np.inf, 0
    for row in range(len(links)):
        i, source = links[row, 0], links[row, 1] + 1
        if row == 0 or i != links[row - 1, 0]:
            best, head, steps[i + 1] = above[i + 1], row, 0
        if source >= 0 and before[source] > best:
            best, steps[i + 1], sources[head] = before[source], 1, source
        if source > 0 and symbols[source - 1] != symbols[i] and above[source] > best:
            best, steps[i + 1], sources[head] = above[source], 2, source
        there[i + 1] = best + emitted[i]
