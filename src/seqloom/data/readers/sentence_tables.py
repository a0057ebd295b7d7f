"""Sentences in tables: a word in each row, or a whole sentence with as many labels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType
from typing import Any

import numpy as np

from seqloom.data.readers import column_names, long_tables, tables
from seqloom.data.readers.columns import Chosen, Columns, LabelColumn, Role, find_columns, unclear
from seqloom.data.readers.sentences import Sentence, TaggedSequence, with_labels
from seqloom.data.readers.table_values import as_label, as_required_text
from seqloom.data.readers.tables import Table
from seqloom.data.readers.text_files import DataError, Location, Source, pluralize
from seqloom.data.readers.vectors import Missing, listed_sequence

WORD = Role("word_column", "word", (*column_names.WORD, *column_names.VALUES))
LABEL = Role("label_column", "label", column_names.WORD_LABEL, optional=True)


def find_sentences(source: Source, chosen: Chosen, reading: Mapping[str, Any]) -> tuple[Table, Columns]:
    """A table and its columns of words, of labels and, with a word in each row, of the sentence."""
    options = {key: reading[key] for key in ("separator", "encoding") if key in reading}
    if name := sentence_column(tables.read_table(source, **options), chosen):
        return find_columns(source, (WORD, LABEL), {**chosen, WORD.key: name}, **reading)
    roles = (WORD, LABEL, long_tables.GROUP)
    table, columns = find_columns(source, roles, chosen, **reading)
    if _holds_vectors(table, columns):
        columns = replace(columns, roles=(replace(WORD, noun="vectors"), *columns.roles[1:]))
    group = group_column(table, chosen)
    indices = {key: index for key, index in columns.indices.items() if key != long_tables.GROUP.key}
    lists = (
        any(isinstance(value, list | tuple | np.ndarray) for value in table.column(indices[WORD.key])[:1])
        if indices
        else False
    )
    if group is not None and not lists:
        indices[long_tables.GROUP.key] = group
    if table.head and not lists and long_tables.GROUP.key not in indices:
        raise unclear(
            table,
            (replace(long_tables.GROUP, noun="sentence", optional=False),),
            (replace(long_tables.GROUP, noun="number of the sentence"),),
        )
    return table, replace(columns, indices=indices)


def _holds_vectors(table: Table, columns: Columns) -> bool:
    """Whether the column of words has a list of vectors, or of numbers, in each row."""
    index = columns.indices.get(WORD.key)
    values = [] if index is None else table.column(index)
    return any(len(listed) and not isinstance(listed[0], str) for listed in map(_listed, values))


def sentence_column(table: Table, chosen: Chosen) -> str:
    """The column with a whole sentence in each row, beside as many labels; empty: there is none.

    The words, and the labels if they are text, are separated by whitespace.
    """
    if isinstance(chosen.get(LABEL.key), tuple):  # numbers
        return ""
    words = _named(table, chosen.get(WORD.key), (*column_names.WORD, *column_names.TEXT))
    labels = _named(table, chosen.get(LABEL.key), LABEL.names)
    for name in words:
        texts = table.column(table.names.index(name))
        if not texts or not all(isinstance(text, str) for text in texts):
            continue
        if not labels and 2 * sum(len(text.split()) > 1 for text in texts) > len(texts):
            return name
        if any(_labels_each_word(table, name, label) for label in labels):
            return name
    return ""


def _named(table: Table, column: LabelColumn | None, usual: Sequence[str]) -> list[str]:
    """The configured column, or else those with usual names, the most certain ones first."""
    if isinstance(column, int):
        return [name for name in table.names[column:][:1] if name]
    if column:
        return [name for name in table.names if name == column]
    names = [(column_names.normalize(name), name) for name in table.names]
    return [name for each in usual for normalized, name in names if normalized == each]


def _labels_each_word(table: Table, text: str, label: str) -> bool:
    """Whether at least half of the rows have several words and as many labels; the others are errors, or short."""
    first, second = table.names.index(text), table.names.index(label)
    counts = [
        (len(_listed(row[first])), len(_listed(row[second])))
        for _, row in table.head
        if len(row) > max(first, second) and _listed(row[second])
    ]
    several = sum(words == labels > 1 for words, labels in counts)
    return several > 0 and 2 * several >= len(counts)


def _listed(value: Any) -> Sequence[Any]:
    """The elements of a list, or the words of a text; none if the value is missing."""
    if isinstance(value, str):
        return value.split()
    return list(value) if isinstance(value, list | tuple | np.ndarray) else ()


def group_column(table: Table, chosen: Chosen) -> int | None:
    """The column that names the sentence of each row; it may name only the first row of a sentence."""
    column = chosen.get(long_tables.GROUP.key)
    if column not in ("", None):
        if isinstance(column, str):
            return table.names.index(column) if column in table.names else None
        return column if isinstance(column, int) else None
    names = [(column_names.normalize(name), name.strip().casefold()) for name in table.names]
    usual = (index for name in column_names.GROUP for index, both in enumerate(names) if name in both)
    return next(usual, None)


def read_sentences(
    source: Source,
    chosen: Chosen,
    reading: Mapping[str, Any] = MappingProxyType({}),  # separator, encoding and decimal mark
    *,
    missing: Missing = "error",  # values of vectors
) -> Iterator[TaggedSequence]:
    """A table with a word per row and a column that names its sentence, or with lists of words and labels."""
    table, columns = find_sentences(source, chosen, reading)
    if long_tables.GROUP.key not in columns.indices:
        for location, fields in table.records:
            yield _listed_sentence(location, fields, columns, missing)
        return
    current = ""
    seen: set[str] = set()

    def sentence_of(record: tuple[Location, list[Any]]) -> str:
        nonlocal current
        location, fields = record
        name = as_label(location, columns.value(location, fields, long_tables.GROUP.key), name="sentence")
        if name is not None and name != current:
            if name in seen:
                raise DataError(location, f"the rows of sentence {name!r} are not consecutive: sort the table by it")
            seen.add(name)
            current = name
        return current

    for _, group in groupby(table.records, sentence_of):
        rows = list(group)
        words = tuple(
            as_required_text(location, columns.value(location, fields, WORD.key), name=columns.name(WORD.key))
            for location, fields in rows
        )
        labels = [(location, columns.value(location, fields, LABEL.key)) for location, fields in rows]
        sentence = Sentence(rows[0][0], words, None, tuple(location.line for location, _ in rows))
        yield with_labels(sentence, labels)


def _listed_sentence(location: Location, fields: list[Any], columns: Columns, missing: Missing) -> TaggedSequence:
    """The words, or the vectors, in a record of lists, with their labels."""
    words, labels = (columns.value(location, fields, key) for key in (WORD.key, LABEL.key))
    if not isinstance(words, str | list | tuple | np.ndarray):
        raise DataError(location, f"{columns.name(WORD.key)!r}: expected a list of words, found {type(words).__name__}")
    name = columns.name(WORD.key)
    words, listed = _listed(words), _listed(labels)
    are_vectors = len(words) > 0 and not isinstance(words[0], str)
    if listed and len(listed) != len(words):
        noun = "vector" if are_vectors else "word"
        raise DataError(location, f"found {pluralize(len(words), noun)}, but {pluralize(len(listed), 'label')}")
    if are_vectors:
        vectors = listed_sequence(location, words, missing, name=name)
        return with_labels(vectors, [(location, label) for label in listed])
    sentence = Sentence(location, tuple(as_required_text(location, word, name=name) for word in words))
    return with_labels(sentence, [(location, label) for label in listed])
