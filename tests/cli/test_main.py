"""The commands: their output as text and JSON, exit codes, error messages, and light imports."""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import seqloom
from seqloom import examples, tasks
from seqloom.cli.main import app, main
from seqloom.comparison import subprocess_trial, trial
from seqloom.config import parse
from seqloom.config.toml import one_of
from seqloom.kernels.llvm.target import this_architecture
from seqloom.run_config import Config

NAMES = (
    *("init", "check", "train", "evaluate", "predict", "align", "explain", "doctor", "generate", "compare", "sweep"),
    *("lab", "demo", "data", "synthesize", "recombine", "info", "plot", "quantize", "export", "serve", "studio"),
)
COMMANDS = (["--help"], *([name, "--help"] for name in NAMES))

TAGGED = "the DET\ncat NOUN\nsleeps VERB\n\nthe DET\ndog NOUN\nbarks VERB\n\ncats NOUN\nbark VERB\n"
SMALL = [
    "task.encoder.hidden_size=8",
    "task.words.embedding_size=8",
    "task.characters.layers=0",
    "train.epochs=2",
    "train.batch_size=2",
]


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(seqloom.__file__).parent.parent)}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment)


def call(*arguments: object, text: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=text)


@pytest.mark.parametrize(
    "statement",
    [
        "import seqloom",
        f"from seqloom.cli.main import app; [app(command, standalone_mode=False) for command in {COMMANDS}]",
    ],
)
def test_start_up_imports_no_heavy_library(statement: str) -> None:
    heavy = {"torch", "numpy", "llvmlite", "matplotlib"}
    ended = python("-c", f"import sys; {statement}; sys.exit(sorted({heavy} & sys.modules.keys()) or 0)")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_errors_in_what_is_configured_need_no_torch(tmp_path: Path) -> None:
    configurations = {
        "syntax.toml": "[task\n",
        "task.toml": '[task]\nname = "tagg"\n',
        "data.toml": '[task]\nname = "tag"\ntrain = "nowhere.conllu"\n',
        "key.toml": '[task]\nname = "tag"\ntrain = "x"\n[train]\nlr = 1\n',
        "value.toml": '[task]\nname = "tag"\ntrain = "x"\n[train]\nepochs = "1"\n',
        "column.toml": f'[task]\nname = "classify"\ntrain = "{(tmp_path / "x.csv").as_posix()}"\ntext_column = "t"\n',
    }
    (tmp_path / "x.csv").write_text("text,label\na,1\n")
    for name, text in configurations.items():
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in (*configurations, "missing.toml")]
    runs = f"codes = [app(['train', file], standalone_mode=False) for file in {files}]"
    ended = python("-c", f"import sys; from seqloom.cli.main import app; {runs}; print(codes, 'torch' in sys.modules)")
    assert ended.stdout == "[1, 1, 1, 1, 1, 1, 1] False\n"
    assert [line.startswith("seqloom: ") for line in ended.stderr.splitlines()] == [True] * 7


def test_all_commands_are_listed() -> None:
    assert sorted(str(command.callback.__name__) for command in app.registered_commands if command.callback) == sorted(
        NAMES
    )


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help(command: list[str]) -> None:
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0
    assert "Usage: " in result.stdout
    if command[:-1]:
        (example,) = (line for line in result.stdout.splitlines() if "Example: " in line)
        assert f"seqloom {' '.join(command[:-1])}" in example


def test_no_summary_of_a_command_is_cut_off() -> None:
    summaries = call("--help").stdout.split("Commands:\n")[1].splitlines()
    assert [line.split()[0] for line in summaries] == list(NAMES)
    assert all(line.endswith(".") and not line.endswith("...") for line in summaries)


def test_version_by_module() -> None:
    ended = python("-m", "seqloom", "--version")
    assert (ended.returncode, ended.stdout) == (0, f"seqloom {seqloom.__version__}\n")


def test_an_unknown_command_exits_with_two() -> None:
    result = call("dmeo")
    assert result.exit_code == 2
    assert "dmeo" in result.stderr


