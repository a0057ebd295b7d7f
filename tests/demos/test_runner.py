"""Each demo from its data to its answers, with --quick."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from seqloom import demos, examples, tasks
from seqloom.cli.main import app
from seqloom.config import parse, read
from seqloom.data.builtin import datasets
from seqloom.data.readers.text_files import resolve
from seqloom.demos.runner import _read_inputs, run
from seqloom.model import load
from seqloom.run_config import Config


def call(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["demo", *map(str, arguments), "--quick"])


@pytest.fixture(scope="module", autouse=True)
def small_data() -> Iterator[None]:
    """A third of the generated examples."""
    with pytest.MonkeyPatch.context() as patch:
        for sizes in (datasets.DATES, datasets.IMAGES, datasets.LINES, datasets.WORDS):
            for split, size in sizes.items():
                patch.setitem(sizes, split, size // 3)
        yield


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The JSON output of each demo."""
    folder = tmp_path_factory.mktemp("demo")
    outputs = {}
    for task in tasks.names():
        result = call(task, "--json", "--output", folder)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        outputs[task] = json.loads(result.stdout)
        assert outputs[task]["run"] == str(folder / f"demo-{task}" / "run")
    return outputs


@pytest.mark.parametrize("task", tasks.names())
def test_scores_are_those_of_the_run(task: str, results: dict[str, Any]) -> None:
    result = results[task]
    path = Path(result["run"])
    test = next((path.parent / "data").glob("test*"))
    again = load(path).evaluate(test)
    assert result["test"][result["metric"]] == pytest.approx(again[result["metric"]])
    assert result["examples"]
    assert {"config.toml", "learned.json", "metrics.jsonl", "best/model.safetensors"} <= set(result["files"])
    assert all((path / file).is_file() for file in result["files"])


@pytest.mark.parametrize("task", tasks.names())
def test_the_configuration_is_the_example(task: str, results: dict[str, Any]) -> None:
    path = Path(results[task]["run"])
    paths = {f"task.{part}": next((path.parent / "data").glob(f"{part}*")) for part in ("train", "dev")}
    changes = {**paths, "train.seed": 1, **demos.find(task).quick}
    example = parse(examples.text(task), task, overrides=[f"{key}={value}" for key, value in changes.items()])
    config = Config.build(example)
    task_read, _ = config.task.resolve(resolve(config.task.train))  # a run says which columns it has read
    assert Config.build(read(path / "config.toml"), defaults=False) == config._replace(task=task_read)


def test_tags(results: dict[str, Any]) -> None:
    result = results["tag"]
    always, usual, markov = result["baseline"].values()
    assert 0.3 < always < usual < markov < 1
    assert result["test"]["accuracy"] > always  # after forty updates
    for example in result["examples"]:
        assert len(example["words"]) == len(example["answer"]) == len(example["truth"])


def test_digits(results: dict[str, Any]) -> None:
    (always,) = results["classify"]["baseline"].values()
    assert 0.05 < always < 0.15
    assert results["classify"]["test"]["accuracy"] > 3 * always
    assert all(len(row) == 16 for example in results["classify"]["examples"] for row in example["picture"])


def test_sunspots(results: dict[str, Any]) -> None:
    result = results["forecast"]
    assert result["test"]["mse"] < min(result["baseline"].values())
    *years, following = result["examples"]
    assert following == {"last": 2.9, "answer": following["answer"], "truth": None}
    assert [year["truth"] for year in years] == [111, 104, 63.7, 40.4, 29.8, 15.2, 7.5, 2.9]


def test_letters(results: dict[str, Any]) -> None:
    result = results["language_model"]
    single, three, five = result["baseline"].values()
    assert single > three > five > 1
    assert 1 < result["test"]["perplexity"] < 2 * single
    *scored, drawn = result["examples"]
    assert sorted(scored[0]["text"]) == sorted(scored[1]["text"])  # the same characters in another order
    assert len(drawn["text"]) > 100


