"""Labels for the frames of sound and videos, from files to predictions."""

import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import seqloom_runtime
from seqloom.config import Document
from seqloom.data.readers.text_files import DataError
from seqloom.layers.audio.spectrum import Spectrum
from seqloom.model import load
from seqloom.models.signals.image_encoder import ImageEncoderConfig
from seqloom.onnx.exported import write
from seqloom.run_config import Config
from seqloom.standalone.exported import write as write_compiled
from seqloom.tasks.tag import Tag
from seqloom.tasks.targets.tags import SegmentPrediction, tag_prediction
from seqloom.workflow import train

RATE = 8000


def write_sound(file: Path, seconds: float, loud: tuple[float, float]) -> None:
    """Noise that is loud between two times."""
    times = np.arange(int(seconds * RATE)) / RATE
    noise = np.random.default_rng(len(file.name)).normal(size=len(times))
    samples = noise * np.where((times >= loud[0]) & (times < loud[1]), 8000, 40)
    with wave.open(str(file), "wb") as sound:
        sound.setparams((1, 2, RATE, 0, "NONE", ""))
        sound.writeframes(samples.clip(-32767, 32767).astype("<i2").tobytes())


@pytest.fixture
def sounds(tmp_path: Path) -> Path:
    """A list of four recordings with the segment in which each is loud."""
    rows = ["file\tlabels"]
    for number, loud in enumerate([(0.1, 0.3), (0.2, 0.35), (0.05, 0.2), (0.15, 0.3)]):
        write_sound(tmp_path / f"{number}.wav", 0.4, loud)
        (tmp_path / f"{number}.tsv").write_text(f"{loud[0]}\t{loud[1]}\tloud\n")
        rows.append(f"{number}.wav\t{number}.tsv")
    (tmp_path / "train.tsv").write_text("\n".join(rows) + "\n")
    return tmp_path / "train.tsv"


def test_sound_becomes_the_frames_of_its_spectrum(sounds: Path) -> None:
    task, notes = Tag(train=str(sounds)).resolve(sounds)
    assert notes == ("file from column 1 'file', labels from column 2 'labels'",)
    assert task.audio.sample_rate == RATE
    first, *_ = task.read(sounds)
    with wave.open(str(sounds.parent / "0.wav")) as sound:
        samples = np.frombuffer(sound.readframes(sound.getnframes()), "<i2").astype(np.float32) / 32768
    values, *_ = Spectrum(RATE, n_mels=40, fmin=20.0)(torch.from_numpy(samples).unsqueeze(0))
    np.testing.assert_allclose(getattr(first, "values"), values[0], rtol=1e-5)  # noqa: B009  a union of types
    centres = np.arange(len(first)) * 0.01 + 0.0125
    assert first.labels == tuple(np.where((centres >= 0.1) & (centres < 0.3), "loud", "-"))


def test_segments_are_predicted(sounds: Path, tmp_path: Path) -> None:
    overrides = {"task.encoder.hidden_size": 8, "train.epochs": 25, "train.batch_size": 2, "train.learning_rate": 0.03}
    document = {"task.name": "tag", "task.train": str(sounds), "task.dev": str(sounds), **overrides}

    run = train(Config.build(Document.empty([], values=document)), output=tmp_path / "run")
    model = load(run.path)
    assert model.evaluate(sounds)["accuracy"] > 0.95  # the loud part is 40 dB louder
    write_sound(tmp_path / "new.wav", 0.5, (0.2, 0.4))
    (answer,) = model.predict(tmp_path / "new.wav")
    assert isinstance(answer, SegmentPrediction)
    (loud,) = [segment for segment in answer.segments if segment[2] == "loud"]
    np.testing.assert_allclose(loud[:2], (0.2, 0.4), atol=0.03)  # a window of 25 ms
    assert str(answer).splitlines()[0].split("\t")[2] == "-"


