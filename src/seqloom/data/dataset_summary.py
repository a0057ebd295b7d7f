"""What a file holds: lengths, labels, repetitions and oddities, counted while it is read and not kept."""

import hashlib
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from heapq import heappush, heappushpop
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.batch import Batch
from seqloom.data.length_summary import SHOWN, Findings, LengthSummary, SideCounter, SideSummary, counted, join_names
from seqloom.data.readers.captioned_images import CaptionedImage
from seqloom.data.readers.parallel import Pair
from seqloom.data.readers.recordings import Recording
from seqloom.data.readers.tagged import Sentence, are_spans, oddities
from seqloom.data.readers.text_files import Location

TOGETHER = 1 << 18  # elements that are collated together, with their padding
SAMPLE = 1000  # examples by which the memory of all is estimated
UNBALANCED = 0.9  # share of one label
OUTLIER = 10  # times as long as 95 % of the others


@dataclass(frozen=True)
class SplitSummary:
    """What a file holds, or a part of it."""

    source: str
    examples: int
    elements: int
    empty: int
    unlabelled: int
    repeated: int  # examples whose content stands in an earlier one
    in_train: int | None  # examples of dev whose content stands in the training data
    lengths: LengthSummary | None  # None: there are no examples
    unknown: float | None  # share of the symbols that are not in the vocabulary; None: not known, or no symbols
    labels: dict[str, int]  # how often each occurs, the most frequent first
    sides: dict[str, SideSummary]  # of pairs: source, target
    infeasible: int  # examples that training leaves out, as nothing can be learnt from them


