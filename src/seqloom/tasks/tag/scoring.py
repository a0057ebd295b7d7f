"""How tags are scored: pairs of true and predicted labels or numbers, and baselines."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from seqloom.data.readers import spans
from seqloom.data.readers.sentences import Sentence, TaggedSequence
from seqloom.metrics.confidence import MetricSums, ratio_of_sums
from seqloom.metrics.labels import compare_spans, f1, overlap_f1, overlap_rows
from seqloom.metrics.learning import constant_answer
from seqloom.models.baseline import Baseline
from seqloom.tasks.tag.inputs import input_words, lookup_form
from seqloom.tasks.tag.settings import Learned, TagSettings
from seqloom.tasks.targets import numbers
from seqloom.tasks.targets.numbers import NumberTargets, StepRegression
from seqloom.tasks.targets.tags import TagPrediction, known_and_unknown, score_tags, tag_baseline
from seqloom.tasks.task import require_fitted

OUTSIDE = "O"  # the label of words that belong to no span


class TagScoring(TagSettings):
    """The part of the task tag that compares labels and numbers with those of the data."""

    @property
    def main_metric(self) -> str:
        if self._numbers is not None:
            return numbers.MAIN_METRIC
        has_spans = self.learned is not None and self._has_spans
        if self.metric != "auto":
            if self.learned is not None and not has_spans and self.metric != "accuracy":
                raise ValueError(f'task.metric = "{self.metric}" needs labels of spans, such as B-x, I-x and O')
            return self.metric
        return "span_f1" if has_spans else "accuracy"

    @property
    def _numbers(self) -> NumberTargets | None:
        """What is done with numbers; None: the targets are labels."""
        scale = None if self.learned is None else self.learned.scale
        return None if scale is None else NumberTargets(scale, self.loss_function)

    @property
    def fitted(self) -> Learned:
        return require_fitted(self.learned)

    @property
    def _has_spans(self) -> bool:
        return spans.are_spans(self.fitted.labels.names)

    def score(self, predictions: Sequence[Any], examples: Sequence[TaggedSequence]) -> dict[str, Any]:
        if self._numbers is not None:
            pairs = self._pairs(predictions, examples)
            scores = self._numbers.score(pairs) | {"elements": sum(len(truth) for truth, _ in pairs)}
            last = numbers.last_value_r2(pairs)
            return scores if math.isnan(last) else scores | {"last_value_r2": last}
        for example, answer in zip(examples, predictions, strict=True):
            if example.labels is None:
                raise self._missing_target(example, "evaluation")
            self._check_length(len(answer.labels), example)
        reference = [example.labels or () for example in examples]
        predicted = [answer.labels for answer in predictions]
        scores = score_tags(reference, predicted, spans=self._has_spans, overlap=self.metric == "overlap_f1")
        learned = self.fitted
        details = {name: value for name, value in scores.items() if not isinstance(value, float)}
        scores = {name: value for name, value in scores.items() if name not in details}
        if learned.words is not None:
            seen = {word for word, times in zip(learned.words.tokens, learned.counts, strict=True) if times}
            known = [lookup_form(self, word) in seen for example in examples for word in getattr(example, "words", ())]
            scores |= known_and_unknown(reference, [answer.labels for answer in predictions], known)
        unseen = Counter(label for labels in reference for label in labels if label not in learned.labels)
        details |= {"not_in_train": dict(unseen.most_common())} if unseen else {}
        return {**scores, "elements": sum(map(len, reference)), "unseen_labels": unseen.total(), **details}

    def _check_length(self, length: int, example: TaggedSequence) -> None:
        if length != len(example):
            raise ValueError("the sequences were concatenated: tagging needs train.bptt_steps = 0")

    def _pairs(
        self, predictions: Sequence[StepRegression], examples: Sequence[TaggedSequence]
    ) -> list[tuple[numbers.Numbers, numbers.Numbers]]:
        """The true and the predicted numbers of each example, (T, K)."""
        pairs = []
        for answer, example in zip(predictions, examples, strict=True):
            if example.target is None:
                raise self._missing_target(example, "evaluation")
            self._check_length(len(answer), example)
            pairs.append((example.target, np.array(list(answer.values.values())).T))
        return pairs

    def metric_sums(self, predictions: Sequence[Any], examples: Sequence[TaggedSequence]) -> MetricSums:
        if self._numbers is not None:
            return self._numbers.metric_sums(self._pairs(predictions, examples))
        reference = [example.labels or () for example in examples]
        predicted = [answer.labels for answer in predictions]
        if self.main_metric == "overlap_f1":
            return MetricSums(overlap_rows(reference, predicted), overlap_f1)
        if self.main_metric == "span_f1":
            counts = np.stack(compare_spans(reference, predicted).sentences, axis=1)
            return MetricSums(counts.astype(np.float64), lambda sums: float(f1(*sums)))
        correct = [sum(map(str.__eq__, *pair)) for pair in zip(reference, predicted, strict=True)]
        return ratio_of_sums(correct, [len(labels) for labels in reference])

    def check_targets(self, examples: Sequence[TaggedSequence]) -> None:
        self.fitted.labels.check_known(
            [(example.location, label) for example in examples for label in example.labels or ()],
            outside=OUTSIDE if self._has_spans else "",
        )

    def describe_unseen(self, metrics: Mapping[str, Any]) -> str:
        return self.fitted.labels.describe_unseen(metrics.get("not_in_train") or metrics.get("per_label", {}))

    def label_pairs(self, prediction: Any, example: TaggedSequence) -> Sequence[tuple[str, str]]:
        if not isinstance(prediction, TagPrediction) or example.labels is None:
            return ()
        return list(zip(example.labels, prediction.labels, strict=True))

    def degenerate_predictions(self, predictions: Sequence[Any], examples: Sequence[TaggedSequence]) -> str:
        if self._numbers is not None:
            return self._numbers.degenerate(self._pairs(predictions, examples))
        label = constant_answer(
            [label for answer in predictions for label in answer.labels],
            [label for example in examples for label in example.labels or ()],
        )
        return "" if label is None else f"Every prediction is the label {label!r}"

    def baseline_targets(self, example: TaggedSequence) -> Iterable[tuple[str, Any]]:
        if example.target is not None:
            return numbers.counted_targets(example.target, input_words(example))
        words = example.words if isinstance(example, Sentence) else ("",) * len(example.labels or ())
        return zip(words, example.labels or (), strict=False)

    def fit_baseline(self, counts: Counter[Any], examples: Sequence[TaggedSequence]) -> Baseline | None:  # noqa: ARG002
        if self._numbers is not None:
            return self._numbers.fit_baseline(counts)
        return tag_baseline(counts, words=self.fitted.words is not None)

    def baseline_sums(self, baseline: Baseline, examples: Sequence[TaggedSequence]) -> MetricSums:
        if self._numbers is not None:
            return self._numbers.baseline_sums(baseline, *_numbers_and_words(examples))
        return self.metric_sums(_baseline_answers(baseline, examples), examples)

    def score_baseline(self, baseline: Baseline, examples: Sequence[TaggedSequence]) -> dict[str, float]:
        if self._numbers is not None:
            return self._numbers.score_baseline(baseline, *_numbers_and_words(examples))
        scores = self.score(_baseline_answers(baseline, examples), examples)
        return {name: scores[name] for name in (self.main_metric, "accuracy")}


def _numbers_and_words(examples: Sequence[TaggedSequence]) -> tuple[list[numbers.Numbers], list[Sequence[str]]]:
    """The true numbers of each example that has some, and its words."""
    known = [example for example in examples if example.target is not None]
    return [example.target for example in known if example.target is not None], list(map(input_words, known))


def _baseline_answers(baseline: Baseline, examples: Sequence[TaggedSequence]) -> list[TagPrediction]:
    answers = []
    for example in examples:
        words = example.words if isinstance(example, Sentence) else ("",) * len(example.labels or ())
        answers.append(TagPrediction([], [baseline.answers.get(word, baseline.answer) for word in words], []))
    return answers
