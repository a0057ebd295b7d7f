"""How translations are scored: text overlap, exact matches, errors, trees and programs; baselines."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from seqloom.data.readers.parallel import Pair
from seqloom.data.readers.text_files import DataError
from seqloom.data.text.words import split_lines
from seqloom.metrics import brackets, turtle
from seqloom.metrics import text as metrics
from seqloom.metrics.confidence import MetricSums, bootstrap, quantiles, ratio_of_sums
from seqloom.metrics.learning import constant_answer
from seqloom.metrics.rouge import NAMES as ROUGE
from seqloom.metrics.rouge import rouge_sums
from seqloom.models.baseline import Baseline, most_frequent, quote
from seqloom.models.generation import Candidate, format_nbest
from seqloom.tasks.translate.settings import TranslateSettings

BASELINE_EXAMPLES = 1000  # on which the better baseline is chosen


@dataclass(frozen=True, slots=True)
class Translation:
    """The best translation."""

    text: str
    score: float
    tokens: list[str]
    log_probabilities: list[float]  # one per token, and one for the end token if the hypothesis is finished
    nbest: list[Candidate]  # the n-best list, best first
    target_log_probabilities: list[float]  # of the reference tokens and the end under teacher forcing
    target_correct: list[bool]  # whether each of them was the most probable one; both are empty without a reference

    unknown: list[str] = field(default_factory=list)  # tokens of the source that the model does not know

    def __str__(self) -> str:
        return format_nbest(self.nbest) if len(self.nbest) > 1 else self.text


class TranslateScoring(TranslateSettings):
    """The part of the task translate that compares translations with their references."""

    def score(self, predictions: Sequence[Translation], examples: Sequence[Pair]) -> dict[str, Any]:
        """Error rates score a repeated source once, against its nearest target; BLEU and chrF score every pair."""
        references = self._references(examples)
        hypotheses = [answer.text for answer in predictions]
        errors = self._errors(hypotheses, examples)
        scores: dict[str, Any] = {}
        details: dict[str, Any] = {}
        if self._target_text.unit != "characters" or self.metric in ("bleu", "bleu_lower", "chrf"):
            for name, corpus in (
                ("bleu", metrics.bleu(hypotheses, references)),
                ("bleu_lower", metrics.bleu(hypotheses, references, lowercase=True)),
                ("chrf", metrics.chrf(hypotheses, references)),
            ):
                scores[name] = corpus.score
                details |= {f"{name}_interval": list(corpus.interval), f"{name}_signature": corpus.signature}
        for name, sums in self._chosen_sums(hypotheses, references).items():
            scores = {name: sums.whole, **scores}
            details[f"{name}_interval"] = list(quantiles(bootstrap(sums)))
        free = metrics.edit_errors(
            range(len(references)),
            [answer.tokens for answer in predictions],
            [self._target_tokenizer.tokens(text) for text in references],
        )
        values = [value for answer in predictions for value in answer.target_log_probabilities]
        correct = [hit for answer in predictions for hit in answer.target_correct[:-1]]
        forced_accuracy, free_accuracy = sum(correct) / max(len(correct), 1), 1 - free.token_error_rate
        return scores | {
            "exact_match": errors.exact_match,
            "token_error_rate": errors.token_error_rate,
            "loss": -math.fsum(values) / max(len(values), 1),
            "forced_accuracy": forced_accuracy,
            "free_accuracy": free_accuracy,
            "gap": round(forced_accuracy - free_accuracy, 12),  # 1 - (1 - x) is not always x
            "exact_match_interval": list(errors.exact_match_interval),
            "token_error_rate_interval": list(errors.token_error_interval),
            **details,
            "examples": len(references),
            "sources": len(errors.errors),
        }

    def _chosen_sums(self, hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, MetricSums]:
        """The metrics of summaries, trees or programs, if one of them is chosen; the main metric last."""
        chosen = self.main_metric
        if chosen == "bracket_f1":
            return {chosen: brackets.bracket_sums(hypotheses, references)}
        if chosen == "execution":
            return {chosen: turtle.execution_sums(hypotheses, references)}
        if chosen in ROUGE:
            names = [*(name for name in reversed(ROUGE) if name != chosen), chosen]
            return {name: rouge_sums(hypotheses, references, name) for name in names}
        return {}

    def check_targets(self, examples: Sequence[Pair]) -> None:
        """A metric of trees or programs needs targets that are some."""
        for example in examples:
            if example.target is None:
                continue
            if self.main_metric == "bracket_f1" and brackets.parse(example.target) is None:
                raise DataError(example.location, f'the metric "bracket_f1" needs trees, found {quote(example.target)}')
            if self.main_metric == "execution":
                try:
                    turtle.run(example.target)
                except turtle.ProgramError as error:
                    raise DataError(
                        example.location, f'the metric "execution" needs turtle programs: {error}'
                    ) from error

    def degenerate_predictions(self, predictions: Sequence[Translation], examples: Sequence[Pair]) -> str:
        text = constant_answer([answer.text for answer in predictions], [example.target for example in examples])
        return "" if text is None else f"Every translation is {quote(text)}"

    def baseline_targets(self, example: Pair) -> Iterable[str]:
        return () if example.target is None else (example.target,)

    def fit_baseline(self, counts: Counter[str], examples: Sequence[Pair]) -> Baseline | None:
        if not counts or self.main_metric == "loss":
            return None
        answer = most_frequent(counts)
        copying = Baseline(name="copy of the source", copies=True)
        constant = Baseline(name=f"most frequent target, {quote(answer)}", answer=answer)
        sign = 1 if self.higher_is_better else -1
        examples = examples[:BASELINE_EXAMPLES]
        if not examples:
            return copying
        return max(copying, constant, key=lambda each: sign * self.score_baseline(each, examples)[self.main_metric])

    def baseline_sums(self, baseline: Baseline, examples: Sequence[Pair]) -> MetricSums:
        hypotheses = [example.source if baseline.copies else baseline.answer for example in examples]
        if self._target_text.lowercase:
            hypotheses = [text.lower() for text in hypotheses]
        answers = [Translation(text, 0.0, [], [], [], [], []) for text in hypotheses]
        return self.metric_sums(answers, examples)

    def metric_sums(self, predictions: Sequence[Translation], examples: Sequence[Pair]) -> MetricSums:
        """For exact matches and errors there is one row per distinct source."""
        hypotheses, references = [answer.text for answer in predictions], self._references(examples)
        if chosen := self._chosen_sums(hypotheses, references):
            return chosen[self.main_metric]
        if self.main_metric == "chrf":
            return metrics.chrf(hypotheses, references).sums
        if self.main_metric.startswith("bleu"):
            return metrics.bleu(hypotheses, references, lowercase=self.main_metric == "bleu_lower").sums
        if self.main_metric == "loss":
            values = [answer.target_log_probabilities for answer in predictions]
            return ratio_of_sums([-math.fsum(row) for row in values], [len(row) for row in values])
        errors = self._errors(hypotheses, examples)
        if self.main_metric == "exact_match":
            return ratio_of_sums(~errors.wrong, np.ones(len(errors.wrong)))
        return ratio_of_sums(errors.errors, errors.tokens)

    def _references(self, examples: Sequence[Pair]) -> list[str]:
        references = []
        for example in examples:
            if example.target is None:
                raise self._missing_target(example, "evaluation")
            references.append(example.target.lower() if self._target_text.lowercase else example.target)
        return references

    def _errors(self, hypotheses: Sequence[str], examples: Sequence[Pair]) -> metrics.EditErrors:
        split: Callable[[str], Any] = list if self._target_text.unit == "characters" else str.split
        if self._target_text.unit == "words" and self._target_text.split == "lines":
            split = split_lines
        sources = [example.source for example in examples]
        return metrics.edit_errors(sources, [*map(split, hypotheses)], [*map(split, self._references(examples))])
