"""Tones whose pitch rises, falls, stays or wavers: generated data for the classification of sound."""

import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqloom import files

RATE = 8000  # samples per second
CONTOURS = ("rising", "falling", "steady", "wavering")
SPLITS = {"train": 1, "dev": 2, "test": 3}


def tone(random: np.random.Generator, contour: str) -> NDArray[np.float64]:
    """Samples between -1 and 1: three harmonics with noise, louder or softer."""
    length = int(random.uniform(0.4, 0.8) * RATE)
    progress = np.linspace(-0.5, 0.5, length)
    semitones = {
        "rising": random.uniform(4, 12) * progress,
        "falling": -random.uniform(4, 12) * progress,
        "steady": np.zeros(length),
        "wavering": random.uniform(1, 3) * np.sin(2 * np.pi * random.uniform(5, 9) * length / RATE * progress),
    }[contour]
    phase = 2 * np.pi * np.cumsum(random.uniform(200, 700) * 2 ** (semitones / 12)) / RATE
    strengths = random.uniform(0.2, 1, size=3)
    sound = sum(strength * np.sin(harmonic * phase) for harmonic, strength in enumerate(strengths, start=1))
    fade = np.clip(np.minimum(np.arange(length), np.arange(length)[::-1]) / (0.02 * RATE), 0, 1)
    noisy = sound / strengths.sum() * fade + random.uniform(0.01, 0.1) * random.normal(size=length)
    loud: NDArray[np.float64] = random.uniform(0.2, 0.9) * noisy / np.abs(noisy).max()
    return loud


def write_split(folder: Path, count: int, split: str, *, seed: int) -> Iterator[str]:
    """Write the tones of a split to ``folder/sounds`` as WAV files; yields a header and rows."""
    random = np.random.default_rng([seed, SPLITS[split]])
    (folder / "sounds").mkdir(parents=True, exist_ok=True)
    yield "file\tlabel"
    for number in range(count):
        contour = CONTOURS[number % len(CONTOURS)]
        name = f"sounds/{split}-{number + 1:04}.wav"
        with files.replacing(folder / name, durable=False) as file, wave.Wave_write(file) as sound:
            sound.setparams((1, 2, RATE, 0, "NONE", ""))
            sound.writeframes((tone(random, contour) * 32767).astype("<i2").tobytes())
        yield f"{name}\t{contour}"
