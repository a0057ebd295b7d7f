"""Captioning: an image, a video, sound or vectors to a sentence."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.preview import DataPreview
from seqloom.data.readers.captioned_signals import CaptionedSignal, CaptionedSignalReader
from seqloom.data.readers.media import Kind, Signal
from seqloom.data.readers.media_lists import MediaFiles
from seqloom.data.readers.text_files import resolve
from seqloom.data.text.vocabulary import END
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.insight.explanation import Explanation
from seqloom.insight.gates import LabelledTrace
from seqloom.insight.search_report import DecoderSource, explain_generation, trace_generation
from seqloom.layers.dropout import Dropout
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Memory
from seqloom.metrics import text as metrics
from seqloom.metrics.confidence import MetricSums, ratio_of_sums
from seqloom.metrics.learning import constant_answer
from seqloom.models.baseline import Baseline, most_frequent, quote
from seqloom.models.encoder import Encoder, build_stack
from seqloom.models.encoder_decoder import EncoderDecoder, build_encoder_decoder
from seqloom.models.ensemble import Ensemble
from seqloom.models.generation import (
    SUPPRESSED,
    Candidate,
    format_nbest,
    generate,
    nbest_candidates,
    start_state,
    teacher_forced_scores,
    teacher_forcing_loss,
)
from seqloom.models.signals.encoders import build_signal_encoder
from seqloom.models.signals.image_encoder import VectorMemory
from seqloom.models.signals.inputs import SignalInputs, media_decoder
from seqloom.models.signals.statistics import LocatedSignal, StatisticsCollector
from seqloom.models.word_presence import WordPresence
from seqloom.tasks.caption.settings import CaptionSettings, Learned
from seqloom.tasks.task import Loss, Predictions, require_fitted, with_readable_tokens

if TYPE_CHECKING:
    from seqloom.onnx.exported import OnnxModel


COUNTED: Mapping[Kind, str] = {"image": "images", "video": "videos", "sound": "recordings", "vectors": "sequences"}
"""The names of the number of inputs in scores."""


@dataclass(frozen=True, slots=True)
class CaptionPrediction:
    """The best caption."""

    text: str
    score: float
    tokens: list[str]
    log_probabilities: list[float]  # one per token, and one for the end token if the hypothesis is finished
    nbest: list[Candidate]  # the n-best list, best first
    image: str  # name of the image
    target_log_probabilities: list[list[float]]  # per reference: of its tokens and the end under teacher forcing
    target_correct: list[list[bool]]  # whether each was the most probable one; both are empty without references

    def __str__(self) -> str:
        return format_nbest(self.nbest) if len(self.nbest) > 1 else self.text


class Captions(NamedTuple):
    """The captions of a batch of images, padded, in the order of the images."""

    values: Tensor  # (N, T)
    mask: Tensor  # (N, T)
    rows: Tensor  # (N,), row of each caption's image in the batch


class Caption(CaptionSettings):
    """Describe images, videos, sound or vectors of image features in sentences."""

    def preview(self, source: Path | Sequence[Any]) -> DataPreview:
        return self._reader().preview(source)

    @property
    def main_metric(self) -> str:
        return self.metric

    @property
    def higher_is_better(self) -> bool:
        return self.metric != "loss"

    @property
    def files(self) -> tuple[str, ...]:
        archive = self.images if self.images and not resolve(self.images).is_dir() else ""
        return (*super().files, *filter(None, (self.captions, archive)))

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the cells of an image that the decoder attends to, stored row by row."""
        if self.fitted.signal.kind != "image" or self.image_pooling == "mean":
            return 1, 1
        side = self.image_encoder.side(self.image_size)
        return side, side

    def read(self, source: Path | Sequence[Any]) -> Iterator[CaptionedSignal]:
        """Read a file, or Python values: paths, pixels, audio or vectors, or tuples of one and its captions."""
        return self._reader().read(source)

    def resolve(self, source: Path | Sequence[Any]) -> tuple[Self, tuple[str, ...]]:
        settings, note = self._reader().inspect(source)
        task = self.model_copy(update=settings)
        audio, rates = task.audio.with_rate(example.rate for example in task.read(source))
        return task.model_copy(update={"audio": audio}), tuple(filter(None, (note, rates)))

    @property
    def reads_text(self) -> bool:
        return False

    def read_inputs(self, source: Path | Sequence[Any]) -> Iterator[CaptionedSignal]:
        return self._reader().read_inputs(source)

    def listed_files(self, source: Path) -> list[Path]:
        return self._reader().listed_files(source)

    def _reader(self) -> CaptionedSignalReader:
        names = (
            "format",
            "encoding",
            "separator",
            "image_column",
            "caption_column",
            "group_column",
            "time_column",
            "captions",
        )
        signal = None if self.learned is None else self.learned.signal
        decoder = media_decoder(signal, audio=self.audio, image_size=self.image_size, resize=self.resize)
        return CaptionedSignalReader(
            **{name: getattr(self, name) for name in names},
            media=MediaFiles(decoder, self.images, key="images"),
            kind=None if signal is None else signal.kind,
            measure=self.text.measure,
        )

    def measure(self, example: CaptionedSignal) -> int:
        """The length of the longest caption."""
        return max(example.lengths, default=0)

    @property
    def length_unit(self) -> str:
        return f"{self.text.measured_unit} of the caption"

    def fit(self, examples: Iterable[CaptionedSignal]) -> Self:
        captions: list[str] = []
        collector: StatisticsCollector | None = None
        for example in examples:
            if not example.captions:
                raise self._missing_target(example, "training")
            captions += example.captions
            collector = collector or StatisticsCollector(self.audio.spectrum, needs_moments=not example.rate)
            collector.add(_signal(example))
        if collector is None:
            raise self._no_examples()
        text = self.text.fit(captions, specials=(END,))
        learned = Learned(
            text=text,
            signal=collector.finish(),
            length_limit=math.ceil(np.quantile([len(text.encode(caption)) for caption in captions], 0.999)),
        )
        return self.model_copy(update={"learned": learned})

    def is_empty_input(self, example: CaptionedSignal) -> bool:
        """Also if its caption is empty, a signal can be described."""
        return not example.content.size

    def summarize_example(self, example: CaptionedSignal) -> ExampleSummary:
        return ExampleSummary(
            content=example.content.tobytes(),
            target="\t".join(example.captions),
            labelled=bool(example.captions),
            lengths=[("caption", length) for length in example.lengths],
            values=example.content,
            padded_size=example.content.size,
        )

    def example_texts(self, example: CaptionedSignal) -> tuple[str, str]:
        return example.name, "\n".join(example.captions)

    @property
    def fitted(self) -> Learned:
        return require_fitted(self.learned)

    def collate(self, examples: Sequence[CaptionedSignal]) -> Batch:
        learned = self.fitted
        inputs = pad([self._inputs.scaled(_signal(example)) for example in examples])
        if not all(example.captions for example in examples):
            return Batch(inputs, None, 0, examples=tuple(examples))
        end = learned.text.vocabulary.index(END)
        captions = [(row, caption) for row, example in enumerate(examples) for caption in example.captions]
        tokens = pad([np.array([*learned.text.encode(caption), end]) for _, caption in captions])
        target = Captions(*tokens, torch.tensor([row for row, _ in captions]))
        return Batch(inputs, target, int(tokens.mask.sum()), examples=tuple(examples))

    @property
    def _inputs(self) -> SignalInputs:
        """What is done with signals."""
        return SignalInputs(self.fitted.signal, self.audio)

    def check_inputs(self, examples: Sequence[CaptionedSignal]) -> None:
        for example in examples:
            self._inputs.values(_signal(example))

    def _build_encoder(self) -> Any:
        signal = self.fitted.signal
        if signal.kind != "vectors":
            return build_signal_encoder(
                signal,
                audio=self.audio,
                augment=self.augment,
                normalize="utterance",
                image_encoder=self.image_encoder,
                image_size=self.image_size,
                spectral_encoder=self.spectral_encoder,
                prenet=self.prenet,
                recurrence=self.encoder,
                time_reduction=self.time_reduction,
                mean=self.image_pooling == "mean",
            )
        if self.encoder.layers or self.prenet.layers:
            return Encoder(Dropout(self.image_encoder.dropout), build_stack(self.prenet, self.encoder, signal.size))
        return VectorMemory(signal.size, self.decoder.hidden_size, dropout=self.image_encoder.dropout)

    def build_model(self) -> EncoderDecoder:
        learned = self.fitted
        encoder = self._build_encoder()
        vocabulary = len(learned.text.vocabulary)
        embed = Embedding(vocabulary, self.embedding_size, dropout=self.input_dropout)
        model = build_encoder_decoder(
            encoder,
            embed,
            self.decoder,
            attention=self.attention,
            encoder_layer=encoder.last_layer,
            bridge=self.bridge,
            tied=self.tie_embeddings,
            scheduled_sampling=self.scheduled_sampling,
        )
        if self.word_loss:
            model.add_module("words", WordPresence(encoder.size, vocabulary))
        return model

    def loss(self, model: Any, batch: Batch) -> Loss:
        """Summed over all captions; each image is encoded once."""
        self._require_target(batch)
        values, mask, rows = batch.target
        end = self.fitted.text.vocabulary.index(END)
        memory: Memory = model.encoder(*batch.inputs)
        state = start_state(model.decoder, memory, rows)
        target = Padded(values, mask)
        total = teacher_forcing_loss(model, state, target, end=end, smoothing=self.label_smoothing)
        if self.word_loss:
            total = total + self.word_loss * model.words.loss(memory, values, mask=mask, rows=rows)
        return Loss(total, batch.items)

    def predict(self, model: Any, batch: Batch) -> Predictions:
        learned = self.fitted
        end = learned.text.vocabulary.index(END)
        memory: Memory = model.encoder(*batch.inputs)
        length_limit = self.max_length or learned.length_limit
        nbest = generate(model.decoder, memory, self.search, end=end, lengths=length_limit + 1, suppress=SUPPRESSED)
        targets: list[list[list[float]]] = [[] for _ in nbest]
        correct: list[list[list[bool]]] = [[] for _ in nbest]
        if batch.target is not None:
            values, mask, rows = batch.target
            forced = teacher_forced_scores(model.decoder, memory, Padded(values, mask), end=end, rows=rows)
            for row, (log_probabilities, hits) in zip(rows.tolist(), forced, strict=True):
                targets[row].append(log_probabilities)
                correct[row].append(hits)
        answers = []
        for row, hypotheses in enumerate(nbest):
            best = nbest_candidates(hypotheses, learned.text)
            first = best[0]
            fields = (first.text, first.score, first.tokens, first.log_probabilities, best)
            answers.append(CaptionPrediction(*fields, batch.examples[row].name, targets[row], correct[row]))
        return Predictions(answers)

    def onnx_model(self, model: Any) -> "OnnxModel":
        """The encoder of the signals and the decoder with greedy search, and its parts for beam search."""
        from seqloom.onnx.encoder_decoder import Limits
        from seqloom.onnx.search import ModelInput, generator
        from seqloom.onnx.signals import signal_input

        learned = self.fitted
        limit, end = (self.max_length or learned.length_limit) + 1, learned.text.vocabulary.index(END)
        signal = signal_input(learned.signal, model.encoder, image_size=self.image_size, resize=self.resize)

        def feed(examples: Sequence[CaptionedSignal]) -> dict[str, Any]:
            return signal.feed([self._inputs.values(_signal(example)) for example in examples])

        def greedy(examples: Sequence[CaptionedSignal]) -> tuple[Any, Any]:
            memory = model.encoder(*self.collate(examples).inputs)
            options: dict[str, Any] = {"end": end, "lengths": limit, "suppress": SUPPRESSED}
            return generate(model.decoder, memory, Greedy(), **options), np.full(len(examples), limit)

        tokenizer = learned.text.model_dump(mode="json")
        output = {"kind": "tokens", "tokenizer": tokenizer, "search": self.search.model_dump(mode="json")}
        return generator(
            model,
            ModelInput(signal.embed, {**signal.description, "single": True}, feed),  # one vector is a sequence, too
            limits=Limits(0.0, limit),
            end=end,
            suppress=SUPPRESSED,
            generate=greedy,
            description={"task": self.name, "output": output},
        )

    @property
    def answers_have_line_breaks(self) -> bool:
        return self.fitted.text.has_line_breaks

    def to_json(self, prediction: CaptionPrediction) -> dict[str, Any]:
        return with_readable_tokens(asdict(prediction), self.fitted.text)

    def score(self, predictions: Sequence[CaptionPrediction], examples: Sequence[CaptionedSignal]) -> dict[str, Any]:
        """Each hypothesis is compared with all captions of its image."""
        references = self._references(examples)
        hypotheses = [answer.text for answer in predictions]
        bleu, single = _bleu(hypotheses, references), _bleu(hypotheses, references, order=1)
        errors = self._errors(hypotheses, references)
        values = [value for answer in predictions for target in answer.target_log_probabilities for value in target]
        correct = [hit for answer in predictions for hits in answer.target_correct for hit in hits[:-1]]
        return {
            "bleu": bleu.score,
            "bleu_1": single.score,
            "loss": -math.fsum(values) / max(len(values), 1),
            "exact_match": errors.exact_match,
            "forced_accuracy": sum(correct) / max(len(correct), 1),
            "distinct": len(set(hypotheses)) / max(len(hypotheses), 1),
            "bleu_interval": list(bleu.interval),
            "bleu_1_interval": list(single.interval),
            "exact_match_interval": list(errors.exact_match_interval),
            "bleu_signature": bleu.signature,
            COUNTED[self.fitted.signal.kind]: len(examples),
            "captions": sum(map(len, references)),
        }

    def degenerate_predictions(
        self, predictions: Sequence[CaptionPrediction], examples: Sequence[CaptionedSignal]
    ) -> str:
        text = constant_answer([answer.text for answer in predictions], [example.captions for example in examples])
        return "" if text is None else f"Every caption is {quote(text)}"

    def baseline_targets(self, example: CaptionedSignal) -> Iterable[str]:
        return example.captions

    def fit_baseline(self, counts: Counter[str], examples: Sequence[CaptionedSignal]) -> Baseline | None:  # noqa: ARG002
        if not counts or self.metric == "loss":
            return None
        answer = most_frequent(counts)
        return Baseline(name=f"most frequent caption, {quote(answer)}", answer=answer)

    def baseline_sums(self, baseline: Baseline, examples: Sequence[CaptionedSignal]) -> MetricSums:
        text = baseline.answer.lower() if self.text.lowercase else baseline.answer
        answer = CaptionPrediction(text, 0.0, [], [], [], "", [], [])
        return self.metric_sums([answer] * len(examples), examples)

    def metric_sums(self, predictions: Sequence[CaptionPrediction], examples: Sequence[CaptionedSignal]) -> MetricSums:
        hypotheses, references = [answer.text for answer in predictions], self._references(examples)
        if self.metric == "loss":
            values = [
                [value for target in answer.target_log_probabilities for value in target] for answer in predictions
            ]
            return ratio_of_sums([-math.fsum(row) for row in values], [len(row) for row in values])
        if self.metric == "exact_match":
            return ratio_of_sums(~self._errors(hypotheses, references).wrong, [1] * len(examples))
        return _bleu(hypotheses, references, order=1 if self.metric == "bleu_1" else 4).sums

    @property
    def custom_layer_field(self) -> str:
        return "decoder"

    def ensemble(self, models: Sequence[nn.Module]) -> Ensemble:
        return Ensemble(models)

    def _references(self, examples: Sequence[CaptionedSignal]) -> list[list[str]]:
        references = []
        for example in examples:
            if not example.captions:
                raise self._missing_target(example, "evaluation")
            references.append([text.lower() if self.text.lowercase else text for text in example.captions])
        return references

    def _errors(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> metrics.EditErrors:
        split: Callable[[str], Any] = list if self.text.unit == "characters" else str.split
        pairs = [(row, caption) for row, captions in enumerate(references) for caption in captions]
        return metrics.edit_errors(
            [row for row, _ in pairs],
            [split(hypotheses[row]) for row, _ in pairs],
            [split(caption) for _, caption in pairs],
        )

    def explain(self, model: Any, example: CaptionedSignal, *, beam: bool = False, heads: bool = False) -> Explanation:
        """The n-best list, and the attention over the cells of the image or over the frames."""
        source = DecoderSource(example.name, self._element_names(example), [], [])
        encoding = self.fitted.text
        explanation = explain_generation(self, model, example, source=source, encoding=encoding, beam=beam, heads=heads)
        kind, title = self.fitted.signal.kind, explanation.prediction.text
        if kind in ("vectors", "sound"):
            return explanation
        if explanation.attention is None:
            return replace(explanation, image=example.content)
        return replace(explanation, image=example.content, grid=self.grid if kind == "image" else None, title=title)

    def _element_names(self, example: CaptionedSignal) -> list[str]:
        """The cells of an image as row,column, the seconds of sound, or the numbers of the frames from 1."""
        if self.fitted.signal.kind == "image":
            height, width = self.grid
            return [f"{row + 1},{column + 1}" for row in range(height) for column in range(width)]
        steps = self._inputs.steps(example.content, self.image_encoder, self.image_size)
        if example.rate:
            seconds = self._inputs.seconds(self.time_reduction.frames(steps), self.time_reduction)
            return [f"{second:.2f}" for second in seconds]
        return [str(number) for number in range(1, steps + 1)]

    def trace_gates(self, model: Any, example: CaptionedSignal) -> list[LabelledTrace]:
        return trace_generation(self, model, example, source_tokens=[], encoding=self.fitted.text)


def _bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, order: int = 4) -> metrics.CorpusScore:
    first, *others = ([*column] for column in zip_longest(*references))
    return metrics.bleu(hypotheses, first, others=others, order=order)


def _signal(example: CaptionedSignal) -> LocatedSignal:
    signal = Signal(example.content, example.rate)
    return LocatedSignal(example.location, signal, example.name, example.channel_names)
