"""Targets that are numbers: decimal commas, thousands separators, currency signs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.data.readers.decimal_marks import DecimalMark
from seqloom.data.readers.numeric_targets import detect_targets, to_number
from seqloom.data.readers.table_values import PlainNumber, as_label
from seqloom.data.readers.text_files import DataError, Location
from seqloom.data.readers.vectors import VectorSequence
from seqloom.tasks.classify import Classify
from seqloom.tasks.tag import Tag

PLACE = Location("x.csv", 2)
WORDS = "a plain text of words"


def located(*labels: str | None) -> list[tuple[Location, str | None]]:
    return [(PLACE, label) for label in labels]


def targets(example: Any) -> Any:
    return example.target.tolist()


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def reviews(path: Path, *values: str) -> Path:
    return write(path, ["Bewertung;Text", *(f"{value};{WORDS} {number}" for number, value in enumerate(values))])


def test_decimal_commas_are_numbers_and_are_recorded() -> None:
    found = detect_targets(located("4,79", "3", None, "1,5"), name="Bewertung")
    assert (found.kind, found.decimal) == ("number", ",")
    assert found.note.startswith("numbers with a decimal comma: Bewertung; targets are numbers, 1.5 to 4.79")


@pytest.mark.parametrize("mark", [".", ","])
def test_minus_signs_of_spreadsheets(tmp_path: Path, mark: str) -> None:
    values = [f"−{number}{mark}5" if number % 2 else f"{number}{mark}5" for number in range(20)]
    path = write(tmp_path / "x.tsv", ["text\tprice", *(f"{WORDS} {each}\t{each}" for each in values)])
    task, notes = Classify(train=str(path)).resolve(path)
    assert (task.label_column, task.target_type) == ("price", "number")
    assert "targets are numbers, -19.5 to 18.5" in " ".join(notes)
    examples = list(task.read(path))
    assert [targets(example) for example in examples[:3]] == [[0.5], [-1.5], [2.5]]
    assert examples[1].content == f"{WORDS} −1{mark}5"  # texts stay as they are


@pytest.mark.parametrize("task", [Classify, Tag])
def test_arrays_are_described(tmp_path: Path, task: Any) -> None:
    path = tmp_path / "x.npz"
    y = np.array([[0.5, -1.5], [2.25, 1.0]])
    np.savez(path, x=np.zeros((2, 2, 3)), y=y if task is Tag else y[:, 1], z=y)
    expected = "(2, 2)" if task is Tag else "(2,)", "-1.5 to 2.25" if task is Tag else "-1.5 to 1"
    assert task(train=str(path)).resolve(path)[1] == (
        f"sequences from x (2, 2, 3), labels from y {expected[0]}; not read: z",
        f"targets are numbers, {expected[1]}",
    )
    np.savez(path, values=np.zeros((3, 2)), lengths=np.array([1, 2]), labels=y[[0, 1, 1]] if task is Tag else y)
    assert task(train=str(path)).resolve(path)[1] == (
        f"sequences from values (3, 2) and lengths (2,), labels from labels {'(3, 2)' if task is Tag else '(2, 2)'}",
        "targets are 2 numbers each, -1.5 to 2.25",
    )


def test_different_numbers_of_targets_are_not_described() -> None:
    assert detect_targets([(PLACE, np.zeros(1)), (PLACE, np.zeros(2))]) == ("number", "", "")


def test_minus_signs_of_vectors(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", ["−1.5,2,up", "5e−1,−2,down"])
    task, _ = Classify(train=str(path)).resolve(path)
    assert [np.ravel(example.content).tolist() for example in task.read(path)] == [[-1.5, 2], [0.5, -2]]


@pytest.mark.parametrize(
    ("labels", "decimal", "kind"),
    [
        (["4.79", "1.00"], ".", "number"),
        (["−0.27", "1.00"], ".", "number"),
        (["−0,27", "1,00"], ",", "number"),
        (["1,234.50", "2,000.00"], ".", "number"),
        (["1.234,50", "2.000,00"], ",", "number"),
        (["1", "2", "2", "1"], "", "class"),
        (["good", "4,79"], "", "class"),
    ],
)
def test_labels_as_a_whole_show_the_decimal_mark(labels: list[str], decimal: str, kind: str) -> None:
    assert detect_targets(located(*labels))[:2] == (kind, decimal)


def test_a_few_texts_among_numbers_are_refused() -> None:
    numbers = [f"{number / 8}" for number in range(1, 60)]
    for mistake in ("good", "n/a"):
        with pytest.raises(
            DataError,
            match=rf"'score': expected a number, found '{mistake}'; .*as classes \(59 of 60 labels are numbers\)",
        ):
            detect_targets(located(*numbers[:40], mistake, *numbers[40:]), name="score")
    with pytest.raises(DataError, match=r"found '€3\.46'; remove the currency sign € from the numbers"):
        detect_targets(located(*numbers, "€3.46"), name="score")


@pytest.mark.parametrize(
    "labels",
    [
        [*(f"{number / 8}" for number in range(19)), "good"],  # too few numbers
        [*(f"{number / 8}" for number in range(25)), "good", "bad", "none"],  # too many texts
        [*["1", "2", "3", "4"] * 10, "other"],  # classes
        ["good", "bad"] * 4,
    ],
)
def test_numbers_and_texts_are_classes(labels: list[str]) -> None:
    assert detect_targets(located(*labels))[:2] == ("class", "")


def test_amounts_are_classes_and_said_to_be() -> None:
    note = "labels such as '€1' are taken as classes; to predict numbers, remove the currency sign € from them"
    assert detect_targets(located("€1", "€2.50", "€3")) == ("class", "", note)
    assert detect_targets(located("good", "€2.50", "€3")) == ("class", "", "")


def test_only_as_many_labels_are_read_as_it_takes() -> None:
    labels = iter(located(*["good", "bad"] * 50))
    assert detect_targets(labels).kind == "class"
    assert len([*labels]) == 94


def test_labels_that_leave_the_decimal_mark_open_are_refused() -> None:
    with pytest.raises(DataError, match=r"column 'price': '1,234' may have a decimal comma .*task\.target_type"):
        detect_targets(located("1,234", "5,678"), name="price")
    assert detect_targets(located("1,234", "5,678"), decimal=",").decimal == ","


def test_numbers_are_read_with_the_recorded_mark() -> None:
    assert to_number(PLACE, "4,79", decimal=",") == [4.79]
    assert to_number(PLACE, "1.234", decimal=",") == [1234]
    assert to_number(PLACE, "1.234", decimal=".") == [1.234]
    assert to_number(PLACE, PlainNumber("1.234"), decimal=",") == [1.234]
    assert isinstance(as_label(PLACE, 1.234, name="y"), PlainNumber)  # a number of a data frame has no open mark


@pytest.mark.parametrize(
    ("label", "decimal", "message"),
    [
        ("1,00", "", "'Bewertung': '1,00' is no number with a decimal point; task.decimal"),
        ("4.79", ",", "'Bewertung': '4.79' is no number with a decimal comma, as others of the column are"),
        ("$1,232.50", "", r"expected a number, found '\$1,232.50'; remove the currency sign \$ from the numbers"),
        ("12 EUR", "", "remove the currency code EUR"),
        ("12 %", "", "remove the percent sign"),
        ("good", "", 'task.target_type = "class" takes the labels as classes'),
    ],
)
def test_labels_that_are_no_numbers_are_explained(label: str, decimal: DecimalMark, message: str) -> None:
    with pytest.raises(DataError, match=message):
        to_number(PLACE, label, name="Bewertung", decimal=decimal)


def test_a_classifier_reads_decimal_commas_of_all_its_files(tmp_path: Path) -> None:
    train = reviews(tmp_path / "train.csv", *(f"{number % 5},{number:02}" for number in range(40)))
    later = reviews(tmp_path / "later.csv", "1.234", "2,5")
    task, notes = Classify(train="train.csv", label_column="Bewertung").resolve(train)
    assert (task.target_type, task.decimal) == ("number", ",")
    assert any("numbers with a decimal comma: Bewertung" in note for note in notes)
    assert [targets(example) for example in task.read(later)] == [[1234], [2.5]]


def test_several_label_columns_have_decimal_commas(tmp_path: Path) -> None:
    path = write(tmp_path / "two.csv", ["text;a;b", f"{WORDS};1,5;2,25", f"{WORDS};0,5;3"])
    task, notes = Classify(train="two.csv", label_column=("a", "b")).resolve(path)
    assert task.decimal == ","
    assert any("numbers with a decimal comma: a, b" in note for note in notes)
    assert [targets(example) for example in task.read(path)] == [[1.5, 2.25], [0.5, 3]]


def test_rows_of_numbers_have_decimal_commas(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", ["0,1;0,4;0,3;rising", "0,9;0,7;0,2;falling"])
    task, notes = Classify(train="rows.csv").resolve(path)
    first = next(task.read(path))
    assert isinstance(first.content, np.ndarray)
    assert first.content[:, 0].tolist() == pytest.approx([0.1, 0.4, 0.3])
    assert (first.label, task.decimal) == ("rising", ",")
    assert any("numbers with a decimal comma" in note for note in notes)


def test_a_number_per_step_may_have_a_decimal_comma(tmp_path: Path) -> None:
    rows = [f"m{part};{time};0,{time}5;{time},25" for part in range(3) for time in range(8)]
    path = write(tmp_path / "steps.csv", ["machine;t;u;y", *rows])
    task, notes = Tag(train="steps.csv").resolve(path)
    first = next(task.read(path))
    assert isinstance(first, VectorSequence)
    assert (task.target_type, task.decimal) == ("number", ",")
    assert targets(first)[:2] == [[0.25], [1.25]]
    assert first.values[:2, 0].tolist() == pytest.approx([0.05, 0.15])
    assert any("numbers with a decimal comma: y" in note for note in notes)


@pytest.mark.parametrize("header", [True, False])
def test_frames_are_separated_by_semicolons(tmp_path: Path, header: bool) -> None:
    rows = ["0,5;1,5;2,5", "1,5;2,5;3,75", "", "0,25;1;2"]
    path = write(tmp_path / "frames.csv", ["u;v;w"] * header + rows)
    for task in (Tag(train="frames.csv"), Tag(train="frames.csv", separator=";")):
        fitted, _ = task.resolve(path)
        first, second = fitted.read(path)
        assert isinstance(second, VectorSequence)
        assert targets(first) == [[2.5], [3.75]]
        assert second.values.tolist() == [[0.25, 1]]


OPEN_ROWS = ["1,234;2,345;up", "2,345;1,234;down"]


@pytest.mark.parametrize(("decimal", "value"), [(",", 1.234), (".", 1234)])
def test_the_configured_mark_settles_open_values_of_rows(tmp_path: Path, decimal: DecimalMark, value: float) -> None:
    rows = write(tmp_path / "rows.csv", OPEN_ROWS)
    with pytest.raises(DataError, match=r"set task\.decimal"):
        Classify(train="rows.csv").resolve(rows)
    task, _ = Classify(train="rows.csv", decimal=decimal).resolve(rows)
    example = next(task.read(rows))
    assert isinstance(example.content, np.ndarray)
    assert example.content[0, 0] == pytest.approx(value)


@pytest.mark.parametrize("kind", [Classify, Tag])
def test_the_configured_mark_settles_open_values_of_long_tables(tmp_path: Path, kind: Any) -> None:
    rows = [f"s{part};{time};{time + 1},234;up" for part in range(3) for time in range(4)]
    path = write(tmp_path / "long.csv", ["id;t;x;label", *rows])
    chosen = {"format": "long", "group_column": "id", "time_column": "t", "train": "long.csv"}
    with pytest.raises(DataError, match=r"set task\.decimal"):
        kind(**chosen).resolve(path)
    task, _ = kind(**chosen, decimal=",").resolve(path)
    example = next(task.read(path))
    values = example.content if kind is Classify else example.values
    assert values[:, 0].tolist() == pytest.approx([1.234, 2.234, 3.234, 4.234])


def test_the_configured_mark_settles_open_values_of_frames(tmp_path: Path) -> None:
    path = write(tmp_path / "frames.csv", OPEN_ROWS)
    with pytest.raises(DataError, match=r"set task\.decimal"):
        Tag(train="frames.csv").resolve(path)
    task, _ = Tag(train="frames.csv", decimal=",").resolve(path)
    example = next(task.read(path))
    assert isinstance(example, VectorSequence)
    assert example.values.tolist() == [pytest.approx([1.234, 2.345]), pytest.approx([2.345, 1.234])]
