"""Classification of sound, images and videos: what is read, what the encoders see, and that they learn."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts import tiny

from seqloom.config import Document
from seqloom.data.builtin import moving_shapes, shapes
from seqloom.data.readers.audio_files import Audio
from seqloom.data.readers.text_files import DataError
from seqloom.layers.audio.spectrum import Normalize
from seqloom.tasks.classify import Classify
from seqloom.workflow import train


def fitted(name: str, folder: Path, **fields: Any) -> tuple[Classify, list[Any]]:
    case = tiny.CASES[name]
    case.write_files(folder)
    (folder / "t.tsv").write_text(case.train)
    task = Classify(train=str(folder / "t.tsv"), **case.fields | fields)
    examples = list(task.read(folder / "t.tsv"))
    return task.fit(examples), examples


def test_the_scale_of_images_is_that_of_each_colour(tmp_path: Path) -> None:
    task, examples = fitted("classify, images", tmp_path)
    assert task.learned is not None
    assert task.learned.signal is not None
    pixels = np.concatenate([example.content.reshape(-1, 3) for example in examples]).astype(float)
    np.testing.assert_allclose(task.learned.signal.mean, pixels.mean(axis=0))
    np.testing.assert_allclose(task.learned.signal.deviation, pixels.std(axis=0))
    batch = task.collate(examples)
    assert batch.inputs.values.shape == (18, 8, 8, 3)
    np.testing.assert_allclose(batch.inputs.values.double().mean(dim=(0, 1, 2)), 0, atol=1e-6)


def test_the_level_is_that_of_sound(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r'found an image; task\.normalize = "level" works with sound only'):
        fitted("classify, images", tmp_path, normalize="level")


@pytest.mark.parametrize(("normalize", "kind"), [(True, "utterance"), ("level", "level"), (False, "none")])
def test_sound_is_read_as_its_spectrum_over_the_recording(tmp_path: Path, normalize: Any, kind: Any) -> None:
    task, examples = fitted("classify, sound", tmp_path, augment={}, normalize=normalize)
    batch = task.collate(examples[:3])
    model = task.build_model().eval()
    frames, mask = model.encoder.embed_inputs(*batch.inputs)
    spectrum = task.audio.spectrum(4000)
    for row, example in enumerate(examples[:3]):
        alone, _, _ = spectrum(torch.from_numpy(example.content).unsqueeze(0))
        expected, _ = Normalize(8, kind=kind)(alone, torch.ones(alone.shape[:2], dtype=torch.bool))
        torch.testing.assert_close(frames[row][mask[row]], expected[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("overrides", "width"),
    [
        ([], 8),
        (["task.audio.n_mels=24"], 4),
        (["task.audio.n_mels=80"], 8),
        (["task.audio.features=mfcc"], 2),
        (["task.audio.features=mfcc", "task.audio.n_mfcc=20", "task.audio.n_mels=64"], 4),
    ],
)
def test_the_frequency_masks_of_sound_are_a_fifth_of_its_features(
    overrides: list[str], width: int, tmp_path: Path
) -> None:
    task, _ = fitted("classify, sound", tmp_path)
    values = Classify.defaults(Document.empty(overrides), task.preview(Path(task.train)))
    assert (values["task.augment.freq_masks"], values["task.augment.freq_mask_width"]) == (2, width)


def test_frames_of_a_video_share_their_convolutions(tmp_path: Path) -> None:
    task, examples = fitted("classify, video", tmp_path)
    model = task.build_model().eval().double()
    inputs = task.collate(examples[:3]).inputs
    values = inputs.values.double()
    vectors, _ = model.encoder.embed_inputs(values, inputs.mask)
    for step in range(values.shape[1]):
        alone, _ = model.encoder.embed_inputs(values[:, step : step + 1], inputs.mask[:, :1])
        torch.testing.assert_close(vectors[:, step], alone[:, 0], atol=1e-10, rtol=0)
    swapped = model.encoder.embed_inputs(values.flip(2), inputs.mask)[0]
    assert not torch.allclose(swapped, vectors)  # where a bar is makes a difference


def test_other_signals_than_those_of_the_training_are_refused(tmp_path: Path) -> None:
    task, _ = fitted("classify, images", tmp_path)
    for value, message in (
        (tiny._frames(1), "expected an image as in the other examples, found a video"),
        (np.zeros((4, 3)), "expected an image as in the other examples, found frames of 3 features"),
        ("a text", "found a text; the model was trained on an image"),
        (tmp_path / "none.png", "no file '.*none.png'"),
    ):
        with pytest.raises(DataError, match=f"input:1: {message}"):
            task.collate(list(task.read([value])))
    sound, _ = fitted("classify, sound", tmp_path)
    with pytest.raises(DataError, match="the audio has 10 samples, but a window needs 100"):
        sound.collate(list(sound.read([Audio(np.zeros(10, np.float32), 4000)])))


def test_one_folder_for_each_label(tmp_path: Path) -> None:
    tiny._write_images(tmp_path)
    for label in ("fall", "rise"):
        (tmp_path / "data" / label).mkdir(parents=True)
    for number in range(6):
        folder = tmp_path / "data" / ("fall", "rise")[number % 2]
        (tmp_path / f"{number}.png").rename(folder / f"{number}.png")
    task = Classify(train=str(tmp_path / "data"), image_size=8)
    resolved, notes = task.resolve(tmp_path / "data")
    assert notes == ("6 images, one per file; label from the names of 2 folders",)
    labels = [(example.label, example.identity) for example in resolved.read(tmp_path / "data")]
    assert labels == [("fall", "0.png"), ("fall", "2.png"), ("fall", "4.png")] + [
        ("rise", f"{number}.png") for number in (1, 3, 5)
    ]


def test_a_list_without_a_header(tmp_path: Path) -> None:
    tiny._write_images(tmp_path)
    (tmp_path / "list.csv").write_text("fall,0.png\nrise,1.png\n")
    task = Classify(train=str(tmp_path / "list.csv"), image_size=8)
    assert [example.label for example in task.read(tmp_path / "list.csv")] == ["fall", "rise"]
    assert task.listed_files(tmp_path / "list.csv") == [tmp_path / "0.png", tmp_path / "1.png"]


@pytest.mark.parametrize("name", ["classify, sound", "classify, convolutions", "classify, video"])
def test_training_learns_to_tell_a_rise_from_a_fall(name: str, tmp_path: Path) -> None:
    config = tiny.build(tiny.CASES[name], tmp_path, epochs=40, learning_rate=0.02)
    run = train(config, output=tmp_path / "run", plots=False)
    assert run.best_metrics()["accuracy"] > 0.9


def test_generated_shapes_and_clips_are_what_their_labels_say(tmp_path: Path) -> None:
    rows = list(shapes.label_rows(30, "train", seed=1))
    scenes = [scene for scene, _ in shapes.scenes(30, "train", seed=1)]
    assert rows[0] == "image\tlabel"
    for row, scene in zip(rows[1:], scenes, strict=True):
        above = scene.first.y < scene.second.y - 10
        assert (" above " in row) is above
    for clip in moving_shapes.clips(70, "train", seed=1):
        first, last = clip.frames[0], clip.frames[-1]
        change = {"left": first.x - last.x, "right": last.x - first.x, "up": first.y - last.y, "down": last.y - first.y}
        growth = {"grows": last.radius - first.radius, "shrinks": first.radius - last.radius}
        actions = {name for name, amount in (change | growth).items() if amount > 1}
        assert actions == ({clip.activity} - {"stays"})
        for shape in (first, last):
            assert shape.radius <= shape.x <= moving_shapes.SIZE - shape.radius
            assert shape.radius <= shape.y <= moving_shapes.SIZE - shape.radius


def with_silence(example: Any, before: int, after: int) -> Any:
    content = np.concatenate([np.zeros(before), example.content, np.zeros(after)]).astype(np.float32)
    return replace(example, content=content, length=len(content))


def test_silence_before_and_after_sound_is_not_read(tmp_path: Path) -> None:
    task, examples = fitted("classify, sound", tmp_path, augment={}, trim_db=30.0)
    model = task.build_model().eval()
    plain = examples[0]
    silent = with_silence(plain, 160, 240)  # 40 and 60 ms
    frames, mask = model.encoder.embed_inputs(*task.collate([silent, plain]).inputs)
    assert mask[0].sum() == mask[1].sum() == task.steps(silent) == task.steps(plain)
    torch.testing.assert_close(frames[0], frames[1])
    (prediction,) = task.predict(model, task.collate([silent])).answers
    attribution = task.attribute(model, silent, prediction=prediction, method="input_x_gradient")
    assert attribution.start_seconds == pytest.approx(0.04)
    assert len(attribution.values) == task.steps(plain)
    (note,) = task.explain(model, silent).notes
    assert note == "steps count from 0.04 s, after the silence (task.trim_db)"
    assert task.explain(model, plain).notes == []


def test_silence_is_that_of_sound(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found an image; task\.trim_db works with sound only"):
        fitted("classify, images", tmp_path, trim_db=30.0)
