"""Best path against its definition: the best token of each frame, repeats merged, blanks removed."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.decoding.frames.test_prefix_beam import emit

from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.kernels.ctc.naive import collapse


@given(st.integers(0, 99), st.integers(0, 20), st.integers(1, 5))
def test_the_best_path_is_collapsed(seed: int, time: int, vocab_size: int) -> None:
    frames, blank = emit(seed, time, vocab_size), seed % vocab_size
    (transcript,) = BestPath()(frames[None], torch.tensor([time]), blank=blank)[0]
    path = frames.argmax(dim=1).tolist() if time else []
    assert transcript.tokens == list(collapse(path, blank))
    assert (
        transcript.acoustic
        == transcript.score
        == pytest.approx(math.fsum(frames[t, s].item() for t, s in enumerate(path)))
    )
    marked = [blank] * time
    for token, (first, last) in zip(transcript.tokens, transcript.frames, strict=True):
        marked[first : last + 1] = [token] * (last + 1 - first)
    assert marked == path


def test_guides_are_rejected() -> None:
    with pytest.raises(ValueError, match="best_path uses no lexicon or language model"):
        BestPath()(torch.zeros(1, 2, 3), torch.tensor([2]), guide=Guide(Lexicon([("a", [1])])))
    assert BestPath()(torch.zeros(1, 2, 3), torch.tensor([2]), guide=Guide())[0][0].tokens == []
