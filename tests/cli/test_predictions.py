"""Predictions say which sequence and which file they belong to."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from seqloom import terminal
from seqloom.cli.predictions import NamedInput, PredictionPrinter
from seqloom.data.readers.labelled import LabelledReader

TABLE = "id,time,ax,activity\nb,0,1,sit\na,0,2,sit\nb,1,3,sit\na,1,4,sit\n"
RECORDING = "time,ax\n0,1\n1,2\n"
TASK: Any = SimpleNamespace(to_json=asdict, input_warning=lambda _: "", is_empty_input=lambda example: not len(example))


@dataclass
class Answer:
    label: str

    def __str__(self) -> str:
        return self.label


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "x.csv").write_text(TABLE)
    return tmp_path / "x.csv"


def lines(capsys: pytest.CaptureFixture[str], *files: Path, as_json: bool = False) -> list[str]:
    """What is printed if the answer to an example is the number of its time steps."""
    printer = PredictionPrinter(TASK, as_json=as_json, names=len(files) > 1, interactive=False)
    reader = LabelledReader(known={"sit"}, kind="vectors")
    examples = printer.watch(NamedInput(str(file), reader.read(file)) for file in files)
    printer.print([Answer(str(len(example))) for example in list(examples)])
    return capsys.readouterr().out.splitlines()


def test_sequences_of_a_table_have_their_id(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, table) == ["b\t2", "a\t2"]
    assert [json.loads(line) for line in lines(capsys, table, as_json=True)] == [
        {"id": "b", "label": "2"},
        {"id": "a", "label": "2"},
    ]
    assert lines(capsys, table, table)[:2] == [f"{table}\tb\t2", f"{table}\ta\t2"]


def test_recordings_of_a_folder_have_their_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    for name in ("a.csv", "b.csv"):
        (folder / name).write_text(RECORDING)
    assert lines(capsys, folder) == [f"{folder / 'a.csv'}\t2", f"{folder / 'b.csv'}\t2"]
    assert json.loads(lines(capsys, folder, as_json=True)[1]) == {"file": str(folder / "b.csv"), "label": "2"}
    (tmp_path / "list.csv").write_text("file,label\nd/b.csv,sit\nd/a.csv,sit\n")
    assert lines(capsys, tmp_path / "list.csv") == ["d/b.csv\t2", "d/a.csv\t2"]


def test_one_recording_needs_no_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text(RECORDING)
    assert lines(capsys, tmp_path / "a.csv") == ["2"]


def test_json_has_the_digits_of_single_precision(capsys: pytest.CaptureFixture[str]) -> None:
    task: Any = SimpleNamespace(to_json=lambda value: {"probabilities": {"a": value}, "scores": [value]})
    PredictionPrinter(task, as_json=True, names=False, interactive=False).print([0.5175488024257344])
    assert capsys.readouterr().out == '{"probabilities": {"a": 0.517548802}, "scores": [0.517548802]}\n'


def test_sound_has_its_path_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("clips")
    folder.mkdir()
    for name in ("a.npy", "b.npy"):
        np.save(folder / name, np.zeros((2, 3), np.float32))
    first, second = folder / "a.npy", folder / "b.npy"
    expected = [f"{first}\t2", f"{second}\t2"]
    assert lines(capsys, first) == expected[:1]
    assert lines(capsys, first, second) == expected
    assert lines(capsys, folder) == expected
    assert json.loads(lines(capsys, first, as_json=True)[0]) == {"file": str(first), "label": "2"}


def test_texts_stand_before_their_answers_even_if_empty(capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (False, True):
        printer = PredictionPrinter(TASK, as_json=as_json, names=True, interactive=False)
        sources = [
            NamedInput(text, LabelledReader(known={"a"}).read([text]), is_text=True) for text in ("good", "", "bad")
        ]
        printer.print([Answer("a") for _ in printer.watch(sources)])
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == ["good\ta", "\ta", "bad\ta"]
    inputs = [json.loads(line) for line in printed[3:]]
    assert [each["input"] for each in inputs] == ["good", "", "bad"]
    assert "file" not in inputs[0]


def empty_lines(
    capsys: pytest.CaptureFixture[str], *texts: str, by_line: bool = False, as_json: bool = False
) -> tuple[list[str], list[str]]:
    """What is printed, and what is remarked, if the answer to a text is ``a``."""
    printer = PredictionPrinter(TASK, as_json=as_json, names=False, interactive=False)
    printer.by_line = by_line
    examples = list(printer.watch([NamedInput("x.csv", LabelledReader(known={"a"}).read(list(texts)))]))
    printer.print([Answer("a") if len(example) or not by_line else None for example in examples])
    printer.finish()
    printed = capsys.readouterr()
    return printed.out.splitlines(), printed.err.splitlines()


def test_answers_to_empty_texts_are_remarked_on(capsys: pytest.CaptureFixture[str]) -> None:
    out, remarks = empty_lines(capsys, "good", "", "bad", " ")
    assert out == ["a"] * 4
    assert remarks == ["note: 2 of 4 inputs are empty (input:2, input:4): their answers say nothing"]
    out, _ = empty_lines(capsys, "good", "", as_json=True)
    assert [json.loads(line) for line in out] == [
        {"label": "a"},
        {"label": "a", "warning": "the input is empty, so that this answer says nothing about it"},
    ]
    assert empty_lines(capsys, "good", "", "bad", by_line=True) == (["a", "", "a"], [])


def test_empty_answers_have_the_name_of_their_file(capsys: pytest.CaptureFixture[str]) -> None:
    printer = PredictionPrinter(TASK, as_json=False, names=True, interactive=False)
    for _ in printer.watch([NamedInput("a.wav", ["1"]), NamedInput("b.wav", ["2"]), NamedInput("c.wav", ["3"])]):
        pass
    printer.print([Answer(""), Answer("yes"), Answer("no\n\nyes")])
    assert capsys.readouterr().out == "a.wav\t\nb.wav\tyes\nc.wav\tno\n\nc.wav\tyes\n"


@dataclass
class Text:
    text: str
    nbest: list["Text"] = field(default_factory=list)

    def __str__(self) -> str:
        return "".join(f"{each.text}\t1\n" for each in self.nbest) or self.text


@pytest.mark.parametrize(
    ("has_breaks", "text", "expected"),
    [
        (True, "repeat 3\n\tleft", r"repeat 3\n\tleft"),
        (True, r"print('\n')", r"print('\\n')"),  # this backslash is another one
        (False, r"\frac", r"\frac"),
        (False, "a\nb", r"a\nb"),
    ],
)
def test_each_text_is_one_line(has_breaks: bool, text: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    task: Any = SimpleNamespace(**vars(TASK), answers_have_line_breaks=has_breaks)
    for nbest in ([], [Text(text), Text("x\ny")]):
        printer = PredictionPrinter(task, as_json=False, names=True, interactive=False)
        for _ in printer.watch([NamedInput("go\nleft", ["1"], is_text=True)]):
            pass
        printer.print([Text(text, nbest)])
        printer.finish()
        printed = capsys.readouterr()
        lines = [f"{expected}\t1", r"x\ny" + "\t1"] if nbest else [expected]
        assert printed.out.rstrip("\n") == "\n".join(rf"go\nleft{chr(9)}{line}" for line in lines)
        assert printed.err.startswith(r"note: each text is on one line: its line breaks are written as \n, tabs as \t")
    assert json.loads(terminal.json_line(asdict(Text(text))))["text"] == text
