"""Which task suits a file, by what the file looks like: for data that were given to another task."""

import shlex
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from seqloom.data.readers import audio_files, column_names, conll, long_tables, midi, pixels, tables, text_files, videos
from seqloom.data.readers.date_formats import parse_dates
from seqloom.data.readers.npz import array_names
from seqloom.data.readers.table_values import is_label, is_numeric, is_prose, recurs
from seqloom.data.readers.tables import Table
from seqloom.data.readers.text_files import STANDARD_INPUT, Source
from seqloom.data.readers.texted_sequences import VALUE_KEYS
from seqloom.data.readers.time_axis import find_time_axis

MIN_ROWS = 6  # below which a file shows too little
MIN_OCCURRENCES = 3  # of each first word of a line that is a label
MEDIA_TASKS = ("caption", "classify", "tag", "transcribe")
"""Tasks that open the files that a table names; all others take the names for texts."""
VECTOR_TASKS = (*MEDIA_TASKS, "forecast", "handwriting", "music")
"""Tasks that read sequences of vectors."""
FILE_KINDS = (
    (audio_files.SUFFIXES, "transcribe", "a recording"),
    (pixels.SUFFIXES, "caption", "an image"),
    (videos.SUFFIXES, "caption", "a video"),
)
"""Suffixes of files, the task that turns them into text, and what they are."""
FAILURES = (ValueError, TypeError, LookupError, OSError, ImportError)
"""Exceptions of readers for data of other formats."""


@dataclass(frozen=True)
class SuitedTask:
    """What a file holds, and the task that such data are for."""

    task: str
    content: str  # such as "a text and its label in each row"
    others: tuple[str, ...] = ()  # further tasks that can learn from it
    certain: bool = True  # whether all other tasks would take it for something that it is not
    single: bool = False  # one file, which has to be listed with its text

    def advice(self, source: Source) -> str:
        """What was found, and the command for it."""
        if self.single:
            name = shlex.quote(Path(str(source)).name)
            return (
                f"found {self.content}, which the task {self.task} turns into text: write a table list.tsv with a row "
                f"{name}<TAB>TEXT for each file, and run seqloom train --task {self.task} --data list.tsv"
            )
        if isinstance(source, Path):
            command = f"seqloom train --task {self.task} --data {shlex.quote(str(source))}"
        else:
            command = f'seqloom.train(task="{self.task}", data=…)'
        return f"found {self.content}, which is data for the task {self.task}: {command}"

    def misread_by(self, task: str) -> bool:
        """Whether a task that reads the file without an error has misunderstood it."""
        return self.certain and task not in (self.task, *self.others)


def find_suited_task(source: Source, *, encoding: str = "utf-8") -> SuitedTask | None:
    """The task that a file or a table in memory suits; None: nothing is clear."""
    with suppress(*FAILURES):
        if not isinstance(source, Path):
            return _suits_table(tables.read_table(source)) if tables.is_table(source) else None
        if source.is_dir():
            return _suits_folder(source)
        if source == STANDARD_INPUT or not source.is_file():
            return None
        if tables.suffix(source) in (".ts", ".npz"):
            return _suits_sequences(source)
        if _has_suffix(source.name, midi.SUFFIXES):
            return SuitedTask("music", "a MIDI file")
        if kind := next((kind for kind in FILE_KINDS if _has_suffix(source.name, kind[0])), None):
            return SuitedTask(kind[1], kind[2], MEDIA_TASKS, single=True)
        if tables.is_binary(source):
            return _suits_table(tables.read_table(source))
        lines = [line for _, line in islice(text_files.lines(source, encoding=encoding), tables.HEAD)]
        if _are_tagged_words(lines):
            return SuitedTask("tag", "a word and its label on each line, with empty lines between sentences")
        filled = [line for line in lines if line.strip()]
        if tables.suffix(source) in tables.SUFFIXES or all("\t" in line for line in filled):
            return _suits_table(tables.read_table(source, encoding=encoding))
        return _suits_lines(filled)
    return None


