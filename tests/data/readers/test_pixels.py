"""Images as squares of pixels, against arrays cropped and averaged with NumPy."""

import io
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from seqloom.data.readers.pixels import ImageError, Resize, decode, decode_line, from_array, line_from_array

RANDOM = np.random.default_rng(1)


def packed(values: NDArray[Any], kind: str = "PNG", **options: Any) -> io.BytesIO:
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, kind, **options)
    stream.seek(0)
    return stream


def noise(*shape: int) -> NDArray[np.uint8]:
    return RANDOM.integers(0, 256, size=shape, dtype=np.uint8)


def test_square_of_the_right_size_is_unchanged() -> None:
    values = noise(8, 8, 3)
    actual = decode(packed(values), size=8)
    assert actual.dtype == np.uint8
    assert np.array_equal(actual, values)
    assert np.array_equal(from_array(values, size=8), values)
    assert actual.base is None  # its memory is its own


@pytest.mark.parametrize(("shape", "part"), [((4, 10), np.s_[:, 3:7]), ((9, 5), np.s_[2:7])])
def test_crop_takes_the_centre(shape: tuple[int, int], part: Any) -> None:
    values = noise(*shape, 3)
    assert np.array_equal(from_array(values, size=min(shape)), values[part])


@pytest.mark.parametrize("frame", ["crop", "pad"])
def test_uniform_colour_is_preserved(frame: Resize) -> None:
    values = np.full((30, 30, 3), (200, 10, 90), dtype=np.uint8)
    assert np.array_equal(from_array(values, size=7, resize=frame), values[:7, :7])
    assert np.array_equal(from_array(values[:3, :3], size=7, resize=frame), values[:7, :7])


def test_pad_adds_grey() -> None:
    values = noise(4, 8, 3)
    actual = from_array(values, size=8, resize="pad")
    assert np.array_equal(actual[2:6], values)
    assert (actual[:2] == 128).all()
    assert (actual[6:] == 128).all()
    thin = from_array(noise(1, 40, 3), size=8, resize="pad")
    assert (thin == 128).all(axis=(1, 2)).sum() == 7


def test_large_image_is_averaged() -> None:
    chess = np.indices((64, 64)).sum(axis=0) % 2 * 255
    actual = from_array(chess.astype(np.uint8), size=8).astype(int)
    assert abs(actual - 127.5).max() < 2  # and not some of its pixels


def test_grey_transparent_and_16_bit_images() -> None:
    grey = noise(6, 6)
    assert np.array_equal(decode(packed(grey), size=6), np.stack([grey] * 3, axis=2))
    deep = RANDOM.integers(0, 65536, size=(6, 6), dtype=np.uint16)
    assert np.array_equal(decode(packed(deep), size=6)[..., 0], deep // 257)
    clear = noise(6, 6, 4)
    opacity = clear[..., 3:] / 255
    expected = clear[..., :3] * opacity + 255 * (1 - opacity)
    assert abs(decode(packed(clear), size=6) - expected).max() <= 1
    palette = io.BytesIO()
    Image.fromarray(noise(6, 6, 3)).quantize(4).save(palette, "PNG", transparency=0)
    assert decode(palette, size=6).shape == (6, 6, 3)


def test_exif_rotation_is_applied() -> None:
    values = np.zeros((16, 16, 3), dtype=np.uint8)
    values[:, :8] = 255  # its left half is bright
    turned = Image.Exif()
    turned[0x0112] = 6  # to be turned by a quarter, clockwise
    actual = decode(packed(values, "JPEG", exif=turned, quality=95), size=16)
    assert actual[:7].min() > 200
    assert actual[9:].max() < 50


def test_invalid_images_are_errors() -> None:
    whole = packed(noise(50, 50, 3)).getvalue()
    photograph = packed(noise(50, 50, 3), "JPEG").getvalue()
    other = io.BytesIO()
    Image.fromarray(noise(5, 5, 3)).save(other, "BMP")
    for data in (b"", b"not an image", other.getvalue()):
        with pytest.raises(ImageError, match="not a PNG or JPEG image"):
            decode(io.BytesIO(data), size=8)
    for data in (whole[:1000], whole[:60], photograph[:500], whole[:200] + b"\0" * 500 + whole[700:]):
        with pytest.raises(ImageError, match="damaged image"):
            decode(io.BytesIO(data), size=8)
    for values in (np.zeros((4, 4, 2), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)):
        with pytest.raises(ImageError, match=r"expected uint8 \(height, width, 3\)"):
            from_array(values, size=8)


def test_decompression_bomb_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(ImageError, match="too many pixels"):
        decode(packed(noise(20, 20, 3)), size=8)


def test_missing_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'seqloom\[images\]'"):
        decode(io.BytesIO(), size=8)


def test_text_line_columns() -> None:
    values = np.arange(6 * 10, dtype=np.uint8).reshape(6, 10)
    np.testing.assert_allclose(line_from_array(values, height=6), values.T / 255, rtol=1e-6, atol=0)
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, "PNG")
    assert decode_line(io.BytesIO(stream.getvalue()), height=3).shape == (5, 3)
    with pytest.raises(ImageError, match="not a PNG or JPEG image"):
        decode_line(io.BytesIO(b"GIF89a"), height=3)
    with pytest.raises(ImageError, match=r"expected uint8 \(height, width, 3\), found float64 \(2, 3\)"):
        line_from_array(np.zeros((2, 3)), height=3)
    with pytest.raises(ImageError, match="too wide: 70000 pixels at a height of 7; at most 65536 are supported"):
        line_from_array(np.zeros((1, 10000), dtype=np.uint8), height=7)
