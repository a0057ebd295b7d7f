"""Files with the labels of one recording: segments with times (TSV, CTM, TextGrid), or a label for each frame."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from seqloom.data.readers.text_files import DataError, Location, lines
from seqloom.data.timed_text import Timed

SUFFIXES = (".tsv", ".txt", ".lab", ".ctm", ".textgrid")
OUTSIDE = "-"
"""The label of frames that no segment covers."""
TOKENS = re.compile(r'"((?:[^"]|"")*)"|(?<![\w.])(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w\]])|<(exists)>')


def read_segments(path: Path, *, encoding: str = "utf-8") -> list[Timed] | list[str]:
    """The segments of a file, in the order of time; or the labels of all frames if it holds no times."""
    suffix = path.suffix.lower()
    if suffix == ".textgrid":
        return _ordered(str(path), _first_tier(path, encoding))
    rows = [(at, line.split("\t") if "\t" in line else line.split()) for at, line in lines(path, encoding=encoding)]
    rows = [(at, fields) for at, fields in rows if fields and fields[0].strip()]
    if suffix == ".ctm":
        return _ordered(str(path), [_ctm(at, fields) for at, fields in rows])
    if rows and all(len(fields) == 1 for _, fields in rows):
        return [fields[0].strip() for _, fields in rows]
    if len(rows) == 1 and _time(rows[0][1][0]) is None:
        return [field.strip() for field in rows[0][1]]
    segments = [_segment(at, fields) for at, fields in rows]
    return _ordered(str(path), [segment for segment in segments if segment is not None])


def frame_labels(location: Location, segments: Sequence[Timed], centres: Sequence[float]) -> tuple[str, ...]:
    """The label of the segment in which the centre of each frame lies."""
    if segments and centres and segments[0].start > centres[-1]:
        start = f"the first segment starts at {segments[0].start:g} s"
        raise DataError(location, f"{start}, but the recording ends at {centres[-1]:.2f} s; are the times in seconds?")
    labels, index = [], 0
    for centre in centres:
        while index < len(segments) and segments[index].end <= centre:
            index += 1
        inside = index < len(segments) and segments[index].start <= centre
        labels.append(segments[index].text if inside else OUTSIDE)
    return tuple(labels)


def _segment(at: Location, fields: Sequence[str]) -> Timed | None:
    """Start, end, label; start, end, kind, text as ``seqloom align`` writes it, of which the tokens are skipped."""
    times = [_time(field) for field in fields[:2]]
    if len(fields) < 3 or None in times:
        raise DataError(at, f"expected start, end and label, found {' '.join(fields)[:40]!r}")
    start, end = (time or 0.0 for time in times)
    if len(fields) == 4 and fields[2] in ("word", "token"):
        return Timed(fields[3].strip(), start, end) if fields[2] == "word" else None
    return _timed(at, " ".join(fields[2:]), start, end)


def _ctm(at: Location, fields: Sequence[str]) -> Timed:
    times = [_time(field) for field in fields[2:4]]
    if len(fields) < 5 or None in times:
        raise DataError(at, f"expected recording, channel, start, duration and word, found {' '.join(fields)[:40]!r}")
    start, duration = (time or 0.0 for time in times)
    return _timed(at, fields[4], start, start + duration)


def _first_tier(path: Path, encoding: str) -> list[Timed]:
    """The intervals of the first interval tier of a TextGrid, in Praat's long or short text format."""
    text = "\n".join(line for _, line in lines(path, encoding=encoding))
    tokens = [(match[1], match[2]) for match in TOKENS.finditer(text) if not match[3]]
    tier = next((index for index, (quoted, _) in enumerate(tokens) if quoted == "IntervalTier"), None)
    if tier is None:
        raise DataError(str(path), "expected a TextGrid with a tier of intervals")
    try:
        first = tier + 5  # the name, the two ends and the number of the intervals follow
        count = int(tokens[tier + 4][1])
        parts = [tokens[first + 3 * number : first + 3 * number + 3] for number in range(count)]
        intervals = [
            Timed(label.replace('""', '"'), float(start), float(end)) for (_, start), (_, end), (label, _) in parts
        ]
    except (ValueError, IndexError):
        raise DataError(str(path), "the intervals of the first tier are not complete") from None
    return [interval for interval in intervals if interval.text.strip()]


def _timed(at: Location, label: str, start: float, end: float) -> Timed:
    if end < start:
        raise DataError(at, f"the segment {label[:20]!r} ends at {end:g} s, before it starts at {start:g} s")
    return Timed(label.strip(), start, end)


def _ordered(file: str, segments: list[Timed]) -> list[Timed]:
    ordered = sorted(segments, key=lambda segment: segment.start)
    for before, after in pairwise(ordered):
        if after.start < before.end - 1e-6:
            raise DataError(
                file, f"the segments {before.text[:20]!r} and {after.text[:20]!r} overlap at {after.start:g} s"
            )
    return ordered


def _time(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
