from collections.abc import Iterator
from typing import Any

import pytest

from seqloom.data.readers.conll import conll, conllu
from seqloom.data.readers.text_files import DataError

WORD = "1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_"


def error(read: Iterator[Any]) -> str:
    with pytest.raises(DataError) as caught:
        list(read)
    return str(caught.value)


def test_conll() -> None:
    text = [
        "-DOCSTART- -X-",
        "",
        "EU  B-ORG",
        "rejects O ",
        " \t",
        "",
        "ice cream\tB-FOOD",
        "\u2028\u00a0\tO",
        "-DOCSTART- O",
        "x O",
    ]
    actual = [(block.location.line, block.rows, str(block.at(len(block.rows) - 1))) for block in conll(text)]
    assert actual == [
        (3, [["EU", "B-ORG"], ["rejects", "O"]], "input:4"),
        (7, [["ice cream", "B-FOOD"], ["\u2028\u00a0", "O"]], "input:8"),
        (10, [["x", "O"]], "input:10"),
    ]
    assert [block.rows for block in conll(["a b|O"], separator="|")] == [[["a b", "O"]]]


def test_invalid_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert error(conll(["a O", "b", "c O"])) == "input:2: expected 2 columns as in the rows above, found 1"
    assert error(conll(["a\tO", "", "\tO"])) == "input:3: column 1 is empty"
    assert (
        error(conllu(["# x", WORD, WORD[:-2]]))
        == "input:3: expected the 10 columns of CoNLL-U separated by tabs, found 9"
    )
    assert (
        error(conllu([WORD.replace("1", "x", 1)])) == "input:1: expected the number of the word in column 1, found 'x'"
    )
    monkeypatch.setattr("seqloom.data.readers.conll.LONGEST_SENTENCE", 2)
    assert error(conll(["a", "b", "", "c", "d", "e"])).startswith("input:6: no empty line in the last 2 rows")


def test_conllu_skips_ranges_and_empty_nodes() -> None:
    rest = "\t_" * 8
    text = [
        "# sent_id = 1",
        "1-2\tdu" + rest,
        WORD,
        "1.1\tgone" + rest,
        WORD.replace("1", "2", 1),
        "",
        "# empty",
        "",
        WORD,
    ]
    blocks = list(conllu(text))
    assert [[row[0] for row in block.rows] for block in blocks] == [["1", "2"], ["1"]]
    assert [[block.at(row).line for row in range(len(block.rows))] for block in blocks] == [[3, 5], [9]]
    assert blocks[0].rows[0] == WORD.split("\t")
