"""PNG and JPEG images as squares of pixels, or as the columns of a text line; needs Pillow."""

import io
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.expansion import ExpansionError, check_expansion
from seqloom.data.readers.file_lists import ContentError

Pixels = NDArray[np.uint8]
Resize = Literal["crop", "pad"]
"""How an image becomes a square: crop its centre, or pad it with grey."""

FORMATS = ("PNG", "JPEG")
SUFFIXES = (".png", ".jpg", ".jpeg")
SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
MAX_WIDTH = 1 << 16  # largest width of a text line, in pixels
RGBA_BYTES = 4  # for each pixel
GREY = (128, 128, 128)
WHITE = (255, 255, 255, 255)  # background of a transparent image


class ImageError(ContentError):
    """Why an image cannot be read."""


def decode(stream: IO[bytes], *, size: int, resize: Resize = "crop") -> Pixels:  # (size, size, 3)
    """The pixels of a file, rotated by its EXIF orientation."""
    with opened(stream, FORMATS, draft=2 * size) as image:
        return square(_upright(image), size=size, resize=resize)


def decode_line(stream: IO[bytes], *, height: int) -> NDArray[np.float32]:  # (width, height), 0 black to 1 white
    """The columns of the image of a text line, scaled to ``height``."""
    with opened(stream, FORMATS) as image:
        return columns(_upright(image), height=height)


@contextmanager
def opened(stream: IO[bytes], formats: Sequence[str], *, draft: int = 0) -> Iterator[Any]:
    """An image of Pillow, not decoded yet; ImageError for whatever Pillow raises."""
    library, _ = _pillow()
    with _translate_errors(library, formats), library.open(stream, formats=formats) as image:
        if draft:
            image.draft("RGB", (draft, draft))  # decode a much larger JPEG at a fraction of its size
        _check_pixels(image, stream)
        yield image


def is_image(stream: IO[bytes]) -> bool:
    """Whether a file starts as PNG and JPEG files do, whatever its name is."""
    position = stream.tell()
    start = stream.read(len(max(SIGNATURES, key=len)))
    stream.seek(position)
    return start.startswith(SIGNATURES)


def file_size(stream: IO[bytes]) -> int:
    position = stream.tell()
    size = stream.seek(0, io.SEEK_END)
    stream.seek(position)
    return size


def _upright(image: Any) -> Any:
    _, operations = _pillow()
    return operations.exif_transpose(image)


def line_from_array(values: NDArray[Any], *, height: int) -> NDArray[np.float32]:  # (H, W), (H, W, 3) → (width, height)
    """The same for an array of pixels from 0 to 255."""
    return columns(_image(values), height=height)


def columns(image: Any, *, height: int) -> NDArray[np.float32]:
    """A Pillow image as grey columns from left to right, scaled to ``height``."""
    library, _ = _pillow()
    width = max(round(image.size[0] * height / image.size[1]), 1)
    if width > MAX_WIDTH:
        raise ImageError(f"too wide: {width} pixels at a height of {height}; at most {MAX_WIDTH} are supported")
    grey = _to_rgb(image).convert("L").resize((width, height), library.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(grey, dtype=np.float32).T) * np.float32(1 / 255)


def from_array(
    values: NDArray[Any], *, size: int, resize: Resize = "crop"
) -> Pixels:  # (H, W), (H, W, 3) → (size, size, 3)
    """The same for an array of pixels from 0 to 255."""
    return square(_image(values), size=size, resize=resize)


def square(image: Any, *, size: int, resize: Resize) -> Pixels:  # (size, size, 3)
    """A Pillow image as an RGB square, on white if it is transparent."""
    library, _ = _pillow()
    image = _to_rgb(image)
    width, height = image.size
    smooth = library.Resampling.BILINEAR
    if resize == "crop":
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        return np.array(image.resize((size, size), smooth, box=(left, top, left + side, top + side)))
    side = max(width, height)
    inner = tuple(max(round(length * size / side), 1) for length in (width, height))
    canvas = library.new("RGB", (size, size), GREY)
    canvas.paste(image.resize(inner, smooth), tuple((size - length) // 2 for length in inner))
    return np.array(canvas)


def _image(values: NDArray[Any]) -> Any:
    if values.dtype != np.uint8 or values.ndim < 2 or values.shape[2:] not in ((), (3,)) or not values.size:
        raise ImageError(f"expected uint8 (height, width, 3), found {values.dtype} {values.shape}")
    library, _ = _pillow()
    return library.fromarray(np.ascontiguousarray(values))


def _check_pixels(image: Any, stream: IO[bytes]) -> None:
    """Raise ImageError before an image is decoded that is far larger than its file."""
    width, height = image.size
    try:
        check_expansion(file_size(stream), RGBA_BYTES * width * height)
    except ExpansionError as error:
        raise ImageError(f"{width} × {height} pixels: {error}") from None


@contextmanager
def _translate_errors(library: Any, formats: Sequence[str]) -> Iterator[None]:
    """Raise ImageError for whatever Pillow raises."""
    try:
        yield
    except library.UnidentifiedImageError:
        raise ImageError(f"not a {', '.join(formats[:-1])} or {formats[-1]} image") from None
    except ImageError:
        raise
    except (OSError, SyntaxError, ValueError, LookupError, EOFError, struct.error, zlib.error) as error:
        raise ImageError(f"damaged image ({error})") from None
    except library.DecompressionBombError:
        raise ImageError("too many pixels (a decompression bomb?)") from None


def _to_rgb(image: Any) -> Any:
    library, _ = _pillow()
    if image.mode.startswith("I"):  # 16 bits
        values = np.asarray(image, dtype=np.int64).clip(0, 65535)
        return library.fromarray((values // 257).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        foreground = image.convert("RGBA")
        background = library.new("RGBA", foreground.size, WHITE)
        return library.alpha_composite(background, foreground).convert("RGB")
    return image.convert("RGB")


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ModuleNotFoundError:
        raise ModuleNotFoundError("reading images needs Pillow: pip install 'seqloom[images]'", name="PIL") from None
    return Image, ImageOps
