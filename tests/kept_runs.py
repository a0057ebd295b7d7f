"""Make the small runs, one of each task, that later versions have to open: ``python -m tests.kept_runs FOLDER``."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.contracts import tiny

from seqloom import checkpoint, model
from seqloom.run import FILES
from seqloom.workflow import train

CASES = (
    *("caption, vectors", "classify", "embed", "forecast", "handwriting, no text", "language_model", "tag, crf"),
    *("music", "transcribe", "translate"),
)
ANSWERS = "answers.json"


def questions(name: str) -> list[Any]:
    """The inputs of a case as JSON values, without their targets."""
    inputs = [question[0] if isinstance(question, tuple) else question for question in tiny.CASES[name].questions]
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in inputs]


def answers(run: Path, inputs: list[Any]) -> list[Any]:
    """The predictions of a run as JSON values."""
    loaded = model.load(run)
    batches = loaded.predict_batches(loaded.read(inputs))
    predictions = [loaded.task.to_json(prediction) for answers in batches for prediction in answers]
    values: list[Any] = json.loads(json.dumps(predictions))
    return values


def make(name: str, target: Path) -> None:
    """Train the run of a case; its configuration names its data without a folder, and no machine."""
    case = tiny.CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        config = tiny.build(case, Path(), epochs=1)
        run = train(config, output="run", plots=False).path
        for path in run.iterdir():
            if path.name not in (*FILES, "best", "summary.json", "metrics.jsonl", checkpoint.MANIFEST):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        facts = json.loads((run / "env.json").read_text())
        kept = {key: value for key, value in facts.items() if key in ("seqloom", "torch", "data")}
        (run / "env.json").write_text(json.dumps(kept, indent=2) + "\n")
        (run / checkpoint.MANIFEST).unlink()
        checkpoint.write_manifest(run, FILES)
        shutil.copytree(run, target)
    inputs = questions(name)
    (target / ANSWERS).write_text(json.dumps({"inputs": inputs, "answers": answers(target, inputs)}, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = Path(sys.argv[1]).resolve()
    for each in CASES:
        make(each, root / each.partition(",")[0])
