"""Images, or vectors, with their captions, from files in the formats of the field."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers import file_lists, parallel, pixels, text_files
from seqloom.data.readers.labelled import STANDARD_INPUT
from seqloom.data.readers.npz import read_arrays
from seqloom.data.readers.pixels import SUFFIXES, BadImage, Frame
from seqloom.data.readers.text_files import DataError, Location, Source, resolve
from seqloom.data.readers.vectors import filled

Format = Literal["auto", "columns", "jsonl"]
Content = NDArray[Any]  # pixels (size, size, 3) of uint8, or a vector (D,) of float32
NUMBERED = re.compile(r"#\d+$")
"""What stands behind the name of an image where its captions are numbered: ``dog.jpg#0``."""


@dataclass(frozen=True, slots=True)
class CaptionedImage:
    """An image or a vector with what may be said of it."""

    location: Location
    name: str
    image: Content
    captions: tuple[str, ...]  # none: not known
    lengths: tuple[int, ...]  # about how many symbols each of them has

    def __len__(self) -> int:
        return sum(self.lengths)


@dataclass(frozen=True, slots=True)
class ImageReference:
    """An image that is not yet looked at."""

    location: Location
    name: str
    captions: tuple[str, ...] = ()
    vector: Content | None = None  # instead of an image


@dataclass(frozen=True)
class Reader:
    """How files become pictures; tasks/caption.py tells what the options mean to a user."""

    format: Format = "auto"
    encoding: str = "utf-8"
    separator: str = ""
    image_column: int | str = ""
    caption_column: int | str = ""
    captions: str = ""  # file with the captions of images that another one only names
    images: str = ""  # folder, tar archive, or .npz file of vectors
    size: int = 64
    frame: Frame = "crop"
    measure: Callable[[str], int] = len  # the length of a caption

    def read(self, source: Source) -> Iterator[CaptionedImage]:
        """The pictures of a list of images, of a folder, or of Python values; each has a caption or more."""
        told = self._told() if self.captions and isinstance(source, Path) else {}
        for picture in self._pictures(source, told):
            if not picture.captions and told:
                raise DataError(picture.location, f"{picture.name} has no caption in {self.captions}")
            yield picture

    def read_inputs(self, source: Source) -> Iterator[CaptionedImage]:
        """The same, where captions are not needed; of standard input a name on each line, as it comes."""
        if source != STANDARD_INPUT or self.format != "auto":
            yield from self._pictures(source, {})
            return
        for location, line in text_files.lines(source, encoding=self.encoding):
            if line.strip():
                yield from self.load([ImageReference(location, line.strip())], Path())

    def _pictures(self, source: Source, told: Mapping[str, tuple[str, ...]]) -> Iterator[CaptionedImage]:
        if not isinstance(source, Path):
            yield from _given(source, self)
            return
        if source.is_dir():
            names = sorted(path.name for path in source.iterdir() if path.suffix.lower() in SUFFIXES)
            if not names:
                raise DataError(str(source), "there is no PNG or JPEG image in the folder")
            found = [ImageReference(Location(str(source), number), name) for number, name in enumerate(names, start=1)]
        else:
            found = _together(self._rows(source))
        folder = source if source.is_dir() else source.parent
        yield from self.load(
            [replace(each, captions=each.captions or told.get(each.name, ())) for each in found], folder
        )

    def _rows(self, path: Path) -> Iterator[ImageReference]:
        names = parallel.Reader(
            "auto" if self.format == "auto" else self.format,
            encoding=self.encoding,
            separator=self.separator,
            source_column=self.image_column,
            target_column=self.caption_column,
        )
        if path != STANDARD_INPUT and names.detect(path) == "jsonl":
            yield from self._objects(path)
            return
        for pair in names.read(path):
            if pair.source:
                name = NUMBERED.sub("", pair.source)
                yield ImageReference(pair.location, name, () if pair.target is None else (pair.target,))

    def _objects(self, path: Path) -> Iterator[ImageReference]:
        image, caption = str(self.image_column or "image"), str(self.caption_column or "caption")
        for location, value in text_files.jsonl(path, encoding=self.encoding):
            told = value.get(caption)
            captions = told if isinstance(told, list) else [] if told is None else [told]
            if not all(isinstance(each, str) for each in captions):
                raise DataError(
                    location, f"found {captions!r:.60} as {caption!r}; a text, or a list of texts, is wanted"
                )
            name, vector = value.get(image, ""), value.get("vector")
            if not isinstance(name, str) or (not name and vector is None):
                kind = type(value.get(image)).__name__
                raise DataError(location, f"found {kind} as {image!r}; the name of an image, or a 'vector', is wanted")
            found = None if vector is None else _vector(location, vector)
            yield ImageReference(location, name, tuple(each.strip() for each in captions), found)

    def _told(self) -> dict[str, tuple[str, ...]]:
        """The captions of the file of captions, by the names of the images."""
        return {each.name: each.captions for each in _together(self._rows(resolve(self.captions)))}

    def load(self, found: Sequence[ImageReference], folder: Path) -> Iterator[CaptionedImage]:
        """Look at the images: each beside the file that names it, or else in ``images``."""
        if self.images and resolve(self.images).suffix == ".npz":
            yield from self._known(found, dict(_vectors(resolve(self.images))))
            return
        named = [(each.location, each.name) for each in found if each.vector is None]
        seen = file_lists.load(named, self._decode, folder=folder, files=self.images, noun="image")
        for each in found:
            yield self.picture(each, next(seen) if each.vector is None else each.vector)

    def _known(self, found: Sequence[ImageReference], vectors: Mapping[str, Content]) -> Iterator[CaptionedImage]:
        for each in found:
            content = vectors.get(each.name) if each.vector is None else each.vector
            if content is None:
                near = "".join(f"; did you mean {name!r}?" for name in get_close_matches(each.name, vectors, n=1))
                raise DataError(each.location, f"there is no vector {each.name!r} in {self.images}{near}")
            yield self.picture(each, content)

    def _decode(self, stream: IO[bytes], name: str) -> Content:  # noqa: ARG002  any name may be an image's
        return pixels.decode(stream, size=self.size, frame=self.frame)

    def picture(self, named: ImageReference, content: Content) -> CaptionedImage:
        return CaptionedImage(
            named.location, named.name, content, named.captions, tuple(map(self.measure, named.captions))
        )


