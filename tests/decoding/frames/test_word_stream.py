"""Words with several spellings: the symbols shown are those of the most probable path, against every path."""

import math

import numpy as np
import pytest
import torch
from tests.decoding.every_path import lexicon, spellings
from tests.decoding.frames.test_prefix_beam import FULL, LEXICA, SPELLINGS, emit, search

from seqloom.decoding.frames.frame_search import Guide, Transcript
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.kernels.ctc.naive import path_log_probs

READ = Guide(lexicon([(0, (1, 2, 4)), (0, (1, 3, 4)), (1, (5,))], None))
HEARD = {"R IY D": [1, 2, 4], "R EH D": [1, 3, 4]}


def say(*symbols: int, doubt: float = 0.3) -> torch.Tensor:
    """Each symbol twice and a blank; where one of the vowels is said, the other one is a bit less probable."""
    frames = torch.full((3 * len(symbols), 6), 0.01, dtype=torch.float64)
    for number, symbol in enumerate(symbols):
        frames[3 * number : 3 * number + 2, symbol] = 0.6
        if symbol in (2, 3):
            frames[3 * number : 3 * number + 2, 5 - symbol] = doubt
    frames[2::3, 0] = 0.9
    return frames.log()


@LEXICA
@pytest.mark.parametrize("seed", range(6))
def test_symbols_are_those_of_the_most_probable_path(name: str, seed: int) -> None:
    spelling, separator = SPELLINGS[name]
    frames = emit(seed, 6 if separator is None else 5, 4 if separator else 3, impossible=0.1 * (seed == 1))
    every = path_log_probs(frames.numpy())
    found = search(FULL, frames, guide=Guide(lexicon(spelling, separator)))
    assert found
    for one in found:
        ways = {way: max(every[way]) for way in spellings(tuple(one.words), spelling, separator) if way in every}
        assert placed(frames, one) == pytest.approx(max(ways.values()), abs=1e-10)
        assert ways[tuple(one.symbols)] == max(ways.values())


def placed(frames: torch.Tensor, one: Transcript) -> float:
    """The log-probability of the path that a transcript shows."""
    path = np.zeros(len(frames), np.int64)
    for symbol, (first, last) in zip(one.symbols, one.frames, strict=True):
        path[first : last + 1] = symbol
    return float(frames.numpy()[np.arange(len(frames)), path].sum())


@pytest.mark.parametrize("heard", HEARD)
@pytest.mark.parametrize("size", [1, 2, 64])
def test_a_word_is_shown_as_it_was_said(heard: str, size: int) -> None:
    other = HEARD["R EH D" if heard == "R IY D" else "R IY D"]
    said = [*HEARD[heard], 5, *other, *HEARD[heard]]
    (one,) = search(PrefixBeam(size=size), say(*said), guide=READ)
    assert one.words == [0, 1, 0, 0]
    assert one.symbols == said
    assert one.frames == [(3 * place, 3 * place + 1) for place in range(len(said))]
    assert one.spans == [(0, 7), (9, 10), (12, 19), (21, 28)]


def test_what_was_told_stays_told() -> None:
    """Frames that are told one by one, with a doubt that only the last frame of the vowel removes."""
    frames = say(*HEARD["R EH D"], 5, *HEARD["R IY D"], 5, doubt=0.59)
    stream, told = PrefixBeam(size=3).stream(symbols=6, guide=READ), list[int]()
    for frame in frames:
        stream.feed(frame[None])
        stable = stream.stable()
        assert stable.symbols[: len(told)] == told
        assert len(stable.frames) == len(stable.symbols)
        told = stable.symbols
    assert told[:4] == [*HEARD["R EH D"], 5]
    stream.feed(torch.full((1, 6), -math.inf))
    assert stream.stable().symbols == told  # though nothing is possible any more
    assert stream.finish() == []


def test_equal_symbols_that_are_told_one_by_one_have_a_blank_between_them() -> None:
    guide = Guide(lexicon([(0, (1,)), (0, (1, 1)), (1, (2,))], None))
    for seed in range(30):
        frames = emit(seed, 30, 3)
        stream = PrefixBeam(size=2).stream(symbols=3, guide=guide)
        for frame in frames:
            stream.feed(frame[None])
            stable = stream.stable()
            last, before = -1, 0
            for symbol, (start, end) in zip(stable.symbols, stable.frames, strict=True):
                assert last + (symbol == before) < start <= end
                last, before = end, symbol


@pytest.mark.parametrize("guide", [Guide(), READ])
def test_single_precision_is_kept_and_changes_nothing(guide: Guide) -> None:
    frames = emit(5, 40, 6).float()
    wanted = search(PrefixBeam(), frames.double(), guide=guide)
    stream = PrefixBeam().stream(symbols=6, guide=guide)
    piece = np.empty((10, 6), np.float32)  # whose memory is used again for each piece
    for start in range(0, 40, 10):
        piece[:] = frames[start : start + 10].numpy()
        stream.feed(piece)
    assert {kept.dtype for kept in stream.pieces} == {np.dtype(np.float32)}  # type: ignore[attr-defined]
    assert stream.finish() == search(PrefixBeam(), frames, guide=guide) == wanted
