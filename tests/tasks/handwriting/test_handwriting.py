"""The task handwriting: reading, likelihoods in the units of the data, the baseline, drawing."""

import json
import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from tests.contracts.tiny import CASES, build
from typer.testing import CliRunner

import seqloom
from seqloom import demos, workflow
from seqloom.cli.main import app
from seqloom.data.builtin.datasets import Files
from seqloom.data.readers.text_files import DataError
from seqloom.demos.demo import DemoRun
from seqloom.models.encoder import DecoderConfig
from seqloom.run import Run
from seqloom.run_config import load_config
from seqloom.run_summary import commands, summarize
from seqloom.tasks.handwriting import Handwriting

POINTS = np.array([[1, 2, 0], [1, -1, 0], [0.5, 0.25, 1], [3, 1, 1]], dtype=np.float32)


def fitted(*, scale: float = 1.0) -> Handwriting:
    task = Handwriting(train="x", condition="none", components=2, decoder=DecoderConfig(hidden_size=4))
    factor = np.array([scale, scale, 1], dtype=np.float32)
    return task.fit(task.read([(POINTS * factor, "ab"), (POINTS[::-1] * factor, "b")]))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    workflow.train(build(CASES["handwriting"], folder, updates=3), output=folder / "run")
    return folder / "run"


def test_movements_are_divided_by_their_root_mean_square() -> None:
    task = fitted()
    assert task.fitted.scale == pytest.approx(math.sqrt((POINTS[:, :2] ** 2).mean()))
    batch = task.collate(list(task.read([POINTS])))
    assert torch.allclose(batch.inputs.points.values[0, 1:, :2] * task.fitted.scale, torch.from_numpy(POINTS[:, :2]))
    assert batch.target.pen.tolist() == [[0, 0, 1, 1, 2]]
    assert batch.items == 5


def test_likelihoods_are_in_the_units_of_the_data() -> None:
    """Data of ten times the size have a density that is a hundred times smaller, at each movement."""
    scores = []
    for scale in (1.0, 10.0):
        task = fitted(scale=scale)
        torch.manual_seed(1)
        model = task.build_model().eval()
        values = POINTS * np.array([scale, scale, 1], dtype=np.float32)
        with torch.no_grad():
            (answer,) = task.predict(model, task.collate(list(task.read([values])))).answers
        scores.append(answer.log_likelihoods)
    differences = np.subtract(*scores)
    assert differences == pytest.approx([math.log(100)] * 4 + [0], abs=1e-5)


def test_the_loss_of_training_compares_with_the_dev_score() -> None:
    task, factor = fitted(scale=10.0), np.array([10, 10, 1], dtype=np.float32)
    model = task.build_model().eval()
    examples = list(task.read([(POINTS * factor, "ab"), (POINTS[:2] * factor, "b")]))
    batch = task.collate(examples)
    with torch.no_grad():
        loss = task.loss(model, batch)
        scores = task.score(task.predict(model, batch).answers, examples)
    assert float(loss.total) / loss.items == pytest.approx(scores["nll"], rel=1e-5)  # float32


def test_the_baseline_is_one_gaussian() -> None:
    task = fitted()
    examples = list(task.read([POINTS, POINTS[::-1]]))
    moves = np.concatenate([POINTS, POINTS[::-1]])[:, :2]
    normal = multivariate_normal(moves.mean(axis=0), np.cov(moves.T, bias=True))
    pens = 4 * math.log(0.4) + 4 * math.log(0.4) + 2 * math.log(0.2)  # of ten steps, four draw, four lift, two end
    expected = -(normal.logpdf(moves).sum() + pens) / 10
    baseline = task.fit_baseline(Counter(), examples)
    assert baseline is not None
    assert task.score_baseline(baseline, examples)["nll"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("strokes", "message"),
    [
        ([[1.0, 2.0]], r"t\.jsonl:1: expected rows of dx, dy and 1 where the pen is lifted, found 1 × 2 numbers"),
        ([[1.0, 2.0, 0.5]], r"t\.jsonl:1: point 1: expected 0 or 1 as the third number .* found 0\.5"),
    ],
)
def test_other_numbers_are_refused(strokes: list[list[float]], message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"strokes": strokes}))
    with pytest.raises(DataError, match=message):
        list(Handwriting(train=str(path)).read(path))


