"""Every task has a trivial baseline that counts its training targets; its scores are those of such predictions."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contracts.tiny import CASES, build

from seqloom import workflow
from seqloom.models.baseline import MAX_CHARACTERS, Baseline, TargetCounter, most_frequent, quote
from seqloom.run_config import Config
from seqloom.tasks.forecast import Forecast
from seqloom.tasks.translate import Translate
from seqloom.training_data import data_readers


def fitted(name: str, folder: Path) -> tuple[Any, Baseline | None, list[Any]]:
    """A fitted task, its baseline, and its development examples."""
    config: Config = build(CASES[name], folder)
    readers = data_readers(config)
    counter = TargetCounter(config.task.baseline_targets)
    task = config.task.fit(counter.watch(readers.train()))
    dev = list(readers.dev())
    assert counter.examples == len(list(readers.train()))
    return task, task.fit_baseline(counter.counts, dev), dev


@pytest.mark.parametrize("name", [*CASES])
def test_every_task_has_a_baseline(name: str, tmp_path: Path) -> None:
    task, baseline, dev = fitted(name, tmp_path)
    if task.name == "embed":
        assert baseline is None
        return
    assert baseline is not None
    assert 0 < len(baseline.name) < 80
    scores = task.score_baseline(baseline, dev)
    assert next(iter(scores)) == task.main_metric
    assert all(math.isfinite(value) for value in scores.values())
    assert json.loads(json.dumps(scores)) == scores
    assert Baseline.model_validate_json(baseline.model_dump_json()) == baseline


def test_labels(tmp_path: Path) -> None:
    task, baseline, dev = fitted("classify", tmp_path)
    train = Counter(example.label for example in task.read(Path(task.train)))
    label, times = min(train.items(), key=lambda item: (-item[1], item[0]))
    assert baseline is not None
    assert baseline.answer == label
    scores = task.score_baseline(baseline, dev)
    assert scores["accuracy"] == sum(example.label == label for example in dev) / len(dev)
    shares = {name: count / train.total() for name, count in train.items()}
    assert scores["loss"] == pytest.approx(-np.mean([math.log(shares[example.label]) for example in dev]))
    assert baseline.probabilities[label] == times / train.total()


def test_labels_of_words(tmp_path: Path) -> None:
    task, baseline, dev = fitted("tag", tmp_path)
    assert baseline is not None
    expected = {"Paris": "B-LOC", "New": "B-LOC", "York": "I-LOC", "Anna": "B-PER", "the": "O", "sees": "O"}
    assert {word: baseline.answers.get(word, baseline.answer) for word in expected} == expected
    assert baseline.answer not in baseline.answers.values()
    assert task.score_baseline(baseline, dev) == {"span_f1": 1.0, "accuracy": 1.0}  # no word is ambiguous


def test_last_value(tmp_path: Path) -> None:
    task, best, dev = fitted("forecast", tmp_path)
    assert best is not None
    baseline = Baseline(name="last value", lag=1)  # as runs of earlier versions have it
    assert task.score_baseline(best, dev)["mse_scaled"] <= task.score_baseline(baseline, dev)["mse_scaled"]
    errors = [window.history[-1:] - window.future(task.horizon)[0] for window in dev]
    targets = task._targets(task.fitted.columns)
    expected = np.mean(np.square(errors)[..., targets] / np.square(task.fitted.deviations)[targets])
    assert task.score_baseline(baseline, dev)["mse_scaled"] == pytest.approx(expected)


def test_a_season_is_used_if_it_is_better(tmp_path: Path) -> None:
    values = [0.0, 5.0, -3.0, 8.0] * 20
    (tmp_path / "series.csv").write_text("x\n" + "".join(f"{value}\n" for value in values))
    task = Forecast(train=str(tmp_path / "series.csv"), history=8, horizon=2, season=4)
    examples = list(task.read(tmp_path / "series.csv"))
    task = task.fit(examples)
    baseline = task.fit_baseline(Counter(), examples)
    assert baseline is not None
    assert baseline.name == "value one season (4 steps) before"
    assert task.score_baseline(baseline, examples)["mse"] == 0


def test_unigram_perplexity(tmp_path: Path) -> None:
    task, baseline, dev = fitted("language_model", tmp_path)
    assert baseline is not None
    vocabulary = task.tokenizer.vocabulary
    counts = Counter(
        token for line in task.read(Path(task.train)) for token in (*task.tokenizer.tokens(line.text), "</s>")
    )
    total = counts.total() + len(vocabulary)
    tokens = [token for line in dev for token in (*task.tokenizer.tokens(line.text), "</s>")]
    known = [token if token in vocabulary else "<unk>" for token in tokens]
    expected = math.exp(-np.mean([math.log((counts[token] + 1) / total) for token in known]))
    assert task.score_baseline(baseline, dev)["perplexity"] == pytest.approx(expected)


def test_the_better_of_copying_and_the_most_frequent_target(tmp_path: Path) -> None:
    for name, targets in (
        ("copy of the source", ["a b", "c d", "x y"]),
        ("most frequent target, 'same'", ["same"] * 3),
    ):
        pairs = list(zip(["a b", "c d", "x y"], targets, strict=True))
        task = Translate(train="t.tsv", metric="exact_match")
        examples = list(task.read(pairs))
        task = task.fit(examples)
        baseline = task.fit_baseline(Counter(targets), examples)
        assert baseline is not None
        assert baseline.name == name
        assert task.score_baseline(baseline, examples) == {"exact_match": 1.0}


def test_counting_is_limited_by_the_text_of_new_targets() -> None:
    long = "x" * MAX_CHARACTERS
    counter = TargetCounter(lambda example: [example])
    assert list(counter.watch([long, long, "new", long])) == [long, long, "new", long]
    assert (counter.counts, counter.examples) == (Counter({long: 3}), 4)


def test_the_most_frequent_and_quotations() -> None:
    assert most_frequent(Counter({"b": 2, "a": 2, "c": 1})) == "a"
    assert quote("it's") == '"it\'s"'
    assert quote("x" * 100, 5) == "'xxxx…'"


def test_a_run_keeps_its_baseline(tmp_path: Path) -> None:
    run = workflow.train(build(CASES["classify"], tmp_path, updates=1), output=tmp_path / "run")
    summary = run.summary()
    assert summary["examples"] == {"train": 18, "dev": 11}
    assert summary["parameters"] > 0
    assert Baseline.model_validate(summary["baseline"]).name.startswith("most frequent label, '")
    assert 0 < summary["baseline_scores"]["accuracy"] < 1
