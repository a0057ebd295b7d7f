import gzip
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from seqloom import config, workflow
from seqloom.data.readers.text_files import DataError
from seqloom.model import Model, load
from seqloom.run_config import Config
from seqloom.tasks.language_model import LanguageModel

WORDS = ["the", "cat", "sat", "on", "mat", "<unk>", "caf\u00e9"]


def task(**options: Any) -> LanguageModel:
    return LanguageModel.model_validate_json(json.dumps({"train": "train.txt", **options}))


def write(path: Path, *, seed: int, more: tuple[str, ...] = ()) -> None:
    draw = random.Random(seed)  # noqa: S311  data, not secrets
    texts = (" ".join(draw.choices(WORDS, range(7, 0, -1), k=draw.randint(0, 9))) for _ in range(60))
    path.write_text("".join(f"{text}\n" for text in [*texts, *more]), encoding="utf-8")


def unit(model: Model) -> str:
    assert isinstance(model.task, LanguageModel)
    return model.task.text.unit


def trained(folder: Path, output: str, *, unit: str = "words", **fields: Any) -> Model:
    values = {"name": "language_model", "model": "ngram", "order": 3, "dev": str(folder / "dev.txt"), **fields}
    values["text.unit"] = unit
    given = [f"task.{name}={json.dumps(value)}" for name, value in values.items()]
    settings = Config.build(config.Document.empty(given), defaults=False)
    return load(workflow.train(settings, output=folder / output).path)


def _scores(metrics: dict[str, Any]) -> dict[str, float]:
    """The numbers among the metrics; a model that was read from a file has no training texts for a baseline."""
    return {name: value for name, value in metrics.items() if isinstance(value, float | int)}


def shuffled(text: str) -> str:
    """An ARPA file whose n-grams, and so its words, stand in another order."""
    head, *sections = text.removesuffix("\n\\end\\\n").split("\n\\")
    mixed = []
    for section in sections:
        title, *rows = section.strip("\n").split("\n")
        random.Random(1).shuffle(rows)  # noqa: S311
        mixed.append("\n".join([title, *rows, ""]))
    return "\n\\".join([head, *mixed]) + "\n\\end\\\n"


@pytest.fixture(scope="module", params=["words", "characters"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Model]:
    """A folder with texts, an n-gram model of them, and that as model.arpa."""
    folder = tmp_path_factory.mktemp(request.param)
    write(folder / "train.txt", seed=1)
    write(folder / "dev.txt", seed=2, more=("a zebra sat",))
    model = trained(folder, "counted", train=str(folder / "train.txt"), unit=request.param)
    model.export(folder / "model.arpa")
    return folder, model


@pytest.mark.parametrize("foreign", [False, True])
def test_an_exported_model_survives_import(run: tuple[Path, Model], foreign: bool) -> None:
    folder, model = run
    arpa = folder / f"{foreign}.arpa.gz"
    text = (folder / "model.arpa").read_text(encoding="utf-8")
    if foreign:
        text = shuffled(text).replace("<unk>", "<UNK>")
    arpa.write_bytes(gzip.compress(text.encode()))
    again = trained(folder, f"read-{foreign}", arpa=str(arpa), unit=unit(model))
    assert isinstance(again.task, LanguageModel)
    assert isinstance(model.task, LanguageModel)
    assert sorted(again.task.tokenizer.vocabulary.tokens) == sorted(model.task.tokenizer.vocabulary.tokens)
    expected = model.evaluate(folder / "dev.txt")
    assert expected["unknown"] > 1
    assert _scores(again.evaluate(folder / "dev.txt")) == pytest.approx(_scores(expected), rel=1e-12)
    again.export(folder / "again.arpa.gz")
    assert gzip.decompress((folder / "again.arpa.gz").read_bytes()).count(b"\n") == text.count("\n")


def test_kenlm_gives_the_same_perplexity(run: tuple[Path, Model]) -> None:
    kenlm = pytest.importorskip("kenlm")
    folder, model = run
    theirs = kenlm.Model(str(folder / "model.arpa"))
    lines = (folder / "dev.txt").read_text().splitlines()
    if unit(model) == "characters":
        lines = [" ".join("<space>" if letter == " " else letter for letter in line) for line in lines]
    scores = [score for line in lines for score, _, _ in theirs.full_scores(line)]
    metrics = model.evaluate(folder / "dev.txt")
    assert metrics["tokens"] == len(scores)
    assert metrics["loss"] == pytest.approx(-math.fsum(scores) / len(scores) * math.log(10), rel=1e-6)


def test_a_run_does_not_need_its_arpa_file(run: tuple[Path, Model]) -> None:
    folder, model = run
    arpa = folder / "gone.arpa"
    model.export(arpa)
    trained(folder, "gone", arpa=str(arpa), unit=unit(model))
    arpa.unlink()
    assert _scores(load(folder / "gone").evaluate(["the cat"])) == _scores(model.evaluate(["the cat"]))
    with pytest.raises(DataError, match="no such file"):
        trained(folder, "never", arpa=str(arpa))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": "neural"}, 'arpa needs model = "ngram", but model is "neural"'),
        ({"text": {"unit": "subwords"}}, 'arpa needs text.unit = "words" or "characters"'),
    ],
)
def test_settings_that_conflict_with_arpa(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        task(**{"model": "ngram", "arpa": "x.arpa", **fields})


@pytest.mark.parametrize(
    ("word", "unit", "message"),
    [
        ("<pad>", "words", "contains the word <pad>, which is reserved"),
        ("ab", "characters", "found 'ab', expected single characters"),
    ],
)
def test_invalid_words_in_an_arpa_file(word: str, unit: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.arpa"
    path.write_text(f"\\data\\\nngram 1=3\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-1 {word}\n\n\\end\\\n")
    with pytest.raises(DataError, match=message):
        task(model="ngram", arpa=str(path), text={"unit": unit}).fit(())


def test_lines_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"a caf\xe9\n")
    lines = task(encoding="latin-1").read(tmp_path / "x.txt")
    assert [(line.text, len(line)) for line in lines] == [("a café", 2)]
