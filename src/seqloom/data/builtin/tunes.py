"""Short tunes in several keys: a melody over chords and a bass, as MIDI files."""

import random
from pathlib import Path

import numpy as np

from seqloom.data.readers.midi import KEYS, LOWEST, Frames, write_midi

SCALE = (0, 2, 4, 5, 7, 9, 11)  # semitones of a major scale
FRAMES_PER_BEAT, BEATS, BARS = 2, 4, 8
FRAMES = FRAMES_PER_BEAT * BEATS  # of a bar
TONICS = (-5, -3, 0, 2, 5)  # of the keys G, A, C, D and F, in semitones from middle C
NEXT_CHORD = {0: (3, 4, 5, 1, 0), 1: (4, 4, 6), 3: (4, 0, 1, 4), 4: (0, 0, 5), 5: (3, 1, 4), 6: (0,)}
"""Which degrees of the scale follow each other as chords."""
RHYTHMS = ((2, 2, 2, 2), (4, 2, 2), (2, 2, 4), (1, 1, 2, 2, 2), (2, 1, 1, 4), (4, 4), (3, 1, 2, 2), (2, 2, 1, 1, 2))
"""Lengths of the notes of a bar, in frames."""
TEMPO = 100.0


def tune(draw: random.Random) -> Frames:  # (BARS · FRAMES, 88)
    """A melody that moves in small steps and meets the chord on the beat; the last four bars repeat the rhythm."""
    tonic = draw.choice(TONICS) + 60
    chords = [0]
    while len(chords) < BARS - 2:
        chords.append(draw.choice(NEXT_CHORD[chords[-1]]))
    chords += [4, 0]  # the cadence
    rhythms = [draw.choice(RHYTHMS) for _ in range(BARS // 2)]
    frames = np.zeros((BARS * FRAMES, KEYS), dtype=np.uint8)
    step = draw.choice((4, 7, 9))  # of the melody, in steps of the scale above the tonic
    for bar, degree in enumerate(chords):
        start = bar * FRAMES
        tones = (degree, degree + 2, degree + 4)
        _play(frames, start, FRAMES // 2, _pitch(tonic - 24, degree))
        _play(frames, start + FRAMES // 2, FRAMES // 2, _pitch(tonic - 24, tones[2] if draw.random() < 0.5 else degree))
        for tone in tones:
            _play(frames, start, FRAMES, _pitch(tonic - 12, tone % 7))
        place = start
        for length in (FRAMES,) if bar == BARS - 1 else rhythms[bar % len(rhythms)]:
            on_beat = (place - start) % (2 * FRAMES_PER_BEAT) == 0
            step = _next_step(draw, step, tones if on_beat else (), is_last=bar == BARS - 1)
            _play(frames, place, length, _pitch(tonic, step))
            place += length
    return frames


def _next_step(draw: random.Random, step: int, tones: tuple[int, ...], *, is_last: bool) -> int:
    """The next note of the melody, in steps of the scale: nearby, and one of the tones if there are some."""
    if is_last:
        return 7 if step > 3 else 0
    near = [other for other in range(step - 3, step + 4) if 0 <= other <= 11 and other != step]
    fitting = [other for other in near if not tones or other % 7 in {tone % 7 for tone in tones}]
    weights = [1 / abs(other - step) for other in fitting or near]
    return draw.choices(fitting or near, weights)[0]


def _pitch(tonic: int, step: int) -> int:
    octave, degree = divmod(step, len(SCALE))
    return tonic + 12 * octave + SCALE[degree]


def _play(frames: Frames, start: int, length: int, pitch: int) -> None:
    frames[start : start + length, pitch - LOWEST] = 1


def write_split(folder: Path, count: int, split: str, *, seed: int) -> Path:
    """Write the tunes of a split as MIDI files to a folder of its name."""
    draw = random.Random(f"{split} {seed}")  # noqa: S311  data, not secrets
    target = folder / split
    target.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        write_midi(target / f"{number + 1:03}.mid", tune(draw), frames_per_beat=FRAMES_PER_BEAT, tempo=TEMPO)
    return target
