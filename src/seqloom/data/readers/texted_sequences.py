"""Many sequences in one file, each with a text: vectors in long tables and .ts files, vectors or sound in .npz."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers import audio_files, column_names, feature_files, long_tables, tables, text_files, vectors
from seqloom.data.readers.audio_files import Audio
from seqloom.data.readers.columns import Role
from seqloom.data.readers.file_lists import ContentError
from seqloom.data.readers.long_tables import GROUP, LABEL, TIME, Layout
from seqloom.data.readers.media import MediaDecoder, Signal
from seqloom.data.readers.media_lists import file_column
from seqloom.data.readers.npz import array_names, read_arrays
from seqloom.data.readers.table_values import is_numeric
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Location
from seqloom.data.readers.vectors import VectorSequence

SequenceFormat = Literal["long", "ts", "npz"]
VALUE_KEYS = ("values", "vector", "strokes")
"""JSON keys of the numbers of a sequence, in a file with one object per sequence."""


class TextedSequence(NamedTuple):
    """Vectors or sound with a text."""

    location: Location
    signal: Signal
    text: str | None  # None: unknown
    channel_names: tuple[str, ...] = ()  # of the vectors; empty: unknown
    name: str = ""  # of the sequence in its table


@dataclass(frozen=True)
class TextedSequenceReader:
    """Reads such files for the tasks that write texts; tasks/caption and tasks/transcribe document the options."""

    text: Role  # the column of the texts
    text_column: int | str = ""
    group_column: int | str = ""
    time_column: int | str = ""
    separator: str = ""
    encoding: str = "utf-8"
    decoder: MediaDecoder = field(default_factory=MediaDecoder)

    def detect(self, path: Path, configured: str = "auto") -> SequenceFormat | None:
        """The format of a file; None: it holds no sequences."""
        formats: dict[str, SequenceFormat] = {"long": "long", "ts": "ts", "npz": "npz"}
        if configured != "auto":
            return formats.get(configured)
        suffix = tables.suffix(path)
        if path == STANDARD_INPUT or not path.is_file():
            return None
        if suffix == ".npz":
            return "npz" if {"lengths", "x"} & array_names(path) else None
        if suffix == ".ts":
            return "ts"
        return "long" if suffix in tables.SUFFIXES and self._is_long(path) else None

    def _is_long(self, path: Path) -> bool:
        with suppress(DataError):
            layout = self._layout(path)
            return long_tables.is_long(layout) and file_column(layout.table, path.parent) is None
        return False

    def _layout(self, path: Path) -> Layout:
        table = tables.read_table(path, separator=self.separator, encoding=self.encoding)
        if not table.names:
            raise DataError(table.location, "expected a header: a long table needs the names of its columns")
        names = [column_names.normalize(name) for name in table.names]
        usual = (names.index(name) for name in self.text.names if name in names)
        column = self.text_column
        if column == "":
            column = next((index for index in usual if not is_numeric(table.column(index))), "")
        chosen = {GROUP.key: self.group_column, TIME.key: self.time_column, LABEL.key: column}
        return long_tables.layout_of(table, chosen, decimal=None)

    def inspect(self, path: Path, format_: SequenceFormat) -> tuple[dict[str, int | str], str]:
        """The columns of a long table, as configuration, and a sentence about them; both may be empty."""
        if format_ != "long":
            return {}, ""
        layout = self._layout(path)
        settings = layout.columns.settings()
        if LABEL.key in settings:
            settings[self.text.key] = settings.pop(LABEL.key)
        roles = (GROUP, TIME, replace(LABEL, noun=self.text.noun))
        return settings, f"one row per time step: {layout.describe(roles)}"

    def read(self, path: Path, format_: SequenceFormat) -> Iterator[TextedSequence]:
        """The sequences of a file."""
        if format_ == "npz":
            yield from self._npz(path)
            return
        sequences = vectors.ts(path) if format_ == "ts" else long_tables.read_sequences(self._layout(path))
        for sequence in sequences:
            signal, text = Signal(_frames(sequence.location, sequence.values)), self._text_of(sequence)
            yield TextedSequence(sequence.location, signal, text, sequence.channel_names, sequence.identity)

    def _text_of(self, sequence: VectorSequence) -> str | None:
        if sequence.target is not None:
            raise DataError(sequence.location, f"expected a text as the {self.text.noun}, found numbers")
        texts = list(dict.fromkeys(sequence.labels or ([] if sequence.label is None else [sequence.label])))
        if len(texts) > 1:
            raise DataError(
                sequence.location,
                f"the {self.text.noun} changes from {texts[0]!r} to {texts[1]!r} within the sequence that begins here: "
                "set task.group_column to the column that names a sequence",
            )
        text = texts[0].strip() if texts else None
        text_files.check_text(sequence.location, text or "")
        return text

    def _npz(self, path: Path) -> Iterator[TextedSequence]:
        arrays = read_arrays(path, ("values", "lengths", "texts", "labels", "rate", "x", "y"))
        texts = arrays.get("texts", arrays.get("labels", arrays.get("y")))
        if texts is not None and "texts" not in arrays and texts.dtype.kind in "iu":  # classes
            texts = texts.astype(np.str_)
        if "x" in arrays:
            x = arrays["x"]
            if x.ndim != 3:
                raise DataError(str(path), f"x: expected numbers (N, T, D), found {x.dtype} {x.shape}")
            arrays |= {"values": x.reshape(-1, x.shape[2]), "lengths": np.full(len(x), x.shape[1])}
        for location, text, audio in _recordings(str(path), arrays, texts):
            signal = self.decoder.resampled(audio) if audio.rate else Signal(audio.samples)
            yield TextedSequence(location, signal, text)


def _frames(location: Location, values: NDArray[Any]) -> NDArray[Any]:
    try:
        return feature_files.check_frames(values)
    except ContentError as error:
        raise DataError(location, f"sequence: {error}") from None


def _recordings(
    file: str, arrays: Mapping[str, NDArray[Any]], texts: NDArray[Any] | None
) -> Iterator[tuple[Location, str | None, Audio]]:
    """Sequences of samples, or of frames with a rate of 0."""
    values, lengths = arrays.get("values", np.zeros(0)), arrays["lengths"]
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 0).any() or lengths.sum() != len(values):
        raise DataError(
            file, f"lengths {lengths.dtype} {lengths.shape} do not add up to the length of values {values.shape}"
        )
    if texts is not None and (texts.dtype.kind != "U" or texts.shape != lengths.shape):
        raise DataError(file, f"texts: expected {len(lengths)} strings, found {texts.dtype} {texts.shape}")
    rate = arrays.get("rate", np.array(0))
    if rate.shape or rate.dtype.kind not in "iu" or bool(rate) != (values.ndim == 1):
        raise DataError(
            file, f"expected values (total,) and a rate, or (total, D) without, found {values.shape} and rate {rate}"
        )
    try:
        audio_files.check_rate(int(rate) or audio_files.MIN_RATE)
    except ContentError as error:
        raise DataError(file, str(error)) from None
    start = 0
    for number, length in enumerate(lengths.tolist()):
        location, span = Location(file, number + 1), values[start : start + length]
        text = None if texts is None else str(texts[number]).strip()
        try:
            text_files.check_text(location, text or "")
            audio = Audio(
                audio_files.check_samples(audio_files.to_samples(span)) if rate else feature_files.check_frames(span),
                int(rate),
            )
        except ContentError as error:
            raise DataError(location, f"recording: {error}") from None
        yield location, text, audio
        start += length
