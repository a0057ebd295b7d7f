"""The searches of the ES module over frames, with a lexicon and a language model, run by Node: those of Seqloom."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.test_seqloom_runtime_guide import BLANKS, frames, guide, settings

from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.onnx.guide import export_guide
from seqloom.onnx.page import STATIC

NODE = shutil.which("node")
CASES = 150
SCRIPT = """
import { readFileSync } from "node:fs";
import { Guide, prefixBeam } from "./seqloom_runtime.mjs";
const answers = JSON.parse(readFileSync("cases.json", "utf8")).map(({ table, settings, guide, vocabulary }) => {
  const rows = table.map((row) => Float64Array.from(row, (value) => value ?? -Infinity));
  return prefixBeam(rows, settings, guide && new Guide(guide, vocabulary));
});
console.log(JSON.stringify(answers));
"""


@pytest.mark.skipif(NODE is None, reason="needs node")
@pytest.mark.parametrize("words", [True, False])
def test_many_random_searches_over_frames(words: bool, tmp_path: Path) -> None:
    cases, expected, vocabulary = [], [], BLANKS + 1
    for seed in range(CASES):
        draw = np.random.default_rng([seed, words, 5])
        chosen, options = guide(draw, words=words, vocabulary=vocabulary), settings(draw, words=words)
        table = frames(draw, int(draw.integers(0, 25)), vocabulary)
        rows = [[None if value == -np.inf else value for value in row] for row in table[0].tolist()]
        description, _ = export_guide(chosen)
        cases.append({"table": rows, "settings": options, "guide": description, "vocabulary": vocabulary})
        expected.append(PrefixBeam(**options)(table, torch.tensor([table.shape[1]]), guide=chosen)[0])
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    (tmp_path / "test.mjs").write_text(SCRIPT)
    (tmp_path / "seqloom_runtime.mjs").write_bytes((STATIC / "seqloom_runtime.js").read_bytes())
    assert NODE is not None
    run = subprocess.run([NODE, "test.mjs"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    answers: list[list[dict[str, Any]]] = json.loads(run.stdout)
    for seed, (found, truth) in enumerate(zip(answers, expected, strict=True)):
        scores = [(each["score"], each["acoustic"], each["language"]) for each in found]
        want = [(each.score, each.acoustic, each.language) for each in truth]
        np.testing.assert_allclose(scores, want, rtol=1e-7, atol=1e-7, err_msg=f"{seed}")
        for left, right in zip(found, truth, strict=True):
            assert left["tokens"] == right.tokens, seed
            assert left["frames"] == [list(span) for span in right.frames], seed
            if words:
                assert left["words"] == right.words, seed
                assert left["spans"] == [list(span) for span in right.spans], seed
