"""Forced alignment with CTC: the most probable path of a target, some of whose words have alternative spellings.

Position i of a path is on symbol i or on the blank behind it; position 0 is before all symbols. Backpointers are kept
for one block of frames only: on the way back each block is computed once more, restricted to the positions that the
path can have come from, so that an hour of frames needs little memory. ``naive.viterbi`` is the readable reference.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.kernels.runtime.numba_jit import jit, jit_fastmath

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]

BLOCK = 2048
FLOOR = -1e30
"""Replaces -inf and NaN: every target that fits into the frames has a most probable path."""
STAY, STEP, SKIP = 0, 1, 2
"""Backpointers: same state; from a symbol to the blank behind it or from a blank to the next symbol; over a blank."""


class AlignmentGraph(NamedTuple):
    """A sequence of words, each with one or several spellings."""

    symbols: Integers  # (N,) of all spellings of all words, one behind the other
    links: Integers  # (L, 2) sorted pairs (symbol, predecessor) where that is not the one before it; -1: the start
    ends: Integers  # (E,) symbols that may be the last


def build_graph(spellings: Sequence[Sequence[Sequence[int]]], *, optional_end: bool = False) -> AlignmentGraph:
    """The graph of words, given all spellings of each.

    With ``optional_end`` the last symbol of the last word may be missing, unless the word has no other.
    """
    symbols: list[int] = []
    links: list[tuple[int, int]] = []
    last = [-1]
    for word in spellings:
        ends = []
        for spelling in word:
            if last != [len(symbols) - 1]:
                links += [(len(symbols), end) for end in last]
            symbols += spelling
            ends.append(len(symbols) - 1)
        last = ends
    ends = [*last, *(end - 1 for end in last)] if optional_end and symbols else last
    return AlignmentGraph(
        np.array(symbols, np.int64), np.array(links, np.int64).reshape(-1, 2), np.array(ends, np.int64)
    )


def frames_needed(target: Integers) -> int:
    """The fewest frames of a path: equal neighbours need a blank between them."""
    return len(target) + int(np.count_nonzero(target[1:] == target[:-1]))


def align(
    log_probs: Floats,  # (T, V), float32 or float64
    target: Integers,  # (S,) without blanks
    blank: int,
) -> Integers:  # (S, 2)
    """The first and the last frame of each symbol on the most probable path."""
    spans = align_graph(np.ascontiguousarray(log_probs), build_graph([[target.tolist()]]), blank=blank)
    if spans is None:
        needed, given = frames_needed(target), len(log_probs)
        raise ValueError(f"an alignment of these {len(target)} symbols needs {needed} frames, not {given}")
    return spans


def align_graph(
    log_probs: Floats,  # (T, V), contiguous
    graph: AlignmentGraph,
    *,
    blank: int,
    block: int = BLOCK,  # frames
) -> Integers | None:  # (N, 2)
    """The first and the last frame of each symbol, -1 for spellings not taken; None if there are too few frames."""
    (symbols, links, ends), size = graph, len(graph.symbols)
    spans = np.full((size, 2), -1, np.int64)
    if not size:
        return spans
    blocks = [log_probs[first : first + block] for first in range(0, len(log_probs), block)]
    skip = np.zeros(size)  # -inf for a symbol equal to the one before it: a blank must stand between them
    skip[0], skip[1:][symbols[1:] == symbols[:-1]] = -np.inf, -np.inf
    scores = np.full((2, size + 1), -np.inf)
    scores[0, 0] = 0.0
    checkpoints = [scores]
    for part in blocks[:-1]:
        checkpoints.append(_run_block(part, symbols, skip, links, blank, checkpoints[-1], kept=1)[0].copy())
    low, high, state = int(ends.min()) + 1, size, None
    for number, part in reversed(list(enumerate(blocks))):
        low = _earliest_source(low, len(part) + 1, size, links)  # one frame more: the edge itself is never used
        near = links
        if len(links):
            near = links[np.searchsorted(links[:, 0], low) : np.searchsorted(links[:, 0], high)] - low
        window = checkpoints[number][:, low : high + 1]
        scores, backpointers, sources = _run_block(
            part, symbols[low:high], skip[low:high], near, blank, window, kept=len(part)
        )
        state = state or _best_end(scores, ends, low)
        if state is None:
            break
        state = trace_back(backpointers, sources, near, low, number * block, state, spans)
        low = high = state[0]
    return None if state is None else spans


def _run_block(
    part: Floats,
    symbols: Integers,
    skip: Floats,
    links: Integers,
    blank: int,
    scores: Floats,  # (2, S + 1) before these frames
    *,
    kept: int,  # frames whose backpointers are kept
) -> tuple[Floats, Bytes, Integers]:
    """The scores after some frames, and backpointers; see ``run_frames``."""
    rows = np.empty((2, *scores.shape))
    rows[0], rows[1, 1, 0] = scores, -np.inf  # position 0 has no symbol
    backpointers, sources = np.empty((kept, *scores.shape), np.uint8), np.empty((kept, len(links)), np.int64)
    turn = run_frames(part, symbols, skip, links, blank, rows, backpointers, sources)
    return rows[turn], backpointers, sources


def _earliest_source(position: int, frames: int, size: int, links: Integers) -> int:
    """The first position from which this one, or one behind it, can be reached within this many frames."""
    if position <= frames:
        return 0
    sources = np.maximum(np.arange(-1, size), 0)
    np.minimum.at(sources, links[:, 0] + 1, links[:, 1] + 1)
    first = np.minimum.accumulate(sources[::-1])[::-1].tolist()
    for _ in range(frames):
        position = first[position]
    return position


def _best_end(scores: Floats, ends: Integers, low: int) -> tuple[int, bool, bool] | None:
    """Where the best path ends, as ``trace_back`` takes it; None if there is no path."""
    candidates = scores[::-1, ends + 1 - low]  # on the symbol, or on the blank behind it
    best = int(candidates.argmax())
    on_blank, which = divmod(best, len(ends))
    return None if candidates.flat[best] == -np.inf else (int(ends[which]) + 1, not on_blank, True)


@jit
def trace_back(
    backpointers: Bytes,
    sources: Integers,
    links: Integers,
    low: int,  # position of the first column
    first: int,  # number of the first frame
    state: tuple[int, bool, bool],
    spans: Integers,  # written
) -> tuple[int, bool, bool]:
    """Follow a path back through some frames: the position before them, whether on its symbol, whether left there."""
    position, on_symbol, entered = state
    first_link = np.full(backpointers.shape[2], -1)
    for row in range(len(links) - 1, -1, -1):
        first_link[links[row, 0]] = row
    for t in range(len(backpointers) - 1, -1, -1):
        step = backpointers[t, 1 if on_symbol else 0, position - low]
        if on_symbol:
            if entered:
                spans[position - 1, 1] = first + t
            spans[position - 1, 0] = first + t
            if step > STAY:
                row = first_link[position - 1 - low]
                position = position - 1 if row < 0 else low + sources[t, row]
        entered = step > STAY
        if step == STEP:
            on_symbol = not on_symbol
    return position, on_symbol, entered


@jit
def run_frames(
    part: Floats,  # (T, V)
    symbols: Integers,  # (S,)
    skip: Floats,  # (S,) 0, or -inf for a symbol equal to the one before it
    links: Integers,  # (L, 2)
    blank: int,
    rows: Floats,  # (2, 2, S + 1) scores of blanks and symbols, of this frame and the next in turn; the first is given
    backpointers: Bytes,  # (T or 1, 2, S + 1) written
    sources: Integers,  # (T or 1, L) written: the position that a symbol with links was reached from, at its first link
) -> int:
    """Process some frames; which of the two ``rows`` is the last. Backpointers are kept if there is room for all."""
    size, turn, emitted = len(symbols), 0, np.empty(len(symbols) + 1)
    for t in range(len(part)):
        blanks, symbol_scores, new_blanks, new_symbols = (
            rows[turn, 0],
            rows[turn, 1],
            rows[1 - turn, 0],
            rows[1 - turn, 1],
        )
        kept = t if len(backpointers) == len(part) else 0
        emit(part[t], symbols, blank, emitted)
        update_blanks(blanks, symbol_scores, emitted[size], new_blanks, backpointers[kept, 0])
        update_symbols(blanks, symbol_scores, emitted, skip, new_symbols, backpointers[kept, 1])
        if len(links):
            update_linked(
                blanks, symbol_scores, emitted, symbols, links, new_symbols, backpointers[kept, 1], sources[kept]
            )
        turn = 1 - turn
    return turn


@jit_fastmath
def emit(row: Floats, target: Integers, blank: int, emitted: Floats) -> None:
    size = len(target)
    for i in range(size):
        emitted[i] = row[target[i]]
    emitted[size] = row[blank]
    for i in range(size + 1):
        emitted[i] = max(FLOOR, emitted[i])  # in this order it is FLOOR for NaN


@jit_fastmath
def update_blanks(blanks: Floats, symbols: Floats, emitted: float, result: Floats, backpointers: Bytes) -> None:
    for i in range(len(result)):
        stay, step = blanks[i], symbols[i]
        result[i] = max(stay, step) + emitted
        backpointers[i] = STEP if step > stay else STAY


@jit_fastmath
def update_symbols(
    blanks: Floats, symbols: Floats, emitted: Floats, skip: Floats, result: Floats, backpointers: Bytes
) -> None:
    for i in range(len(skip)):
        stay, step, jump = symbols[i + 1], blanks[i], symbols[i] + skip[i]
        best = max(stay, step)
        pointer = STEP if step > stay else STAY
        result[i + 1] = max(best, jump) + emitted[i]
        backpointers[i + 1] = SKIP if jump > best else pointer


@jit
def update_linked(
    blanks: Floats,
    symbol_scores: Floats,  # scores on symbols
    emitted: Floats,
    symbols: Integers,
    links: Integers,
    result: Floats,
    backpointers: Bytes,
    sources: Integers,
) -> None:
    """Replace the scores of symbols that have links by the best of all their predecessors."""
    best, head = -np.inf, 0
    for row in range(len(links)):
        i, source = links[row, 0], links[row, 1] + 1
        if row == 0 or i != links[row - 1, 0]:
            best, head, backpointers[i + 1] = symbol_scores[i + 1], row, STAY
        if source >= 0 and blanks[source] > best:
            best, backpointers[i + 1], sources[head] = blanks[source], STEP, source
        if source > 0 and symbols[source - 1] != symbols[i] and symbol_scores[source] > best:
            best, backpointers[i + 1], sources[head] = symbol_scores[source], SKIP, source
        result[i + 1] = best + emitted[i]
