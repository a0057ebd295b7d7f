"""Texts and labels that are probably not what was meant: numbers, exchanged or equal columns, missing labels."""

from collections.abc import Iterator, Mapping, Sequence

from seqloom.data.readers.spans import are_spans

MIN_EXAMPLES = 10  # below which nothing is suspected
MOST = 0.9  # fraction of the examples
MAX_WORDS = 100_000  # different words that are counted
MISSING_LABELS = {"nan", "na", "n/a", "#n/a", "<na>", "null"}  # "none" is a usual label
SPAN_PREFIXES = ("B-", "I-", "E-", "S-", "L-", "U-")


class SuspectContent:
    """Counts contents and their targets while examples are read."""

    def __init__(self) -> None:
        self.texts = self.numbers = 0
        self.pairs = self.equal = 0
        self.words: set[bytes] = set()
        self.tagged = 0  # words with a label each

    def add(self, content: bytes, target: str, labels: Sequence[str]) -> None:
        """``content``: a text, or words separated by tabs; ``labels``: of each word, or of the text."""
        self.texts += 1
        self.numbers += content.strip().isdigit()
        if target:
            self.pairs += 1
            self.equal += content == target.encode()
        if len(labels) > 1 and len(self.words) < MAX_WORDS and content.count(b"\t") == len(labels) - 1:
            self.words.update(content.split(b"\t"))
            self.tagged += len(labels)

    def warnings(self, labels: Mapping[str, int]) -> Iterator[str]:
        """What is suspect, in sentences; ``labels`` are all labels with their counts."""
        if self.numbers == self.texts >= MIN_EXAMPLES:
            yield "all texts are numbers: is it the right column?"
        if self.pairs >= MIN_EXAMPLES and self.equal >= MOST * self.pairs:
            yield (
                f"input and target are equal in {self.equal:,} of {self.pairs:,} examples: is a column or a file read "
                "twice?"
            )
        if self.tagged >= MIN_EXAMPLES and len(self.words) < len(labels):
            yield (
                f"there are more different labels ({len(labels):,}) than different words ({len(self.words):,}): are "
                "the columns exchanged?"
            )
        yield from _label_warnings(labels)


def _label_warnings(labels: Mapping[str, int]) -> Iterator[str]:
    for label, count in labels.items():
        if label.strip().casefold() in MISSING_LABELS:
            yield f"the label {label!r} ({count:,} times) usually stands for a missing value: remove these examples"
    if are_spans(labels) or not any(label[:2].upper() in SPAN_PREFIXES for label in labels):
        return
    usual = {_usual_span(label) for label in labels}
    if are_spans(usual):
        other = next(label for label in labels if _usual_span(label) != label)
        yield (
            f"the label {other!r} is not read as a part of a span: write O, and B-, I-, E- and S- in capitals. "
            "Scores count single labels"
        )


def _usual_span(label: str) -> str:
    """A label as it is written in BIO or IOBES: 0 for O, lowercase, and the prefixes of BILOU."""
    if label in ("0", "o"):
        return "O"
    prefix = {"L-": "E-", "U-": "S-"}.get(label[:2].upper(), label[:2].upper())
    return prefix + label[2:] if prefix in SPAN_PREFIXES else label