@pytest.mark.parametrize("name", tasks.names())
def test_init_prints_a_usable_configuration(name: str) -> None:
    result = call("init", name)
    assert result.exit_code == 0
    config = Config.build(parse(result.stdout, "template"))
    assert config.name == name
    lines = result.stdout.splitlines()
    for before, line in pairwise(lines):  # the comment of a long value stands above it
        assert "#" in line or before.startswith("#") or " = " not in line or line.startswith("name"), line
    assert Config.build(parse(config.text(), "again")) == config


def test_init_lists_the_tasks_and_suggests_the_nearest() -> None:
    assert [line.split()[0] for line in call("init").stdout.splitlines()] == tasks.names()
    result = call("init", "tagg")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == f'seqloom: unknown task "tagg"; did you mean "tag"? Expected {one_of(tasks.names())}\n'
    assert 'unknown task "ner"; did you mean "tag"? Expected one of: ' in call("init", "ner").stderr


def test_init_prints_and_lists_examples() -> None:
    assert call("init", "tag", "--example").stdout == examples.text("tag")
    assert call("init", "--example").stdout == examples.listing()
    result = call("init", "tga", "--example")
    assert (result.exit_code, result.stderr.startswith("seqloom: there is no example 'tga'")) == (1, True)


def test_built_in_data_are_listed_and_written(tmp_path: Path) -> None:
    assert "parentheses" in call("data").stdout
    paths = call("data", "parentheses", tmp_path / "new").stdout.split()
    assert paths == [str(path) for path in (tmp_path / "new" / f"{part}.txt" for part in ("train", "dev", "test"))]
    assert all(Path(path).is_file() for path in paths)


def test_info_as_text() -> None:
    result = call("info")
    assert result.exit_code == 0
    assert f"seqloom            {seqloom.__version__}\n" in result.stdout
    assert "\nlstm             fused\n" in result.stdout


def test_info_as_json() -> None:
    result = json.loads(call("info", "--json").stdout)
    assert result["versions"]["seqloom"] == seqloom.__version__
    assert result["cells"]["peephole"] == "fused"


