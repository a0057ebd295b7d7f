"""One training, measured."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from seqloom.compare.outcome import describe, outcome
from seqloom.compare.trial import Pace, beside, measure, peak, write
from seqloom.compare.variants import Budget, variants
from seqloom.evaluation import predict_all
from seqloom.metrics.confidence import bootstrap
from seqloom.model import load
from seqloom.run import Run


def test_the_pace_leaves_out_the_first_update_and_evaluations() -> None:
    clock = iter([0.0, 10.0, 12.0, 20.0, 23.0])
    pace: Any = Pace(lambda: next(clock))
    for items, evaluation in ((7, None), (20, None), (0, "something"), (30, None)):
        pace(None, SimpleNamespace(items=items, evaluation=evaluation))
    assert pace.rate == 50 / 5


def test_the_pace_of_a_single_update_is_what_there_is() -> None:
    clock = iter([1.0, 3.0])
    pace: Any = Pace(lambda: next(clock))
    assert pace.rate is None
    pace(None, SimpleNamespace(items=8, evaluation=None))
    assert pace.rate == 4


def test_a_trial_tells_what_its_run_reached_and_what_it_cost(config: Path, tmp_path: Path) -> None:
    ngram, gru = variants(config, ["task.model=ngram", "task.decoder.cell=gru"], budget=Budget(), seeds=1)
    for variant, parameters in ((ngram, 0), (gru, 11 * 8 + 3 * (8 * 16 + 8) + 11)):  # tied vectors, gates, bias
        folder = tmp_path / variant.folder
        found = measure(variant.configs[0], folder)
        assert json.loads(json.dumps(found)) == found
        assert found["metrics"] == outcome(Run.open(folder))
        assert found["parameters"] == describe(folder)["parameters"] == parameters
        assert found["counted"] is (variant is ngram)
        assert found["examples"] == 5
        assert min(found["trained_per_second"], found["predicted_per_second"], found["memory"], found["minutes"]) > 0
        assert (found["rows"], len(found["samples"])) == (5, 1000)
        assert np.quantile(found["samples"], 0.01) < found["metrics"]["perplexity"] < np.max(found["samples"])
        assert measure(variant.configs[0], folder)["metrics"] == found["metrics"]  # finished already
    lines = load(tmp_path / ngram.folder)
    examples = list(lines.task.read(tmp_path / "dev.txt"))
    told = lines.task.metric_sums(lines.predict(tmp_path / "dev.txt"), examples)
    assert told is not None
    assert bootstrap(told).tolist() == measure(ngram.configs[0], tmp_path / ngram.folder)["samples"]


def test_what_a_training_cost_is_known_after_an_interruption(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, _ = variants(config, ["base", "task.model=ngram"], budget=Budget(), seeds=1)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("seqloom.compare.trial._ask", interrupted)
        with pytest.raises(KeyboardInterrupt):
            measure(base.configs[0], tmp_path / "run")
    cost = json.loads((tmp_path / "run" / "cost.json").read_text())
    monkeypatch.setattr("seqloom.compare.trial.peak", lambda: 1.0)
    found = measure(base.configs[0], tmp_path / "run")
    assert {name: found[name] for name in ("trained_per_second", "memory")} == cost
    assert cost["trained_per_second"] > 0


def test_where_lines_are_joined_the_sums_are_still_those_of_lines(config: Path, tmp_path: Path) -> None:
    base, _ = variants(config, ["base", "task.model=ngram"], budget=Budget(), seeds=1)
    measure(base.configs[0], tmp_path / "run")
    model = load(tmp_path / "run")
    whole = model.config._replace(train=model.config.train.model_copy(update={"batch": 1}))
    examples = list(model.task.read(tmp_path / "dev.txt"))
    found = model.task.metric_sums(predict_all(whole, model.module, examples), examples)
    (text,) = predict_all(whole, model.module, examples)  # all of it is one track, and one piece
    assert found is not None
    lengths = [len(example.text.split()) + 1 for example in examples]
    parts = np.split(np.array(text.log_probabilities), np.cumsum(lengths)[:-1])
    np.testing.assert_allclose(found.rows, [[-part.sum(), len(part)] for part in parts])


def test_the_peak_of_memory_is_one() -> None:
    program = """
from seqloom.compare.trial import peak
before = peak()
block = bytearray(300 * 2**20)
del block
print(peak() - before)
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(found.stdout) == pytest.approx(300, abs=30)  # MB; what a process needs besides moves a little
    assert peak() > 50


def test_measurements_stand_beside_the_run(tmp_path: Path) -> None:
    path = beside(tmp_path / "some" / "seed-1")
    write(path, {"failed": "yes"})
    assert path == tmp_path / "some" / "seed-1.json"
    assert json.loads(path.read_text()) == {"failed": "yes"}
    assert [each.name for each in path.parent.iterdir()] == ["seed-1.json"]
