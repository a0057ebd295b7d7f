"""Transcription of videos: folders of frames, and vectors that belong to one frame each."""

from pathlib import Path
from typing import Any

import torch
from PIL import Image
from tests.contracts import tiny

from seqloom.tasks.transcribe import Transcribe


def test_frames_become_vectors_one_by_one(tmp_path: Path) -> None:
    case = tiny.CASES["transcribe, video"]
    for number in range(18):
        (tmp_path / str(number)).mkdir()
        for step, frame in enumerate(tiny._frames(number)):
            Image.fromarray(frame).save(tmp_path / str(number) / f"{step}.png")
    (tmp_path / "t.tsv").write_text(case.train.replace(".npy", ""))
    task = Transcribe.model_validate({"train": str(tmp_path / "t.tsv"), **case.fields})
    examples = list(task.read(tmp_path / "t.tsv"))
    assert [len(example) for example in examples[:4]] == [2, 3, 4, 2]
    fitted = task.fit(examples)
    model: Any = fitted.build_model().eval().double()
    values, mask = fitted.collate(examples[:3]).inputs
    vectors, _ = model.encoder.embed_inputs(values.double(), mask)
    for step in range(4):
        alone, _ = model.encoder.embed_inputs(values[:, step : step + 1].double(), mask[:, :1])
        torch.testing.assert_close(vectors[:, step], alone[:, 0], atol=1e-10, rtol=0)
    assert not torch.allclose(vectors[1, 0], vectors[1, 1])