def test_interruption_returns_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("seqloom.info.machine_info", interrupt)
    assert call("info").exit_code == 130


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of a tagger in files, and a configuration of it."""
    path = tmp_path_factory.mktemp("tagger")
    (path / "data").mkdir()
    for name in ("train", "dev"):
        (path / "data" / f"{name}.conll").write_text(TAGGED)
    (path / "bad.conll").write_text("a X\nb\n")
    (path / "tag.toml").write_text(
        f'[task]\nname = "tag"\ntrain = "{path}/data/train.conll"\ndev = "{path}/data/dev.conll"\n'
    )
    return path


@pytest.fixture(scope="module")
def tagger(folder: Path) -> Path:
    run = folder / "run"
    result = call("train", *SMALL, "--task", "tag", "--data", folder / "data", "--output", run)
    assert result.exit_code == 0, result.output
    return run


@pytest.fixture(scope="module")
def classifiers(folder: Path) -> tuple[Path, Path]:
    """A classifier of texts and one of vectors."""
    (folder / "texts.csv").write_text("text,label\n" + "so good,yes\nso bad,no\n" * 20)
    (folder / "numbers.csv").write_text("1,2,3,yes\n3,2,1,no\n" * 20)
    for name in ("texts", "numbers"):
        changes = ["task.encoder.hidden_size=4", "train.updates=2"]
        result = call(
            "train", *changes, "--task", "classify", "--data", folder / f"{name}.csv", "--output", folder / name
        )
        assert result.exit_code == 0, result.output
    return folder / "texts", folder / "numbers"


def test_each_line_of_standard_input_has_an_answer(classifiers: tuple[Path, Path], tagger: Path) -> None:
    texts, numbers = classifiers
    for run, line in ((texts, "so good"), (numbers, "1,2,3")):
        result = call("predict", run, text=f"\n{line}\n\n\n{line}\n")
        assert result.exit_code == 0, result.output
        assert [bool(answer) for answer in result.stdout.split("\n")[:5]] == [False, True, False, False, True]
    for run in (texts, tagger):
        result = call("predict", run, "--json", text="so bad\n\n")
        assert [json.loads(line) is None for line in result.stdout.splitlines()] == [False, True]


def test_texts_and_files_stand_before_their_answers(classifiers: tuple[Path, Path], folder: Path) -> None:
    (folder / "two.txt").write_text("so good\nso bad\n")
    given = [folder / "two.txt", "so good", ""]
    printed = call("predict", classifiers[0], *given)
    names = [str(folder / "two.txt"), str(folder / "two.txt"), "so good", ""]
    assert [line.split("\t")[0] for line in printed.stdout.splitlines()] == names
    assert "1 of 4 inputs is empty (input:3)" in printed.stderr
    answers = [json.loads(line) for line in call("predict", classifiers[0], *given, "--json").stdout.splitlines()]
    assert [answer.get("file") for answer in answers] == [*names[:2], None, None]
    assert [answer.get("input") for answer in answers] == [None, None, *names[2:]]


def test_text_for_a_model_of_vectors_is_an_error(classifiers: tuple[Path, Path]) -> None:
    result = call("predict", classifiers[1], text="abc\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "standard input:1: value 1: expected a number, found 'abc'" in result.stderr


@pytest.mark.parametrize("command", ["predict", "explain"])
def test_an_argument_is_a_text_unless_it_names_a_file(
    command: str, classifiers: tuple[Path, Path], folder: Path
) -> None:
    texts, numbers = classifiers
    (folder / "one.txt").write_text("so good\n")
    more = ["--output", folder / "explained", "--method", "none"] if command == "explain" else []
    as_text, as_file = (call(command, texts, given, "--json", *more) for given in ("so good", folder / "one.txt"))
    assert (as_text.exit_code, as_file.exit_code) == (0, 0), as_text.output + as_file.output
    answers = [json.loads(result.stdout) for result in (as_text, as_file)]
    first, second = (answer.get("prediction", answer) for answer in answers)
    assert first["probabilities"] == pytest.approx(second["probabilities"])
    missing = call(command, texts, "none.csv", *more)
    assert missing.exit_code == 1
    assert "none.csv: no such file; a text that looks like a file name is read from standard input" in missing.stderr
    assert "so good: no such file" in call(command, numbers, "so good", *more).stderr


def test_a_file_is_no_run(classifiers: tuple[Path, Path], folder: Path) -> None:
    assert classifiers
    result = call("predict", folder / "texts.csv", "hi")
    assert result.exit_code == 1
    assert "texts.csv: not a run but a file: give the folder of a training run" in result.stderr


def test_a_run_is_no_data(classifiers: tuple[Path, Path]) -> None:
    run = str(classifiers[0])
    for arguments in (["train", "--task", "tag", "--data", run], ["predict", run, run], ["evaluate", run, run]):
        result = call(*arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert f"{run}: a run, not data: give a file, or a folder with the data" in result.stderr


def test_experiments_take_a_task_and_its_data(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not reached here is tested with a configuration."""
    calls: list[tuple[Any, ...]] = []

    def stop(*arguments: Any, **_: Any) -> None:
        calls.append(arguments)
        raise ValueError("stop")

    monkeypatch.setattr("seqloom.comparison.compare.compare", stop)
    monkeypatch.setattr("seqloom.tuning.sweep.sweep", stop)
    data = ("--task", "tag", "--data", folder / "data")
    for command in (("compare", "base", "train.epochs=1"), ("sweep", "sweep.trials=2")):
        assert "seqloom: stop" in call(*command, *data).stderr
        assert "give a configuration (see seqloom init), or --task and --data" in call(command[0]).stderr
    (document, variants, _), (swept,) = calls
    assert variants == ["base", "train.epochs=1"]
    assert (document.get("task.name"), swept.get("task.name"), swept.get("sweep.trials")) == ("tag", "tag", 2)


def test_an_evaluation_without_a_known_label_fails(classifiers: tuple[Path, Path], folder: Path) -> None:
    (folder / "other.csv").write_text("text,label\n" + "so good,1\nso bad,0\n" * 3)
    result = call("evaluate", classifiers[0], folder / "other.csv")
    assert result.exit_code == 1
    assert (
        "other.csv:2: no label occurs in the training data, so that all answers are wrong: found '1', '0'"
        in result.stderr
    )
    assert "known are 'no', 'yes'" in result.stderr


