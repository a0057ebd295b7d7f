import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.data.readers.labelled import LabelledReader
from seqloom.data.readers.labelled_formats import detect
from seqloom.data.readers.text_files import DataError
from seqloom.data.readers.vectors import write_npz

Rows = list[tuple[Any, str | None, int]]


def read(source: Any, **options: Any) -> Rows:
    actual = LabelledReader(**options).read(source)
    return [
        (
            example.content if isinstance(example.content, str) else example.content.tolist(),
            example.label,
            example.location.line,
        )
        for example in actual
    ]


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


TEXTS: Rows = [("good film", "pos", 1), ("bad , bad", "neg", 2)]
LATER: Rows = [(text, label, line + 1) for text, label, line in TEXTS]  # below a header


@pytest.mark.parametrize(
    ("name", "lines", "options", "expected"),
    [
        ("x.txt", ["pos good film", "neg bad , bad"], {}, TEXTS),
        ("x.txt", ["__label__pos good film", "__label__neg bad , bad"], {}, TEXTS),
        ("x.train", ["pos:very good film", "neg:little bad , bad"], {"label_separator": ":"}, TEXTS),
        ("x.tsv", ["Pos\tgood film", "NEG\tbad , bad"], {"lowercase_labels": True}, TEXTS),
        ("x.tsv", ["Very  Good\tgood film"], {"lowercase_labels": True}, [("good film", "very good", 1)]),
        ("x.tsv", ["pos\tgood film", "neg\tbad , bad"], {}, TEXTS),
        ("x.tsv", ["good film\t7\tpos", "bad , bad\t8\tneg"], {"label_column": -1, "text_column": 0}, TEXTS),
        ("x.tsv", ["t\ty", "good film\tpos", "bad , bad\tneg"], {"label_column": "y", "text_column": "t"}, LATER),
        ("x.csv", ["pos,good film", 'neg,"bad , bad"'], {}, TEXTS),
        ("x.data", ["pos,A1,   good film", "neg,A2,  bad"], {"format": "columns", "separator": ",", "text_column": 2},
         [TEXTS[0], ("bad", "neg", 2)]),
        ("x.jsonl", [json.dumps({"text": text, "label": label}) for text, label, _ in TEXTS], {}, TEXTS),
        ("x.txt", ['{"t": "good film", "y": 1}', '{"t": "b"}'], {"text_column": "t", "label_column": "y"},
         [("good film", "1", 1), ("b", None, 2)]),
        ("x.tra", ["1,2,3,4,a", "5,6,b"], {"channels": 2}, [([[1, 2], [3, 4]], "a", 1), ([[5, 6]], "b", 2)]),
        ("x.csv", ["label,t0,t1", "a,1,2"], {"label_column": 0}, [([[1], [2]], "a", 2)]),
        ("x.ts", ["@classLabel true a b", "@data", "1,2:3,4:b"], {}, [([[1, 3], [2, 4]], "b", 3)]),
    ],
)  # fmt: skip
def test_format_detection(tmp_path: Path, name: str, lines: list[str], options: Any, expected: Rows) -> None:
    assert read(write(tmp_path, name, *lines), **options) == expected


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("x.txt", ["pos caf\xe9", "neg b\xf6se"]),
        ("x.tsv", ["pos\tcaf\xe9", "neg\tb\xf6se"]),
        ("x.csv", ['pos,"caf\xe9"', "neg,b\xf6se"]),
        ("x.jsonl", ['{"label": "pos", "text": "caf\xe9"}', '{"label": "neg", "text": "b\xf6se"}']),
    ],
)
def test_encodings(tmp_path: Path, name: str, lines: list[str]) -> None:
    path = tmp_path / name
    path.write_bytes("\n".join(lines).encode("latin-1"))
    for known in (None, {"pos", "neg"}):
        assert read(path, encoding="latin-1", known=known) == [("café", "pos", 1), ("böse", "neg", 2)]
    with pytest.raises(DataError, match=f'{name}:1: expected UTF-8, found byte 0xe9 .* task.encoding = "latin-1"'):
        read(path)


