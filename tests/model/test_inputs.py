"""Inputs of a trained model: files in another format or encoding than the training data, standard input."""

import io
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.tiny import CASES, build
from typer.testing import CliRunner

from seqloom import workflow
from seqloom.cli.main import app
from seqloom.config import ConfigError
from seqloom.data.readers.text_files import DataError
from seqloom.model import Model, load
from seqloom.model.inputs import AGAIN, InputReader
from seqloom.tasks.caption import Caption


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    result = {}
    for name, fields in {"tag, hmm": {}, "classify": {"encoding": "latin-1"}, "forecast": {}}.items():
        folder = tmp_path_factory.mktemp(name.partition(",")[0])
        case = CASES[name]
        settings = build(case._replace(fields=case.fields | fields), folder, epochs=1)
        result[case.name] = workflow.train(settings, output=folder / "run").path
    return result


def output(model: Model, source: Path | str, **given: Any) -> list[str]:
    return [str(answer) for answers in model.predict_batches(model.read(source, **given)) for answer in answers]


def set_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))


def test_a_file_in_another_format(models: dict[str, Path], tmp_path: Path) -> None:
    model = load(models["tag"])
    path = tmp_path / "x.txt"
    path.write_text("Anna sees\nParis\n")
    expected = [str(answer) for answer in model.predict(["Anna sees", "Paris"])]
    assert output(model, path, file_format="lines") == expected
    assert output(model, path, file_format="lines", encoding="cp1252") == expected
    assert output(model, path) == expected  # its last words are no labels
    with pytest.raises(DataError, match="expected 2 columns as in the rows above, found 1"):
        output(model, path, file_format="conll")
    assert model.task.model_dump()["format"] == "auto"  # the model stays as it was


def test_standard_input_is_lines_by_default(models: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(models["tag"])
    expected = [str(answer) for answer in model.predict(["Anna sees", "Paris"])]
    set_stdin(monkeypatch, b"Anna sees\nParis\n")
    assert output(model, "-") == expected
    set_stdin(monkeypatch, b"Anna O\nsees O\n\nParis O\n")
    assert output(model, "-", file_format="conll") == expected


def test_standard_input_is_utf_8_by_default(models: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(models["classify"])
    texts = [example.content for example in model.read(["caf\u00e9"])]
    for data, given in (("caf\u00e9".encode(), {}), (b"caf\xe9", {"encoding": "latin-1"})):
        set_stdin(monkeypatch, data)
        assert [example.content for example in model.read("-", **given)] == texts


@pytest.mark.parametrize(
    ("task", "given", "message"),
    [
        (
            "tag",
            {"file_format": "conl"},
            r'task\.format: expected one of: "auto", "conll", .*; got "conl"; did you mean "conll"\?',
        ),
        ("tag", {"encoding": "latin-11"}, r'task\.encoding = "latin-11": unknown text encoding'),
        ("forecast", {"file_format": "conll"}, r"the task forecast has no option 'format' \(available: encoding\)"),
    ],
)
def test_unsupported_options_are_refused(
    models: dict[str, Path], task: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, ConfigError), match=message):
        load(models[task]).read("-", **given)


def test_the_command(models: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes("Anna caf\u00e9\n".encode("latin-1"))
    run = str(models["tag"])
    result = CliRunner().invoke(app, ["predict", run, str(path), "--format", "lines", "--encoding", "latin-1"])
    assert result.exit_code == 0, result.stderr
    assert [line.split("\t")[0] for line in result.stdout.splitlines() if line] == ["Anna", "caf\u00e9"]
    result = CliRunner().invoke(app, ["predict", run, str(path), "--format", "line"])
    assert result.exit_code == 1
    assert 'task.format: expected one of: "auto"' in result.stderr


def test_tables_in_memory(models: dict[str, Path]) -> None:
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    model, texts = load(models["classify"]), ["a b", "b c", "c"]
    expected = [str(answer) for answer in model.predict(texts)]
    for columns in ({"text": texts}, {"number": [1, 2, 3], "text": texts}):
        tables: list[Any] = [columns, pandas.DataFrame(columns), polars.DataFrame(columns)]
        for table in tables:
            assert [str(answer) for answer in model.predict(table)] == expected
    tagger = load(models["tag"])
    frame = pandas.DataFrame({"id": [1, 1, 2], "word": ["Anna", "sees", "Paris"]})
    assert [str(answer) for answer in tagger.predict(frame)] == [
        str(answer) for answer in tagger.predict(["Anna sees", "Paris"])
    ]


def test_two_words_are_not_a_text_and_its_label(models: dict[str, Path]) -> None:
    model = load(models["classify"])
    label = model.predict(["low"])[0].label
    assert len(model.predict([("it goes up", label), ["it goes up", label]])) == 2
    for words in (["it", "goes"], ("it", "goes")):
        with pytest.raises(DataError, match=r"input:2: expected a text, found two: 'goes' is not a label of the model"):
            model.predict(["low", words])
    with pytest.raises(DataError, match="expected a text, found int"):
        model.predict([1, 2])


def test_a_setting_is_not_a_text(models: dict[str, Path]) -> None:
    model = load(models["classify"])
    with pytest.raises(DataError, match="settings are those of the training and cannot be changed any more"):
        model.predict("task.text_column=review")
    assert len(model.predict(["task.text_column=review"])) == 1
    result = CliRunner().invoke(app, ["predict", str(models["classify"]), "task.text.unit=words"])
    assert result.exit_code == 1
    assert "is read from standard input" in result.stderr


def test_a_missing_file_of_a_model_that_reads_no_texts() -> None:
    """Only models that read texts have to tell them from names of files."""
    for name in ("nofile.gif", "two words"):
        with pytest.raises(DataError) as caught:
            InputReader(Caption(train="x.tsv")).source(name, again=AGAIN)
        assert str(caught.value).startswith(f"{name}: no such file")
        assert AGAIN not in str(caught.value)
