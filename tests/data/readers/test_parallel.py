import gzip
import io
import tarfile
from pathlib import Path

import pytest

from seqloom.data.fingerprint import fingerprint
from seqloom.data.readers.parallel import Pair, PairReader
from seqloom.data.readers.text_files import DataError, resolve


def pairs(source: Path | list[object], **options: object) -> list[tuple[str, str | None]]:
    return [(pair.source, pair.target) for pair in PairReader(**options).read(source)]  # type: ignore[arg-type]


def error_message(source: Path | list[object], **options: object) -> str:
    with pytest.raises(DataError) as error:
        pairs(source, **options)
    return str(error.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pairs.txt"


def test_columns(file: Path) -> None:
    file.write_text("go .\tva .\tfrom a book\n\nstop .\tarrête .\n")
    assert pairs(file) == [("go .", "va ."), ("stop .", "arrête .")]
    assert pairs(file, source_column=1, target_column=0) == [("va .", "go ."), ("arrête .", "stop .")]
    assert error_message(file, target_column=2) == f"{file}:3: expected 3 columns, found 2"
    actual = list(PairReader(source_length=len, target_length=lambda text: len(text.split())).read(file))
    assert actual[0] == Pair((str(file), 1), "go .", "va .", (4, 2))  # type: ignore[arg-type]
    assert [len(pair) for pair in actual] == [4, 6]


def test_custom_separators(file: Path) -> None:
    file.write_text("ABATE  AH B EY T\nABBA  AE B AH\n")
    assert pairs(file, separator="  ") == [("ABATE", "AH B EY T"), ("ABBA", "AE B AH")]
    file.write_text("a b ||| c\n")
    assert pairs(file, separator="|||") == [("a b", "c")]
    assert pairs(file) == [("a b ||| c", None)]  # nothing tells that it is more than a text


def test_named_columns(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text('id,en,de\n1,"yes, please","ja, bitte"\n')
    assert pairs(file, source_column="en", target_column="de") == [("yes, please", "ja, bitte")]
    assert pairs(file, source_column="en", target_column="fr") == [("yes, please", None)]
    assert "no column 'fr'" in error_message(file, source_column="fr", target_column="de")


def test_a_first_column_that_numbers_the_rows_is_no_source(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("4\tone dog\t71\tein Hund\n5\ttwo dogs\t12\tzwei Hunde\n9\tyes\t33\tja\n")
    assert pairs(file)[0] == ("one dog", "ein Hund")
    assert PairReader().inspect(file)[0] == {"source_column": 1, "target_column": 3}
    assert pairs(file, source_column=0, target_column=1)[0] == ("4", "one dog")
    file.write_text("1\tone\n2\ttwo\n3\tthree\n")  # there is no other source
    assert pairs(file)[0] == ("1", "one")
    file.write_text("1\tone\teins\n3\tthree\tdrei\n2\ttwo\tzwei\n")
    assert pairs(file)[0] == ("1", "one")


def test_parallel_files(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("one\ntwo\n")
    with gzip.open(tmp_path / "train.de", "wt") as stream:
        stream.write("eins\n zwei \n")
    path = resolve(str(tmp_path / "train.{en,de}"))
    assert pairs(path) == [("one", "eins"), ("two", "zwei")]
    assert pairs(tmp_path / "train.en") == [("one", None), ("two", None)]
    before = fingerprint(str(path))
    (tmp_path / "train.en").write_text("one\ntwo\nthree\n")
    assert error_message(path) == (
        f"{tmp_path}/train.en:3: this line has no counterpart: {tmp_path}/train.en has 3 lines, "
        f"{tmp_path}/train.de has 2"
    )
    assert fingerprint(str(path)) != before
    assert 'two files need format = "lines" or "auto", found "jsonl"' in error_message(path, format="jsonl")
    with pytest.raises(DataError, match=r"train\.fr: no such file; did you mean .*train"):
        resolve(str(tmp_path / "train.{en,fr}"))


def test_json(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text(
        '{"source": "read", "target": ["R IY D", "R EH D"]}\n{"source": "a", "target": "AH"}\n{"source": "b"}\n'
    )
    assert pairs(file) == [("read", "R IY D"), ("read", "R EH D"), ("a", "AH"), ("b", None)]
    file.write_text('{"en": "a", "de": {"b": "x", "c": "y"}}\n')
    nested = "'de' is an object (task.target_column); name a value inside of it: 'de.b' or 'de.c'"
    assert nested in error_message(file, source_column="en", target_column="de")
    file.write_text('{"en": "a", "de": [{"b": 3}]}\n')
    assert "'de': expected a string, found dict" in error_message(file, source_column="en", target_column="de")


def test_scan(file: Path) -> None:
    file.write_text("IN: jump twice OUT: I_JUMP I_JUMP\nIN: look OUT:I_LOOK\nIN: run\n")
    assert pairs(file) == [("jump twice", "I_JUMP I_JUMP"), ("look", "I_LOOK"), ("run", None)]
    file.write_text("IN: jump OUT: I_JUMP\nrun I_RUN\n")
    assert error_message(file) == f"{file}:2: expected 'IN: source OUT: target', found 'run I_RUN'"


def test_file_in_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "train.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in (("train/ady.tsv", "абэ\taːbɜ\n"), ("train/arm.tsv.gz", "")):
            data = text.encode() or gzip.compress("բառ\tb ɑ r\n".encode())
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    inside = resolve(str(path / "train" / "ady.tsv"))
    assert pairs(inside) == [("абэ", "aːbɜ")]
    assert next(PairReader().read(inside)).location == (str(inside), 1)
    assert pairs(path / "train" / "arm.tsv.gz") == [("բառ", "b ɑ r")]
    assert error_message(path / "train" / "adi.tsv") == (
        f"{path}/train/adi.tsv: no such file in the archive; did you mean {path}/train/ady.tsv?"
    )
    assert fingerprint(str(inside)) == fingerprint(str(path))
    path.write_bytes(path.read_bytes()[:60])
    assert f"{path}: not a tar or zip archive, or damaged" in error_message(inside)
    (tmp_path / "plain").write_text("a\tb\n")
    assert f"{tmp_path}/plain: not a tar or zip archive, or damaged" in error_message(tmp_path / "plain" / "x.tsv")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def set_standard_input(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    set_standard_input("one, two\nthree\tdrei\n")
    assert [pair.source for pair in PairReader(separator=",").read_inputs(Path("-"))] == ["one, two", "three\tdrei"]
    set_standard_input("one, two\tzwei\nthree\n")
    assert pairs(Path("-")) == [("one, two", "zwei"), ("three", None)]
    set_standard_input('{"source": "x"}\n')
    assert [pair.source for pair in PairReader(format="jsonl").read_inputs(Path("-"))] == ["x"]


def test_lists() -> None:
    assert pairs(["a b", ("c", "d")]) == [("a b", None), ("c", "d")]
    assert error_message([3]) == "input:1: expected a string or a tuple of two, found int"
    assert error_message(["a", ("b", 3)]) == "input:2: expected a string or a tuple of two, found int"
    assert "NUL" in error_message(["a\0"])
    with pytest.raises(DataError, match="expected a list of strings, found a single string"):
        list(PairReader().read("a text"))


def test_invalid_utf8_is_an_error(file: Path) -> None:
    file.write_bytes(b"a\tb\n\xff\tb\n")
    assert error_message(file).startswith(f"{file}:2: expected UTF-8, found byte 0xff at byte 1")
    assert pairs(file, encoding="latin-1")[1] == ("ÿ", "b")


def test_read_inputs_has_each_source_once(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"source": "a", "target": ["x", "y"]}\n{"source": "b", "target": []}\n{"source": "c"}\n')
    assert [pair.source for pair in PairReader().read_inputs(path)] == ["a", "b", "c"]
    assert [(pair.source, pair.target) for pair in PairReader().read(path)] == [
        *[("a", "x"), ("a", "y"), ("b", None), ("c", None)]
    ]
