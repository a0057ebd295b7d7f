"""Images, videos, sound or vectors with their captions: columns, JSON lines, folders, .npz files of vectors."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from seqloom.data.preview import HEAD, DataPreview, preview
from seqloom.data.readers import column_names, media_lists, tables, text_files
from seqloom.data.readers.audio_files import Audio
from seqloom.data.readers.columns import Columns, Role, find_columns
from seqloom.data.readers.file_lists import ContentError
from seqloom.data.readers.media import Kind, Signal
from seqloom.data.readers.media_lists import MediaFiles, is_media
from seqloom.data.readers.npz import no_arrays, read_arrays
from seqloom.data.readers.parallel import PairReader
from seqloom.data.readers.table_values import is_missing
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Location, Source, resolve
from seqloom.data.readers.texted_sequences import VALUE_KEYS, SequenceFormat, TextedSequenceReader
from seqloom.data.readers.vectors import not_finite

Format = Literal["auto", "columns", "jsonl", "long", "ts", "npz"]
IMAGE = Role("image_column", "image", column_names.FILE)
CAPTION = Role("caption_column", "caption", column_names.CAPTION)
NUMBERED = re.compile(r"#\d+$")
"""The number of a caption, as in ``dog.jpg#0`` (Flickr8k)."""


@dataclass(frozen=True, slots=True)
class CaptionedSignal:
    """An image, a video, sound or vectors with captions."""

    location: Location
    name: str
    content: NDArray[Any]  # the values of a signal; a vector is a sequence of one
    captions: tuple[str, ...]  # empty: unknown
    lengths: tuple[int, ...]  # approximate number of tokens of each caption
    rate: int = 0  # samples per second of sound
    channel_names: tuple[str, ...] = ()  # of vectors; empty: unknown

    def __len__(self) -> int:
        """Tokens of all captions; of a signal without captions, its elements."""
        return sum(self.lengths) if self.captions else len(self.content)


@dataclass(frozen=True, slots=True)
class SignalReference:
    """A signal that has not been loaded yet."""

    location: Location
    name: str
    captions: tuple[str, ...] = ()
    vector: NDArray[Any] | None = None  # (1, D) or (T, D), instead of a file