@pytest.mark.parametrize("kind", ["sound", "video"])
def test_exported_tagger_reads_files(sounds: Path, tmp_path: Path, kind: str) -> None:
    """Without Seqloom, from a WAV file or an animation to its segments or labels."""
    if kind == "video":
        frames = [Image.new("RGB", (12, 9), colour) for colour in ("red", "blue", "red")]
        frames[0].save(tmp_path / "clip.gif", save_all=True, append_images=frames[1:], duration=40)
        sounds.write_text("file\tlabels\nclip.gif\tr b r\n")
    task: Any = Tag(train=str(sounds), image_size=8, image_encoder=ImageEncoderConfig(layers=1, channels=4))
    task, _ = task.resolve(sounds)
    examples = [*task.read(sounds)]
    task = task.fit(examples)
    module = task.build_model().eval()
    with torch.no_grad():
        write(task.onnx_model(module), tmp_path / "model.onnx", [examples], metadata={})
        if kind == "sound":
            assert write_compiled(task.standalone_model(module), tmp_path / "model.o", [examples]).examples == 4
        expected = task.predict(module, task.collate(examples)).answers
    names = ["clip.gif"] if kind == "video" else [f"{number}.wav" for number in range(4)]
    answers = seqloom_runtime.load(tmp_path / "model.onnx").predict([tmp_path / name for name in names])
    for answer, prediction in zip(answers, expected, strict=True):
        stored = json.loads(json.dumps(task.to_json(prediction)))
        assert answer.keys() == stored.keys()
        assert answer["labels"] == stored["labels"]
        assert answer.get("segments") == stored.get("segments")
        np.testing.assert_allclose(answer["probabilities"], stored["probabilities"], atol=1e-5)


def test_equal_labels_form_a_segment() -> None:
    answer = tag_prediction([], list("aabbb"), [1.0] * 5, step_seconds=0.01)
    assert str(answer) == "0.00\t0.02\ta\n0.02\t0.05\tb\n"
    assert str(tag_prediction([], list("ab"), [1.0] * 2)) == "a\nb\n"


def test_the_frames_of_a_video(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "red")]
    frames[0].save(tmp_path / "clip.gif", save_all=True, append_images=frames[1:], duration=40)
    file = tmp_path / "train.jsonl"
    file.write_text(json.dumps({"video": "clip.gif", "labels": ["r", "b", "r"]}) + "\n")
    task = Tag(train=str(file), image_size=8, image_encoder=ImageEncoderConfig(layers=1, channels=4), input_dropout=0.0)
    (example,) = task.read(file)
    assert example.labels == ("r", "b", "r")
    task = task.fit([example])
    assert (task.fitted.video, task.fitted.size) == (True, 3)
    batch = task.collate([example])
    pixels = np.array([np.asarray(frame, dtype=float) for frame in frames])
    expected = (pixels - pixels.reshape(-1, 3).mean(0)) / np.maximum(pixels.reshape(-1, 3).std(0), 1e-5)
    scaled = batch.inputs.values[0].numpy()
    np.testing.assert_allclose(scaled[..., 0], expected[..., 0], atol=1e-4)  # green never changes
    model = task.build_model()
    loss = task.loss(model, batch)
    loss.total.backward()
    assert loss.items == 3
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("a b c", r"train\.tsv:2: 0\.wav has 38 frames, but 3 labels; for sound, name a file of segments"),
        ("missing.tsv", r"train\.tsv:2: no file of labels 'missing\.tsv'"),
    ],
)
def test_labels_that_do_not_fit(sounds: Path, labels: str, message: str) -> None:
    sounds.write_text(f"file\tlabels\n0.wav\t{labels}\n")
    with pytest.raises(DataError, match=message):
        list(Tag(train=str(sounds)).read(sounds))


def test_segments_of_a_video_and_images_are_refused(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "clip.gif", save_all=True, append_images=frames[1:])
    frames[0].save(tmp_path / "image.png")
    (tmp_path / "a.tsv").write_text("0\t1\tx\n")
    for name, message in (
        ("clip.gif", "segments with times need sound"),
        ("image.png", "is an image; tag reads sound"),
    ):
        (tmp_path / "train.tsv").write_text(f"file\tlabels\n{name}\ta.tsv\n")
        with pytest.raises(DataError, match=message):
            list(Tag(train="x").read(tmp_path / "train.tsv"))
