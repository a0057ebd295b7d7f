"""Labels of spans: B-, I-, E- and S- with a type, and O outside."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise


def are_spans(labels: Iterable[str]) -> bool:
    """Whether all labels are O or have one of the prefixes B-, I-, E- and S-."""
    names = set(labels) - {"O"}
    return bool(names) and all(name[:2] in ("B-", "I-", "E-", "S-") and len(name) > 2 for name in names)


def continues(before: str, label: str) -> bool:
    """Whether an I- or E- label continues the span of the label before it."""
    return before[:2] in ("B-", "I-") and before[2:] == label[2:]


def invalid_transitions(labels: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The index of each I- or E- label that does not continue a span of its type, and the reason."""
    for index, (before, label) in enumerate(pairwise(("O", *labels))):
        if label[:2] in ("I-", "E-") and not continues(before, label):
            follows = f"follows {before}" if index else "is the first label"
            yield index, f"{label} {follows}, so there is no span to continue"


def to_bio(labels: Sequence[str]) -> tuple[str, ...]:
    """BIO labels of IOB1, in which B- starts a span only directly after another of its type."""
    return tuple(
        f"B-{label[2:]}" if label[:2] == "I-" and not continues(before, label) else label
        for before, label in pairwise(("O", *labels))
    )
