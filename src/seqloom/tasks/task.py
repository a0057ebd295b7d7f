"""The contract of a task: seven methods, one for each arrow from a file to a score, and what only some tasks can do."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, NoReturn, Self, TypedDict, Unpack, get_args

from pydantic import AfterValidator, Field
from torch import Tensor, nn

from seqloom import tasks
from seqloom.checkpoint import RunError
from seqloom.config import ConfigSection, with_changes
from seqloom.data.batch import Batch
from seqloom.data.readers.text_files import encoding_problem
from seqloom.decoding.frames.frame_search import FrameSearch
from seqloom.decoding.tokens.sample import Sample
from seqloom.decoding.tokens.search import Search
from seqloom.insight.explanation import Explanation
from seqloom.insight.gate_trace import LabelledTrace, trace_function
from seqloom.metrics.confidence import MetricSums
from seqloom.models.encoder import LayerFactory
from seqloom.models.streaming import StreamingSession
from seqloom.models.transcription.search_guide import LanguageModelConfig
from seqloom.run import Run


def _readable(encoding: str) -> str:
    if wrong := encoding_problem(encoding):
        raise ValueError(wrong)
    return encoding


TextEncoding = Annotated[str, AfterValidator(_readable)]


class Loss(NamedTuple):
    """A sum and the count it is divided by, so that parts of a batch can be added up."""

    total: Tensor  # (), the sum over all items
    items: int  # how many items were summed
    state: Any = None  # of the model after this batch, for the batch that continues it


class Predictions(NamedTuple):
    """The answers to a batch, one for each row in order."""

    answers: list[Any]  # dataclasses of strings, numbers and lists: str() is what a person reads, asdict() is JSON
    state: Any = None  # of the model after this batch, for the batch that continues it


class PredictionOptions(TypedDict, total=False):
    """What can be changed when a trained model is used; each task has some of them."""

    search: Search | FrameSearch
    constrain: str  # file of the only outputs allowed
    lexicon: str  # file of the only words allowed
    lm: LanguageModelConfig  # the fields that are set replace those of the configuration
    folder: str  # folder or archive of the files that a list names
    format: str  # of the input
    encoding: str  # of the input


class Task(ConfigSection, ABC):
    """What is learnt from which files. Owns no loop, no device, no file output, no optimiser.

    An example has a length (``len``, for buckets) and a ``location`` (file and line, for errors).
    """

    recommended: ClassVar[Mapping[str, Any]] = {"task.train": "train.txt", "task.dev": "dev.txt"}
    """What ``seqloom init`` writes instead of the defaults, by ``section.key``."""
    sequential: ClassVar[bool] = False  # the order of the examples matters: a share held out is the last part
    option_fields: ClassVar[Mapping[str, str]] = {}
    """The prediction options of the task, each with the field that it sets."""

    name: str = ""
    train: str = Field(description="File to learn from; $NAME is replaced by the environment variable.")
    dev: str = Field("", description="File to choose the best model by; empty: a share of the training file.")
    dev_fraction: float = Field(
        0.1, ge=0, lt=1, description="Share of the training file held out where there is no dev file."
    )

    learned: ConfigSection | None = Field(None, exclude=True)
    """What `fit` found: vocabularies, scales. Each task narrows the type."""

    @property
    @abstractmethod
    def main_metric(self) -> str:
        """The name in ``score`` by which the best model is chosen."""

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger value of that is better."""
        return True

    @property
    def files(self) -> tuple[str, ...]:
        """The files that a training reads: it goes on only where they are as they were."""
        return tuple(name for name in (self.train, self.dev) if name)

    @property
    def gap(self) -> int:
        """Of a sequential task: examples before a held-out part that overlap with it and belong to neither."""
        return 0

    @property
    def no_bptt_reason(self) -> str:
        """Why its sequences cannot be cut into pieces that are carried on (train.bptt_steps); empty: they can."""
        return ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What ``fit`` found that is worth a line in the log."""
        return ()

    @abstractmethod
    def read(self, source: Path | Sequence[Any]) -> Iterator[Any]:
        """The examples of a file (``-`` is standard input) or of Python values, one by one."""

    def read_inputs(self, source: Path | Sequence[Any]) -> Iterator[Any]:
        """The examples to be answered; labels are not needed."""
        return self.read(source)

    @abstractmethod
    def fit(self, examples: Iterable[Any]) -> Self:
        """The same task with what is learnt from the training examples before any gradient: vocabularies, scales."""

    def infeasible(self, example: Any) -> str:  # noqa: ARG002  of the tasks that know such
        """Why a fitted task can learn nothing from an example, which training leaves out; empty: it can."""
        return ""

    def infeasible_when_augmented(self, example: Any) -> str:  # noqa: ARG002  likewise
        """Why nothing is learnt from an example, though it can be, when training plays it too fast; empty: it is."""
        return ""

    @abstractmethod
    def collate(self, examples: Sequence[Any]) -> Batch:
        """Examples as tensors. Each tensor is (B, T, ...), so that sequences can be joined and cut along time."""

    @abstractmethod
    def build_model(self) -> nn.Module:
        """A fresh model of the fitted task."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """The loss that training makes small."""

    @abstractmethod
    def predict(self, model: nn.Module, batch: Batch) -> Predictions:
        """The answers for each row; needs no target."""

    @abstractmethod
    def score(self, predictions: Sequence[Any], examples: Sequence[Any]) -> dict[str, Any]:
        """The metrics of the field, by name; the first ones are numbers that a learning curve can show."""

    def metric_sums(self, predictions: Sequence[Any], examples: Sequence[Any]) -> MetricSums | None:  # noqa: ARG002  as above
        """What ``metric`` is made of, example by example, so that models can be compared on them; None: no sums."""
        return None

    @property
    def custom_layer_field(self) -> str:
        """The field whose recurrent layers a custom layer can replace; empty: there is none."""
        return ""

    # Explaining and drawing. The defaults show what any task has; each task overrides what it can explain further.
    # Callers switch gradients off.

    searches: ClassVar[bool] = False
    """Whether predictions come from a search, which ``explain`` can show as a tree."""
    explained_together: ClassVar[bool] = False
    """Whether inputs are explained only all together, by ``explain_together``, and not one by one."""

    @property
    def inputs_are_files(self) -> bool:
        """Whether an input on the command line names a file of examples instead of being the input itself."""
        return False

    def explain(
        self,
        model: nn.Module,
        example: Any,
        *,
        beam: bool = False,  # noqa: ARG002  of tasks that search: keep what became of every hypothesis
        heads: bool = False,  # noqa: ARG002  keep the attention of every layer and head
    ) -> Explanation:
        """The prediction for one example and what led to it."""
        (prediction,) = self.predict(model, self.collate([example])).answers
        note = f"the task {self.name} has no explanation of its own; --gates draws its recurrent layers"
        return Explanation(
            task=self.name,
            source=str(example.location),
            prediction=prediction,
            headline=str(prediction),
            notes=[note],
        )

    def explain_together(self, model: nn.Module, examples: Sequence[Any]) -> Explanation | None:  # noqa: ARG002
        """What only several examples show together, such as one word in several contexts; None: nothing."""
        return None

    def input_tokens(self, example: Any) -> list[str]:  # noqa: ARG002  of tasks that read tokens
        """The token read at each time step, in the order of reading; empty if inputs are not tokens."""
        return []

    def trace_gates(self, model: nn.Module, example: Any) -> list[LabelledTrace]:
        """Gates and states of each recurrent layer while an example is predicted, with the names of its time steps."""
        batch, tokens = self.collate([example]), self.input_tokens(example)
        return trace_function(model, lambda: self.predict(model, batch), labels=lambda _: tokens)

    def draw_predictions(
        self,
        examples: Sequence[Any],
        folder: Path,
        *,
        predict: Callable[[Sequence[Any]], list[Any]],  # answers of the best model
    ) -> None:
        """Draw predictions for the development examples into the folder of a run; by default nothing is drawn."""

    def with_layer(self, layer: LayerFactory) -> Self:
        """A copy whose recurrent layers are replaced by a custom layer or cell."""
        field = self.custom_layer_field
        if not field:
            raise ValueError(f"this {self.name} model has no recurrent layers that a custom layer could replace")
        name = getattr(layer, "__qualname__", type(layer).__qualname__)
        recurrence = getattr(self, field).model_copy(update={"given": layer, "custom_layer": name})
        return self.model_copy(update={field: recurrence})

    def with_learned(self, run: Run) -> Self:
        """A copy with what the task of a run has learned."""
        kind: type[ConfigSection] = get_args(type(self).model_fields["learned"].annotation)[0]  # of Learned | None
        try:
            learned = kind.model_validate_json(run.learned)
        except ValueError as error:
            raise RunError(f"{run.path / 'learned.json'}: does not fit the task {self.name}") from error
        return self.model_copy(update={"learned": learned})

    def with_options(self, **options: Unpack[PredictionOptions]) -> Self:
        """A validated copy with other prediction options; ValueError for an option that the task does not have."""
        for name in options:
            if name not in self.option_fields:
                available = ", ".join(self.option_fields) or "none"
                raise ValueError(f"the task {self.name} has no option {name!r} (available: {available})")
        changes = {self.option_fields[name]: value for name, value in options.items()}
        return with_changes(self, "task", changes) if changes else self

    def with_top_words(self, count: int) -> Self:  # noqa: ARG002  of the tasks that can
        """A copy that is evaluated on the ``count`` most frequent words only."""
        self._refuse("with_top_words", "be restricted to the most frequent words")

    def ensemble_conflict(self, other: "Task") -> str:
        """Why models of this and another fitted task cannot form an ensemble; empty: they can."""
        return "" if self.learned == other.learned else "have different vocabularies"

    def ensemble(self, models: Sequence[nn.Module]) -> nn.Module:  # noqa: ARG002
        """Several models as one, whose probabilities are averaged."""
        self._refuse("ensemble", "be part of an ensemble")

    def embed(self, model: nn.Module, batch: Batch) -> list[Any]:  # noqa: ARG002
        """Contextual vectors of the words of each row."""
        self._refuse("embed", "give contextual word vectors")

    def generate(self, model: nn.Module, prompt: str, *, length: int, sample: Sample) -> Iterator[str]:  # noqa: ARG002
        """Text that continues the prompt, piece by piece."""
        self._refuse("generate", "generate text")

    def open_stream(self, model: nn.Module, *, lag: float = 0.0) -> StreamingSession[Any]:  # noqa: ARG002
        """A session that predicts from input that comes in pieces."""
        self._refuse("open_stream", "stream")

    def export(self, model: nn.Module, path: Path) -> None:  # noqa: ARG002
        """Write the model in a format that other programs read; the suffix of the file chooses it."""
        self._refuse("export", "be exported")

    def _refuse(self, method: str, action: str) -> NoReturn:
        """TypeError that names the tasks with a method of their own."""
        able = [name for name in tasks.names() if getattr(tasks.find(name), method) is not getattr(Task, method)]
        raise TypeError(f"a model of the task {self.name} cannot {action} (tasks that can: {', '.join(able)})")
