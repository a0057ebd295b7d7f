import builtins
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from seqloom.data.builtin import datasets
from seqloom.data.builtin.datasets import (
    BUILDERS,
    adding,
    build,
    copy,
    digits,
    parentheses,
    prose,
    python_tags,
    sunspots,
)
from seqloom.data.readers.conll import Block, conll
from seqloom.data.readers.series import table
from seqloom.data.readers.text_files import delimited, labelled, lines
from seqloom.data.readers.vectors import ts


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let data sets have a few examples."""
    text_sizes = (datasets.TEXTS, datasets.TAGGED, datasets.NAMES, datasets.PRONOUNS, datasets.PAIRS)
    media_sizes = (datasets.DATES, datasets.IMAGES, datasets.LINES, datasets.CLIPS, datasets.WORDS)
    for sizes in (*media_sizes, *text_sizes):
        for split in sizes:
            monkeypatch.setitem(sizes, split, 60 if split == "train" else 20)


def content(path: Path) -> bytes:
    """The bytes of a file, or of all files of a folder."""
    return b"".join(file.read_bytes() for file in sorted(path.iterdir())) if path.is_dir() else path.read_bytes()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", BUILDERS)
def test_data_sets_are_deterministic(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)
    first, second = (BUILDERS[name](tmp_path / folder / name) for folder in ("a", "b"))
    assert [path.stem for path in first] == ["train", "dev", "test"]
    contents = [content(path) for path in first]
    assert contents == [content(path) for path in second]
    assert len(contents[0]) > max(len(contents[1]), len(contents[2]))


def test_prose_has_distinct_sentences(tmp_path: Path) -> None:
    parts = [[line for _, line in lines(path)] for path in prose(tmp_path)]
    everything = [line for part in parts for line in part]
    assert len(everything) == len(set(everything)) > 500
    assert sum(map(len, everything)) > 100_000
    assert all(re.match("[A-Z]", line) and "  " not in line.replace(".  ", ". ") for line in everything)
    assert any("truth value testing" in line.lower() for line in everything)


def rows(blocks: list[Block]) -> list[tuple[str, str]]:
    return [(token, label) for block in blocks for token, label in block.rows]


@pytest.fixture(scope="module")
def tags(tmp_path_factory: pytest.TempPathFactory) -> list[list[Block]]:
    return [list(conll(path)) for path in python_tags(tmp_path_factory.mktemp("tags"))]


def test_python_tags_match_the_tokenizer(tags: list[list[Block]]) -> None:
    train, dev, test = tags
    assert 3000 < len(train) < 6000
    assert min(len(dev), len(test)) > 200
    counts = Counter(label for _, label in rows(train))
    assert len(counts) == 18
    assert max(len(block.rows) for block in train) <= 60
    for token, label in rows(train):
        assert not re.search(r"\s", token)
        assert (label == "COMMENT") == token.startswith("#")
        if label == "BUILTIN":
            assert hasattr(builtins, token)
        if label == "NUMBER":
            assert re.match(r"[0-9.]", token)
    for block in train:
        for (before, _), (token, label) in zip(block.rows, block.rows[1:], strict=False):
            assert before != "def" or label == "FUNCTION", block
            assert before != "class" or label == "CLASS"
            assert before != "." or label in ("METHOD", "ATTRIBUTE", "MODULE", "KEYWORD", "OPERATOR"), (before, token)


def test_role_of_a_name_depends_on_its_context(tags: list[list[Block]]) -> None:
    actual: dict[str, set[str]] = {}
    for token, label in rows(tags[0]):
        actual.setdefault(token, set()).add(label)
    assert {"TARGET", "NAME", "PARAMETER", "ATTRIBUTE"} <= actual["name"]
    assert sum(len(labels) > 1 for labels in actual.values()) > 200


def test_digits_are_rows_of_images(tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    images, classes = load_digits(return_X_y=True)
    actual = [item for path in digits(tmp_path) for item in ts(path)]
    np.testing.assert_array_equal([item.values for item in actual], images.reshape(-1, 8, 8))
    assert [item.label for item in actual] == [str(name) for name in classes]


def test_sunspots_match_the_published_series(tmp_path: Path) -> None:
    parts = [list(delimited(path, header=True)) for path in sunspots(tmp_path)]
    assert [part[0][1] for part in parts] == [["year", "sunspots"]] * 3
    years = {int(year): float(value) for part in parts for _, (year, value) in part[1:]}
    assert list(years) == list(range(1700, 2009))
    whole = table(tmp_path / "sunspots.csv", columns=["sunspots"])
    assert whole.values[:, 0].tolist() == list(years.values())
    assert max(years, key=years.__getitem__) == 1957
    assert {year: years[year] for year in (1700, 1749, 1816, 1957, 2008)} == {
        1700: 5,
        1749: 80.9,
        1816: 45.8,
        1957: 190.2,
        2008: 2.9,
    }
    assert sum(years.values()) == pytest.approx(49.752 * 309, abs=0.2)  # the mean as statsmodels has it


def test_copy_repeats_letters_after_the_delay(tmp_path: Path) -> None:
    train, dev, test = (list(conll(path)) for path in copy(tmp_path, delay=7))
    assert (len(train), len(dev), len(test)) == (2000, 200, 500)
    for block in train:
        read, expected_labels = ("".join(column) for column in zip(*block.rows, strict=True))
        assert re.fullmatch(r"[a-h]{5}-{7}:-{4}", read)
        assert expected_labels == "-" * 12 + read[:5]
    assert len({str(block.rows) for block in train + test}) > 2400


def test_adding_labels_the_sum_of_marked_numbers(tmp_path: Path) -> None:
    actual = list(ts(adding(tmp_path, length=12).train))
    assert len(actual) == 2000
    for item in actual:
        values = item.values.astype(float).round(3)
        assert values.shape == (12, 2)
        assert values[:6, 1].sum() == values[6:, 1].sum() == 1
        assert item.label == ("more" if values[:, 0] @ values[:, 1] > 1 else "less")
    assert 0.45 < np.mean([item.label == "more" for item in actual]) < 0.55


def test_parentheses_labels_are_correct(tmp_path: Path) -> None:
    actual = list(labelled(parentheses(tmp_path).train))
    assert Counter(label for _, label, _ in actual) == {"balanced": 1000, "unbalanced": 1000}
    for _, label, text in actual:
        rest = text.replace(" ", "")
        counts = Counter(rest)
        assert counts["("] == counts[")"]
        assert counts["["] == counts["]"]
        while (shorter := rest.replace("()", "").replace("[]", "")) != rest:
            rest = shorter
        assert (label == "balanced") == (not rest)


def test_seeds_change_the_data(tmp_path: Path) -> None:
    assert copy(tmp_path / "a", seed=2).train.read_bytes() != copy(tmp_path / "b", seed=3).train.read_bytes()


def test_build_needs_an_empty_folder(tmp_path: Path) -> None:
    files = build("copy", tmp_path / "new")
    assert [path.read_bytes() for path in files] == [path.read_bytes() for path in copy(tmp_path / "other")]
    with pytest.raises(ValueError, match="new exists and is not empty"):
        build("copy", tmp_path / "new")
    with pytest.raises(ValueError, match="no data set 'digit': did you mean 'digits'"):
        build("digit", tmp_path / "third")