@pytest.mark.parametrize("in_memory", [False, True])
def test_vectors_in_json_lines(in_memory: bool, tmp_path: Path) -> None:
    values, labels = [[[1, 2], [3, 4.5]], [[5, 6]]], ["a", "b"]

    def source(rows: list[dict[str, Any]]) -> Any:
        return rows if in_memory else write(tmp_path, "x.jsonl", *map(json.dumps, rows))

    rows = source([{"id": 7, "values": each, "label": label} for each, label in zip(values, labels, strict=True)])
    settings, note = LabelledReader().inspect(rows)
    assert settings == {"label_column": "label"}  # other files of vectors have no column of this name
    assert note == "vectors from column 2 'values', label from column 3 'label'; not read: column 'id'"
    assert read(rows) == read(rows, **settings) == [(values[0], "a", 1), (values[1], "b", 2)]
    # Numbers are one channel, or in a column called vector one vector.
    assert read(source([{"values": [1, 2], "label": "a"}])) == [([[1], [2]], "a", 1)]
    assert read(source([{"vector": [1, 2], "label": "a"}])) == [([[1, 2]], "a", 1)]
    chosen = {"text_column": "pen", "label_column": "what"}
    assert read(source([{"what": "a", "pen": [[1, 2]]}]), **chosen) == [([[1, 2]], "a", 1)]
    # A trained model reads them without labels, and holds missing values.
    unlabelled = source([{"values": [[1, 2], [None, 4]]}])
    assert read(unlabelled, known={"a"}, kind="vectors", missing="hold", **settings) == [([[1, 2], [1, 4]], None, 1)]


@pytest.mark.parametrize("label", [0.25, [1.5, -2]])
def test_numbers_as_targets_of_vectors_in_json_lines(label: Any, tmp_path: Path) -> None:
    path = write(tmp_path, "x.jsonl", json.dumps({"values": [[1, 2]], "label": label}))
    assert LabelledReader().target_format(path).kind == "number"
    (example,) = LabelledReader(target_type="number").read(path)
    assert example.target is not None
    assert example.target.tolist() == np.atleast_1d(label).tolist()


def test_texts_may_be_longer_than_the_name_of_a_file(tmp_path: Path) -> None:
    text = "so good that nobody wants it to end " * 10 + "."
    path = write(tmp_path, "x.csv", "text,label", f"{text},pos", f"{text}!,neg")
    assert read(path) == [(text, "pos", 2), (f"{text}!", "neg", 3)]


def test_folder_with_one_file_per_label(tmp_path: Path) -> None:
    write(tmp_path, "names/Czech.txt", "Abl", "", "Adsit")
    write(tmp_path, "names/Greek.txt", "Adamidis")
    write(tmp_path, "names/README.md", "Names.")
    assert read(tmp_path / "names") == [("Abl", "Czech", 1), ("Adsit", "Czech", 3), ("Adamidis", "Greek", 1)]
    assert read(tmp_path / "names" / "Greek.txt", format="folder", known={}) == [("Adamidis", None, 1)]


def test_npz(tmp_path: Path) -> None:
    write_npz(tmp_path / "x.npz", [[[1.0, 2.0]], [[3.0, 4.0]]], ["a", "b"])
    assert read(tmp_path / "x.npz") == [([[1, 2]], "a", 1), ([[3, 4]], "b", 2)]


def test_python_values() -> None:
    actual = read(["a text", ("another", "pos"), np.ones((2, 1)), ([1, 2], "neg")])
    assert actual == [("a text", None, 1), ("another", "pos", 2), ([[1], [1]], None, 3), ([[1], [2]], "neg", 4)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["pos good", "neg bad", "other odd"], [("good", "pos"), ("bad", "neg"), ("odd", "other")]),
        (["a good one", "pos or neg", "nothing"], [("a good one", None), ("pos or neg", None), ("nothing", None)]),
        (["__label__x one"], [("one", "x")]),
    ],
)
def test_labels_of_lines_are_optional_after_training(tmp_path: Path, lines: list[str], expected: list[Any]) -> None:
    actual = read(write(tmp_path, "x.txt", *lines), known={"pos", "neg"})
    assert [row[:2] for row in actual] == expected


def test_label_column_is_optional_after_training(tmp_path: Path) -> None:
    assert read(write(tmp_path, "x.tsv", "good film"), known={"pos"}) == [("good film", None, 1)]
    path = write(tmp_path, "y.tsv", "text\tnumber", "good film\t7")
    options: Any = {"label_column": "label", "text_column": "text"}
    assert read(path, known={"pos"}, **options) == [("good film", None, 2)]
    with pytest.raises(DataError, match=r"no column 'label' \(task\.label_column\); the header has text, number"):
        read(path, **options)


