"""How good texts are beside those that were wanted: BLEU and chrF by sacrebleu, and errors by edit distance."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.metrics.confidence import MetricSums, bootstrap_ratio, quantiles, resample, wilson_interval

Symbols = Sequence[Hashable]  # characters, words, phonemes


class CorpusScore(NamedTuple):
    """A score of sacrebleu, from 0 to 100."""

    score: float
    interval: tuple[float, float]  # of 95 %, over sentences drawn anew
    signature: str  # all that the score depends on: version, tokenizer, case
    sums: MetricSums  # that it is a function of


def bleu(
    found: Sequence[str],
    wanted: Sequence[str],
    *,
    others: Sequence[Sequence[str | None]] = (),  # further references, each for all sentences; None: there is none
    order: int = 4,  # n-grams of up to so many words
    lower: bool = False,  # capital letters are made small on both sides
    tokenize: Literal["13a", "intl", "char", "none"] = "13a",  # none: words stand between blanks already
) -> CorpusScore:
    """Papineni et al. 2002 as Post 2018 wants it: on raw texts."""
    from sacrebleu.metrics.bleu import BLEU

    class Counted(_Sums, BLEU):
        pass

    metric = Counted(lowercase=lower, tokenize=tokenize, max_ngram_order=order, force=True)  # or it logs guesses
    return _corpus(metric, found, [wanted, *others])


def chrf(found: Sequence[str], wanted: Sequence[str], *, others: Sequence[Sequence[str]] = ()) -> CorpusScore:
    """Popović 2015: F of character 6-grams, recall counting twice."""
    from sacrebleu.metrics.chrf import CHRF

    class Counted(_Sums, CHRF):
        pass

    return _corpus(Counted(), found, [wanted, *others])


class _Sums:
    """Both scores are functions of sums over sentences, so that a sample of them needs no other look at the texts."""

    def statistics(
        self: Any, found: Sequence[str], references: Sequence[Sequence[str | None]]
    ) -> NDArray[np.int64]:  # (N, S)
        return np.array(self._extract_corpus_statistics(found, references), dtype=np.int64)

    def compute(self: Any, sums: NDArray[Any]) -> float:  # (S,)
        return float(self._compute_score_from_stats(sums.astype(np.int64).tolist()).score)


def _corpus(metric: Any, found: Sequence[str], references: Sequence[Sequence[str | None]]) -> CorpusScore:
    for wanted in references:
        _check(found, wanted)
    if not found:
        raise ValueError("there is nothing to compare: no text was found and none was wanted")
    statistics = metric.statistics(found, references)
    scores = [metric.compute(sums) for sums in resample(statistics)]
    sums = MetricSums(statistics.astype(np.float64), metric.compute)
    return CorpusScore(sums.whole, quantiles(scores), str(metric.get_signature()), sums)


def edit_distance(found: Symbols, wanted: Symbols) -> int:
    """The least number of symbols put in, left out and replaced (Levenshtein 1966)."""
    from rapidfuzz.distance import Levenshtein

    return int(Levenshtein.distance(found, wanted))


@dataclass(frozen=True)
class EditErrors:
    """Answers beside what was wanted, each source counted once: (N,) for N different sources."""

    errors: NDArray[np.int64]  # the distance to the nearest answer that is listed
    symbols: NDArray[np.int64]  # of that answer
    wrong: NDArray[np.bool_]  # no listed answer is this one

    @property
    def symbol_error_rate(self) -> float:
        """Errors for each symbol that was wanted: of phonemes the PER, of words the WER of speech recognition."""
        return float(self.errors.sum() / max(int(self.symbols.sum()), 1))

    @property
    def symbol_error_interval(self) -> tuple[float, float]:
        return bootstrap_ratio(self.errors, self.symbols)

    @property
    def sequence_error_rate(self) -> float:
        """The share of sources without the right answer: of pronunciations the WER."""
        return float(self.wrong.mean()) if len(self.wrong) else 0.0

    @property
    def exact_match(self) -> float:
        return 1 - self.sequence_error_rate

    @property
    def exact_match_interval(self) -> tuple[float, float]:
        return wilson_interval(int((~self.wrong).sum()), len(self.wrong))


def edit_errors(sources: Sequence[Hashable], found: Sequence[Symbols], wanted: Sequence[Symbols]) -> EditErrors:
    """Errors of the answers; where a source occurs several times, any of its listed answers counts.

    What was found for its first occurrence is compared, and with the nearest of the listed answers: the first of them
    where several are as near.
    """
    _check(found, wanted)
    _check(sources, wanted)
    listed: dict[Hashable, list[Symbols]] = {}
    answers: dict[Hashable, Symbols] = {}
    for source, answer, truth in zip(sources, found, wanted, strict=True):
        answers.setdefault(source, answer)
        listed.setdefault(source, []).append(truth)
    nearest = [
        min(((edit_distance(answers[source], truth), len(truth)) for truth in truths), key=lambda pair: pair[0])
        for source, truths in listed.items()
    ]
    errors, symbols = np.array(nearest, dtype=np.int64).reshape(-1, 2).T
    return EditErrors(errors, symbols, errors > 0)


def _check(found: Sequence[object], wanted: Sequence[object]) -> None:
    if len(found) != len(wanted):
        raise ValueError(f"there are {len(found)} answers and {len(wanted)} that were wanted; as many are wanted")
