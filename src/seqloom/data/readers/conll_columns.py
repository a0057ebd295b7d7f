"""The columns of CoNLL and CoNLL-U files: which hold the words and the labels, and whether a file has columns."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice

from seqloom.data.readers import column_names
from seqloom.data.readers.columns import LabelColumn, label_columns
from seqloom.data.readers.conll import LONG_SENTENCE, Block, conll, split
from seqloom.data.readers.text_files import DataError, Location, Source, no_such_column

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
Column = int | str
"""The index of a column from 0 (negative: from the end), or its name in a header or in CoNLL-U."""
HEADER = (set(column_names.WORD), set(column_names.WORD_LABEL))
"""First and last name in the header of a CoNLL file."""
PLACEHOLDERS = ("_", "-", "-X-")  # for labels that are not known
HEAD = 50  # sentences that show what the columns hold
MIN_NUMBERED = 6  # rows of which the first column counts the words
PART = re.compile(r"[0-9]+[-.][0-9]+")  # number of a multiword range or an empty node


def is_conllu(first: Sequence[str]) -> bool:
    """Whether the first lines of a file have ten columns separated by tabs, which start with 1, 2, 3 … ."""
    rows = [split(line, "\t") for line in first if not line.startswith("#")]
    sentences = [list(group) for filled, group in groupby(rows, key=bool) if filled]
    return {len(row) for row in rows if row} == {len(CONLLU)} and all(map(_counts_words, sentences))


def _counts_words(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first column of a sentence is 1, 2, 3 … ."""
    numbers = [row[0] for row in rows if not PART.fullmatch(row[0])]
    return numbers == [str(number) for number in range(1, len(numbers) + 1)]


def describe_columns(
    source: Source,
    *,
    words: Column | None,
    labels: LabelColumn | None,
    features: Sequence[Column],
    separator: str | None,
    encoding: str,
    check: bool,  # refuse columns and sentences that are certainly misread
) -> str:
    """The columns of a CoNLL file that are read; empty if there is only one."""
    head = list(islice(conll(source, separator=separator, encoding=encoding), HEAD))
    blocks = list(without_header(iter(head)))
    if not blocks:
        return ""
    first, width = blocks[0], len(blocks[0].rows[0])
    rows = sum(len(block.rows) for block in blocks)
    numbered = len(blocks) > 1 and rows >= MIN_NUMBERED and all(_counts_words(block.rows) for block in blocks)
    if check and words is None and width > 1 and numbered:
        raise DataError(
            first.location,
            "column 1 counts 1, 2, 3, … within each sentence: set task.word_column = 1 if column 2 holds the words; "
            "task.word_column = 0 takes the numbers",
        )
    if check and len(blocks) == 1 and rows > LONG_SENTENCE:
        raise DataError(
            first.location,
            f"found a single sentence of {rows:,} words: separate sentences by empty lines; "
            'task.format = "conll" reads it nevertheless',
        )
    if width == 1:
        return ""
    word = find_column(first.location, 0 if words is None else words, width, key="word_column")
    chosen = [
        find_column(first.location, column, width, key="label_column") for column in label_columns(labels) or (-1,)
    ]
    read = [find_column(first.location, column, width, key="feature_columns") for column in features]
    _check_distinct(first.location, word, chosen, read)
    others = [str(index + 1) for index in range(width) if index not in (word, *chosen, *read)]
    taken = [f"word from column {word + 1} (task.word_column = {word})"]
    taken += [f"feature from column {index + 1}" for index in read]
    taken += [f"label from column {index + 1} (task.label_column = {index})" for index in chosen]
    unread = f"; not read: column{'s' * (len(others) > 1)} {', '.join(others)}" if others else ""
    header = f"; line {head[0].location.line} is a header" if is_header(head[0].rows[0]) else ""
    return ", ".join(taken) + unread + header


def describe_conllu(words: Column | None, labels: LabelColumn | None, features: Sequence[Column]) -> str:
    """The columns of CoNLL-U that are read."""
    columns = [("word", "word_column", "form" if words is None else words)]
    columns += [("feature", "feature_columns", column) for column in features]
    columns += [("label", "label_column", column) for column in label_columns(labels) or ("upos",)]
    where = Location("CoNLL-U", 0)
    indices = [(noun, find_column(where, column, len(CONLLU), key=key, names=CONLLU)) for noun, key, column in columns]
    read, chosen = ([index for noun, index in indices if noun == kind] for kind in ("feature", "label"))
    _check_distinct(where, indices[0][1], chosen, read)
    return "CoNLL-U: " + ", ".join(f"{noun} from column {index + 1} {CONLLU[index]!r}" for noun, index in indices)


def _check_distinct(location: Location, word: int, labels: Sequence[int], features: Sequence[int]) -> None:
    if word in labels:
        raise DataError(
            location,
            f"task.word_column and task.label_column are both column {word + 1}; expected different columns",
        )
    if shared := {word, *labels} & set(features):
        raise DataError(
            location,
            f"task.feature_columns names column {min(shared) + 1}, which holds the words or the labels; expected "
            "other columns",
        )


def are_sentences(first: Sequence[str], is_label: Callable[[str], bool]) -> bool:
    """Whether the first lines of a file are sentences of words, and not rows of columns that end with a label."""
    rows = [split(line, None) for line in first]
    filled = [row for row in rows if row]
    widths = {len(row) for row in filled}
    if any("\t" in line for line in first) or max(widths, default=1) == 1 or _have_labels(filled, is_label):
        return False
    longest = max(len(list(group)) for kind, group in groupby(rows, key=bool) if kind)
    return len(widths) > 1 or longest in (1, len(filled))


def describe_missing_labels(first: Sequence[str], is_label: Callable[[str], bool]) -> str:
    """That the last column of a file to predict holds no labels; empty if it does, or if there is only one."""
    rows = [row for line in first if (row := split(line, None))]
    width = len(rows[0]) if rows else 1
    if width == 1 or any(len(row) != width for row in rows) or _have_labels(rows, is_label):
        return ""
    return (
        f"word from column 1 of {width}, though column {width} holds no labels of the model; --format lines reads "
        "each line as a sentence"
    )


def _have_labels(rows: Sequence[Sequence[str]], is_label: Callable[[str], bool]) -> bool:
    """Whether most rows end with a label; a full stop may be one, and ends sentences as well."""
    ends = [row[-1] for row in rows]
    known = sum(end in PLACEHOLDERS or (is_label(end) and any(map(str.isalnum, end))) for end in ends)
    return 2 * known >= len(ends)


def is_header(row: Sequence[str]) -> bool:
    """Whether the first row of a CoNLL file names its columns."""
    names = [column_names.normalize(name) for name in row]
    return len(names) > 1 and all(name in known for name, known in zip((names[0], names[-1]), HEADER, strict=True))


def without_header(blocks: Iterator[Block]) -> Iterator[Block]:
    """The sentences of a CoNLL file, without a row that names its columns."""
    for number, block in enumerate(blocks):
        if number or not is_header(block.rows[0]):
            yield block
        elif len(block.rows) > 1:
            yield replace(block, location=block.at(1), rows=block.rows[1:])


def find_column(location: Location, column: Column, width: int, *, key: str, names: Sequence[str] = ()) -> int:
    """The index of a column from 0."""
    if isinstance(column, str):
        if column.lower() not in names:
            expected = f"one of {', '.join(names)}" if names else "an index, since only CoNLL-U names its columns"
            raise DataError(location, f"no column {column!r}; expected {expected}")
        return names.index(column.lower())
    if not -width <= column < width:
        raise no_such_column(location, column, width, key=key)
    return column % width
