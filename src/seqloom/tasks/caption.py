"""Captioning: one image, or one vector of image features, to a sentence."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.config import ConfigSection, Document
from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.feature_statistics import RunningMoments, check_scales
from seqloom.data.preview import DataPreview
from seqloom.data.readers.captioned_images import CaptionedImage, CaptionedImageReader, Format
from seqloom.data.readers.pixels import Resize
from seqloom.data.readers.text_files import DataError, resolve
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.data.text.detection import SPLIT_DEFAULT, TextSample
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.data.text.vocabulary import END
from seqloom.decoding.searches import TokenSearchConfig
from seqloom.decoding.tokens.beam import Beam
from seqloom.insight.explanation import Explanation
from seqloom.insight.gates import LabelledTrace
from seqloom.insight.search_report import DecoderSource, explain_generation, trace_generation
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Memory
from seqloom.metrics import text as metrics
from seqloom.metrics.confidence import MetricSums, ratio_of_sums
from seqloom.metrics.learning import constant_answer
from seqloom.models.baseline import Baseline, most_frequent, quote
from seqloom.models.encoder import DecoderConfig
from seqloom.models.encoder_decoder import AttentionConfig, Bridge, EncoderDecoder, build_encoder_decoder
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
from seqloom.models.scheduled_sampling import ScheduledSampling
from seqloom.models.signals.image_encoder import ImageEncoder, ImageEncoderConfig, VectorMemory
from seqloom.tasks.task import Loss, Predictions, Task, TextEncoding, require_fitted, with_readable_tokens


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


LONGEST_CAPTION = 10_000
"""Tokens: a model that never ends its captions has to stop somewhere."""


class Learned(ConfigSection):
    """The vocabulary of the training captions, and the scale of the images."""

    text: Tokenizer
    mean: tuple[float, ...]  # one per colour channel or vector component
    deviation: tuple[float, ...]
    vector_size: int = Field(ge=0)  # 0: the inputs are images
    length_limit: int = Field(ge=0, le=LONGEST_CAPTION)  # tokens of a caption, 99.9th percentile

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_scales(self.mean, self.deviation)
        return self


Metric = Literal["bleu", "bleu_1", "exact_match", "loss"]


class Caption(Task):
    """Describe images, or vectors of image features, in sentences."""

    uses_search: ClassVar[bool] = True
    target_name: ClassVar[str] = "caption"
    input_name: ClassVar[str] = "image"
    example_files: ClassVar[tuple[str, str]] = ("train.tsv", "dev.tsv")
    depends_on_data: ClassVar[Mapping[str, str]] = DEPENDS_ON_SIZE | {"task.text.split": SPLIT_DEFAULT}
    data_files: ClassVar[Mapping[str, str]] = {"folder": "images", "captions": "captions"}
    option_fields: ClassVar[Mapping[str, str]] = {
        **data_files,
        **{name: name for name in ("search", "format", "encoding")},
    }

    name: Literal["caption"] = "caption"
    format: Format = Field(
        "auto", description="File format: columns (TSV, CSV) or jsonl; auto: by suffix and first line."
    )
    encoding: TextEncoding = Field("utf-8", description="Text encoding of the files, such as utf-8, latin-1, cp1252.")
    separator: str = Field("", description="Column separator (empty: a comma in .csv files, otherwise a tab).")
    image_column: int | str = Field(
        "",
        description="Column with the image file names: index from 0, or name in the header or JSON object "
        '(empty: 0, in JSON "image").',
    )
    caption_column: int | str = Field(
        "", description='Column with the captions: index or name (empty: 1, in JSON "caption").'
    )
    captions: str = Field(
        "", description="Captions file, if train and dev only list images (empty: they contain the captions)."
    )
    images: str = Field(
        "",
        description="Folder or tar archive of the images, or .npz file of vectors (empty: the folder of the file that "
        "lists them).",
    )
    image_size: int = Field(64, ge=4, le=4096, description="Height and width to which images are resized, in pixels.")
    resize: Resize = Field(
        "crop", description="Images that are not square: crop keeps the centre, pad adds grey borders."
    )
    text: TextConfig = Field(default_factory=TextConfig, description="Tokenisation of the captions.")
    image_encoder: ImageEncoderConfig = Field(
        default_factory=ImageEncoderConfig, description="Convolutional image encoder."
    )
    image_pooling: Literal["none", "mean"] = Field(
        "none", description="none: the decoder attends to every image region; mean: it sees only their mean."
    )
    embedding_size: int = Field(256, ge=1, description="Size of the token embeddings.")
    tie_embeddings: bool = Field(default=True, description="Use the embedding matrix as the output matrix, too.")
    input_dropout: float = Field(0.3, ge=0, lt=1, description="Dropout on the token embeddings.")
    decoder: DecoderConfig = Field(
        default_factory=DecoderConfig, description="Decoder: recurrent or Transformer layers."
    )
    attention: AttentionConfig = Field(
        default_factory=AttentionConfig, description="Attention of the decoder to the regions of the image."
    )
    bridge: Bridge = Field(
        "linear",
        description="Initial decoder state. linear: a projection of the mean of all image regions; copy: that mean; "
        "zero: zeros.",
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="Probability mass spread over all tokens (0 disables label smoothing)."
    )
    scheduled_sampling: ScheduledSampling = Field(
        default_factory=ScheduledSampling,
        description="Scheduled sampling: in training, feed some of the decoder's own tokens back.",
    )
    search: TokenSearchConfig = Field(default_factory=Beam, description="Search for the best caption.")
    max_length: int = Field(
        0,
        ge=0,
        le=LONGEST_CAPTION,
        description="Maximum length of a caption in tokens (0: that of the training captions).",
    )
    metric: Metric = Field("bleu", description="Dev metric that selects the best checkpoint.")
    learned: Learned | None = Field(None, exclude=True)

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        captions = [caption for image in data.head for caption in image.captions] if data else []
        split = {"task.text.split": TextSample.of(captions).split} if captions else {}
        return (
            split
            | {
                "task.text.lowercase": True,
                "task.text.min_count": 3,
                "task.image_encoder.depth": 2,
                "task.image_encoder.dropout": 0.3,
                "task.decoder.cell": "gru",
                "task.decoder.hidden_size": 256,
                "task.decoder.dropout": 0.3,
            }
            | training_defaults(
                document,
                data.examples if data else None,
                batch_size=16,
                learning_rate=0.001,
                layers="task.decoder",
            )
        )

    def preview(self, source: Path | Sequence[Any]) -> DataPreview:
        return self._reader().preview(source)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.image_encoder.side(self.image_size) < 2:
            raise ValueError(
                f"image_encoder.layers is {self.image_encoder.layers}, which reduces an image of {self.image_size} × "
                f"{self.image_size} pixels to one cell: use fewer layers or a larger task.image_size"
            )
        return self

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
        """Rows and columns of the image regions that the decoder attends to, stored row by row."""
        if self.fitted.vector_size or self.image_pooling == "mean":
            return 1, 1
        side = self.image_encoder.side(self.image_size)
        return side, side

    def read(self, source: Path | Sequence[Any]) -> Iterator[CaptionedImage]:
        """Read a file, or Python values: paths, pixels (H, W, 3) or vectors (D,), or tuples of one and its captions."""
        return self._reader().read(source)

    def resolve(self, source: Path | Sequence[Any]) -> tuple[Self, tuple[str, ...]]:
        settings, note = self._reader().inspect(source)
        return self.model_copy(update=settings), (note,) if note else ()

    def read_inputs(self, source: Path | Sequence[Any]) -> Iterator[CaptionedImage]:
        return self._reader().read_inputs(source)

    def listed_files(self, source: Path) -> list[Path]:
        return self._reader().listed_files(source)

    def _reader(self) -> CaptionedImageReader:
        names = ("format", "encoding", "separator", "image_column", "caption_column", "captions", "images")
        options = {name: getattr(self, name) for name in names}
        return CaptionedImageReader(**options, size=self.image_size, resize=self.resize, measure=self.text.measure)

    def measure(self, example: CaptionedImage) -> int:
        """The length of the longest caption."""
        return max(example.lengths, default=0)

    @property
    def length_unit(self) -> str:
        return f"{self.text.measured_unit} of the caption"

    def fit(self, examples: Iterable[CaptionedImage]) -> Self:
        captions: list[str] = []
        statistics = RunningMoments()
        shape: tuple[int, ...] = ()
        for example in examples:
            if not example.captions:
                raise self._missing_target(example, "training")
            captions += example.captions
            if statistics.count and example.image.shape != shape:
                raise DataError(
                    example.location,
                    f"expected {_describe(shape)} as in the first example, found {_describe(example.image.shape)}",
                )
            shape = example.image.shape
            statistics.add(example.image.reshape(-1, shape[-1]))
        if not captions:
            raise self._no_examples()
        text = self.text.fit(captions, specials=(END,))
        learned = Learned(
            text=text,
            mean=statistics.means(),
            deviation=statistics.deviations(),
            vector_size=shape[0] if len(shape) == 1 else 0,
            length_limit=math.ceil(np.quantile([len(text.encode(caption)) for caption in captions], 0.999)),
        )
        return self.model_copy(update={"learned": learned})

    def summarize_example(self, example: CaptionedImage) -> ExampleSummary:
        return ExampleSummary(
            content=example.image.tobytes(),
            target="\t".join(example.captions),
            labelled=bool(example.captions),
            lengths=[("caption", length) for length in example.lengths],
            padded_size=example.image.size,
        )

    @property
    def fitted(self) -> Learned:
        return require_fitted(self.learned)

    def collate(self, examples: Sequence[CaptionedImage]) -> Batch:
        learned = self.fitted
        shape = (learned.vector_size,) if learned.vector_size else (self.image_size, self.image_size, 3)
        for example in examples:
            if example.image.shape != shape:
                raise DataError(
                    example.location, f"expected {_describe(shape)}, found {_describe(example.image.shape)}"
                )
        images = np.stack([example.image for example in examples]).reshape(len(examples), -1, *shape[1:] or shape)
        mean, deviation = np.array([learned.mean, learned.deviation], dtype=np.float32)
        values = torch.from_numpy((images.astype(np.float32) - mean) / deviation)  # (B, size, size, 3) or (B, 1, D)
        inputs = Padded(values, torch.ones(values.shape[:2], dtype=torch.bool))
        if not all(example.captions for example in examples):
            return Batch(inputs, None, 0, examples=tuple(examples))
        end = learned.text.vocabulary.index(END)
        captions = [(row, caption) for row, example in enumerate(examples) for caption in example.captions]
        tokens = pad([np.array([*learned.text.encode(caption), end]) for _, caption in captions])
        target = Captions(*tokens, torch.tensor([row for row, _ in captions]))
        return Batch(inputs, target, int(tokens.mask.sum()), examples=tuple(examples))

    def build_model(self) -> EncoderDecoder:
        learned = self.fitted
        encoder: VectorMemory | ImageEncoder
        if learned.vector_size:
            encoder = VectorMemory(learned.vector_size, self.decoder.hidden_size, dropout=self.image_encoder.dropout)
        else:
            encoder = ImageEncoder(self.image_encoder, self.image_size, mean=self.image_pooling == "mean")
        embed = Embedding(len(learned.text.vocabulary), self.embedding_size, dropout=self.input_dropout)
        return build_encoder_decoder(
            encoder,
            embed,
            self.decoder,
            attention=self.attention,
            encoder_layer=None,
            bridge=self.bridge,
            tied=self.tie_embeddings,
            scheduled_sampling=self.scheduled_sampling,
        )

    def loss(self, model: Any, batch: Batch) -> Loss:
        """Summed over all captions; each image is encoded once."""
        self._require_target(batch)
        values, mask, rows = batch.target
        end = self.fitted.text.vocabulary.index(END)
        state = start_state(model.decoder, model.encoder(*batch.inputs), rows)
        target = Padded(values, mask)
        total = teacher_forcing_loss(model, state, target, end=end, smoothing=self.label_smoothing)
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

    def to_json(self, prediction: CaptionPrediction) -> dict[str, Any]:
        return with_readable_tokens(asdict(prediction), self.fitted.text)

    def score(self, predictions: Sequence[CaptionPrediction], examples: Sequence[CaptionedImage]) -> dict[str, Any]:
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
            "images": len(examples),
            "captions": sum(map(len, references)),
        }

    def degenerate_predictions(
        self, predictions: Sequence[CaptionPrediction], examples: Sequence[CaptionedImage]
    ) -> str:
        text = constant_answer([answer.text for answer in predictions], [example.captions for example in examples])
        return "" if text is None else f"Every caption is {quote(text)}"

    def baseline_targets(self, example: CaptionedImage) -> Iterable[str]:
        return example.captions

    def fit_baseline(self, counts: Counter[str], examples: Sequence[CaptionedImage]) -> Baseline | None:  # noqa: ARG002
        if not counts or self.metric == "loss":
            return None
        answer = most_frequent(counts)
        return Baseline(name=f"most frequent caption, {quote(answer)}", answer=answer)

    def score_baseline(self, baseline: Baseline, examples: Sequence[CaptionedImage]) -> dict[str, float]:
        text = baseline.answer.lower() if self.text.lowercase else baseline.answer
        answer = CaptionPrediction(text, 0.0, [], [], [], "", [], [])
        return {self.metric: self.metric_sums([answer] * len(examples), examples).whole}

    def metric_sums(self, predictions: Sequence[CaptionPrediction], examples: Sequence[CaptionedImage]) -> MetricSums:
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

    def _references(self, examples: Sequence[CaptionedImage]) -> list[list[str]]:
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

    def explain(self, model: Any, example: CaptionedImage, *, beam: bool = False, heads: bool = False) -> Explanation:
        """The n-best list, and the attention over the regions of the image."""
        height, width = self.grid
        cells = [f"{row + 1},{column + 1}" for row in range(height) for column in range(width)]
        source = DecoderSource(example.name, cells, [], [])
        encoding = self.fitted.text
        explanation = explain_generation(self, model, example, source=source, encoding=encoding, beam=beam, heads=heads)
        if explanation.attention is None:
            return replace(explanation, image=example.image)
        return replace(explanation, image=example.image, grid=self.grid, title=explanation.prediction.text)

    def trace_gates(self, model: Any, example: CaptionedImage) -> list[LabelledTrace]:
        return trace_generation(self, model, example, source_tokens=[], encoding=self.fitted.text)


def _bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, order: int = 4) -> metrics.CorpusScore:
    first, *others = ([*column] for column in zip_longest(*references))
    return metrics.bleu(hypotheses, first, others=others, order=order)


def _describe(shape: tuple[int, ...]) -> str:
    return f"a vector of size {shape[0]}" if len(shape) == 1 else f"an image of {shape[0]} × {shape[1]} pixels"
