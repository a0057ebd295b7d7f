"""What a run is, and what it reached."""

from pathlib import Path

from tests.contracts.tiny import CASES, build

from seqloom import workflow
from seqloom.compare.outcome import describe, outcome
from seqloom.run import Run


def test_a_run_tells_what_its_best_model_reached(tmp_path: Path) -> None:
    path = workflow.train(build(CASES["language_model"], tmp_path, updates=2), output=tmp_path / "run").path
    found = describe(path)
    assert found["task"] == "language_model"
    assert found["perplexity"] == outcome(Run.open(path))["perplexity"]
    assert found["best at update"] <= 2
    assert found["parameters"] > 0
