"""Data folders of Kaldi: recordings in ``wav.scp``, transcripts in ``text``, and optionally ``segments``."""

import os.path
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from seqloom.data.readers.text_files import DataError, Location, lines

LIST = "wav.scp"
DECODERS = ("flac", "sph2pipe", "cat")
"""Programs of a command in ``wav.scp`` that only decode the file that they name."""


class Utterance(NamedTuple):
    """A recording, or a part of one."""

    location: Location
    name: str  # of the utterance
    file: str
    text: str | None  # None: unknown
    start: float = 0.0  # seconds
    end: float = -1.0  # seconds; negative: the end of the recording


def is_kaldi(path: Path) -> bool:
    """Whether a path is a data folder, or the list of its recordings."""
    return path.name == LIST or (path.is_dir() and (path / LIST).is_file())


def read_kaldi(path: Path, *, encoding: str = "utf-8") -> list[Utterance]:
    """The utterances of a data folder, in the order of ``segments`` or ``wav.scp``."""
    folder = path.parent if path.name == LIST else path
    files = {name: (location, _file(location, rest, folder)) for location, name, rest in _rows(folder / LIST, encoding)}
    texts = {name: (location, rest) for location, name, rest in _rows(folder / "text", encoding, missing_ok=True)}
    parts = list(_rows(folder / "segments", encoding, missing_ok=True))
    if not parts:
        utterances = [Utterance(location, name, file, None) for name, (location, file) in files.items()]
    else:
        utterances = [_segment(location, name, rest, files) for location, name, rest in parts]
    known = {utterance.name for utterance in utterances}
    for name, (location, _) in texts.items():
        if name not in known:
            raise DataError(location, f"no recording {name!r} in {'segments' if parts else LIST}")
    return [utterance._replace(text=texts.get(utterance.name, (None, None))[1]) for utterance in utterances]


def _rows(path: Path, encoding: str, *, missing_ok: bool = False) -> Iterator[tuple[Location, str, str]]:
    """The first word and the rest of each line."""
    if missing_ok and not path.exists():
        return
    seen: set[str] = set()
    for location, line in lines(path, encoding=encoding):
        fields = line.split(maxsplit=1)
        if not fields:
            continue
        if fields[0] in seen:
            raise DataError(location, f"{fields[0]!r} occurs a second time")
        seen.add(fields[0])
        yield location, fields[0], fields[1].strip() if len(fields) > 1 else ""


def _file(location: Location, value: str, folder: Path) -> str:
    """The file of an entry; it is relative to the current folder, as in Kaldi, or to the data folder."""
    name = value
    if value.endswith("|"):
        try:
            words = shlex.split(value.removesuffix("|"))
        except ValueError:
            words = []
        arguments = [word for word in words[1:] if not word.startswith("-") and Path(word).suffix]
        if not words or Path(words[0]).name not in DECODERS or len(arguments) != 1:
            raise DataError(
                location, f"commands are not run: {value[:60]!r}; write the recording to a file and name that"
            )
        name = arguments[0]
    if not name:
        raise DataError(location, "expected a name and a file")
    if not os.path.isfile(folder / name) and os.path.isfile(name):  # noqa: PTH113  accepts names of any length
        return str(Path(name).absolute())
    return name


def _segment(location: Location, name: str, rest: str, files: dict[str, tuple[Location, str]]) -> Utterance:
    fields = rest.split()
    try:
        recording, start, end = fields[0], float(fields[1]), float(fields[2])
    except (IndexError, ValueError):
        raise DataError(
            location, f"expected an utterance, a recording, its start and its end in seconds, found {rest[:60]!r}"
        ) from None
    if recording not in files:
        raise DataError(location, f"no recording {recording!r} in {LIST}")
    if start < 0 or 0 <= end <= start:
        raise DataError(location, f"expected 0 ≤ start < end, found {start:g} and {end:g}")
    return Utterance(location, name, files[recording][1], None, start, end)
