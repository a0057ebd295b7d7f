"""README and docs are correct: their Python blocks run and print what they promise, and their commands work."""

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
import wave
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from docs.site import gallery
from matplotlib.figure import Figure
from tests.examples.test_examples import FURTHER_USES
from typer.testing import CliRunner

import seqloom
from seqloom import lab, tasks, testing
from seqloom.cli.main import app
from seqloom.comparison import subprocess_trial, trial
from seqloom.config.schema import Sections, all_keys
from seqloom.data import synthetic_speech
from seqloom.data.builtin import datasets
from seqloom.data.builtin.datasets import build
from seqloom.data.synthetic_speech import Voice
from seqloom.run_config import Config
from seqloom.training.config import TrainConfig

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "src/seqloom/examples").glob("*.toml"))
SHORT = ["train.updates=2"]
COMPILER, NODE = shutil.which("cc"), shutil.which("node")
BUILT = (
    *(
        "python_tags",
        "digits",
        "prose",
        "sunspots",
        "parentheses",
        "dates",
        "shapes",
        "tones",
        "moving_shapes",
        "handwriting",
        "pen_strokes",
        "tunes",
        "control",
        "entailment",
        "stories",
    ),
)
"""The built-in data sets that the documentation trains on."""

RUNS = {
    "tag": ["tag.toml"],
    "control": ["control.toml"],
    "entailment": ["entailment.toml"],
    "stories": ["stories.toml"],
    "classify": ["classify.toml"],
    "forecast": ["forecast.toml"],
    "three_years": ["forecast.toml", "task.horizon=3"],
    "other_forecast": ["forecast.toml", "train.seed=2"],
    "sales": [
        *("--task", "forecast", "--data", "sales.csv[0:0.8]", "task.dev=sales.csv[0.8:1]", "task.target=sales"),
        *("task.horizon=14", "task.calendar=true"),
    ],
    "language_model": ["language_model.toml"],
    "translate": ["translate.toml"],
    "second": ["translate.toml", "train.seed=2"],
    "network": ["--task", "translate", "--data", "pronunciations.tsv"],
    "counts": ["--task", "translate", "--data", "pronunciations.tsv", "task.model=joint_ngram"],
    "hybrid": ["--task", "translate", "--data", "pronunciations.tsv", "task.model=hybrid"],
    "short": ["translate.toml", "train.max_length=14"],
    "tones": ["--task", "classify", "--data", "tones/train.tsv", "task.dev=tones/dev.tsv"],
    "caption": ["caption.toml"],
    "clips": ["--task", "caption", "--data", "moving_shapes/train.tsv", "task.dev=moving_shapes/dev.tsv"],
    "transcribe": ["transcribe.toml"],
    "words": ["--task", "language_model", "--data", "sounds/texts.txt", "task.model=ngram"],
    "answers": ["--task", "language_model", "--data", "answers.txt", "task.model=ngram", "task.text.unit=characters"],
    "stream": [
        *("--task", "transcribe", "--data", "sounds"),
        *("task.encoder.bidirectional=false", "task.normalize=streaming"),
    ],
    "joint": ["--task", "transcribe", "--data", "sounds", "task.model=joint"],
    "handwriting": ["handwriting.toml"],
    "music": ["music.toml"],
    "opinions": ["--task", "classify", "--data", "reviews.csv"],
    "speech": ["--task", "transcribe", "--data", "sounds"],
    "embed": ["embed.toml"],
    "contextual": ["contextual.toml"],
    "masked": ["masked.toml"],
    "tag_contextual": ["tag.toml", "task.pretrained.run=runs/contextual"],
    "ngram": ["language_model.toml", "task.model=ngram"],
    "forgetful": ["tagger.toml", "--layer", "mine:Forgetful"],
}
"""The runs that the documentation names, and how they are trained here."""

