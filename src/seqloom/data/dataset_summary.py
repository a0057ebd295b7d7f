"""Summary of a data set: lengths, labels, duplicates and irregularities, counted while a file is read."""

import hashlib
import math
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from heapq import heappush, heappushpop
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.batch import Batch
from seqloom.data.readers.columns import LabelColumn
from seqloom.data.readers.conll import LONG_SENTENCE
from seqloom.data.readers.missing_values import MissingColumn, describe_filled, merge
from seqloom.data.readers.spans import are_spans
from seqloom.data.readers.text_files import Location, pluralize
from seqloom.data.suspect_content import SuspectContent
from seqloom.data.target_ranges import TargetRange, TargetRanges
from seqloom.data.value_ranges import ValueRanges, has_single_colour

SHOWN = 3  # items listed in a message
CHUNK_ELEMENTS = 1 << 18  # elements collated together, padding included
SAMPLE = 1000  # examples from which the memory of all is estimated
UNBALANCED = 0.9  # fraction of the most frequent label
OUTLIER = 10  # times the 95th percentile of lengths
RARE = 5  # labels that occur less often than this are reported
MANY_REPEATED = 0.01  # fraction of dev examples in the training data from which on training says so
FEW_EXAMPLES = 20  # below, labels with a single example are to be expected
MAX_FINDINGS = 6  # lines that training prints about its data
UNKNOWN_ID = 1


class ExampleSummary(NamedTuple):
    """The content and labels of one example, from ``Task.summarize_example``; by default there are none to compare."""

    content: bytes = b""  # examples with equal content are duplicates; empty: not compared
    target: str = ""  # labels or target as text, to find duplicates that are labelled differently
    labelled: bool = True  # False: the label or target is missing
    labels: Sequence[str] = ()  # labels to count
    label_lines: Sequence[int] = ()  # line of each label; empty: the line of the example
    invalid_labels: Iterable[tuple[Location, str]] = ()  # locations and reasons, reported if all labels are spans
    lengths: Sequence[tuple[str, int]] = ()  # pairs: name and length of each side, such as source and target
    values: NDArray[Any] | None = None  # (T, D), the numbers whose range is reported; the same array counts once
    columns: Sequence[str] = ()  # their names; empty: numbered
    targets: NDArray[np.float64] | None = None  # (N, K), numbers to predict
    missing: Sequence[MissingColumn] = ()  # columns with missing values, which were filled; the same object counts once
    is_view: bool = False  # the values belong to an array that examples share
    padded_size: int = 0  # elements in a batch; 0: the length of the example
    out_of_vocabulary: Sequence[str] = ()  # words of the target that the lexicon of the search lacks


