"""Transcription: speech, handwriting or pen strokes to text, without a given alignment (CTC)."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.data.batch import Batch, pad
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.preview import DataPreview
from seqloom.data.readers import pixels
from seqloom.data.readers.media import MediaDecoder, Signal
from seqloom.data.readers.pronunciations import read_pronunciations
from seqloom.data.readers.recordings import Recording, RecordingReader
from seqloom.data.readers.text_files import DataError, resolve
from seqloom.data.text.vocabulary import END
from seqloom.data.timed_text import Timed, TimedText
from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.frames.frame_search import (
    Frames,
    FrameSearch,
    Guide,
    Transcript,
    check_lag,
    unpad_frames,
)
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.decoding.tokens.search import Search
from seqloom.insight.explanation import Explanation
from seqloom.insight.gates import LabelledTrace
from seqloom.insight.label_paths import LabelPaths, label_paths
from seqloom.insight.search_report import DecoderSource, explain_generation, explain_transcript, trace_generation
from seqloom.layers.audio.spectrum import Spectrum
from seqloom.layers.ctc import CTCLosses, align, ctc_loss
from seqloom.layers.embedding import PADDING as BLANK
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Layer, Memory
from seqloom.models.encoder_decoder import EncoderDecoder, build_encoder_decoder
from seqloom.models.ensemble import Ensemble, JointTranscriberEnsemble, TranscriberEnsemble
from seqloom.models.signals.audio_features import (
    build_feature_extractor,
)
from seqloom.models.signals.encoders import FrameImages
from seqloom.models.signals.equalizer import Equalizer
from seqloom.models.signals.feature_extractor import FeatureExtractor
from seqloom.models.signals.frame_encoder import build_frame_encoder
from seqloom.models.signals.image_encoder import ImageEncoder
from seqloom.models.signals.statistics import LocatedSignal, StatisticsCollector
from seqloom.models.transcription.frame_count import FrameCount
from seqloom.models.transcription.joint_transcriber import JointTranscriber
from seqloom.models.transcription.search_guide import build_guide
from seqloom.models.transcription.spelling import LexiconVocabulary
from seqloom.models.transcription.streaming import StreamingSession, require_streamable
from seqloom.models.transcription.transcriber import Transcriber
from seqloom.models.transcription.transcripts import (
    IncrementalTranscript,
    Transcription,
    decoded_candidates,
    to_transcription,
    with_spelled_words,
)
from seqloom.tasks.language_model import load_language_model
from seqloom.tasks.task import (
    Loss,
    PredictionOptions,
    Predictions,
    Task,
    with_readable_tokens,
)
from seqloom.tasks.transcribe.decoding import TranscriptDecoder, to_transcripts
from seqloom.tasks.transcribe.minimum_bayes_risk import decode_minimum_bayes_risk
from seqloom.tasks.transcribe.scoring import TranscribeScoring
from seqloom.tasks.transcribe.settings import Learned

if TYPE_CHECKING:
    from seqloom.onnx.exported import OnnxModel
    from seqloom.standalone.interface import StandaloneModel

PREVIEWED = 100  # recordings that are read to choose defaults


class Transcribe(TranscribeScoring):
    """Transcribe speech, handwriting or pen strokes to text (CTC, attention, or both)."""

    def preview(self, source: Path | Sequence[Any]) -> DataPreview:
        return self._reader().preview(source, limit=PREVIEWED)

    @property
    def files(self) -> tuple[str, ...]:
        archive = self.folder if self.folder and not resolve(self.folder).is_dir() else ""
        lexicon = self.lexicon if self.spelling == "lexicon" else ""
        return (*super().files, *filter(None, (archive, lexicon)))

    @property
    def warnings(self) -> tuple[str, ...]:
        learned = self.fitted
        if not self.has_ctc or not learned.infeasible:
            return self._guide.notes
        count = f"{learned.infeasible} of {learned.examples} examples ({learned.infeasible / learned.examples:.2%})"
        return (f"{count} are infeasible and skipped: too few frames for their transcripts", *self._guide.notes)

    @property
    def prediction_notes(self) -> tuple[str, ...]:
        if self.spelling == "lexicon" and not self._spelling.is_readable():
            return (f"no such file: {self.lexicon}; the answers are phones, --lexicon FILE turns them into words",)
        return self._guide.notes

    def read(self, source: Path | Sequence[Any]) -> Iterator[Recording]:
        """Read a file, or Python values: file names, arrays (T, D) or (N,), or tuples of one of these and its text."""
        return self._equalizer.read(self._reader().read, source)

    @property
    def _equalizer(self) -> Equalizer[Recording]:
        return Equalizer(self.equalizer, _signal, _with_sound)

    def resolve(self, source: Path | Sequence[Any]) -> tuple[Self, tuple[str, ...]]:
        settings, note = self._reader().inspect(source)
        task = self.model_copy(update=settings)
        audio, rates = task.audio.with_rate(example.rate for example in task.read(source))
        task = task.model_copy(update={"audio": audio})
        equalizer, speakers = self._equalizer.fit(task.read, source)
        return task.model_copy(update={"equalizer": equalizer}), tuple(filter(None, (note, rates, speakers)))

    def read_inputs(self, source: Path | Sequence[Any]) -> Iterator[Recording]:
        return self._equalizer.read(self._reader().read_inputs, source)

    def input_warning(self, example: Recording) -> str:
        return self.equalizer.warning(example.equalized)

    def listed_files(self, source: Path) -> list[Path]:
        return self._reader().listed_files(source)

    def _reader(self) -> RecordingReader:
        names = ("format", "encoding", "separator", "file_column", "text_column", "group_column", "time_column")
        return RecordingReader(
            **{name: getattr(self, name) for name in names},
            files=self.folder,
            decoder=MediaDecoder(
                sample_rate=self.learned.statistics.rate if self.learned else self.audio.sample_rate,
                n_mfcc=self.audio.n_mfcc,
                line_height=self.image_encoder.height,
                image_size=self.image_size,
            ),
        )

    def fit(self, examples: Iterable[Recording]) -> Self:
        collector: StatisticsCollector | None = None
        texts, lengths = [], []
        for example in examples:
            moments = self.normalize in ("global", "streaming") or _signal(example).signal.kind == "video"
            collector = collector or StatisticsCollector(self.audio.spectrum, needs_moments=moments)
            if example.text is None:
                raise self._missing_target(example, "training")
            collector.add(_signal(example))
            self._spelling.check(example)
            texts.append(self._spelling.spell(example.text))
            lengths.append(len(example))
        if collector is None:
            raise self._no_examples()
        specials = () if self.model == "ctc" else (END,)
        text, statistics = self.text.fit(texts, specials=specials), collector.finish()
        learned = Learned(text=text, statistics=statistics, examples=len(texts), infeasible=0)
        task = self.model_copy(update={"learned": learned})
        targets = [*map(text.encode, texts)]
        reasons = [task.too_short(length, target) for length, target in zip(lengths, targets, strict=True)]
        infeasible = sum(map(bool, reasons))
        if infeasible == len(texts):
            raise DataError(self.train, f"all {infeasible} examples are infeasible: {reasons[0]}")
        changes: dict[str, Any] = {"infeasible": infeasible}
        if self.model != "ctc":
            counts = [max(task.frames.of(length), 1) for length in lengths]
            ratios = [len(target) / count for target, count in zip(targets, counts, strict=True)]
            changes["tokens_per_frame"] = float(np.quantile(ratios, 0.999))
        return self.model_copy(update={"learned": learned.model_copy(update=changes)})

    def input_length(self, example: Recording) -> float:
        return len(example) / example.rate if example.rate else len(example)

    @property
    def length_unit(self) -> str:
        return "seconds" if self.fitted.statistics.rate else "frames"

    def summarize_example(self, example: Recording) -> ExampleSummary:
        """The length of a transcript is in characters, whatever its tokens are."""
        return ExampleSummary(
            content=example.values.tobytes(),
            target=example.text or "",
            labelled=example.text is not None,
            lengths=() if example.text is None else (("text", len(example.text)),),
            values=None if example.name.lower().endswith(pixels.SUFFIXES) else example.values,
            out_of_vocabulary=self._out_of_vocabulary(example.text or ""),
        )

    def _out_of_vocabulary(self, text: str) -> list[str]:
        """The words of a transcript that task.lexicon lacks, so that the search cannot output them."""
        if self._lexicon_vocabulary is None:
            return []
        text = text.lower() if self.text.lowercase else text
        return self._lexicon_vocabulary.out_of_vocabulary(text, joined=self.text.unit == "characters")

    @cached_property
    def _lexicon_vocabulary(self) -> LexiconVocabulary | None:
        """The words of task.lexicon; None if transcripts do not consist of them, or if it cannot be read."""
        if not self.lexicon or self.spelling != "text":
            return None
        try:
            words = [entry.word for entry in read_pronunciations(resolve(self.lexicon), encoding=self.encoding)]
        except DataError:  # reported where the search reads it
            return None
        return LexiconVocabulary(word.lower() if self.text.lowercase else word for word in words)

    def example_texts(self, example: Recording) -> tuple[str, str]:
        return example.name, example.text or ""

    def with_predicted_target(self, example: Recording, prediction: Transcription) -> Recording:
        return replace(example, text=prediction.text)

    def steps(self, example: Recording) -> int:
        return self.frames.of(len(example))

    def infeasible(self, example: Recording) -> str:
        return "" if example.text is None else self.too_short(len(example), self._target(example))

    def too_short(self, length: int, target: Sequence[int], *, tempo: Fraction | int = 1) -> str:
        """Why CTC cannot align a target with a recording; empty if it can, or if there is no CTC."""
        return self.frames.too_short(length, target, tempo=tempo) if self.has_ctc else ""

    def _target(self, example: Recording) -> list[int]:
        return self.fitted.text.encode(self._spelling.spell(example.text or ""))

    def infeasible_when_augmented(self, example: Recording) -> str:
        speed, tempo = self.augment.fastest
        if example.text is None or speed == tempo == 1 or self.infeasible(example):
            return ""
        reason = self.too_short(math.ceil(len(example) / speed), self._target(example), tempo=tempo)
        factors = [f"{name} {float(factor):g}" for name, factor in (("speed", speed), ("tempo", tempo)) if factor != 1]
        return f"{reason} at {' and '.join(factors)}" if reason else ""

    @cached_property
    def frames(self) -> FrameCount:
        """The output frames of recordings."""
        return FrameCount(self._spectrum, self.time_reduction)

    @cached_property
    def _spectrum(self) -> Spectrum | None:
        """The spectrum of audio recordings; None if the inputs are already features."""
        rate = self.fitted.statistics.rate
        return self.audio.spectrum(rate) if rate else None

    def collate(self, examples: Sequence[Recording]) -> Batch:
        learned, spectrum = self.fitted, self._spectrum
        statistics, rows = learned.statistics, []
        for example in examples:
            signal = _signal(example)
            values = statistics.in_order(signal)
            ordered = signal._replace(signal=Signal(values, example.rate))
            statistics.check(ordered, window=spectrum.window if spectrum else 1)
            rows.append(statistics.scale(values) if statistics.kind == "video" else values)  # others: by the encoder
        inputs = pad(rows)
        if any(example.text is None for example in examples):
            return Batch(inputs, None, 0, examples=tuple(examples))
        targets = [self._target(example) for example in examples]
        items = [
            0 if self.too_short(len(example), target) else len(target) + 1
            for example, target in zip(examples, targets, strict=True)
        ]
        return Batch(inputs, pad(targets, dtype=np.int64), sum(items), examples=tuple(examples))

    def build_model(self) -> Transcriber | EncoderDecoder:
        learned = self.fitted
        features, first, size = self._build_features()
        encoder = build_frame_encoder(
            first,
            size=size,
            prenet=self.prenet,
            recurrence=self.encoder,
            time_reduction=self.time_reduction,
            features=features,
        )
        vocab_size = len(learned.text.vocabulary)
        if self.model == "ctc":
            return Transcriber(encoder, vocab_size=vocab_size)
        return build_encoder_decoder(
            encoder,
            Embedding(vocab_size, self.embedding_size, dropout=self.input_dropout),
            self.decoder,
            attention=self.attention,
            encoder_layer=encoder.last_layer,
            bridge=self.bridge,
            tied=self.tie_embeddings,
            scheduled_sampling=self.scheduled_sampling,
            assemble=partial(JointTranscriber, end=self._decoder.end) if self.has_ctc else None,
        )

    def _build_features(self) -> tuple[FeatureExtractor, list[Layer], int]:
        """What comes before the layers, the layers over images of lines or over spectra, and the width of a frame."""
        statistics, first = self.fitted.statistics, list[Layer]()
        if statistics.kind != "video":
            features = build_feature_extractor(self.audio, self.augment, self.normalize, statistics)
            if self.image_encoder.layers:
                first.append(self.image_encoder.build(statistics.size))
            elif self.spectral_encoder.layers:
                causal = not self.encoder.bidirectional
                blocks = self.audio.blocks if statistics.rate else 1
                first += self.spectral_encoder.build(statistics.size, blocks=blocks, causal=causal)
            return features, first, statistics.size
        images = FrameImages(ImageEncoder(self.video_encoder, self.image_size))
        augment = self.augment
        features = FeatureExtractor(images=images, tempo=augment.build_tempo(), augment=augment.build_spec_augment())
        return features, first, images.size

    @property
    def _decoder(self) -> TranscriptDecoder:
        return TranscriptDecoder(
            vocab_size=len(self.fitted.text.vocabulary),
            end=self.fitted.text.vocabulary.index(END),
            tokens_per_frame=self.fitted.tokens_per_frame,
            smoothing=self.label_smoothing,
            ctc_weight=self.ctc_weight if self.has_ctc else 0.0,
        )

    def loss(self, model: Any, batch: Batch) -> Loss:
        """Summed over the feasible examples; each counts its tokens plus one as items."""
        self._require_target(batch)
        memory, target, weight = model.encoder(*batch.inputs), batch.target, self._ctc_share
        total, feasible = memory.values.new_zeros(()), torch.ones_like(target.lengths, dtype=torch.bool)
        if weight:
            losses, feasible = self._ctc_losses(model.frame_logits(memory), memory.mask, batch)
            total = weight * losses.sum()
        if weight < 1:
            rows = feasible.nonzero().squeeze(1)
            total = total + (1 - weight) * self._decoder.loss(model, memory, target, rows)
        items = (target.lengths + 1)[feasible.to(target.lengths.device)].sum()
        return Loss(total, int(items))  # fewer items than the batch has if augmentation made examples infeasible

    @property
    def _ctc_share(self) -> float:
        """The weight of CTC in the loss."""
        return {"ctc": 1.0, "attention": 0.0, "joint": self.ctc_weight}[self.model]

    def _ctc_losses(self, logits: Tensor, mask: Tensor, batch: Batch) -> CTCLosses:
        names = [f"{example.location} {example.name}".strip() for example in batch.examples]
        values, lengths = batch.target.values, batch.target.lengths
        return ctc_loss(logits, mask.sum(dim=1), values, lengths, blank=BLANK, names=names)

    def predict(self, model: Any, batch: Batch) -> Predictions:
        memory = model.encoder(*batch.inputs)
        logits = model.member_logits(memory) if self.has_ctc else []
        lengths, examples = memory.mask.sum(dim=1), batch.examples
        references = self._reference_losses(model, memory, logits, batch)
        if isinstance(self.search, FrameSearch):
            tables = [table.log_softmax(dim=-1) for table in logits]
            nbest = decode_minimum_bayes_risk(self.search, tables, lengths, blank=BLANK, guide=self._guide)
            rows = zip(nbest, examples, references, strict=True)
            return Predictions([self._answer(best, example.name, loss) for best, example, loss in rows])
        hypotheses = self._decoder.search(model, memory, cast(Search, self.search), logits=logits, guide=self._guide)
        answers = []
        for row, (best, example, loss) in enumerate(zip(hypotheses, examples, references, strict=True)):
            frames = logits[0][row, : lengths[row]].log_softmax(dim=-1) if logits else None
            answer = self._answer(to_transcripts(best, frames), example.name, loss)
            decoded = [guided.hypothesis for guided in best]
            answers.append(replace(answer, nbest=decoded_candidates(answer.nbest, decoded, self.fitted.text)))
        return Predictions(answers)

    def _reference_losses(
        self,
        model: Any,
        memory: Memory,
        logits: Sequence[Tensor],  # of the CTC of each model; empty: there is none
        batch: Batch,
    ) -> Sequence[float | None]:
        """-log p of the reference transcripts, weighted as in training; None where there is none, or no alignment."""
        if batch.target is None:
            return [None] * len(batch.examples)
        total = torch.zeros(len(batch.examples), dtype=torch.float64)
        feasible = torch.ones_like(total, dtype=torch.bool)
        for table in logits:
            losses, feasible = self._ctc_losses(table, memory.mask, batch)
            total += self._ctc_share / len(logits) * losses.cpu()
        if self._ctc_share < 1:
            total += (1 - self._ctc_share) * self._decoder.reference_losses(model, memory, batch.target)
        pairs = zip(total.tolist(), feasible.tolist(), strict=True)
        return [loss if fits else None for loss, fits in pairs]

    def _answer(
        self,
        nbest: list[Transcript],
        name: str = "",
        loss: float | None = None,
        *,
        words: bool = True,  # the transcripts have words of the lexicon, if there is one
    ) -> Transcription:
        lexicon = self._guide.lexicon if words else None
        duration = self.frames.duration
        return to_transcription(nbest, self.fitted.text, lexicon, frame_duration=duration, name=name, loss=loss)

    def align(self, model: Any, batch: Batch) -> list[Transcription]:
        """The most probable CTC path of each text; the score is its log-probability, summed over all paths."""
        if not self.has_ctc:
            raise ValueError(
                f'this model has no CTC (task.model = "{self.model}"), which forced alignment needs: train one with '
                'task.model = "ctc" or "joint"'
            )
        transcriber = model.require_single("forced alignment")
        targets = [self._alignable(example) for example in batch.examples]
        memory = transcriber.encoder(*batch.inputs)
        logits = transcriber.frame_logits(memory)
        losses = self._ctc_losses(logits, memory.mask, batch).losses.tolist()
        frames = unpad_frames(logits.log_softmax(dim=-1), memory.mask.sum(dim=1), blank=BLANK)
        rows = zip(batch.examples, targets, frames, losses, strict=True)
        return [self._aligned(example, target, table, loss) for example, target, table, loss in rows]

    def _alignable(self, example: Recording) -> list[int]:
        """The tokens of the text of an example; DataError if it cannot be aligned."""
        if not (example.text or "").strip():
            raise self._missing_target(example, "alignment")
        self._spelling.check(example)
        spelled = self._spelling.spell(example.text or "")
        if unknown := self.fitted.text.unknown_tokens(spelled):
            shown = ", ".join(map(repr, unknown[:5]))
            raise DataError(example.location, f"the text contains tokens that the model does not know: {shown}")
        target = self._target(example)
        if reason := self.too_short(len(example), target):
            raise DataError(example.location, f"the recording is too short for its text: {reason}")
        return target

    def _aligned(self, example: Recording, target: list[int], frames: Frames, loss: float) -> Transcription:
        spans = align(frames, target, blank=BLANK)
        answer = self._answer([Transcript(target, [], -loss, -loss, 0.0, spans, [])], example.name, loss, words=False)
        counts = self._spelling.counts(example.text or "")
        return with_spelled_words(answer, counts) if counts else answer

    def ensemble_conflict(self, other: Task) -> str:
        """Models may differ in their normalisation, but not in their tokens, recordings and frames."""
        if not isinstance(other, Transcribe):
            return super().ensemble_conflict(other)
        if other.model != self.model:
            return f'are of different kinds (task.model = "{self.model}" and "{other.model}")'
        if other.fitted.text != self.fitted.text:
            return "have different vocabularies"
        inputs = [(each.kind, each.rate, each.size) for each in (self.fitted.statistics, other.fitted.statistics)]
        if inputs[0] != inputs[1] and not inputs[0][1] == inputs[1][1] > 0:  # features of sound may differ
            return "read different recordings"
        if self.frames.timing != other.frames.timing:
            return "have different frames (task.audio.window, task.audio.hop, task.time_reduction)"
        return self.equalizer.conflict(other.equalizer)

    def ensemble(self, models: Sequence[nn.Module]) -> TranscriberEnsemble | Ensemble:
        if self.model == "attention":
            return Ensemble(models)
        if self.model == "joint":
            return JointTranscriberEnsemble([cast(JointTranscriber, model) for model in models])
        return TranscriberEnsemble([cast(Transcriber, model) for model in models])

    def require_timings(self) -> None:
        if not self.has_ctc:
            raise ValueError(f'this model has no CTC (task.model = "{self.model}"): its transcripts have no times')
        if not self.fitted.statistics.rate:
            raise ValueError("the model reads images or features, not sound: there are no times in seconds; see --json")

    def timed_text(self, prediction: Transcription, *, name: str = "", duration: float = 0.0) -> TimedText:
        tokens = [self.fitted.text.readable(token) for token in prediction.tokens]
        return TimedText.within(
            duration,
            name=name or prediction.name,
            words=[Timed(word, *span) for word, span in zip(prediction.words, prediction.word_times, strict=True)],
            tokens=[Timed(token, *span) for token, span in zip(tokens, prediction.times, strict=True)],
        )

    def for_prediction(self) -> Self:
        """With pronunciations, training reads phones off the best path; users want words, which need a search."""
        if self.spelling == "lexicon" and isinstance(self.search, BestPath) and self._spelling.is_readable():
            return self.with_options(search=PrefixBeam())
        return self

    def onnx_model(self, model: Any) -> "OnnxModel":
        from seqloom.tasks.transcribe.onnx_model import onnx_model

        self.equalizer.check_export()
        return onnx_model(self, model, self._guide, None if self.model == "ctc" else self._decoder)

    def standalone_model(self, model: Any) -> "StandaloneModel":
        from seqloom.tasks.transcribe.standalone_model import standalone_model

        self.equalizer.check_export()
        return standalone_model(self, model, self._guide)

    def to_json(self, prediction: Transcription) -> dict[str, Any]:
        return with_readable_tokens(asdict(prediction), self.fitted.text)

    @cached_property
    def _guide(self) -> Guide:
        """The lexicon and the language model of the search."""
        if isinstance(self.search, BestPath):
            return Guide()
        options: dict[str, Any] = {"search": self.search, "file_encoding": self.encoding}
        text, load_run = self.fitted.text, load_language_model
        return build_guide(text, self.lexicon, self.lm, load_run=load_run, **options) or Guide()

    def open_stream(self, model: Any, *, lag: float = 0.0) -> StreamingSession[Transcription]:
        """Transcribe a recording while it is being made; a ``lag`` of the search itself takes precedence."""
        statistics, text = self.fitted.statistics, self.fitted.text
        hint = "" if self.model == "attention" else " (best_path and prefix_beam use CTC alone)"
        require_streamable(
            (isinstance(self.search, Search), f'search is "{self.search.name}", which uses the decoder{hint}'),
            (self._guide.rescores, f'lm.method is "{self.lm.method}", which reorders whole transcripts'),
            (self.encoder.bidirectional, "encoder.bidirectional is true"),
            (self.normalize in ("utterance", "level"), f'normalize is "{self.normalize}"'),
            (statistics.rate and self.audio.top_db, f"audio.top_db is {self.audio.top_db}"),
            (self.equalizer.speaker_pattern, "equalizer.speaker_pattern is set"),
            (statistics.kind == "video", "the recordings are videos"),
            (self.image_encoder.layers > 0, f"image_encoder.layers is {self.image_encoder.layers}"),
        )
        transcriber = model.require_single("a stream")
        check_lag(lag)
        frames, frame_size = math.ceil(lag / self.frames.duration), 0 if statistics.rate else statistics.size
        stream = cast(FrameSearch, self.search).stream(
            vocab_size=len(text.vocabulary), blank=BLANK, guide=self._guide, lag=frames
        )
        convert_stable = IncrementalTranscript(text, self._guide.lexicon, frame_duration=self.frames.duration)
        return StreamingSession(
            transcriber,
            stream,
            self._answer,
            convert_stable=convert_stable,
            frame_size=frame_size,
            rate=statistics.rate,
        )

    @property
    def custom_layer_field(self) -> str:
        return "encoder"

    def with_options(self, **options: Unpack[PredictionOptions]) -> Self:
        if {"lexicon", "lm"} & options.keys() and isinstance(self.search, BestPath):
            options.setdefault("search", PrefixBeam())  # the only search with a lexicon and a language model
        return super().with_options(**options)

    @property
    def inputs_are_files(self) -> bool:
        return True

    def trace_gates(self, model: Any, example: Recording) -> list[LabelledTrace]:
        seconds = len(example) / example.rate if example.rate else 0.0
        if isinstance(self.search, FrameSearch):
            traces = super().trace_gates(model, example)
        else:
            traces = trace_generation(self, model, example, source_tokens=[], encoding=self.fitted.text)
        return [
            (trace if names else replace(trace, step_seconds=seconds / trace.length), names) for trace, names in traces
        ]

    def explain(self, model: Any, example: Recording, *, beam: bool = False, heads: bool = False) -> Explanation:
        """The token probabilities at each frame, timings, and the best transcripts; of a decoder, its attention."""
        if isinstance(self.search, FrameSearch):
            return explain_transcript(
                self,
                model.require_single("an explanation"),
                example,
                encoding=self.fitted.text,
                reduction=self.time_reduction.total_factor,
                file_name="line.png" if self.image_encoder.layers else example.name,  # it reads images only
                beam=beam,
                guide=self._guide,
            )
        duration, count = self.frames.duration, self.steps(example)
        places = [f"{index * duration:.2f} s" if example.rate else f"{index * duration:g}" for index in range(count)]
        source = DecoderSource(example.name or str(example.location), places, [], [])
        text = self.fitted.text
        options: dict[str, Any] = {"beam": beam, "heads": heads, "guide": self._guide}
        return explain_generation(self, model, example, source=source, encoding=text, **options)

    def label_paths(self, model: Any, example: Recording, *, label: str, limit: int) -> LabelPaths:
        if not self.has_ctc:
            raise ValueError(f'this model has no CTC (task.model = "{self.model}"): a text has no paths')
        transcriber = model.require_single("a list of paths")
        target = self._alignable(replace(example, text=label))
        logits = transcriber.frame_logits(transcriber.encoder(*self.collate([example]).inputs))
        frames = logits[0].double().log_softmax(dim=-1).cpu().numpy()
        return label_paths(frames, target, self.fitted.text, label=label, limit=limit)


def _signal(example: Recording) -> LocatedSignal:
    signal = Signal(example.values, example.rate)
    return LocatedSignal(example.location, signal, example.name, example.channel_names)


def _with_sound(example: Recording, samples: NDArray[np.float32], share: float) -> Recording:
    return replace(example, values=samples, equalized=share)
