import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from seqloom.data.readers.text_files import DataError
from seqloom.data.readers.vectors import VectorSequence, csv, describe_npz, frames, npz, ts, write_npz

HEADER = ["# a comment", "@problemName Toy", "@timeStamps false", "@dimensions 2", "@classLabel true a b", "@data"]
NUMBERS = st.floats(-1e6, 1e6, width=32)


def read(cases: Any) -> list[tuple[list[list[float]], str | None, int]]:
    return [(case.values.tolist(), case.label, case.location.line) for case in cases]


def test_ts_channels_and_labels() -> None:
    lines = [*HEADER, "1,2,3:4,5,6:a", "", "7:8.5:b", "1,2:3,4:?"]
    actual = list(ts(lines))
    assert read(actual) == [
        ([[1, 4], [2, 5], [3, 6]], "a", 7),
        ([[7, 8.5]], "b", 9),
        ([[1, 3], [2, 4]], None, 10),
    ]
    assert actual[0].values.dtype == np.float32


def test_ts_without_labels() -> None:
    lines = ["@univariate true", "@classLabel false", "@data", "1,2", "3"]
    assert read(ts(lines)) == [([[1], [2]], None, 4), ([[3]], None, 5)]


def test_hold_repeats_missing_values() -> None:
    lines = ["@classLabel false", "@data", "?,1,NaN,?,4:5,?,6,,7:?,?,?,?,?"]
    (actual,) = ts(lines, missing="hold")
    assert actual.values.tolist() == [[1, 5, 0], [1, 5, 0], [1, 6, 0], [1, 6, 0], [4, 7, 0]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*HEADER, "1,2:3,4:a", "1,2:3,x:b"], "input:8: value 2: expected a number, found 'x'"),
        ([*HEADER, "1,2:3:a"], "input:7: expected channels of equal length, found 1 and 2 values"),
        ([*HEADER, "1,2:3,4:c"], "input:7: the label 'c' is not in @classLabel a b"),
        ([*HEADER, "1,2:a"], "input:7: expected 2 channels, found 1"),
        ([*HEADER, "1,?:3,4:a"], "input:7: element 2 of channel 1 is missing"),
        ([*HEADER, "1,inf:3,4:a"], "input:7: element 2 of channel 1 is infinite"),
        ([*HEADER, "1,1e39:3,4:a"], "input:7: element 2 of channel 1 is infinite"),
        (["@classLabel false", "@data", "(0,1),(1,2)"], "input:3: time stamps are not supported"),
        (["@timeStamps true"], "input:1: time stamps are not supported"),
        (["@targetLabel true", "@data", "1,2:x"], "input:3: 'target': expected a number, found 'x'"),
        (
            ["@targetLabel true", "@data", "1,2:inf"],
            "input:3: 'target': expected a finite number as the target, found inf",
        ),
        (["@dimensions many"], "input:1: @dimensions: expected a positive integer, found 'many'"),
        (["1,2:a"], "input:1: expected a header (@name value) before @data, found '1,2:a'"),
        (["@problemName x"], "input: no line @data"),
    ],
)
def test_ts_errors_name_the_line(lines: list[str], message: str) -> None:
    with pytest.raises(DataError) as error:
        list(ts(lines))
    assert str(error.value).startswith(message)


def test_csv_has_one_sequence_per_row() -> None:
    lines = ["0,1,2,3,0000000010", "", "4,5,0100000000", "6,7"]
    assert read(csv(lines, channels=2)) == [
        ([[0, 1], [2, 3]], "0000000010", 1),
        ([[4, 5]], "0100000000", 3),
        ([[6, 7]], None, 4),
    ]


def test_csv_with_a_header_and_the_label_first() -> None:
    lines = ["class;t0;t1", '"walk";1;2', ";3;4"]
    assert read(csv(lines, label=0, separator=";")) == [([[1], [2]], "walk", 2), ([[3], [4]], None, 3)]


