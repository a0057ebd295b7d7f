"""Prefix beam search at any beam size, with all of its limits, against the naive one."""

import math
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.frames.test_prefix_beam import emit, search

from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.kernels.ctc.naive import path_log_probs
from seqloom.kernels.frame_beam import naive


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 999),
    tokens=st.integers(2, 6),
    scale=st.sampled_from([0.3, 1.5, 4.0]),
    size=st.integers(1, 20),
    per_node=st.integers(0, 3),
    threshold=st.sampled_from([math.inf, 5.0, 2.0, 0.5]),
    bonus=st.sampled_from([0.0, 0.7]),
    lag=st.sampled_from([0, 1, 2, 4, 8]),
    merge=st.sampled_from(["sum", "max"]),
)
def test_the_beam_equals_the_naive_one(
    seed: int,
    tokens: int,
    scale: float,
    size: int,
    per_node: int,
    threshold: float,
    bonus: float,
    lag: int,
    merge: Literal["sum", "max"],
) -> None:
    frames = emit(seed, 12, tokens, scale)
    expected = naive.prefix_beam(
        frames.numpy(),
        size=size,
        per_node=per_node,
        threshold=threshold,
        score_text=lambda text: bonus * len(text),
        lag=lag,
        merge=max if merge == "max" else np.logaddexp,
    )
    limit = 0.0 if threshold == math.inf else threshold
    beam = PrefixBeam(size=size, nbest=size, per_node=per_node, threshold=limit, lag=lag, merge=merge)
    actual = {
        tuple(transcript.tokens): transcript.acoustic
        for transcript in search(beam, frames, guide=Guide(word_score=bonus))
    }
    assert actual == pytest.approx(expected, abs=1e-9)  # log_add has an error of 2e-11 in each frame


def test_a_text_has_the_probability_of_its_best_path_if_paths_are_merged_by_their_maximum() -> None:
    frames = emit(3, 5, 3, 1.5)
    expected = {tokens: max(paths) for tokens, paths in path_log_probs(frames.numpy()).items()}
    transcripts = search(PrefixBeam(size=1000, nbest=1000, merge="max"), frames)
    assert {tuple(each.tokens): each.acoustic for each in transcripts} == pytest.approx(expected, abs=1e-9)