@pytest.fixture(scope="module")
def language_model(folder: Path) -> Path:
    (folder / "lines.txt").write_text("a rose is a rose\n" * 20)
    changes = ["task.decoder.hidden_size=8", "task.embedding_size=8", "train.updates=3", "task.text.unit=characters"]
    run = folder / "language_model"
    data = folder / "lines.txt"
    result = call("train", *changes, "--task", "language_model", "--data", data, "--output", run, "--json")
    assert result.exit_code == 0, result.output
    actual = json.loads(result.stdout)
    assert actual["run"] == str(run)
    assert actual["perplexity"] > 1
    return run


def test_info_about_a_run(tagger: Path) -> None:
    for_people = call("info", tagger)
    assert ["task", "tag"] in [line.split() for line in for_people.stdout.splitlines()]
    result = json.loads(call("info", tagger, "--json").stdout)
    assert (result["task"], result["elements"]) == ("tag", 8)


def test_training_progress_goes_to_standard_error(folder: Path) -> None:
    result = call("train", folder / "tag.toml", *SMALL, "--output", folder / "loud")
    assert result.exit_code == 0
    assert "epoch 1.00  update 2  dev: accuracy " in result.stderr
    assert result.stdout.startswith("Finished: ")
    assert ["run", str(folder / "loud")] in [line.split() for line in result.stdout.splitlines()]


def test_quiet_training_prints_nothing(folder: Path) -> None:
    result = call("train", folder / "tag.toml", *SMALL, "train.epochs=1", "--quiet", "--output", folder / "quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_a_run_is_never_overwritten(folder: Path, tagger: Path) -> None:
    result = call("train", folder / "tag.toml", *SMALL, "--output", tagger)
    assert result.exit_code == 1
    assert f"{tagger}: already exists" in result.stderr


def test_a_finished_training_can_be_resumed(folder: Path, tagger: Path) -> None:
    result = call("train", "--resume", tagger, "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    loud = call("train", "--resume", tagger)
    assert (loud.exit_code, loud.stderr) == (0, f"{tagger}: training is complete; nothing is left to do\n")
    mixed = call("train", folder / "tag.toml", "--resume", tagger)
    assert mixed.exit_code == 1
    assert "--resume uses the configuration of the run" in mixed.stderr


def test_evaluation(folder: Path, tagger: Path) -> None:
    file = folder / "data" / "dev.conll"
    lines = call("evaluate", tagger, file).stdout.splitlines()
    assert lines[0].split() == ["metric", "value", "95", "%", "interval", "baseline"]
    assert any(line.startswith("Baseline: most frequent label of each word") for line in lines)
    result = json.loads(call("evaluate", tagger, file, "--json").stdout)
    assert result["elements"] == 8
    low, high = result["accuracy_interval"]
    assert low <= result["accuracy"] <= high


def test_an_evaluation_names_unseen_labels(classifiers: tuple[Path, Path], folder: Path) -> None:
    (folder / "unseen.csv").write_text("text,label\n" + "so good,yes\nso bad,YES\nso so,ye\nso what,42\n")
    result = call("evaluate", classifiers[0], folder / "unseen.csv")
    assert result.exit_code == 0, result.output
    assert "count as errors: '42', 'YES' (did you mean 'yes'?), 'ye' (did you mean 'yes'?)\n" in result.stderr


def test_an_evaluation_on_the_training_file_warns(folder: Path, tagger: Path) -> None:
    result = call("evaluate", tagger, folder / "data" / "train.conll")
    assert "train.conll: the model was trained on 3 examples of this file, so that the scores do not" in result.stderr


def test_prediction_from_standard_input(tagger: Path) -> None:
    result = call("predict", tagger, text="the cat sleeps\ncats bark\n")
    assert result.exit_code == 0
    words = [line.split("\t")[0] for line in result.stdout.splitlines() if line]
    assert words == ["the", "cat", "sleeps", "cats", "bark"]
    answers = [json.loads(line) for line in call("predict", tagger, "-", "--json", text="a b\nc\n").stdout.splitlines()]
    assert [answer["words"] for answer in answers] == [["a", "b"], ["c"]]


def test_prediction_of_a_file(folder: Path, tagger: Path) -> None:
    result = call("predict", tagger, folder / "data" / "dev.conll", "--json", "--batch-size", 2)
    assert [len(json.loads(line)["labels"]) for line in result.stdout.splitlines()] == [3, 3, 2]


def test_the_same_seed_generates_the_same_text(language_model: Path) -> None:
    first, again, other = (
        call("generate", language_model, "a ro", "--length", 40, "--seed", seed).stdout for seed in (1, 1, 2)
    )
    assert first.startswith("a ro")
    assert first == again != other


def test_generated_texts_as_json(language_model: Path) -> None:
    options = ("--length", 20, "--count", 3, "--seed", 4)
    result = call("generate", language_model, "a ro", *options, "--json")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [set(answer) for answer in answers] == 3 * [{"prompt", "text", "tokens", "log_probabilities"}]
    assert all(len(answer["tokens"]) == len(answer["log_probabilities"]) for answer in answers)
    texts = [answer["prompt"] + answer["text"].removesuffix("\n") for answer in answers]
    assert call("generate", language_model, "a ro", *options).stdout.splitlines() == texts
    assert len(set(texts)) > 1
    last = call("generate", language_model, "a ro", "--length", 20, "--seed", 6).stdout
    assert last.splitlines() == texts[2:]  # the seeds are consecutive numbers


def test_a_prompt_of_unknown_tokens_is_noted(language_model: Path) -> None:
    result = call("generate", language_model, "aΩ漢", "--length", 3)
    assert result.stderr == "note: the prompt contains tokens that the model does not know: 'Ω', '漢'\n"
    assert call("generate", language_model, "a", "--length", 3).stderr == ""
    with pytest.warns(UserWarning, match="the prompt contains tokens that the model does not know: 'Ω'"):
        list(seqloom.load(language_model).generate("Ω", length=1))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--temperature", value) for value in ("-1", "nan", "inf")),
        *(("--top-p", value) for value in ("3", "0", "nan")),
        *(("--min-p", value) for value in ("3", "-1", "nan")),
        *(("--top-k", "-1"), ("--bias", "nan"), ("--count", "0")),
    ],
)
def test_options_of_sampling_are_named_as_they_are_typed(language_model: Path, option: str, value: str) -> None:
    result = call("generate", language_model, option, value)
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in result.stderr


