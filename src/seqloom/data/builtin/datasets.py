"""Built-in data sets that need no download: each function writes ordinary files to a folder and returns their paths."""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import numpy as np

from seqloom import files
from seqloom.data.builtin import agreement as verb_agreement
from seqloom.data.builtin import ambiguous_words, digit_lines, sentence_pairs
from seqloom.data.builtin import analogies as relations
from seqloom.data.builtin import dialogues as dialogue_turns
from seqloom.data.builtin import match_reports as reports
from seqloom.data.builtin import misspellings as spelling
from seqloom.data.builtin import moving_shapes as clips
from seqloom.data.builtin import opinions as opinion_spans
from seqloom.data.builtin import pen_strokes as pens
from seqloom.data.builtin import phrase_trees as trees
from seqloom.data.builtin import shapes as scenes
from seqloom.data.builtin import stories as story_questions
from seqloom.data.builtin import tones as sounds
from seqloom.data.builtin import tunes as melodies
from seqloom.data.builtin import turtle_programs as programs
from seqloom.data.builtin.dates import generate_pairs
from seqloom.data.builtin.python_code import evenly_spaced, statements, to_conll

Rows = Callable[..., Iterator[str]]
"""The rows of a file, by their number, the name of the file and a seed."""


class Files(NamedTuple):
    """The three files, or folders of files, of a data set."""

    train: Path
    dev: Path
    test: Path


