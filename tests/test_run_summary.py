"""What is printed after training and written into the model card."""

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import binomtest
from tests.contracts.tiny import CASES, build
from tests.model.test_model import Mean

from seqloom import workflow
from seqloom.config import Document
from seqloom.info import describe_run, print_run
from seqloom.metrics.confidence import SignificanceTest
from seqloom.model import load
from seqloom.models.baseline import load_baseline
from seqloom.run import Run, RunError
from seqloom.run_config import Config, load_config
from seqloom.run_summary import (
    INTENDED_USE,
    RunSummary,
    _layer_option,
    changed_settings,
    commands,
    ending,
    model_card,
    print_summary,
    remedies,
    summarize,
    verdict,
)
from seqloom.training_data import with_detected


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("classify")
    return workflow.train(build(CASES["classify"], folder, epochs=2), output=folder / "run")


@pytest.fixture(scope="module")
def summary(run: Run) -> RunSummary:
    return summarize(run, load_config(run))


def test_a_run_is_summarized(run: Run, summary: RunSummary) -> None:
    assert (summary.task, summary.metric) == ("classify", "accuracy")
    assert summary.examples == {"train": 18, "dev": 11}
    assert summary.metrics == run.best_metrics()
    assert summary.parameters == sum(parameter.numel() for parameter in load(run.path).module.parameters())
    assert summary.finished == "2 epochs done"
    assert summary.seconds > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", summary.started)


def test_a_warm_up_that_is_longer_than_the_training_is_named(run: Run, summary: RunSummary) -> None:
    assert summary.warmup == 0
    assert "still rising" not in ending(summary)
    config = load_config(run)
    longer = summarize(run, config._replace(train=config.train.model_copy(update={"warmup": 999})))
    assert ending(longer).endswith(
        " The learning rate was still rising: train.warmup = 999 is longer than the training."
    )


