"""Parts of long sequences with a label, or with numbers, for each element."""

from collections.abc import Iterator
from dataclasses import replace

from seqloom.data.readers.sentences import Sentence, TaggedSequence

CONTINUED = ("I-", "E-")  # prefixes of labels inside a span


def cut_sequence(sequence: TaggedSequence, length: int) -> Iterator[TaggedSequence]:
    """The parts of a sequence, of at most ``length`` elements each; no span is cut that fits into one of them."""
    inside = [str(label).startswith(CONTINUED) for label in sequence.labels or ()]
    start = 0
    while start < len(sequence):
        end = start + length
        borders = range(end, start, -1)  # the last one at which no span continues, if there is one
        stop = next((border for border in borders if not any(inside[border : border + 1])), end)
        yield _slice(sequence, start, stop)
        start = stop


def _slice(sequence: TaggedSequence, start: int, stop: int) -> TaggedSequence:
    labels = None if sequence.labels is None else sequence.labels[start:stop]
    target = None if sequence.target is None else sequence.target[start:stop]
    if isinstance(sequence, Sentence):
        lines = sequence.lines[start:stop]
        features = tuple(column[start:stop] for column in sequence.features)
        return Sentence(sequence.at(start), sequence.words[start:stop], labels, lines, target, features)
    return replace(sequence, values=sequence.values[start:stop], labels=labels, target=target)
