import codecs
import copy
import csv
import gzip
import io
import re
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.readers import text_files
from seqloom.data.readers.conll import conll, conllu
from seqloom.data.readers.text_files import (
    DataError,
    Location,
    delimited,
    jsonl,
    labelled,
    lines,
    parallel,
    resolve,
    tsv,
)

Reader = Callable[[Path], Iterator[Any]]

WORD = "1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_"
VALID: dict[str, tuple[Reader, str]] = {
    "lines": (lines, "one line\nzwei Zeilen ü\n\n三\r\nlast"),
    "tsv": (lambda path: tsv(path, columns=2), "a\tb\nc d\te\n\nf\tg\n"),
    "delimited": (lambda path: delimited(path, header=True), 'x,y\n1,2\n"a, ""b""\nc",4\n'),
    "conll": (conll, "-DOCSTART- O\n\nEU B-ORG\nrejects O\n\nGerman B-MISC\n"),
    "conllu": (conllu, f"# text = x\n1-2\tdu{'	_' * 8}\n{WORD}\n2.1\tx{'	_' * 8}\n\n{WORD}\n"),
    "jsonl": (jsonl, '{"a": 1, "b": "\\u00e4\\ud83d\\ude00"}\n\n{"c": [1.5, null, {"d": true}]}\n'),
    "labelled": (labelled, "1 a fine film\n__label__bad\ta poor one\nDESC:manner How ?\n"),
    "parallel": (lambda path: parallel(path, path), "one line\ntwo\n"),
}