def test_a_damaged_row_of_metrics_does_not_hide_the_results(run: Run, summary: RunSummary, tmp_path: Path) -> None:
    """A training that is resumed with such a row ends with its results, not with an error."""
    copied = shutil.copytree(run.path, tmp_path / "run")
    rows = (copied / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (copied / "metrics.jsonl").write_bytes(b"".join([rows[0], b"garbage \xff\n", *rows[2:]]))
    damaged = Run.open(copied)
    with pytest.raises(RunError, match=r"metrics.jsonl:2: not valid JSON"):
        damaged.rows()
    found = summarize(damaged, load_config(damaged))
    assert (found.metrics, found.finished, found.warmup) == (summary.metrics, summary.finished, 0)


def test_commands_name_the_custom_layer_again(run: Run, summary: RunSummary) -> None:
    assert not any("--layer" in command for command in commands(summary).values())
    own = replace(summary, layer="my module:Cell")
    assert all(command.endswith(" --layer 'my module:Cell'") for command in commands(own).values())
    assert commands(own).keys() >= {"predict", "evaluate", "explain", "continue"}
    trained = replace(run, environment={"command": ["train", "c.toml", "--layer", "mine:Cell"]})
    assert _layer_option(trained, "Cell") == "mine:Cell"
    assert _layer_option(replace(run, environment={}), "Cell") == "MODULE:Cell"  # from Python
    assert _layer_option(trained, "") == ""


def test_settings_that_differ_from_their_defaults(summary: RunSummary) -> None:
    assert summary.settings["task.embedding_size"] == 5
    assert summary.settings["task.encoder.hidden_size"] == 6
    assert summary.settings["train.epochs"] == 2
    assert "task.pooling" not in summary.settings
    assert not {"task.name", "task.train", "task.dev"} & summary.settings.keys()


def test_settings_that_follow_from_others_or_from_the_data_are_not_listed(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    file.write_text("".join(f"{'ab'[number % 2]}\tword {number}\n" for number in range(40)))
    config = Config.build(Document.empty(["task.name=classify", f"task.train={file}", "train.epochs=8"]))
    detected, _ = with_detected(config)
    assert detected.task != config.task  # its columns
    assert changed_settings(detected) == {"train.epochs": 8}


def test_commands_name_the_files_again_that_a_run_does_not_open(summary: RunSummary) -> None:
    files = {"constrain": "allowed.txt", "folder": "my sounds", "captions": "captions.txt"}
    shown = commands(replace(summary, files=files))
    assert shown["evaluate"].endswith(" --constrain allowed.txt --folder 'my sounds' --captions captions.txt")
    assert shown["predict"].endswith(" --constrain allowed.txt --folder 'my sounds'")
    assert shown["explain"].endswith(" --folder 'my sounds'")
    assert "--" not in commands(replace(summary, files={}))["evaluate"]


def test_the_verdict_compares_with_the_baseline(summary: RunSummary) -> None:
    def judge(value: float, usual: float, test: SignificanceTest | None = None, *, higher: bool = True) -> str:
        base = replace(summary, metric="m", metrics={"m": value}, higher_is_better=higher, degenerate="")
        return verdict(replace(base, baseline="last value", baseline_scores={"m": usual}, baseline_test=test))

    clear, unclear, few = SignificanceTest(0.001, 300), SignificanceTest(0.21875, 23), SignificanceTest(0.0625, 5)
    better = "etter than the baseline (last value): 0.8 against 0.2"
    assert judge(0.8, 0.2, clear) == f"B{better} (p = 0.001 in a paired test)."
    assert judge(0.8, 0.2, unclear) == f"Not clearly b{better} (p = 0.22 in a paired test)."
    assert judge(0.8, 0.2, few) == f"B{better}, on dev data that are too few for a test of significance."
    assert judge(0.8, 0.2) == f"B{better}."
    assert judge(0.2, 0.2, clear).startswith("No better than the baseline")
    assert judge(0.2, 0.8, clear, higher=False).startswith("Better than")
    assert judge(0.2, 0.25, unclear, higher=False).startswith("Not clearly better")
    assert judge(0.9, 0.8, clear, higher=False).startswith("No better")
    assert judge(math.nan, 0.8, clear) == ""
    assert verdict(replace(summary, baseline="", baseline_scores={}, degenerate="")) == ""


def test_the_difference_from_the_baseline_is_tested_example_by_example(run: Run, summary: RunSummary) -> None:
    model, test = load(run.path), summary.baseline_test
    assert test is not None
    assert test.examples == summary.examples["dev"]
    examples = list(model.task.read(Path(model.task.dev)))
    usual = str(run.summary()["baseline"]["answer"])
    answers = [answer.label for answer in model.predict(model.task.dev)]
    pairs = [
        (answer == example.label, usual == example.label) for answer, example in zip(answers, examples, strict=True)
    ]
    gained, lost = pairs.count((True, False)), pairs.count((False, True))
    expected = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert test.p_value == pytest.approx(expected)
    assert model.evaluate(model.task.dev)["baseline"]["p_value"] == test.p_value


def test_the_verdict_on_a_model_that_has_learned_nothing_says_what_to_try(summary: RunSummary) -> None:
    base = replace(summary, degenerate="", flat_loss=None, baseline="b", metrics={"accuracy": 0.5})
    base = replace(base, baseline_scores={"accuracy": 0.5}, baseline_test=None)
    assert f"seqloom check {base.path}/config.toml --learning-rate" in verdict(base)
    assert "a larger train.minutes, and look" in verdict(replace(base, finished="2 minutes elapsed"))
    constant = replace(base, degenerate="Every prediction is 'up'", remedy="raise train.epochs")
    assert verdict(constant).endswith("0.5 against 0.5. Every prediction is 'up': raise train.epochs.")
    assert "does not fall: 2 at first, 1.999 now. Raise train.learning_rate" in verdict(
        replace(base, flat_loss=(2.0, 1.999))
    )
    unused = verdict(replace(base, network_is_unused=True))
    assert unused.endswith("0.5. More rows, or columns that explain the series, may help more than a longer training.")
    better = replace(base, metrics={"accuracy": 0.9}, flat_loss=(2.0, 1.999))  # as after a warm start
    assert verdict(better) == "Better than the baseline (b): 0.9 against 0.5."
    assert verdict(replace(better, metrics={})).startswith("The training loss does not fall")
    assert verdict(replace(better, metrics={}, flat_loss=None)) == ""


def test_the_verdict_does_not_advise_longer_training_where_it_made_the_model_worse(
    run: Run, summary: RunSummary, tmp_path: Path
) -> None:
    base = replace(summary, degenerate="", flat_loss=None, baseline="b", metrics={"accuracy": 0.5})
    base = replace(base, baseline_scores={"accuracy": 0.5})
    assert "a larger train.epochs" in verdict(base)
    assert "continue" in commands(base)
    overfitted = replace(base, overfit_since=1.0)
    assert "The dev loss has risen since epoch 1, while the training loss fell" in verdict(overfitted)
    assert "train.epochs" not in verdict(overfitted)
    assert "continue" not in commands(overfitted)
    better = replace(overfitted, metrics={"accuracy": 0.9})  # accuracy may rise where the loss does, too
    assert "continue" in commands(better)
    copied = Run.open(shutil.copytree(run.path, tmp_path / "run"))
    config = load_config(copied)

    def found(*accuracies: float) -> float | None:
        curve = zip((0.9, 0.8, 0.7), (0.5, 0.6, 0.7), accuracies, strict=True)
        rows = [
            row
            for epoch, (loss, dev, accuracy) in enumerate(curve, start=1)
            for row in ({"epoch": epoch, "loss": loss}, {"epoch": epoch, "dev": {"loss": dev, "accuracy": accuracy}})
        ]
        (copied.path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        since = remedies(copied, config).overfit_since
        assert summarize(copied, config).overfit_since == since
        return since

    assert found(0.5, 0.6, 0.7) is None  # it still improves, although the loss rises
    assert found(0.7, 0.6, 0.5) == 1
    remedy = config.task.degenerate_remedy(remedies(copied, config))
    assert "train.learning_rate" in remedy
    assert "train.epochs" not in remedy


def test_a_perfect_baseline_is_not_answered_with_advice_to_tune(summary: RunSummary) -> None:
    base = replace(summary, degenerate="", flat_loss=None, baseline="b", metrics={"accuracy": 1.0})
    base = replace(base, baseline_scores={"accuracy": 1.0})
    assert verdict(base) == (
        "As good as the baseline (b): 1 against 1. The baseline is perfect: these data need no model, or are too easy "
        "to tell two apart."
    )
    assert "doctor" not in commands(base)
    worse = verdict(replace(base, metrics={"accuracy": 0.9}))
    assert worse.startswith("No better than the baseline (b): 0.9 against 1. The baseline is perfect")
    errors = replace(base, metric="cer", higher_is_better=False, baseline_scores={"cer": 0.0}, metrics={"cer": 0.0})
    assert verdict(errors).startswith("As good as")


def test_the_end_of_training_fits_80_columns(run: Run, summary: RunSummary, capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(replace(summary, path="runs/a", train="train.txt", dev="dev.txt"), run.details())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Finished: 2 epochs done, ")
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "95 % interval" in text
    assert "baseline" in text
    assert "Labels:" in text
    assert "predict   seqloom predict runs/a dev.txt" in lines
    assert "continue  seqloom train --resume runs/a train.epochs=4" in lines


def test_commands_are_quoted_and_fit_the_state(summary: RunSummary) -> None:
    quoted = commands(replace(summary, path="my runs/a", dev="", train="x.txt", finished=""))
    assert quoted["predict"] == "seqloom predict 'my runs/a' x.txt"
    assert quoted["evaluate"] == "seqloom evaluate 'my runs/a' TEST_FILE"
    assert quoted["continue"] == "seqloom train --resume 'my runs/a'"
    short = commands(replace(summary, path="a", dev="d.csv", dev_is_short=True))
    assert (short["predict"], short["evaluate"]) == ("seqloom predict a FILE", "seqloom evaluate a d.csv")
    assert commands(replace(summary, dev="", train="(in memory)"))["predict"].endswith(" FILE")
    assert commands(replace(summary, task="embed"))["explain"].endswith(" WORD WORD")
    for finished, change in (("10 updates done", "train.updates=20"), ("0.5 minutes elapsed", "train.minutes=1")):
        assert commands(replace(summary, finished=finished))["continue"].endswith(f" {change}")
    assert commands(replace(summary, finished="4000000 updates done"))["continue"].endswith("=8000000")
    assert "continue" not in commands(replace(summary, resumable=False))
    assert "continue" not in commands(replace(summary, finished="no improvement in 3 evaluations"))


def test_a_card_keeps_the_intended_use_that_a_person_wrote(summary: RunSummary) -> None:
    card = model_card(summary)
    edited = card.replace(INTENDED_USE, "For questions in English.\n\nNot for medicine.")
    assert edited != card
    assert model_card(summary, previous=edited) == edited
    assert model_card(summary, previous="another text") == card


def test_every_run_has_a_model_card(run: Run, summary: RunSummary) -> None:
    card = (run.path / "README.md").read_text()
    assert card == model_card(summary)
    for part in ("## Data", "## Intended use", "## Results", "## Settings", "## Usage", "## Versions", "| accuracy |"):
        assert part in card
    assert ending(summary).split(",")[0] in card
    assert "most frequent label" in card


def test_an_interrupted_run_has_a_model_card(tmp_path: Path) -> None:
    from tests.test_workflow import at, send

    from seqloom.interrupt import Interrupted

    with pytest.raises(Interrupted):
        workflow.train(
            build(CASES["classify"], tmp_path, updates=9), output=tmp_path / "run", listeners=[at(2, lambda: send(2))]
        )
    assert "Not finished" in (tmp_path / "run" / "README.md").read_text()


def test_a_run_with_a_custom_layer_is_described_without_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = workflow.train(build(CASES["classify"], tmp_path, updates=2), output=tmp_path / "run", layer=Mean)
    description = describe_run(made.path)
    assert description["accuracy"] == made.best_metrics()["accuracy"]
    assert "trained with the custom layer Mean" in description["note"]
    assert description["recurrent layers"] == "unknown"
    assert description["parameters"] == describe_run(made.path, layer=Mean)["parameters"]
    print_run(made.path)
    out = capsys.readouterr().out
    assert "accuracy" in out
    assert "task.encoder.custom_layer" in out
    assert "\nnote: this model was trained with the custom layer Mean" in out


def test_an_evaluation_has_the_scores_of_the_baseline(run: Run) -> None:
    model = load(run.path)
    scores = model.evaluate(model.task.dev)
    assert 0 < scores["baseline"].pop("p_value") <= 1
    assert scores["baseline"] == {"name": model.baseline.name, **run.summary()["baseline_scores"]}  # type: ignore[union-attr]


def test_a_run_without_a_summary_is_described(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "old")
    for name in ("summary.json", "README.md"):
        (tmp_path / "old" / name).unlink()
    old = Run.open(tmp_path / "old")
    assert load_baseline(old) is None
    summary = summarize(old, load_config(old))
    assert (summary.finished, summary.baseline, summary.examples) == ("2 epochs done", "", {})
    (tmp_path / "old" / "summary.json").write_text(json.dumps({"baseline": {"answer": 1}}))
    with pytest.raises(RunError, match=r"summary\.json: not a valid baseline"):
        load_baseline(old)


def test_scores_on_data_of_the_training_set_come_with_a_warning(tmp_path: Path, summary: RunSummary) -> None:
    assert summary.dev_in_train == 0
    file = tmp_path / "train.tsv"
    file.write_text("".join(f"{'ab'[number % 2]}\tword {'xy'[number % 2]}\n" for number in range(20)))
    changes = ["task.name=classify", f"task.train={file}", f"task.dev={file}", "train.epochs=1"]
    small = ["task.encoder.hidden_size=4", "task.embedding_size=4", "task.check_labels=false"]
    config = Config.build(Document.empty([*changes, *small]))
    repeated = workflow.train(config, output=tmp_path / "run", plots=False)
    warning = "WARNING: all 20 development examples also occur in the training data, so the scores say nothing"
    assert verdict(summarize(repeated, load_config(repeated))).startswith(warning)
    assert warning in repeated.card()
    assert any(line.startswith("warning: dev: all of its content also occurs in train") for line in repeated.warnings)
