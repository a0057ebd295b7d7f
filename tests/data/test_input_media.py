"""Pictures, sound and vectors for the browser."""

from types import SimpleNamespace

import numpy as np

from seqloom.data.input_media import MAX_FRAMES, MAX_SECONDS, input_kind, input_media
from seqloom.data.readers.music import Piece
from seqloom.data.readers.text_files import Location


def test_sound_is_scaled_and_limited() -> None:
    samples = 0.25 * np.sin(np.arange(100 * 100 * MAX_SECONDS)).astype(np.float32)
    example = SimpleNamespace(values=samples, rate=100)
    ((facts, values),) = input_media(example, None, None)
    assert facts == {"kind": "sound", "rate": 100, "shape": [100 * MAX_SECONDS]}
    assert np.abs(values).max() == 1
    assert input_kind(example) == "sound"


def test_pixels_are_from_0_to_1() -> None:
    image = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    ((facts, values),) = input_media(SimpleNamespace(content=image, rate=0), None, None)
    assert facts == {"kind": "image", "shape": [2, 3, 3]}
    np.testing.assert_allclose(values * 255, image, rtol=1e-6)


def test_of_a_long_video_some_frames_are_sent() -> None:
    video = np.zeros((100, 2, 2, 3), np.uint8)
    ((facts, values),) = input_media(SimpleNamespace(content=video), None, None)
    assert (facts["kind"], facts["of"]) == ("video", 100)
    assert len(values) <= MAX_FRAMES


def test_the_explanation_shows_what_the_model_read() -> None:
    example = SimpleNamespace(values=np.zeros(50, np.float32), rate=10)
    spectrum = np.ones((5, 4))
    kinds = [(facts["kind"], facts["shape"]) for facts, _ in input_media(example, spectrum, None)]
    assert kinds == [("sound", [50]), ("spectrogram", [5, 4])]


def test_kinds_of_inputs() -> None:
    assert input_kind(SimpleNamespace(values=np.zeros((7, 3)), name="lines/a.PNG")) == "line"
    assert input_kind(SimpleNamespace(values=np.zeros((7, 3)), name="a.npy")) == "vectors"
    assert input_kind(SimpleNamespace(words=["a"])) == ""
    pen = np.array([[0.5, 1, 0], [2, -1, 1]])
    assert input_kind(SimpleNamespace(values=pen, name="")) == "strokes"
    assert input_kind(SimpleNamespace(values=np.eye(3), name="")) == "vectors"  # one-hot vectors are no strokes
    assert input_kind(SimpleNamespace(history=np.zeros((7, 1)))) == "vectors"  # a series


def test_music_is_the_frames_of_the_piano() -> None:
    frames = np.eye(5, 88, dtype=np.uint8)
    example = Piece(Location("a.mid", 1), "a.mid", frames)
    ((facts, values),) = input_media(example, None, None)
    assert facts == {"kind": "music", "shape": [5, 88], "of": 5}
    np.testing.assert_array_equal(values, frames)
    assert input_kind(example) == "music"
