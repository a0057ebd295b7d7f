"""Synthetic speech: texts spoken by many voices of espeak-ng, as further speakers for training."""

import re
import shutil
import subprocess
import wave
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom import files
from seqloom.data.readers.text_files import DataError, lines
from seqloom.kernels.resample import resample

PROGRAM = "espeak-ng"
UNNATURAL = re.compile(
    "robo|robot|whisper|demonic|tweaky|announcer|croak|fast|storm|klatt[56]|iven|ricishay|anxious", re.IGNORECASE
)
"""Variants of espeak-ng that no person sounds like."""
PITCHES, SPEEDS = (20, 75), (110, 210)  # of espeak-ng: 0 to 99, and words per minute
SILENCE_DB = 45  # below the peak; quieter ends are cut off
HEADER = 44  # bytes of a WAV header; espeak-ng does not know the length yet when it writes it


class Voice(NamedTuple):
    """A voice of espeak-ng: an accent, a variant of it, and how high and fast it speaks."""

    accent: str
    variant: str
    pitch: int
    speed: int  # words per minute

    @property
    def name(self) -> str:
        """A name for files."""
        return re.sub(r"[^\w+-]", "_", f"{self.accent}+{self.variant}-{self.pitch}-{self.speed}")


class TextToSpeak(NamedTuple):
    """A text that is spoken, and what the list of recordings says about it."""

    text: str
    label: str


def read_texts(path: Path) -> list[TextToSpeak]:
    """Lines of a text, optionally with a tab and a label; without one, the text is the label."""
    rows = []
    for location, line in lines(path):
        text, tab, label = line.partition("\t")
        if not text.strip() or (tab and not label.strip()):
            raise DataError(location, "expected a text, or a text, a tab and its label")
        rows.append(TextToSpeak(text.strip(), label.strip() or text.strip()))
    if not rows:
        raise DataError(str(path), "contains no text")
    return rows


def choose_voices(count: int, *, accents: str, seed: int) -> list[Voice]:
    """Random voices: each accent of a language with each variant once, then again with another pitch and speed."""
    variants = [name for name in _names("variant") if not UNNATURAL.search(name)]
    random = np.random.default_rng(seed)
    pairs = [(accent, variant) for accent in find_accents(accents) for variant in variants]
    voices: list[Voice] = []
    while len(voices) < count:
        for index in random.permutation(len(pairs))[: count - len(voices)]:
            pitch, speed = (int(random.integers(low, high + 1)) for low, high in (PITCHES, SPEEDS))
            accent, variant = pairs[index]
            voices.append(Voice(accent, variant, pitch, speed))
    return voices


def find_accents(language: str) -> list[str]:
    """A language and its accents, such as en-gb and en-us for en."""
    known = sorted({row[1] for row in _table("")})
    accents = [name for name in known if name == language or name.startswith(f"{language}-")]
    if not accents:
        raise ValueError(f"{PROGRAM} has no voice for the language {language!r} (known: {', '.join(known)})")
    return accents


def _names(language: str) -> list[str]:
    return [row[4].removeprefix("!v/") for row in _table(language)]


def _table(language: str) -> Iterator[list[str]]:
    """Rows of ``espeak-ng --voices``: priority, language, age and sex, name, file; without voices of MBROLA."""
    listing = _run([f"--voices={language}" if language else "--voices"]).decode()
    for line in listing.splitlines()[1:]:
        row = re.match(r"\s*(\d+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+(?: \S+)*)", line)
        if row and not row[5].startswith("mb/"):
            yield list(row.groups())


def speak(
    text: str,
    voice: Voice,
    *,
    rate: int,  # samples per second of the result
) -> NDArray[np.float32]:
    """The samples of a text, between -1 and 1, without silence at the ends."""
    options = ["-v", f"{voice.accent}+{voice.variant}", "-p", str(voice.pitch), "-s", str(voice.speed)]
    sound = _run([*options, "--stdin", "--stdout"], text=text)
    samples = torch.from_numpy(np.frombuffer(sound[HEADER : len(sound) // 2 * 2], dtype="<i2").astype(np.float32))
    if not len(samples) or not samples.any():
        raise ValueError(f"{PROGRAM} says nothing for {text!r} (voice {voice.accent}+{voice.variant})")
    own_rate = int.from_bytes(sound[24:28], "little")
    return _trim(resample(samples / 32768, up=rate, down=own_rate).numpy())


def _trim(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    heard = np.flatnonzero(np.abs(samples) > np.abs(samples).max() * 10 ** (-SILENCE_DB / 20))
    return samples[heard[0] : heard[-1] + 1]


def synthesize(
    texts: Sequence[TextToSpeak],
    folder: Path,
    *,
    voices: Sequence[Voice],
    rate: int = 16000,
) -> Path:
    """Write all texts in all voices to ``folder`` as WAV files; returns their list, FOLDER.tsv beside the folder."""
    path = folder.with_name(f"{folder.name}.tsv")
    files.refuse_existing(path)
    rows = []
    for voice in voices:
        for number, (text, label) in enumerate(texts, start=1):
            samples = speak(text, voice, rate=rate)
            name = Path(voice.name, f"{number:04}.wav")
            with files.replacing(folder / name, durable=False) as file, wave.Wave_write(file) as sound:
                sound.setparams((1, 2, rate, 0, "NONE", ""))
                sound.writeframes((samples.clip(-1, 1) * 32767).astype("<i2").tobytes())
            rows.append(f"{Path(folder.name, name).as_posix()}\t{label}\n")
    files.write(path, "".join(rows))
    return path


def _run(arguments: Sequence[str], *, text: str = "") -> bytes:
    program = shutil.which(PROGRAM)
    if program is None:
        raise ValueError(
            f"{PROGRAM} is not installed, which speaks the texts: install it, for example with "
            "'apt install espeak-ng' or 'brew install espeak-ng'"
        )
    result = subprocess.run([program, *arguments], input=text.encode(), capture_output=True, check=False)  # noqa: S603
    if result.returncode:
        raise ValueError(f"{PROGRAM} {' '.join(arguments)} failed: {result.stderr.decode(errors='replace').strip()}")
    return result.stdout
