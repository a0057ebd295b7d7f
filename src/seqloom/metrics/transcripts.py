"""How good transcripts are: symbols replaced, put in and left out, as rates and as the usual lines of REF and HYP."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.metrics.confidence import MetricSums, bootstrap_ratio, ratio_of_sums, wilson_interval

GAP = "*"
"""Stands where the other side has a symbol and this one has none."""

VISIBLE = {" ": "_", "\t": "_"}
"""Blanks among characters, as they are printed."""


class AlignedPair(NamedTuple):
    """A wanted symbol beside the one that was found in its place; None where there is none."""

    wanted: str | None
    found: str | None

    @property
    def mark(self) -> str:
        """S replaced, I put in, D left out; a blank where both are the same."""
        if self.wanted is None:
            return "I"
        return "D" if self.found is None else " " if self.wanted == self.found else "S"


def align(found: Sequence[str], wanted: Sequence[str]) -> list[AlignedPair]:
    """Both sequences side by side with the fewest errors (Levenshtein 1966)."""
    from rapidfuzz.distance import Levenshtein

    pairs: list[AlignedPair] = []
    for step in Levenshtein.opcodes(wanted, found):
        left: Sequence[str | None] = wanted[step.src_start : step.src_end]
        right: Sequence[str | None] = found[step.dest_start : step.dest_end]
        if step.tag == "insert":
            left = [None] * len(right)
        elif step.tag == "delete":
            right = [None] * len(left)
        pairs += map(AlignedPair, left, right)
    return pairs


@dataclass(frozen=True)
class ErrorRate:
    """Errors for each symbol that was wanted; the arrays have one number for each transcript: (N,)."""

    substitutions: NDArray[np.int64]
    insertions: NDArray[np.int64]
    deletions: NDArray[np.int64]
    symbols: NDArray[np.int64]  # that were wanted
    confused: dict[tuple[str | None, str | None], int]  # how often a wanted symbol became another one, or none

    @property
    def errors(self) -> NDArray[np.int64]:  # (N,)
        return self.substitutions + self.insertions + self.deletions

    @property
    def value(self) -> float:
        return float(self.errors.sum() / max(int(self.symbols.sum()), 1))

    @property
    def interval(self) -> tuple[float, float]:
        """Of 95 %, over transcripts drawn anew."""
        return bootstrap_ratio(self.errors, self.symbols)

    @property
    def exact_match(self) -> float:
        """The share of transcripts without any error."""
        return float((self.errors == 0).mean()) if len(self.errors) else 0.0

    @property
    def exact_match_interval(self) -> tuple[float, float]:
        return wilson_interval(int((self.errors == 0).sum()), len(self.errors))

    def counts(self) -> dict[str, int]:
        names = ("substitutions", "insertions", "deletions", "symbols")
        return {name: int(getattr(self, name).sum()) for name in names}

    def confusions(self, most: int = 20) -> list[dict[str, Any]]:
        """The most frequent errors; an empty text stands for no symbol."""
        found = sorted(self.confused.items(), key=lambda item: (-item[1], item[0][0] or "", item[0][1] or ""))
        return [{"wanted": left or "", "found": right or "", "times": times} for (left, right), times in found[:most]]


def error_rate(found: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> ErrorRate:
    """The errors of transcripts, each cut into symbols: of characters the CER, of words the WER, of phones the PER."""
    if len(found) != len(wanted):
        raise ValueError(f"there are {len(found)} transcripts and {len(wanted)} that were wanted; as many are wanted")
    confused: Counter[tuple[str | None, str | None]] = Counter()
    rows = []
    for answer, truth in zip(found, wanted, strict=True):
        errors = [pair for pair in align(answer, truth) if pair.mark != " "]
        confused.update((pair.wanted, pair.found) for pair in errors)
        marks = Counter(pair.mark for pair in errors)
        rows.append((marks["S"], marks["I"], marks["D"], len(truth)))
    substitutions, insertions, deletions, symbols = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return ErrorRate(substitutions, insertions, deletions, symbols, dict(confused))


def printed(found: Sequence[str], wanted: Sequence[str], *, name: str = "") -> str:
    """The lines REF, HYP and EVAL, symbol below symbol, as speech recognition prints its errors."""
    pairs = align(found, wanted)
    joint = "" if all(len(symbol) == 1 for pair in pairs for symbol in pair if symbol is not None) else " "
    rows = ["REF:  ", "HYP:  ", "EVAL: "]
    for pair in pairs:
        cells = [GAP if symbol is None else VISIBLE.get(symbol, symbol) for symbol in pair]
        width = max(map(len, cells))
        cells = [GAP * width if symbol is None else cell for symbol, cell in zip(pair, cells, strict=True)]
        for index, cell in enumerate((*cells, pair.mark)):
            rows[index] += cell.ljust(width) + joint
    marks = Counter(pair.mark for pair in pairs)
    counts = f"{len(wanted)} wanted, {marks['S']} replaced, {marks['I']} put in, {marks['D']} left out"
    return "\n".join([f"{name}: {counts}" if name else counts, *(row.rstrip() for row in rows)])


def report(
    pairs: Mapping[str, tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]]],  # by unit: what was found, and wanted
    names: Sequence[str],  # of the transcripts
    *,
    worst: int = 10,  # transcripts whose errors are printed
) -> tuple[dict[str, float], dict[str, Any]]:
    """The error rate of each unit, and what is behind it; matches and examples of errors are of the first unit."""
    rates = {unit: error_rate(*both) for unit, both in pairs.items()}
    details: dict[str, Any] = {}
    for unit, found in rates.items():
        details |= {f"{unit}_interval": list(found.interval), f"{unit}_errors": found.counts()}
    first, (answers, truths) = next(iter(rates.values())), next(iter(pairs.values()))
    most = sorted((row for row in range(len(names)) if first.errors[row]), key=lambda row: -first.errors[row])[:worst]
    details |= {
        "exact_match_interval": list(first.exact_match_interval),
        "confusions": first.confusions(),
        "worst": [printed(answers[row], truths[row], name=names[row]) for row in most],
    }
    return {**{unit: found.value for unit, found in rates.items()}, "exact_match": first.exact_match}, details


@dataclass(frozen=True)
class Transcripts:
    """What was heard, beside what was said."""

    names: Sequence[str]
    found: Sequence[str]
    wanted: Sequence[str]
    symbols: Sequence[Sequence[str]]  # that were found
    spelt: Sequence[Sequence[str]]  # symbols that were wanted
    losses: Sequence[float | None]  # None: there is no path to the transcript

    def pairs(self, unit: str) -> tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]]:
        """The symbols of each transcript, found and wanted: characters, words, or what the model knows."""
        cuts: dict[str, Callable[[str], list[str]]] = {"cer": list, "wer": str.split}
        if unit not in cuts:
            return self.symbols, self.spelt
        return [*map(cuts[unit], self.found)], [*map(cuts[unit], self.wanted)]

    @property
    def surprise(self) -> MetricSums:
        """The loss for each symbol, the end among them, of those that are possible; infinite where none is."""
        lengths = [0 if loss is None else len(each) + 1 for loss, each in zip(self.losses, self.spelt, strict=True)]
        rows = ratio_of_sums([loss or 0.0 for loss in self.losses], lengths).rows
        return MetricSums(rows, lambda sums: float(sums[0] / sums[1]) if sums[1] else math.inf)

    def score(self, units: Sequence[str]) -> dict[str, Any]:
        """All metrics; the first unit is the one that counts."""
        scores, details = report({unit: self.pairs(unit) for unit in units}, self.names)
        possible = len(self.losses) - self.losses.count(None)
        return scores | {
            "loss": self.surprise.whole,
            "impossible": 1 - possible / max(len(self.losses), 1),
            **details,
            "examples": len(self.names),
        }

    def sums(self, metric: str, units: Sequence[str]) -> MetricSums:
        """What one of the metrics is made of, transcript by transcript."""
        if metric == "loss":
            return self.surprise
        if metric != "exact_match":
            found = error_rate(*self.pairs(metric))
            return ratio_of_sums(found.errors, found.symbols)
        return ratio_of_sums(error_rate(*self.pairs(units[0])).errors == 0, [1] * len(self.names))
