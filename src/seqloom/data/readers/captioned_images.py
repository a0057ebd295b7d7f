"""Images, or vectors, with their captions: columns, JSON lines, folders, .npz files of vectors."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from seqloom.data.preview import HEAD, DataPreview, preview
from seqloom.data.readers import column_names, file_lists, pixels, tables, text_files
from seqloom.data.readers.columns import Columns, Role, find_columns
from seqloom.data.readers.npz import read_arrays
from seqloom.data.readers.parallel import PairReader
from seqloom.data.readers.pixels import SUFFIXES, ImageError, Resize
from seqloom.data.readers.table_values import is_missing
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Location, Source, resolve
from seqloom.data.readers.vectors import fill_missing

Format = Literal["auto", "columns", "jsonl"]
Content = NDArray[Any]  # pixels (size, size, 3) of uint8, or a vector (D,) of float32
IMAGE = Role("image_column", "image", column_names.FILE)
CAPTION = Role("caption_column", "caption", column_names.CAPTION)
NUMBERED = re.compile(r"#\d+$")
"""The number of a caption, as in ``dog.jpg#0`` (Flickr8k)."""


@dataclass(frozen=True, slots=True)
class CaptionedImage:
    """An image or a vector with its captions."""

    location: Location
    name: str
    image: Content
    captions: tuple[str, ...]  # empty: unknown
    lengths: tuple[int, ...]  # approximate number of tokens of each caption

    def __len__(self) -> int:
        return sum(self.lengths)


@dataclass(frozen=True, slots=True)
class ImageReference:
    """An image that has not been loaded yet."""

    location: Location
    name: str
    captions: tuple[str, ...] = ()
    vector: Content | None = None  # instead of an image


@dataclass(frozen=True)
class CaptionedImageReader:
    """Reads captioned images from files; tasks/caption.py documents the options."""

    format: Format = "auto"
    encoding: str = "utf-8"
    separator: str = ""
    image_column: int | str = ""
    caption_column: int | str = ""
    captions: str = ""  # file of captions for data files that only name images
    images: str = ""  # folder, tar archive or .npz file of vectors
    size: int = 64
    resize: Resize = "crop"
    measure: Callable[[str], int] = len  # length of a caption

    def read(self, source: Source) -> Iterator[CaptionedImage]:
        """The captioned images of a list of files, of a folder, or of Python values."""
        captions = self._read_captions() if self.captions and isinstance(source, Path) else {}
        for example in self._examples(source, captions):
            if not example.captions and captions:
                raise DataError(example.location, f"no caption for {example.name} in {self.captions}")
            yield example

    def preview(self, source: Source) -> DataPreview:
        """The first images with their captions and the number of all; no image of a list is opened."""
        if not isinstance(source, Path) or source.is_dir():
            return preview(lambda: self.read(source), source)
        images = _merge_captions(self._rows(source))
        return DataPreview(tuple(images[:HEAD]), len(images))

    def inspect(self, source: Source) -> tuple[dict[str, int | str], str]:
        """The columns of a table in memory, as configuration, and a sentence about them; empty for other sources."""
        if isinstance(source, Path) or not tables.is_table(source):
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

    def read_inputs(self, source: Source) -> Iterator[CaptionedImage]:
        """As ``read``, but captions are optional, and standard input is a stream of image names, one per line."""
        if not isinstance(source, Path) or source != STANDARD_INPUT or self.format != "auto":
            yield from self._examples(source, {})
            return
        for location, line in text_files.lines(source, encoding=self.encoding):
            if line.strip():
                yield from self.load([ImageReference(location, line.strip())], Path())

    def listed_files(self, source: Source) -> list[Path]:
        """The image files that a list names."""
        if not isinstance(source, Path) or source == STANDARD_INPUT or self._has_vectors:
            return []
        references, folder = self._references(source)
        names = [(reference.location, reference.name) for reference in references if reference.vector is None]
        return file_lists.existing_files(file_lists.locate(names, folder=folder, files=self.images))

    def _references(self, source: Path) -> tuple[list[ImageReference], Path]:
        """The listed images, and the folder that their names are relative to."""
        if source.suffix.lower() in SUFFIXES:
            images = [ImageReference(Location(str(source), 1), source.name)]
        elif source.is_dir():
            names = sorted(path.name for path in source.iterdir() if path.suffix.lower() in SUFFIXES)
            if not names:
                raise DataError(str(source), "no PNG or JPEG image in the folder")
            images = [ImageReference(Location(str(source), number), name) for number, name in enumerate(names, start=1)]
        else:
            images = _merge_captions(self._rows(source))
        return images, source if source.is_dir() else source.parent

    def _examples(self, source: Source, captions: Mapping[str, tuple[str, ...]]) -> Iterator[CaptionedImage]:
        if not isinstance(source, Path):
            yield from _python_values(source, self)
            return
        images, folder = self._references(source)
        yield from self.load(
            [replace(image, captions=image.captions or captions.get(image.name, ())) for image in images], folder
        )

    def _rows(self, path: Path) -> Iterator[ImageReference]:
        rows = PairReader(
            "auto" if self.format == "auto" else self.format,
            encoding=self.encoding,
            separator=self.separator,
            source_column=self.image_column,
            target_column=self.caption_column,
            roles=(IMAGE, CAPTION),
        )
        if path != STANDARD_INPUT and rows.detect(path) == "jsonl":
            yield from self._objects(path)
            return
        for pair in rows.read(path):
            if pair.source:
                name = NUMBERED.sub("", pair.source)
                yield ImageReference(pair.location, name, () if pair.target is None else (pair.target,))

    def _objects(self, path: Path) -> Iterator[ImageReference]:
        image, caption = str(self.image_column or "image"), str(self.caption_column or "caption")
        for location, value in text_files.jsonl(path, encoding=self.encoding):
            texts = value.get(caption)
            captions = texts if isinstance(texts, list) else [] if texts is None else [texts]
            if not all(isinstance(text, str) for text in captions):
                raise DataError(
                    location, f"{caption!r}: expected a string or a list of strings, found {captions!r:.60}"
                )
            name, vector = value.get(image, ""), value.get("vector")
            if not isinstance(name, str) or (not name and vector is None):
                kind = type(value.get(image)).__name__
                raise DataError(location, f"{image!r}: expected a file name (or a key 'vector'), found {kind}")
            content = None if vector is None else _vector(location, vector)
            yield ImageReference(location, name, tuple(text.strip() for text in captions), content)

    def _read_captions(self) -> dict[str, tuple[str, ...]]:
        """The file of captions, as captions by image name."""
        return {image.name: image.captions for image in _merge_captions(self._rows(resolve(self.captions)))}

    def load(self, references: Sequence[ImageReference], folder: Path) -> Iterator[CaptionedImage]:
        """Load images from the folder of the list, or else from ``images``."""
        if self._has_vectors:
            yield from self._look_up(references, dict(_vectors(resolve(self.images))))
            return
        names = [(reference.location, reference.name) for reference in references if reference.vector is None]
        images = file_lists.load(names, self._decode, folder=folder, files=self.images, noun="image")
        for reference in references:
            yield self.example(reference, next(images) if reference.vector is None else reference.vector)

    @property
    def _has_vectors(self) -> bool:
        return Path(self.images).suffix == ".npz"

    def _look_up(
        self, references: Sequence[ImageReference], vectors: Mapping[str, Content]
    ) -> Iterator[CaptionedImage]:
        for reference in references:
            name = reference.name
            content = vectors.get(name) if reference.vector is None else reference.vector
            if content is None:
                similar = "".join(f"; did you mean {other!r}?" for other in get_close_matches(name, vectors, n=1))
                raise DataError(reference.location, f"no vector {name!r} in {self.images}{similar}")
            yield self.example(reference, content)

    def _decode(self, stream: IO[bytes], name: str) -> Content:  # noqa: ARG002  the content shows the format
        return pixels.decode(stream, size=self.size, resize=self.resize)

    def example(self, reference: ImageReference, content: Content) -> CaptionedImage:
        return CaptionedImage(
            reference.location,
            reference.name,
            content,
            reference.captions,
            tuple(map(self.measure, reference.captions)),
        )