@dataclass(frozen=True)
class CaptionedSignalReader:
    """Reads captioned images, videos and sound from files; tasks/caption documents the options."""

    format: Format = "auto"
    encoding: str = "utf-8"
    separator: str = ""
    image_column: int | str = ""
    caption_column: int | str = ""
    group_column: int | str = ""
    time_column: int | str = ""
    captions: str = ""  # file of captions for data files that only name images
    media: MediaFiles = field(default_factory=MediaFiles)  # its folder may also be an .npz file of vectors
    kind: Kind | None = None  # of the trained model's signals; None: before training
    measure: Callable[[str], int] = len  # length of a caption

    def read(self, source: Source) -> Iterator[CaptionedSignal]:
        """The captioned images of a list of files, of a folder, or of Python values."""
        captions = self._read_captions() if self.captions and isinstance(source, Path) else {}
        for example in self._examples(source, captions):
            if not example.captions and captions:
                raise DataError(example.location, f"no caption for {example.name} in {self.captions}")
            yield example

    def preview(self, source: Source) -> DataPreview:
        """The first examples with their captions and the number of all; only the first file of a list is opened."""
        if not isinstance(source, Path) or source.is_dir() or self._sequence_format(source):
            return preview(lambda: self.read(source), source)
        images = _merge_captions(self._rows(source))
        return DataPreview((*self.load(images[:1], source.parent), *images[1:HEAD]), len(images))

    def inspect(self, source: Source) -> tuple[dict[str, int | str], str]:
        """The columns of a table in memory, as configuration, and a sentence about those of any table."""
        if isinstance(source, Path):
            if format_ := self._sequence_format(source):
                return self._sequences.inspect(source, format_)
            rows = self._pair_reader()
            is_list = source.is_file() and source.suffix.lower() not in media_lists.SUFFIXES and not self.captions
            return {}, rows.inspect(source)[1] if is_list and rows.detect(source) == "columns" else ""
        if not tables.is_table(source):
            return {}, ""
        _, columns = self._find_columns(source)
        return columns.settings(), columns.describe()

    def pairs(self, table: Any) -> list[tuple[Any, list[Any]]]:
        """The images and the captions of a table in memory; rows with the same path are one image."""
        rows, columns = self._find_columns(table)
        images: dict[Any, tuple[Any, list[Any]]] = {}
        for location, fields in rows.records:
            image = columns.value(location, fields, IMAGE.key)
            caption = columns.value(location, fields, CAPTION.key)
            key = str(image) if isinstance(image, str | Path) else location
            captions = images.setdefault(key, (image, []))[1]
            if not is_missing(caption):
                captions.extend(caption if isinstance(caption, list | tuple | np.ndarray) else [caption])
        return list(images.values())

    def _find_columns(self, table: Any) -> tuple[tables.Table, Columns]:
        chosen = {IMAGE.key: self.image_column, CAPTION.key: self.caption_column}
        return find_columns(table, (IMAGE, replace(CAPTION, optional=True)), chosen)

    def read_inputs(self, source: Source) -> Iterator[CaptionedSignal]:
        """As ``read``, but captions are optional, and standard input is a stream of image names, one per line."""
        if not isinstance(source, Path) or source != STANDARD_INPUT or self.format != "auto":
            yield from self._examples(source, {})
            return
        for location, line in text_files.lines(source, encoding=self.encoding):
            if line.strip():
                yield from self.load([SignalReference(location, line.strip())], Path())

    def listed_files(self, source: Source) -> list[Path]:
        """The image files that a list names."""
        if not isinstance(source, Path) or source == STANDARD_INPUT:
            return []
        if self._has_vectors or self._sequence_format(source):
            return []
        references, folder = self._references(source)
        names = [(reference.location, reference.name) for reference in references if reference.vector is None]
        return self.media.locate(names, folder)

    def _references(self, source: Path) -> tuple[list[SignalReference], Path]:
        """The listed images, and the folder that their names are relative to."""
        if source.suffix.lower() in media_lists.SUFFIXES or (self.kind == "video" and is_media(source)):
            return [SignalReference(Location(str(source), 1), source.name)], source.parent
        if not source.is_dir():
            return _merge_captions(self._rows(source)), source.parent
        files = sorted(path for path in source.iterdir() if path.suffix.lower() in media_lists.SUFFIXES)
        files = files or [item for item in media_lists.items(source) if is_media(item)]
        if not files:
            raise DataError(str(source), "no image, video or sound in the folder")
        names = (file.relative_to(source).as_posix() for file in files)
        return [
            SignalReference(Location(str(source), number), name) for number, name in enumerate(names, start=1)
        ], source

    def _examples(self, source: Source, captions: Mapping[str, tuple[str, ...]]) -> Iterator[CaptionedSignal]:
        if not isinstance(source, Path):
            yield from _python_values(source, self)
            return
        if format_ := self._sequence_format(source):
            for location, signal, text, names, name in self._sequences.read(source, format_):
                reference = SignalReference(location, name, () if text is None else (text,))
                yield replace(self.example(reference, signal), channel_names=names)
            return
        images, folder = self._references(source)
        yield from self.load(
            [replace(image, captions=image.captions or captions.get(image.name, ())) for image in images], folder
        )

    @property
    def _sequences(self) -> TextedSequenceReader:
        names = ("group_column", "time_column", "separator", "encoding")
        options = {name: getattr(self, name) for name in names}
        return TextedSequenceReader(CAPTION, self.caption_column, decoder=self.media.decoder, **options)

    def _sequence_format(self, source: Path) -> SequenceFormat | None:
        """How a file holds many sequences; None: it lists files, or is one signal."""
        return self._sequences.detect(source, self.format)

    def _pair_reader(self) -> PairReader:
        return PairReader(
            cast(Any, self.format),
            encoding=self.encoding,
            separator=self.separator,
            source_column=self.image_column,
            target_column=self.caption_column,
            roles=(replace(IMAGE, noun="file"), CAPTION),  # a list also names videos and recordings
        )

    def _rows(self, path: Path) -> Iterator[SignalReference]:
        rows = self._pair_reader()
        if path != STANDARD_INPUT and rows.detect(path) == "jsonl":
            yield from self._objects(path)
            return
        for pair in rows.read(path):
            if pair.source:
                name = NUMBERED.sub("", pair.source)
                yield SignalReference(pair.location, name, () if pair.target is None else (pair.target,))

    def _objects(self, path: Path) -> Iterator[SignalReference]:
        images = (str(self.image_column),) if self.image_column else ("image", *IMAGE.names)
        captions_ = (str(self.caption_column),) if self.caption_column else CAPTION.names
        for location, value in text_files.jsonl(path, encoding=self.encoding):
            image, caption = (next((key for key in keys if key in value), keys[0]) for keys in (images, captions_))
            texts = value.get(caption)
            captions = texts if isinstance(texts, list) else [] if texts is None else [texts]
            if not all(isinstance(text, str) for text in captions):
                raise DataError(
                    location, f"{caption!r}: expected a string or a list of strings, found {captions!r:.60}"
                )
            name = value.get(image, "")
            vector = next((value[key] for key in VALUE_KEYS if value.get(key) is not None), None)
            if not isinstance(name, str) or (not name and vector is None):
                kind = type(value.get(image)).__name__
                raise DataError(location, f"{image!r}: expected a file name (or a key 'values'), found {kind}")
            content = None if vector is None else _vector(location, vector)
            yield SignalReference(location, name, tuple(text.strip() for text in captions), content)

    def _read_captions(self) -> dict[str, tuple[str, ...]]:
        """The file of captions, as captions by image name."""
        return {image.name: image.captions for image in _merge_captions(self._rows(resolve(self.captions)))}

    def load(self, references: Sequence[SignalReference], folder: Path) -> Iterator[CaptionedSignal]:
        """Load files from the folder of the list, or else from the folder of ``media``."""
        if self._has_vectors:
            yield from self._look_up(references, dict(_vectors(resolve(self.media.folder))))
            return
        names = [(reference.location, reference.name) for reference in references if reference.vector is None]
        signals = self.media.load(names, folder)
        for reference in references:
            yield self.example(reference, next(signals) if reference.vector is None else Signal(reference.vector))

    @property
    def _has_vectors(self) -> bool:
        return Path(self.media.folder).suffix == ".npz"

    def _look_up(
        self, references: Sequence[SignalReference], vectors: Mapping[str, NDArray[Any]]
    ) -> Iterator[CaptionedSignal]:
        for reference in references:
            name = reference.name
            content = vectors.get(name) if reference.vector is None else reference.vector
            if content is None:
                similar = "".join(f"; did you mean {other!r}?" for other in get_close_matches(name, vectors, n=1))
                raise DataError(reference.location, f"no vector {name!r} in {self.media.folder}{similar}")
            yield self.example(reference, Signal(content))

    def from_value(self, location: Location, value: Any) -> Signal:
        """A signal in memory: pixels of uint8, audio, vectors (T, D), or a vector (D,)."""
        decoder = self.media.decoder
        if not isinstance(value, Audio) and self.kind != "sound" and np.ndim(value) < 2:
            return Signal(_vector(location, value))
        try:
            return decoder.from_audio(value) if isinstance(value, Audio) else decoder.from_array(np.asarray(value))
        except (ContentError, TypeError, OverflowError) as error:
            raise DataError(location, f"image, video or sound: {error}") from None

    def example(self, reference: SignalReference, signal: Signal) -> CaptionedSignal:
        return CaptionedSignal(
            reference.location,
            reference.name,
            signal.values,
            reference.captions,
            tuple(map(self.measure, reference.captions)),
            signal.rate,
        )


