"""Error rates of transcripts (CER, WER, PER): substitutions, insertions, deletions, and REF/HYP alignments."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.metrics.confidence import MetricSums, bootstrap_ratio, ratio_of_sums, wilson_interval

GAP = "*"
"""Printed where the other side has a token and this one has none."""

VISIBLE = {" ": "_", "\t": "_"}
"""Printed instead of whitespace characters."""


class AlignedPair(NamedTuple):
    """A reference token and the hypothesis token aligned with it; None on the side of a gap."""

    reference: str | None
    hypothesis: str | None

    @property
    def mark(self) -> str:
        """S: substitution, I: insertion, D: deletion; a space if both are equal."""
        if self.reference is None:
            return "I"
        return "D" if self.hypothesis is None else " " if self.reference == self.hypothesis else "S"


def align(hypothesis: Sequence[str], reference: Sequence[str]) -> list[AlignedPair]:
    """Align both sequences with the fewest errors (Levenshtein 1966)."""
    from rapidfuzz.distance import Levenshtein

    pairs: list[AlignedPair] = []
    for step in Levenshtein.opcodes(reference, hypothesis):
        left: Sequence[str | None] = reference[step.src_start : step.src_end]
        right: Sequence[str | None] = hypothesis[step.dest_start : step.dest_end]
        if step.tag == "insert":
            left = [None] * len(right)
        elif step.tag == "delete":
            right = [None] * len(left)
        pairs += map(AlignedPair, left, right)
    return pairs


@dataclass(frozen=True)
class ErrorRate:
    """Errors per reference token; the arrays have one entry per transcript: (N,)."""

    substitutions: NDArray[np.int64]
    insertions: NDArray[np.int64]
    deletions: NDArray[np.int64]
    tokens: NDArray[np.int64]  # reference tokens
    confused: dict[tuple[str | None, str | None], int]  # counts of (reference, hypothesis) pairs that differ

    @property
    def errors(self) -> NDArray[np.int64]:  # (N,)
        return self.substitutions + self.insertions + self.deletions

    @property
    def value(self) -> float:
        return float(self.errors.sum() / max(int(self.tokens.sum()), 1))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval, bootstrapped over transcripts."""
        return bootstrap_ratio(self.errors, self.tokens)

    @property
    def exact_match(self) -> float:
        """The fraction of transcripts without any error."""
        return float((self.errors == 0).mean()) if len(self.errors) else 0.0

    @property
    def exact_match_interval(self) -> tuple[float, float]:
        return wilson_interval(int((self.errors == 0).sum()), len(self.errors))

    def counts(self) -> dict[str, int]:
        names = ("substitutions", "insertions", "deletions", "tokens")
        return {name: int(getattr(self, name).sum()) for name in names}

    def confusions(self, most: int = 20) -> list[dict[str, Any]]:
        """The most frequent errors; an empty string stands for no token."""
        ordered = sorted(self.confused.items(), key=lambda item: (-item[1], item[0][0] or "", item[0][1] or ""))
        return [
            {"reference": reference or "", "hypothesis": hypothesis or "", "count": count}
            for (reference, hypothesis), count in ordered[:most]
        ]


