"""What models of some tasks can do besides predicting, such as explaining, generating, streaming and exporting.

Each capability is a method that raises an error by default, with the tasks that have it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

from seqloom import tasks
from seqloom.config import ConfigSection
from seqloom.data.batch import Batch
from seqloom.data.timed_text import TimedText
from seqloom.decoding.tokens.sample import Sample
from seqloom.insight.attribution import Attribution
from seqloom.insight.explanation import Explanation
from seqloom.insight.forecast_paths import ForecastPaths
from seqloom.insight.label_paths import LabelPaths
from seqloom.layers.layer import Memory
from seqloom.metrics.backtest import Backtest
from seqloom.models.generation import GeneratedToken
from seqloom.models.transcription.streaming import StreamingSession

if TYPE_CHECKING:
    from seqloom.onnx.exported import OnnxModel
    from seqloom.standalone.interface import StandaloneModel


Generated = Literal["text", "drawings", "music", "paths"]
GENERATORS: Mapping[Generated, str] = {
    "text": "generate",
    "drawings": "generate_strokes",
    "music": "compose",
    "paths": "sample_paths",
}
"""The method of a task that generates each kind of output."""

SENTENCE_VECTORS = "; add --pooling mean for one vector per text, or call embed in Python"


def generated_by(task: "type[Capabilities]") -> Generated | None:
    """What the models of a task generate; None: nothing."""
    for kind, method in GENERATORS.items():
        if getattr(task, method) is not getattr(Capabilities, method):
            return kind
    return None


class Capabilities(ConfigSection):
    """The optional methods of a task."""

    name: str = ""
    learned: ConfigSection | None = Field(None, exclude=True)
    """What ``fit`` learned: vocabularies, scales. Each task narrows the type."""

    def _refuse(self, default: Callable[..., Any], action: str, *, instead: str = "") -> NoReturn:
        """Raise a TypeError that lists the tasks which override the default of a method."""
        able = [name for name in tasks.names() if getattr(tasks.find(name), default.__name__) is not default]
        raise TypeError(f"a model of the task {self.name} cannot {action} (tasks that can: {', '.join(able)}){instead}")

    def attribute(
        self,
        model: nn.Module,  # noqa: ARG002
        example: Any,  # noqa: ARG002
        *,
        prediction: Any,  # noqa: ARG002  what the model predicts for the example
        method: str,  # noqa: ARG002  one of insight.attribution.METHODS
        target: str = "",  # noqa: ARG002  label to explain; empty: the predicted one
        word: str | int = "",  # noqa: ARG002  word whose label is explained, or its position from 1; empty: any
    ) -> Attribution:
        """How much each input raises or lowers the score of a label."""
        self._refuse(Capabilities.attribute, "show which inputs mattered")

    @property
    def can_attribute(self) -> bool:
        """Whether ``attribute`` works for this model."""
        return False

    def label_paths(self, model: nn.Module, example: Any, *, label: str, limit: int) -> LabelPaths:  # noqa: ARG002
        """The most probable alignments of a text, of CTC models."""
        self._refuse(Capabilities.label_paths, "list CTC paths")

    def explain_together(self, model: nn.Module, examples: Sequence[Any]) -> Explanation | None:  # noqa: ARG002
        """What several examples show together, such as one word in several contexts; None if nothing."""
        return None

    def with_top_words(self, count: int) -> Self:  # noqa: ARG002
        """A copy that is evaluated on the ``count`` most frequent words only."""
        self._refuse(Capabilities.with_top_words, "be restricted to the most frequent words")

    def ensemble(self, models: Sequence[nn.Module]) -> nn.Module:  # noqa: ARG002
        """Combine several models into one, which predicts for all of them."""
        self._refuse(Capabilities.ensemble, "be part of an ensemble")

    def encode(self, model: nn.Module, batch: Batch) -> Memory:  # noqa: ARG002
        """The outputs of the encoder at the elements of each row, from which sentence vectors are pooled."""
        self._refuse(Capabilities.encode, "give sentence vectors")

    def require_sentence_vectors(self) -> None:
        """Raise an error if the task has no encoder for them, before anything is read."""
        if type(self).encode is Capabilities.encode:
            self._refuse(Capabilities.encode, "give sentence vectors")

    def embed(self, model: nn.Module, batch: Batch) -> list[Any]:  # noqa: ARG002
        """Contextual word vectors, one answer per row."""
        instead = "" if type(self).encode is Capabilities.encode else SENTENCE_VECTORS
        self._refuse(Capabilities.embed, "give contextual word vectors", instead=instead)

    def generate(
        self,
        model: nn.Module,  # noqa: ARG002
        prompt: str,  # noqa: ARG002
        *,
        length: int,  # noqa: ARG002
        sample: Sample,  # noqa: ARG002
        alternatives: int = 0,  # noqa: ARG002  most probable tokens to return with each
    ) -> Iterator[GeneratedToken]:
        """Continue the prompt token by token."""
        self._refuse(Capabilities.generate, "generate text")

    def generate_strokes(
        self,
        model: nn.Module,  # noqa: ARG002
        text: str,  # noqa: ARG002  to write; empty: none
        *,
        count: int,  # noqa: ARG002  drawings
        bias: float,  # noqa: ARG002  0: as varied as the training data; larger: tidier
        length: int,  # noqa: ARG002  maximum number of points; 0: by the training data
        seed: int,  # noqa: ARG002
        prime: Any = None,  # noqa: ARG002  example that the drawings continue
    ) -> list[NDArray[np.float32]]:
        """Drawings as movements of a pen, (T, 3) each."""
        self._refuse(Capabilities.generate_strokes, "draw")

    @property
    def example_prompt(self) -> str | None:
        """What ``seqloom generate`` is given, as an example; empty: nothing; None: the model does not generate."""
        return None

    def compose(
        self,
        model: nn.Module,  # noqa: ARG002
        *,
        count: int,  # noqa: ARG002  pieces
        length: int,  # noqa: ARG002  frames; 0: as many as a piece of the training data has on average
        temperature: float,  # noqa: ARG002
        seed: int,  # noqa: ARG002
        prime: Any = None,  # noqa: ARG002  example that the pieces continue
    ) -> list[NDArray[np.uint8]]:
        """Pieces of music as frames of keys, (T, 88) each; the frames of ``prime`` come first."""
        self._refuse(Capabilities.compose, "compose music")

    def sample_paths(
        self,
        source: Any,  # noqa: ARG002  the path of a file, or a table in memory
        *,
        count: int,  # noqa: ARG002  paths of each series
        seed: int,  # noqa: ARG002
        predict: Callable[[Sequence[Any]], list[Any]],  # noqa: ARG002  answers of the model
    ) -> list[ForecastPaths]:
        """Possible continuations of each series."""
        self._refuse(Capabilities.sample_paths, "draw sample paths")

    @property
    def generates(self) -> Generated | None:
        """What ``seqloom generate`` gets from a model; None: nothing."""
        return generated_by(type(self))

    def require_generation(self) -> Generated:
        """What ``seqloom generate`` gets from a model; TypeError if there is nothing."""
        if (kind := self.generates) is not None:
            return kind
        able = [name for name in tasks.names() if generated_by(tasks.find(name)) is not None]
        raise TypeError(f"a model of the task {self.name} generates nothing (tasks that do: {', '.join(able)})")

    def align(self, model: nn.Module, batch: Batch) -> list[Any]:  # noqa: ARG002
        """Place the given text of each recording in time: the answers that ``predict`` would give for this text."""
        self._refuse(Capabilities.align, "align a text with a recording")

    def require_timings(self) -> None:
        """Raise unless predictions have times in seconds, so that ``timed_text`` works."""
        self._refuse(Capabilities.timed_text, "give the times of words")

    def timed_text(self, prediction: Any, *, name: str = "", duration: float = 0.0) -> TimedText:  # noqa: ARG002
        """The words and tokens of a prediction with their times in seconds, for subtitles and other programs."""
        self._refuse(Capabilities.timed_text, "give the times of words")

    def open_stream(self, model: nn.Module, *, lag: float = 0.0) -> StreamingSession[Any]:  # noqa: ARG002
        """Open a session that predicts while its input is still arriving."""
        self._refuse(Capabilities.open_stream, "stream")

    def backtest(
        self,
        examples: Sequence[Any],  # noqa: ARG002  of labelled data
        *,
        step: int,  # noqa: ARG002  time steps from one origin to the next; 0: the horizon
        origins: int,  # noqa: ARG002  the last ones, of each series; 0: all
        predict: Callable[[Sequence[Any]], list[Any]],  # noqa: ARG002  answers of the model
        picture: Path | None = None,  # noqa: ARG002  file for a plot of the forecasts
    ) -> Backtest:
        """Forecast from several origins, and compare with what came."""
        self._refuse(Capabilities.backtest, "be backtested")

    def export(self, model: nn.Module, path: Path) -> None:  # noqa: ARG002
        """Write the model to a file for other programs, in a format of the task's own; the suffix chooses it."""
        if type(self).onnx_model is Capabilities.onnx_model:
            self._refuse(Capabilities.onnx_model, "be exported")
        is_compiled = type(self).standalone_model is not Capabilities.standalone_model
        suffixes = ".onnx, .o or .wasm" if is_compiled else ".onnx"
        raise ValueError(f"{path}: a model of the task {self.name} is exported as {suffixes}")

    def onnx_model(self, model: nn.Module) -> "OnnxModel":  # noqa: ARG002
        """The model as a graph of ONNX operators, which runs without Seqloom."""
        self._refuse(Capabilities.onnx_model, "be exported to ONNX")

    def standalone_model(self, model: nn.Module) -> "StandaloneModel":  # noqa: ARG002
        """The model as a function that is compiled with its weights, and that needs no runtime."""
        self._refuse(Capabilities.standalone_model, "be compiled to an object file or WebAssembly yet")

    def with_predicted_target(self, example: Any, prediction: Any) -> Any:  # noqa: ARG002
        """The example with its prediction in place of the target, so that the loss is that of the prediction."""
        self._refuse(Capabilities.with_predicted_target, "show how far back its outputs see")
