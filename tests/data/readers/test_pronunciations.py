"""Pronunciation dictionaries and word lists."""

from pathlib import Path

import pytest

from seqloom.data.readers.pronunciations import first_spellings, read_pronunciations
from seqloom.data.readers.text_files import DataError


def write(folder: Path, text: str) -> Path:
    path = folder / "words.dict"
    path.write_text(text)
    return path


def test_pronunciations_with_variants_and_comments(tmp_path: Path) -> None:
    path = write(tmp_path, ";;; a comment\nREAD  R IY D\nREAD(2)\tR EH D # past\n\nA(1) EY\n")
    actual = [(entry.location.line, entry.word, entry.spelling) for entry in read_pronunciations(path)]
    assert actual == [(2, "READ", ("R", "IY", "D")), (3, "READ", ("R", "EH", "D")), (5, "A", ("EY",))]
    assert first_spellings(path) == {"READ": ("R", "IY", "D"), "A": ("EY",)}


def test_word_list(tmp_path: Path) -> None:
    path = write(tmp_path, "yes\nno\nf(2)\n")
    assert [(entry.word, entry.spelling) for entry in read_pronunciations(path)] == [
        ("yes", ()),
        ("no", ()),
        ("f(2)", ()),
    ]
    with pytest.raises(DataError, match=r"words.dict:1: expected a word and its spelling, found only 'yes'"):
        first_spellings(path)


def test_mixed_entries_are_errors(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"words.dict:2: expected a word and its spelling as in the lines above, found 'no'"
    ):
        list(read_pronunciations(write(tmp_path, "yes Y EH S\nno\n")))
    with pytest.raises(
        DataError, match=r"words.dict:2: expected a word without spelling as in the lines above, found 'no "
    ):
        list(read_pronunciations(write(tmp_path, "yes\nno N OW\n")))