def test_csv_without_labels() -> None:
    assert read(csv(["1,2,3"], label=None)) == [([[1], [2], [3]], None, 1)]


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["1,2,3,a", "1,x,3,a"], {}, "input:2: value 2: expected a number, found 'x'"),
        (["1,2,3,4,a"], {"channels": 3}, "input:1: expected a positive multiple of 3 values (channels = 3), found 4"),
        (
            ["1,2,a"],
            {"label": 5},
            "input:1: task.label_column is 5, but there are only 3 columns (0 to 2; -1 is the last)",
        ),
        (["1,,a"], {}, "input:1: element 2 of channel 1 is missing"),
        (["a,b", "c"], {}, "input:2: expected a positive multiple of 1 values (channels = 1), found 0"),
    ],
)
def test_csv_errors_name_the_line(lines: list[str], options: Any, message: str) -> None:
    with pytest.raises(DataError) as error:
        list(csv(lines, **options))
    assert str(error.value).startswith(message)


def frame(case: VectorSequence) -> tuple[list[list[float]], tuple[str, ...] | None, int]:
    return case.values.tolist(), case.labels, case.location.line


def test_frames_are_separated_by_empty_lines() -> None:
    lines = ["x,y,state", "1,2,a", "3,4,b", "", "", "5,6,a"]
    assert [frame(case) for case in frames(lines)] == [([[1, 2], [3, 4]], ("a", "b"), 2), ([[5, 6]], ("a",), 6)]


def test_frames_are_grouped_by_an_id_column() -> None:
    lines = ["p,1,a", "p,2,b", "q,3,a"]
    actual = [frame(case) for case in frames(lines, identity=0)]
    assert actual == [([[1], [2]], ("a", "b"), 1), ([[3]], ("a",), 3)]
    assert [case.labels for case in frames(["1,2", "3,4"], label=None)] == [None]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1,2,a", "1,a"], "input:2: expected 2 values as in the rows above, found 1"),
        (["1,2,a", "1,2,"], "input:2: the label is missing"),
        (["1,2,a", "1,?,a"], "input:2: element 2 of channel 2 is missing"),
        (["1,a", "z,a"], "input:2: value 1: expected a number, found 'z'"),
    ],
)
def test_frame_errors_name_the_line(lines: list[str], message: str) -> None:
    with pytest.raises(DataError) as error:
        list(frames(lines))
    assert str(error.value).startswith(message)


@settings(max_examples=30)
@given(
    sequences=st.lists(
        arrays.arrays(np.float32, st.tuples(st.integers(0, 4), st.just(3)), elements=NUMBERS), min_size=1
    ),
    data=st.data(),
)
def test_npz_round_trip(tmp_path_factory: pytest.TempPathFactory, sequences: list[Any], data: Any) -> None:
    path = tmp_path_factory.mktemp("npz") / "x.npz"
    names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=5).filter(
        lambda name: name != "?"
    )
    labels = data.draw(st.lists(names, min_size=len(sequences), max_size=len(sequences)))
    write_npz(path, sequences, labels)
    actual = list(npz(path))
    assert [case.label for case in actual] == labels
    assert [case.location for case in actual] == [(str(path), number + 1) for number in range(len(sequences))]
    for case, expected in zip(actual, sequences, strict=True):
        np.testing.assert_array_equal(case.values, expected)


def test_npz_with_element_labels(tmp_path: Path) -> None:
    write_npz(tmp_path / "x.npz", [[[1.0], [2.0]], [[3.0]]], [["a", "b"], ["c"]])
    assert [frame(case)[:2] for case in npz(tmp_path / "x.npz")] == [([[1], [2]], ("a", "b")), ([[3]], ("c",))]