def test_only_language_models_generate_text(tagger: Path) -> None:
    result = call("generate", tagger, "the")
    assert result.exit_code == 1
    assert "generates nothing (tasks that do: forecast, handwriting, language_model, music)" in result.stderr
    assert result.stdout == ""


def test_unsupported_exports_are_refused(folder: Path, tagger: Path) -> None:
    result = call("export", tagger, folder / "model.arpa")
    assert result.exit_code == 1
    assert "model.arpa: a model of the task tag is exported as .onnx, .o or .wasm" in result.stderr


def test_export_to_an_object_file(folder: Path, tagger: Path) -> None:
    result = call("export", tagger, folder / "tagger.o", "--target", "aarch64")
    assert result.exit_code == 0, result.output
    assert f"wrote {folder / 'tagger.o'} and {folder / 'tagger.h'} (" in result.stdout
    assert ("compiled for it instead of for aarch64" in result.stdout) == (this_architecture() != "aarch64")
    assert "int32_t tagger_predict(" in (folder / "tagger.h").read_text()
    for file, option, message in (
        ("tagger.onnx", "--target=native", "--target is for a file .o or .wasm"),
        ("tagger.o", "--runtime", "needs no runtime"),
        ("tagger.o", "--search=greedy", "--search is for a file .onnx"),
        ("tagger.o", "--target=arm", 'unknown target "arm"'),
    ):
        result = call("export", tagger, folder / file, option)
        assert result.exit_code == 1
        assert message in result.stderr


def test_export_to_onnx(folder: Path, tagger: Path) -> None:
    file = folder / "model.onnx"
    result = call("export", tagger, file)
    assert result.exit_code == 0, result.output
    pattern = rf"wrote \S*model\.onnx \({file.stat().st_size:,} bytes\); same answers as the run: \d+ examples"
    assert re.search(pattern, result.stdout)
    result = call("export", tagger, folder / "other.onnx", "--check", folder / "missing.conll")
    assert result.exit_code == 1
    assert "missing.conll: no such file" in result.stderr
    assert not (folder / "other.onnx").exists()