@pytest.mark.parametrize(
    ("name", "lines", "options", "message"),
    [
        (
            "x.txt",
            ["pos good", "neg"],
            {},
            r"x\.txt:2: expected a label and a text separated by a space, found only 'neg'",
        ),
        (
            "x.tsv",
            ["a\tb", "a\tc"],
            {"text_column": 4},
            r"x\.tsv:1: task\.text_column is 4, but there are only 2 columns",
        ),
        ("x.jsonl", ['{"label": "a"}'], {}, r"x\.jsonl:1: expected a column with the text and .* found only 'label'"),
        ("x.jsonl", ['{"label": "a", "text": true}'], {}, r"x\.jsonl:1: 'text': expected a string, found bool"),
        (
            "x.jsonl",
            ['{"text": "a", "label": ["b"]}'],
            {},
            r"x\.jsonl:1: 'label': expected a number, found 'b'",
        ),
        (
            "x.csv",
            ["1,2,3,4"],
            {"label_column": "y", "format": "numbers"},
            r"x\.csv: label_column: no column 'y'; the first row is not a header",
        ),
        ("d/x.md", ["1"], {"folder": True}, r"d: no \.txt file, table, sound or image in the folder"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, name: str, lines: list[str], options: Any, message: str) -> None:
    path = write(tmp_path, name, *lines)
    with pytest.raises(DataError, match=message):
        read(path.parent if options.pop("folder", False) else path, **options)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1, 2], [3]], r"x.jsonl:2: 'values': expected a list of numbers, or of vectors of equal length, found \[\[1"),
        ([[[1, 2]]], r"x.jsonl:2: 'values': expected .*, found shape \(1, 1, 2\)"),
        ([], "x.jsonl:2: 'values': expected .*, found no number"),
        (None, "x.jsonl:2: 'values': expected .*, found None"),
        ([[1, None]], "x.jsonl:2: element 1 of channel 2 is missing"),
    ],
)
def test_damaged_vectors_in_json_lines(values: Any, message: str, tmp_path: Path) -> None:
    rows = [{"values": [[0, 0]], "label": "a"}, {"values": values, "label": "a"}]
    with pytest.raises(DataError, match=message):
        read(write(tmp_path, "x.jsonl", *map(json.dumps, rows)))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "input:1: expected a string or numbers .*, found object"),
        (("a", [3, "b"]), "input:1: .label.: expected a number, found 'b'"),
        (np.zeros((1, 2, 3)), r"input:1: expected numbers \(T, D\), found shape \(1, 2, 3\)"),
        (np.array([[np.nan]]), "input:1: element 1 of channel 1 is missing"),
    ],
)
def test_invalid_python_values_are_errors(value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read([value])
    with pytest.raises(DataError, match="expected a list of strings, found a single string"):
        read("a text")


@pytest.mark.parametrize(
    ("kind", "expected"), [("vectors", [([[1, 2], [3, 4]], None, 1)]), (None, [("1,2,3,4", None, 1)])]
)
def test_standard_input_has_no_labels(monkeypatch: pytest.MonkeyPatch, kind: str | None, expected: Rows) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"1,2,3,4\n"))))
    assert read(Path("-"), kind=kind, channels=2, known={"a"}) == expected


@pytest.mark.parametrize(
    ("kind", "line", "expected"),
    [
        ("columns", "7\ta", "a"),
        ("jsonl", '{"text": "a"}', "a"),
        ("lines", "x a", "x a"),
        ("numbers", "1,2", [[1], [2]]),
    ],
)
def test_standard_input_in_a_format(monkeypatch: pytest.MonkeyPatch, kind: str, line: str, expected: Any) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(line.encode()))))
    assert [content for content, _, _ in read(Path("-"), format=kind, known={"x"})] == [expected]


def test_empty_file_has_no_examples(tmp_path: Path) -> None:
    path = write(tmp_path, "x.txt")
    assert detect(path) == "lines"
    assert read(path) == read(path, known={"a"}) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["t0,t1,t2,class", "1,2,3,a", "4,5,6,b"], "class"),
        (["class,t0,t1,t2", "7,1,2,3", "8,4,5,6"], "class"),  # a name, though all values are numbers
        (["0,1,2,label", "1,2,3,a", "4,5,6,b"], "label"),  # columns numbered by pandas
        (["id,t0,t1,t2,label", "10,1,2,3,a", "11,4,5,6,b"], "label"),
        ([",0,1,2,label", "0,1,2,3,a", "1,4,5,6,b"], "label"),  # with its index
        (["1,2,3,a", "4,5,6,b"], -1),
        (["a,1,2,3", "b,4,5,6"], 0),
        (["t0;t1;t2;class", "1;2;3;a", "4;5;6;b"], "class"),
    ],
)
def test_label_of_rows_of_numbers(tmp_path: Path, lines: list[str], expected: int | str) -> None:
    path = write(tmp_path, "x.csv", *lines)
    settings, note = LabelledReader().inspect(path)
    assert settings == {"label_column": expected}
    assert note.startswith("one row per sequence: label from ")
    assert ("; ignored: " in note) == lines[0].startswith(("id", ",0"))
    for options in ({}, settings):
        actual = read(path, **options)
        assert [content for content, _, _ in actual] == [[[1], [2], [3]], [[4], [5], [6]]]
        assert len({label for _, label, _ in actual}) == 2
        assert not {"label", "class"} & {label for _, label, _ in actual}


