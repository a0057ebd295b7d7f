"""Piano rolls: notes, text and pictures."""

from pathlib import Path

import numpy as np
import pytest

from seqloom.data.readers.midi import KEYS, LOWEST
from seqloom.insight.piano_roll import PianoRoll, draw_piano_rolls

FRAMES = np.zeros((6, KEYS), dtype=np.uint8)
FRAMES[0:4, 60 - LOWEST] = 1
FRAMES[5, 60 - LOWEST] = 1
FRAMES[2:6, 63 - LOWEST] = 1


def test_successive_frames_are_one_note() -> None:
    roll = PianoRoll(FRAMES, 2, 120.0)
    assert roll.notes() == [(39, 0, 4), (39, 5, 6), (42, 2, 6)]
    assert roll.seconds == pytest.approx(1.5)


def test_lines_of_text() -> None:
    assert list(PianoRoll(FRAMES).lines()) == ["  D4   ▀▀▀▀", "  C4 ▄▄▄▄ ▄"]
    assert list(PianoRoll(FRAMES * 0).lines()) == []


def test_the_picture_shows_each_note_and_where_it_was_given(tmp_path: Path) -> None:
    rolls = [PianoRoll(FRAMES, 2, given=3), PianoRoll(FRAMES[:4], 2)]
    figure = draw_piano_rolls(rolls, tmp_path / "roll.svg")
    bars = [[path.get_extents().bounds for path in bar.get_paths()] for bar in figure.axes[0].collections]
    drawn = sorted((x, width) for paths in bars for x, _, width, _ in paths)
    assert drawn == [(0.0, 1.5), (1.0, 0.5), (1.5, 0.5), (1.5, 1.5), (2.5, 0.5)]  # two are divided at frame 3
    assert (tmp_path / "roll.svg").stat().st_size > 1000


def test_other_suffixes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a file that ends in \.mid, \.png"):
        PianoRoll(FRAMES).save(tmp_path / "roll.wav")
