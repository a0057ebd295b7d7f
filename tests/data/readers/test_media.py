"""Sound, features, images and videos as arrays of one size."""

import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from seqloom.data.readers import media_lists
from seqloom.data.readers.file_lists import ContentError
from seqloom.data.readers.media import MediaDecoder, Signal
from seqloom.data.readers.media_lists import MediaFiles
from seqloom.data.readers.text_files import DataError, Location

FRAMES = np.random.default_rng(1).integers(0, 256, (3, 8, 8, 3)).astype(np.uint8)


def decode(path: Path, **options: Any) -> Signal:
    with path.open("rb") as stream:
        return MediaDecoder(**{"image_size": 8} | options).decode(stream, path.name)


def write_gif(path: Path, frames: Any, **options: Any) -> Path:
    first, *others = [Image.fromarray(frame) for frame in frames]
    first.save(path, save_all=True, append_images=others, **options)
    return path


def test_kinds(tmp_path: Path) -> None:
    Image.fromarray(FRAMES[0]).save(tmp_path / "a.png")
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes((np.arange(100) * 100).astype("<i2").tobytes())
    np.save(tmp_path / "a.npy", FRAMES)
    np.save(tmp_path / "b.npy", np.ones((5, 2), np.float32))
    kinds = {name: decode(tmp_path / name).kind for name in ("a.png", "a.wav", "a.npy", "b.npy")}
    assert kinds == {"a.png": "image", "a.wav": "sound", "a.npy": "video", "b.npy": "vectors"}
    assert np.array_equal(decode(tmp_path / "a.png").values, FRAMES[0])
    assert np.array_equal(decode(tmp_path / "a.npy").values, FRAMES)
    np.testing.assert_allclose(decode(tmp_path / "a.wav").values, np.arange(100) * 100 / 32768, atol=1e-4)
    assert (decode(tmp_path / "a.wav").rate, decode(tmp_path / "a.wav", sample_rate=4000).values.shape) == (8000, (50,))
    assert decode(tmp_path / "a.png", line_height=4).kind == "vectors"


@pytest.mark.parametrize("suffix", ["webp", "apng"])
def test_lossless_animations_keep_every_pixel(tmp_path: Path, suffix: str) -> None:
    options = {"lossless": True, "exact": True} if suffix == "webp" else {"format": "png"}
    path = write_gif(tmp_path / f"a.{suffix}", FRAMES, **options)
    assert np.array_equal(decode(path).values, FRAMES)


def test_gif_frames_are_those_that_a_viewer_shows(tmp_path: Path) -> None:
    frames = np.zeros((4, 8, 8, 3), np.uint8)
    for step in range(4):
        frames[step, 2 * step] = 255  # unchanged pixels are not stored again
    assert np.array_equal(decode(write_gif(tmp_path / "a.gif", frames)).values, frames)


def test_a_folder_of_images_is_a_video_in_the_order_of_numbers(tmp_path: Path) -> None:
    for number, frame in zip((10, 9, 2), FRAMES, strict=True):
        Image.fromarray(frame).save(tmp_path / f"frame_{number}.png")
    assert np.array_equal(MediaDecoder(image_size=8).read_folder(tmp_path).values, FRAMES[::-1])
    (tmp_path / "frame_3.png").write_bytes(b"no image")
    with pytest.raises(ContentError, match=r"frame frame_3\.png: not a PNG or JPEG image"):
        MediaDecoder().read_folder(tmp_path)


def test_a_list_may_mix_files_and_folders_and_names_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "clip").mkdir()
    Image.fromarray(FRAMES[0]).save(tmp_path / "clip" / "1.png")
    np.save(tmp_path / "b.npy", FRAMES)
    (tmp_path / "bad.gif").write_bytes(b"GIF89a")
    place = Location("list.tsv", 7)
    files = MediaFiles(MediaDecoder(image_size=8))
    lengths = [len(signal.values) for signal in files.load([(place, "clip"), (place, "b.npy")], tmp_path)]
    assert lengths == [1, 3]
    assert files.locate([(place, "clip"), (place, "b.npy")], tmp_path) == [tmp_path / "clip/1.png", tmp_path / "b.npy"]
    with pytest.raises(DataError, match=r"list\.tsv:7: file .*bad\.gif: (not a GIF|damaged image)"):
        list(files.load([(place, "bad.gif")], tmp_path))
    with pytest.raises(DataError, match=r"list\.tsv:7: no file 'none\.gif'"):
        list(files.load([(place, "none.gif")], tmp_path))


def test_items_of_a_folder(tmp_path: Path) -> None:
    for name in ("a/clip_2/1.png", "a/clip_1/1.png", "b/more/sound.wav", "b/x.gif"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert list(media_lists.items(tmp_path / "a")) == [tmp_path / "a/clip_1", tmp_path / "a/clip_2"]
    assert list(media_lists.items(tmp_path / "b")) == [tmp_path / "b/more/sound.wav", tmp_path / "b/x.gif"]
    assert media_lists.describe_items(list(media_lists.items(tmp_path / "a"))) == "2 videos, one per folder of frames"


def test_a_small_file_of_endless_frames_is_refused(tmp_path: Path) -> None:
    path = write_gif(tmp_path / "a.gif", np.arange(300, dtype=np.uint8).reshape(-1, 1, 1, 1).repeat(3, axis=3))
    with pytest.raises(ContentError, match=r"frames: .* bytes become more than"):
        decode(path, image_size=512)
    frames = np.zeros((200, 400, 400), np.uint8)  # each of them is decoded, however small the frames of the model are
    frames[::2] = 255
    with pytest.raises(ContentError, match=r"200 frames: .* bytes become more than 95,999,999"):
        decode(write_gif(tmp_path / "b.gif", frames))


def test_many_tiny_frames_are_refused_where_they_become_large(tmp_path: Path) -> None:
    frames = np.zeros((300, 1, 1, 3), np.uint8)
    np.save(tmp_path / "a.npy", frames)
    Image.fromarray(frames[0]).save(tmp_path / "0.png")
    for number in range(1, 300):
        (tmp_path / f"{number}.png").write_bytes((tmp_path / "0.png").read_bytes())
    message = r"300 frames: .* bytes become more than"
    with pytest.raises(ContentError, match=message):
        decode(tmp_path / "a.npy", image_size=512)
    with pytest.raises(ContentError, match=message):
        MediaDecoder(image_size=512).read_folder(tmp_path)
    assert len(decode(tmp_path / "a.npy").values) == len(MediaDecoder(image_size=8).read_folder(tmp_path).values) == 300


@pytest.mark.parametrize("suffix", ["gif", "webp", "apng"])
def test_damaged_animations_are_read_or_refused(tmp_path: Path, suffix: str) -> None:
    intact = write_gif(tmp_path / f"a.{suffix}", FRAMES, **({"format": "png"} if suffix == "apng" else {})).read_bytes()
    refused = 0
    for seed in range(100):
        draw = np.random.default_rng(seed)
        data = np.frombuffer(intact, np.uint8).copy()
        data[draw.integers(0, len(data), 4)] = draw.integers(0, 256, 4)
        path = tmp_path / f"damaged.{suffix}"
        path.write_bytes(data.tobytes())
        try:
            assert decode(path).kind == "video"
        except ContentError:
            refused += 1
    assert refused
