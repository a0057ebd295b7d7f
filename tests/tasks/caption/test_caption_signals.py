"""Captions of videos, sound and sequences of vectors: what is read, encoded and explained, and that it is learned."""

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.contracts import tiny

from seqloom.config import Document
from seqloom.data.readers.text_files import DataError
from seqloom.insight import draw_explanation
from seqloom.tasks.caption import Caption


def fitted(name: str, folder: Path, **fields: Any) -> tuple[Caption, list[Any]]:
    case = tiny.CASES[name]
    case.write_files(folder)
    (folder / "t.tsv").write_text(case.train)
    task = Caption(train=str(folder / "t.tsv"), **case.fields | fields)
    examples = list(task.read(folder / "t.tsv"))
    return task.fit(examples), examples


def test_one_video_in_all_forms(tmp_path: Path) -> None:
    """An array, a GIF file, a folder of frames, and a file in an archive have the same frames."""
    frames = np.stack([np.full((8, 8, 3), value, np.uint8) for value in (0, 255, 0)])
    np.save(tmp_path / "a.npy", frames)
    pictures = [Image.fromarray(frame) for frame in frames]
    pictures[0].save(tmp_path / "b.gif", save_all=True, append_images=pictures[1:])
    (tmp_path / "c").mkdir()
    for number, picture in enumerate(pictures):
        picture.save(tmp_path / "c" / f"frame_{number + 9}.png")
    with tarfile.open(tmp_path / "clips.tar", "w") as tar:
        tar.add(tmp_path / "b.gif", "d.gif")
    (tmp_path / "t.tsv").write_text(
        "video\tactivity\tcaption\n" + "".join(f"{n}\tx\tit {n}\n" for n in ("a.npy", "b.gif", "c", "d.gif"))
    )
    fields = {"image_size": 8, "image_encoder": {"layers": 2}, "images": str(tmp_path / "clips.tar")}
    task = Caption.model_validate({"train": str(tmp_path / "t.tsv"), **fields})
    examples = list(task.read(tmp_path / "t.tsv"))
    assert [example.captions for example in examples] == [("it a.npy",), ("it b.gif",), ("it c",), ("it d.gif",)]
    for example in examples:
        np.testing.assert_array_equal(example.content, frames)
    trained = task.fit(examples)
    (whole,) = trained.read_inputs(tmp_path / "c")  # of a model of videos, a folder of images is one
    np.testing.assert_array_equal(whole.content, frames)
    with pytest.raises(DataError, match="expected a video as in the other examples, found an image"):
        trained.collate(list(trained.read_inputs(tmp_path / "c" / "frame_9.png")))


def test_the_kind_of_the_first_file_sets_the_defaults(tmp_path: Path) -> None:
    for name, layers, size in (("caption, video", 1, 32), ("caption, sound", 1, None), ("caption", None, None)):
        folder = tmp_path / name
        folder.mkdir()
        case = tiny.CASES[name]
        case.write_files(folder)
        (folder / "t.tsv").write_text(case.train)
        task = Caption(train=str(folder / "t.tsv"))
        values = Caption.defaults(Document.empty(), task.preview(folder / "t.tsv"))
        assert (values.get("task.encoder.layers"), values.get("task.image_size")) == (layers, size)


def test_the_memory_of_a_video_has_a_vector_for_each_frame(tmp_path: Path) -> None:
    task, examples = fitted("caption, video", tmp_path)
    model = task.build_model().eval()
    with torch.no_grad():
        memory = model.encoder(*task.collate(examples[:3]).inputs)
    assert memory.mask.sum(dim=1).tolist() == [len(example.content) for example in examples[:3]]


def test_scores_count_what_the_examples_are(tmp_path: Path) -> None:
    for name, counted in (("caption, video", "videos"), ("caption, sound", "recordings"), ("caption", "images")):
        folder = tmp_path / counted
        folder.mkdir()
        task, examples = fitted(name, folder)
        with torch.no_grad():
            answers = task.predict(task.build_model().eval(), task.collate(examples[:2])).answers
        assert task.score(answers, examples[:2])[counted] == 2


def test_explanations_show_the_frames_and_the_seconds(tmp_path: Path) -> None:
    task, examples = fitted("caption, video", tmp_path)
    model = task.build_model().eval()
    with torch.no_grad():
        explanation = task.explain(model, examples[1])
    assert explanation.attention is not None
    assert explanation.attention.columns == ["1", "2", "3"]
    np.testing.assert_array_equal(explanation.image, examples[1].content)
    assert explanation.to_html().count("data:image/png") == 3
    names = [path.name for path in draw_explanation(explanation, tmp_path, suffix=".svg")]
    assert names == ["frame_attention.svg"]
    (tmp_path / "sound").mkdir()
    task, examples = fitted("caption, sound", tmp_path / "sound")
    with torch.no_grad():
        explanation = task.explain(task.build_model().eval(), examples[0])
    assert explanation.attention is not None
    assert explanation.attention.columns[:3] == ["0.00", "0.02", "0.04"]  # two frames of 10 ms become one
