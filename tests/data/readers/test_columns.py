from pathlib import Path
from typing import Any

import pytest

from seqloom.data.readers import column_names
from seqloom.data.readers.columns import Columns, Role, find_columns, resolve_columns
from seqloom.data.readers.labelled_formats import LABEL, TEXT
from seqloom.data.readers.parallel import SOURCE, TARGET
from seqloom.data.readers.tables import Table, read_table
from seqloom.data.readers.text_files import DataError, Location

TEXTS = [f"the film number {number} was long" for number in range(30)]
LABELS = ["pos", "neg", "neg"] * 10
NUMBERS = [f"{number}" for number in range(30)]
TITLES = [f"film {number}" for number in range(30)]


def table(names: str, *columns: list[Any]) -> Table:
    if names:
        return read_table(dict(zip(names.split(), columns, strict=True)))
    head = tuple((Location("x.csv", line), list(row)) for line, row in enumerate(zip(*columns, strict=True), start=1))
    return Table("x.csv", (), head, iter(head))


def resolve(source: Table, **chosen: Any) -> tuple[int, int]:
    columns = resolve_columns(source, (TEXT, LABEL), chosen)
    return columns.indices["text_column"], columns.indices["label_column"]


@pytest.mark.parametrize(
    ("names", "columns", "expected"),
    [
        ("text label", (TEXTS, LABELS), (0, 1)),
        ("label text", (LABELS, TEXTS), (1, 0)),
        ("Sentence Category", (TEXTS, LABELS), (0, 1)),
        ("id question intent", (NUMBERS, TEXTS, LABELS), (1, 2)),
        ("review_text star_rating", (TEXTS, LABELS), (0, 1)),
        ("reviewText overallRating", (TEXTS, LABELS), (0, 1)),
        ("text label label_text", (TEXTS, LABELS, LABELS), (0, 1)),  # the certain names come first
        ("title review stars", (TITLES, TEXTS, LABELS), (1, 2)),  # the review is much longer
        ("remark label", (TEXTS, LABELS), (0, 1)),  # one by its name, the other by its content
        ("mood sentence", (LABELS, TEXTS), (1, 0)),
        ("remark mood", (TEXTS, LABELS), (0, 1)),
        ("a b c", (LABELS, NUMBERS, TEXTS), (2, 0)),
        ("text label", (["a"], ["b"]), (0, 1)),
    ],
)
def test_columns_by_name_and_content(names: str, columns: Any, expected: tuple[int, int]) -> None:
    assert resolve(table(names, *columns)) == expected


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ((LABELS, TEXTS), (1, 0)),
        ((TEXTS, LABELS), (0, 1)),
        ((LABELS, TITLES), (1, 0)),
        ((TITLES, LABELS), (0, 1)),
        ((["pos", "neg"], ["good film", "bad"]), (1, 0)),  # by position
        ((["good film", "a bad one"], ["pos", "neg"]), (0, 1)),
        ((LABELS, NUMBERS, TEXTS), (2, 0)),
    ],
)
def test_columns_without_a_header(columns: Any, expected: tuple[int, int]) -> None:
    assert resolve(table("", *columns)) == expected


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"text_column": "b", "label_column": "a"}, (1, 0)),
        ({"text_column": 1, "label_column": -2}, (1, -2)),
        ({"text_column": "b"}, (1, 0)),  # the other role gets the other column
        ({"text_column": 0}, (0, 1)),
        ({"label_column": 1}, (0, 1)),
        ({"label_column": "b"}, (0, 1)),
    ],
)
def test_configured_columns(chosen: Any, expected: tuple[int, int]) -> None:
    names = "a b" if any(isinstance(column, str) for column in chosen.values()) else ""
    source = table(names, ["x", "y"], ["v", "w"])
    assert resolve(source, **chosen) == expected


@pytest.mark.parametrize("chosen", [("a", "a"), (0, "a"), (1, -1), (0, 0)])
def test_one_column_in_two_roles_is_refused(chosen: Any) -> None:
    with pytest.raises(DataError, match=r"task\.text_column and task\.label_column are both the column '[ab]'"):
        resolve(table("a b", TEXTS, LABELS), text_column=chosen[0], label_column=chosen[1])