@pytest.mark.parametrize(("texts", "condition"), [(["a", "b"], "text"), (["a", None], "none"), ([None, None], "none")])
def test_texts_decide_whether_the_model_writes(texts: list[str | None], condition: str) -> None:
    data = [POINTS if text is None else (POINTS, text) for text in texts]
    task, notes = Handwriting(train="x").resolve(data)
    assert task.condition == condition
    assert len(notes) == 1


def test_a_drawing_without_a_text_is_refused_by_a_model_that_writes() -> None:
    task = Handwriting(train="x", condition="text")
    with pytest.raises(DataError, match="no text; training needs a text for each drawing"):
        task.fit(task.read([POINTS]))


def test_a_text_is_written_and_an_unknown_character_is_named(run: Path, tmp_path: Path) -> None:
    model = seqloom.load(run)
    drawings = model.draw("ab", count=2, seed=3, length=8)
    again = model.draw("ab", count=2, seed=3, length=8)
    assert [np.array_equal(one.strokes, two.strokes) for one, two in zip(drawings, again, strict=True)] == [True, True]
    with pytest.raises(ValueError, match=r"the training data have no 'x'; the model can write: ab"):
        model.draw("ax")
    with pytest.raises(ValueError, match="this model writes texts: say which"):
        model.draw()
    primed = model.draw("b", prime=[(POINTS, "a")], length=5)
    assert len(primed) == 1
    with pytest.raises(ValueError, match="a drawing to continue needs its text"):
        model.draw("b", prime=[POINTS])


def test_the_command_writes_a_picture(run: Path, tmp_path: Path) -> None:
    for name, start in (("one.svg", b"<svg"), ("sheet.png", b"\x89PNG")):
        options = ["--count", "2"] if name == "sheet.png" else []
        command = ["generate", str(run), "ab", "--output", str(tmp_path / name), "--bias", "1", *options]
        result = CliRunner().invoke(app, command)
        assert (result.exit_code, result.stdout) == (0, f"{tmp_path / name}\n"), result.output
        assert (tmp_path / name).read_bytes().startswith(start)
    refused = CliRunner().invoke(app, ["generate", str(run), "ab", "--temperature", "0.5"])
    assert refused.exit_code == 1
    assert "--temperature does not apply" in refused.stderr


def test_without_matplotlib_pictures_are_svg(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for name, count in (("one.png", 1), ("two.pdf", 2), ("two.svg", 2)):
        command = ["generate", str(run), "ab", "--output", str(tmp_path / name), "--count", str(count)]
        result = CliRunner().invoke(app, command)
        picture = (tmp_path / name).with_suffix(".svg")
        assert (result.exit_code, result.stdout) == (0, f"{picture}\n"), result.output
        assert ("pip install 'seqloom[plots]'" in result.stderr) == (name != "two.svg")
        assert picture.read_text().count("<path") == count
    demo = demos.find("handwriting")
    finished = DemoRun(seqloom.load(run), Files(run, run, run), {}, tmp_path, ["ab", "b"])
    assert [answer["text"] for answer in demo.answers(finished)] == ["ab", "b"]
    assert (tmp_path / "written.svg").is_file()


def test_the_command_continues_in_the_style_of_a_file(run: Path, tmp_path: Path) -> None:
    path, output = tmp_path / "given.jsonl", tmp_path / "primed.svg"
    path.write_text(json.dumps({"strokes": POINTS.tolist(), "text": "a"}) + "\n")
    command = ["generate", str(run), "b", "--prime", str(path), "--length", "5", "--seed", "3", "--output", str(output)]
    result = CliRunner().invoke(app, command)
    assert (result.exit_code, result.stdout) == (0, f"{output}\n"), result.output
    model = seqloom.load(run)
    (primed,) = model.draw("b", prime=[(POINTS, "a")], length=5, seed=3)
    (unprimed,) = model.draw("b", length=5, seed=3)
    assert output.read_text() == primed.to_svg() != unprimed.to_svg()


def test_the_window_is_explained(run: Path) -> None:
    model = seqloom.load(run)
    explanation = model.explain((POINTS, "ab"))
    assert explanation.attention is not None
    assert explanation.attention.columns == ["a", "b", "end"]
    assert [sum(row) for row in explanation.attention.weights] == pytest.approx([1] * len(explanation.attention.rows))


def test_the_next_command_generates(run: Path) -> None:
    assert (
        commands(summarize(Run.open(run), load_config(Run.open(run))))["generate"]
        == f"seqloom generate {run} 'your text'"
    )