def _suits_folder(folder: Path) -> SuitedTask | None:
    """A folder for each label, with nothing but recordings, images or videos in it."""
    folders = [path for path in folder.iterdir() if not path.name.startswith(".")]
    files = [path for each in folders if each.is_dir() for path in each.iterdir() if not path.name.startswith(".")]
    if len(folders) < 2 or len(files) < MIN_ROWS or not all(each.is_dir() and any(each.iterdir()) for each in folders):
        return None
    if not all(path.suffix.lower() in (*audio_files.SUFFIXES, *videos.SUFFIXES, *pixels.SUFFIXES) for path in files):
        return None
    return SuitedTask(
        "classify", f"{len(folders)} folders of recordings, images or videos, as for labels", ("caption",)
    )


def _are_tagged_words(lines: Sequence[str]) -> bool:
    """CoNLL or CoNLL-U: sentences of rows that all have the same number of columns."""
    rows = [conll.split(line, None) for line in lines if not line.startswith("#")]
    sentences = [list(group) for filled, group in groupby(rows, key=bool) if filled]
    words = [row for sentence in sentences for row in sentence]
    if len(sentences) < 2 or len(words) < MIN_ROWS or any(" " in field for row in words for field in row):
        return False
    widths = {len(row) for row in words}
    if widths == {10}:  # CoNLL-U
        return all(row[0].partition("-")[0].partition(".")[0].isdecimal() for row in words)
    labels = [row[-1] for row in words]
    return len(widths) == 1 and widths.pop() > 1 and not is_numeric(labels) and len(set(labels)) < len(labels)


def _suits_table(table: Table) -> SuitedTask | None:
    columns = [table.column(index) for index in range(table.width)]
    if max(map(len, columns), default=0) < MIN_ROWS:
        return None
    return (
        _suits_files(columns)
        or _suits_vectors(table)
        or _suits_lists(columns)
        or _suits_texts(table, columns)
        or _suits_numbers(table)
    )


def _suits_sequences(path: Path) -> SuitedTask:
    """Sequences of numbers, with a text or a label each."""
    arrays = array_names(path) if tables.suffix(path) == ".npz" else set()
    if "texts" in arrays:
        return SuitedTask("transcribe", "recordings or vectors with a text each", VECTOR_TASKS)
    return SuitedTask("classify", "sequences of numbers", VECTOR_TASKS)


def _suits_vectors(table: Table) -> SuitedTask | None:
    """A list of numbers, or of vectors, in each row."""
    names = [column_names.normalize(name) for name in table.names]
    values = [table.column(names.index(key)) for key in VALUE_KEYS if key in names]
    if not any(column and all(isinstance(value, list) for value in column) for column in values):
        return None
    if not set(names).isdisjoint(column_names.CAPTION[:2]):
        return SuitedTask("caption", "vectors and their caption in each row", VECTOR_TASKS)
    labels = [table.column(index) for index, name in enumerate(names) if name in column_names.LABEL]
    if any(is_label(column) and recurs(list(map(str, column))) for column in labels):
        return SuitedTask("classify", "vectors and their label in each row", VECTOR_TASKS)
    if not set(names).isdisjoint(column_names.TRANSCRIPT):
        return SuitedTask("transcribe", "vectors and their text in each row", VECTOR_TASKS)
    return None


def _suits_files(columns: Sequence[Sequence[Any]]) -> SuitedTask | None:
    """File names of recordings, images or videos, each with a text or a label."""
    for suffixes, task, noun in FILE_KINDS:
        named = [column for column in columns if column and all(_has_suffix(value, suffixes) for value in column)]
        others = [column for column in columns if column not in named]
        is_label_list = any(is_label(column) and recurs(list(map(str, column))) for column in others)
        if named and is_label_list and not any(map(is_prose, others)):
            return SuitedTask("classify", f"the name of {noun} and its label in each row", MEDIA_TASKS)
        if named:
            text = " and its text" if others else ""
            return SuitedTask(task, f"the name of {noun}{text} in each row", MEDIA_TASKS)
    return None