def test_dates(results: dict[str, Any]) -> None:
    result = results["translate"]
    copied, ruled = result["baseline"].values()
    assert 0 < copied < ruled < 0.6
    assert [example["source"] for example in result["examples"]] == list(demos.find("translate").inputs)
    assert (Path(result["run"]) / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert "attention.png" in result["files"]
    for example in result["examples"]:
        assert len(example["attention"]) == len("</s>") + len(example["answer"]) + 1  # the source above, an end below
    assert result["test"]["forced_accuracy"] > 0.4  # after eighty updates
    assert {"free_accuracy", "gap", "loss", "exact_match_interval"} <= set(result["test"])


def test_shapes(results: dict[str, Any]) -> None:
    result = results["caption"]
    (always,) = result["baseline"].values()
    assert always == 0  # no caption of the test data is one of the training data
    assert result["test"]["forced_accuracy"] > 0.25  # after eighty updates
    assert result["test"]["captions"] == 2 * result["test"]["images"] == 2 * datasets.IMAGES["test"]
    for example in result["examples"]:
        assert example["answer"].split() == example["words"][:-1]
        assert len(example["attention"]) == len(example["words"])
        for grid in example["attention"]:
            assert [len(row) for row in grid] == [4] * 4
            assert sum(map(sum, grid)) == pytest.approx(1, abs=1e-5)


def test_lines(results: dict[str, Any]) -> None:
    result = results["transcribe"]
    always, nearest = result["baseline"].values()
    assert 0.4 < nearest < always < 1
    assert result["test"]["cer"] < 0.7 * nearest  # after 150 updates
    assert {"cer", "cer_interval", "exact_match", "confusions"} <= set(result["test"])
    assert (Path(result["run"]) / "ctc.png").read_bytes().startswith(b"\x89PNG")
    for example in result["examples"]:
        assert len(example["times"]) == len(example["answer"])
        *picture, symbols, _, ruler = example["frames"]
        assert (len(picture), ruler[:2]) == (6, "╵0")
        assert set(example["answer"]) == set(symbols.replace("·", ""))


def test_words(results: dict[str, Any]) -> None:
    result = results["embed"]
    assert result["baseline"]["one-hot vectors"] < 0.05
    assert result["test"]["accuracy"] > 0.9
    first, *_, odd = result["examples"]
    assert first["answer"].startswith("queen ")
    assert odd["answer"] == "soup"
    assert (Path(result["run"]) / "embedding_map.png").read_bytes().startswith(b"\x89PNG")


def test_the_default_demo_translates_dates(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "--quick", "--output", str(tmp_path)])
    assert result.exit_code == 0
    assert "Attention for the first date (columns: input, rows: output; darker is more):" in result.stdout
    assert "Quick mode: trained for a few seconds only, so the scores are poor." in result.stdout
    assert "Type your own" not in result.stdout  # there is nobody at a terminal
    assert (tmp_path / "demo-translate" / "run" / "attention.png").is_file()


def test_typed_inputs_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    typed = iter(["5 May 2005", ""])

    def answer(prompt: str) -> str:
        text = next(typed, None)
        if text is None:
            raise EOFError
        return text

    monkeypatch.setattr("builtins.input", answer)
    assert _read_inputs(["a", "b", "c"], quiet=False) == ["5 May 2005", "b", "c"]
    assert _read_inputs(["a"], quiet=True) == ["a"]


def test_the_report_shows_scores_answers_and_next_commands(tmp_path: Path) -> None:
    (tmp_path / "demo-forecast").mkdir()
    result = call("forecast", "--output", tmp_path)
    assert result.exit_code == 0
    assert list((tmp_path / "demo-forecast").iterdir()) == []  # what is there stays as it is
    path = tmp_path / "demo-forecast-2" / "run"
    assert "dev: " in result.stderr
    rows = [line.split("  ") for line in result.stdout.splitlines()]
    names = [row[0] for row in rows]
    assert {"this model", "same as last year", "config.toml", "best"} <= set(names)
    commands = [line.strip() for line in result.stdout.splitlines() if line.startswith("  seqloom ")]
    assert f"seqloom evaluate {path} {path.parent / 'data' / 'test.csv'}" in commands
    _, *evaluation = commands[1].split()
    assert CliRunner().invoke(app, evaluation).exit_code == 0


def test_an_unknown_name() -> None:
    result = call("langage_model")
    assert result.exit_code == 1
    assert result.stderr == (
        "seqloom: there is no demo 'langage_model': did you mean 'language_model'? "
        f"Available: {', '.join(tasks.names())}\n"
    )


def test_an_experiment_is_no_demo() -> None:
    result = call("memory")
    assert (result.exit_code, result.stderr) == (
        1,
        "seqloom: memory is an experiment, not a demo: run seqloom lab memory\n",
    )


def test_an_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = call("tag", "--output", tmp_path / "file" / "folder")
    assert result.exit_code == 1
    assert result.stderr.startswith("seqloom: cannot create the folder ")


def test_without_scikit_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ValueError, match=r"pip install 'seqloom\[digits\]'"):
        run("classify", output=tmp_path)
