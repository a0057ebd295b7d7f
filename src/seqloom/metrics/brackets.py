"""Labelled bracketing of parse trees (Black et al. 1991), as the program evalb compares them."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seqloom.metrics.confidence import MetricSums
from seqloom.metrics.labels import f1

TOKEN = re.compile(r"\([^\s()]*|\)|[^\s()]+")
IGNORED = ("", "TOP", "ROOT", "S1")
"""Labels of brackets around the whole tree that do not count."""


class Bracket(NamedTuple):
    """A constituent: its label, its first word and the one after its last."""

    label: str
    start: int
    end: int
    is_tag: bool  # a single word, and no other bracket: a part-of-speech tag if all words have one


def parse(tree: str) -> tuple[list[Bracket], int] | None:
    """The brackets of ``(S (NP (DT the) (NN dog)) (VP barks))`` and its number of words; None: malformed."""
    brackets: list[Bracket] = []
    stack: list[tuple[str, int, bool]] = []  # label, start, whether it holds another bracket
    words = 0
    for part in TOKEN.findall(tree):
        if part.startswith("("):
            if not stack and (brackets or words):
                return None
            if stack:
                stack[-1] = (*stack[-1][:2], True)
            stack.append((part[1:], words, False))
        elif not stack:
            return None
        elif part == ")":
            label, start, nested = stack.pop()
            brackets.append(Bracket(label, start, words, not nested and words == start + 1))
        else:
            words += 1
    return None if stack or not brackets else (brackets, words)


def bracket_counts(hypothesis: str, reference: str) -> tuple[int, int, int]:
    """The correct, predicted and reference brackets of one tree.

    If every word of the reference has a part-of-speech tag, brackets around one word are tags and do not count. A
    malformed tree, or one with another number of words, has no correct bracket.
    """
    truth = parse(reference)
    if truth is None:
        raise ValueError(f"the reference is not a tree: {reference[:80]!r}")
    brackets, words = truth
    tagged = sum(bracket.is_tag for bracket in brackets) == words > 0

    def counted(brackets: Sequence[Bracket]) -> Counter[tuple[str, int, int]]:
        return Counter(each[:3] for each in brackets if each.label not in IGNORED and not (tagged and each.is_tag))

    expected = counted(brackets)
    predicted = parse(hypothesis)
    if predicted is None:
        return 0, hypothesis.count("("), expected.total()
    actual = counted(predicted[0])
    return (actual & expected).total() if predicted[1] == words else 0, actual.total(), expected.total()


def bracket_sums(hypotheses: Sequence[str], references: Sequence[str]) -> MetricSums:
    """Labelled F1 over the brackets of all trees."""
    rows = [bracket_counts(*pair) for pair in zip(hypotheses, references, strict=True)]
    return MetricSums(np.array(rows, dtype=np.float64).reshape(-1, 3), lambda sums: float(f1(*sums)))
