"""A recording in pieces: what is fed is checked, and what comes out grows."""

import numpy as np
import pytest
import torch

from seqloom.decoding.frames.best_path import BestPath
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig
from seqloom.models.streaming import StreamingSession
from seqloom.models.transcription.line_images import LineImageConfig
from seqloom.models.transcription.transcriber import TimeReductionConfig, build_transcriber


def session() -> StreamingSession[list[int]]:
    torch.manual_seed(1)
    recurrence = RecurrenceConfig(cell="gru", hidden_size=4)
    model = build_transcriber(
        size=3,
        symbols=5,
        look=LineImageConfig(),
        front=PrenetConfig(),
        recurrence=recurrence,
        reduction=TimeReductionConfig(factor=2),
    )
    model.output.weight.data *= 20
    model.output.bias.data.zero_()  # a blank is no more probable than symbols
    return StreamingSession(model.eval(), BestPath().stream(symbols=5), lambda found: found[0].symbols, width=3)


def test_frames_one_by_one_are_as_all_at_once() -> None:
    values = np.random.default_rng(2).normal(size=(11, 3))
    slow, quick = session(), session()
    heard = [slow.feed(values[step : step + 1]) for step in range(11)]
    last = slow.finish()
    quick.feed(values)
    assert last == quick.finish() != []
    for before, after in zip(heard, [*heard[1:], last], strict=True):
        assert after[: len(before)] == before


def test_nothing_heard_is_nothing_said() -> None:
    assert session().finish() == []


def test_what_is_fed_has_to_fit() -> None:
    with pytest.raises(ValueError, match=r"expected frames \(T, 3\), found an array of shape \(4, 2\)"):
        session().feed(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="contains NaN or infinity"):
        session().feed(np.full((1, 3), np.nan))
    done = session()
    done.finish()
    with pytest.raises(ValueError, match="finished"):
        done.feed(np.zeros((4, 3)))
