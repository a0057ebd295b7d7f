"""Handwriting and drawings: the next movement of a pen, freely or to write a text (Graves 2013)."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.preview import DataPreview
from seqloom.data.readers.recordings import Recording, RecordingReader
from seqloom.data.readers.text_files import DataError
from seqloom.insight.explanation import AttentionMap, Explanation
from seqloom.metrics.confidence import MetricSums
from seqloom.metrics.likelihood import nll_scores, nll_sums
from seqloom.models.baseline import Baseline
from seqloom.models.handwriting import POINT, HandwritingModel, PenInputs, PenTargets, Strokes
from seqloom.models.stroke_distribution import DRAW, END, LIFT
from seqloom.tasks.handwriting.settings import HandwritingSettings, Learned
from seqloom.tasks.task import Loss, Predictions, require_fitted

if TYPE_CHECKING:
    from seqloom.onnx.exported import OnnxModel

PREVIEWED = 1000  # drawings, for the defaults
UNKNOWN = 0  # id of a character that the training data do not have
MAX_ROWS = 60  # of the picture of the window
ROOM = 1.5  # length that a drawing may reach, relative to the longest of the training data


@dataclass(frozen=True, slots=True)
class HandwritingScore:
    """How probable a drawing is."""

    nll: float  # mean negative log-likelihood of a point, the end included, in nats
    log_likelihoods: list[float]  # of each point and of the end, in the units of the data
    text: str  # that the drawing shows; empty: unknown

    def __str__(self) -> str:
        return f"{self.nll:.4f}" + (f"\t{self.text}" if self.text else "")


class Handwriting(HandwritingSettings):
    """Learn how a pen moves, to draw or to write texts."""

    @property
    def main_metric(self) -> str:
        return "nll"

    @property
    def no_bptt_reason(self) -> str:
        return "a drawing is learned as a whole"

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
        return "points"

    def preview(self, source: Path | Sequence[Any]) -> DataPreview:
        return self._reader().preview(source, limit=PREVIEWED)

    def read(self, source: Path | Sequence[Any]) -> Iterator[Recording]:
        """Read a file, or Python values: arrays of points, or tuples of one and its text."""
        for example in self._reader().read(source):
            _check_strokes(example)
            yield example

    def resolve(self, source: Path | Sequence[Any]) -> tuple[Self, tuple[str, ...]]:
        if self.condition != "auto":
            return self, ()
        has_texts = [bool(example.text) for example in self.preview(source).head]
        condition = "text" if has_texts and all(has_texts) else "none"
        note = "the drawings have texts: the model learns to write a given text"
        if condition == "none":
            note = "the model learns to draw freely, since " + (
                "some drawings have no text" if any(has_texts) else "the drawings have no texts"
            )
        return self.model_copy(update={"condition": condition}), (note,)

    def _reader(self) -> RecordingReader:
        return RecordingReader(self.format, encoding=self.encoding)

    @property
    def fitted(self) -> Learned:
        return require_fitted(self.learned)

    def fit(self, examples: Iterable[Recording]) -> Self:
        characters: set[str] = set()
        count = lifts = drawings = longest = 0
        total, products = np.zeros(2), np.zeros((2, 2))
        for example in examples:
            if self.condition == "text" and not example.text:
                raise self._missing_target(example, "training")
            movement = example.values[:, :2].astype(np.float64)
            characters |= set(example.text or "")
            drawings, count, longest = drawings + 1, count + len(movement), max(longest, len(movement))
            lifts += int(example.values[:, 2].sum())
            total += movement.sum(axis=0)
            products += movement.T @ movement
        if not drawings:
            raise self._no_examples()
        scale = math.sqrt(np.trace(products) / (2 * count))
        if not scale:
            raise DataError(self.train, "the pen never moves: all dx and dy are 0")
        mean = total / count
        covariance = products / count - np.outer(mean, mean)
        steps = count + drawings
        learned = Learned(
            characters=tuple(sorted(characters)) if self.condition == "text" else (),
            scale=scale,
            mean=(float(mean[0]), float(mean[1])),
            covariance=(float(covariance[0, 0]), float(covariance[1, 1]), float(covariance[0, 1])),
            pen=((count - lifts) / steps, lifts / steps, drawings / steps),
            longest=longest,
            end_of_text=self.condition == "text",
            never_empty=True,
        )
        return self.model_copy(update={"learned": learned})

    def answer_text(self, prediction: HandwritingScore) -> str:
        return f"{prediction.nll:.4f}"  # without the text, which is given

    def summarize_example(self, example: Recording) -> ExampleSummary:
        return ExampleSummary(
            content=example.values.tobytes(),
            target=example.text or "",
            labelled=example.text is not None,
            values=example.values,
            padded_size=example.values.size,
        )

    def collate(self, examples: Sequence[Recording]) -> Batch:
        scaled = [self._scaled(example.values) for example in examples]
        rest = np.zeros((1, POINT), dtype=np.float32)
        points = pad([np.concatenate([rest, values]) for values in scaled])
        movement = pad([np.concatenate([values[:, :2], rest[:, :2]]) for values in scaled]).values
        pen = pad([np.append(np.where(values[:, 2] > 0, LIFT, DRAW), END) for values in scaled]).values
        inputs = PenInputs(points, self._encode([example.text or "" for example in examples]))
        return Batch(inputs, PenTargets(movement, pen), int(points.mask.sum()), examples=tuple(examples))

    def _scaled(self, values: Strokes) -> Strokes:
        scaled: Strokes = (values / np.array([self.fitted.scale, self.fitted.scale, 1.0])).astype(np.float32)
        return scaled

    def _encode(self, texts: Sequence[str]) -> Padded:
        """The characters of texts as ids, and the end of the text; none if the model reads no text."""
        ids = {character: number for number, character in enumerate(self.fitted.characters, start=UNKNOWN + 1)}
        end = [len(ids) + 1] * self.fitted.end_of_text
        rows = [[ids.get(character, UNKNOWN) for character in text] + end for text in texts]
        if not ids:
            return Padded(torch.zeros(len(rows), 0, dtype=torch.int64), torch.zeros(len(rows), 0, dtype=torch.bool))
        return pad([np.array(row, dtype=np.int64) for row in rows])

    def build_model(self) -> HandwritingModel:
        characters = self.fitted.characters
        return HandwritingModel(
            self.decoder,
            components=self.components,
            characters=len(characters) + 1 + self.fitted.end_of_text if characters else 0,
            window_components=self.window_components,
            end_of_text=self.fitted.end_of_text,
            never_empty=self.fitted.never_empty,
            pen=self.fitted.pen,
        )

    @property
    def _unit(self) -> float:
        """What turns the log-density of a movement of the model into that of the data."""
        return 2 * math.log(self.fitted.scale)

    def loss(self, model: Any, batch: Batch) -> Loss:
        values = model.log_probabilities(batch.inputs, batch.target)
        movements = batch.items - len(values)  # each drawing ends with a state of the pen only
        return Loss(self._unit * movements - values[batch.inputs.points.mask].sum(), batch.items)

    def predict(self, model: Any, batch: Batch) -> Predictions:
        """The likelihood of each drawing, in the units of the data."""
        values = model.log_probabilities(batch.inputs, batch.target)
        answers = []
        for row, (length, example) in enumerate(zip(batch.inputs.points.lengths.tolist(), batch.examples, strict=True)):
            *points, end = values[row, :length].tolist()
            likelihoods = [*(value - self._unit for value in points), end]
            answers.append(HandwritingScore(-math.fsum(likelihoods) / length, likelihoods, example.text or ""))
        return Predictions(answers)

    def score(self, predictions: Sequence[HandwritingScore], examples: Sequence[Recording]) -> dict[str, Any]:  # noqa: ARG002
        """Negative log-likelihood, in nats."""
        return nll_scores([answer.log_likelihoods for answer in predictions], sequence="drawing", element="point")

    def metric_sums(self, predictions: Sequence[HandwritingScore], examples: Sequence[Recording]) -> MetricSums:  # noqa: ARG002
        return nll_sums([answer.log_likelihoods for answer in predictions])

    def fit_baseline(self, counts: Counter[Any], examples: Sequence[Recording]) -> Baseline | None:  # noqa: ARG002
        return Baseline(name="a single Gaussian")

    def baseline_sums(self, baseline: Baseline, examples: Sequence[Recording]) -> MetricSums:  # noqa: ARG002
        """Every movement drawn from one Gaussian, every state of the pen from its frequency."""
        return nll_sums([self._gaussian(example.values).tolist() for example in examples])

    def _gaussian(self, values: NDArray[np.float32]) -> NDArray[np.float64]:
        """The log-likelihood of each point and of the end under the baseline."""
        learned = self.fitted
        (first, second, joint), tiny = learned.covariance, 1e-12 * learned.scale**2
        covariance = np.array([[first + tiny, joint], [joint, second + tiny]])
        distance = values[:, :2] - np.array(learned.mean)
        exponent = 0.5 * (distance @ np.linalg.inv(covariance) * distance).sum(axis=1)
        density = -exponent - math.log(2 * math.pi) - 0.5 * np.linalg.slogdet(covariance)[1]
        log_pen = np.log(np.maximum(learned.pen, 1e-9))
        pens = log_pen[np.where(values[:, 2] > 0, LIFT, DRAW)]
        return np.append(density + pens, log_pen[END])

    def onnx_model(self, model: Any) -> "OnnxModel":
        from seqloom.tasks.handwriting.onnx_model import onnx_model

        return onnx_model(self, model, room=ROOM)

    @property
    def custom_layer_field(self) -> str:
        return "decoder"

    @property
    def example_prompt(self) -> str:
        return "'your text'" if self.condition == "text" else ""

    def generate_strokes(
        self,
        model: Any,
        text: str,
        *,
        count: int,
        bias: float,
        length: int,
        seed: int,
        prime: Recording | None = None,
    ) -> list[Strokes]:
        learned = self.fitted
        if text and not learned.characters:
            raise ValueError("this model draws freely and writes no text: leave the text out")
        if learned.characters and not text:
            raise ValueError("this model writes texts: say which, as in seqloom generate RUN 'some text'")
        shown = (prime.text or "") + text if prime is not None else text
        if unknown := sorted(set(shown) - set(learned.characters) if learned.characters else set()):
            known = "".join(learned.characters)
            raise ValueError(
                f"the training data have no {', '.join(map(repr, unknown))}; the model can write: {known.strip()}"
            )
        if prime is not None and learned.characters and not prime.text:
            raise ValueError(f"{prime.location}: a drawing to continue needs its text, since the model writes texts")
        start = None
        if prime is not None:
            start = torch.from_numpy(self._scaled(prime.values)).unsqueeze(0).expand(count, -1, -1)
        drawings: list[Strokes] = model.sample(
            self._encode([shown] * count),
            length=length or self._length_limit(text),
            bias=bias,
            generator=torch.Generator().manual_seed(seed),
            prime=start,
        )
        return [drawing * np.array([learned.scale, learned.scale, 1], dtype=np.float32) for drawing in drawings]

    def _length_limit(self, text: str) -> int:
        """Points that a drawing may have: somewhat more than the longest; of a long text, more."""
        return math.ceil(ROOM * self.fitted.longest * max(1.0, len(text) / 10))

    def explain(self, model: Any, example: Recording, *, beam: bool = False, heads: bool = False) -> Explanation:
        """The likelihood of a drawing, and which character the model sees at which point."""
        explanation = super().explain(model, example, beam=beam, heads=heads)
        headline = f"{explanation.prediction.nll:.4f} nats per point ({len(example)} points)"
        explanation = replace(explanation, headline=headline, notes=[])
        windows = model.windows(self.collate([example]).inputs)
        if windows is None:
            return explanation
        seen = windows[0].numpy()
        bounds = np.unique(np.linspace(0, len(seen), min(len(seen), MAX_ROWS) + 1).astype(int))
        rows = [seen[first:last].mean(axis=0) for first, last in pairwise(bounds)]
        normed = [(row / max(row.sum(), 1e-9)).tolist() for row in rows]
        characters = [*(example.text or ""), *["end"] * self.fitted.end_of_text]
        window = AttentionMap("window over the text", [str(bound) for bound in bounds[:-1]], characters, normed)
        return replace(explanation, attention=window)


def _check_strokes(example: Recording) -> None:
    values = example.values
    if values.ndim != 2 or values.shape[1] != POINT or example.rate:
        shape = " × ".join(map(str, values.shape))
        raise DataError(
            example.location, f"expected rows of dx, dy and 1 where the pen is lifted, found {shape} numbers"
        )
    if not np.isin(values[:, 2], (0, 1)).all():
        row = int(np.argmax(~np.isin(values[:, 2], (0, 1))))
        raise DataError(
            example.location,
            f"point {row + 1}: expected 0 or 1 as the third number (1: the pen is lifted), found {values[row, 2]:g}",
        )