def _has_suffix(value: Any, suffixes: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value.strip().lower().endswith(suffixes)


def _suits_lists(columns: Sequence[Sequence[Any]]) -> SuitedTask | None:
    """Lists of words with lists of labels."""
    lists = [column for column in columns if column and all(_is_word_list(value) for value in column)]
    return SuitedTask("tag", "a list of words with a list of labels in each row") if len(lists) > 1 else None


def _is_word_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _suits_texts(table: Table, columns: Sequence[Sequence[Any]]) -> SuitedTask | None:
    """Texts with a label each, or pairs of texts."""
    texts = [index for index, column in enumerate(columns) if _are_texts(column)]
    usual = {index for index, name in enumerate(table.names) if column_names.normalize(name) in column_names.LABEL}
    labels = [
        index
        for index, column in enumerate(columns)
        if recurs(list(map(str, column)))
        and is_label(column)
        and (index in usual or not (is_numeric(column) or parse_dates(column)))
    ]
    if len(texts) == 1 and labels:
        label = next((index for index in labels if index in usual), labels[0])
        where = f"columns {_name(table, texts[0])} and {_name(table, label)}"
        return SuitedTask("classify", f"a text and its label in each row ({where})", certain=len(labels) == 1)
    if len(texts) == table.width == 2:
        where = " and ".join(_name(table, index) for index in texts)
        return SuitedTask("translate", f"pairs of texts (columns {where})", ("classify", "tag"))
    return None


def _are_texts(column: Sequence[Any]) -> bool:
    return is_prose(column) and not is_numeric(column) and 2 * len(set(map(str, column))) > len(column)


def _name(table: Table, index: int) -> str:
    return repr(table.names[index]) if table.names else str(index + 1)


def _suits_numbers(table: Table) -> SuitedTask | None:
    """A table of dates and numbers, or sequences of vectors with a label."""
    if not table.names:
        return None
    layout = long_tables.shown_layout(table, {})
    if long_tables.is_long(layout) and {"group_column", "label_column"} <= layout.columns.indices.keys():
        roles = (layout.columns.name(key) for key in ("group_column", "label_column"))
        where = "columns {!r} and {!r}".format(*roles)
        if is_prose(table.column(layout.columns.indices["label_column"])):
            return SuitedTask("caption", f"sequences of numbers with a text ({where})", VECTOR_TASKS)
        return SuitedTask(
            "classify", f"sequences of numbers with a label ({where})", ("tag", "forecast"), certain=False
        )
    values = [[fields[index] for _, fields in table.head] for index in range(table.width)]
    axis, others = find_time_axis(table.names, values)
    if axis is None or not axis.has_dates or axis.irregularities().is_unordered:
        return None
    free = [index for index in range(table.width) if index not in {*axis.columns, *others}]
    labelled = any(column_names.normalize(table.names[index]) in column_names.LABEL for index in free)
    if not free or labelled or not all(is_numeric(table.column(index)) for index in free):
        return None
    where = " and ".join(map(repr, axis.names))
    return SuitedTask("forecast", f"a time series: a date (column {where}) and numbers in each row", ("tag",))


def _suits_lines(lines: Sequence[str]) -> SuitedTask | None:
    """Names of files, lines that start with a label, or plain text."""
    if len(lines) < MIN_ROWS:
        return None
    if listed := _suits_files([lines]):
        return listed
    if not is_prose(lines):
        return None
    first = Counter(line.split()[0] for line in lines)
    if all(len(line.split()) > 1 for line in lines) and len(first) > 1 and min(first.values()) >= MIN_OCCURRENCES:
        return SuitedTask("classify", "a label and a text on each line", certain=False)
    return SuitedTask("language_model", "plain text, without labels", certain=False)