def error_rate(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> ErrorRate:
    """The errors of tokenized transcripts: for characters the CER, for words the WER, for phones the PER."""
    if len(hypotheses) != len(references):
        raise ValueError(f"expected {len(references)} transcripts, one per reference, found {len(hypotheses)}")
    confused: Counter[tuple[str | None, str | None]] = Counter()
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        errors = [pair for pair in align(hypothesis, reference) if pair.mark != " "]
        confused.update((pair.reference, pair.hypothesis) for pair in errors)
        marks = Counter(pair.mark for pair in errors)
        rows.append((marks["S"], marks["I"], marks["D"], len(reference)))
    substitutions, insertions, deletions, tokens = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return ErrorRate(substitutions, insertions, deletions, tokens, dict(confused))


def format_alignment(hypothesis: Sequence[str], reference: Sequence[str], *, name: str = "") -> str:
    """The aligned lines REF, HYP and EVAL, as sclite prints them."""
    pairs = align(hypothesis, reference)
    separator = "" if all(len(token) == 1 for pair in pairs for token in pair if token is not None) else " "
    rows = ["REF:  ", "HYP:  ", "EVAL: "]
    for pair in pairs:
        cells = [GAP if token is None else VISIBLE.get(token, token) for token in pair]
        width = max(map(len, cells))
        cells = [GAP * width if token is None else cell for token, cell in zip(pair, cells, strict=True)]
        for index, cell in enumerate((*cells, pair.mark)):
            rows[index] += cell.ljust(width) + separator
    marks = Counter(pair.mark for pair in pairs)
    counts = f"{len(reference)} tokens, {marks['S']} substitutions, {marks['I']} insertions, {marks['D']} deletions"
    return "\n".join([f"{name}: {counts}" if name else counts, *(row.rstrip() for row in rows)])


def report(
    pairs: Mapping[str, tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]]],  # metric → hypotheses, references
    names: Sequence[str],  # of the transcripts
    *,
    worst: int = 10,  # transcripts whose errors are listed
) -> tuple[dict[str, float], dict[str, Any]]:
    """Error rates and their details; exact matches, confusions and the worst transcripts are those of the first one."""
    rates = {name: error_rate(*both) for name, both in pairs.items()}
    details: dict[str, Any] = {}
    for name, rate in rates.items():
        details |= {f"{name}_interval": list(rate.interval), f"{name}_errors": rate.counts()}
    first, (hypotheses, references) = next(iter(rates.values())), next(iter(pairs.values()))
    most = sorted((row for row in range(len(names)) if first.errors[row]), key=lambda row: -first.errors[row])[:worst]
    details |= {
        "exact_match_interval": list(first.exact_match_interval),
        "confusions": first.confusions(),
        "worst": [format_alignment(hypotheses[row], references[row], name=names[row]) for row in most],
    }
    return {**{name: rate.value for name, rate in rates.items()}, "exact_match": first.exact_match}, details


@dataclass(frozen=True)
class Transcripts:
    """Transcripts and their references."""

    names: Sequence[str]
    hypotheses: Sequence[str]
    references: Sequence[str]
    hypothesis_tokens: Sequence[Sequence[str]]
    reference_tokens: Sequence[Sequence[str]]
    losses: Sequence[float | None]  # None: the example is infeasible

    def pairs(self, metric: str) -> tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]]:
        """Hypotheses and references, split into characters for the CER, words for the WER, otherwise tokens."""
        split: dict[str, Callable[[str], list[str]]] = {"cer": list, "wer": str.split}
        if metric not in split:
            return self.hypothesis_tokens, self.reference_tokens
        return [*map(split[metric], self.hypotheses)], [*map(split[metric], self.references)]

    @property
    def loss(self) -> MetricSums:
        """The loss per token (and end) over the feasible examples; infinite if there are none."""
        tokens = zip(self.losses, self.reference_tokens, strict=True)
        lengths = [0 if loss is None else len(reference) + 1 for loss, reference in tokens]
        rows = ratio_of_sums([loss or 0.0 for loss in self.losses], lengths).rows
        return MetricSums(rows, lambda sums: float(sums[0] / sums[1]) if sums[1] else math.inf)

    def score(self, error_rates: Sequence[str]) -> dict[str, Any]:
        """All metrics; details are those of the first error rate."""
        scores, details = report({name: self.pairs(name) for name in error_rates}, self.names)
        feasible = len(self.losses) - self.losses.count(None)
        return scores | {
            "loss": self.loss.whole,
            "infeasible": 1 - feasible / max(len(self.losses), 1),
            **details,
            "examples": len(self.names),
        }

    def sums(self, metric: str, error_rates: Sequence[str]) -> MetricSums:
        """The sums per transcript from which a metric is computed."""
        if metric == "loss":
            return self.loss
        if metric == "exact_match":
            return ratio_of_sums(error_rate(*self.pairs(error_rates[0])).errors == 0, [1] * len(self.names))
        rate = error_rate(*self.pairs(metric))
        return ratio_of_sums(rate.errors, rate.tokens)
