import gzip
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.readers.table_header import has_header
from seqloom.data.readers.table_values import as_label
from seqloom.data.readers.tables import Table, is_table, read_table, sniff_separator
from seqloom.data.readers.text_files import TABLE, DataError, Location

ROWS = [["good, film", "pos"], ["bad", "neg"]]
HERE = Location("x", 1)


def contents(table: Table) -> tuple[tuple[str, ...], list[list[Any]]]:
    return table.names, [fields for _, fields in table.records]


def csv_text(separator: str) -> str:
    return f'text{separator}label\n"good, film"{separator}pos\nbad{separator}neg\n'


@pytest.mark.parametrize("separator", [",", ";", "|"])
def test_separators_of_csv_files(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(csv_text(separator))
    table = read_table(path)
    assert table.separator == separator
    assert [location.line for location, _ in table.head] == [2, 3]
    assert contents(table) == (("text", "label"), ROWS)


def test_tabs_have_no_quotes(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text('text\tlabel\n"good, film\tpos\nbad\tneg\n')
    assert contents(read_table(path)) == (("text", "label"), [['"good, film', "pos"], ["bad", "neg"]])


def test_configured_separator(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a ||| b,c\nd ||| e\n")
    assert contents(read_table(path, separator=" ||| "))[1] == [["a", "b,c"], ["d", "e"]]


@pytest.mark.parametrize("columns", [2, 3, 7])
@given(data=st.data())
def test_sniffed_separator_cuts_all_lines(columns: int, data: st.DataObject) -> None:
    separator = data.draw(st.sampled_from(",;\t|"))
    field = st.text("abc 012", min_size=1, max_size=5)
    rows = data.draw(st.lists(st.lists(field, min_size=columns, max_size=columns), min_size=1, max_size=40))
    assert sniff_separator([separator.join(row) for row in rows]) == separator


def test_quoted_fields_may_contain_separators_and_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('text;label\n"one; two,\nthree";a\n"four";b\n')
    table = read_table(path)
    assert [(location.line, fields) for location, fields in table.records] == [
        (2, ["one; two,\nthree", "a"]),
        (4, ["four", "b"]),
    ]


OBJECTS = [{"text": "good, film", "label": "pos"}, {"text": "bad", "label": "neg", "more": 1}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.jsonl", "\n".join(map(json.dumps, OBJECTS))),
        ("x.json", json.dumps(OBJECTS)),
        ("x.json", json.dumps(OBJECTS, indent=2)),
        ("x.jsonl", json.dumps(OBJECTS)),
        ("x.txt", json.dumps(OBJECTS)),
    ],
)
def test_json_lines_and_arrays(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    names, rows = contents(read_table(path))
    assert names == ("text", "label", "more")
    assert rows == [[*ROWS[0], None], [*ROWS[1], 1]]
    assert len({location for location, _ in read_table(path).records}) == 2


def test_nested_keys_are_joined_by_points(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    rows = [{"id": 1, "body": {"text": "a", "by": {"name": "X"}}}, {"id": 2, "body": {"text": "b"}, "tags": [{"t": 1}]}]
    path.write_text("\n".join(map(json.dumps, rows)))
    table = read_table(path)
    assert table.names == ("id", "body.text", "body.by.name", "tags")
    assert [fields for _, fields in table.records] == [[1, "a", "X", None], [2, "b", None, [{"t": 1}]]]
    path.write_text('{"a": ' * 200 + "1" + "}" * 200)
    (deep,) = read_table(path).names
    assert deep == "a.a.a.a.a.a.a.a"


def test_json_object_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"text": ["a", "b"], "label": [0, 1]}, indent=1))
    assert contents(read_table(path)) == (("text", "label"), [["a", 0], ["b", 1]])
    path.write_text(json.dumps({"version": 1, "data": []}, indent=1))
    with pytest.raises(DataError, match=r"x\.json: .* found one object with the keys version, data"):
        read_table(path)


def test_compressed_tables(tmp_path: Path) -> None:
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(csv_text(";").encode()))
    assert contents(read_table(tmp_path / "x.csv.gz"))[1] == ROWS
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("data/train.csv", csv_text(","))
        archive.writestr("__MACOSX/._train.csv", "x")
    assert contents(read_table(tmp_path / "x.zip"))[1] == ROWS
    with zipfile.ZipFile(tmp_path / "x.zip", "a") as archive:
        archive.writestr("data/dev.csv", csv_text("|"))
    with pytest.raises(DataError, match=r"a zip archive of 2 files: data/train.csv, data/dev.csv; name one of them: "):
        read_table(tmp_path / "x.zip")
    assert contents(read_table(tmp_path / "x.zip" / "data" / "dev.csv"))[1] == ROWS
    with pytest.raises(DataError, match=r"no such file in the archive; did you mean .*dev\.csv"):
        read_table(tmp_path / "x.zip" / "data" / "deb.csv")