def _together(rows: Iterable[ImageReference]) -> list[ImageReference]:
    """One for each image, with all captions that its lines give; a vector stands for itself."""
    found: dict[Any, ImageReference] = {}
    for row in rows:
        key = row.name if row.vector is None else row.location
        known = found.get(key)
        found[key] = row if known is None else replace(known, captions=(*known.captions, *row.captions))
    return list(found.values())


def _vectors(path: Path) -> Iterator[tuple[str, Content]]:
    """Of a .npz file with the arrays ``names`` (N,) and ``vectors`` (N, D)."""
    arrays = read_arrays(path, ("names", "vectors"))
    if len(arrays) < 2:
        raise DataError(str(path), f"found the arrays {', '.join(arrays) or 'none'}; names and vectors are wanted")
    names, values = arrays["names"], arrays["vectors"]
    if names.ndim != 1 or values.ndim != 2 or len(names) != len(values) or values.dtype.kind not in "fiu":
        shapes = f"names {names.shape} and vectors {values.dtype} {values.shape}"
        raise DataError(str(path), f"found {shapes}; (N,) and numbers (N, D) are wanted")
    for number, (name, vector) in enumerate(zip(names.tolist(), values, strict=True), start=1):
        yield str(name), _vector(Location(str(path), number), vector)


def _vector(location: Location, values: Any) -> Content:
    try:
        vector = np.array(values, dtype=np.float32)
    except (TypeError, ValueError):
        raise DataError(location, f"found {type(values).__name__} as a vector; a list of numbers is wanted") from None
    if vector.ndim != 1 or not len(vector):
        raise DataError(location, f"found numbers {vector.shape} as a vector; a list of numbers is wanted")
    found: Content = filled(location, vector[np.newaxis], "error")[0]
    return found


def _given(values: Sequence[Any], reader: Reader) -> Iterator[CaptionedImage]:
    """Python values: paths, pixels (H, W, 3) or vectors (D,), or tuples of one of those and a caption or a list."""
    if isinstance(values, str):
        raise DataError("input", "found one text; a list of paths or arrays is wanted")
    for number, value in enumerate(values, start=1):
        location = Location("input", number)
        content, told = value if isinstance(value, tuple) and len(value) == 2 else (value, ())
        captions = (told,) if isinstance(told, str) else tuple(told)
        for caption in captions:
            if not isinstance(caption, str):
                raise DataError(location, f"found {type(caption).__name__} as a caption; a text is wanted")
            text_files.checked(location, caption)
        if isinstance(content, str | Path):
            yield from reader.load([ImageReference(location, str(content), captions)], Path())
            continue
        if np.ndim(content) < 2:
            yield reader.picture(ImageReference(location, "", captions), _vector(location, content))
            continue
        try:
            yield reader.picture(
                ImageReference(location, "", captions),
                pixels.of_array(np.asarray(content), size=reader.size, frame=reader.frame),
            )
        except BadImage as error:
            raise DataError(location, f"the image {error}") from None
