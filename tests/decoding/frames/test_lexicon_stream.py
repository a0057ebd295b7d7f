"""Words with several spellings: the tokens of a transcript are those of the most probable path, against every path."""

import math

import numpy as np
import pytest
import torch
from tests.decoding.frames.every_path import lexicon, spellings
from tests.decoding.frames.test_prefix_beam import FULL, LEXICA, SPELLINGS, emit, search

from seqloom.decoding.frames.frame_search import Guide, Transcript
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.kernels.ctc.naive import path_log_probs

READ = Guide(lexicon([(0, (1, 2, 4)), (0, (1, 3, 4)), (1, (5,))], None))
PRONUNCIATIONS = {"R IY D": [1, 2, 4], "R EH D": [1, 3, 4]}


def pronounce(*tokens: int, doubt: float = 0.3) -> torch.Tensor:
    """Each token in two frames, then a blank; at a vowel, the other vowel is a bit less probable."""
    frames = torch.full((3 * len(tokens), 6), 0.01, dtype=torch.float64)
    for number, token in enumerate(tokens):
        frames[3 * number : 3 * number + 2, token] = 0.6
        if token in (2, 3):
            frames[3 * number : 3 * number + 2, 5 - token] = doubt
    frames[2::3, 0] = 0.9
    return frames.log()


@LEXICA
@pytest.mark.parametrize("seed", range(6))
def test_tokens_are_those_of_the_most_probable_path(name: str, seed: int) -> None:
    spelling, separator = SPELLINGS[name]
    frames = emit(seed, 6 if separator is None else 5, 4 if separator else 3, impossible=0.1 * (seed == 1))
    every = path_log_probs(frames.numpy())
    transcripts = search(FULL, frames, guide=Guide(lexicon(spelling, separator)))
    assert transcripts
    for transcript in transcripts:
        ways = {way: max(every[way]) for way in spellings(tuple(transcript.words), spelling, separator) if way in every}
        assert path_log_prob(frames, transcript) == pytest.approx(max(ways.values()), abs=1e-10)
        assert ways[tuple(transcript.tokens)] == max(ways.values())


def path_log_prob(frames: torch.Tensor, transcript: Transcript) -> float:
    """The log-probability of the path that a transcript shows."""
    path = np.zeros(len(frames), np.int64)
    for token, (first, last) in zip(transcript.tokens, transcript.frames, strict=True):
        path[first : last + 1] = token
    return float(frames.numpy()[np.arange(len(frames)), path].sum())


@pytest.mark.parametrize("pronunciation", PRONUNCIATIONS)
@pytest.mark.parametrize("size", [1, 2, 64])
def test_a_word_has_the_tokens_of_its_pronunciation(pronunciation: str, size: int) -> None:
    other = PRONUNCIATIONS["R EH D" if pronunciation == "R IY D" else "R IY D"]
    tokens = [*PRONUNCIATIONS[pronunciation], 5, *other, *PRONUNCIATIONS[pronunciation]]
    (transcript,) = search(PrefixBeam(size=size), pronounce(*tokens), guide=READ)
    assert transcript.words == [0, 1, 0, 0]
    assert transcript.tokens == tokens
    assert transcript.frames == [(3 * index, 3 * index + 1) for index in range(len(tokens))]
    assert transcript.spans == [(0, 7), (9, 10), (12, 19), (21, 28)]


def test_committed_tokens_stay() -> None:
    """Frames one by one, with a vowel that only its last frame decides."""
    frames = pronounce(*PRONUNCIATIONS["R EH D"], 5, *PRONUNCIATIONS["R IY D"], 5, doubt=0.59)
    stream, committed = PrefixBeam(size=3).stream(vocab_size=6, guide=READ), list[int]()
    for frame in frames:
        stream.feed(frame[None])
        stable = stream.stable()
        assert stable.tokens[: len(committed)] == committed
        assert len(stable.frames) == len(stable.tokens)
        committed = stable.tokens
    assert committed[:4] == [*PRONUNCIATIONS["R EH D"], 5]
    stream.feed(torch.full((1, 6), -math.inf))
    assert stream.stable().tokens == committed  # although no path is possible any more
    assert stream.finish() == []


def test_repeated_tokens_that_are_committed_one_by_one_have_a_blank_between_them() -> None:
    guide = Guide(lexicon([(0, (1,)), (0, (1, 1)), (1, (2,))], None))
    for seed in range(30):
        frames = emit(seed, 30, 3)
        stream = PrefixBeam(size=2).stream(vocab_size=3, guide=guide)
        for frame in frames:
            stream.feed(frame[None])
            stable = stream.stable()
            last, before = -1, 0
            for token, (start, end) in zip(stable.tokens, stable.frames, strict=True):
                assert last + (token == before) < start <= end
                last, before = end, token


@pytest.mark.parametrize("guide", [Guide(), READ])
def test_single_precision_changes_nothing(guide: Guide) -> None:
    frames = emit(5, 40, 6).float()
    expected = search(PrefixBeam(), frames.double(), guide=guide)
    stream = PrefixBeam().stream(vocab_size=6, guide=guide)
    chunk = np.empty((10, 6), np.float32)  # reused for each chunk
    for start in range(0, 40, 10):
        chunk[:] = frames[start : start + 10].numpy()
        stream.feed(chunk)
    assert {kept.dtype for kept in stream.chunks} == {np.dtype(np.float32)}  # type: ignore[attr-defined]
    assert stream.finish() == search(PrefixBeam(), frames, guide=guide) == expected