SENTENCES = {
    "train": ("the clouds are in the sky", "a cloud moved", "the sky is blue", "we are in a cloud"),
    "dev": ("the clouds moved", "a sky is in the clouds"),
    "test": ("we moved the clouds", "the cloud is blue"),
}
TONES = {"high": 1.2, "low": 0.3, "up": 0.8}
PART_OF_SPEECH = {
    "the": "DET",
    "a": "DET",
    "in": "ADP",
    "is": "AUX",
    "are": "AUX",
    "we": "PRON",
    "moved": "VERB",
    "blue": "ADJ",
}


def pages() -> list[object]:
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def shell_lines(text: str) -> list[str]:
    """The lines of all blocks of shell commands."""
    return "".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)).splitlines()


def commands() -> list[str]:
    """Every command in a shell block, in backquotes or at the top of an example, without the comment after it."""
    lines = set()
    for page in PAGES:
        text = page.read_text()
        shell = [line for line in shell_lines(text) if line.startswith(("seqloom ", "torchrun ", "echo "))]
        lines |= {*shell, *re.findall(r"`(seqloom [a-z][^`]*)`", text)}
    for example in EXAMPLES:
        lines |= set(re.findall(r"^# {5}((?:seqloom|echo) .+)$", example.read_text(), re.MULTILINE))
    return sorted({re.sub(r" +# .*", "", line) for line in lines})


def run_command(words: list[str], *, standard_input: str = "") -> str:
    result = CliRunner().invoke(app, words, input=standard_input)
    assert result.exit_code == 0, result.output
    return result.stdout


def run_trial_here(config: Config, folder: Path, **options: Any) -> dict[str, Any]:
    """A trial in this process, which saves starting another one."""
    layer = options.get("layer")
    return trial.run_trial(config, folder, layer=layer and layer.factory, brief=options.get("brief", False))


def tagged(sentence: str) -> str:
    """A sentence as CoNLL-U."""
    rows = enumerate(sentence.split(), start=1)
    return "".join(
        f"{number}\t{word}\t_\t{PART_OF_SPEECH.get(word, 'NOUN')}" + "\t_" * 6 + "\n" for number, word in rows
    )