@pytest.mark.parametrize(
    ("names", "columns", "noun"),
    [
        ("text number", (TEXTS, NUMBERS), "label"),  # every number is a label of its own
        ("category type text", (LABELS, LABELS, TEXTS), "label"),
        ("id text", (NUMBERS, TEXTS), "label"),
        ("question comment label", (TEXTS, TEXTS, LABELS), "text"),
        ("a b", (NUMBERS, NUMBERS), "text and the label"),
        ("", (TITLES, NUMBERS, NUMBERS), "text and the label"),
    ],
)
def test_unclear_columns_stop_with_the_keys(names: str, columns: Any, noun: str) -> None:
    with pytest.raises(DataError) as error:
        resolve(table(names, *columns))
    assert f"cannot tell which column holds the {noun}: set task.text_column and task.label_column" in str(error.value)
    for name in names.split():
        assert name in str(error.value) or len(names.split()) > 2
    assert ("Columns without a role: 'number' (" in str(error.value)) is (names == "text number")


def test_single_column() -> None:
    with pytest.raises(
        DataError, match=r"expected a column with the text and a column with the label, found only 'text'"
    ):
        resolve(table("text", TEXTS))


def test_errors_about_configured_columns() -> None:
    source = table("text label", TEXTS, LABELS)
    with pytest.raises(
        DataError, match=r"no column 'labels' \(task\.label_column\); .* text, label; did you mean 'label'\?"
    ):
        resolve(source, label_column="labels")
    with pytest.raises(
        DataError, match=r"task\.label_column is 2, but there are only 2 columns \(0 to 1; -1 is the last\)"
    ):
        resolve(source, label_column=2)
    with pytest.raises(DataError, match=r"x\.csv:1: no column 'y': the first row is not a header"):
        resolve(table("", TEXTS, LABELS), label_column="y")


def test_description_and_settings() -> None:
    columns = resolve_columns(table("text label", TEXTS, LABELS), (TEXT, LABEL), {})
    assert columns.describe() == "text from column 1 'text', label from column 2 'label'"
    assert columns.settings() == {"text_column": "text", "label_column": "label"}
    columns = resolve_columns(table("", LABELS, TEXTS), (TEXT, LABEL), {})
    assert columns.describe() == (
        "text from column 2 (task.text_column = 1), label from column 1 (task.label_column = 0)"
    )
    assert columns.settings() == {"text_column": 1, "label_column": 0}


def test_optional_columns_may_be_missing() -> None:
    optional = Role("label_column", "label", column_names.LABEL, "label", optional=True)
    columns = resolve_columns(table("text number", TEXTS, NUMBERS), (TEXT, optional), {"label_column": "label"})
    assert columns.indices == {"text_column": 0}
    assert columns.value(Location("x", 1), ["a", "b"], "label_column") is None
    assert resolve_columns(table("", TEXTS), (TEXT, optional), {"text_column": 1}).indices == {"text_column": 0}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("en de", (0, 1)),
        ("target source", (1, 0)),
        ("id question answer", (1, 2)),
        ("German English", (0, 1)),
        ("x y", (0, 1)),
        ("id src tgt note", (1, 2)),
    ],
)
def test_pairs(names: str, expected: tuple[int, int]) -> None:
    columns = resolve_columns(table(names, *[TEXTS] * len(names.split())), (SOURCE, TARGET), {})
    assert (columns.indices["source_column"], columns.indices["target_column"]) == expected


def test_configured_names_make_the_first_row_a_header(tmp_path: Any) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("t\ty\ngood film\tpos\n")
    source, columns = find_columns(path, (TEXT, LABEL), {"text_column": "t", "label_column": "y"})
    assert isinstance(columns, Columns)
    assert source.names == ("t", "y")
    assert [(location.line, fields) for location, fields in source.records] == [(2, ["good film", "pos"])]


def test_objects_are_those_of_the_data_and_not_names_with_a_dot(tmp_path: Path) -> None:
    """``price.usd`` in a header is a name like any other; in JSON it is the value usd of the object price."""
    flat, nested = tmp_path / "x.csv", tmp_path / "x.jsonl"
    flat.write_text("price.usd,text\n1,a\n")
    nested.write_text('{"price": {"usd": 1, "old": {"usd": 2}}, "shop.name": "b", "text": "a"}\n')
    objects = read_table(nested)
    assert objects.names == ("price.usd", "price.old.usd", "shop.name", "text")
    assert objects.objects == {"price", "price.old"}
    for column, inner in (("price", "'price.usd' or 'price.old.usd'"), ("price.old", "'price.old.usd'")):
        with pytest.raises(
            DataError, match=rf"'{column}' is an object \(task\.label_column\); .* inside of it: {inner}"
        ):
            resolve(read_table(nested), label_column=column)
    for file, column in ((flat, "price"), (nested, "shop")):
        with pytest.raises(DataError, match=rf"no column '{column}' \(task\.label_column\); the header has price\.usd"):
            resolve(read_table(file), label_column=column)
