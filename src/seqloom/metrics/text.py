"""Metrics of generated texts: BLEU and chrF by sacrebleu, error rates by edit distance."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.metrics.confidence import MetricSums, bootstrap_ratio, quantiles, resample, wilson_interval

Tokens = Sequence[Hashable]  # characters, words, phones


class CorpusScore(NamedTuple):
    """A score of sacrebleu, from 0 to 100."""

    score: float
    interval: tuple[float, float]  # 95 % confidence interval, bootstrapped over sentences
    signature: str  # of sacrebleu: version, tokenizer, case
    sums: MetricSums


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    others: Sequence[Sequence[str | None]] = (),  # further references, each for all sentences; None: no reference
    order: int = 4,  # longest n-grams
    lowercase: bool = False,
    tokenize: Literal["13a", "intl", "char", "none"] = "13a",  # none: tokens are separated by spaces already
) -> CorpusScore:
    """BLEU (Papineni et al. 2002) on raw texts, as recommended by Post 2018."""
    from sacrebleu.metrics.bleu import BLEU

    class Counted(_Sums, BLEU):
        pass

    # force: no warning that the texts look tokenized
    metric = Counted(lowercase=lowercase, tokenize=tokenize, max_ngram_order=order, force=True)
    return _corpus(metric, hypotheses, [references, *others])


def chrf(hypotheses: Sequence[str], references: Sequence[str], *, others: Sequence[Sequence[str]] = ()) -> CorpusScore:
    """chrF2 (Popović 2015): F-score of character n-grams up to 6, recall counting twice."""
    from sacrebleu.metrics.chrf import CHRF

    class Counted(_Sums, CHRF):
        pass

    return _corpus(Counted(), hypotheses, [references, *others])


class _Sums:
    """Access to the sums over sentences from which both scores are computed."""

    def statistics(
        self: Any, hypotheses: Sequence[str], references: Sequence[Sequence[str | None]]
    ) -> NDArray[np.int64]:  # (N, S)
        return np.array(self._extract_corpus_statistics(hypotheses, references), dtype=np.int64)

    def compute(self: Any, sums: NDArray[Any]) -> float:  # (S,)
        return float(self._compute_score_from_stats(sums.astype(np.int64).tolist()).score)


def _corpus(metric: Any, hypotheses: Sequence[str], references: Sequence[Sequence[str | None]]) -> CorpusScore:
    for side in references:
        _check(hypotheses, side)
    if not hypotheses:
        raise ValueError("cannot compute a score: there are no hypotheses")
    statistics = metric.statistics(hypotheses, references)
    scores = [metric.compute(sums) for sums in resample(statistics)]
    sums = MetricSums(statistics.astype(np.float64), metric.compute)
    return CorpusScore(sums.whole, quantiles(scores), str(metric.get_signature()), sums)


def edit_distance(hypothesis: Tokens, reference: Tokens) -> int:
    """The smallest number of insertions, deletions and substitutions (Levenshtein 1966)."""
    from rapidfuzz.distance import Levenshtein

    return int(Levenshtein.distance(hypothesis, reference))


def edit_distances(hypotheses: Sequence[Tokens], references: Sequence[Tokens]) -> NDArray[np.int64]:  # (N, R)
    """The edit distance of each hypothesis to each reference."""
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    distances: NDArray[np.int64] = process.cdist(hypotheses, references, scorer=Levenshtein.distance, dtype=np.int64)
    return distances


@dataclass(frozen=True)
class EditErrors:
    """Errors of hypotheses, one entry per distinct source: (N,)."""

    errors: NDArray[np.int64]  # edit distance to the nearest reference
    tokens: NDArray[np.int64]  # tokens of that reference
    wrong: NDArray[np.bool_]  # whether the hypothesis equals no reference

    @property
    def token_error_rate(self) -> float:
        """Errors per reference token: for phones the PER, for words the WER of speech recognition."""
        return float(self.errors.sum() / max(int(self.tokens.sum()), 1))

    @property
    def token_error_interval(self) -> tuple[float, float]:
        return bootstrap_ratio(self.errors, self.tokens)

    @property
    def sequence_error_rate(self) -> float:
        """The fraction of sources whose hypothesis is wrong: for pronunciations the WER."""
        return float(self.wrong.mean()) if len(self.wrong) else 0.0

    @property
    def exact_match(self) -> float:
        return 1 - self.sequence_error_rate

    @property
    def exact_match_interval(self) -> tuple[float, float]:
        return wilson_interval(int((~self.wrong).sum()), len(self.wrong))


def edit_errors(sources: Sequence[Hashable], hypotheses: Sequence[Tokens], references: Sequence[Tokens]) -> EditErrors:
    """Compare each hypothesis with the nearest reference of its source.

    A source that occurs several times has several references and counts once, with the hypothesis of its first
    occurrence. Among equally near references the first one counts.
    """
    _check(hypotheses, references)
    _check(sources, references)
    by_source: dict[Hashable, list[Tokens]] = {}
    first: dict[Hashable, Tokens] = {}
    for source, hypothesis, reference in zip(sources, hypotheses, references, strict=True):
        first.setdefault(source, hypothesis)
        by_source.setdefault(source, []).append(reference)
    nearest = [
        min(((edit_distance(first[source], text), len(text)) for text in texts), key=lambda pair: pair[0])
        for source, texts in by_source.items()
    ]
    errors, tokens = np.array(nearest, dtype=np.int64).reshape(-1, 2).T
    return EditErrors(errors, tokens, errors > 0)


def _check(hypotheses: Sequence[object], references: Sequence[object]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(f"expected {len(references)} hypotheses, one per reference, found {len(hypotheses)}")