def pack(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def write_bytes(folder: Path, data: bytes, name: str = "data.txt") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def texts(source: text_files.Source) -> list[str]:
    return [line for _, line in lines(source)]


def error(read: Iterator[Any]) -> str:
    with pytest.raises(DataError) as caught:
        list(read)
    return str(caught.value)


class Standard:
    """Standard input with the given bytes."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


@given(
    st.lists(st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]))),
    st.sampled_from(["\n", "\r\n"]),
)
def test_lines_are_split_at_line_ends(tmp_path_factory: pytest.TempPathFactory, texts_: list[str], end: str) -> None:
    folder = tmp_path_factory.mktemp("lines")
    data = "".join(text + end for text in texts_).encode()
    texts_[:1] = [text.removeprefix("\ufeff") for text in texts_[:1]]
    for path in (write_bytes(folder, data), write_bytes(folder, pack(data), "packed")):
        assert list(lines(path)) == [(Location(str(path), number), text) for number, text in enumerate(texts_, start=1)]


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    strange = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh"
    assert texts(write_bytes(tmp_path, f"{strange}\nlast".encode())) == [strange, "last"]


@pytest.mark.parametrize(
    ("data", "expected"), [(b"", []), (b"\n", [""]), (b"\xef\xbb\xbfa\r\nb", ["a", "b"]), (b"\xef\xbb\xbf", [""])]
)
def test_empty_files_and_byte_order_marks(tmp_path: Path, data: bytes, expected: list[str]) -> None:
    assert texts(write_bytes(tmp_path, data)) == expected
    assert texts(write_bytes(tmp_path, pack(data))) == expected


def test_gzip_members_are_concatenated(tmp_path: Path) -> None:
    assert texts(write_bytes(tmp_path, pack(b"a\nb") + pack(b"c\n"))) == ["a", "bc"]


@pytest.mark.parametrize("packed", [bytes, pack])
def test_standard_input(monkeypatch: pytest.MonkeyPatch, packed: Callable[[bytes], bytes]) -> None:
    monkeypatch.setattr(sys, "stdin", Standard(packed(b"a\nb\xff\n")))
    actual = lines(Path("-"))
    assert next(actual) == (Location("standard input", 1), "a")
    assert error(actual) == (
        "standard input:2: expected UTF-8, found byte 0xff at byte 2 of the line; "
        'for another encoding set it, for example task.encoding = "latin-1", or predict --encoding latin-1'
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"good\n\xc3\xa4\xff\n", ":2: expected UTF-8, found byte 0xff at byte 3 of the line"),
        (b"good\ngood\nba\0d", ":3: expected text, found a NUL byte at byte 3 of the line"),
        (
            "a\nb".encode("utf-16")[:-1],
            ": the byte order mark is that of UTF-16, but the text is not valid",
        ),
        (pack(b"a\nb\n")[:-9], ":3: the compressed data are damaged or truncated here"),
        (pack(b"a\nb\n")[:12], ":1: the compressed data are damaged or truncated here"),
        (pack(b"a\nb\n") + b"rest", ":3: the compressed data are damaged or truncated here"),
    ],
)
def test_invalid_bytes_name_file_and_line(tmp_path: Path, data: bytes, message: str) -> None:
    path = write_bytes(tmp_path, data)
    assert error(lines(path)).startswith(f"{path}{message}")


@pytest.mark.parametrize("packed", [bytes, pack])
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8-sig", "gb18030", "shift_jis", "iso2022_jp", "koi8_r"])
def test_encodings(tmp_path: Path, encoding: str, packed: Callable[[bytes], bytes]) -> None:
    expected = {"latin-1": "é ÿ\x85", "koi8_r": "Привет Ё", "cp1252": "“é€”", "utf-8-sig": "é三"}.get(
        encoding, "日本 語"
    )
    data = f"{expected}\r\n\n{expected}".encode(encoding)
    assert [text for _, text in lines(write_bytes(tmp_path, packed(data)), encoding=encoding)] == [
        expected,
        "",
        expected,
    ]


@pytest.mark.parametrize("packed", [bytes, pack])
@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_utf_16_is_known_by_its_mark(
    tmp_path: Path, mark: bytes, encoding: str, packed: Callable[[bytes], bytes]
) -> None:
    texts = ["Ąć\u0a0d 𝄞", "", "ÿ" * 9000, "a\x85b\u2028c"]
    order = "utf-16-le" if mark == codecs.BOM_UTF16_LE else "utf-16-be"
    path = write_bytes(tmp_path, packed(mark + "\r\n".join(texts).encode(order)))
    assert [text for _, text in lines(path, encoding=encoding)] == texts


def test_every_format_supports_encodings(tmp_path: Path) -> None:
    assert [text for _, text in lines(["é"], encoding="latin-1")] == ["é"]
    latin: Any = {"encoding": "latin-1"}
    readers: list[tuple[Reader, str]] = [
        (lambda path: tsv(path, **latin), "é\tè"),
        (lambda path: delimited(path, header=False, **latin), '"é",è'),
        (lambda path: conll(path, **latin), "é è"),
        (lambda path: conllu(path, **latin), WORD.replace("The", "é")),
        (lambda path: jsonl(path, **latin), '{"é": "è"}'),
        (lambda path: labelled(path, **latin), "é è"),
        (lambda path: parallel(path, path, **latin), "é"),
    ]
    for read, text in readers:
        assert "é" in str(list(read(write_bytes(tmp_path, text.encode("latin-1")))))


@pytest.mark.parametrize(
    ("encoding", "data", "message"),
    [
        ("cp1252", b"a\n\x81", ":2: expected CP1252, found byte 0x81 at byte 1 of the line"),
        ("utf-7", b"+2AA-", ":1: found an unpaired surrogate at character 1"),
        ("idna", b"xn--\xff", ":1: expected IDNA, found byte "),
    ],
)
def test_undecodable_bytes_are_errors(tmp_path: Path, encoding: str, data: bytes, message: str) -> None:
    path = write_bytes(tmp_path, data)
    assert error(lines(path, encoding=encoding)).startswith(f"{path}{message}")


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("latin-11", "encoding 'latin-11': unknown text encoding; use utf-8, latin-1, "),
        ("a\0b", "unknown text encoding"),
        ("", "unknown text encoding"),
        ("rot13", "unknown text encoding"),
        ("zlib", "unknown text encoding"),
        ("utf-16", "encoding 'utf-16': unsupported; leave it out: UTF-16 is known by its byte order mark"),
        ("utf-32", "encoding 'utf-32': unsupported, since a line feed is not a single byte; convert the files"),
        ("cp037", "a line feed is not a single byte"),
        ("undefined", "a line feed is not a single byte"),
    ],
)
def test_unsupported_encodings_are_errors(encoding: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        next(lines(["a"], encoding=encoding))


def test_unreadable_files_are_errors(tmp_path: Path) -> None:
    write_bytes(tmp_path, b"", "train.tsv")
    assert error(lines(tmp_path)) == f"{tmp_path}: expected a file, found a folder"
    wrong = tmp_path / "trian.tsv"
    assert error(lines(wrong)) == f"{wrong}: no such file; did you mean {tmp_path / 'train.tsv'}?"
    other = tmp_path / "nothing.tsv"  # the common suffix makes no similar name
    assert error(lines(other)) == f"{other}: no such file"
    assert "cannot open the file" in error(lines(tmp_path / "a\0b"))
    none = tmp_path / "none" / "x"
    assert error(lines(none)) == f"{none}: no such file; cannot read its folder: No such file or directory"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("text", "input: expected a list of strings or a Path, found a single string"),
        (["a", 5], "input:2: expected a string, found int"),
        (["a\0"], "input:1: found a NUL character"),
        (["a", "b\ud800"], "input:2: found an unpaired surrogate at character 2"),
    ],
)
def test_invalid_python_values_are_errors(source: Any, message: str) -> None:
    assert error(lines(source)) == message


def test_overlong_line_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "LONGEST_LINE", 4)
    path = write_bytes(tmp_path, pack(b"abc\nabcd\n"))
    assert error(lines(path)) == f"{path}:2: the line is longer than 4 bytes"


def test_data_error_can_be_pickled() -> None:
    bad = DataError(Location("a", 3), "wrong")
    again = copy.copy(bad)  # by the same steps as between processes
    assert (str(again), again.location, again.message) == ("a:3: wrong", Location("a", 3), "wrong")


def test_a_run_is_no_data(tmp_path: Path) -> None:
    for name in ("manifest.json", "learned.json"):
        assert resolve(str(tmp_path)) == tmp_path  # any folder
        (tmp_path / name).write_text("{}")
    with pytest.raises(DataError, match=f"{tmp_path}: a run, not data: give a file, or a folder with the data"):
        resolve(str(tmp_path))
    assert resolve(str(tmp_path), may_be_run=True) == tmp_path


def test_resolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_bytes(tmp_path, b"", "train.tsv")
    monkeypatch.setenv("FOLDER", str(tmp_path))
    monkeypatch.delenv("NOTHING", raising=False)
    assert resolve("$FOLDER/train.tsv") == resolve("${FOLDER}/train.tsv") == resolve(str(path)) == path
    assert resolve("-") == Path("-")
    assert resolve("$FOLDER/train.tsv[0:0.5]") == Path(f"{path}[0:0.5]")
    assert resolve("/") == Path("/")
    for text, message in [
        ("$NOTHING/x", "$NOTHING/x: the environment variable NOTHING is not set"),
        ("$FOLDER/trains.tsv", f"did you mean {path}?"),
        ("$FOLDER/trains.tsv[:5]", f"{tmp_path / 'trains.tsv'}: no such file; did you mean {path}?"),
        ("", "not a file name"),
        ("~nobody of this name/x", "~nobody of this name/x: no such file"),
        (f"$FOLDER/{'x' * 5000}/y", "File name too long"),
    ]:
        with pytest.raises(DataError) as caught:
            resolve(text)
        assert message in str(caught.value)


def test_tsv() -> None:
    assert list(tsv(["a\tb c", "", "\td"], columns=2)) == [(("input", 1), ["a", "b c"]), (("input", 3), ["", "d"])]
    assert [fields for _, fields in tsv(["a|b|c"], separator="|")] == [["a", "b", "c"]]
    assert error(tsv(["a\tb", "c"], columns=2)) == "input:2: expected 2 columns separated by '\\t', found 1"


@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"])), min_size=2, max_size=2)
    )
)
def test_delimited_reads_output_of_csv_writer(records: list[list[str]]) -> None:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(records)
    text = written.getvalue()
    actual = list(delimited(text.split("\n")[:-1], header=False))
    assert [fields for _, fields in actual] == records
    starts = [
        1 + sum(field.count("\n") for record in records[:index] for field in record) + index
        for index in range(len(records))
    ]
    assert [location.line for location, _ in actual] == starts


def test_invalid_csv_records() -> None:
    assert (
        error(delimited(["a,b", "1,2", "3"], header=True))
        == "input:3: expected 2 fields as in the first record, found 1"
    )
    assert error(delimited(["a,a", "1,2"], header=True)) == "input:1: duplicate column names"
    assert error(delimited(["a,b", '1,"2', "3,4"], header=True)).startswith("input:2: not a CSV record")
    [(_, fields)] = delimited(["x" * 1_000_000 + ",1"], header=False)
    assert len(fields[0]) == 1_000_000
    with pytest.raises(ValueError, match="expected a single character"):
        list(delimited(["a"], separator=", ", header=False))


def test_jsonl() -> None:
    assert list(jsonl(['{"a": "\\u00e4"}', " ", '{"b": []}'])) == [
        (("input", 1), {"a": "ä"}),
        (("input", 3), {"b": []}),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{'a': 1}", "invalid JSON: Expecting property name enclosed in double quotes at character 2"),
        ("[1]", "expected a JSON object {...}, found list"),
        ('{"a": NaN}', "invalid JSON: NaN is not a JSON number"),
        ('{"a": "\\ud800"}', "found an unpaired surrogate"),
        ('{"a": "\\u0000"}', "found a NUL character"),
        ('{"a": ' + "[" * 100_000, "invalid JSON"),
        ('{"a": ' + "1" * 5_000 + "}", "invalid JSON"),
    ],
)
def test_invalid_json(line: str, message: str) -> None:
    assert error(jsonl(["{}", line])).startswith(f"input:2: {message}")


def test_labelled() -> None:
    text = ["1 a  film\there ", "", "__label__good\tfine", "DESC:manner  How", " 2\t\tx"]
    actual = [(location.line, label, words) for location, label, words in labelled(text)]
    assert actual == [(1, "1", "a  film\there"), (3, "good", "fine"), (4, "DESC:manner", "How"), (5, "2", "x")]
    assert error(labelled(["1 a", "2 "])) == "input:2: expected a label and a text separated by a space, found only '2'"
    assert error(labelled(["__label__a __label__b text"])) == "input:1: expected one label, found several"


def test_parallel(tmp_path: Path) -> None:
    left, right = write_bytes(tmp_path, b"a\nb\nc\n", "in"), write_bytes(tmp_path, b"1\n2\n", "out")
    assert [pair[1:] for pair in parallel(right, right)] == [("1", "1"), ("2", "2")]
    assert error(parallel(left, right)) == f"{left}:3: this line has no counterpart: {left} has 3 lines, {right} has 2"
    assert error(parallel(right, left)) == f"{left}:3: this line has no counterpart: {right} has 2 lines, {left} has 3"


@pytest.mark.parametrize(
    ("reader", "data"),
    [
        ("lines", "ä" * 5_000_000),
        ("lines", "😀" + "a" * 10_000_000),
        ("lines", "a\n" * 50_000),
        ("tsv", "a\tb\n" * 25_000),
        ("delimited", "a,b\n" * 25_000),
        ("conll", "a O\n" * 20 + ("\n" + "a O\n" * 20) * 1_000),
        ("labelled", "a " + "word " * 1_000_000),
        ("jsonl", '{"a": "' + "b" * 5_000_000 + '"}'),
    ],
)
def test_memory_is_less_than_ten_times_the_file(tmp_path: Path, reader: str, data: str) -> None:
    path = write_bytes(tmp_path, data.encode())
    tracemalloc.start()
    try:
        for _ in VALID[reader][0](path):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * path.stat().st_size


def damage(data: bytes, chance: np.random.Generator) -> bytes:
    """A file with a few bytes changed, deleted, inserted or repeated; some gzipped and damaged again."""
    changed = bytearray(data)
    pieces = [
        b"",
        b"\0",
        b"\xff",
        b"\xed\xa0\x80",
        b"\t",
        b"\n",
        b"\r",
        b'"',
        b" ",
        b",",
        b"{",
        b"\\ud800",
        b"\xe2\x80\xa8",
    ]
    for _ in range(chance.integers(1, 5)):
        start = int(chance.integers(len(changed) + 1))
        stop = start + (0, 1, 1, 5, 50)[chance.integers(5)]
        options = [*pieces, chance.bytes(1), bytes(changed[start:stop]) * 2]
        changed[start:stop] = options[chance.integers(len(options))]
    if chance.random() < 0.8:
        return bytes(changed)
    packed = bytearray(pack(bytes(changed)))
    if chance.random() < 0.7:
        packed[chance.integers(2, len(packed))] ^= 1 << int(chance.integers(8))
    return bytes(packed[: chance.integers(len(packed))] if chance.random() < 0.5 else packed)


def refused(name: str, path: Path, seed: int) -> bool:
    """Whether a damaged file raised a DataError with its name; other errors propagate."""
    reader, text = VALID[name]
    path.write_bytes(damage(text.encode(), np.random.default_rng(seed)))
    try:
        for _ in reader(path):
            pass
    except DataError as bad:
        return str(bad).startswith(f"{path}:")
    return False


@pytest.mark.parametrize("name", VALID)
def test_damaged_files_are_read_or_rejected(tmp_path: Path, name: str) -> None:
    assert list(VALID[name][0](write_bytes(tmp_path, VALID[name][1].encode())))
    assert 10 < sum(refused(name, tmp_path / "fuzzed", seed) for seed in range(100)) < 100