def test_variants_are_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_here(config: Config, path: Path, **options: Any) -> dict[str, Any]:
        return trial.run_trial(config, path, brief=options.get("brief", False))

    monkeypatch.setattr(subprocess_trial, "run_trial_in_subprocess", run_here)
    (folder / "small.toml").write_text(
        (folder / "tag.toml").read_text()
        + "encoder.hidden_size = 8\nwords.embedding_size = 8\ncharacters.layers = 0\n[train]\nepochs = 1\n"
    )
    result = call(
        "compare",
        folder / "small.toml",
        "task.model=hmm",
        "task.encoder.cell=gru",
        "--output",
        folder / "both",
        "--json",
    )
    assert result.exit_code == 0, result.output
    first, second = json.loads(result.stdout)
    assert (first["variant"], second["variant"]) == ("task.model=hmm", "task.encoder.cell=gru")
    assert second["parameters"] > 0
    again = call(
        "compare", folder / "small.toml", "task.model=hmm", "task.encoder.cell=gru", "--output", folder / "both"
    )
    assert again.exit_code == 0, again.output
    assert again.stdout.startswith("variant ")
    assert f"Table written to {folder / 'both' / 'compare.md'}" in " ".join(again.stdout.split())
    assert "training" not in again.stderr  # all is done
    wrong = call("compare", folder / "small.toml", "task.model=hmm", "gru")
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert "'gru' is not a variant" in wrong.stderr


def test_top_words_is_for_word_vectors_only(tagger: Path, folder: Path) -> None:
    result = call("evaluate", tagger, folder / "train.conll", "--top-words", 5)
    assert result.exit_code == 1
    assert (
        "a model of the task tag cannot be restricted to the most frequent words (tasks that can: embed)"
        in result.stderr
    )


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ('[task]\nname = "tag"\ntrain = "."\nhiden = 3\n', 4, "hiden"),
        ('[task]\nname = "tga"\ntrain = "x"\n', 2, 'did you mean "tag"?'),
        ('[task]\nname = "tag"\ntrain = "."\n[train]\n\nlearning_rate = "fast"\n', 6, "fast"),
        ('[task]\nname = "tag\n', 2, ""),
    ],
)
def test_errors_in_a_configuration_name_the_line(text: str, line: int, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    for command in ("train", "check"):
        result = call(command, path)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"seqloom: {path}:{line}: ")
        assert expected in result.stderr
        assert "Traceback" not in result.output


def test_errors_in_an_override_name_the_command_line(folder: Path) -> None:
    result = call("train", folder / "tag.toml", "train.rtae=1")
    assert result.exit_code == 1
    assert result.stderr.startswith("seqloom: command line: ")
    assert "rate" in result.stderr


@pytest.mark.parametrize(
    ("task", "word", "key"),
    [
        *[("tag", f"train.{word}", "train.") for word in ("lr", "optim", "max_epochs", "num_epochs", "n_epochs")],
        *[("tag", f"train.{word}", "train.") for word in ("grad_clip", "clip_grad_norm", "max_steps", "max_updates")],
        *[("tag", f"task.encoder.{word}", "task.encoder.") for word in ("n_layers", "num_layers", "dropout_p")],
        *[("tag", f"task.encoder.{word}", "task.encoder.") for word in ("hidden_dim", "units")],
        *[("tag", f"task.{word}", "task.words.") for word in ("embed_dim", "embedding_dim", "emb_dim")],
        *[("tag", word, "train.") for word in ("lr", "task.lr", "task.learning_rate", "task.batch_size")],
        *[("language_model", f"task.{word}", "task.") for word in ("weight_tying", "embed_dim")],
        *[("translate", f"task.{word}", "task.search.") for word in ("beam_size", "num_beams")],
    ],
)
def test_a_key_of_another_library_gets_a_hint(task: str, word: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(f'{word} = 1\ntask.name = "{task}"\ntask.train = "x"\n')
    result = call("check", path)
    assert result.exit_code == 1
    assert result.stderr.startswith(f'seqloom: {path}:1: unknown key "{word}"; did you mean "{key}')


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ("--epochs", "train.epochs=…"),
        ("--max-epochs", "train.epochs=…"),
        ("--device", "train.device=…"),
        ("--seed=3", "train.seed=…"),
        ("--optimizer", "train.optimizer=…"),
        ("--lr", "train."),
        ("--learning-rate", "train."),
        ("--batch-size", "train."),
        ("--hidden-size", "task.encoder."),
        ("--num-layers", "task.encoder.layers=…"),
        ("--dropout", "task.encoder.dropout=…"),
        ("--embedding-dim", "task.words."),
    ],
)
def test_an_option_that_is_a_key_gets_a_hint(option: str, key: str, folder: Path) -> None:
    result = call("train", folder / "tag.toml", option, 5)
    assert result.exit_code == 2
    assert f"{option.partition('=')[0]} is not an option; did you mean the override {key}" in result.stderr


