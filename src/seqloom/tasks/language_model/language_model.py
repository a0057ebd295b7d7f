"""Language modelling: the probability of the next token and of whole texts, text generation, hidden tokens."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import nn

from seqloom.data.batch import Batch
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.length_limit import TooLong
from seqloom.data.readers.text_files import DataError, resolve
from seqloom.data.readers.text_tables import detect_column, texts
from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import END, MASK, PAD, UNKNOWN, Vocabulary, vocabulary_from_counts
from seqloom.decoding.tokens.sample import Sample
from seqloom.insight.explanation import Explanation
from seqloom.insight.gates import LabelledTrace
from seqloom.insight.word_contexts import compare_contexts
from seqloom.layers.layer import Memory
from seqloom.layers.softmax_loss import sampled_cross_entropy
from seqloom.metrics.confidence import MetricSums
from seqloom.models.baseline import Baseline
from seqloom.models.ensemble import LanguageModelEnsemble
from seqloom.models.generation import GeneratedToken
from seqloom.models.ngram.arpa import ArpaVocabulary, from_arpa_words, read_words
from seqloom.models.pretrained.contextual import ContextualVectors
from seqloom.models.text_scores import TextScore, perplexity
from seqloom.tasks.language_model.causal import Bidirectional, Causal
from seqloom.tasks.language_model.masked import Masked
from seqloom.tasks.language_model.objective import Objective
from seqloom.tasks.language_model.settings import LanguageModelSettings, Learned, TextLine, default_unit
from seqloom.tasks.task import Loss, Predictions, Task

if TYPE_CHECKING:
    from seqloom.onnx.exported import OnnxModel
    from seqloom.standalone.interface import StandaloneModel

COMPARED_AT_ONCE = 64  # texts in a batch when words are compared
MAX_UNIGRAM_TOKENS = 1_000_000
"""Tokens that the baseline counts."""


class LanguageModel(LanguageModelSettings):
    """Predict the next character, word or subword of a text, or hidden ones."""

    @property
    def _objective(self) -> Objective:
        if self.objective == "masked":
            return Masked(self)
        return Bidirectional(self) if self.direction == "both" else Causal(self)

    @property
    def no_bptt_reason(self) -> str:
        return self._objective.no_bptt_reason

    @property
    def is_counting_model(self) -> bool:
        return self.model == "ngram"

    @property
    def main_metric(self) -> str:
        return "perplexity"

    def resolve(self, source: Path | Sequence[Any]) -> tuple[Self, tuple[str, ...]]:
        if self.arpa:
            return self, ()
        settings, notes = detect_column(source, column=self.text_column, encoding=self.encoding)
        task = self.model_copy(update=settings)
        return task, (*notes, *task.describe_default_tokens(source))

    def describe_default_tokens(self, source: Path | Sequence[Any]) -> list[str]:
        """A note on what the tokens are, and why, if that is the default."""
        needs_words = self.model == "ngram" or self.direction == "both" or self.objective == "masked"
        unit, reason = default_unit(self.preview(source), needs_words=needs_words)
        if self.text.unit != unit:
            return []
        other = "words" if unit == "characters" else "characters"
        return [f"the tokens are {unit}, the default for {reason}; task.text.unit={other} changes that"]

    def read(self, source: Path | Sequence[Any]) -> Iterator[TextLine]:
        for location, text in texts(source, column=self.text_column, encoding=self.encoding):
            yield TextLine(location, text, self._count_tokens(text))

    def _count_tokens(self, text: str) -> int:
        """The approximate number of tokens."""
        return max(self.text.measure(text), 1) if self._wordwise else len(text) + 1

    @property
    def length_unit(self) -> str:
        return "tokens"

    @property
    def _wordwise(self) -> bool:
        return self.text.unit != "characters"

    def shorten(self, example: TextLine, length: int, action: TooLong) -> Iterator[TextLine]:
        parts = self.text.cut(example.text, length if self._wordwise else max(length - 1, 1))
        for part in islice(parts, 1) if action == "truncate" else parts:
            yield replace(example, text=part, tokens=self._count_tokens(part))

    def fit(self, examples: Iterable[TextLine]) -> Self:
        if self.arpa:
            return self.model_copy(update={"learned": Learned(text=self._arpa_tokenizer(resolve(self.arpa)))})
        counts: Counter[str] | None = Counter() if self.characters.layers else None
        specials = self._objective.specials
        hidden = MASK if MASK in specials else ""
        tokenizer = self.text.fit(_texts(examples, counts, hidden=hidden), specials=specials)
        if len(tokenizer.vocabulary) <= 2 + len(specials):
            raise DataError(self.train, "found no text to train on")
        characters = None if counts is None else vocabulary_from_counts(counts, size=1 << 15, specials=specials)
        return self.model_copy(update={"learned": Learned(text=tokenizer, characters=characters)})

    def input_text(self, example: TextLine) -> str:
        return example.text

    def with_predicted_target(self, example: TextLine, prediction: Any) -> TextLine:  # noqa: ARG002
        """A text is its own target."""
        return example

    def input_warning(self, example: TextLine) -> str:
        return self._objective.input_warning(example.text)

    def unknown_words(self, example: TextLine) -> list[str]:
        return self.tokenizer.unknown_tokens(example.text.replace(MASK, " "))

    @property
    def reads_unknown_by(self) -> str:
        return "letters" if self.fitted.characters is not None else ""

    def is_empty_input(self, example: TextLine) -> bool:
        return self._objective.is_empty_input(example.text)

    def summarize_example(self, example: TextLine) -> ExampleSummary:
        return ExampleSummary(content=example.text.encode())

    def _arpa_tokenizer(self, path: Path) -> Tokenizer:
        """A tokenizer with the vocabulary of an ARPA file."""
        words = list(ArpaVocabulary.from_words(read_words(path)).names[3:])
        if self.text.unit == "characters":
            words = from_arpa_words(words)
            if long := [word for word in words if len(word) > 1]:
                raise DataError(str(path), f"found {long[0]!r}, expected single characters (task.text.unit)")
        if PAD in words:
            raise DataError(str(path), f"contains the word {PAD}, which is reserved: rename it")
        vocabulary = Vocabulary(tokens=(PAD, UNKNOWN, END, *words))
        return Tokenizer(unit=self.text.unit, lowercase=self.text.lowercase, vocabulary=vocabulary, specials=(END,))

    def collate(self, examples: Sequence[TextLine]) -> Batch:
        return self._objective.collate(examples)

    def build_model(self) -> nn.Module:
        self.fitted  # noqa: B018  raises ValueError before the task is fitted
        return self._objective.build_model()

    def loss(self, model: Any, batch: Batch) -> Loss:
        features, target, state = model.softmax_inputs(batch)
        if self.sampled_softmax and model.training:
            weight, bias = model.output.weight, model.output.bias
            total = sampled_cross_entropy(
                features, weight, bias, target, samples=self.sampled_softmax, smoothing=self.label_smoothing
            )
        else:
            total = model.loss(features, target, smoothing=self.label_smoothing)
        return Loss(total, batch.items, state)

    def predict(self, model: Any, batch: Batch) -> Predictions:
        return self._objective.predict(model, batch)

    def ensemble_conflict(self, other: Task) -> str:
        if isinstance(other, LanguageModel) and (other.objective, other.direction) != (self.objective, self.direction):
            return "differ in task.objective or task.direction"
        return super().ensemble_conflict(other)

    def ensemble(self, models: Sequence[nn.Module]) -> LanguageModelEnsemble:
        if (self.objective, self.direction) != ("causal", "forward"):
            raise TypeError(
                "this language model cannot be part of an ensemble: it does not only predict the next token"
            )
        return LanguageModelEnsemble(models)

    def for_prediction(self) -> Self:
        """A masked model fills each [MASK] and scores whole texts; its evaluation in training hides some tokens."""
        return self.model_copy(update={"fills_masks": True}) if self.objective == "masked" else self

    @property
    def custom_layer_field(self) -> str:
        if self.objective == "masked":
            return "encoder"
        return "decoder" if self.model == "neural" else ""

    @property
    def example_prompt(self) -> str | None:
        return "" if (self.objective, self.direction) == ("causal", "forward") else None

    def describe_prompt(self, prompt: str) -> str:
        return self.tokenizer.describe_prompt(prompt)

    def generate(
        self, model: nn.Module, prompt: str, *, length: int, sample: Sample, alternatives: int = 0
    ) -> Iterator[GeneratedToken]:
        return self._objective.generate(model, prompt, length=length, sample=sample, alternatives=alternatives)

    def export(self, model: Any, path: Path) -> None:
        """Write an n-gram model as an ARPA file."""
        if self.model != "ngram":
            raise ValueError(f"{path}: only n-gram models are exported in this format; this one is exported as .onnx")
        if not path.name.endswith((".arpa", ".arpa.gz")):
            raise ValueError(f"{path}: an n-gram model is exported as .arpa or .arpa.gz")
        model.write(path)

    def onnx_model(self, model: Any) -> "OnnxModel":
        """The decoder, which scores texts and generates them token by token."""
        return self._objective.onnx_model(model)

    def standalone_model(self, model: Any) -> "StandaloneModel":
        """The decoder as a function, which scores texts and generates them token by token."""
        return self._objective.standalone_model(model)

    def encode(self, model: Any, batch: Batch) -> Memory:
        """The highest layer, without the boundary token before a text."""
        values, mask = self._objective.top_layer(model, batch)
        return Memory(values[:, 1:], mask[:, 1:], None) if values.shape[1] > 1 else Memory(values, mask & False, None)

    def embed(self, model: Any, batch: Batch) -> list[ContextualVectors]:
        return self._objective.embed(model, batch)

    def score(self, predictions: Sequence[TextScore], examples: Sequence[TextLine]) -> dict[str, Any]:
        total = -math.fsum(answer.log_probability for answer in predictions)
        tokens = sum(len(answer.log_probabilities) for answer in predictions)
        unknown = self.tokenizer.vocabulary.index(UNKNOWN)
        return {
            "perplexity": perplexity(total, tokens),
            "loss": total / max(tokens, 1),
            **self._objective.direction_scores(predictions),
            **self._objective.text_scores(total, examples),
            "tokens": tokens,
            "unknown": sum(self._objective.scored_tokens(example).count(unknown) for example in examples),
        }

    def thorough_scores(
        self, examples: Sequence[TextLine], *, predict: Callable[[Sequence[Any]], list[Any]]
    ) -> dict[str, float]:
        """The pseudo-perplexity of a masked model: each token given all others."""
        if self.objective != "masked":
            return {}
        scores = [answer for answer in predict(examples) if isinstance(answer, TextScore)]
        total = -math.fsum(answer.log_probability for answer in scores)
        return {"pseudo_perplexity": perplexity(total, sum(len(answer.log_probabilities) for answer in scores))}

    def baseline_targets(self, example: TextLine) -> Iterable[str]:
        return (example.text,)

    def fit_baseline(self, counts: Counter[str], examples: Sequence[TextLine]) -> Baseline | None:  # noqa: ARG002
        """Unigram frequencies of the first million tokens, with one added to each."""
        tokens: Counter[int] = Counter()
        for text, times in counts.items():
            if tokens.total() > MAX_UNIGRAM_TOKENS:
                break
            for token in self._objective.tokens(text):
                tokens[token] += times
        if not tokens:
            return None
        names, total = self.tokenizer.vocabulary.tokens, tokens.total() + len(self.tokenizer.vocabulary)
        probabilities = {names[token]: (times + 1) / total for token, times in tokens.items()}
        return Baseline(name="unigram frequencies", probabilities={**probabilities, "": 1 / total})

    def baseline_sums(self, baseline: Baseline, examples: Sequence[TextLine]) -> MetricSums:
        vocabulary, rest = self.tokenizer.vocabulary, baseline.probabilities[""]
        logs = np.log([baseline.probabilities.get(token, rest) for token in vocabulary.tokens])
        return _loss_sums([logs[self._objective.scored_tokens(example)] for example in examples])

    def score_baseline(self, baseline: Baseline, examples: Sequence[TextLine]) -> dict[str, float]:
        total, tokens = self.baseline_sums(baseline, examples).rows.sum(axis=0).tolist()
        scores = {"perplexity": perplexity(total, tokens), "loss": total / max(tokens, 1)}
        return scores | self._objective.text_scores(total, examples)

    def metric_sums(self, predictions: Sequence[TextScore], examples: Sequence[TextLine]) -> MetricSums:
        """Negative log-probability and number of tokens of each line, also if lines were concatenated."""
        values = np.concatenate([np.array(answer.token_log_probabilities) for answer in predictions])
        lengths = np.array([len(self._objective.scored_tokens(example)) for example in examples])
        return _loss_sums(np.split(values, np.cumsum(lengths)[:-1]))

    def input_tokens(self, example: TextLine) -> list[str]:
        return self._objective.input_tokens(example)

    def trace_gates(self, model: nn.Module, example: TextLine) -> list[LabelledTrace]:
        return self._objective.trace_gates(model, example)

    def explain(self, model: nn.Module, example: TextLine, *, beam: bool = False, heads: bool = False) -> Explanation:  # noqa: ARG002
        """The surprisal of each token or the fillers of each [MASK], and the self-attention of Transformers."""
        return self._objective.explain(model, example, heads=heads)

    def explain_together(self, model: nn.Module, examples: Sequence[TextLine]) -> Explanation | None:
        """If there are contextual word vectors: how similar those of a word are in different contexts."""
        if self.direction != "both" and self.objective != "masked":
            return None
        remaining, texts = iter(examples), []
        while batch := list(islice(remaining, COMPARED_AT_ONCE)):
            texts += self.embed(model, self.collate(batch))
        pairs = compare_contexts(texts)
        if not pairs and len(examples) == 1:
            return None
        headline = "Words that occur more than once: cosine similarity of their vectors, layer by layer"
        note = "no word occurs twice: give several texts that share a word to compare its vectors"
        return Explanation(
            task=self.name,
            source=" | ".join(example.text for example in examples),
            prediction="",
            headline=headline if pairs else "",
            contexts=pairs,
            notes=[] if pairs else [note],
        )


def _texts(examples: Iterable[TextLine], characters: Counter[str] | None, *, hidden: str) -> Iterator[str]:
    """Yield the texts without the token ``hidden``; count their characters on the way, except whitespace."""
    for example in examples:
        text = example.text.replace(hidden, " ") if hidden else example.text
        if characters is not None:
            characters.update("".join(text.split()))
        yield text


def _loss_sums(log_probabilities: Sequence[NDArray[np.float64]]) -> MetricSums:
    """The perplexity by the negative log-probability and the number of tokens of each line."""
    rows = [(-row.sum(), len(row)) for row in log_probabilities]
    return MetricSums(np.array(rows, np.float64).reshape(-1, 2), lambda sums: perplexity(*sums.tolist()))