def test_excel(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["text", "stars"], ["good, film", 5], [None, None], ["bad", 1.0]):
        book.active.append(row)
    path = tmp_path / "x.xlsx"
    book.save(path)
    table = read_table(path)
    assert [location.line for location, _ in table.head] == [2, 4]
    assert contents(table) == (("text", "stars"), [["good, film", 5], ["bad", 1]])
    book.create_sheet("more").append(["a", "b"])
    book.save(path)
    with pytest.raises(DataError, match=r"x\.xlsx: has several sheets: Sheet, more; name one: .*x\.xlsx/Sheet"):
        read_table(path)
    assert contents(read_table(path / "more"))[1] == [["a", "b"]]
    with pytest.raises(DataError, match="no sheet 'less'; the file has Sheet, more"):
        read_table(path / "less")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"x\.xlsx: not an Excel file, or damaged"):
        read_table(path)


def test_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"text": ["a"] * 3000, "label": range(3000), "list": [["x"]] * 3000}), path)
    names, rows = contents(read_table(path))
    assert names == ("text", "label", "list")
    assert rows == [["a", number, ["x"]] for number in range(3000)]
    assert read_table(path).head[1][0] == Location(str(path), 2)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match=r"x\.parquet: not a Parquet file, or damaged"):
        read_table(path)


@pytest.mark.parametrize(("module", "name"), [("openpyxl", "x.xlsx"), ("pyarrow.parquet", "x.parquet")])
def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    (tmp_path / name).write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'seqloom\[tables\]'"):
        read_table(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "start", "kind"),
    [
        ("x.pdf", b"%PDF-1.7\n", "a PDF document"),
        ("x.docx", b"PK\x03\x04\x14\x00", "zip archive"),
        ("x.pkl", b"\x80\x04\x95\x10\x00", "a Python pickle, which may contain code"),
        ("x.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0", "an old Office document"),
        ("x.db", b"SQLite format 3\0\x10", "an SQLite database"),
        ("x.h5", b"\x89HDF\r\n\x1a\n\0", "an HDF5 file"),
        ("x.feather", b"ARROW1\0\0", "an Arrow or Feather file"),
        ("x.csv", b"BZh91AY&SY\xd8\x01\n", "a bzip2 file"),
        ("x.csv", b"\xfd7zXZ\0\0", "an xz file"),
        ("x.png", b"\x89PNG\r\n", "a PNG image"),
    ],
)
def test_other_formats_are_named(tmp_path: Path, name: str, start: bytes, kind: str) -> None:
    (tmp_path / name).write_bytes(start)
    with pytest.raises(DataError, match=kind):
        read_table(tmp_path / name)


def test_word_documents_are_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.docx", "w") as archive:
        archive.writestr("[Content_Types].xml", "")
        archive.writestr("word/document.xml", "")
    with pytest.raises(DataError, match=r"x\.docx: expected text, found a zip archive or an Office document"):
        read_table(tmp_path / "x.docx")


def frames() -> Iterator[Any]:
    columns = {"text": ["good, film", "bad"], "label": ["pos", "neg"]}
    yield pytest.param(lambda: columns, id="dict of lists")
    yield pytest.param(lambda: {name: np.array(values) for name, values in columns.items()}, id="dict of arrays")
    yield pytest.param(lambda: [dict(zip(columns, row, strict=True)) for row in ROWS], id="list of dicts")
    yield pytest.param(lambda: pytest.importorskip("pandas").DataFrame(columns), id="pandas")
    yield pytest.param(lambda: pytest.importorskip("polars").DataFrame(columns), id="polars")
    yield pytest.param(lambda: pytest.importorskip("polars").LazyFrame(columns), id="polars, lazy")
    yield pytest.param(lambda: pytest.importorskip("pyarrow").table(columns), id="pyarrow")
    yield pytest.param(lambda: Dataset(columns), id="Hugging Face")


class ClassLabel:
    """The documented interface of ``datasets.ClassLabel``."""

    def __init__(self, names: list[str]) -> None:
        self.names = names


class Dataset:
    """The documented interface of ``datasets.Dataset``, which is too large a package for a test."""

    def __init__(self, columns: dict[str, list[Any]], **features: Any) -> None:
        self.columns, self.column_names = columns, list(columns)
        self.features = {name: features.get(name) for name in columns}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, row, strict=True))


@pytest.mark.parametrize("make", list(frames()))
def test_tables_in_memory(make: Any) -> None:
    table = make()
    assert is_table(table)
    for _ in range(2):  # a table in memory can be read again
        assert contents(read_table(table)) == (("text", "label"), ROWS)
    assert next(read_table(table).records)[0] == Location(TABLE, 1)


def test_classes_of_a_dataset_have_names() -> None:
    dataset = Dataset({"text": ["a", "b", "c"], "label": [1, 0, -1]}, label=ClassLabel(["neg", "pos"]))
    assert contents(read_table(dataset))[1] == [["a", "pos"], ["b", "neg"], ["c", None]]


def test_null_values_of_libraries_are_missing() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"label": pandas.array([1, None], dtype="Int64"), "other": [1.0, float("nan")]})
    rows = contents(read_table(frame))[1]
    assert [[as_label(HERE, value, name="x") for value in row] for row in rows] == [["1", "1"], [None, None]]


