"""How transcripts are scored: their errors in the units of the metric, and baselines."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from seqloom.data.readers.recordings import Recording
from seqloom.metrics import transcripts as metrics
from seqloom.metrics.confidence import MetricSums
from seqloom.metrics.learning import Remedies, constant_answer
from seqloom.models.baseline import Baseline, most_frequent, quote
from seqloom.models.transcription.spelling import Spelling
from seqloom.models.transcription.transcripts import Transcription
from seqloom.tasks.task import require_fitted
from seqloom.tasks.transcribe.settings import Learned, TranscribeSettings


class TranscribeScoring(TranscribeSettings):
    """The part of the task transcribe that compares transcripts with their references."""

    @property
    def fitted(self) -> Learned:
        return require_fitted(self.learned)

    @cached_property
    def _spelling(self) -> Spelling:
        return Spelling(self.lexicon if self.spelling == "lexicon" else "", self.encoding)

    def score(self, predictions: Sequence[Transcription], examples: Sequence[Recording]) -> dict[str, Any]:
        """Error rates over all examples; the loss over the feasible ones."""
        return self._compare(predictions, examples).score(self.error_rates)

    def metric_sums(self, predictions: Sequence[Transcription], examples: Sequence[Recording]) -> MetricSums:
        return self._compare(predictions, examples).sums(self.main_metric, self.error_rates)

    def _compare(self, predictions: Sequence[Transcription], examples: Sequence[Recording]) -> metrics.Transcripts:
        for example in examples:
            if example.text is None:
                raise self._missing_target(example, "evaluation")
        texts = [example.text or "" for example in examples]
        return metrics.Transcripts(
            names=[example.name or str(example.location) for example in examples],
            hypotheses=[answer.text for answer in predictions],
            references=[text.lower() if self.text.lowercase else text for text in texts],
            hypothesis_tokens=[answer.tokens for answer in predictions],
            reference_tokens=[self.fitted.text.tokens(self._spelling.spell(text)) for text in texts],
            losses=[answer.loss for answer in predictions],
        )

    def degenerate_predictions(self, predictions: Sequence[Transcription], examples: Sequence[Recording]) -> str:
        text = constant_answer([answer.text for answer in predictions], [example.text for example in examples])
        if text == "":
            reason = ", because CTC predicts only the blank" if self.model == "ctc" else ""
            return f"Every transcript is empty{reason}"
        return "" if text is None else f"Every transcript is {quote(text)}"

    def degenerate_remedy(self, remedies: Remedies) -> str:
        longer = "" if remedies.overfitting else f"{remedies.train_longer} or "
        return f"raise {longer}train.learning_rate, or lower train.batch_size, which gives more updates"

    def baseline_targets(self, example: Recording) -> Iterable[str]:
        return () if example.text is None else (example.text,)

    def fit_baseline(self, counts: Counter[str], examples: Sequence[Recording]) -> Baseline | None:
        if not counts or self.main_metric == "loss":
            return None
        answer = most_frequent(counts)
        empty = Baseline(name="empty transcript")
        if not examples:
            return empty
        constant = Baseline(name=f"most frequent transcript, {quote(answer)}", answer=answer)
        sign = 1 if self.higher_is_better else -1
        return max(empty, constant, key=lambda each: sign * self.score_baseline(each, examples)[self.main_metric])

    def baseline_sums(self, baseline: Baseline, examples: Sequence[Recording]) -> MetricSums:
        text = baseline.answer.lower() if self.text.lowercase else baseline.answer
        tokens = self.fitted.text.tokens(self._spelling.spell(text))
        answer = Transcription(text, 0.0, 0.0, 0.0, tokens, [], [], [], [], "", None)
        return self.metric_sums([answer] * len(examples), examples)