def _merge_captions(rows: Iterable[ImageReference]) -> list[ImageReference]:
    """One reference per image, with the captions of all its lines; vectors are not merged."""
    references: dict[Any, ImageReference] = {}
    for row in rows:
        key = row.name if row.vector is None else row.location
        first = references.get(key)
        references[key] = row if first is None else replace(first, captions=(*first.captions, *row.captions))
    return list(references.values())


def _vectors(path: Path) -> Iterator[tuple[str, Content]]:
    """Names and vectors of a .npz file with the arrays ``names`` (N,) and ``vectors`` (N, D)."""
    arrays = read_arrays(path, ("names", "vectors"))
    if len(arrays) < 2:
        raise DataError(str(path), f"expected the arrays names and vectors, found {', '.join(arrays) or 'neither'}")
    names, values = arrays["names"], arrays["vectors"]
    if names.ndim != 1 or values.ndim != 2 or len(names) != len(values) or values.dtype.kind not in "fiu":
        shapes = f"names {names.shape} and vectors {values.dtype} {values.shape}"
        raise DataError(str(path), f"expected names (N,) and numbers vectors (N, D), found {shapes}")
    for number, (name, vector) in enumerate(zip(names.tolist(), values, strict=True), start=1):
        yield str(name), _vector(Location(str(path), number), vector)


def _vector(location: Location, values: Any) -> Content:
    try:
        vector = np.array(values, dtype=np.float32)
    except (TypeError, ValueError):
        raise DataError(location, f"vector: expected a list of numbers, found {type(values).__name__}") from None
    if vector.ndim != 1 or not len(vector):
        raise DataError(location, f"vector: expected a list of numbers, found shape {vector.shape}")
    checked: Content = fill_missing(location, vector[np.newaxis], "error")[0]
    return checked


def _python_values(values: Sequence[Any], reader: CaptionedImageReader) -> Iterator[CaptionedImage]:
    """Python values: paths, pixels (H, W, 3) or vectors (D,), or tuples of these with a caption or a list."""
    if tables.is_table(values):
        values = reader.pairs(values)
    if isinstance(values, str):
        raise DataError("input", "expected a list of paths or arrays, found a single string")
    for number, value in enumerate(values, start=1):
        location = Location("input", number)
        content, texts = value if isinstance(value, tuple) and len(value) == 2 else (value, ())
        captions = (texts,) if isinstance(texts, str) else tuple(texts)
        for caption in captions:
            if not isinstance(caption, str):
                raise DataError(location, f"caption: expected a string, found {type(caption).__name__}")
            text_files.check_text(location, caption)
        if isinstance(content, str | Path):
            yield from reader.load([ImageReference(location, str(content), captions)], Path())
            continue
        if np.ndim(content) < 2:
            yield reader.example(ImageReference(location, "", captions), _vector(location, content))
            continue
        try:
            yield reader.example(
                ImageReference(location, "", captions),
                pixels.from_array(np.asarray(content), size=reader.size, resize=reader.resize),
            )
        except ImageError as error:
            raise DataError(location, f"image: {error}") from None