def write(folder: Path, suffix: str, *, train: Iterable[str], dev: Iterable[str], test: Iterable[str]) -> Files:
    """Write the three files, one item per line."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = Files(*(folder / f"{name}.{suffix}" for name in Files._fields))
    for path, lines in zip(paths, (train, dev, test), strict=True):
        write_lines(path, lines)
    return paths


def write_lines(path: Path, lines: Iterable[str]) -> None:
    files.write(path, "".join(f"{line}\n" for line in lines))


def prose(folder: Path) -> Files:
    """English text for language models: paragraphs of the Python manual; whole topics are held out."""
    from pydoc_data.topics import topics

    order = sorted(topics, key=lambda name: zlib.crc32(name.encode()))
    lines = list(dict.fromkeys(line for topic in order for line in paragraphs(topics[topic])))  # topics overlap
    eighth = len(lines) // 8
    return write(folder, "txt", train=lines[: -2 * eighth], dev=lines[-2 * eighth : -eighth], test=lines[-eighth:])


def paragraphs(text: str) -> Iterator[str]:
    """Each paragraph of a manual page on one line, without headings, tables, grammar and code."""
    for block in re.split(r"\n\s*\n", text):
        first, *others = block.strip("\n").split("\n")
        even = len({len(line) - len(line.lstrip()) for line in others}) <= 1
        line = re.sub(r"^(\*|\d+\.) +", "", " ".join(part.strip() for part in (first, *others)))
        sentence = re.fullmatch(r"[A-Z].*[.:;!?)]", line) and line.count(" ") >= 5
        if even and sentence and not re.search(r"::=|>>>|[^.] {2}", line):
            yield line


TRAIN_MODULES = """argparse ast bdb calendar cmd code collections colorsys configparser contextlib copy csv dataclasses
difflib enum filecmp fileinput fnmatch fractions getopt gettext glob gzip heapq imaplib inspect ipaddress
mailbox mimetypes optparse pdb plistlib pprint queue random sched shlex shutil socketserver statistics string
tarfile threading trace uuid weakref"""
DEV_MODULES = "functools netrc platform tempfile timeit"
TEST_MODULES = "bisect hmac poplib selectors textwrap zipapp"


def python_tags(folder: Path) -> Files:
    """CoNLL for tagging: statements of the Python standard library with a role per token; modules are held out."""
    train, dev, test = (
        [to_conll(line) for module in modules.split() for line in evenly_spaced(list(statements(module)), 110)]
        for modules in (TRAIN_MODULES, DEV_MODULES, TEST_MODULES)
    )
    return write(folder, "conll", train=train, dev=dev, test=test)


def digits(folder: Path) -> Files:
    """Vectors for classification: the 8 × 8 digit images of scikit-learn, row by row; the last ones are held out."""
    images, classes = digit_lines.digit_images()
    lines = [ts_line(image, str(name)) for image, name in zip(images, classes, strict=True)]
    header = ts_header("digits", dimensions=8, length=8, names=[str(name) for name in range(10)])
    return write(folder, "ts", train=header + lines[:1197], dev=header + lines[1197:1397], test=header + lines[1397:])


def ts_header(name: str, *, dimensions: int, length: int, names: Sequence[str]) -> list[str]:
    return [
        f"@problemName {name}",
        "@timestamps false",
        "@missing false",
        "@univariate false",
        f"@dimensions {dimensions}",
        "@equalLength true",
        f"@seriesLength {length}",
        f"@classLabel true {' '.join(names)}",
        "@data",
    ]


def ts_line(values: np.ndarray, name: str) -> str:  # (T, D)
    return ":".join([",".join(f"{value:g}" for value in dimension) for dimension in values.T] + [name])


SUNSPOTS = """
5 11 16 23 36 58 29 20 10 8 3 0 0 2 11 27 47 63 60 39 28 26 22 11 21 40 78 122 103 73 47 35 11 5 16 34 70 81 111 101
73 40 20 16 5 11 22 40 60 80.9 83.4 47.7 47.8 30.7 12.2 9.6 10.2 32.4 47.6 54 62.9 85.9 61.2 45.1 36.4 20.9 11.4 37.8
69.8 106.1 100.8 81.6 66.5 34.8 30.6 7 19.8 92.5 154.4 125.9 84.8 68.1 38.5 22.8 10.2 24.1 82.9 132 130.9 118.1 89.9
66.6 60 46.9 41 21.3 16 6.4 4.1 6.8 14.5 34 45 43.1 47.5 42.2 28.1 10.1 8.1 2.5 0 1.4 5 12.2 13.9 35.4 45.8 41.1 30.1
23.9 15.6 6.6 4 1.8 8.5 16.6 36.3 49.6 64.2 67 70.9 47.8 27.5 8.5 13.2 56.9 121.5 138.3 103.2 85.7 64.6 36.7 24.2 10.7
15 40.1 61.5 98.5 124.7 96.3 66.6 64.5 54.1 39 20.6 6.7 4.3 22.7 54.8 93.8 95.8 77.2 59.1 44 47 30.5 16.3 7.3 37.6 74
139 111.2 101.6 66.2 44.7 17 11.3 12.4 3.4 6 32.3 54.3 59.7 63.7 63.5 52.2 25.4 13.1 6.8 6.3 7.1 35.6 73 85.1 78 64
41.8 26.2 26.7 12.1 9.5 2.7 5 24.4 42 63.5 53.8 62 48.5 43.9 18.6 5.7 3.6 1.4 9.6 47.4 57.1 103.9 80.6 63.6 37.6 26.1
14.2 5.8 16.7 44.3 63.9 69 77.8 64.9 35.7 21.2 11.1 5.7 8.7 36.1 79.7 114.4 109.6 88.8 67.8 47.5 30.6 16.3 9.6 33.2
92.6 151.6 136.3 134.7 83.9 69.4 31.5 13.9 4.4 38 141.7 190.2 184.8 159 112.3 53.9 37.6 27.9 10.2 15.1 47 93.8 105.9
105.5 104.5 66.6 68.9 38 34.5 15.5 12.6 27.5 92.5 155.4 154.6 140.4 115.9 66.6 45.9 17.9 13.4 29.4 100.2 157.6 142.6
145.7 94.3 54.6 29.9 17.5 8.6 21.5 64.3 93.3 119.6 111 104 63.7 40.4 29.8 15.2 7.5 2.9
"""


def sunspots(folder: Path) -> Files:
    """A time series for forecasting: yearly sunspot numbers until 1920, 1955 and 2008; sunspots.csv has all of them."""
    rows = [f"{year},{value}" for year, value in enumerate(SUNSPOTS.split(), start=1700)]
    header = ["year,sunspots"]
    files = write(folder, "csv", train=header + rows[:221], dev=header + rows[221:256], test=header + rows[256:])
    write_lines(folder / "sunspots.csv", header + rows)
    return files


SIZES = (2000, 200, 500)  # sequences in train, dev and test of the generated data sets
DATES = {"train": 12000, "dev": 500, "test": 1000}
IMAGES = {"train": 1500, "dev": 150, "test": 300}  # of shapes
CLIPS = {"train": 1400, "dev": 140, "test": 280}  # of moving_shapes
TONES = {"train": 800, "dev": 100, "test": 200}
LINES = {"train": 3000, "dev": 200, "test": 500}  # of handwriting
TUNES = {"train": 200, "dev": 25, "test": 50}
TEXTS = {"train": 5000, "dev": 300, "test": 600}  # of generated sentences with a text each
TAGGED = {"train": 3000, "dev": 300, "test": 600}  # of generated sentences with labels
NAMES = {"train": 1500, "dev": 80, "test": 120}
PRONOUNS = {"train": 800, "dev": 80, "test": 80}
PAIRS = {"train": 6000, "dev": 600, "test": 600}  # of entailment and similarity
WORDS = {"train": 2000, "dev": 100, "test": 200}  # of pen_strokes


def copy(folder: Path, *, delay: int = 20, seed: int = 1) -> Files:
    """CoNLL for tagging: recall five letters after a delay (the copy task, Hochreiter & Schmidhuber 1997)."""
    random = np.random.default_rng(seed)

    def block() -> str:
        letters = ["abcdefgh"[index] for index in random.integers(8, size=5)]
        inputs = [*letters, *"-" * delay, ":", *"-" * 4]
        labels = [*"-" * (5 + delay), *letters]
        return "".join(f"{token}\t{label}\n" for token, label in zip(inputs, labels, strict=True))

    train, dev, test = ([block() for _ in range(size)] for size in SIZES)
    return write(folder, "conll", train=train, dev=dev, test=test)


def adding(folder: Path, *, length: int = 30, seed: int = 1) -> Files:
    """Vectors for classification: whether two marked numbers sum to more than 1 (Hochreiter & Schmidhuber 1997)."""
    random = np.random.default_rng(seed)
    header = ts_header("adding", dimensions=2, length=length, names=["less", "more"])

    def line() -> str:
        numbers = random.integers(1, 1000, size=length) / 1000
        marks = np.zeros(length)
        marks[random.integers(length // 2)] = marks[length // 2 + random.integers(length - length // 2)] = 1
        return ts_line(np.stack([numbers, marks], axis=1), "more" if (numbers * marks).sum() > 1 else "less")

    train, dev, test = ([*header, *(line() for _ in range(size))] for size in SIZES)
    return write(folder, "ts", train=train, dev=dev, test=test)


def control(folder: Path, *, length: int = 60, seed: int = 1) -> Files:
    """Long tables for tagging with numbers: the position of a mass on a spring, at each step of a random force."""
    random = np.random.default_rng(seed)

    def rows(sequences: int) -> Iterator[str]:
        yield "id,time,force,position"
        for number in range(sequences):
            position = speed = force = 0.0
            for step in range(length):
                force = 0.7 * force + float(random.normal())
                speed += 0.2 * (force - 0.5 * speed - position)
                position += 0.2 * speed
                yield f"{number},{step * 0.2:.1f},{force:.4f},{position:.4f}"

    return write(folder, "csv", train=rows(300), dev=rows(40), test=rows(80))


def parentheses(folder: Path, *, pairs: int = 15, seed: int = 1) -> Files:
    """Labelled lines for classification: brackets of two kinds, balanced or with two brackets swapped."""
    random = np.random.default_rng(seed)

    def line(number: int) -> str:
        text = nested(random, int(random.integers(1, pairs + 1)))
        if number % 2:
            return f"balanced {' '.join(text)}"
        while balanced(text):
            one, other = random.integers(len(text), size=2)
            text[one], text[other] = text[other], text[one]
        return f"unbalanced {' '.join(text)}"

    train, dev, test = ([line(number) for number in range(size)] for size in SIZES)
    return write(folder, "txt", train=train, dev=dev, test=test)


def nested(random: np.random.Generator, pairs: int) -> list[str]:
    """A random balanced sequence of ``pairs`` pairs of brackets."""
    text: list[str] = []
    expected: list[str] = []
    opened = 0
    while len(text) < 2 * pairs:
        if opened < pairs and (not expected or random.random() < 0.5):
            kind = "()[]"[2 * int(random.integers(2)) :][:2]
            text.append(kind[0])
            expected.append(kind[1])
            opened += 1
        else:
            text.append(expected.pop())
    return text


def balanced(text: Sequence[str]) -> bool:
    expected: list[str] = []
    for bracket in text:
        if bracket in "([":
            expected.append({"(": ")", "[": "]"}[bracket])
        elif not expected or expected.pop() != bracket:
            return False
    return not expected


def dates(folder: Path, *, seed: int = 1) -> Files:
    """Columns for translation: dates as people write them in seven languages, and in ISO 8601; dates are held out."""
    train, dev, test = (
        [f"{written}\t{iso}" for written, iso in generate_pairs(size, name, seed=seed)] for name, size in DATES.items()
    )
    return write(folder, "tsv", train=train, dev=dev, test=test)


def shapes(folder: Path, *, seed: int = 1) -> Files:
    """Images for captioning: two coloured shapes; pairs of shapes are held out. labels_*.tsv are for classification."""
    splits = {name: scenes.write_split(folder, size, name, seed=seed) for name, size in IMAGES.items()}
    paths = write(folder, "tsv", **splits)
    for name, size in IMAGES.items():
        write_lines(folder / f"labels_{name}.tsv", scenes.label_rows(size, name, seed=seed))
    return paths


def moving_shapes(folder: Path, *, seed: int = 1) -> Files:
    """Videos for classification and captioning: what a coloured shape does."""
    splits = {name: clips.write_split(folder, size, name, seed=seed) for name, size in CLIPS.items()}
    return write(folder, "tsv", **splits)


def tones(folder: Path, *, seed: int = 1) -> Files:
    """Sound for classification: tones whose pitch rises, falls, stays or wavers."""
    splits = {name: sounds.write_split(folder, size, name, seed=seed) for name, size in TONES.items()}
    return write(folder, "tsv", **splits)


def handwriting(folder: Path, *, seed: int = 1) -> Files:
    """Images for transcription: lines of 3 to 8 handwritten digits; the writers of the last digits are held out."""
    splits = {name: digit_lines.write_split(folder, size, name, seed=seed) for name, size in LINES.items()}
    return write(folder, "tsv", **splits)


def pen_strokes(folder: Path, *, seed: int = 1) -> Files:
    """Pen strokes for handwriting: words of one or two syllables in many hands; words are held out."""
    return write(folder, "jsonl", **{name: pens.generate(size, name, seed=seed) for name, size in WORDS.items()})


def tunes(folder: Path, *, seed: int = 1) -> Files:
    """MIDI files for music: a melody over chords and a bass, eight bars in one of five keys."""
    return Files(*(melodies.write_split(folder, size, name, seed=seed) for name, size in TUNES.items()))


def analogies(folder: Path, *, seed: int = 1) -> Files:
    """Text for word vectors: sentences in which king is to queen as man to woman; questions are held out."""
    return write(folder, "txt", **{name: relations.generate(name, seed=seed) for name in Files._fields})


def entailment(folder: Path, *, seed: int = 1) -> Files:
    """Pairs for classification: whether a sentence follows from another; combinations of words are held out."""
    return write(folder, "tsv", **{n: sentence_pairs.entailment_rows(s, n, seed=seed) for n, s in PAIRS.items()})


def similarity(folder: Path, *, seed: int = 1) -> Files:
    """Pairs for regression: how similar two sentences are in meaning, from 0 to 5."""
    return write(folder, "tsv", **{n: sentence_pairs.similarity_rows(s, n, seed=seed) for n, s in PAIRS.items()})


def _generated(folder: Path, suffix: str, rows: Rows, sizes: dict[str, int], *, seed: int) -> Files:
    return write(folder, suffix, **{name: rows(size, name, seed=seed) for name, size in sizes.items()})


def stories(folder: Path, *, seed: int = 1) -> Files:
    """Columns for translation: short stories with a question, and its answer; beginnings of stories are held out."""
    return _generated(folder, "tsv", story_questions.rows, TEXTS, seed=seed)


def dialogues(folder: Path, *, seed: int = 1) -> Files:
    """Columns for translation: the turns of a dialogue, and the reply; dialogues are held out."""
    return _generated(folder, "tsv", dialogue_turns.rows, TEXTS, seed=seed)


def match_reports(folder: Path, *, seed: int = 1) -> Files:
    """Columns for translation: reports of matches, and summaries; pairs of teams are held out."""
    return _generated(folder, "tsv", reports.rows, TEXTS, seed=seed)


def phrase_trees(folder: Path, *, seed: int = 1) -> Files:
    """Columns for translation: sentences, and their parse trees in brackets; shapes of trees are held out."""
    return _generated(folder, "tsv", trees.rows, TEXTS, seed=seed)


def turtle_programs(folder: Path, *, seed: int = 1) -> Files:
    """JSON lines for translation: instructions in English, and programs of a turtle; programs are held out."""
    return _generated(folder, "jsonl", programs.rows, TEXTS, seed=seed)


def opinions(folder: Path, *, seed: int = 1) -> Files:
    """CoNLL for tagging: opinion expressions; adjectives are held out."""
    return _generated(folder, "conll", opinion_spans.rows, TAGGED, seed=seed)


def misspellings(folder: Path, *, seed: int = 1) -> Files:
    """Columns for translation: misspelled words, and their spelling; misspellings are held out."""
    return _generated(folder, "tsv", spelling.rows, TEXTS, seed=seed)


def agreement(folder: Path, *, seed: int = 1) -> Files:
    """Labelled lines for classification: the number of a verb by its subject; test has more nouns in between."""
    return _generated(folder, "txt", verb_agreement.rows, TAGGED, seed=seed)


def names(folder: Path, *, seed: int = 1) -> Files:
    """CoNLL for tagging: names that are also common words, as the rest of the sentence shows."""
    return _generated(folder, "conll", ambiguous_words.name_rows, NAMES, seed=seed)


def pronouns(folder: Path, *, seed: int = 1) -> Files:
    """Labelled lines for classification: which of two things 'it' is; combinations of things are held out."""
    return _generated(folder, "txt", ambiguous_words.pronoun_rows, PRONOUNS, seed=seed)


BUILDERS: dict[str, Callable[[Path], Files]] = {
    build.__name__: build
    for build in (
        prose,
        python_tags,
        digits,
        sunspots,
        copy,
        adding,
        control,
        parentheses,
        dates,
        shapes,
        moving_shapes,
        tones,
        handwriting,
        pen_strokes,
        tunes,
        analogies,
        entailment,
        similarity,
        stories,
        dialogues,
        match_reports,
        phrase_trees,
        turtle_programs,
        opinions,
        misspellings,
        agreement,
        names,
        pronouns,
    )
}
"""All data sets by name."""


def build(name: str, folder: Path) -> Files:
    """Write a data set to a new or empty folder."""
    if name not in BUILDERS:
        similar = "".join(f"did you mean {other!r}? " for other in get_close_matches(name, BUILDERS, n=1))
        raise ValueError(f"no data set {name!r}: {similar}Choose one of {', '.join(BUILDERS)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} exists and is not empty; choose another folder")
    return BUILDERS[name](folder)
