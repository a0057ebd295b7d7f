"""One trial of a comparison."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from seqloom.comparison.trial import ThroughputMeter, peak_memory, results_path, run_trial, write_json
from seqloom.comparison.variants import Budget, parse_variants
from seqloom.evaluation import predict_all
from seqloom.info import describe_run
from seqloom.metrics.confidence import bootstrap
from seqloom.model import load
from seqloom.run import Run


def test_throughput_excludes_the_first_update_and_evaluations() -> None:
    clock = iter([0.0, 10.0, 12.0, 20.0, 23.0])
    meter: Any = ThroughputMeter(lambda: next(clock))
    for items, evaluation in ((7, None), (20, None), (0, "something"), (30, None)):
        meter(None, SimpleNamespace(items=items, evaluation=evaluation))
    assert meter.items_per_second == 50 / 5


def test_throughput_of_a_single_update_includes_it() -> None:
    clock = iter([1.0, 3.0])
    meter: Any = ThroughputMeter(lambda: next(clock))
    assert meter.items_per_second is None
    meter(None, SimpleNamespace(items=8, evaluation=None))
    assert meter.items_per_second == 4


def test_a_trial_returns_scores_speed_and_memory(config: Path, tmp_path: Path) -> None:
    ngram, gru = parse_variants(config, ["task.model=ngram", "task.decoder.cell=gru"], budget=Budget(), seeds=1)
    for variant, parameters in ((ngram, 0), (gru, 11 * 8 + 3 * (8 * 16 + 8) + 11)):  # tied vectors, gates, bias
        folder = tmp_path / variant.folder
        results = run_trial(variant.configs[0], folder)
        assert json.loads(json.dumps(results)) == results
        assert results["metrics"] == Run.open(folder).best_metrics()
        assert results["parameters"] == describe_run(folder)["parameters"] == parameters
        assert results["is_counting_model"] is (variant is ngram)
        assert results["dev_examples"] == 5
        assert (
            min(
                results["train_items_per_second"],
                results["predict_items_per_second"],
                results["memory_mb"],
                results["minutes"],
            )
            > 0
        )
        assert (results["bootstrap_rows"], len(results["bootstrap_samples"])) == (5, 1000)
        assert (
            np.quantile(results["bootstrap_samples"], 0.01)
            < results["metrics"]["perplexity"]
            < np.max(results["bootstrap_samples"])
        )
        assert run_trial(variant.configs[0], folder)["metrics"] == results["metrics"]  # finished already
    lines = load(tmp_path / ngram.folder)
    examples = list(lines.task.read(tmp_path / "dev.txt"))
    sums = lines.task.metric_sums(lines.predict(tmp_path / "dev.txt"), examples)
    assert sums is not None
    assert bootstrap(sums).tolist() == run_trial(ngram.configs[0], tmp_path / ngram.folder)["bootstrap_samples"]


def test_the_cost_of_training_survives_an_interruption(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, _ = parse_variants(config, ["base", "task.model=ngram"], budget=Budget(), seeds=1)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("seqloom.comparison.trial._predict_dev", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_trial(base.configs[0], tmp_path / "run")
    cost = json.loads((tmp_path / "run" / "cost.json").read_text())
    monkeypatch.setattr("seqloom.comparison.trial.peak_memory", lambda: 1.0)
    results = run_trial(base.configs[0], tmp_path / "run")
    assert {name: results[name] for name in ("train_items_per_second", "memory_mb")} == cost
    assert cost["train_items_per_second"] > 0


def test_metric_sums_of_joined_lines_are_per_line(config: Path, tmp_path: Path) -> None:
    base, _ = parse_variants(config, ["base", "task.model=ngram"], budget=Budget(), seeds=1)
    run_trial(base.configs[0], tmp_path / "run")
    model = load(tmp_path / "run")
    whole = model.config._replace(train=model.config.train.model_copy(update={"batch_size": 1}))
    examples = list(model.task.read(tmp_path / "dev.txt"))
    result = model.task.metric_sums(predict_all(whole, model.module, examples), examples)
    (text,) = predict_all(whole, model.module, examples)  # all of it is one track, and one piece
    assert result is not None
    lengths = [len(example.text.split()) + 1 for example in examples]
    parts = np.split(np.array(text.log_probabilities), np.cumsum(lengths)[:-1])
    np.testing.assert_allclose(result.rows, [[-part.sum(), len(part)] for part in parts])


def test_peak_memory() -> None:
    program = """
from seqloom.comparison.trial import peak_memory
before = peak_memory()
block = bytearray(300 * 2**20)
del block
print(peak_memory() - before)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(result.stdout) == pytest.approx(300, abs=30)  # MB; other memory of the process varies a little
    assert peak_memory() > 50


def test_results_are_written_beside_the_run(tmp_path: Path) -> None:
    path = results_path(tmp_path / "some" / "seed-1")
    write_json(path, {"error": "yes"})
    assert path == tmp_path / "some" / "seed-1.json"
    assert json.loads(path.read_text()) == {"error": "yes"}
    assert [file.name for file in path.parent.iterdir()] == ["seed-1.json"]