def test_an_unknown_option_without_a_key_is_a_usage_error(folder: Path) -> None:
    for option, text in (("--zebra", "--zebra"), ("--ouput", "--output")):
        result = call("train", folder / "tag.toml", option, 5)
        assert result.exit_code == 2
        assert text in result.stderr
    by_task = call("train", "--task", "language_model", "--data", "x", "--hidden-size", 5)
    assert by_task.exit_code == 2
    assert "the override task.decoder." in by_task.stderr
    assert "the override train.epochs=…" in call("check", folder / "tag.toml", "--epochs", 5).stderr
    assert "the override train.epochs=…" in call("compare", folder / "tag.toml", "base", "--epochs", 5).stderr


def test_errors_in_data_name_the_line(folder: Path, tagger: Path) -> None:
    bad = folder / "bad.conll"
    for result in (
        call("train", folder / "tag.toml", *SMALL, f"task.train={bad}", "--output", folder / "never"),
        call("evaluate", tagger, bad),
        call("predict", tagger, bad),
    ):
        assert result.exit_code == 1
        assert result.stderr.startswith(f"seqloom: {bad}:2: ")
    assert not (folder / "never").exists()


@pytest.mark.parametrize("command", ["evaluate", "predict", "generate", "info", "train --resume", "export"])
def test_a_missing_run(command: str, tmp_path: Path) -> None:
    further = ["some.arpa"] if command in ("evaluate", "export") else []
    result = call(*command.split(), tmp_path / "nowhere", *further)
    assert result.exit_code == 1
    assert str(tmp_path / "nowhere") in result.stderr
    assert "Traceback" not in result.output


def test_a_missing_file(folder: Path, tagger: Path) -> None:
    for result in (
        call("evaluate", tagger, folder / "none"),
        call("train", "--task", "tag", "--data", folder / "none"),
    ):
        assert result.exit_code == 1
        assert str(folder / "none") in result.stderr


def test_nothing_to_train() -> None:
    result = call("train")
    assert result.exit_code == 1
    assert "--task and --data" in result.stderr


def test_divergence_exits_with_three(folder: Path) -> None:
    changes = [*SMALL, "train.optimizer=sgd", "train.learning_rate=1e30", "train.clip_norm=0", "train.epochs=20"]
    result = call("train", folder / "tag.toml", *changes, "--output", folder / "diverged", "--quiet")
    assert result.exit_code == 3
    assert "not finite" in result.stderr
    assert "lower train.learning_rate" in result.stderr
    assert not (folder / "diverged" / "best").exists()


def test_a_closed_pipe_is_no_error(tagger: Path) -> None:
    command = f"yes the cat | head -1000 | {sys.executable} -m seqloom predict {tagger} - | head -1"
    environment = {**os.environ, "PYTHONPATH": str(Path(seqloom.__file__).parent.parent)}
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, env=environment)  # noqa: S602
    assert ended.stdout.startswith("the\t")
    assert ended.stderr == ""


def test_a_deleted_current_folder_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "cwd", fail)
    monkeypatch.setattr("seqloom.terminal.prepare_output", lambda: None)
    with pytest.raises(SystemExit, match="the current folder cannot be used"):
        main()


def test_help_names_values_as_people_do() -> None:
    """No Python types, such as ``list[str]``, and no braces around required arguments."""
    for command in ("explain", "evaluate", "compare", "serve"):
        text = CliRunner().invoke(app, [command, "--help"]).stdout
        assert not re.search(r"list\[|<int|<float|<str|<path|\{", text)
    assert "explain [OPTIONS] RUN [SOURCE]..." in CliRunner().invoke(app, ["explain", "--help"]).stdout
