"""A recording in chunks: the input is checked, and the result grows."""

import numpy as np
import pytest
import torch

from seqloom.decoding.frames.best_path import BestPath
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig
from seqloom.models.signals.frame_encoder import TimeReductionConfig, build_frame_encoder
from seqloom.models.transcription.streaming import StreamingSession
from seqloom.models.transcription.transcriber import Transcriber


def session() -> StreamingSession[list[int]]:
    torch.manual_seed(1)
    recurrence = RecurrenceConfig(cell="gru", hidden_size=4)
    encoder = build_frame_encoder(
        [], size=3, prenet=PrenetConfig(), recurrence=recurrence, time_reduction=TimeReductionConfig(factor=2)
    )
    model = Transcriber(encoder, vocab_size=5)
    model.output.weight.data *= 20
    model.output.bias.data.zero_()  # the blank is no more probable than the other tokens
    return StreamingSession(
        model.eval(), BestPath().stream(vocab_size=5), lambda transcripts: transcripts[0].tokens, frame_size=3
    )


def test_single_frames_match_one_chunk() -> None:
    values = np.random.default_rng(2).normal(size=(11, 3))
    slow, quick = session(), session()
    results = [slow.feed(values[step : step + 1]) for step in range(11)]
    last = slow.finish()
    quick.feed(values)
    assert last == quick.finish() != []
    for before, after in zip(results, [*results[1:], last], strict=True):
        assert after[: len(before)] == before


def test_an_empty_recording() -> None:
    assert session().finish() == []


def test_invalid_input_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"expected frames \(T, 3\), found an array of shape \(4, 2\)"):
        session().feed(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="contains NaN or infinity"):
        session().feed(np.full((1, 3), np.nan))
    done = session()
    done.finish()
    with pytest.raises(ValueError, match="finished"):
        done.feed(np.zeros((4, 3)))
