"""A PNG or JPEG image as a square of pixels, or as the columns of a line of writing; needs Pillow."""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.file_lists import BadContent

Pixels = NDArray[np.uint8]
Frame = Literal["crop", "pad"]
"""How an image becomes a square: its middle, or all of it with grey beside."""

FORMATS = ("PNG", "JPEG")
SUFFIXES = (".png", ".jpg", ".jpeg")
WIDEST = 1 << 16  # columns of a line
GREY = (128, 128, 128)
WHITE = (255, 255, 255, 255)  # what stands behind a transparent image


class BadImage(BadContent):
    """Why bytes are no image that can be read."""


def decode(stream: IO[bytes], *, size: int, frame: Frame = "crop") -> Pixels:  # (size, size, 3)
    """The pixels of a file, upright as its camera meant it."""
    library, operations = _pillow()
    with _reasons(library), library.open(stream, formats=FORMATS) as image:
        image.draft("RGB", (2 * size, 2 * size))  # a JPEG that is much larger is unpacked at a fraction of its size
        return square(operations.exif_transpose(image), size=size, frame=frame)


def line(stream: IO[bytes], *, height: int) -> NDArray[np.float32]:  # (width, height), 0 black to 1 white
    """The columns of a file that shows a line of writing, at a height of so many pixels."""
    library, operations = _pillow()
    with _reasons(library), library.open(stream, formats=FORMATS) as image:
        return columns(operations.exif_transpose(image), height=height)


def line_of_array(values: NDArray[Any], *, height: int) -> NDArray[np.float32]:  # (H, W), (H, W, 3) → (width, height)
    """The same of pixels from 0 to 255."""
    return columns(_image(values), height=height)


def columns(image: Any, *, height: int) -> NDArray[np.float32]:
    """An image of Pillow as grey columns from left to right, at the wanted height."""
    library, _ = _pillow()
    width = max(round(image.size[0] * height / image.size[1]), 1)
    if width > WIDEST:
        raise BadImage(f"has {width} columns at a height of {height}; {WIDEST} at most are read")
    grey = _coloured(image).convert("L").resize((width, height), library.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(grey, dtype=np.float32).T) * np.float32(1 / 255)


def of_array(
    values: NDArray[Any], *, size: int, frame: Frame = "crop"
) -> Pixels:  # (H, W), (H, W, 3) → (size, size, 3)
    """The same of pixels from 0 to 255."""
    return square(_image(values), size=size, frame=frame)


def square(image: Any, *, size: int, frame: Frame) -> Pixels:  # (size, size, 3)
    """An image of Pillow at the wanted size, as it is seen: colours, on white where it is transparent."""
    library, _ = _pillow()
    image = _coloured(image)
    width, height = image.size
    smooth = library.Resampling.BILINEAR
    if frame == "crop":
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
        raise BadImage(f"is {values.dtype} {values.shape}; uint8 (height, width, 3) is wanted")
    library, _ = _pillow()
    return library.fromarray(np.ascontiguousarray(values))


@contextmanager
def _reasons(library: Any) -> Iterator[None]:
    """What the library finds wrong, in our words."""
    try:
        yield
    except library.UnidentifiedImageError:
        raise BadImage("is no PNG or JPEG image") from None
    except BadImage:
        raise
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error) as error:
        raise BadImage(f"is damaged ({error})") from None
    except library.DecompressionBombError:
        raise BadImage("has more pixels than can be trusted") from None


def _coloured(image: Any) -> Any:
    library, _ = _pillow()
    if image.mode.startswith("I"):  # of 16 bits
        values = np.asarray(image, dtype=np.int64).clip(0, 65535)
        return library.fromarray((values // 257).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        seen = image.convert("RGBA")
        return library.alpha_composite(library.new("RGBA", seen.size, WHITE), seen).convert("RGB")
    return image.convert("RGB")


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "images are read by Pillow, which is missing: pip install 'seqloom[images]'", name="PIL"
        ) from None
    return Image, ImageOps
