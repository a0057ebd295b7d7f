"""Prefix beam search of any width, with all of its limits, against a plain one that says what they mean."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.every_path import Symbols
from tests.decoding.frames.test_prefix_beam import emit, search

from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.prefix_beam import PrefixBeam

Ends = tuple[float, float]  # log p of the paths that end in a blank, and in the last symbol
NEVER = -math.inf


def both(ends: Ends) -> float:
    return float(np.logaddexp(*ends))


def step(beam: dict[Symbols, Ends], prefix: Symbols, frame: npt.NDArray[Any]) -> float:
    """log p of the paths of a prefix that say its last symbol for the first time in this frame."""
    *before, last = prefix
    ends = beam.get(tuple(before), (NEVER, NEVER))
    return (ends[0] if before[-1:] == [last] else both(ends)) + float(frame[last])


def plain(
    frames: npt.NDArray[Any], *, size: int, per_node: int, threshold: float, bonus: float, lag: int
) -> dict[Symbols, float]:
    beam: dict[Symbols, Ends] = {(): (0.0, NEVER)}
    ways: dict[Symbols, list[Symbols]] = {(): [()]}  # what the best way to each prefix had said after each frame
    for frame in frames:
        after: dict[Symbols, Ends] = {}
        origins: dict[Symbols, Symbols] = {}
        for prefix, ends in beam.items():
            silent, stays, enters = both(ends) + float(frame[0]), NEVER, NEVER
            if prefix:
                stays, enters = ends[1] + float(frame[prefix[-1]]), step(beam, prefix, frame)
            after[prefix] = (silent, float(np.logaddexp(stays, enters)))
            origins[prefix] = prefix[:-1] if enters > max(silent, stays) else prefix
            fresh = [(*prefix, symbol) for symbol in range(1, len(frame)) if (*prefix, symbol) not in beam]
            fresh.sort(key=lambda one: -step(beam, one, frame))
            after |= {one: (NEVER, step(beam, one, frame)) for one in fresh[: per_node or None]}
        scores = {prefix: both(ends) + bonus * len(prefix) for prefix, ends in after.items()}
        possible = (prefix for prefix, score in scores.items() if score > NEVER)
        kept = sorted(possible, key=lambda prefix: -scores[prefix])[:size]
        beam = {prefix: after[prefix] for prefix in kept if scores[prefix] >= scores[kept[0]] - threshold}
        ways = {prefix: [*ways[origins.get(prefix, prefix[:-1])], prefix] for prefix in beam}
        if 0 < lag < len(ways[kept[0]]):
            decided = ways[kept[0]][-lag - 1]
            beam = {prefix: ends for prefix, ends in beam.items() if prefix[: len(decided)] == decided}
    return {prefix: both(ends) for prefix, ends in beam.items()}


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 999),
    symbols=st.integers(2, 6),
    scale=st.sampled_from([0.3, 1.5, 4.0]),
    size=st.integers(1, 20),
    per_node=st.integers(0, 3),
    threshold=st.sampled_from([math.inf, 5.0, 2.0, 0.5]),
    bonus=st.sampled_from([0.0, 0.7]),
    lag=st.sampled_from([0, 1, 2, 4, 8]),
)
def test_a_beam_keeps_what_a_plain_one_keeps(
    seed: int, symbols: int, scale: float, size: int, per_node: int, threshold: float, bonus: float, lag: int
) -> None:
    frames = emit(seed, 12, symbols, scale)
    wanted = plain(frames.numpy(), size=size, per_node=per_node, threshold=threshold, bonus=bonus, lag=lag)
    limit = 0.0 if threshold == math.inf else threshold
    beam = PrefixBeam(size=size, nbest=size, per_node=per_node, threshold=limit, lag=lag)
    found = {tuple(one.symbols): one.acoustic for one in search(beam, frames, guide=Guide(bonus=bonus))}
    assert found == pytest.approx(wanted, abs=1e-9)  # logarithms of sums are wrong by 2e-11 in each frame
