"""Checks before training: counts made by hand, and what training then does."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.contracts.tiny import CASES, build
from typer.testing import CliRunner

from seqloom import workflow
from seqloom.check import Report, check_data, print_report
from seqloom.cli.main import app
from seqloom.config import Document
from seqloom.models.pretrained.pretrained import PretrainedConfig
from seqloom.run_config import Config

SMALL = {
    "tag": {"task.encoder.hidden_size": 8, "task.words.embedding_size": 8, "task.characters.layers": 0},
    "classify": {"task.encoder.hidden_size": 8, "task.embedding_size": 8},
    "language_model": {"task.decoder.hidden_size": 8, "task.embedding_size": 8},
    "forecast": {"task.encoder.hidden_size": 8, "task.history": 4},
    "translate": {"task.encoder.hidden_size": 4, "task.decoder.hidden_size": 4, "task.embedding_size": 4},
    "caption": {
        "task.decoder.hidden_size": 4,
        "task.embedding_size": 4,
        "task.image_size": 8,
        "task.image_encoder.layers": 1,
    },
}


def configure(folder: Path, task: str, train: str | None, dev: str | None, **changes: Any) -> Config:
    """A configuration of two files with these contents; None: no such file."""
    values: dict[str, Any] = {"task.name": task, **SMALL[task]}
    for name, content in (("train", train), ("dev", dev)):
        path = folder / f"{name}.{'csv' if task == 'forecast' else 'txt'}"
        if content is not None:
            path.write_text(content)
        values[f"task.{name}"] = str(path)
    values |= {name.replace("__", "."): value for name, value in changes.items()}
    return Config.build(
        Document.empty([f"{name}={json.dumps(value)}" for name, value in values.items()]), defaults=False
    )


TRAIN = "a X\nb Y\nc X\n\na X\nb Y\n\nd X\ne X\nf X\ng X\n\na X\nb Y\n"
DEV = "a X\nb Y\n\nq X\nr Z\na Y\n"


def test_a_tagger_counted_by_hand(tmp_path: Path) -> None:
    result = check_data(configure(tmp_path, "tag", TRAIN, DEV))
    train, dev = result.splits["train"], result.splits["dev"]
    assert (train.examples, train.elements, train.empty, train.unlabelled) == (4, 11, 0, 0)
    assert (train.duplicates, train.in_train, dev.duplicates, dev.in_train) == (1, None, 0, 1)
    assert train.labels == {"X": 8, "Y": 3}
    assert dev.labels == {"X": 2, "Y": 2, "Z": 1}
    assert (train.unknown, dev.unknown) == (0, 2 / 5)
    assert train.lengths is not None
    assert train.lengths.histogram == {"2-3": 3, "4-7": 1}
    assert result.vocabularies == {"words": 2 + 7, "characters": 2 + 7}
    # Vectors of 9 words; in each direction four gates of 8 from 8 + 8 inputs and a bias; two labels from 16 and a bias.
    assert result.parameters == 9 * 8 + 2 * 4 * 8 * (8 + 8 + 1) + 2 * (16 + 1)
    assert (result.updates, result.streams, result.problems) == (1, False, [])
    file = tmp_path / "train.txt"
    assert f"train: duplicates of earlier examples: 1 example ({file}:13 = line 5)" in result.warnings
    dev_file = tmp_path / "dev.txt"
    assert f"dev: some of its content also occurs in train: 1 example ({dev_file}:1 = {file}:5)" in result.warnings
    unseen = f"dev: 1 label not in train, which cannot be predicted: 'Z' (1 time, first {dev_file}:5)"
    assert unseen in result.warnings
    assert f"train: 1 label occurring fewer than 5 times: 'Y' (3, first {file}:2)" in result.warnings


@pytest.mark.parametrize(
    "name",
    [
        "tag, contextual vectors",
        "classify, static vectors",
        "translate, contextual vectors",
        "classify, contextual vectors",
    ],
)
def test_pretrained_vectors_change_no_count(name: str, tmp_path: Path) -> None:
    settings = build(CASES[name], tmp_path)
    result = check_data(settings)
    plain = check_data(settings._replace(task=settings.task.model_copy(update={"pretrained": PretrainedConfig()})))
    assert result.problems == []
    assert {side: split.unknown for side, split in result.splits.items()} == {
        side: split.unknown for side, split in plain.splits.items()
    }
    assert (result.parameters or 0) > (plain.parameters or 0) > 0


def test_problems_of_each_file_are_reported(tmp_path: Path) -> None:
    config = configure(tmp_path, "tag", "a X\n\nb X Y\nc X\n", "a X\nb\n")
    result = check_data(config)
    first, second = result.problems
    assert first.startswith(f"{tmp_path / 'train.txt'}:3: ")
    assert second.startswith(f"{tmp_path / 'dev.txt'}:2: ")
    assert result.splits["train"].examples == 1  # those before
    assert result.parameters is not None  # a model of what can be read


@pytest.mark.parametrize("missing", ["train", "dev"])
def test_a_missing_file_does_not_hide_problems_of_the_other(missing: str, tmp_path: Path) -> None:
    files = {"train": TRAIN, "dev": DEV} | {missing: None}
    result = check_data(configure(tmp_path, "tag", **files))
    (problem,) = result.problems
    assert f"{missing}.txt" in problem
    (other,) = result.splits.values()
    assert other.examples == (2 if missing == "train" else 4)


def test_an_empty_file(tmp_path: Path) -> None:
    result = check_data(configure(tmp_path, "language_model", "some words\n", ""))
    assert result.problems == [f"{tmp_path / 'dev.txt'}: there are no examples"]


def test_development_data_that_are_all_training_data(tmp_path: Path) -> None:
    (problem,) = check_data(configure(tmp_path, "tag", TRAIN, "a X\nb Y\n")).problems
    assert problem.startswith("dev: all of its content also occurs in train: 1 example (")


def test_texts_with_and_without_labels(tmp_path: Path) -> None:
    train = "good\tfine day\nbad\tawful day\ngood\tawful day\ngood\t\n"
    config = configure(tmp_path, "classify", train, "\tno label\ngood\tfine\n", task__format="columns")
    result = check_data(config)
    assert result.problems == [f"dev: 1 example without a label, first {tmp_path / 'dev.txt'}:1"]
    file = tmp_path / "train.txt"
    assert f"train: 1 example without elements, first {file}:4" in result.warnings
    twice = f"1 example, 1 of them with different labels ({file}:3 = line 2)"
    assert f"train: duplicates of earlier examples: {twice}" in result.warnings


def test_unknown_words_of_a_language_model(tmp_path: Path) -> None:
    result = check_data(configure(tmp_path, "language_model", "a b c\na b\n", "a q\nq q b\n"))
    # A model sees the end of a line as a symbol, too: a q / q q b / are 7.
    assert (result.splits["train"].unknown, result.splits["dev"].unknown) == (0, 3 / 7)
    assert any("raise task.text.min_count" in warning for warning in result.warnings)
    with_unknown = check_data(
        configure(tmp_path, "language_model", "a b c\na b\n", "a q\nq q b\n", task__text__min_count=2)
    )
    assert with_unknown.splits["train"].unknown == 1 / 7
    assert not any("raise task.text.min_count" in warning for warning in with_unknown.warnings)


def test_held_out_development_data(tmp_path: Path) -> None:
    lines = "".join(f"word{number}\n" for number in range(20))
    result = check_data(configure(tmp_path, "language_model", lines, None, task__dev="", task__dev_fraction=0.25))
    assert {name: split.examples for name, split in result.splits.items()} == {"train": 15, "dev": 5}
    assert result.splits["dev"].source == f"{tmp_path / 'train.txt'}, 25% of it"
    none = check_data(configure(tmp_path, "language_model", lines, None, task__dev="", task__dev_fraction=0.0))
    assert list(none.splits) == ["train"]
    assert any(warning.startswith("there are no development data") for warning in none.warnings)


def test_a_column_that_never_changes(tmp_path: Path) -> None:
    rows = "".join(f"{number % 3},7\n" for number in range(12))
    result = check_data(configure(tmp_path, "forecast", f"a,b\n{rows}", f"a,b\n{rows}"))
    assert result.problems == []
    assert "train: 1 of 2 columns never change: b" in result.warnings


@pytest.mark.parametrize(
    ("task", "changes", "expected"),
    [
        ("tag", {"train__bptt_steps": 3}, "train.bptt_steps = 0"),
        ("tag", {"task__encoder__layers": 0}, "set layers or prenet.layers to at least 1"),
        ("tag", {"task__encoder__options__colour": 1}, "has no option 'colour'"),
        ("tag", {"train__device": "abacus"}, "abacus"),
        ("language_model", {"task__decoder__bidirectional": True}, "task.decoder.bidirectional is true"),
    ],
)
def test_configurations_that_would_fail_are_reported(
    task: str, changes: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    (problem,) = check_data(configure(tmp_path, task, TRAIN, DEV, **changes)).problems
    assert expected in problem


@pytest.mark.parametrize("kind", ["hmm", "ngram"])
def test_counting_models(kind: str, tmp_path: Path) -> None:
    result = check_data(
        configure(tmp_path, "tag" if kind == "hmm" else "language_model", 5 * f"{TRAIN}\n", DEV, task__model=kind)
    )
    assert (result.problems, result.bytes["model"]) == ([], 0)


@pytest.mark.parametrize(
    "changes", [{"train__batch_size": 3}, {"train__batch_tokens": 7}, {"train__bptt_steps": 3, "train__batch_size": 2}]
)
def test_updates_are_those_that_training_makes(changes: dict[str, Any], tmp_path: Path) -> None:
    text = "".join(f"{'w ' * (1 + number % 4)}\n" for number in range(10))
    config = configure(tmp_path, "language_model", text, "w w\n", train__epochs=1, **changes)
    updates = []
    workflow.train(config, output=tmp_path / "run", listeners=[lambda _, event: updates.append(event.update)])
    assert check_data(config).updates == updates[-1]


def test_memory_of_a_model(tmp_path: Path) -> None:
    result = check_data(configure(tmp_path, "tag", TRAIN, DEV))
    assert result.parameters is not None
    assert result.bytes["model"] == 16 * result.parameters  # weights, gradients, and Adam's two averages
    plain = check_data(configure(tmp_path, "tag", TRAIN, DEV, train__optimizer="sgd"))
    assert plain.bytes["model"] == 8 * result.parameters
    assert all(size > 0 for size in result.bytes.values())


def test_printed_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_report(check_data(configure(tmp_path, "tag", TRAIN, DEV)))
    shown = capsys.readouterr().out.splitlines()
    assert ["examples", "4", "2"] in [line.split() for line in shown]
    assert ["4-7", "1", "0", "##########"] in [line.split() for line in shown]
    assert ["X", "8", "2", "#" * 30] in [line.split() for line in shown]
    assert shown[-1] == "5 warnings, no problems found."


def test_data_that_have_nothing_in_common_are_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = check_data(configure(tmp_path, "tag", TRAIN, "q V\nr W\n"))
    unseen, unknown = report.problems
    assert unseen.startswith("dev: 2 labels not in train, which cannot be predicted: ")
    assert unknown == "dev: 100.0% of the tokens are unknown: they do not occur in train"
    print_report(report)
    assert capsys.readouterr().out.splitlines()[-1].endswith(", 2 problems found.")


def test_a_file_without_empty_lines_is_reported(tmp_path: Path) -> None:
    report = check_data(configure(tmp_path, "tag", "a X\nb Y\n" * 501, DEV))
    expected = "train: all 1,002 labels belong to one example; is there an empty line after each sentence?"
    assert expected in report.warnings
    assert not any("belong to one example" in line for line in report.warnings if line.startswith("dev"))


def test_long_histograms_are_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_report(check_data(configure(tmp_path, "tag", "".join(f"a L{number}\n" for number in range(20)), DEV)))
    assert "and 8 more labels" in capsys.readouterr().out.splitlines()


def test_no_readable_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = check_data(configure(tmp_path, "tag", None, None))
    assert isinstance(report, Report)
    print_report(report)
    assert capsys.readouterr().out.splitlines()[-1] == "2 problems found."


def test_the_command(tmp_path: Path) -> None:
    settings = [
        f'[task]\nname = "tag"\ntrain = "{tmp_path}/train.txt"\ndev = "{tmp_path}/dev.txt"\n',
        "[task.encoder]\nhidden_size = 8\n",
    ]
    (tmp_path / "config.toml").write_text("".join(settings))
    (tmp_path / "train.txt").write_text(TRAIN)
    (tmp_path / "dev.txt").write_text(DEV)
    path = str(tmp_path / "config.toml")
    good = CliRunner().invoke(app, ["check", path, "--json"])
    assert good.exit_code == 0
    assert json.loads(good.stdout)["splits"]["dev"]["labels"] == {"X": 2, "Y": 2, "Z": 1}
    bad = CliRunner().invoke(app, ["check", path, "task.encoder.layers=0"])
    assert bad.exit_code == 1
    assert bad.stdout.splitlines()[-1] == "5 warnings, 1 problem found."


def test_pairs_counted_by_hand(tmp_path: Path) -> None:
    train = "a b\tx\nb\ty z\na b\tz\nc\tx y z\n\tx\n"
    dev = "a b\tx\nq r\tw\nc\t\n"
    result = check_data(configure(tmp_path, "translate", train, dev))
    one, other = result.splits["train"], result.splits["dev"]
    assert (one.examples, one.duplicates, other.in_train, result.problems) == (5, 1, 2, [])
    assert result.vocabularies == {"source": 3 + 3, "target": 3 + 3}
    assert [(side.empty, side.lengths.maximum) for side in one.sides.values()] == [(1, 2), (0, 3)]
    # Of dev, q and r beside three known symbols and three ends; w beside x and three ends.
    assert [side.unknown for side in other.sides.values()] == [2 / 8, 1 / 5]
    train_file, dev_file = tmp_path / "train.txt", tmp_path / "dev.txt"
    assert result.warnings == [
        f"train: 1 source without tokens, first {train_file}:5",
        (
            "train: duplicates of earlier examples: 1 example, 1 of them with different targets "
            f"({train_file}:3 = line 1)"
        ),
        f"dev: 1 target without tokens, first {dev_file}:3",
        (
            "dev: some of its content also occurs in train: 2 examples, 1 of them with different targets "
            f"({dev_file}:1 = {train_file}:1, {dev_file}:3 = {train_file}:4)"
        ),
        "dev: 25.00% of the source tokens do not occur in train: the model cannot tell them apart",
        "dev: train has no unknown token, so its embedding is not trained: raise task.source.min_count",
        "dev: 20.00% of the target tokens do not occur in train: the model cannot produce them",
    ]


def test_printed_report_of_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_report(check_data(configure(tmp_path, "translate", "a b\tx\nb\ty z\n", "a\tx\n")))
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "source: longest 2 1" in rows
    assert "target: unknown tokens 0.00% 0.00%" in rows
    assert rows[-1] == "No problems found."


def test_a_pair_without_its_target_is_a_problem(tmp_path: Path) -> None:
    result = check_data(configure(tmp_path, "translate", "a\tx\nb\n", "b\tx\na b\tx\n"))
    assert result.problems == [f"train: 1 example without a target, first {tmp_path / 'train.txt'}:2"]


def write_images(folder: Path, **brightness: int) -> None:
    for name, value in brightness.items():
        Image.new("RGB", (8, 8), (value, value, 0)).save(folder / f"{name}.png")


def test_captions_counted_by_hand(tmp_path: Path) -> None:
    write_images(tmp_path, a=0, b=50, c=100, again=50)
    train = "a.png\tx y\nb.png\tz\nc.png\tx\na.png\ty y y\n"
    result = check_data(configure(tmp_path, "caption", train, "again.png\tx w\n"))
    one, other = result.splits["train"], result.splits["dev"]
    assert (one.examples, one.elements, one.duplicates, other.in_train) == (3, 7, 0, 1)
    assert result.vocabularies == {"text": 3 + 3}
    side = one.sides["caption"]
    assert (side.lengths.minimum, side.lengths.maximum, side.unknown) == (1, 3, 0)
    assert other.sides["caption"].unknown == 1 / 3  # beside x and the end
    train_file, dev_file = tmp_path / "train.txt", tmp_path / "dev.txt"
    assert result.warnings == [
        "train: 3 examples with pixels of a single colour, first a.png, b.png, c.png",
        "dev: 1 example with pixels of a single colour, first again.png",
        "dev: 33.33% of the caption tokens do not occur in train: the model cannot produce them",
    ]
    assert result.problems == [
        (
            "dev: all of its content also occurs in train: 1 example, 1 of them with different captions "
            f"({dev_file}:1 = {train_file}:2)"
        )
    ]


def test_problems_of_images(tmp_path: Path) -> None:
    write_images(tmp_path, a=0, b=50)
    result = check_data(configure(tmp_path, "caption", "a.png\tx\nb.png\n", "bb.png\tx\n"))
    assert result.problems[0] == f"train: 1 example without a caption, first {tmp_path / 'train.txt'}:2"
    assert result.problems[1].startswith(f"{tmp_path / 'dev.txt'}:1: no file 'bb.png'")


def test_what_was_detected_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"film {number} was long,{'xy'[number % 2]}\n" for number in range(30))
    config = configure(tmp_path, "classify", f"text,label\n{rows}", f"text,label\n{rows}")
    report = check_data(config)
    note = f"{tmp_path / 'train.txt'}: text from column 1 'text', label from column 2 'label'"
    assert report.notes == [note]
    assert report.splits["train"].labels == {"x": 15, "y": 15}
    print_report(report)
    assert capsys.readouterr().out.startswith(note + "\n")
    run = workflow.train(config._replace(train=config.train.model_copy(update={"epochs": 1})), output=tmp_path / "run")
    assert run.notes == (note, f"30 training examples, 30 dev, {run.summary()['parameters']:,} parameters")
    assert note in (run.path / "train.log").read_text()
    assert 'text_column = "text"\n' in run.config
    assert 'label_column = "label"\n' in run.config


@pytest.mark.parametrize("label", ["same", "{0}"])
def test_labels_that_are_no_classes_are_problems(tmp_path: Path, label: str) -> None:
    rows = "".join(f"{label.format(number)} film {number}\n" for number in range(30))
    config = configure(tmp_path, "classify", rows, rows)
    assert any("task.check_labels = false" in problem for problem in check_data(config).problems)
    with pytest.raises(ValueError, match=r"task\.check_labels = false"):
        workflow.train(config, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_command_takes_a_task_and_its_data(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("up\thigh above\ndown\tlow below\n" * 6)
    (tmp_path / "dev.tsv").write_text("up\tabove\nDown\tbelow\n")
    small = [f"{name}={value}" for name, value in SMALL["classify"].items()]
    result = CliRunner().invoke(app, ["check", "--task", "classify", "--data", str(tmp_path), *small])
    assert result.exit_code == 0, result.output
    assert "1 label not in train, which cannot be predicted: 'Down' (1 time," in result.stdout
    result = CliRunner().invoke(app, ["check"])
    assert result.exit_code == 1
    assert "give a configuration (see seqloom init), or --task and --data" in result.stderr


def test_training_shows_the_same_findings(tmp_path: Path) -> None:
    train = "up\thigh above\ndown\tlow below\nDown\tunder\n" * 6
    config = configure(tmp_path, "classify", train, "up\thigh above\nsideways\tleft\n", train__updates=1)
    run = workflow.train(config, output=tmp_path / "run")
    overlap, unseen, similar = run.warnings
    assert ("also occurs in train" in overlap, "'sideways'" in unseen) == (True, True)
    labels = "warning: train: labels that differ only in case or whitespace: 'down' (6) and 'Down' (6)"
    remedy = "if they mean the same, task.lowercase_labels=true makes them one"
    assert similar == f"{labels}; {remedy}"
    assert {line.removeprefix("warning: ") for line in run.warnings} <= set(check_data(config).warnings)
    log = (tmp_path / "run" / "train.log").read_text()
    assert all(log.count(line) == 1 for line in run.warnings)


def test_a_file_that_cannot_be_read_has_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "date,sales\n" + "".join(f"2022-01-{day:02},${day}\n" for day in range(1, 29))
    print_report(check_data(configure(tmp_path, "forecast", rows, None, task__dev="", task__dev_fraction=0.2)))
    problem, total = capsys.readouterr().out.splitlines()
    assert problem.startswith(f"problem: {tmp_path / 'train.csv'}:2: column 'sales' holds numbers with a unit")
    assert total == "1 problem found."


def test_data_of_another_task_are_one_problem(tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    file.write_text("text,label\n" + "".join(f"a film of number {n} that is long,{'ab'[n % 2]}\n" for n in range(30)))
    (problem,) = check_data(Config.build(Document.empty(["task.name=tag", f"task.train={file}"]))).problems
    assert f"seqloom train --task classify --data {file}" in problem


def test_missing_values_are_listed_and_the_check_goes_on(tmp_path: Path) -> None:
    times = [f"2024-01-{day:02}" for day in (*range(1, 15), *range(16, 29))]  # one day is missing
    rows = [f"{time},{index % 5 + index / 7:.2f},{index % 3}" for index, time in enumerate(times)]
    rows[4] = f"{times[4]},,1"
    rows[5] = f"{times[5]},,"
    text = "\n".join(["date,load,wind", *rows])
    report = check_data(configure(tmp_path, "forecast", text, text))
    file = tmp_path / "train.csv"
    assert report.problems[0].startswith(f"{file}:6: column load: missing value; task.fill_missing=true repeats")
    assert report.problems[0].endswith(
        "In all, 3 values are missing: load 2 (at most 2 in a row, first line 6), wind 1 (first line 7)"
    )
    assert any("gap" in warning for warning in report.warnings)
    assert not any("repeat the previous" in warning for warning in report.warnings)
    assert report.splits["train"].examples > 0

    filled = configure(tmp_path, "forecast", text, text, task__fill_missing=True)
    warned = [warning for warning in check_data(filled).warnings if "repeat the previous" in warning]
    expected = (
        f"train: 3 values were missing and repeat the previous one: load 2 (at most 2 in a row, first {file}:6), "
        f"wind 1 (first {file}:7); load, wind: the model learns and is scored on values that nobody has measured"
    )
    assert warned == [expected, expected.replace("train", "dev")]
    run = workflow.train(filled._replace(train=filled.train.model_copy(update={"updates": 1})), output=tmp_path / "run")
    assert warned[0] in "\n".join(run.warnings)
    assert warned[0] in (run.path / "train.log").read_text()
