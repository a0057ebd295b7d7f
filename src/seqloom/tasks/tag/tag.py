"""Tagging: a label, or numbers, for each word of a sentence, or for each frame of a sequence of vectors."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from torch import Tensor, nn

from seqloom.data.batch import Batch, pad
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.length_limit import TooLong
from seqloom.data.readers import spans
from seqloom.data.readers.sentences import Sentence, TaggedSequence
from seqloom.data.readers.tagged_parts import cut_sequence
from seqloom.data.readers.text_files import DataError
from seqloom.data.target_scale import TargetStatistics
from seqloom.data.text.vocabulary import Labels, labels_problem
from seqloom.insight.attention_maps import all_heads, mean_of_heads, self_attention
from seqloom.insight.attribution import Attribution, attribute
from seqloom.insight.explanation import Explanation, LabelChoice
from seqloom.layers.layer import Memory
from seqloom.metrics.confidence import MetricSums
from seqloom.models.crf import CRF, allowed_transitions, is_allowed
from seqloom.models.encoder import Encoder, build_stack
from seqloom.models.ensemble import TaggerEnsemble
from seqloom.models.hmm import HMM, shorten
from seqloom.models.step_regressor import StepRegressor
from seqloom.models.tagger import SoftmaxOutput, Tagger
from seqloom.tasks.tag.calibration import find_shift
from seqloom.tasks.tag.inputs import (
    FrameStatistics,
    build_embedding,
    checked_features,
    collate_frames,
    collate_words,
    find_word,
    fit_words,
    frame_values,
    input_words,
    is_video,
    lookup_form,
    swap_problem,
)
from seqloom.tasks.tag.reading import build_input_reader, build_reader, detect_settings
from seqloom.tasks.tag.scoring import OUTSIDE, TagScoring
from seqloom.tasks.tag.settings import Learned
from seqloom.tasks.targets.numbers import StepRegression
from seqloom.tasks.targets.tags import TagPrediction, tag_prediction
from seqloom.tasks.task import Calibration, Loss, Predictions, Task

if TYPE_CHECKING:
    from seqloom.onnx.exported import OnnxModel
    from seqloom.standalone.interface import StandaloneModel

PLOTTED = 100  # development examples of which the longest is plotted
NO_LABEL = -1  # padding, and sequences without a loss


class Tag(TagScoring):
    """Assign a label, or numbers, to each word or frame of a sequence."""

    @property
    def no_bptt_reason(self) -> str:
        return "the language model of task.pretrained.run reads whole sentences" if self.pretrained.run else ""

    @property
    def is_counting_model(self) -> bool:
        return self.model == "hmm"

    def read(self, source: Path | Sequence[Any]) -> Iterator[TaggedSequence]:
        return build_reader(self).read(source)

    def read_inputs(self, source: Path | Sequence[Any]) -> Iterator[TaggedSequence]:
        return build_input_reader(self, source)[0].read(source)

    def listed_files(self, source: Path) -> list[Path]:
        return build_reader(self).listed_files(source)

    def input_note(self, source: Path | Sequence[Any]) -> str:
        return build_input_reader(self, source)[1]

    def single_example_advice(self, source: Path | Sequence[Any]) -> str:
        return build_reader(self).single_sequence_advice(source)

    def resolve(self, source: Path | Sequence[Any]) -> tuple[Self, tuple[str, ...]]:
        settings, notes = detect_settings(self, source)
        return self.model_copy(update=settings), notes

    def fit(self, examples: Iterable[TaggedSequence]) -> Self:
        pairs: Counter[tuple[str, str]] = Counter()
        words: Counter[str] = Counter()
        features = [Counter[str]() for _ in self.feature_columns]
        frames, targets = FrameStatistics(), TargetStatistics()
        for example in examples:
            if example.labels is None and example.target is None:
                raise self._missing_target(example, "training")
            if pairs if example.target is not None else targets.moments.count:
                raise DataError(example.location, "found both labels and numbers; set task.target_type")
            if example.target is not None:
                targets.add(example.location, example.target)
            elif "" in (example.labels or ()):
                raise DataError(example.location, "empty label")
            else:
                pairs.update(pairwise(("", *(example.labels or ()), "")))
            if isinstance(example, Sentence):
                words.update(example.words)
                for counter, values in zip(features, checked_features(self, example), strict=True):
                    counter.update(values)
            else:
                frames.add(example)
        labels = Labels.of(label for pair in pairs for label in pair if label)
        if not labels.names and not targets.moments.count:
            raise self._no_examples()
        counts = Counter({label: sum(pairs[pair] for pair in pairs if pair[1] == label) for label in labels.names})
        problem = labels_problem(counts, noun="word" if words else "frame") or swap_problem(counts, words)
        if self.check_labels and problem:
            raise DataError(
                self.train,
                f"{problem}; is task.label_column right? task.check_labels = false trains nevertheless",
            )
        if words and frames.moments.count:
            raise DataError(self.train, "found both words and vectors; expected one of them")
        common: dict[str, Any] = {
            "labels": labels,
            "pairs": tuple(sorted(pairs)) if spans.are_spans(labels.names) else (),
        }
        if targets.moments.count:
            if self.model == "hmm":
                raise DataError(self.train, 'the targets are numbers; task.model = "hmm" predicts labels')
            common["scale"] = targets.checked_scale(self.label_column, file=self.train, check=self.check_labels)
        if not words and self.pretrained:
            raise DataError(self.train, "found vectors; task.pretrained works with words only")
        learned = fit_words(self, common, words, features) if words else Learned(**common, **frames.learned())
        kind = "number" if learned.scale is not None else "class"
        return self.model_copy(update={"learned": learned, "target_type": kind})

    @property
    def length_unit(self) -> str:
        return "steps" if self.fitted.words is None else "words"

    def predicted_steps(self, example: TaggedSequence) -> list[str]:
        """What the elements of an example are called: words, times of sound, or numbers from 1."""
        if isinstance(example, Sentence):
            return list(example.words)
        if example.step_seconds:
            return [f"{number * example.step_seconds:.2f} s" for number in range(len(example))]
        return [str(number) for number in range(1, len(example) + 1)]

    def summarize_example(self, example: TaggedSequence) -> ExampleSummary:
        if example.target is not None:
            return ExampleSummary(
                content="\t".join(example.words).encode()
                if isinstance(example, Sentence)
                else example.values.tobytes(),
                target=str(example.target.tolist()),
                values=None if isinstance(example, Sentence) else example.values,
                targets=example.target,
                missing=() if isinstance(example, Sentence) else example.missing,
            )
        if isinstance(example, Sentence):
            return ExampleSummary(
                content="\t".join(example.words).encode(),
                target="\t".join(example.labels or ()),
                labelled=example.labels is not None,
                labels=example.labels or (),
                label_lines=example.lines,
                invalid_labels=(
                    (example.at(word), reason) for word, reason in spans.invalid_transitions(example.labels or ())
                ),
            )
        labels = (example.label,) if example.labels is None and example.label is not None else example.labels
        return ExampleSummary(
            content=example.values.tobytes(),
            target="\t".join(labels or ()),
            labelled=labels is not None,
            labels=labels or (),
            values=example.values,
            missing=example.missing,
        )

    def shorten(self, example: TaggedSequence, length: int, action: TooLong) -> Iterator[TaggedSequence]:
        parts = cut_sequence(example, length)
        return islice(parts, 1) if action == "truncate" else parts

    def collate(self, examples: Sequence[TaggedSequence]) -> Batch:
        learned = self.fitted
        inputs = (
            collate_words(self, learned, examples) if learned.words is not None else collate_frames(learned, examples)
        )
        target, items = None, 0
        if self._numbers is not None:
            rows = self._numbers.collate([example.target for example in examples])
            target = None if rows is None else pad(rows, dtype=np.float32).values
            return Batch(inputs, target, int(inputs.mask.sum()), examples=tuple(examples))
        if all(example.labels is not None for example in examples):
            ids = learned.labels.ids
            known = [[ids.get(label, NO_LABEL) for label in example.labels or ()] for example in examples]
            # A sequence with a label unseen in training counts in the scores but has no loss.
            known = [[NO_LABEL] * len(row) if NO_LABEL in row else row for row in known]
            target = pad(known, fill=NO_LABEL, dtype=np.int64).values
            items = int((target >= 0).sum())
        return Batch(inputs, target, items, examples=tuple(examples))

    def build_model(self) -> nn.Module:
        learned, labels = self.fitted, len(self.fitted.labels)
        if self.model == "hmm":
            if learned.words is None or learned.suffixes is None:
                raise ValueError('task.model is "hmm", which needs words, but the data are vectors')
            shorter = [learned.suffixes.index(shorten(suffix)) for suffix in learned.suffixes.tokens]
            return HMM(len(learned.words), labels, parents=shorter, collate=self.collate)
        embed, size = build_embedding(self, learned)
        layer = build_stack(self.prenet, self.encoder, size, causal=not self.encoder.bidirectional)
        dropout, variational = self.encoder.dropout, self.encoder.variational_dropout
        encoder = Encoder(embed, layer, dropout=dropout, variational=variational)
        if learned.scale is not None:
            return StepRegressor(encoder, len(learned.scale))
        return Tagger(encoder, labels, self._output())

    def _output(self) -> CRF | SoftmaxOutput:
        names = self.fitted.labels.names
        if self.output == "linear":
            return SoftmaxOutput(smoothing=self.label_smoothing)
        if self.crf_constraints == "never" or not self._has_spans:
            return CRF(len(names))
        allowed = allowed_transitions(names)
        well_formed = is_allowed(allowed, names, self.fitted.pairs)
        return CRF(len(names), allowed=allowed if well_formed else None, strict=self.crf_constraints == "always")

    def loss(self, model: Any, batch: Batch) -> Loss:
        if self._numbers is not None:
            self._require_target(batch)
            outputs, state = model(batch.inputs, batch.state)
            mask = batch.inputs.mask
            return Loss(self._numbers.loss(outputs[mask], batch.target[mask]), batch.items, self._carried(state))
        emissions, state = model(batch.inputs, batch.state)
        labelled = batch.inputs.mask & (batch.target >= 0)
        return Loss(model.loss(emissions, labelled, batch.target), batch.items, self._carried(state))

    @property
    def is_calibrated(self) -> bool:
        has_labels = self.model == "neural" and self.learned is not None and self.learned.scale is None
        return self.calibrate and has_labels and self._has_spans and OUTSIDE in self.fitted.labels

    def calibrate_to(
        self, model: nn.Module, examples: Sequence[TaggedSequence], *, predict: Callable[[], list[Any]]
    ) -> Calibration:
        """Raise or lower the score of O, so that as many spans are predicted as is best for their F1."""
        biases: Tensor = cast(Tagger, model).linear.bias.data
        outside = self.fitted.labels.index(OUTSIDE, location="labels")
        trained = float(biases[outside])

        def evaluate(shift: float) -> MetricSums:
            biases[outside] = trained - shift
            return self.metric_sums(predict(), examples)

        shift = find_shift(evaluate)
        biases[outside] = trained - (shift.size if shift else 0.0)
        return Calibration(str(shift) if shift else "")

    def _carried(self, state: Any) -> Any:
        """The state for a batch that continues this one; a bidirectional encoder has none."""
        return None if self.encoder.bidirectional else state

    def predict(self, model: Any, batch: Batch) -> Predictions:
        mask = batch.inputs.mask
        emissions, state = model(batch.inputs, batch.state)
        if self._numbers is not None:
            rows = zip(batch.examples, self._numbers.restore(emissions), mask.sum(dim=1).tolist(), strict=True)
            steps = [self._numbers.step_answer(input_words(example), row[:length]) for example, row, length in rows]
            return Predictions(steps, self._carried(state))
        best = model.decode(emissions, mask)
        probabilities = model.marginals(emissions, mask).gather(2, best.unsqueeze(2)).squeeze(2)
        names = self.fitted.labels.names
        lengths = mask.sum(dim=1).tolist()
        examples = batch.examples or [None] * len(lengths)  # of concatenated sequences there are none
        words = [list(example.words) if isinstance(example, Sentence) else [] for example in examples]
        seconds = [getattr(example, "step_seconds", 0.0) for example in examples]
        columns = zip(words, seconds, best.tolist(), probabilities.tolist(), lengths, strict=True)
        answers = [
            tag_prediction(sentence, [names[label] for label in labels[:length]], values[:length], step_seconds=step)
            for sentence, step, labels, values, length in columns
        ]
        return Predictions(answers, self._carried(state))

    def ensemble_conflict(self, other: Task) -> str:
        if isinstance(other, Tag) and (other.model, other.output) != (self.model, self.output):
            return "differ in task.model or task.output"
        return super().ensemble_conflict(other)

    def ensemble(self, models: Sequence[nn.Module]) -> TaggerEnsemble:
        if self.model == "hmm":
            raise TypeError('this tagger cannot be part of an ensemble: task.model is "hmm"')
        return TaggerEnsemble(models)

    def encode(self, model: Any, batch: Batch) -> Memory:
        if self.model == "hmm":
            raise TypeError('this tagger cannot give sentence vectors: task.model = "hmm" has no encoder')
        memory: Memory = model.encoder(batch.inputs, batch.inputs.mask)
        return memory

    def onnx_model(self, model: Any) -> "OnnxModel":
        from seqloom.tasks.tag.onnx_model import onnx_model

        return onnx_model(self, model)

    def standalone_model(self, model: Any) -> "StandaloneModel":
        from seqloom.tasks.tag.standalone_model import standalone_model

        return standalone_model(self, model)

    @property
    def custom_layer_field(self) -> str:
        return "encoder" if self.model == "neural" else ""

    def share_learned(self, other: Self) -> Self:
        """The labels, or the scale of the numbers, are those of the new data."""
        own = {name: getattr(self.fitted, name) for name in ("labels", "pairs", "scale")}
        return self.model_copy(update={"learned": other.fitted.model_copy(update=own)})

    def check_inputs(self, examples: Sequence[TaggedSequence]) -> None:
        if self.fitted.words is None:
            for example in examples:
                frame_values(self.fitted, example)

    def input_text(self, example: TaggedSequence) -> str:
        return "" if isinstance(example, Sentence) else example.identity

    def example_texts(self, example: TaggedSequence) -> tuple[str, str]:
        words = "\t".join(example.words) if isinstance(example, Sentence) else example.identity
        return words, "\t".join(example.labels or ())

    def answer_text(self, prediction: Any) -> str:
        if not isinstance(prediction, TagPrediction):
            return super().answer_text(prediction)
        return "\t".join(prediction.labels)

    def with_predicted_target(self, example: TaggedSequence, prediction: Any) -> TaggedSequence:
        if not isinstance(prediction, TagPrediction):
            raise TypeError(
                "how far back an output sees is measured by the probability of its label; this model predicts numbers"
            )
        return replace(example, labels=tuple(prediction.labels))

    @property
    def answers_each_line(self) -> bool:
        return self.fitted.words is not None

    def draw_predictions(
        self, examples: Sequence[TaggedSequence], folder: Path, *, predict: Callable[[Sequence[Any]], list[Any]]
    ) -> None:
        """predicted.png: the true and the predicted numbers of a sequence of the development data, over time."""
        if self._numbers is not None and examples:
            longest = max(examples[:PLOTTED], key=len)
            self._numbers.draw(self._pairs(predict([longest]), [longest]), folder, steps=True)

    @property
    def inputs_are_files(self) -> bool:
        return self.fitted.words is None

    def unknown_words(self, example: TaggedSequence) -> list[str]:
        known = self.fitted.words
        if known is None or not isinstance(example, Sentence):
            return []
        return [word for word in dict.fromkeys(example.words) if lookup_form(self, word) not in known]

    @property
    def reads_unknown_by(self) -> str:
        aids = {
            "suffixes": self.model == "hmm",
            "letters": self.model != "hmm" and self.characters.layers > 0,
            "pretrained vectors": self.fitted.vectors is not None,
        }
        return " and ".join(name for name, is_read in aids.items() if is_read)

    def input_tokens(self, example: TaggedSequence) -> list[str]:
        return list(example.words) if isinstance(example, Sentence) else []

    def explain(self, model: Any, example: TaggedSequence, *, beam: bool = False, heads: bool = False) -> Explanation:  # noqa: ARG002
        """The probability of each label, the most probable alternative, and the self-attention of Transformers."""
        batch = self.collate([example])
        predictions, layers, _ = self_attention(model, lambda: self.predict(model, batch))
        (prediction,) = predictions.answers
        if isinstance(prediction, StepRegression):
            return self._explain_numbers(prediction, layers, heads=heads)
        words = self.predicted_steps(example)
        emissions, _ = model(batch.inputs, None)
        marginals = model.marginals(emissions, batch.inputs.mask)[0].tolist()
        choices = []
        for word, label, probability, row in zip(
            words, prediction.labels, prediction.probabilities, marginals, strict=False
        ):
            others = [(value, name) for name, value in zip(self.fitted.labels.names, row, strict=True) if name != label]
            value, alternative = max(others, default=(0.0, ""))
            choices.append(LabelChoice(word, label, probability, alternative, value))
        return Explanation(
            task=self.name,
            source=" ".join(prediction.words),
            prediction=prediction,
            attention=mean_of_heads(layers, words, words),
            heads=all_heads(layers, words, words) if heads else [],
            label_choices=choices,
        )

    @property
    def can_attribute(self) -> bool:
        return self.model == "neural"

    def attribute(
        self,
        model: Any,
        example: TaggedSequence,
        *,
        prediction: TagPrediction | StepRegression,
        method: str,
        target: str = "",
        word: str | int = "",
    ) -> Attribution:
        """How much each word raises or lowers the log-odds of the label of a word, by default the least certain.

        Of numbers: how much it raises or lowers the number of a word, by default the one farthest from the mean.
        """
        if not self.can_attribute:
            raise ValueError(f'which words mattered needs task.model = "neural", found "{self.model}"')
        names = prediction.words or [str(number) for number in range(1, len(example) + 1)]
        numbers = self._numbers
        if isinstance(prediction, TagPrediction):
            position = find_word(names, word) if word != "" else int(np.argmin(prediction.probabilities))
            label = target or prediction.labels[position]
            index = self.fitted.labels.index(label, location="target")
        else:
            assert numbers is not None  # noqa: S101
            index = numbers.column(target)
            label = numbers.scale.names[index]
            far = np.abs(np.array(prediction.values[label]) - numbers.scale.means[index])
            position = find_word(names, word) if word != "" else int(far.argmax())
        inputs = self.collate([example]).inputs

        def score(vectors: Tensor) -> Tensor:
            mask = inputs.mask.expand(len(vectors), -1)
            if numbers is not None:
                return numbers.value(model.linear(model.encoder.encode(vectors, mask).values)[:, position], index)
            emissions = model.emissions(model.encoder.encode(vectors, mask))
            scores: Tensor = model.log_odds(emissions, mask, position=position, label=index)
            return scores

        return attribute(
            score,
            model.encoder.embed(inputs)[0],
            method=method,
            target=label,
            tokens=names,
            signal=None if isinstance(example, Sentence) or is_video(example) else frame_values(self.fitted, example),
            channels=self.fitted.channel_names,
            word=names[position],
            position=position + 1,
            is_number=numbers is not None,
        )

    def _explain_numbers(self, prediction: StepRegression, layers: Any, *, heads: bool) -> Explanation:
        """The numbers, and the self-attention of Transformers."""
        words = prediction.words or [str(number) for number in range(1, len(prediction) + 1)]
        return Explanation(
            task=self.name,
            source=" ".join(prediction.words),
            prediction=prediction,
            headline=str(prediction).rstrip("\n"),
            attention=mean_of_heads(layers, words, words),
            heads=all_heads(layers, words, words) if heads else [],
        )
