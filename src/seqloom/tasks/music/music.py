"""Polyphonic music: the keys of a piano that sound in the next frame (Boulanger-Lewandowski et al. 2012)."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.batch import Batch, pad
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.length_limit import TooLong
from seqloom.data.preview import DataPreview
from seqloom.data.readers.midi import KEYS, TEMPO, Frames, note_name
from seqloom.data.readers.music import MusicReader, Piece
from seqloom.data.readers.text_files import DataError
from seqloom.insight.explanation import Explanation, TokenValues
from seqloom.metrics.confidence import MetricSums
from seqloom.metrics.likelihood import nll_scores, nll_sums
from seqloom.models.baseline import Baseline
from seqloom.models.music import MusicModel
from seqloom.tasks.music.settings import Learned, MusicSettings
from seqloom.tasks.task import Loss, Predictions, require_fitted

if TYPE_CHECKING:
    from seqloom.onnx.exported import OnnxModel

PREVIEWED = 200  # pieces, for the defaults
REST = "–"  # a frame in which no key sounds


@dataclass(frozen=True, slots=True)
class MusicScore:
    """How probable a piece is."""

    nll: float  # mean negative log-likelihood of a frame, in nats
    log_likelihoods: list[float]  # of each frame
    name: str  # file of the piece; empty: unknown

    def __str__(self) -> str:
        return f"{self.nll:.4f}"


class Music(MusicSettings):
    """Learn which notes follow, to compose or to tell how usual a piece is."""

    @property
    def main_metric(self) -> str:
        return "nll"

    @property
    def no_bptt_reason(self) -> str:
        return "task.transpose moves a piece as a whole: split it by train.max_length" if self.transpose else ""

    @property
    def reads_text(self) -> bool:
        return False

    @property
    def inputs_are_files(self) -> bool:
        return True

    @property
    def answers_each_line(self) -> bool:
        return False

    @property
    def length_unit(self) -> str:
        return "frames"

    def _reader(self) -> MusicReader:
        return MusicReader(self.format, encoding=self.encoding, frames_per_beat=self.frames_per_beat)

    def preview(self, source: Path | Sequence[Any]) -> DataPreview:
        return self._reader().preview(source, limit=PREVIEWED)

    def listed_files(self, source: Path) -> list[Path]:
        return self._reader().listed_files(source)

    def read(self, source: Path | Sequence[Any]) -> Iterator[Piece]:
        """Read files, or Python values: arrays (T, 88), lists of MIDI numbers for each frame, or paths."""
        for piece in self._reader().read(source):
            if not len(piece):
                raise DataError(piece.location, "a piece without frames")
            yield piece

    @property
    def fitted(self) -> Learned:
        return require_fitted(self.learned)

    def fit(self, examples: Iterable[Piece]) -> Self:
        pieces = frames = 0
        sounding, after_sounding, stays, starts = (np.zeros(KEYS) for _ in range(4))
        tempos = []
        for piece in examples:
            pieces, frames = pieces + 1, frames + len(piece)
            before, now = _shifted(piece.frames), piece.frames
            sounding += now.sum(axis=0)
            after_sounding += before.sum(axis=0)
            stays += (before & now).sum(axis=0)
            starts += (now & ~before & 1).sum(axis=0)
            if piece.tempo:
                tempos.append(piece.tempo)
        if not pieces:
            raise self._no_examples()
        # One is added to each count, so that no key is impossible.
        learned = Learned(
            frequencies=tuple((sounding / frames).tolist()),
            stays=tuple(((stays + 1) / (after_sounding + 2)).tolist()),
            starts=tuple(((starts + 1) / (frames - after_sounding + 2)).tolist()),
            tempo=sum(tempos) / len(tempos) if tempos else TEMPO,
            length=max(round(frames / pieces), 1),
        )
        return self.model_copy(update={"learned": learned})

    def summarize_example(self, example: Piece) -> ExampleSummary:
        return ExampleSummary(content=example.frames.tobytes(), padded_size=example.frames.size)

    def shorten(self, example: Piece, length: int, action: TooLong) -> Iterator[Piece]:
        parts = (
            replace(example, frames=example.frames[start : start + length]) for start in range(0, len(example), length)
        )
        return islice(parts, 1) if action == "truncate" else parts

    def collate(self, examples: Sequence[Piece]) -> Batch:
        self.fitted  # noqa: B018  raises ValueError before the task is fitted
        inputs = pad([_shifted(piece.frames) for piece in examples], dtype=np.float32)
        target = pad([piece.frames for piece in examples], dtype=np.float32).values
        return Batch(inputs, target, int(inputs.mask.sum()), examples=tuple(examples))

    def build_model(self) -> MusicModel:
        return MusicModel(
            self.prenet,
            self.decoder,
            nade_size=self.nade_size,
            transpose=self.transpose,
            frequencies=torch.tensor(self.fitted.frequencies, dtype=torch.get_default_dtype()),
        )

    def loss(self, model: Any, batch: Batch) -> Loss:
        likelihoods = model(batch.inputs, batch.target, batch.state)
        return Loss(-likelihoods.log_probability[batch.inputs.mask].sum(), batch.items, likelihoods.state)

    def predict(self, model: Any, batch: Batch) -> Predictions:
        """The likelihood of each piece."""
        likelihoods = model(batch.inputs, batch.target, batch.state)
        answers = []
        for row, (length, piece) in enumerate(zip(batch.inputs.lengths.tolist(), batch.examples, strict=True)):
            values = likelihoods.log_probability[row, :length].tolist()
            answers.append(MusicScore(-math.fsum(values) / max(length, 1), values, piece.name))
        return Predictions(answers, likelihoods.state)

    def score(self, predictions: Sequence[MusicScore], examples: Sequence[Piece]) -> dict[str, Any]:  # noqa: ARG002
        """Negative log-likelihood, in nats."""
        return nll_scores([answer.log_likelihoods for answer in predictions], sequence="piece", element="frame")

    def metric_sums(self, predictions: Sequence[MusicScore], examples: Sequence[Piece]) -> MetricSums:  # noqa: ARG002
        return nll_sums([answer.log_likelihoods for answer in predictions])

    def fit_baseline(self, counts: Counter[Any], examples: Sequence[Piece]) -> Baseline | None:  # noqa: ARG002
        return Baseline(name="each key by whether it sounded in the frame before")

    def baseline_sums(self, baseline: Baseline, examples: Sequence[Piece]) -> MetricSums:  # noqa: ARG002
        stays, starts = np.array(self.fitted.stays), np.array(self.fitted.starts)
        likelihoods = []
        for piece in examples:
            sounds = np.where(_shifted(piece.frames) > 0, stays, starts)
            likelihoods.append(np.log(np.where(piece.frames > 0, sounds, 1 - sounds)).sum(axis=1).tolist())
        return nll_sums(likelihoods)

    def onnx_model(self, model: Any) -> "OnnxModel":
        from seqloom.tasks.music.onnx_model import onnx_model

        return onnx_model(self, model)

    @property
    def custom_layer_field(self) -> str:
        return "decoder"

    @property
    def example_prompt(self) -> str:
        return ""

    def compose(
        self,
        model: Any,
        *,
        count: int,
        length: int,
        temperature: float,
        seed: int,
        prime: Piece | None = None,
    ) -> list[Frames]:
        start: Tensor = torch.zeros(count, 0, KEYS)
        if prime is not None:
            start = torch.from_numpy(prime.frames).to(torch.float32).expand(count, -1, -1)
        played = model.sample(
            start,
            length=length or self.fitted.length,
            temperature=temperature,
            generator=torch.Generator().manual_seed(seed),
        )
        pieces = torch.cat([start, played], dim=1).numpy().astype(np.uint8)
        return list(pieces)

    def input_tokens(self, example: Piece) -> list[str]:
        """The chord of each frame that is read; before the first one, none sounds."""
        return [REST, *map(chord_name, example.frames[:-1])]

    def explain(self, model: Any, example: Piece, *, beam: bool = False, heads: bool = False) -> Explanation:  # noqa: ARG002
        """How surprising each frame is."""
        (prediction,) = self.predict(model, self.collate([example])).answers
        surprisal = [max(-value / math.log(2), 0.0) for value in prediction.log_likelihoods]
        return Explanation(
            task=self.name,
            source=example.name or str(example.location),
            prediction=prediction,
            headline=f"{prediction.nll:.4f} nats per frame ({len(example)} frames)",
            title=f"{prediction.nll:.4g} nats per frame",
            token_values=TokenValues(
                "surprisal in bits", list(map(chord_name, example.frames)), surprisal, maximum=0.0
            ),
        )


def chord_name(frame: NDArray[np.uint8]) -> str:
    """The keys that sound in a frame, from the lowest, such as C3·E4·G4."""
    return "·".join(note_name(int(key)) for key in np.flatnonzero(frame)) or REST


def _shifted(frames: Frames) -> Frames:
    """The frame before each frame; before the first one, no key sounds."""
    return np.concatenate([np.zeros((1, KEYS), dtype=np.uint8), frames[:-1]])