@pytest.mark.parametrize("order", ["C", "F"])
def test_npz_with_sequences_of_equal_length(tmp_path: Path, order: Any) -> None:
    x = np.asarray(np.arange(12).reshape(2, 3, 2), order=order)
    np.savez(tmp_path / "x.npz", x=x, y=np.array([7, 8]))
    actual = list(npz(tmp_path / "x.npz"))
    assert [case.values.tolist() for case in actual] == x.tolist()
    assert [case.label for case in actual] == ["7", "8"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.array([1, None])}, "x: expected numbers or strings, found object"),
        ({"z": np.zeros(3)}, "expected the arrays values and lengths, or x, found z"),
        ({}, "expected the arrays values and lengths, or x, found none"),
        ({"X": np.zeros((2, 3)), "labels": np.zeros(2)}, r"found X, labels; did you mean x\?"),
        ({"Values": np.zeros(3), "Lengths": np.ones(3)}, r"found Lengths, Values; did you mean values and lengths\?"),
        ({"x": np.zeros((2, 3, 4, 5))}, r"x: expected numbers \(N, T, D\), found float64 \(2, 3, 4, 5\)"),
        ({"values": np.zeros((3, 2)), "lengths": np.array([1, 1])}, "lengths add up to 2, but values has 3 rows"),
        (
            {"values": np.zeros((3, 2)), "lengths": np.array([4, -1])},
            "lengths: expected non-negative integers .*, found int64",
        ),
        ({"x": np.zeros((2, 3)), "y": np.array(["a"])}, "expected 2 labels .* or 6 .*, found 1"),
        (
            {"x": np.zeros((1, 3)), "y": np.array([np.nan])},
            ":1: element 1: expected a finite number as the target, found nan",
        ),
        ({"x": np.zeros((1, 3)), "y": np.array([["a"]])}, "labels: expected strings or numbers, found <U1"),
        ({"x": np.array([[1.0, np.nan]])}, "1: element 2 of channel 1 is missing"),
    ],
)
def test_npz_errors(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(DataError, match=message):
        list(npz(tmp_path / "x.npz"))


def header(shape: str, dtype: str = "<f4") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "member",
    [
        header("(4611686018427387904, 1)") + b"\0" * 8,
        header("(-1, 1)") + b"\0" * 8,
        header("(3, 1)") + b"\0" * 8,
        header("(2, 1)") + b"\0" * 20,
        header("(2, 1)", "|O") + b"\0" * 16,
        header("(True, 1)") + b"\0" * 4,
        header(f"(0, {10**30})"),
        header(f"({10**9},)", "<U0"),
        header("__import__('os').getcwd()"),
        b"nothing of this kind",
        b"",
    ],
)
def test_inconsistent_npz_header_is_an_error(tmp_path: Path, member: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", member)
    with pytest.raises(DataError, match=r"x\.npz: x: "):
        list(npz(tmp_path / "x.npz"))
    with pytest.raises(DataError, match=r"x\.npz: x: "):
        describe_npz(tmp_path / "x.npz")


@pytest.mark.parametrize("order", ["C", "F"])
def test_npz_is_described_without_its_values(tmp_path: Path, order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 3, 4), order=order), y=np.array(["a", "b"]), z=np.zeros(1))
    monkeypatch.setattr("seqloom.data.readers.npz.read_array", None)
    expected = "sequences from x (2, 3, 4), labels from y (2,); not read: z"
    assert describe_npz(tmp_path / "x.npz") == expected


@settings(max_examples=50)
@given(position=st.integers(0, 10_000), value=st.integers(0, 255))
def test_damaged_npz_raises_only_data_errors(
    tmp_path_factory: pytest.TempPathFactory, position: int, value: int
) -> None:
    stream = io.BytesIO()
    np.savez_compressed(
        stream, values=np.arange(20.0).reshape(10, 2), lengths=np.array([4, 6]), labels=np.array(["a", "b"])
    )
    content = bytearray(stream.getvalue())
    content[position % len(content)] = value
    path = tmp_path_factory.mktemp("npz") / "x.npz"
    path.write_bytes(content)
    try:
        list(npz(path))
    except DataError as error:
        assert str(path) in str(error)  # noqa: PT017  either answer is right, another error is not


@given(st.lists(st.text(alphabet="@#:,.?-01aex\t dimensoclt", max_size=12), max_size=6))
def test_fuzzed_text_raises_only_data_errors(lines: list[str]) -> None:
    for read_it in (ts, csv, frames):
        for source in (lines, [*HEADER, *lines]):
            try:
                list(read_it(source))
            except DataError as error:
                assert str(error).startswith("input")  # noqa: PT017  either answer is right, another error is not


def test_frames_without_a_row_of_numbers_are_an_error() -> None:
    with pytest.raises(DataError, match="input:1: expected rows of numbers, found only 'abc'"):
        list(frames(["abc"]))
    assert not list(frames([]))