@dataclass(frozen=True)
class LengthSummary:
    """Distribution of lengths."""

    minimum: int
    median: float
    mean: float
    p95: int  # 95th percentile
    maximum: int
    histogram: dict[str, int]  # counts by length, in bins from one power of two to the next

    @classmethod
    def of(cls, lengths: Counter[int]) -> "LengthSummary":
        values, counts = (np.array(column) for column in zip(*sorted(lengths.items()), strict=True))
        cumulative = counts.cumsum()
        total = int(cumulative[-1])
        ranks = [(total + 1) // 2, total // 2 + 1, math.ceil(0.95 * total)]  # counted from 1
        low, high, p95 = values[np.searchsorted(cumulative, ranks)].tolist()
        histogram: Counter[int] = Counter()
        for length, count in lengths.items():
            histogram[length.bit_length()] += count
        return cls(
            minimum=int(values[0]),
            median=(low + high) / 2,
            mean=float(values @ counts / total),
            p95=p95,
            maximum=int(values[-1]),
            histogram={_bin_name(bits): histogram[bits] for bits in range(min(histogram), max(histogram) + 1)},
        )


def _bin_name(bits: int) -> str:
    first, last = (1 << bits) >> 1, (1 << bits) - 1
    return str(first) if first >= last else f"{first}-{last}"


@dataclass(frozen=True)
class SideSummary:
    """One side of pairs: the sources, targets, captions or transcripts."""

    empty: int
    unknown: float | None  # fraction of unknown tokens; None: not counted
    lengths: LengthSummary


@dataclass(frozen=True)
class SplitSummary:
    """What a data file, or a part of it, contains."""

    source: str
    examples: int
    elements: int
    empty: int
    unlabelled: int
    duplicates: int  # examples whose content occurs earlier
    in_train: int | None  # dev examples whose content occurs in the training data
    lengths: LengthSummary | None  # None: no examples
    unknown: float | None  # fraction of tokens that are not in the vocabulary; None: not counted, or no tokens
    labels: dict[str, int]  # counts, most frequent first
    sides: dict[str, SideSummary]  # pairs only: source and target
    infeasible: int  # examples that training skips, since nothing can be learned from them
    targets: list[TargetRange] = field(default_factory=list)  # numbers to predict


class Findings:
    """A count of findings, and the first few of them."""

    def __init__(self) -> None:
        self.total = 0
        self.first: list[Any] = []

    def add(self, finding: Any) -> None:
        self.total += 1
        if len(self.first) < SHOWN:
            self.first.append(finding)

    def __bool__(self) -> bool:
        return self.total > 0

    def __str__(self) -> str:
        return join_names(self.first, self.total)


def join_names(names: Sequence[object], total: int = 0) -> str:
    """The first few names, followed by an ellipsis if there are more."""
    return ", ".join(map(str, names[:SHOWN])) + (", …" if max(total, len(names)) > SHOWN else "")


class SideCounter:
    """Counts one side of pairs while they are read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lengths: Counter[int] = Counter()
        self.empty = Findings()  # locations
        self.tokens = self.unknown = 0

    def add(self, length: int, location: Location) -> None:
        self.lengths[length] += 1
        if not length:
            self.empty.add(location)

    def count(self, tokens: Tensor) -> None:  # (N,)
        self.tokens += len(tokens)
        self.unknown += int((tokens == UNKNOWN_ID).sum())

    def summary(self) -> SideSummary:
        unknown = self.unknown_fraction if self.tokens else None
        return SideSummary(self.empty.total, unknown, LengthSummary.of(self.lengths))

    @property
    def unknown_fraction(self) -> float:
        return self.unknown / max(self.tokens, 1)

    def compare(self, train: "SideCounter") -> Iterator[str]:
        """Warnings about a side of the dev data."""
        if self.unknown:
            reason = "the model cannot tell them apart" if self.name == "source" else "the model cannot produce them"
            yield f"dev: {self.unknown_fraction:.2%} of the {self.name} tokens do not occur in train: {reason}"
        if self.unknown and self.name == "source" and not train.unknown:
            yield "dev: train has no unknown token, so its embedding is not trained: raise task.source.min_count"


class ContentIndex:
    """Hashes of contents and labels with their locations: 24 bytes per example."""

    def __init__(self, target_name: str = "label") -> None:
        self.target_name = target_name  # what the examples are labelled with
        self.files: dict[str, int] = {}
        self.hashes, self.labels, self.locations = array("Q"), array("Q"), array("Q")

    def __len__(self) -> int:
        return len(self.hashes)

    def add(self, content: bytes, labels: bytes, location: Location) -> None:
        self.hashes.append(_hash(content))
        self.labels.append(_hash(labels))
        self.locations.append(self.files.setdefault(location.file, len(self.files)) << 40 | location.line)

    def location(self, index: int) -> Location:
        file, line = divmod(self.locations[index], 1 << 40)
        return Location(list(self.files)[file], line)

    def duplicates(self, other: "ContentIndex | None" = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Indices of examples whose content occurs earlier, or in ``other``, and of its first occurrence there."""
        hashes = np.array(self.hashes, dtype=np.uint64)
        unique, first = np.unique(hashes if other is None else np.array(other.hashes, np.uint64), return_index=True)
        if not len(unique):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        positions = np.searchsorted(unique, hashes).clip(max=len(unique) - 1)
        rows = np.arange(len(hashes))
        repeated = unique[positions] == hashes if other is not None else first[positions] < rows
        return rows[repeated], first[positions[repeated]]

    def describe(self, other: "ContentIndex | None" = None) -> str:
        """The number of duplicates, how many have different labels, and where the first are; empty: none."""
        originals = other or self
        pairs = list(zip(*(indices.tolist() for indices in self.duplicates(other)), strict=True))
        if not pairs:
            return ""
        shown = [
            f"{self.location(copy)} = {_relative(originals.location(original), self.location(copy).file)}"
            for copy, original in pairs[:SHOWN]
        ]
        differing = sum(self.labels[copy] != originals.labels[original] for copy, original in pairs)
        labels = f", {differing:,} of them with different {self.target_name}s" if differing else ""
        return f"{pluralize(len(pairs), 'example')}{labels} ({join_names(shown, len(pairs))})"


def _relative(location: Location, file: str) -> str:
    return f"line {location.line}" if location.file == file else str(location)


class DatasetSummary:
    """Counts gathered while examples are read; the examples are not kept."""

    def __init__(
        self,
        summarize: Callable[[Any], ExampleSummary],  # the task's summary of an example
        *,
        target_name: str = "label",  # what the examples are labelled with
        target_column: LabelColumn | None = None,  # names the numbers to predict
        merges_labels: bool = False,  # whether task.lowercase_labels makes one of labels that differ in case
        keep: int,  # number of longest examples to keep
    ) -> None:
        self.summarize = summarize
        self.merges_labels = merges_labels
        self.keep = keep
        self.examples = self.elements = 0
        self.lengths: Counter[int] = Counter()
        self.labels: Counter[str] = Counter()
        self.first: dict[str, Location] = {}  # location of the first occurrence of each label
        self.empty = Findings()  # locations
        self.unlabelled = Findings()  # locations
        self.invalid_labels = Findings()  # locations and reasons
        self.infeasible = Findings()  # locations and reasons
        self.infeasible_when_augmented = Findings()  # locations and reasons
        self.contents = ContentIndex(target_name)
        self.suspect = SuspectContent()
        self.sides: dict[str, SideCounter] = {}  # pairs only: source and target
        self.tokens: int | None = None  # elements that the model reads; None: not counted
        self.unknown: int | None = None  # unknown tokens; None: not counted, or vectors
        self._longest: list[tuple[int, int, Any]] = []  # heap of (length, -index, example)
        self._sampled_bytes = 0
        self.values = ValueRanges()
        self.missing: tuple[MissingColumn, ...] = ()  # columns with missing values, which were filled
        self._last_missing: Sequence[MissingColumn] = ()
        self.single_colour = Findings()  # names or locations of images and videos
        self.targets = TargetRanges(target_column)
        self.out_of_vocabulary: Counter[str] = Counter()  # words of the targets that the lexicon of the search lacks

    def watch(self, examples: Iterable[Any]) -> Iterator[Any]:
        """The same examples, added as they pass."""
        for example in examples:
            self.add(example)
            yield example

    def add(self, example: Any) -> None:
        length, summary = len(example), self.summarize(example)
        self.lengths[length] += 1
        self.elements += length
        if not length:
            self.empty.add(example.location)
        (heappush if len(self._longest) < self.keep else heappushpop)(self._longest, (length, -self.examples, example))
        self._add_labels(example.location, summary)
        if summary.content and length:
            self.contents.add(summary.content, summary.target.encode(), example.location)
            if summary.values is None:
                self.suspect.add(summary.content, summary.target, summary.labels)
        self.values.add(summary.values, summary.columns)
        if summary.missing and summary.missing is not self._last_missing:
            self._last_missing = summary.missing
            self.missing = merge((*self.missing, *summary.missing))
        if has_single_colour(summary.values):
            self.single_colour.add(getattr(example, "name", "") or example.location)
        self.targets.add(summary.targets)
        self.out_of_vocabulary.update(summary.out_of_vocabulary)
        if self.examples < SAMPLE:
            self._sampled_bytes += sys.getsizeof(example) if summary.is_view else _size(example)
        self.examples += 1

    def _add_labels(self, location: Location, summary: ExampleSummary) -> None:
        if not summary.labelled:
            self.unlabelled.add(location)
        for name, length in summary.lengths:
            self.sides.setdefault(name, SideCounter(name)).add(length, location)
        self.labels.update(summary.labels)
        for index, label in enumerate(summary.labels):
            if label not in self.first:
                lines = summary.label_lines
                self.first[label] = location._replace(line=lines[index]) if lines else location
        for finding in summary.invalid_labels:
            self.invalid_labels.add(finding)

    def count_tokens(
        self,
        examples: Iterable[Any],
        collate: Callable[[Sequence[Any]], Batch],
        infeasible: Callable[[Any], str] = lambda _: "",  # why nothing can be learned from an example
        infeasible_when_augmented: Callable[[Any], str] = lambda _: "",  # why this may be so after augmentation
    ) -> None:
        """Count the elements that the model reads and the unknown tokens among them, by collating all examples."""
        tokens, unknown, discrete = 0, 0, False
        for chunk in self._chunks(examples):
            for example in chunk:
                if reason := infeasible(example):
                    self.infeasible.add(f"{example.location}: {reason}")
                if reason := infeasible_when_augmented(example):
                    self.infeasible_when_augmented.add(f"{example.location}: {reason}")
            batch = collate(chunk)
            inputs = batch.inputs
            values = _first_tensor(inputs)[inputs.mask]
            discrete = not values.is_floating_point()
            tokens += len(values)
            unknown += int((values == UNKNOWN_ID).sum()) if discrete else 0
            parts = (inputs, batch.target)[-len(self.sides) :]  # captions are the only side of an image
            for side, part in zip(self.sides.values(), parts, strict=False):
                side.count(_first_tensor(part)[part.mask])
        self.tokens, self.unknown = tokens, unknown if discrete else None

    def _chunks(self, examples: Iterable[Any]) -> Iterator[list[Any]]:
        """Examples to collate together."""
        chunk: list[Any] = []
        longest = 0
        for example in examples:
            length = self.summarize(example).padded_size or len(example)
            longest = max(longest, length)
            if chunk and longest * (len(chunk) + 1) > CHUNK_ELEMENTS:
                yield chunk
                chunk, longest = [], length
            chunk.append(example)
        if chunk:
            yield chunk

    @property
    def unknown_fraction(self) -> float | None:
        return None if self.unknown is None else self.unknown / max(self.tokens or 0, 1)

    @property
    def longest(self) -> list[Any]:
        """The longest examples, in order of decreasing length."""
        return [example for _, _, example in sorted(self._longest, reverse=True)]

    def size(self, limit: int) -> int:
        """Estimated memory of the examples, or of the first ``limit``, in bytes."""
        return self._sampled_bytes * min(self.examples, limit) // max(min(self.examples, SAMPLE), 1)

    def split(self, source: str, train: "DatasetSummary | None") -> SplitSummary:
        """The summary as a report; ``train`` is the training data to compare with."""
        return SplitSummary(
            source=source,
            examples=self.examples,
            elements=self.elements,
            empty=self.empty.total,
            unlabelled=self.unlabelled.total,
            duplicates=len(self.contents.duplicates()[0]),
            in_train=len(self.contents.duplicates(train.contents)[0]) if train and self is not train else None,
            lengths=LengthSummary.of(self.lengths) if self.lengths else None,
            unknown=self.unknown_fraction,
            labels=dict(self.labels.most_common()),
            sides={name: side.summary() for name, side in self.sides.items()},
            infeasible=self.infeasible.total,
            targets=self.targets.summary(),
        )

    def warnings(self, *, brief: bool = False, train: "DatasetSummary | None" = None) -> Iterator[str]:
        """What may be wrong with the data, in sentences; ``brief``: without what is common and mostly harmless.

        ``train``: the training data, if these are the development data; labels of both are reported there.
        """
        if self.missing and (train is None or self.missing != train.missing):
            yield describe_filled(self.missing)
        if self.empty:
            yield f"{pluralize(self.empty.total, 'example')} without elements, first {self.empty}"
        for name, side in self.sides.items():
            if side.empty:
                yield f"{pluralize(side.empty.total, name)} without tokens, first {side.empty}"
        for findings, description in (
            (self.infeasible, "infeasible, skipped in training"),
            (self.infeasible_when_augmented, "infeasible when sped up by augmentation, then skipped in training"),
        ):
            if findings:
                fraction = findings.total / max(self.examples, 1)
                yield f"{pluralize(findings.total, 'example')} ({fraction:.1%}) {description}: {findings}"
        if self.examples == 1 and self.labels.total() == self.elements > LONG_SENTENCE:
            yield f"all {self.elements:,} labels belong to one example; is there an empty line after each sentence?"
        if (duplicates := self.contents.describe()) and (not brief or "different" in duplicates):
            yield f"duplicates of earlier examples: {duplicates}"
        if self.lengths:
            lengths, longest = LengthSummary.of(self.lengths), self.longest[0]
            if lengths.maximum > OUTLIER * max(lengths.p95, 1):
                yield (
                    f"the longest example has {lengths.maximum:,} elements ({longest.location}), 95 % have at most "
                    f"{lengths.p95:,}: its batch takes much more memory and time than others (train.max_length limits "
                    "it)"
                )
        if self.invalid_labels and are_spans(self.labels):
            location, reason = self.invalid_labels.first[0]
            yield f"{pluralize(self.invalid_labels.total, 'label')} out of order, first {location}: {reason}" + (
                ", as in IOB1: task.convert_iob1 = true converts it to BIO" if reason[:2] == "I-" else ""
            )
        yield from self.suspect.warnings(self.labels) if train is None else ()
        yield from self._value_warnings(train)
        known = {} if train is None else dict.fromkeys(map(_folded, train.labels))
        if groups := [group for group in self.similar_labels() if _folded(group[0]) not in known]:
            shown = [" and ".join(f"{label!r} ({self.labels[label]:,})" for label in group) for group in groups]
            remedy = "task.lowercase_labels=true makes them one" if self.merges_labels else "write them alike"
            yield (
                f"labels that differ only in case or whitespace: {join_names(shown)}; if they mean the same, {remedy}"
            )
        for label, count in self.labels.most_common(1):
            fraction = count / self.labels.total()
            if fraction > UNBALANCED and len(self.labels) > 1:
                yield f"{fraction:.1%} of all labels are {label!r}: always predicting it gives that accuracy"

    def _value_warnings(self, train: "DatasetSummary | None") -> Iterator[str]:
        """What may be wrong with numbers and pixels."""
        if constant := self.values.constant:
            yield f"{len(constant)} of {pluralize(len(self.values.low), 'column')} never change: {join_names(constant)}"
        if self.single_colour:
            count = pluralize(self.single_colour.total, "example")
            yield f"{count} with pixels of a single colour, first {self.single_colour}"
        far = self.values.far_outside()
        if far and (train is None or far != train.values.far_outside()):
            yield f"{join_names(far)} If so, leave these fields empty: missing values are then reported, or filled"

    def similar_labels(self) -> list[list[str]]:
        """Labels that are probably the same one, written differently."""
        groups: dict[str, list[str]] = {}
        for label in self.labels:
            groups.setdefault(_folded(label), []).append(label)
        return [group for group in groups.values() if len(group) > 1]


def compare_splits(train: DatasetSummary, dev: DatasetSummary) -> Iterator[str]:
    """What may be wrong with the development data, compared with the training data, in sentences."""
    if overlap := dev.contents.describe(train.contents):
        share = "all" if all_repeated(train, dev) else "some"
        yield f"dev: {share} of its content also occurs in train: {overlap}"
    yield from dev.targets.compare(train.targets)
    if unseen := [label for label in dev.labels if label not in train.labels]:
        similar = {_folded(label): label for label in train.labels}
        shown = []
        for label in unseen:
            near = f"; train has {similar[_folded(label)]!r}" if _folded(label) in similar else ""
            shown.append(f"{label!r} ({pluralize(dev.labels[label], 'time')}, first {dev.first[label]}{near})")
        yield f"dev: {pluralize(len(unseen), 'label')} not in train, which cannot be predicted: {join_names(shown)}"
    if words := dev.out_of_vocabulary:
        shown = [f"{word!r} ({pluralize(count, 'time')})" for word, count in words.most_common()]
        count = f"{pluralize(len(words), 'word')} {'is' if len(words) == 1 else 'are'}"
        pronoun = "it" if len(words) == 1 else "them"
        yield f"dev: {count} not in task.lexicon, so the search cannot output {pronoun}: {join_names(shown)}"


def all_repeated(train: DatasetSummary, dev: DatasetSummary) -> bool:
    """Whether all content of the development data occurs in the training data."""
    return bool(len(dev.contents)) and len(dev.contents.duplicates(train.contents)[0]) == len(dev.contents)


def findings(train: DatasetSummary, dev: DatasetSummary | None) -> list[str]:
    """The warnings about data that training prints before it starts: a few lines, the most important ones first."""
    lines: list[str] = []
    if dev is not None:
        repeated = len(dev.contents.duplicates(train.contents)[0])
        few = repeated < MANY_REPEATED * len(dev.contents)
        lines += [line for line in compare_splits(train, dev) if not (few and "also occurs in train" in line)]
    once = [label for label, count in train.labels.items() if count == 1]
    if once and train.labels.total() == train.examples >= FEW_EXAMPLES:
        shown = [f"{label!r} ({train.first[label]})" for label in once]
        lines.append(f"train: {pluralize(len(once), 'label')} with a single example: {join_names(shown)}")
    for name, summary in (("train", train), ("dev", dev)):
        if summary is not None:
            known = None if summary is train else train
            lines += [f"{name}: {line}" for line in summary.warnings(brief=True, train=known)]
    if len(lines) > MAX_FINDINGS:
        lines[MAX_FINDINGS - 1 :] = [f"{len(lines) - MAX_FINDINGS + 1} more; seqloom check shows all"]
    return [f"warning: {line}" for line in lines]


def _folded(label: str) -> str:
    return " ".join(label.split()).casefold()


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())


def _size(value: Any) -> int:
    """Bytes in memory."""
    size = sys.getsizeof(value)
    if isinstance(value, tuple | list):
        return size + sum(map(_size, value))
    if is_dataclass(value):
        return size + sum(_size(getattr(value, field.name)) for field in fields(value))
    return size


def _first_tensor(part: Any) -> Tensor:
    """The task's own input, which precedes any additional inputs."""
    return part if isinstance(part, Tensor) else _first_tensor(part[0])
