"""Captions: one image, or one vector, to a sequence of words."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.readers.captioned_images import CaptionedImage, Format, Reader
from seqloom.data.readers.pixels import Frame
from seqloom.data.readers.text_files import DataError, resolve
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.data.text.vocabulary import END
from seqloom.decoding.searches import TokenSearchConfig
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.insight.explanation import Explanation
from seqloom.insight.gate_trace import LabelledTrace
from seqloom.insight.generation_report import Source, explain_generation, trace_generation
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Memory
from seqloom.metrics import text as metrics
from seqloom.metrics.confidence import MetricSums, ratio_of_sums
from seqloom.models.encoder import RecurrenceConfig
from seqloom.models.encoder_decoder import AttentionConfig, Bridge, EncoderDecoder, build_encoder_decoder
from seqloom.models.ensemble import Ensemble
from seqloom.models.generation import (
    SUPPRESSED,
    Candidate,
    begin,
    generate,
    nbest_candidates,
    teacher_forced_scores,
    teacher_forcing_loss,
)
from seqloom.models.image_encoder import ImageEncoder, ImageEncoderConfig, VectorMemory
from seqloom.models.scheduled_sampling import ScheduledSampling
from seqloom.tasks.task import Loss, Predictions, Task, TextEncoding


@dataclass(frozen=True, slots=True)
class Captioned:
    """The best caption."""

    text: str
    score: float
    symbols: list[str]
    log_probabilities: list[float]  # of each symbol, and of the end where it ended
    best: list[Candidate]  # all that the search gives, the best first
    image: str  # its name
    targets: list[
        list[float]
    ]  # of each true caption, log-probabilities of its symbols and the end, each after the true ones
    forced: list[list[bool]]  # whether each of them was the most probable one; both are empty without true captions

    def __str__(self) -> str:
        return self.text


class Captions(NamedTuple):
    """The captions of some images, padded: those of the first image, then those of the second, and so on."""

    values: Tensor  # (N, T)
    mask: Tensor  # (N, T)
    rows: Tensor  # (N,), which image each is about


class Learned(ConfigSection):
    """The symbols of the training captions, and the scale of what is seen."""

    text: Tokenizer
    mean: tuple[float, ...]  # of each colour, or of each number of a vector
    deviation: tuple[float, ...]
    vector: int  # how many numbers a vector has; 0: images are read
    longest: int  # symbols: longer are but one caption in a thousand


Score = Literal["bleu", "bleu_1", "exact_match", "loss"]


class Caption(Task):
    """Describe images, or vectors of image features, in sentences."""

    searches: ClassVar[bool] = True
    recommended: ClassVar[Mapping[str, Any]] = {
        "task.train": "train.tsv",
        "task.dev": "dev.tsv",
        "task.text.lowercase": True,
        "task.text.min_count": 3,
        "task.embedding_size": 256,
        "task.input_dropout": 0.3,
        "task.image_encoder.depth": 2,
        "task.image_encoder.dropout": 0.3,
        "task.decoder.cell": "gru",
        "task.decoder.hidden_size": 256,
        "task.decoder.dropout": 0.3,
        "train.batch_size": 16,
        "train.learning_rate": 0.001,
        "train.schedule": "plateau",
        "train.patience": 5,
    }
    option_fields: ClassVar[Mapping[str, str]] = {"search": "search", "format": "format", "encoding": "encoding"}

    name: Literal["caption"] = "caption"
    format: Format = Field("auto", description="columns (TSV, CSV) or jsonl; auto: by the name and the first line.")
    encoding: TextEncoding = Field("utf-8", description="Of the files, such as utf-8, latin-1, cp1252.")
    separator: str = Field("", description="Between columns; empty: a comma in .csv, otherwise a tab.")
    image_column: int | str = Field(
        "", description='Number from 0, or name in the header or JSON object; empty: 0, "image".'
    )
    caption_column: int | str = Field("", description='The same for the caption; empty: 1, "caption".')
    captions: str = Field("", description="File with the captions of images that train and dev only name.")
    images: str = Field(
        "",
        description="Folder or tar archive of the images, or .npz of vectors; empty: beside the file that names them.",
    )
    image_size: int = Field(64, ge=4, description="Images are brought to so many pixels in height and width.")
    resize: Frame = Field(
        "crop", description="What is not square: crop takes its middle, pad all of it, with grey beside."
    )
    text: TextConfig = Field(default_factory=TextConfig, description="Tokenization of the captions.")
    image_encoder: ImageEncoderConfig = Field(
        default_factory=ImageEncoderConfig, description="Convolutional image encoder."
    )
    image_pooling: Literal["none", "mean"] = Field(
        "none", description="none: the decoder attends to every image cell; mean: it sees only their mean."
    )
    embedding_size: int = Field(128, ge=1, description="Size of a symbol's vector.")
    tie_embeddings: bool = Field(default=True, description="The vectors of the symbols are also those of the output.")
    input_dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on the vectors of the symbols.")
    decoder: RecurrenceConfig = Field(default_factory=RecurrenceConfig, description="Decoder.")
    attention: AttentionConfig = Field(
        default_factory=AttentionConfig, description="Attention of the decoder to the cells of the image."
    )
    bridge: Bridge = Field("linear", description="How the decoder begins: with the mean of the cells, or zero.")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="Label smoothing: probability spread over all symbols.")
    scheduled_sampling: ScheduledSampling = Field(default_factory=ScheduledSampling, description="Scheduled sampling.")
    search: TokenSearchConfig = Field(default_factory=Greedy, description="Search for the best caption.")
    max_length: int = Field(0, ge=0, description="Symbols of an answer at most; 0: as many as training captions have.")
    metric: Score = Field("bleu", description="Score of dev by which the best model is chosen.")
    learned: Learned | None = Field(None, exclude=True)

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.image_encoder.side(self.image_size) < 2:
            raise ValueError(
                f"sight.layers is {self.image_encoder.layers}, which leaves one cell of {self.image_size} pixels"
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
        packed = self.images if self.images and not resolve(self.images).is_dir() else ""
        return (*super().files, *filter(None, (self.captions, packed)))

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the cells that attention looks at: cell n is in row n // columns."""
        if self._fitted().vector or self.image_pooling == "mean":
            return 1, 1
        side = self.image_encoder.side(self.image_size)
        return side, side

    def read(self, source: Path | Sequence[Any]) -> Iterator[CaptionedImage]:
        """Of Python values: paths, pixels (H, W, 3) or vectors (D,), or tuples of that and a caption or several."""
        return self._reader().read(source)

    def read_inputs(self, source: Path | Sequence[Any]) -> Iterator[CaptionedImage]:
        return self._reader().read_inputs(source)

    def _reader(self) -> Reader:
        names = ("format", "encoding", "separator", "image_column", "caption_column", "captions", "images")
        measure: Callable[[str], int] = len if self.text.unit == "characters" else lambda text: len(text.split())
        given = {name: getattr(self, name) for name in (*names, "size", "frame")}
        return Reader(**given, measure=measure)

    def fit(self, examples: Iterable[CaptionedImage]) -> Self:
        captions: list[str] = []
        sums = squares = np.zeros(0)
        count = 0
        shape: tuple[int, ...] = ()
        for example in examples:
            if not example.captions:
                raise DataError(example.location, "there is no caption; training needs one for each image")
            captions += example.captions
            if count and example.image.shape != shape:
                raise DataError(
                    example.location, f"{_kind(example.image.shape)}; the examples before are {_kind(shape)}"
                )
            shape = example.image.shape
            values = example.image.reshape(-1, shape[-1]).astype(np.float64)
            sums = sums + values.sum(axis=0) if count else values.sum(axis=0)
            squares = squares + (values**2).sum(axis=0) if count else (values**2).sum(axis=0)
            count += len(values)
        if not captions:
            raise DataError(self.train, "there are no examples to learn from")
        text = self.text.fit(captions, specials=(END,))
        mean = sums / count
        deviation = np.sqrt((squares / count - mean**2).clip(min=0))
        learned = Learned(
            text=text,
            mean=tuple(mean.tolist()),
            deviation=tuple(np.where(deviation > 0, deviation, 1.0).tolist()),
            vector=shape[0] if len(shape) == 1 else 0,
            longest=math.ceil(np.quantile([len(text.encode(caption)) for caption in captions], 0.999)),
        )
        return self.model_copy(update={"learned": learned})

    def _fitted(self) -> Learned:
        if self.learned is None:
            raise ValueError("the task has learnt nothing yet: call fit first")
        return self.learned

    def collate(self, examples: Sequence[CaptionedImage]) -> Batch:
        learned = self._fitted()
        wanted = (learned.vector,) if learned.vector else (self.image_size, self.image_size, 3)
        for example in examples:
            if example.image.shape != wanted:
                raise DataError(example.location, f"{_kind(example.image.shape)}; the model reads {_kind(wanted)}")
        seen = np.stack([example.image for example in examples]).reshape(len(examples), -1, *wanted[1:] or wanted)
        mean, deviation = np.array([learned.mean, learned.deviation], dtype=np.float32)
        values = torch.from_numpy((seen.astype(np.float32) - mean) / deviation)  # (B, size, size, 3) or (B, 1, D)
        inputs = Padded(values, torch.ones(values.shape[:2], dtype=torch.bool))
        if not all(example.captions for example in examples):
            return Batch(inputs, None, 0, examples=tuple(examples))
        end = learned.text.vocabulary.index(END)
        told = [(row, caption) for row, example in enumerate(examples) for caption in example.captions]
        said = pad([np.array([*learned.text.encode(caption), end]) for _, caption in told])
        target = Captions(*said, torch.tensor([row for row, _ in told]))
        return Batch(inputs, target, int(said.mask.sum()), examples=tuple(examples))

    def build_model(self) -> EncoderDecoder:
        learned = self._fitted()
        seen: VectorMemory | ImageEncoder
        if learned.vector:
            seen = VectorMemory(learned.vector, self.decoder.hidden_size, dropout=self.image_encoder.dropout)
        else:
            seen = ImageEncoder(self.image_encoder, self.image_size, together=self.image_pooling == "mean")
        embed = Embedding(len(learned.text.vocabulary), self.embedding_size, dropout=self.input_dropout)
        return build_encoder_decoder(
            seen,
            embed,
            self.decoder,
            looks=self.attention,
            reading=None,
            bridge=self.bridge,
            tied=self.tie_embeddings,
            sampling=self.scheduled_sampling,
        )

    def loss(self, model: Any, batch: Batch) -> Loss:
        """Over all captions; each image is looked at once."""
        if batch.target is None:
            raise ValueError("some examples of the batch have no caption: there is no loss")
        said, real, rows = batch.target
        end = self._fitted().text.vocabulary.index(END)
        state = begin(model.decoder, model.encoder(*batch.inputs), rows)
        return Loss(
            teacher_forcing_loss(model, state, Padded(said, real), end=end, smoothing=self.label_smoothing), batch.items
        )

    def predict(self, model: Any, batch: Batch) -> Predictions:
        learned = self._fitted()
        end = learned.text.vocabulary.index(END)
        memory: Memory = model.encoder(*batch.inputs)
        longest = self.max_length or learned.longest
        found = generate(model.decoder, memory, self.search, end=end, lengths=longest + 1, suppress=SUPPRESSED)
        targets: list[list[list[float]]] = [[] for _ in found]
        right: list[list[list[bool]]] = [[] for _ in found]
        if batch.target is not None:
            said, real, rows = batch.target
            told = teacher_forced_scores(model.decoder, memory, Padded(said, real), end=end, rows=rows)
            for row, (values, hits) in zip(rows.tolist(), told, strict=True):
                targets[row].append(values)
                right[row].append(hits)
        answers = []
        for row, hypotheses in enumerate(found):
            best = nbest_candidates(hypotheses, learned.text)
            first = best[0]
            fields = (first.text, first.score, first.symbols, first.log_probabilities, best)
            answers.append(Captioned(*fields, batch.examples[row].name, targets[row], right[row]))
        return Predictions(answers)

    def score(self, predictions: Sequence[Captioned], examples: Sequence[CaptionedImage]) -> dict[str, Any]:
        """One answer for each image, compared with all of its captions."""
        wanted = self._wanted(examples)
        found = [answer.text for answer in predictions]
        bleu, single = _bleu(found, wanted), _bleu(found, wanted, order=1)
        errors = self._errors(found, wanted)
        values = [value for answer in predictions for each in answer.targets for value in each]
        right = [hit for answer in predictions for each in answer.forced for hit in each[:-1]]
        return {
            "bleu": bleu.score,
            "bleu_1": single.score,
            "loss": -math.fsum(values) / max(len(values), 1),
            "exact_match": errors.exact_match,
            "forced_accuracy": sum(right) / max(len(right), 1),
            "distinct": len(set(found)) / max(len(found), 1),
            "bleu_interval": list(bleu.interval),
            "bleu_1_interval": list(single.interval),
            "exact_match_interval": list(errors.exact_match_interval),
            "bleu_signature": bleu.signature,
            "images": len(examples),
            "captions": sum(map(len, wanted)),
        }

    def metric_sums(self, predictions: Sequence[Captioned], examples: Sequence[CaptionedImage]) -> MetricSums:
        found, wanted = [answer.text for answer in predictions], self._wanted(examples)
        if self.metric == "loss":
            values = [[value for each in answer.targets for value in each] for answer in predictions]
            return ratio_of_sums([-math.fsum(each) for each in values], [len(each) for each in values])
        if self.metric == "exact_match":
            return ratio_of_sums(~self._errors(found, wanted).wrong, [1] * len(examples))
        return _bleu(found, wanted, order=1 if self.metric == "bleu_1" else 4).sums

    @property
    def custom_layer_field(self) -> str:
        return "decoder"

    def ensemble(self, models: Sequence[nn.Module]) -> Ensemble:
        return Ensemble(models)

    def _wanted(self, examples: Sequence[CaptionedImage]) -> list[list[str]]:
        wanted = []
        for example in examples:
            if not example.captions:
                raise DataError(example.location, "there is no caption to compare with")
            wanted.append(
                [text.lower() for text in example.captions] if self.text.lowercase else list(example.captions)
            )
        return wanted

    def _errors(self, found: Sequence[str], wanted: Sequence[Sequence[str]]) -> metrics.EditErrors:
        cut: Callable[[str], Any] = list if self.text.unit == "characters" else str.split
        pairs = [(row, caption) for row, captions in enumerate(wanted) for caption in captions]
        return metrics.edit_errors(
            [row for row, _ in pairs], [cut(found[row]) for row, _ in pairs], [cut(caption) for _, caption in pairs]
        )

    def explain(self, model: Any, example: CaptionedImage, *, beam: bool = False, heads: bool = False) -> Explanation:
        """The n-best list, and the attention over the cells of the image."""
        height, width = self.grid
        cells = [f"{row + 1},{column + 1}" for row in range(height) for column in range(width)]
        source = Source(example.name, cells, [], [])
        encoding = self._fitted().text
        explanation = explain_generation(self, model, example, source=source, encoding=encoding, beam=beam, heads=heads)
        if explanation.attention is None:
            return replace(explanation, image=example.image)
        return replace(explanation, image=example.image, grid=self.grid, title=explanation.prediction.text)

    def trace_gates(self, model: Any, example: CaptionedImage) -> list[LabelledTrace]:
        return trace_generation(self, model, example, source_tokens=[], encoding=self._fitted().text)


def _bleu(found: Sequence[str], wanted: Sequence[Sequence[str]], *, order: int = 4) -> metrics.CorpusScore:
    first, *others = ([*each] for each in zip_longest(*wanted))
    return metrics.bleu(found, first, others=others, order=order)


def _kind(shape: tuple[int, ...]) -> str:
    return f"vectors of {shape[0]} numbers" if len(shape) == 1 else f"images of {shape[0]} × {shape[1]} pixels"