class ContentIndex:
    """Hashes of contents and of their labels, with their locations: 24 bytes for each example."""

    def __init__(self) -> None:
        self.answers = "labels"  # what they are called
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

    def repeated(self, before: "ContentIndex | None" = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Those whose content stands earlier, or in ``before``; and the first one there that has it."""
        own = np.array(self.hashes, dtype=np.uint64)
        names, first = np.unique(own if before is None else np.array(before.hashes, np.uint64), return_index=True)
        if not len(names):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        at = np.searchsorted(names, own).clip(max=len(names) - 1)
        rows = np.arange(len(own))
        again = names[at] == own if before is not None else first[at] < rows
        return rows[again], first[at[again]]

    def describe(self, before: "ContentIndex | None" = None) -> str:
        """How many are repeated, whether with the same labels, and the locations of some; empty: none."""
        others = before or self
        pairs = list(zip(*(each.tolist() for each in self.repeated(before)), strict=True))
        if not pairs:
            return ""
        locations = [
            f"{self.location(one)} as {_from(self.location(one), others.location(other))}"
            for one, other in pairs[:SHOWN]
        ]
        unlike = sum(self.labels[one] != others.labels[other] for one, other in pairs)
        labels = f", {unlike:,} of them with other {self.answers}" if unlike else ""
        return f"{counted(len(pairs), 'example')}{labels} ({join_names(locations, len(pairs))})"


def _from(here: Location, there: Location) -> str:
    return f"line {there.line}" if here.file == there.file else str(there)


class DatasetSummary:
    """Counts gathered while examples are read, whatever task they are for."""

    def __init__(self, *, keep: int) -> None:
        self.keep = keep  # how many of the longest examples
        self.examples = self.elements = 0
        self.lengths: Counter[int] = Counter()
        self.labels: Counter[str] = Counter()
        self.first: dict[str, Location] = {}  # of each label
        self.empty = Findings()  # locations
        self.unlabelled = Findings()  # locations
        self.odd = Findings()  # locations and reasons
        self.infeasible = Findings()  # locations and reasons
        self.infeasible_when_augmented = Findings()  # likewise
        self.contents = ContentIndex()
        self.sides: dict[str, SideCounter] = {}  # of pairs: source, target
        self.symbols: int | None = None  # that a model sees; None: not counted
        self.unknown: int | None = None  # of them; None: they are vectors
        self._longest: list[tuple[int, int, Any]] = []  # a heap: length, number, example
        self._sampled = 0  # bytes
        self._series: Any = None
        self._low = self._high = np.zeros(0)
        self._columns: Sequence[str] = ()

    def add(self, example: Any) -> None:
        length = len(example)
        self.lengths[length] += 1
        self.elements += length
        if not length:
            self.empty.note(example.location)
        (heappush if len(self._longest) < self.keep else heappushpop)(self._longest, (length, -self.examples, example))
        self._add_labels(example)
        content = _content(example)
        if content and length:
            self.contents.add(content, _answer(example).encode(), example.location)
        self._add_columns(example)
        if self.examples < SAMPLE:
            self._sampled += _size(example)
        self.examples += 1

    def _add_labels(self, example: Any) -> None:
        if isinstance(example, Pair):
            self._add_sides(example)
            return
        if isinstance(example, CaptionedImage):
            self._add_captions(example)
            return
        if isinstance(example, Recording):
            self._add_text(example)
            return
        labels = _labels(example)
        if labels is None:
            if hasattr(example, "label") or hasattr(example, "labels"):
                self.unlabelled.note(example.location)
            return
        self.labels.update(labels)
        for index, label in enumerate(labels):
            if label not in self.first:
                self.first[label] = example.at(index) if hasattr(example, "at") else example.location
        if isinstance(example, Sentence):
            for odd in oddities([example]):
                self.odd.note(odd)

    def _add_sides(self, pair: Pair) -> None:
        self.contents.answers = "targets"
        if pair.target is None:
            self.unlabelled.note(pair.location)
        for name, text, length in zip(("source", "target"), (pair.source, pair.target), pair.lengths, strict=True):
            if text is not None:
                self.sides.setdefault(name, SideCounter(name)).add(length, pair.location)

    def _add_captions(self, picture: CaptionedImage) -> None:
        self.contents.answers = "captions"
        if not picture.captions:
            self.unlabelled.note(picture.location)
        for length in picture.lengths:
            self.sides.setdefault("caption", SideCounter("caption")).add(length, picture.location)

    def _add_text(self, recording: Recording) -> None:
        self.contents.answers = "texts"
        if recording.text is None:
            self.unlabelled.note(recording.location)
        else:  # the lengths are of characters, whatever the symbols are
            self.sides.setdefault("text", SideCounter("text")).add(len(recording.text), recording.location)

    def _add_columns(self, example: Any) -> None:
        """Between which numbers each column lies; the windows of a series are looked at together."""
        series = getattr(example, "series", None)
        values = _numbers(example if series is None else series)
        if values is None or values.ndim < 2 or not len(values) or (series is not None and series is self._series):
            return
        low, high = values.min(axis=0), values.max(axis=0)
        if len(low) == len(self._low):
            low, high = np.minimum(low, self._low), np.maximum(high, self._high)
        self._series, self._low, self._high = series, low, high
        self._columns = getattr(series, "names", ())

    def count_symbols(
        self,
        examples: Iterable[Any],
        collate: Callable[[Sequence[Any]], Batch],
        infeasible: Callable[[Any], str] = lambda _: "",  # why nothing can be learnt from an example
        infeasible_when_augmented: Callable[[Any], str] = lambda _: "",  # or not always
    ) -> None:
        """How many elements a model sees, and how many of them are unknown symbols, by the task's own ``collate``."""
        symbols, unknown, symbolic = 0, 0, False
        for some in _chunks(examples):
            for example in some:
                if why := infeasible(example):
                    self.infeasible.note(f"{example.location}: {why}")
                if why := infeasible_when_augmented(example):
                    self.infeasible_when_augmented.note(f"{example.location}: {why}")
            batch = collate(some)
            inputs = batch.inputs
            values = _first(inputs)[inputs.mask]
            symbolic = not values.is_floating_point()
            symbols += len(values)
            unknown += int((values == 1).sum()) if symbolic else 0
            parts = (inputs, batch.target)[-len(self.sides) :]  # an image has one side only, its captions
            for side, part in zip(self.sides.values(), parts, strict=False):
                side.count(_first(part)[part.mask])
        self.symbols, self.unknown = symbols, unknown if symbolic else None

    @property
    def unknown_share(self) -> float | None:
        return None if self.unknown is None else self.unknown / max(self.symbols or 0, 1)

    @property
    def longest(self) -> list[Any]:
        """Examples, the longest first."""
        return [example for _, _, example in sorted(self._longest, reverse=True)]

    @property
    def constant(self) -> list[str]:
        """Columns of numbers that never change."""
        still = np.flatnonzero(self._low == self._high).tolist()
        return [self._columns[column] if self._columns else str(column + 1) for column in still]

    def size(self, most: int) -> int:
        """Bytes that the examples need in memory, or so many of them."""
        return self._sampled * min(self.examples, most) // max(min(self.examples, SAMPLE), 1)

    def split(self, source: str, train: "DatasetSummary | None") -> SplitSummary:
        """What was found in a file of this name; ``train`` is what it is compared with."""
        return SplitSummary(
            source=source,
            examples=self.examples,
            elements=self.elements,
            empty=self.empty.total,
            unlabelled=self.unlabelled.total,
            repeated=len(self.contents.repeated()[0]),
            in_train=len(self.contents.repeated(train.contents)[0]) if train and self is not train else None,
            lengths=LengthSummary.of(self.lengths) if self.lengths else None,
            unknown=self.unknown_share,
            labels=dict(self.labels.most_common()),
            sides={name: side.facts() for name, side in self.sides.items()},
            infeasible=self.infeasible.total,
        )

    def remarks(self) -> Iterator[str]:
        """What is worth knowing."""
        if self.empty:
            yield f"{counted(self.empty.total, 'example')} without any element, first {self.empty}"
        for name, side in self.sides.items():
            if side.empty:
                yield f"{counted(side.empty.total, name)} without any symbol, first {side.empty}"
        for found, which in (
            (self.infeasible, "impossible, which training leaves out"),
            (self.infeasible_when_augmented, "impossible when played fast, which training leaves out then"),
        ):
            if found:
                share = found.total / max(self.examples, 1)
                yield f"{counted(found.total, 'example')} ({share:.1%}) {which}: {found}"
        if again := self.contents.describe():
            yield f"the content stands in an earlier example: {again}"
        if self.lengths:
            lengths, longest = LengthSummary.of(self.lengths), self.longest[0]
            if lengths.maximum > OUTLIER * max(lengths.most, 1):
                yield (
                    f"the longest example has {lengths.maximum:,} elements ({longest.location}), 95 % have at most "
                    f"{lengths.most:,}: its batch takes much more memory and time than others"
                )
        if self.odd and are_spans(self.labels):
            location, why = self.odd.first[0]
            yield f"{counted(self.odd.total, 'label')} out of order, first {location}: {why}"
        if still := self.constant:
            yield f"{counted(len(still), 'column')} of {len(self._low)} never changing: {join_names(still)}"
        for label, times in self.labels.most_common(1):
            share = times / self.labels.total()
            if share > UNBALANCED and len(self.labels) > 1:
                yield f"{label!r} is {share:.1%} of all labels: who says nothing else has that accuracy"


def _labels(example: Any) -> Sequence[str] | None:
    label, labels = getattr(example, "label", None), getattr(example, "labels", None)
    return labels if labels is not None else None if label is None else (label,)


def _answer(example: Any) -> str:
    if isinstance(example, CaptionedImage):
        return "\t".join(example.captions)
    if isinstance(example, Recording):
        return example.text or ""
    return example.target or "" if isinstance(example, Pair) else "\t".join(_labels(example) or ())


def _numbers(example: Any) -> NDArray[Any] | None:  # (T, D)
    found = (getattr(example, name, None) for name in ("content", "values"))
    return next((values for values in found if isinstance(values, np.ndarray)), None)


def _content(example: Any) -> bytes:
    """What makes two examples the same; nothing where they are windows of one series, which overlap anyway."""
    values = example.image if isinstance(example, CaptionedImage) else _numbers(example)
    if values is not None:
        return values.tobytes()
    text = next((getattr(example, name) for name in ("text", "content", "source") if hasattr(example, name)), None)
    return (text if isinstance(text, str) else "\t".join(getattr(example, "words", ()))).encode()


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())


def _size(value: Any) -> int:
    """Bytes in memory; what a window shares with others counts nothing."""
    size = sys.getsizeof(value)
    if isinstance(value, tuple | list):
        return size + sum(map(_size, value))
    if is_dataclass(value) and not hasattr(value, "series"):
        return size + sum(_size(getattr(value, each.name)) for each in fields(value))
    return size


def _first(part: Any) -> Tensor:
    """What a task itself reads stands first, whatever is read beside it."""
    return part if isinstance(part, Tensor) else _first(part[0])


def _chunks(examples: Iterable[Any]) -> Iterator[list[Any]]:
    chunk: list[Any] = []
    longest = 0
    for example in examples:
        length = example.image.size if isinstance(example, CaptionedImage) else len(example)
        longest = max(longest, length)
        if chunk and longest * (len(chunk) + 1) > TOGETHER:
            yield chunk
            chunk, longest = [], length
        chunk.append(example)
    if chunk:
        yield chunk
