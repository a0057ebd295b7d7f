"""Every input that docs/data.md lists for a task: read, fitted, and answered by a model of this task."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts import tiny

from seqloom.config import Document
from seqloom.data.readers.recordings import write_npz
from seqloom.run_config import Config
from seqloom.training_data import with_detected

PAGE = Path(__file__).parents[2] / "docs" / "data.md"
COUNT = 12
TEXTS = ["up up and down" if number % 2 else "left then right" for number in range(COUNT)]
LABELS = ["up" if number % 2 else "left" for number in range(COUNT)]
RANDOM = np.random.default_rng(0)
FRAMES = [RANDOM.normal(size=(10, 3)) for _ in range(COUNT)]
SMALL: dict[str, dict[str, Any]] = {
    "classify": {"encoder.hidden_size": 4},
    "tag": {"encoder.hidden_size": 4},
    "translate": {"encoder.hidden_size": 4, "decoder.hidden_size": 4, "embedding_size": 4},
    "caption": {"decoder.hidden_size": 4, "embedding_size": 4},
    "transcribe": {"encoder.hidden_size": 4, "decoder.hidden_size": 4, "embedding_size": 4, "model": '"attention"'},
}


def _write_text(folder: Path, task: str) -> Path:
    path = folder / "texts.tsv"
    if task == "tag":
        path = folder / "words.conll"
        path.write_text("\n".join("".join(f"{word}\t{word[0]}\n" for word in text.split()) for text in TEXTS))
    elif task == "classify":
        path.write_text("".join(f"{label}\t{text}\n" for label, text in zip(LABELS, TEXTS, strict=True)))
    else:
        path.write_text("".join(f"{text}\t{text[::-1]}\n" for text in TEXTS))
    return path


def _write_vectors(folder: Path, task: str) -> Path:
    path = folder / "vectors.npz"
    if task in ("caption", "transcribe"):
        write_npz(path, FRAMES, TEXTS)
    else:
        labels = LABELS if task == "classify" else [label for label in LABELS for _ in range(10)]
        np.savez(path, values=np.concatenate(FRAMES), lengths=np.full(COUNT, 10), labels=np.array(labels))
    return path


def _write_json_lines(folder: Path, task: str) -> Path:
    path = folder / "vectors.jsonl"
    forms: dict[str, tuple[str, list[Any]]] = {
        "classify": ("label", LABELS),
        "tag": ("labels", [[label] * 10 for label in LABELS]),
        "caption": ("caption", TEXTS),
        "transcribe": ("text", TEXTS),
    }
    key, answers = forms[task]
    rows = zip(FRAMES, answers, strict=True)
    path.write_text("".join(json.dumps({"values": frames.tolist(), key: answer}) + "\n" for frames, answer in rows))
    return path


def _write_table(folder: Path, task: str) -> Path:
    path = folder / "table.csv"
    column, answers = ("label", LABELS) if task in ("classify", "tag") else ("text", TEXTS)
    rows = [
        f"{number},{step},{','.join(map(str, FRAMES[number][step]))},{answers[number]}\n"
        for number in range(COUNT)
        for step in range(10)
    ]
    path.write_text(f"id,time,x,y,z,{column}\n" + "".join(rows))
    return path


def _write_ts(folder: Path, _: str) -> Path:
    path = folder / "series.ts"
    lines = [":".join(",".join(map(str, channel)) for channel in frames.T) for frames in FRAMES]
    rows = zip(lines, LABELS, strict=True)
    path.write_text("@classLabel true up left\n@data\n" + "".join(f"{line}:{label}\n" for line, label in rows))
    return path


def _listed(write: Callable[[Path], None], suffix: str) -> Callable[[Path, str], Path]:
    def write_list(folder: Path, task: str) -> Path:
        write(folder)
        path, answers = folder / "list.tsv", LABELS if task == "classify" else TEXTS
        if task == "tag" and suffix == "wav":  # segments
            answers = [f"{number}.lab" for number in range(COUNT)]
            for name, label in zip(answers, LABELS, strict=True):
                (folder / name).write_text(f"0\t0.1\t{label}\n")
        elif task == "tag":  # a label for each frame
            answers = [" ".join([label] * (2 + number % 3)) for number, label in enumerate(LABELS)]
        path.write_text("".join(f"{number}.{suffix}\t{answer}\n" for number, answer in enumerate(answers)))
        return path

    return write_list


WRITERS: dict[str, list[Callable[[Path, str], Path]]] = {
    "text": [_write_text],
    "vectors": [_write_vectors, _write_json_lines, _write_table, _write_ts],
    "sound": [_listed(tiny._write_sounds, "wav")],
    "image": [_listed(tiny._write_images, "png")],
    "video": [_listed(tiny._write_videos, "npy")],
}


def _routes() -> list[tuple[str, str]]:
    """The cells of the table of inputs and tasks that are not empty."""
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in PAGE.read_text().splitlines() if line.startswith("|")]
    header = next(index for index, row in enumerate(rows) if row[:2] == ["input", "classify"])
    table = rows[header + 2 : header + 2 + len(WRITERS)]
    return [(row[0], task) for row in table for task, cell in zip(rows[header][1:], row[1:], strict=False) if cell]


def test_the_table_is_read() -> None:
    routes = _routes()
    assert {kind for kind, _ in routes} == WRITERS.keys()
    assert ("text", "translate") in routes
    assert ("image", "tag") not in routes
    assert len(routes) == 18


@pytest.mark.parametrize(("kind", "task"), _routes())
def test_every_task_reads_its_inputs(kind: str, task: str, tmp_path: Path) -> None:
    for write in WRITERS[kind]:
        if (write, task) == (_write_ts, "tag"):
            continue  # a .ts file has one label per sequence
        path = write(tmp_path, task)
        small = [f"task.{key}={value}" for key, value in SMALL[task].items()]
        document = Document.empty([f'task.name="{task}"', f'task.train="{path}"', *small])
        config, _ = with_detected(Config.build(document))
        fitted: Any = config.task.fit(config.task.read(path))
        examples = list(fitted.read(path))
        assert len(examples) == COUNT
        torch.manual_seed(0)
        model = fitted.build_model().eval()
        batch = fitted.collate(examples[:3])
        if write is _write_table:  # whose columns may have another order later
            header, *rows = (line.split(",") for line in path.read_text().splitlines())
            order = [0, 1, 4, 2, 3, 5]
            path.write_text("".join(",".join(row[index] for index in order) + "\n" for row in (header, *rows)))
            torch.testing.assert_close(fitted.collate(list(fitted.read(path))[:3]).inputs, batch.inputs)
        with torch.no_grad():
            assert 0 < float(fitted.loss(model, batch).total) < 1e4
            assert len(fitted.predict(model, batch).answers) == 3