@pytest.mark.parametrize("values", [["a"], [("a", "b")], [], np.zeros((2, 3))])
def test_other_values_are_no_tables(values: Any) -> None:
    assert not is_table(values)


def test_series_is_no_table() -> None:
    assert not is_table(pytest.importorskip("pandas").Series(["a"]))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"train": {"text": ["a"]}, "test": {"text": []}}, "expected one table, found several: train, test"),
        ({"a": [1, 2], "b": [1]}, "data: expected columns of equal length, found a 2, b 1"),
        ({"a": "text"}, "data: column 'a': expected a list, found str"),
        ([{"a": 1}, 3], r"row 2 of the data \(the first is 1\): expected an object with named values, found int"),
    ],
)
def test_invalid_tables_in_memory(value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(read_table(value).records)


def test_frames_import_nothing_unless_given() -> None:
    code = (
        "import sys; from seqloom.data.readers import tables; tables.read_table({'a': [1]}); "
        "print(sorted({'narwhals', 'pandas', 'polars', 'pyarrow', 'openpyxl'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


LABELLED = [["pos", "a good film"], ["neg", "a bad film"]] * 6


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["text", "label"], ["good film", "pos"]], True),
        ([["Label", "Review Text"], *LABELLED], True),
        ([["", "text", "label"], ["0", "good film", "pos"]], True),  # the index of pandas
        ([["0", "1"], ["good film", "pos"]], True),  # the column numbers of pandas
        ([["t", "u"], ["1", "2"]], True),
        ([["remark", "mood"], *((text, label) for label, text in LABELLED)], True),
        ([["0x", "1x"], *((text, label) for label, text in LABELLED)], True),
        ([["remark", "liked?", "day"], ["a good film", "yes", "03/28/2024"]], True),
        ([["Text", "Größe (m)"], ["klein", "0,95"]], True),
        ([["film", "box office ($)"], ["a good film", "$1,200.50"]], True),
        ([["remark", "age"], ["good", "18-25"], ["bad", "26-40"]], True),
        ([["1.4.2024", "rain"], ["2.4.2024", "sun"]], False),
        ([["What is it ?", "THING"], ["Who is he ?", "PERSON"], *[["Where is it ?", "PLACE"]] * 10], False),
        ([["remark", "mood"], ["a good film", "pos"]], False),  # two rows show nothing
        ([["pos", "good film"], ["neg", "bad"]], False),
        ([["", "no label"], ["pos", "good"]], False),
        ([["question", "Who are you ?"], ["answer", "me"]], False),
        ([["question", "who"], ["question", "where"]], False),  # a class that recurs
        ([["1", "2"], ["3", "4"]], False),
        ([["tag", "t a g"], ["dog", "d o g"]], False),
        (LABELLED, False),
        ([], False),
    ],
)
def test_header_detection(rows: list[list[str]], expected: bool) -> None:
    assert has_header(rows) is expected


def test_header_of_a_file_can_be_set(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\nc,d\n")
    assert contents(read_table(path)) == ((), [["a", "b"], ["c", "d"]])
    assert contents(read_table(path, header=True)) == (("a", "b"), [["c", "d"]])
    path.write_text("text,text\nc,d\n")
    with pytest.raises(DataError, match=r"x\.csv:1: duplicate column names: text"):
        read_table(path)


def test_rows_of_different_width_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("text,label\na,b\nc,d,e\n")
    with pytest.raises(DataError, match=r"x\.csv:3: expected 2 fields as in the first record, found 3"):
        list(read_table(path).records)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(csv_text(";").encode()))))
    assert contents(read_table(Path("-"))) == (("text", "label"), ROWS)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("a ", "a"), (3, "3"), (3.0, "3"), (4.5, "4.5"), (True, "True"), (np.int64(2), "2"), (None, None), (" ", None)],
)
def test_labels(value: object, expected: str | None) -> None:
    assert as_label(HERE, value, name="x") == expected


def test_lone_quotes_swallow_no_lines(tmp_path: Path) -> None:
    rows = ['a{0}"good day', "b{0}bad day", 'a{0}5" nails', 'b{0}said "no"', 'a{0}"all"']
    for name, separator in (("x.tsv", "\t"), ("metadata.csv", "|")):
        (tmp_path / name).write_text("".join(f"{row.format(separator)}\n" for row in rows))
    plain = [row.split("{0}") for row in rows]
    assert contents(read_table(tmp_path / "x.tsv"))[1] == plain
    assert contents(read_table(tmp_path / "metadata.csv"))[1] == [*plain[:-1], ["a", "all"]]
    (tmp_path / "x.csv").write_text('text,label\ngood,a\n"bad,b\nfine,a\n')
    with pytest.raises(
        DataError, match=r'x\.csv:3: not a CSV record: a quotation mark opens a field here, .* twice \(""'
    ):
        list(read_table(tmp_path / "x.csv").records)
