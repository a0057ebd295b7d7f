"""Videos as sequences of frames: animated GIF, WebP and PNG files, folders of images, arrays; needs Pillow."""

import re
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers import pixels
from seqloom.data.readers.expansion import ExpansionError, check_expansion
from seqloom.data.readers.file_lists import ContentError
from seqloom.data.readers.pixels import ImageError, Pixels, Resize

FORMATS = ("GIF", "WEBP", "PNG")
SUFFIXES = (".gif", ".webp", ".apng")
NUMBER = re.compile(r"(\d+)")


def decode(stream: IO[bytes], *, size: int, resize: Resize = "crop") -> Pixels:  # (T, size, size, 3)
    """The frames of an animated image."""
    with pixels.opened(stream, FORMATS) as image:
        count = getattr(image, "n_frames", 1)
        pixels_of_frame = max(image.size[0] * image.size[1], size * size)  # a frame is decoded before it is resized
        _check_size(pixels.file_size(stream), count, pixels_of_frame)
        frames = []
        for number in range(count):
            image.seek(number)
            frames.append(pixels.square(image, size=size, resize=resize))
        return np.stack(frames)


def read_folder(folder: Path, *, size: int, resize: Resize = "crop") -> Pixels:  # (T, size, size, 3)
    """The images of a folder as the frames of a video, in the order of the numbers in their names."""
    frames = []
    paths = frame_files(folder)
    _check_size(sum(path.stat().st_size for path in paths), len(paths), size * size)
    for path in paths:
        try:
            with path.open("rb") as stream:
                frames.append(pixels.decode(stream, size=size, resize=resize))
        except (ImageError, OSError) as error:
            raise ContentError(f"frame {path.name}: {error}") from None
    if not frames:
        raise ContentError(f"no frames in the folder; expected files that end in {', '.join(pixels.SUFFIXES)}")
    return np.stack(frames)


def frame_files(folder: Path) -> list[Path]:
    """The images of a folder: frame_9.png comes before frame_10.png."""
    files = (path for path in folder.iterdir() if path.suffix.lower() in pixels.SUFFIXES and path.is_file())
    return sorted(files, key=lambda path: _natural(path.name))


def from_array(
    values: NDArray[Any], *, size: int, resize: Resize = "crop"
) -> Pixels:  # (T, H, W), (T, H, W, 3) → (T, size, size, 3)
    """The same for an array of pixels from 0 to 255."""
    if not len(values):
        raise ImageError(f"expected uint8 (frames, height, width, 3), found {values.dtype} {values.shape}")
    _check_size(values.nbytes, len(values), size * size)
    return np.stack([pixels.from_array(frame, size=size, resize=resize) for frame in values])


def _check_size(stored: int, count: int, pixels_of_frame: int) -> None:
    """Raise ImageError for frames that take far more memory or time than the bytes that are stored explain."""
    try:
        check_expansion(stored, count * pixels_of_frame * 3)
    except ExpansionError as error:
        raise ImageError(f"{count} frames: {error}") from None


def _natural(name: str) -> list[tuple[int, str]]:
    """A key that orders numbers by value."""
    return [(int(part) if part.isdigit() else -1, part.lower()) for part in NUMBER.split(name)]