def test_named_label_of_numbers_is_optional_after_training(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", "t0,t1,t2", "1,2,3")
    assert read(path, label_column="class", known={"a"}) == [([[1], [2], [3]], None, 2)]
    with pytest.raises(DataError, match="label_column: no column 'class'; the header has t0, t1, t2"):
        read(path, label_column="class")


def test_rows_of_numbers_in_frames() -> None:
    columns = {"id": [7, 8], "t0": [1.0, 4.0], "t1": [2.0, 5.0], "label": ["a", "b"]}
    assert read(columns) == [([[1], [2]], "a", 1), ([[4], [5]], "b", 2)]


WIDE = {"note": ["ok", "rain"], **{f"t{step}": [step, 2.5 * step] for step in range(9)}, "activity": ["sit", "run"]}


@pytest.mark.parametrize("in_memory", [False, True])
def test_texts_beside_rows_of_numbers_are_ignored_and_named(in_memory: bool, tmp_path: Path) -> None:
    rows = [",".join(map(str, row)) for row in zip(*WIDE.values(), strict=True)]
    source: Any = WIDE if in_memory else write(tmp_path, "x.csv", ",".join(WIDE), *rows)
    expected = [([[step * factor] for step in range(9)], label) for factor, label in ((1, "sit"), (2.5, "run"))]
    settings, note = LabelledReader().inspect(source)
    assert settings == {"label_column": "activity"}
    assert note.endswith("label from column 'activity', its values from 9 columns, 't0' to 't8'; ignored: note")
    assert [row[:2] for row in read(source)] == [row[:2] for row in read(source, **settings)] == expected
    renamed: Any = {"act" if name == "activity" else name: values for name, values in WIDE.items()}
    if not in_memory:
        renamed = write(tmp_path, "x.csv", ",".join(renamed), *rows)
    with pytest.raises(
        DataError, match=r"cannot tell which column holds the label: set task\.label_column to one of 'note', 'act'$"
    ):
        read(renamed)
    assert [row[:2] for row in read(renamed, label_column="act")] == expected


def test_the_type_of_labels_beside_rows_of_numbers() -> None:
    columns: Any = {"t0": [1.0, 4.0], "t1": [2.0, 5.0], "label": [3, 4]}
    assert LabelledReader().label_type(columns) == "integer"
    assert LabelledReader().label_type(columns | {"label": ["a", "b"]}) == "text"


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_text_is_an_empty_one_as_in_a_file(missing: Any, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"comment": ["good", missing, "bad"], "label": ["pos", "pos", "neg"]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    of_frame, of_file = (list(LabelledReader().read(source)) for source in (frame, tmp_path / "x.csv"))
    assert [example.content for example in of_frame] == [example.content for example in of_file] == ["good", "", "bad"]
    assert [len(example) for example in of_frame] == [4, 0, 3]
    assert str(of_frame[1].location) == "row 2 of the data (the first is 1)"
    pairs = list(zip(frame["comment"], frame["label"], strict=True))
    assert [example.content for example in LabelledReader().read(pairs)] == ["good", "", "bad"]


def test_a_column_of_the_model_cannot_be_configured_any_more(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("Text,label\ngood film,pos\nbad film,neg\n")
    reader = LabelledReader(text_column="review", label_column="label", known={"pos", "neg"})
    with pytest.raises(DataError, match=r"no column 'review', which the model reads; rename one of 'Text', 'label'"):
        list(reader.read(path))
    with pytest.raises(DataError, match=r"no column 'review' \(task.text_column\)"):
        list(replace(reader, known=None).read(path))


@pytest.mark.parametrize(
    "values", [[f"{number}.{number:02}" for number in range(30, 0, -1)], [f"${n}.50" for n in range(30)]]
)
def test_the_only_column_besides_the_text_holds_the_label(tmp_path: Path, values: list[str]) -> None:
    path = tmp_path / "x.csv"
    rows = [f"{value},a text of several words {index}\n" for index, value in enumerate(values)]
    path.write_text("Preis,Text\n" + "".join(rows))
    settings, note = LabelledReader().inspect(path)
    assert settings == {"text_column": "Text", "label_column": "Preis"}
    assert note == "text from column 2 'Text', label from column 1 'Preis'"


def test_columns_that_are_not_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = [f"{number},a title,a text of several words,{'ab'[number % 2]}\n" for number in range(9)]
    path.write_text("id,title,body,label\n" + "".join(rows))
    _, note = LabelledReader(text_column="body").inspect(path)
    assert note.endswith("label from column 4 'label'; not read: columns 'id', 'title'")
