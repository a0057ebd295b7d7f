"""Transcription: speech, handwriting, lines of digits; what is said in which order, with no alignment given (CTC)."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, Unpack

import numpy as np
from pydantic import Field, model_validator
from torch import Tensor

from seqloom.config import ConfigSection
from seqloom.data.batch import Batch, pad
from seqloom.data.readers.pronunciations import first_spellings
from seqloom.data.readers.recordings import Format, Reader, Recording
from seqloom.data.readers.text_files import DataError, resolve
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.data.text.vocabulary import UNKNOWN
from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.frames.frame_search import Guide, Transcript, check_lag
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.decoding.searches import FrameSearchConfig
from seqloom.insight.explanation import Explanation
from seqloom.insight.transcript_report import explain_transcript
from seqloom.layers.audio.augment import FINEST
from seqloom.layers.audio.spectrum import Spectrum
from seqloom.layers.ctc import CTC, ctc_loss, frames_needed
from seqloom.layers.embedding import PADDING as BLANK
from seqloom.metrics import transcripts as metrics
from seqloom.metrics.confidence import MetricSums
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig
from seqloom.models.streaming import StreamingSession, refuse
from seqloom.models.transcription.audio_features import (
    AudioFeatures,
    AudioStatistics,
    AugmentConfig,
    Scale,
    StatisticsCollector,
    build_feature_extractor,
)
from seqloom.models.transcription.line_images import LineImageConfig
from seqloom.models.transcription.search_guide import LanguageModelConfig, build_guide
from seqloom.models.transcription.transcriber import TimeReductionConfig, Transcriber, build_transcriber
from seqloom.models.transcription.transcripts import IncrementalTranscript, Transcription, to_transcript
from seqloom.tasks.language_model import load_language_model
from seqloom.tasks.task import Loss, PredictionOptions, Predictions, Task, TextEncoding

Score = Literal["auto", "cer", "wer", "per", "exact_match", "loss"]


class Learned(ConfigSection):
    """What the training recordings hold."""

    text: Tokenizer
    heard: AudioStatistics
    examples: int  # of the training data
    infeasible: int  # of them: their frames are too few for their transcripts


class BidirectionalEncoder(RecurrenceConfig):
    """Recurrent layers, as a rule from both ends; from one end they hear a recording while it is made."""

    bidirectional: bool = Field(default=True, description="Read in both directions.")


class Transcribe(Task):
    """Transcribe speech, handwriting or pen strokes to text (CTC)."""

    searches: ClassVar[bool] = True
    recommended: ClassVar[Mapping[str, Any]] = {
        "task.train": "train.tsv",
        "task.dev": "dev.tsv",
        "task.normalize": "utterance",
        "task.time_reduction.factor": 3,
        "task.encoder.hidden_size": 192,
        "task.encoder.layers": 3,
        "task.encoder.dropout": 0.2,
        "task.augment.freq_masks": 2,
        "task.augment.time_masks": 2,
        "train.batch_size": 16,
        "train.learning_rate": 0.002,
        "train.schedule": "plateau",
        "train.clip_norm": 1.0,
        "train.epochs": 60,
        "train.patience": 8,
    }
    option_fields: ClassVar[Mapping[str, str]] = {
        "search": "search",
        "lexicon": "lexicon",
        "lm": "language",
        "folder": "folder",
        "format": "format",
        "encoding": "encoding",
    }

    name: Literal["transcribe"] = "transcribe"
    format: Format = Field(
        "auto",
        description="columns (TSV, CSV: a file, its text), jsonl, sphinx (TEXT (file)), folder (a .txt beside each "
        "file), npz, file (one recording); auto: by the name and the first line.",
    )
    encoding: TextEncoding = Field("utf-8", description="Of texts, such as utf-8, latin-1, cp1252.")
    separator: str = Field("", description="Between columns; empty: a comma in .csv, otherwise a tab.")
    file_column: int | str = Field(
        "", description='Number from 0, or name in the header or JSON object; empty: 0, "file".'
    )
    text_column: int | str = Field("", description='The same for the text; empty: 1, "text".')
    folder: str = Field("", description="Folder or tar archive of the files; empty: beside the list that names them.")
    text: TextConfig = Field(
        default_factory=lambda: TextConfig(unit="characters"), description="Tokenization of the transcripts."
    )
    spelling: Literal["text", "phones", "lexicon"] = Field(
        "text",
        description="What texts hold: text; phones (symbols between blanks, whose errors are the PER); lexicon: words, "
        "and their symbols are those of their first spelling in the lexicon.",
    )
    audio: AudioFeatures = Field(default_factory=AudioFeatures, description="Audio features.")
    normalize: Scale = Field(
        "global",
        description="Numbers of a frame get mean 0 and deviation 1: global by the training data, utterance by the "
        "recording itself, streaming by what was heard of it; none: as they are.",
    )
    augment: AugmentConfig = Field(
        default_factory=AugmentConfig, description="Data augmentation of recordings, in training only."
    )
    image_encoder: LineImageConfig = Field(
        default_factory=LineImageConfig, description="Convolutions over images of text lines."
    )
    prenet: PrenetConfig = Field(
        default_factory=PrenetConfig, description="Feed-forward or convolutional layers before the encoder."
    )
    time_reduction: TimeReductionConfig = Field(
        default_factory=TimeReductionConfig, description="Reduction of the number of frames."
    )
    encoder: BidirectionalEncoder = Field(default_factory=BidirectionalEncoder, description="Encoder.")
    search: FrameSearchConfig = Field(default_factory=BestPath, description="Search for the best transcript.")
    lexicon: str = Field(
        "", description="File of the only words that there are: WORD  S P E L L on each line, or a word on each."
    )
    lm: LanguageModelConfig = Field(default_factory=LanguageModelConfig, description="Language model of prefix_beam.")
    metric: Score = Field("auto", description="Score of dev by which the best model is chosen; auto: cer, wer or per.")
    learned: Learned | None = Field(None, exclude=True)

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.spelling != "text" and self.text.unit != "words":
            raise ValueError(f'spelling is "{self.spelling}": its symbols stand between blanks, text.unit = "words"')
        if self.spelling == "lexicon" and not self.lexicon:
            raise ValueError('spelling is "lexicon", and there is none: task.lexicon names its file')
        if isinstance(self.search, BestPath) and (self.lm.model or (self.lexicon and self.spelling != "lexicon")):
            unused = "language model" if self.lm.model else "lexicon"
            raise ValueError(f'search is "best_path", which has no room for a {unused}: "prefix_beam" has')
        if self.metric not in ("auto", "exact_match", "loss", *self._units):
            raise ValueError(f'best_by is "{self.metric}"; of these symbols there is {", ".join(self._units)}')
        return self

    @property
    def _units(self) -> tuple[str, ...]:
        """The error rates that there are, the first of them to choose by."""
        if self.spelling == "lexicon":
            return ("per",) if isinstance(self.search, BestPath) else ("wer", "per")
        if self.spelling == "phones":
            return ("wer", "per") if self.lexicon else ("per",)
        return {"characters": ("cer", "wer"), "words": ("wer",), "subwords": ("wer", "cer")}[self.text.unit]

    @property
    def main_metric(self) -> str:
        return self._units[0] if self.metric == "auto" else self.metric

    @property
    def higher_is_better(self) -> bool:
        return self.main_metric == "exact_match"

    @property
    def files(self) -> tuple[str, ...]:
        packed = self.folder if self.folder and not resolve(self.folder).is_dir() else ""
        spelt = self.lexicon if self.spelling == "lexicon" else ""
        return (*super().files, *filter(None, (packed, spelt)))

    @property
    def remarks(self) -> tuple[str, ...]:
        learned = self._fitted()
        share = f"{learned.infeasible} of {learned.examples} examples ({learned.infeasible / learned.examples:.2%})"
        return (f"{share} are impossible and left out: their frames are too few for their symbols",)

    def read(self, source: Path | Sequence[Any]) -> Iterator[Recording]:
        """Of Python values: names of files, arrays (T, D) or (N,), or tuples of that and a text."""
        return self._reader().read(source)

    def read_inputs(self, source: Path | Sequence[Any]) -> Iterator[Recording]:
        return self._reader().read_inputs(source)

    def _reader(self) -> Reader:
        names = ("format", "encoding", "separator", "file_column", "text_column")
        return Reader(
            **{name: getattr(self, name) for name in names},
            files=self.folder,
            rate=self.learned.heard.rate if self.learned else self.audio.sample_rate,
            coefficients=self.audio.n_mfcc,
            height=self.image_encoder.height,
        )

    def fit(self, examples: Iterable[Recording]) -> Self:
        ear, texts, lengths = StatisticsCollector(self.audio, self.normalize), [], []
        for example in examples:
            if example.text is None:
                raise DataError(example.location, "there is no text; training needs one for each recording")
            ear.add(example)
            self._check_words(example)
            texts.append(self._spelt(example))
            lengths.append(len(example))
        if not texts:
            raise DataError(self.train, "there are no examples to learn from")
        learned = Learned(text=self.text.fit(texts), heard=ear.learned(), examples=len(texts), infeasible=0)
        doubt = self.model_copy(update={"learned": learned}).doubt
        symbols = map(learned.text.encode, texts)
        doubts = [doubt(length, target) for length, target in zip(lengths, symbols, strict=True)]
        impossible = sum(map(bool, doubts))
        if impossible == len(texts):
            raise DataError(self.train, f"nothing can be learnt from any of the {impossible} examples: {doubts[0]}")
        return self.model_copy(update={"learned": learned.model_copy(update={"infeasible": impossible})})

    def _fitted(self) -> Learned:
        if self.learned is None:
            raise ValueError("the task has learnt nothing yet: call fit first")
        return self.learned

    def _check_words(self, example: Recording) -> None:
        """Refuse a word that cannot be learnt, as nobody says how it is spelt."""
        for word in (example.text or "").split() if self.spelling == "lexicon" else ():
            if word not in self._spellings:
                raise DataError(example.location, f"the word {word[:60]!r} does not stand in {self.lexicon}")

    def _spelt(self, example: Recording) -> str:
        """The text of a recording, or of words the first spellings of all of them; a strange word is one error."""
        text = example.text or ""
        if self.spelling != "lexicon":
            return text
        return " ".join(symbol for word in text.split() for symbol in self._spellings.get(word, (UNKNOWN,)))

    @cached_property
    def _spellings(self) -> dict[str, tuple[str, ...]]:
        return first_spellings(resolve(self.lexicon), encoding=self.encoding)

    def infeasible(self, example: Recording) -> str:
        return "" if example.text is None else self.doubt(len(example), self._target(example))

    def _target(self, example: Recording) -> list[int]:
        return self._fitted().text.encode(self._spelt(example))

    def infeasible_when_augmented(self, example: Recording) -> str:
        speed, tempo = (
            Fraction(max(each, default=1.0)).limit_denominator(FINEST)
            for each in (self.augment.speed_perturb, self.augment.tempo_perturb)
        )
        if example.text is None or speed == tempo == 1 or self.infeasible(example):
            return ""
        why = self.doubt(math.ceil(len(example) / speed), self._target(example), tempo=tempo)
        rates = [f"the {name} {float(rate):g}" for name, rate in (("speed", speed), ("tempo", tempo)) if rate != 1]
        return f"{why} at {' and '.join(rates)}" if why else ""

    def doubt(self, length: int, target: Sequence[int], *, tempo: Fraction | int = 1) -> str:
        """Why a recording of that length is too short for its symbols; empty: it is not."""
        heard = self._spectrum.length(length) if self._spectrum else length
        frames, needed = self.time_reduction.frames(math.ceil(heard / tempo)), frames_needed(target)
        return f"its {len(target)} symbols need {needed} frames, and there are {frames}" if needed > frames else ""

    @cached_property
    def _spectrum(self) -> Spectrum | None:
        rate = self._fitted().heard.rate
        return self.audio.spectrum(rate) if rate else None

    def collate(self, examples: Sequence[Recording]) -> Batch:
        learned, spectrum = self._fitted(), self._spectrum
        for example in examples:
            learned.heard.check(example, window=spectrum.window if spectrum else 1)
        inputs = pad([example.values for example in examples])
        if any(example.text is None for example in examples):
            return Batch(inputs, None, 0, examples=tuple(examples))
        targets = [self._target(example) for example in examples]
        items = [
            0 if self.doubt(len(example), target) else len(target) + 1
            for example, target in zip(examples, targets, strict=True)
        ]
        return Batch(inputs, pad(targets, dtype=np.int64), sum(items), examples=tuple(examples))

    def build_model(self) -> Transcriber:
        learned = self._fitted()
        return build_transcriber(
            size=learned.heard.size,
            symbols=len(learned.text.vocabulary),
            look=self.image_encoder,
            front=self.prenet,
            recurrence=self.encoder,
            reduction=self.time_reduction,
            **build_feature_extractor(self.audio, self.augment, self.normalize, learned.heard),
        )

    def loss(self, model: Any, batch: Batch) -> Loss:
        """Of the possible examples: each counts as many symbols as it has, and one for its end."""
        if batch.target is None:
            raise ValueError("some examples of the batch have no text: there is no loss")
        logits, mask, _ = model(*batch.inputs)
        losses, possible = self._losses(logits, mask, batch)
        items = (batch.target.lengths + 1)[possible.to(batch.target.lengths.device)].sum()
        return Loss(losses.sum(), int(items))  # fewer than the batch has, where it is played too fast for some

    def _losses(self, logits: Tensor, mask: Tensor, batch: Batch) -> CTC:
        names = [f"{example.location} {example.name}".strip() for example in batch.examples]
        values, lengths = batch.target.values, batch.target.lengths
        return ctc_loss(logits, mask.sum(dim=1), values, lengths, blank=BLANK, names=names)

    def predict(self, model: Any, batch: Batch) -> Predictions:
        logits, mask, _ = model(*batch.inputs)
        found = self.search(logits.log_softmax(dim=-1), mask.sum(dim=1), blank=BLANK, guide=self._guide)
        losses: list[float | None] = [None] * len(found)
        if batch.target is not None:
            told = self._losses(logits, mask, batch)
            pairs = zip(told.losses.tolist(), told.possible.tolist(), strict=True)
            losses = [loss if possible else None for loss, possible in pairs]
        rows = zip(found, batch.examples, losses, strict=True)
        return Predictions([self._answer(best, example.name, loss) for best, example, loss in rows])

    def _answer(self, found: list[Transcript], name: str = "", loss: float | None = None) -> Transcription:
        return to_transcript(found, self._fitted().text, self._guide.lexicon, unit=self._unit, name=name, loss=loss)

    @cached_property
    def _unit(self) -> float:
        """What a frame of the search is long, in seconds of sound, otherwise in frames as they were given."""
        return self.time_reduction.whole * (self._spectrum.step / self._spectrum.rate if self._spectrum else 1)

    @cached_property
    def _guide(self) -> Guide:
        """What the search knows beside the recording."""
        if isinstance(self.search, BestPath):
            return Guide()
        text, load_run = self._fitted().text, load_language_model
        return build_guide(text, self.lexicon, self.lm, file_encoding=self.encoding, load_run=load_run) or Guide()

    def open_stream(self, model: Any, *, lag: float = 0.0) -> StreamingSession[Transcription]:
        """Transcribe one recording while it is made; a ``lag`` of the search itself goes before this one."""
        heard, text = self._fitted().heard, self._fitted().text
        refuse(
            (self.encoder.bidirectional, "encoder.bidirectional is true"),
            (self.normalize == "utterance", 'scale is "utterance"'),
            (heard.rate and self.audio.top_db, f"sound.decibels is {self.audio.top_db}"),
            (self.image_encoder.layers > 0, f"look.layers is {self.image_encoder.layers}"),
        )
        check_lag(lag)
        wait, width = math.ceil(lag / self._unit), 0 if heard.rate else heard.size
        stream = self.search.stream(symbols=len(text.vocabulary), blank=BLANK, guide=self._guide, lag=wait)
        grow = IncrementalTranscript(text, self._guide.lexicon, unit=self._unit)
        return StreamingSession(model, stream, self._answer, grow=grow, width=width, rate=heard.rate)

    @property
    def custom_layer_field(self) -> str:
        return "encoder"

    def with_options(self, **options: Unpack[PredictionOptions]) -> Self:
        if "lm" in options:
            changes = {name: getattr(options["lm"], name) for name in options["lm"].model_fields_set}
            options["lm"] = self.lm.model_copy(update=changes)
        if {"lexicon", "lm"} & options.keys() and isinstance(self.search, BestPath):
            options.setdefault("search", PrefixBeam())  # the only search with a lexicon and a language model
        return super().with_options(**options)

    def score(self, predictions: Sequence[Transcription], examples: Sequence[Recording]) -> dict[str, Any]:
        """Error rates over all symbols; the loss is of the possible transcripts alone."""
        return self._beside(predictions, examples).score(self._units)

    def metric_sums(self, predictions: Sequence[Transcription], examples: Sequence[Recording]) -> MetricSums:
        return self._beside(predictions, examples).sums(self.main_metric, self._units)

    def _beside(self, predictions: Sequence[Transcription], examples: Sequence[Recording]) -> metrics.Transcripts:
        for example in examples:
            if example.text is None:
                raise DataError(example.location, "there is no text to compare with")
        return metrics.Transcripts(
            names=[example.name or str(example.location) for example in examples],
            found=[answer.text for answer in predictions],
            wanted=[(each.text or "").lower() if self.text.lowercase else each.text or "" for each in examples],
            symbols=[answer.symbols for answer in predictions],
            spelt=[self._fitted().text.tokens(self._spelt(example)) for example in examples],
            losses=[answer.loss for answer in predictions],
        )

    @property
    def inputs_are_files(self) -> bool:
        return True

    def explain(self, model: Any, example: Recording, *, beam: bool = False, heads: bool = False) -> Explanation:  # noqa: ARG002
        """The token probabilities at each frame, timings, and the best transcripts."""
        return explain_transcript(
            self,
            model,
            example,
            encoding=self._fitted().text,
            reduction=self.time_reduction.whole,
            file_name="line.png" if self.image_encoder.layers else example.name,  # convolutions read images only
            beam=beam,
        )
