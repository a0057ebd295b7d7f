"""Forced alignment with CTC: the most probable path of a target, some of whose words have alternative spellings.

Position i of a path is on token i or on the blank after it; position 0 is before all tokens. Backpointers are kept
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
"""Backpointers: same state; from a token to the blank after it or from a blank to the next token; over a blank."""


class AlignmentGraph(NamedTuple):
    """A sequence of words, each with one or several spellings."""

    tokens: Integers  # (N,) tokens of all spellings of all words, concatenated
    links: Integers  # (L, 2) sorted pairs (token, predecessor), where that is not the token before; -1: the start
    ends: Integers  # (E,) tokens that may be the last


def build_graph(spellings: Sequence[Sequence[Sequence[int]]], *, optional_end: bool = False) -> AlignmentGraph:
    """The graph of words, given all spellings of each.

    With ``optional_end`` the last token of the last word may be missing, unless the word has no other.
    """
    tokens: list[int] = []
    links: list[tuple[int, int]] = []
    last = [-1]
    for word in spellings:
        ends = []
        for spelling in word:
            if last != [len(tokens) - 1]:
                links += [(len(tokens), end) for end in last]
            tokens += spelling
            ends.append(len(tokens) - 1)
        last = ends
    ends = [*last, *(end - 1 for end in last)] if optional_end and tokens else last
    return AlignmentGraph(
        np.array(tokens, np.int64), np.array(links, np.int64).reshape(-1, 2), np.array(ends, np.int64)
    )


def frames_needed(target: Integers) -> int:
    """The fewest frames of a path: equal neighbours need a blank between them."""
    return len(target) + int(np.count_nonzero(target[1:] == target[:-1]))


def align(
    log_probs: Floats,  # (T, V), float32 or float64
    target: Integers,  # (S,) without blanks
    blank: int,
) -> Integers:  # (S, 2)
    """The first and the last frame of each token on the most probable path."""
    spans = align_graph(np.ascontiguousarray(log_probs), build_graph([[target.tolist()]]), blank=blank)
    if spans is None:
        needed, given = frames_needed(target), len(log_probs)
        raise ValueError(f"an alignment of these {len(target)} tokens needs {needed} frames, not {given}")
    return spans


def align_graph(
    log_probs: Floats,  # (T, V), contiguous
    graph: AlignmentGraph,
    *,
    blank: int,
    block: int = BLOCK,  # frames
) -> Integers | None:  # (N, 2)
    """The first and the last frame of each token, -1 for spellings not taken; None if there are too few frames."""
    (tokens, links, ends), size = graph, len(graph.tokens)
    spans = np.full((size, 2), -1, np.int64)
    if not size:
        return spans
    blocks = [log_probs[first : first + block] for first in range(0, len(log_probs), block)]
    skip = np.zeros(size)  # -inf for a token equal to the one before it: a blank must stand between them
    skip[0], skip[1:][tokens[1:] == tokens[:-1]] = -np.inf, -np.inf
    scores = np.full((2, size + 1), -np.inf)
    scores[0, 0] = 0.0
    checkpoints = [scores]
    for part in blocks[:-1]:
        checkpoints.append(_run_block(part, tokens, skip, links, blank, checkpoints[-1], kept=1)[0].copy())
    low, high, state = int(ends.min()) + 1, size, None
    for number, part in reversed(list(enumerate(blocks))):
        low = _earliest_source(low, len(part) + 1, size, links)  # one frame more: the edge itself is never used
        window_links = links
        if len(links):
            window_links = links[np.searchsorted(links[:, 0], low) : np.searchsorted(links[:, 0], high)] - low
        window = checkpoints[number][:, low : high + 1]
        scores, backpointers, sources = _run_block(
            part, tokens[low:high], skip[low:high], window_links, blank, window, kept=len(part)
        )
        state = state or _best_end(scores, ends, low)
        if state is None:
            break
        state = trace_back(backpointers, sources, window_links, low, number * block, state, spans)
        low = high = state[0]
    return None if state is None else spans


def _run_block(
    part: Floats,
    tokens: Integers,
    skip: Floats,
    links: Integers,
    blank: int,
    scores: Floats,  # (2, S + 1) before these frames
    *,
    kept: int,  # frames whose backpointers are kept
) -> tuple[Floats, Bytes, Integers]:
    """The scores after some frames, and backpointers; see ``run_frames``."""
    rows = np.empty((2, *scores.shape))
    rows[0], rows[1, 1, 0] = scores, -np.inf  # position 0 has no token
    backpointers, sources = np.empty((kept, *scores.shape), np.uint8), np.empty((kept, len(links)), np.int64)
    current = run_frames(part, tokens, skip, links, blank, rows, backpointers, sources)
    return rows[current], backpointers, sources


def _earliest_source(position: int, frames: int, size: int, links: Integers) -> int:
    """The first position from which this one, or a later one, can be reached within this many frames."""
    if position <= frames:
        return 0
    sources = np.maximum(np.arange(-1, size), 0)
    np.minimum.at(sources, links[:, 0] + 1, links[:, 1] + 1)
    first = np.minimum.accumulate(sources[::-1])[::-1].tolist()
    for _ in range(frames):
        position = first[position]
    return position


def _best_end(scores: Floats, ends: Integers, low: int) -> tuple[int, bool, bool] | None:
    """The end of the best path, as a state for ``trace_back``; None if there is no path."""
    candidates = scores[::-1, ends + 1 - low]  # on the token, or on the blank after it
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
    """Trace back through some frames; the state before them: position, whether on its token, whether entered."""
    position, on_token, entered = state
    first_link = np.full(backpointers.shape[2], -1)
    for row in range(len(links) - 1, -1, -1):
        first_link[links[row, 0]] = row
    for t in range(len(backpointers) - 1, -1, -1):
        step = backpointers[t, 1 if on_token else 0, position - low]
        if on_token:
            if entered:
                spans[position - 1, 1] = first + t
            spans[position - 1, 0] = first + t
            if step > STAY:
                row = first_link[position - 1 - low]
                position = position - 1 if row < 0 else low + sources[t, row]
        entered = step > STAY
        if step == STEP:
            on_token = not on_token
    return position, on_token, entered


@jit
def run_frames(
    part: Floats,  # (T, V)
    tokens: Integers,  # (S,)
    skip: Floats,  # (S,) 0, or -inf for a token equal to the one before it
    links: Integers,  # (L, 2)
    blank: int,
    rows: Floats,  # (2, 2, S + 1) two buffers of scores of blanks and tokens; the first is given
    backpointers: Bytes,  # (T or 1, 2, S + 1) written
    sources: Integers,  # (T or 1, L) written: the position that a token with links was reached from, at its first link
) -> int:
    """Process some frames; the index of the buffer in ``rows`` that holds the result.

    Backpointers are stored if ``backpointers`` holds all frames.
    """
    size, current, emitted = len(tokens), 0, np.empty(len(tokens) + 1)
    for t in range(len(part)):
        blanks, token_scores, new_blanks, new_tokens = (
            rows[current, 0],
            rows[current, 1],
            rows[1 - current, 0],
            rows[1 - current, 1],
        )
        kept = t if len(backpointers) == len(part) else 0
        emit(part[t], tokens, blank, emitted)
        update_blanks(blanks, token_scores, emitted[size], new_blanks, backpointers[kept, 0])
        update_tokens(blanks, token_scores, emitted, skip, new_tokens, backpointers[kept, 1])
        if len(links):
            update_linked(
                blanks, token_scores, emitted, tokens, links, new_tokens, backpointers[kept, 1], sources[kept]
            )
        current = 1 - current
    return current


@jit_fastmath
def emit(row: Floats, target: Integers, blank: int, emitted: Floats) -> None:
    size = len(target)
    for i in range(size):
        emitted[i] = row[target[i]]
    emitted[size] = row[blank]
    for i in range(size + 1):
        emitted[i] = max(FLOOR, emitted[i])  # in this order it is FLOOR for NaN


@jit_fastmath
def update_blanks(blanks: Floats, tokens: Floats, emitted: float, result: Floats, backpointers: Bytes) -> None:
    for i in range(len(result)):
        stay, step = blanks[i], tokens[i]
        result[i] = max(stay, step) + emitted
        backpointers[i] = STEP if step > stay else STAY


@jit_fastmath
def update_tokens(
    blanks: Floats, tokens: Floats, emitted: Floats, skip: Floats, result: Floats, backpointers: Bytes
) -> None:
    for i in range(len(skip)):
        stay, step, jump = tokens[i + 1], blanks[i], tokens[i] + skip[i]
        best = max(stay, step)
        pointer = STEP if step > stay else STAY
        result[i + 1] = max(best, jump) + emitted[i]
        backpointers[i + 1] = SKIP if jump > best else pointer


@jit
def update_linked(
    blanks: Floats,
    token_scores: Floats,  # scores on tokens
    emitted: Floats,
    tokens: Integers,
    links: Integers,
    result: Floats,
    backpointers: Bytes,
    sources: Integers,
) -> None:
    """Replace the scores of tokens that have links by the best of all their predecessors."""
    best, head = -np.inf, 0
    for row in range(len(links)):
        i, source = links[row, 0], links[row, 1] + 1
        if row == 0 or i != links[row - 1, 0]:
            best, head, backpointers[i + 1] = token_scores[i + 1], row, STAY
        if source >= 0 and blanks[source] > best:
            best, backpointers[i + 1], sources[head] = blanks[source], STEP, source
        if source > 0 and tokens[source - 1] != tokens[i] and token_scores[source] > best:
            best, backpointers[i + 1], sources[head] = token_scores[source], SKIP, source
        result[i + 1] = best + emitted[i]
