"""Music as a piano roll: a picture, lines of text, or a MIDI file to play."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from seqloom.data.readers.midi import LOWEST, TEMPO, Frames, note_name, write_midi
from seqloom.insight.plotting import BLUE, GREY, ORANGE, SUFFIXES, panel_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIDI = ".mid"
BLACK_KEYS = (1, 3, 6, 8, 10)  # of the twelve semitones from C
BEATS_PER_BAR = 4
MAX_INCHES = 24.0  # width of a picture
TEXT_BLOCKS = {(0, 0): " ", (1, 0): "▀", (0, 1): "▄", (1, 1): "█"}  # upper and lower key of a line of text


class RolledNote(NamedTuple):
    """A note of a piano roll."""

    key: int  # of the piano, from 0
    start: int  # frame
    end: int  # frame after the last one


@dataclass(frozen=True)
class PianoRoll:
    """Music as frames of the 88 keys of a piano. ``save`` writes a MIDI file or a picture."""

    frames: Frames  # (T, 88), 1 where a key sounds
    frames_per_beat: int = 4
    tempo: float = TEMPO  # quarter notes per minute
    given: int = 0  # first frames, which were not generated

    @property
    def seconds(self) -> float:
        """How long it plays."""
        return len(self.frames) / self.frames_per_beat * 60 / self.tempo

    def notes(self) -> list[RolledNote]:
        """Successive frames of a key are one note."""
        changes = np.diff(np.pad(self.frames.astype(np.int8), ((1, 1), (0, 0))), axis=0)
        starts, ends = (np.argwhere(change == changes.T) for change in (1, -1))  # by key, then by frame
        return [RolledNote(int(key), int(start), int(end)) for (key, start), (_, end) in zip(starts, ends, strict=True)]

    def save(self, path: str | Path) -> None:
        """Write a MIDI file (.mid), or the piano roll as .png, .svg or .pdf."""
        target = Path(path)
        if target.suffix.lower() == MIDI:
            write_midi(target, self.frames, frames_per_beat=self.frames_per_beat, tempo=self.tempo)
        elif target.suffix.lower() in SUFFIXES:
            draw_piano_rolls([self], target)
        else:
            raise ValueError(f"{target}: expected a file that ends in {', '.join((MIDI, *SUFFIXES))}")

    def lines(self, *, width: int = 72) -> Iterator[str]:
        """The first frames as text for a terminal: time from left to right, two keys on each line."""
        shown = self.frames[:width]
        keys = np.flatnonzero(shown.any(axis=0))
        if not len(keys):
            return
        top = int(keys[-1]) + (int(keys[-1]) - int(keys[0]) + 1) % 2
        for upper in range(top, int(keys[0]), -2):
            cells = zip(
                shown[:, upper] if upper < shown.shape[1] else [0] * len(shown), shown[:, upper - 1], strict=True
            )
            yield (
                f"{note_name(upper - 1):>4} "
                + "".join(TEXT_BLOCKS[int(high), int(low)] for high, low in cells).rstrip()
            )


def draw_piano_rolls(rolls: Sequence[PianoRoll], path: str | Path, *, title: str = "") -> "Figure":
    """Draw pieces below each other; frames that were given, not generated, are grey."""
    from matplotlib.ticker import MultipleLocator

    beats = max(len(roll.frames) / roll.frames_per_beat for roll in rolls)
    used = np.flatnonzero(np.concatenate([roll.frames for roll in rolls]).any(axis=0))
    low, high = (int(used[0]), int(used[-1])) if len(used) else (39, 51)
    figure = panel_figure(
        len(rolls), width=min(max(6.4, beats / 4), MAX_INCHES), height=1.2 + 0.06 * (high - low + 1), across=1
    )
    for axes, roll in zip(figure.axes, rolls, strict=True):
        axes.grid(visible=False, axis="y")
        for key in range(low - 1, high + 2):
            if (key + LOWEST) % 12 in BLACK_KEYS:
                axes.axhspan(key - 0.5, key + 0.5, color=GREY, alpha=0.1, linewidth=0)
        for key, start, end in roll.notes():
            for first, last, colour in ((start, min(end, roll.given), GREY), (max(start, roll.given), end, BLUE)):
                if last > first:
                    left, width = first / roll.frames_per_beat, (last - first) / roll.frames_per_beat
                    axes.broken_barh([(left, width)], (key - 0.4, 0.8), color=colour, linewidth=0)
        if roll.given:
            axes.axvline(roll.given / roll.frames_per_beat, color=ORANGE, linewidth=1.2)
        octaves = [key for key in range(low - 1, high + 2) if (key + LOWEST) % 12 == 0]
        axes.set_yticks(octaves, [note_name(key) for key in octaves])
        axes.set_ylim(low - 1.5, high + 1.5)
        axes.set_xlim(0, beats)
        axes.xaxis.set_major_locator(MultipleLocator(BEATS_PER_BAR * max(1, round(beats / 64))))
    figure.axes[-1].set_xlabel("beat")
    save_figure(figure, path, title=title)
    return figure