def _merge_captions(rows: Iterable[SignalReference]) -> list[SignalReference]:
    """One reference per image, with the captions of all its lines; vectors are not merged."""
    references: dict[Any, SignalReference] = {}
    for row in rows:
        key = row.name if row.vector is None else row.location
        first = references.get(key)
        references[key] = row if first is None else replace(first, captions=(*first.captions, *row.captions))
    return list(references.values())


def _vectors(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Names and vectors of a .npz file with the arrays ``names`` (N,) and ``vectors`` (N, D)."""
    arrays = read_arrays(path, ("names", "vectors"))
    if len(arrays) < 2:
        raise no_arrays(path, "names and vectors", ("names", "vectors"))
    names, values = arrays["names"], arrays["vectors"]
    if names.ndim != 1 or values.ndim != 2 or len(names) != len(values) or values.dtype.kind not in "fiu":
        shapes = f"names {names.shape} and vectors {values.dtype} {values.shape}"
        raise DataError(str(path), f"expected names (N,) and numbers vectors (N, D), found {shapes}")
    for number, (name, vector) in enumerate(zip(names.tolist(), values, strict=True), start=1):
        yield str(name), _vector(Location(str(path), number), vector)


def _vector(location: Location, values: Any) -> NDArray[Any]:  # (1, D); of a sequence of vectors (T, D)
    expected = "vector: expected a list of numbers, or a list of such lists of equal length"
    try:
        vector = np.array(values, dtype=np.float32)
    except (TypeError, ValueError):
        raise DataError(location, f"{expected}, found {values!r:.60}") from None
    if vector.ndim not in (1, 2) or not vector.size:
        raise DataError(location, f"{expected}, found shape {vector.shape}")
    if not np.isfinite(vector).all():
        raise not_finite(location, np.atleast_2d(vector))
    return np.atleast_2d(vector)


def _python_values(values: Sequence[Any], reader: CaptionedSignalReader) -> Iterator[CaptionedSignal]:
    """Python values: paths, pixels, audio or vectors, or tuples of these with a caption or a list."""
    if tables.is_table(values):
        values = reader.pairs(values)
    if isinstance(values, str):
        raise DataError("input", "expected a list of paths or arrays, found a single string")
    for number, value in enumerate(values, start=1):
        location = Location("input", number)
        paired = isinstance(value, tuple) and not isinstance(value, Audio) and len(value) == 2
        content, texts = value if paired else (value, ())
        captions = (texts,) if isinstance(texts, str) else tuple(texts)
        for caption in captions:
            if not isinstance(caption, str):
                raise DataError(location, f"caption: expected a string, found {type(caption).__name__}")
            text_files.check_text(location, caption)
        if isinstance(content, str | Path):
            yield from reader.load([SignalReference(location, str(content), captions)], Path())
            continue
        yield reader.example(SignalReference(location, "", captions), reader.from_value(location, content))
