"""Classification and regression: one label, or numbers, for a text, a series of vectors, sound, an image or a video."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.length_limit import TooLong
from seqloom.data.readers.labelled import LabelledReader, LabelledSequence
from seqloom.data.readers.media import kind_of
from seqloom.data.readers.media_lists import MediaFiles
from seqloom.data.readers.numeric_targets import ANY_NUMBER
from seqloom.data.readers.text_files import DataError, resolve
from seqloom.data.readers.text_pairs import SEPARATOR
from seqloom.data.target_scale import TargetStatistics
from seqloom.data.text.vocabulary import Labels, labels_problem
from seqloom.formats import format_percent
from seqloom.insight.attention_maps import all_heads, mean_of_heads, self_attention
from seqloom.insight.attribution import Attribution, attribute
from seqloom.insight.explanation import Explanation, TokenValues
from seqloom.insight.gates import LabelledTrace
from seqloom.layers.dropout import Dropout
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Memory
from seqloom.metrics.confidence import MetricSums
from seqloom.models.baseline import Baseline
from seqloom.models.classifier import Classifier, GaussianNoise, TokenEmbedding
from seqloom.models.encoder import Encoder, build_stack
from seqloom.models.ensemble import ClassifierEnsemble
from seqloom.models.pooling import POOLINGS, PairPooling
from seqloom.models.pretrained.combined import CombinedInput
from seqloom.models.signals.encoders import build_signal_encoder
from seqloom.models.signals.equalizer import Equalizer
from seqloom.models.signals.inputs import media_decoder
from seqloom.models.signals.statistics import LocatedSignal, StatisticsCollector, describe
from seqloom.tasks.classify.inputs import ClassifyInputs, located_signal
from seqloom.tasks.classify.pairs import joined_rows, joined_words, separated_rows, trace_texts
from seqloom.tasks.classify.settings import Learned
from seqloom.tasks.classify.targets import ClassTargets, SequenceNumbers, SequenceTargets
from seqloom.tasks.targets.classes import Classification, class_weights
from seqloom.tasks.targets.numbers import NumberTargets, Regression
from seqloom.tasks.task import Loss, Predictions, Task, require_fitted

if TYPE_CHECKING:
    from seqloom.onnx.exported import OnnxModel
    from seqloom.standalone.interface import StandaloneModel


def _is_true(label: str) -> bool:
    return label in ("True", "true")  # the latter with lowercase_labels


class Classify(ClassifyInputs):
    """Assign one label, or numbers, to each text, sequence of vectors, sound, image or video."""

    @property
    def main_metric(self) -> str:
        return self._targets.main_metric

    @property
    def _targets(self) -> SequenceTargets:
        """What is predicted; classes before the task is fitted."""
        learned = self.learned
        if learned is not None and learned.scale is not None:
            return SequenceNumbers(NumberTargets(learned.scale, self.loss_function))
        labels, weights = (Labels(names=()), ()) if learned is None else (learned.labels, learned.weights)
        return ClassTargets(labels, weights, self.label_smoothing)

    def read(self, source: Path | Sequence[Any]) -> Iterator[LabelledSequence]:
        """Read a file, or Python values: texts, arrays, paths, or tuples of one of these and its label."""
        return self._equalizer.read(self.reader().read, source)

    @property
    def _equalizer(self) -> Equalizer[LabelledSequence]:
        return Equalizer(self.equalizer, _sound, _with_sound)

    def read_inputs(self, source: Path | Sequence[Any]) -> Iterator[LabelledSequence]:
        """As ``read``. The second of two texts in a list has to be a label: two words are not a text and its label."""
        known = self.fitted.labels.ids if self.fitted.scale is None else None
        for example in self.read(source):
            if known is not None and isinstance(source, list) and example.label not in (None, *known):
                raise DataError(
                    example.location,
                    f"expected a text, found two: {example.label!r} is not a label of the model. Join them to one text",
                )
            yield example

    def listed_files(self, source: Path) -> list[Path]:
        return self.reader().listed_files(source)

    def resolve(self, source: Path | Sequence[Any]) -> tuple[Self, tuple[str, ...]]:
        settings, note = self.reader().inspect(source)
        task = self.model_copy(update=settings)
        if not isinstance(source, Path) and self.label_type == "text":
            task = task.model_copy(update={"label_type": task.reader().label_type(source)})
        notes = [note]
        if task.target_type != "class":
            kind, decimal, note = task.reader().target_format(source)
            task = task.model_copy(update={"target_type": kind, "decimal": decimal or task.decimal})
            notes = [*notes, note]
        audio, note = task.audio.with_rate(example.rate for example in task.read(source))
        task, notes = task.model_copy(update={"audio": audio}), [*notes, note]
        equalizer, note = self._equalizer.fit(task.read, source)
        task, notes = task.model_copy(update={"equalizer": equalizer}), [*notes, note]
        return task, tuple(filter(None, notes))

    def as_given(self, answer: Classification | Regression) -> Classification | Regression:
        if self.label_type == "text" or isinstance(answer, Regression):
            return answer
        convert: Callable[[str], Any] = int if self.label_type == "integer" else _is_true
        probabilities = {convert(label): value for label, value in answer.probabilities.items()}
        return replace(answer, label=convert(answer.label), probabilities=probabilities)

    @property
    def no_bptt_reason(self) -> str:
        return "pairs of texts are read whole" if self.reads_pairs else ""

    def with_predicted_target(self, example: LabelledSequence, prediction: Any) -> LabelledSequence:
        if not hasattr(prediction, "label"):
            raise TypeError(
                "how far back an output sees is measured by the probability of its label; this model predicts numbers"
            )
        return replace(example, label=prediction.label)

    def reader(self) -> LabelledReader:
        """What reads examples as the configuration says."""
        columns = [name for name in type(self).model_fields if name.endswith("_column")]
        names = ("format", "encoding", "separator", *columns)
        learned = self.learned
        signal = None if learned is None else learned.signal
        return LabelledReader(
            **{name: getattr(self, name) for name in names},
            label_separator=self.label_separator,
            lowercase_labels=self.lowercase_labels,
            target_type=self.target_type,
            decimal=self.decimal,
            channels=self.channels,
            missing=self.missing,
            measure=self.text.measure,
            known=None if learned is None else learned.labels.ids if learned.scale is None else ANY_NUMBER,
            kind=None if signal is None else signal.kind,
            channel_names=() if signal is None else signal.channel_names,
            media=MediaFiles(
                media_decoder(signal, audio=self.audio, image_size=self.image_size, resize=self.resize), self.folder
            ),
        )

    def fit(self, examples: Iterable[LabelledSequence]) -> Self:
        counts: Counter[str] = Counter()
        statistics = TargetStatistics()
        checked = self._checked(examples, counts, statistics)
        first = next(checked, None)
        if first is None:
            raise self._no_examples()
        rest = chain([first], checked)
        if isinstance(first.content, str):
            language = self.pretrained.language(self.text.unit)
            texts = (text for example in rest for text in self._texts(example))
            text = self.pretrained.fit(self.text, texts, language)
            parts: dict[str, Any] = {"text": text}
            parts["vectors"] = self.pretrained.load(text.vocabulary.tokens, language)
        else:
            if self.pretrained:
                kind = describe(kind_of(first.content, first.rate), first.content.shape[-1])
                raise DataError(first.location, f"found {kind}; task.pretrained works with texts only")
            sound = first.rate > 0
            for_sound = ['task.normalize = "level"'] * (self.normalize == "level") + ["task.trim_db"] * bool(
                self.trim_db
            )
            if for_sound and not sound:
                kind = describe(kind_of(first.content, first.rate), first.content.shape[-1])
                raise DataError(first.location, f"found {kind}; {for_sound[0]} works with sound only")
            collector = StatisticsCollector(self.audio.spectrum, needs_moments=bool(self.normalize) and not sound)
            for example in rest:
                collector.add(located_signal(example))
            parts = {"signal": collector.finish()}
        if statistics.moments.count:
            scale = statistics.checked_scale(self.label_column, file=self.train, check=self.check_labels)
            learned = Learned(labels=Labels(names=()), weights=(), scale=scale, **parts)
            return self.model_copy(update={"learned": learned, "target_type": "number"})
        if self.check_labels and (problem := labels_problem(counts)):
            raise DataError(self.train, f"{problem}{self._label_doubt}? task.check_labels = false trains nevertheless")
        labels = Labels.of(counts)
        learned = Learned(labels=labels, weights=class_weights(self.class_weights, labels, counts), **parts)
        return self.model_copy(update={"learned": learned, "target_type": "class"})

    @property
    def _label_doubt(self) -> str:
        """What may be wrong about labels that are probably no classes."""
        with suppress(DataError, OSError):  # data that are not in a file
            if self.reader().labels_are_names(resolve(self.train)):
                return "; are the folders, or the .txt files, named after their labels"
        column = f" (task.label_column = {self.label_column!r})" if self.label_column != "" else ""
        return f"{column}; is it the right column"

    def _checked(
        self, examples: Iterable[LabelledSequence], counts: Counter[str], statistics: TargetStatistics
    ) -> Iterator[LabelledSequence]:
        """Yield the examples, count their targets, and check that all have one and are of the same kind."""
        texts = None
        for example in examples:
            if example.label is None and example.target is None:
                raise self._missing_target(example, "training")
            if counts if example.target is not None else statistics.moments.count:
                raise DataError(example.location, "found both classes and numbers; set task.target_type")
            texts = isinstance(example.content, str) if texts is None else texts
            if isinstance(example.content, str) is not texts:
                raise DataError(example.location, "found both texts and signals; expected one of them")
            if example.target is not None:
                statistics.add(example.location, example.target[np.newaxis])
            else:
                counts[str(example.label)] += 1
            yield example

    def shorten(self, example: LabelledSequence, length: int, action: TooLong) -> Iterator[LabelledSequence]:  # noqa: ARG002
        content = example.content
        if isinstance(content, str):
            texts = self._texts(example)
            each = max(length // len(texts), 1)
            start: Any = SEPARATOR.join(next(iter(self.text.cut(text, each)), "") for text in texts)
        else:
            start = content[:length]
        yield replace(example, content=start, length=length)

    def summarize_example(self, example: LabelledSequence) -> ExampleSummary:
        content, label, target = example.content, example.label, example.target
        values = None if isinstance(content, str) else content
        return ExampleSummary(
            content=content.encode() if isinstance(content, str) else content.tobytes(),
            target=label or ("" if target is None else str(target.tolist())),
            labelled=label is not None or target is not None,
            labels=() if label is None else (label,),
            values=values,
            targets=None if target is None else target[np.newaxis],
            missing=example.missing,
        )

    def collate(self, examples: Sequence[LabelledSequence]) -> Batch:
        """A row for each example; of pairs two, one for each text."""
        learned = self.fitted
        inputs = pad([row for example in examples for row in self._elements(example, learned)])
        if learned.vectors is not None and learned.text is not None:
            texts = (text for example in examples for text in self._texts(example))
            pretrained = learned.vectors.collate([*map(learned.text.cased_tokens, texts)])
            inputs = Padded(cast(Any, CombinedInput(inputs.values, pretrained, inputs.mask)), inputs.mask)
        target, items = self._targets.collate(examples)
        return Batch(inputs, target, items)

    def describe_unseen(self, metrics: Mapping[str, Any]) -> str:
        return self.fitted.labels.describe_unseen(metrics.get("not_in_train") or metrics.get("per_label", {}))

    def build_model(self) -> Classifier:
        learned = self.fitted
        encoder = self._build_encoder(learned)
        pooling = POOLINGS[self.pooling](encoder.size)
        pooling = PairPooling(pooling) if self.reads_pairs else pooling
        return Classifier(encoder, pooling, labels=self._targets.outputs, head=self.head, dropout=self.encoder.dropout)

    def _build_encoder(self, learned: Learned) -> Any:
        signal = learned.signal
        if signal is not None and signal.kind != "vectors":
            return build_signal_encoder(
                signal,
                audio=self.audio,
                augment=self.augment,
                normalize=self.sound_normalization,
                image_encoder=self.image_encoder,
                image_size=self.image_size,
                spectral_encoder=self.spectral_encoder,
                prenet=self.prenet,
                recurrence=self.encoder,
                time_reduction=self.time_reduction,
                trim_db=self.trim_db,
            )
        embed: nn.Module
        if learned.text is not None:
            size = self.embedding_size
            embedding = Embedding(len(learned.text.vocabulary), size, dropout=self.input_dropout)
            tokens = (
                None if self.pretrained.replace_embeddings else TokenEmbedding(embedding, dropout=self.word_dropout)
            )
            embed, size = self.pretrained.build_embedding(learned.vectors, tokens, size=size)
        else:
            size = require_fitted(signal).size
            embed = nn.Sequential(GaussianNoise(self.noise), Dropout(self.input_dropout))
        return Encoder(embed, build_stack(self.prenet, self.encoder, size))

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        self._require_target(batch)
        return Loss(self._targets.loss(model(*batch.inputs), batch.target), batch.items)

    def predict(self, model: nn.Module, batch: Batch) -> Predictions:
        return Predictions(self._targets.answers(model(*batch.inputs).detach().double()))

    def ensemble_conflict(self, other: Task) -> str:
        conflict = self.equalizer.conflict(other.equalizer) if isinstance(other, Classify) else ""
        return conflict or super().ensemble_conflict(other)

    def ensemble(self, models: Sequence[nn.Module]) -> ClassifierEnsemble:
        return ClassifierEnsemble(models, numbers=self.target_type == "number")

    def encode(self, model: Any, batch: Batch) -> Memory:
        if self.reads_pairs:
            raise ValueError("a sentence vector belongs to one text, not to a pair")
        memory: Memory = model.encoder(*batch.inputs)
        return memory

    def onnx_model(self, model: Any) -> "OnnxModel":
        from seqloom.tasks.classify.onnx_model import onnx_model

        self.equalizer.check_export()
        return onnx_model(self, model)

    def standalone_model(self, model: Any) -> "StandaloneModel":
        from seqloom.tasks.classify.standalone_model import standalone_model

        self.equalizer.check_export()
        return standalone_model(self, model)

    @property
    def custom_layer_field(self) -> str:
        return "encoder"

    def score(self, predictions: Sequence[Any], examples: Sequence[LabelledSequence]) -> dict[str, Any]:
        return self._targets.score(predictions, self._with_targets(examples))

    def _with_targets(self, examples: Sequence[LabelledSequence]) -> Sequence[LabelledSequence]:
        """The examples, if all have a target of the kind that is predicted."""
        for example in examples:
            if self._targets.of(example) is None:
                raise self._missing_target(example, "evaluation")
        return examples

    def degenerate_predictions(self, predictions: Sequence[Any], examples: Sequence[LabelledSequence]) -> str:
        return self._targets.degenerate(predictions, self._with_targets(examples))

    def baseline_targets(self, example: LabelledSequence) -> Iterable[str]:
        return () if example.label is None else (example.label,)

    def fit_baseline(self, counts: Counter[str], examples: Sequence[LabelledSequence]) -> Baseline | None:  # noqa: ARG002
        return self._targets.fit_baseline(counts)

    def baseline_sums(self, baseline: Baseline, examples: Sequence[LabelledSequence]) -> MetricSums:
        return self._targets.baseline_sums(baseline, self._with_targets(examples))

    def score_baseline(self, baseline: Baseline, examples: Sequence[LabelledSequence]) -> dict[str, float]:
        return self._targets.score_baseline(baseline, self._with_targets(examples))

    def share_learned(self, other: Self) -> Self:
        """The labels, or the scale of the numbers, are those of the new data."""
        own = {name: getattr(self.fitted, name) for name in ("labels", "weights", "scale")}
        return self.model_copy(update={"learned": other.fitted.model_copy(update=own)})

    def check_targets(self, examples: Sequence[LabelledSequence]) -> None:
        labels = [(example.location, example.label) for example in examples if example.label is not None]
        self.fitted.labels.check_known(labels)

    def draw_predictions(
        self, examples: Sequence[LabelledSequence], folder: Path, *, predict: Callable[[Sequence[Any]], list[Any]]
    ) -> None:
        if examples:
            self._targets.draw(predict, self._with_targets(examples), folder)

    def metric_sums(self, predictions: Sequence[Any], examples: Sequence[LabelledSequence]) -> MetricSums:
        return self._targets.metric_sums(predictions, self._with_targets(examples))

    def answer_text(self, prediction: Classification | Regression) -> str:
        return prediction.label if isinstance(prediction, Classification) else super().answer_text(prediction)

    def label_pairs(self, prediction: Any, example: LabelledSequence) -> Sequence[tuple[str, str]]:
        if not isinstance(prediction, Classification) or example.label is None:
            return ()
        return [(str(example.label), prediction.label)]

    def explain(
        self,
        model: nn.Module,
        example: LabelledSequence,
        *,
        beam: bool = False,  # noqa: ARG002
        heads: bool = False,
    ) -> Explanation:
        """The label probabilities, and the pooling weight of each element or the attention that it receives."""
        batch = self.collate([example])
        lengths = batch.inputs.lengths.tolist() if self.reads_pairs else ()
        predictions, layers, pooling = self_attention(model, lambda: self.predict(model, batch), lengths=lengths)
        (prediction,) = predictions.answers
        notes: list[str] = []
        tokens = self._element_names(example, notes, reduction=self.time_reduction)
        if example.rate and (start := self._read_part(example)[0]):
            notes.append(f"steps count from {start / example.rate:.2f} s, after the silence (task.trim_db)")
        attention, token_values = mean_of_heads(layers, tokens, tokens), None
        if pooling is not None:
            token_values = TokenValues("pooling weight", tokens, pooling, 0.0)
        elif attention is not None:
            received = np.mean(attention.weights, axis=0).tolist()
            token_values = TokenValues(f"attention received, {attention.name}", tokens, received, 0.0)
        return Explanation(
            task=self.name,
            source=self.input_text(example) if isinstance(example.content, str) else "",
            prediction=prediction,
            title=(
                f"{prediction.label}, {format_percent(prediction.probability, 1)}"
                if isinstance(prediction, Classification)
                else str(prediction)
            ),
            attention=attention,
            heads=all_heads(layers, tokens, tokens) if heads else [],
            token_values=token_values,
            label_probabilities=(
                dict(sorted(prediction.probabilities.items(), key=lambda pair: -pair[1]))
                if isinstance(prediction, Classification)
                else {}
            ),
            notes=notes,
        )

    @property
    def can_attribute(self) -> bool:
        return True

    def attribute(
        self,
        model: Any,
        example: LabelledSequence,
        *,
        prediction: Classification | Regression,
        method: str,
        target: str = "",
        word: str | int = "",
    ) -> Attribution:
        """How much each word, or each channel at each step, raises or lowers the log-odds of a label, or a number."""
        if word != "":
            raise ValueError("word: a classifier gives the whole input one label; choose the label with target")
        label, explained = self._targets.explained(target, prediction)
        inputs, mask = model.encoder.embed_inputs(*self.collate([example]).inputs)
        vectors = joined_rows(inputs, mask)

        def score(vectors: Tensor) -> Tensor:
            rows = separated_rows(vectors, mask)
            memory = model.encoder.encode(rows, mask.repeat(len(vectors), 1))
            return explained(model.logits(memory))

        encoding, statistics = self.fitted.text, self.fitted.signal
        tokens = self._element_names(example, [])
        signal: NDArray[Any] | None = None
        if statistics is not None and statistics.kind == "vectors":
            signal = self._inputs.values(located_signal(example))
        elif statistics is not None and statistics.kind == "sound":
            signal = vectors.detach().double().cpu().numpy()
        attribution = attribute(
            score,
            vectors,
            method=method,
            target=label,
            tokens=tokens,
            words=joined_words(encoding, self._texts(example)) if encoding is not None else (),
            signal=signal,
            channels=() if statistics is None else statistics.channel_names,
            is_number=self.fitted.scale is not None,
        )
        return replace(attribution, **self._shown_with(example))

    def trace_gates(self, model: Any, example: LabelledSequence) -> list[LabelledTrace]:
        if not self.reads_pairs:
            return super().trace_gates(model, example)
        single = self.single_texts()
        parts = [replace(example, content=text) for text in self._texts(example)]
        inputs = [single.collate([part]).inputs for part in parts]
        return trace_texts(model, inputs, [single.input_tokens(part) for part in parts])

    def _shown_with(self, example: LabelledSequence) -> dict[str, Any]:
        """What the attribution of an image, a video or sound is drawn on."""
        statistics = self.fitted.signal
        if statistics is None or statistics.kind == "vectors":
            return {}
        if statistics.kind == "sound":
            start, _ = self._read_part(example)
            return {"step_seconds": self.audio.hop, "start_seconds": start / example.rate}
        side = self.image_encoder.side(self.image_size)
        return {"pictures": example.content, "grid": (side, side) if statistics.kind == "image" else None}


def _sound(example: LabelledSequence) -> LocatedSignal:
    """The signal of an example for the equaliser; DataError if it is a text."""
    if isinstance(example.content, str):
        raise DataError(example.location, "found a text; task.equalizer works with sound only")
    return located_signal(example)


def _with_sound(example: LabelledSequence, samples: NDArray[np.float32], share: float) -> LabelledSequence:
    return replace(example, content=samples, equalized=share)