def write_recordings(folder: Path) -> None:
    """Recordings of tones with the names of the tones as transcripts, lists of them, and the transcripts alone."""
    (folder / "clips").mkdir(parents=True)
    draw = np.random.default_rng(1)
    texts = []
    for part, count in (("train", 12), ("dev", 3), ("test", 3)):
        rows = []
        for number in range(count):
            words = draw.choice(list(TONES), size=2).tolist()
            samples = np.concatenate([np.sin(np.arange(2400) * TONES[word]) for word in words])
            with wave.open(str(folder / "clips" / f"{part}-{number}.wav"), "wb") as file:
                file.setparams((1, 2, 8000, 0, "NONE", ""))
                file.writeframes((samples * 20000).astype("<i2").tobytes())
            rows.append(f"clips/{part}-{number}.wav\t{' '.join(words)}\n")
            texts += [" ".join(words)]
        (folder / f"{part}.tsv").write_text("".join(rows))
    shutil.copy(folder / "train.tsv", folder / "all.tsv")
    (folder / "texts.txt").write_text("".join(f"{text}\n" for text in texts))


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small versions of the files and runs that the documentation names."""
    folder = tmp_path_factory.mktemp("workspace")
    for name, sentences in SENTENCES.items():
        (folder / f"{name}.conllu").write_text("\n".join(map(tagged, sentences)))
    with pytest.MonkeyPatch.context() as patch:
        small = (
            (datasets.TONES, 12),
            (datasets.CLIPS, 14),
            (datasets.WORDS, 60),
            (datasets.TEXTS, 120),
            (datasets.TUNES, 6),
        )
        for sizes, size in ((datasets.DATES, 120), (datasets.IMAGES, 120), (datasets.LINES, 120), *small):
            for split in sizes:
                patch.setitem(sizes, split, size)
        for name in BUILT:
            for path in filter(Path.is_file, build(name, folder / name)):
                lines = path.read_text().splitlines(keepends=True)
                path.write_text("".join(lines[: 24 if path.stem == "test" else 120]))
    for example in EXAMPLES:
        shutil.copy(example, folder)
    write_recordings(folder / "sounds")
    (folder / "words.txt").write_text("high\nlow\nup\n")
    days = (date(2023, 1, 1) + timedelta(days=number) for number in range(300))
    rows = (f"{day},{100 + 20 * (day.weekday() < 5) + day.day}\n" for day in days)
    (folder / "sales.csv").write_text("date,sales\n" + "".join(rows))
    pd.read_csv(folder / "sales.csv", parse_dates=["date"]).to_excel(folder / "sales.xlsx", index=False)
    reviews = [("great fun", 5), ("too long", 1), ("a joy to watch", 5), ("a waste of time", 1)] * 10
    (folder / "reviews.csv").write_text("review,stars\n" + "".join(f"{text},{stars}\n" for text, stars in reviews))
    (folder / "new.csv").write_text("review\nfun to watch\nlong\n")
    rows = (f"{number % 7},{number % 5},{number % 7 * 0.5:.1f}\n" for number in range(60))
    (folder / "machine.csv").write_text("load,vibration,power_kw\n" + "".join(rows))
    shutil.copytree(folder / "sounds" / "clips", folder / "new", ignore=shutil.ignore_patterns("train-*"))
    build("analogies", folder / "analogies")
    (folder / "vectors.txt").write_text("for 0.1 0.2 0.3\nin 0.3 0.1 0.2\n")
    (folder / "answers.txt").write_text("1789-07-14\n2001-02-03\n")
    pairs = re.findall(r"^    (\w[^\t\n]*\t.*\n)", (ROOT / "docs/translate.md").read_text(), re.MULTILINE)
    (folder / "commands.tsv").write_text("".join(pairs))
    (folder / "pronunciations.tsv").write_text("PHOENIX\tF IY N IH K S\nPIN\tP IH N\nNIX\tN IH K S\n" * 5)
    (folder / "unseen.tsv").write_text("PIX\tP IH K S\n")
    (folder / "mine.py").write_text(blocks(ROOT / "README.md")[2])
    with contextlib.chdir(folder):
        (folder / "tagger.toml").write_text(run_command(["init", "tag"]).replace("path/to/", ""))
        (block,) = re.findall(r"^```toml\n(.*?)^```$", (ROOT / "docs/sweep.md").read_text(), re.MULTILINE | re.DOTALL)
        (folder / "tag_sweep.toml").write_text((folder / "tag.toml").read_text() + block)
        for name, words in RUNS.items():
            run_command(["train", *words, *SHORT, "--quiet", "--output", f"runs/{name}"])
        run_command(["export", "runs/words", "words.arpa"])
        run_command(["quantize", "runs/tag", "runs/tag-int8", "--tolerance", "1"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(subprocess_trial, "run_trial_in_subprocess", run_trial_here)
            run_command(["sweep", "tag_sweep.toml", "sweep.trials=1", *SHORT, "--output", "runs/sweep"])
    return folder


@pytest.fixture(scope="module")
def rendered_once() -> Iterator[None]:
    """Render one plot of each function that draws, in each format; the files of further ones are empty."""
    rendered = set()
    savefig = Figure.savefig

    def save(figure: Figure, file: Any, **options: Any) -> None:
        drawing = sys._getframe(2).f_code  # what calls seqloom.insight.plotting.save_figure
        if (drawing, options["format"]) not in rendered:
            rendered.add((drawing, options["format"]))
            savefig(figure, file, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", save)
        yield


@pytest.fixture
def inside(workspace: Path, rendered_once: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(workspace)
    return workspace


@pytest.mark.parametrize("page", pages())
def test_python_blocks_print_what_they_promise(page: Path, inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess_trial, "run_trial_in_subprocess", run_trial_here)
    monkeypatch.setattr(testing.cells, "print_report", lambda _: None)  # differences vary from machine to machine
    code = "\n".join(blocks(page))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(page), "exec"), {"__name__": page.stem})  # noqa: S102
    promised = re.findall(r"^ *print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert printed.getvalue().splitlines() == promised


def test_first_examples_are_short() -> None:
    first, _, cell, _ = blocks(ROOT / "README.md")
    layer = blocks(ROOT / "docs" / "recurrent.md")[0]
    assert [len(block.splitlines()) <= most for block, most in ((first, 10), (cell, 20), (layer, 10))] == [True] * 3


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (cc)")
def test_documented_c_program(inside: Path, tmp_path: Path) -> None:
    """It prints what the model predicts."""
    (source,) = re.findall(r"^```c\n(.*?)^```$", (ROOT / "docs/compile.md").read_text(), re.MULTILINE | re.DOTALL)
    run_command(["export", "runs/control", str(tmp_path / "control.o")])
    (tmp_path / "main.c").write_text(source)
    command = [str(COMPILER), "-std=c99", "-Wall", "-Werror", "main.c", "control.o", "-o", "control"]
    subprocess.run(command, cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "control"], capture_output=True, text=True, check=True).stdout
    forces = np.array([[0.0], [1.0], [1.0], [0.5]])
    (answer,) = seqloom.load(inside / "runs/control").predict([forces])
    assert np.abs(np.array(printed.split(), dtype=float) - np.array(answer.value)).max() < 1e-5


@pytest.mark.skipif(NODE is None, reason="there is no Node (node)")
def test_documented_webassembly_program(inside: Path, tmp_path: Path) -> None:
    (source,) = re.findall(r"^```js\n(.*?)^```$", (ROOT / "docs/compile.md").read_text(), re.MULTILINE | re.DOTALL)
    run_command(["export", "runs/opinions", str(tmp_path / "opinions.wasm")])
    (tmp_path / "main.mjs").write_text(source)
    printed = subprocess.run([str(NODE), "main.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    (answer,) = seqloom.load(inside / "runs/opinions").predict(["a joy to watch"])
    rows = dict(line.split() for line in printed.splitlines())
    assert {label: float(value) for label, value in rows.items()} == pytest.approx(answer.probabilities, abs=1e-6)


def shortened(words: list[str], folder: Path) -> list[str]:
    """The same command with a small budget."""
    name = words[0]
    if name == "compare":
        budget = {"--minutes": "0.0001", "--tokens": "1", "--seeds": "1", "--folds": "2", "--output": str(folder)}
        limited = "--minutes" in words or "--tokens" in words
        changed = [budget.get(previous, word) for previous, word in pairwise(words)]
        return [name, *changed, *([] if limited else ["--tokens", "1"]), "--output", str(folder)]
    if name == "sweep" and "runs/sweep" in words:
        return [*words, "sweep.trials=1"]
    if name == "sweep":
        return [*words, "sweep.trials=1", *SHORT, "--output", str(folder)]
    if name == "quantize":  # a model that has hardly been trained
        return [*words, "--tolerance", "1"]
    if name == "train" and "--from" in words:  # sizes have to be those of the other run
        same = f"{words[words.index('--from') + 1]}/config.toml"
        return [*(same if word.endswith(".toml") else word for word in words), *SHORT]
    if name == "train" and "--resume" not in words:
        return [*words, *SHORT]
    if name == "train":  # the limit of the runs here is train.updates
        return ["train.updates=3" if word.startswith("train.epochs=") else word for word in words]
    return words


TESTED_ELSEWHERE = {"demo": tasks.names(), "lab": lab.names(), "data": list(datasets.BUILDERS)}
"""Commands whose own tests run them with each of these names."""


def is_path(word: str) -> bool:
    return "/" in word and not word.startswith("--")


def check_parts(words: list[str]) -> None:
    """Check a command that cannot be run here: it exists, and so do its files."""
    run_command([words[0], "--help"])
    files = [word for word in words[1:] if is_path(word) or word.endswith(".toml")]
    assert [word for word in files if not Path(word).exists() and not (ROOT / word).exists()] == []


def split_pipe(command: str) -> tuple[str, str]:
    """The standard input that an ``echo`` pipes into a command, and the command without redirection."""
    echo, pipe, rest = command.rpartition(" | ")
    return f"{shlex.split(echo)[1]}\n" if pipe else "", rest.partition(" > ")[0]


@pytest.mark.parametrize("page", [*pages(), pytest.param(ROOT / "docs/site/index.md", id="index.md")])
def test_commands_can_be_pasted(page: Path) -> None:
    """Commands stand in shell blocks, and explanations beside them are comments."""
    text = page.read_text()
    assert [line for line in shell_lines(text) if re.search(r"  +(?!# )\S", line)] == []
    assert re.findall(r"^ {4}(?:seqloom|torchrun|pip|docker|scripts/\w+) .*$", text, re.MULTILINE) == []


@pytest.mark.parametrize("command", commands())
def test_documented_commands_work(command: str, inside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standard_input, command = split_pipe(command)
    words = shlex.split(command)
    if words[0] == "torchrun":
        words = words[words.index("seqloom") :]
        assert words.pop(1) == "train"
        check_parts(["train", *words[1:]])
        return
    words = words[1:]
    if words[0].startswith("--"):  # would change this machine, or only prints something
        assert words[0] in run_command(["--help"])
        return
    if len(words) == 1 or "benchmarks/" in command:
        check_parts(words)
        return
    if command in {line for picture in gallery.PICTURES for line in picture.commands}:  # run by docs/site/gallery.py
        assert (ROOT / "docs" / "gallery.md").is_file()
        options = {word for word in words if word.startswith("--")}
        assert options <= set(re.findall(r"--[a-z-]+", run_command([words[0], "--help"])))
        return
    if words[0] in TESTED_ELSEWHERE:
        assert words[1] in TESTED_ELSEWHERE[words[0]]
        check_parts(words)
        return
    if words[0] in ("serve", "studio"):  # tests/service and tests/studio start them; here, their options are read
        served = Mock(return_value=0)
        monkeypatch.setattr("seqloom.service.serve.serve_runs", served)
        monkeypatch.setattr("seqloom.studio.studio.run_studio", served)
        run_command(words)
        served.assert_called_once()
        check_parts(words)
        return
    if words[0] == "synthesize":  # tests/data/test_synthetic_speech.py speaks
        monkeypatch.setattr(synthetic_speech, "choose_voices", lambda *_, **__: [Voice("en", "Andy", 50, 150)])
        monkeypatch.setattr(synthetic_speech, "speak", lambda *_, **__: np.ones(800))
    monkeypatch.setattr(subprocess_trial, "run_trial_in_subprocess", run_trial_here)
    if "--output" in words:
        shutil.rmtree(words[words.index("--output") + 1], ignore_errors=True)
    if words[0] == "quantize":
        shutil.rmtree(words[2], ignore_errors=True)
    printed = run_command(shortened(words, tmp_path / "new"), standard_input=standard_input)
    assert printed or "--quiet" in words or words[0] == "export"


def test_examples_train() -> None:
    trained = {words[0] for words in RUNS.values()} | {f"{name}.toml" for name in FURTHER_USES}
    assert {example.name for example in EXAMPLES} <= trained


@pytest.mark.parametrize("page", pages())
def test_named_keys_exist(page: Path) -> None:
    sections: list[Sections] = [{"train": TrainConfig}, *({"task": tasks.find(name)} for name in tasks.names())]
    known = {".".join(map(str, path)) for section in sections for path in all_keys(section)}
    named = set(re.findall(r"`((?:task|train)\.[a-z_.]+)(?: ?=[^`]*)?`", page.read_text()))
    files = {"train.log", "train.en", "train.de"}
    assert named - known - files == set()


@pytest.mark.parametrize("page", [*pages(), pytest.param(ROOT / "ARCHITECTURE.md", id="ARCHITECTURE.md")])
def test_named_files_exist(page: Path) -> None:
    text = page.read_text()
    links = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target]
    files = re.findall(r"(?<![\w/.])(?:scripts/\w+|(?:tests|benchmarks|src)/[\w/]+\.(?:py|toml))", text)
    targets = [*((page.parent / link) for link in links), *((ROOT / file) for file in files)]
    assert [target for target in targets if not target.exists()] == []
