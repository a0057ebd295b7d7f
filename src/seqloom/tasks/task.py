"""The contract of a task: seven methods that lead from a file to a score, and what every task has besides."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
)

import numpy as np
from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator
from torch import Tensor, nn

from seqloom.checkpoint import RunError
from seqloom.config import ConfigSection, Document, with_changes
from seqloom.data.batch import Batch
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.length_limit import TooLong
from seqloom.data.preview import DataPreview, preview
from seqloom.data.readers.media_lists import is_media
from seqloom.data.readers.tables import SUFFIXES, suffix
from seqloom.data.readers.text_files import TABLE, DataError, MissingTargetError, encoding_problem, resolve
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.data.text.tokenizers import Tokenizer
from seqloom.decoding.frames.frame_search import FrameSearch
from seqloom.decoding.tokens.search import Search
from seqloom.insight.explanation import Explanation
from seqloom.insight.gates import LabelledTrace, trace_function
from seqloom.metrics.confidence import MetricSums
from seqloom.metrics.learning import Remedies
from seqloom.models.baseline import Baseline
from seqloom.models.encoder import LayerFactory, layer_name
from seqloom.models.stored_weights import build_with_weights
from seqloom.models.transcription.search_guide import LanguageModelConfig
from seqloom.run import Run
from seqloom.tasks.capabilities import Capabilities


def _check_encoding(encoding: str) -> str:
    if problem := encoding_problem(encoding):
        raise ValueError(problem)
    return encoding


TextEncoding = Annotated[str, AfterValidator(_check_encoding)]


Learned = TypeVar("Learned", bound=ConfigSection)


class Loss(NamedTuple):
    """A sum and its number of items, so that the parts of a batch can be added up."""

    total: Tensor  # (), summed over all items
    items: int  # what the sum is divided by
    state: Any = None  # model state after this batch, for a batch that continues it


class Predictions(NamedTuple):
    """The answers to a batch, one per row."""

    answers: list[Any]  # dataclasses: str() is for people, asdict() for JSON
    state: Any = None  # model state after this batch, for a batch that continues it


class Calibration(NamedTuple):
    """How a trained model was adjusted to the development data."""

    note: str = ""  # what has changed, for the log; empty: nothing
    network_is_unused: bool = False  # it does not help, so that the answers are those of a simpler model


class PredictionOptions(TypedDict, total=False):
    """Settings that can be changed when a trained model is used; each task supports some of them."""

    search: Search | FrameSearch
    constrain: str  # file with the allowed outputs
    lexicon: str  # file with the allowed words
    lm: LanguageModelConfig  # fields that are set replace those of the configuration
    folder: str  # folder or archive that contains the listed files
    captions: str  # file with the captions of the images
    format: str  # input format
    encoding: str  # input encoding


def require_fitted(learned: Learned | None) -> Learned:
    """The learned state of a task; ValueError if the task is not fitted yet."""
    if learned is None:
        raise ValueError("the task is not fitted yet: call fit first")
    return learned


def with_readable_tokens(prediction: dict[str, Any], tokenizer: Tokenizer) -> dict[str, Any]:
    """A prediction for JSON, in which the tokens of the best output and of the n-best are text."""
    readable = [tokenizer.readable(token) for token in prediction["tokens"]]
    nbest = [
        {**candidate, "tokens": [tokenizer.readable(token) for token in candidate["tokens"]]}
        if "tokens" in candidate
        else candidate
        for candidate in prediction["nbest"]
    ]
    return {**prediction, "tokens": readable, "nbest": nbest}


class Task(Capabilities, ABC):
    """What to learn from which files. A task has no training loop, no device, no optimizer, and writes no files.

    An example has a length (``len``, for bucketing) and a ``location`` (file and line, for error messages).
    """

    example_files: ClassVar[tuple[str, str]] = ("train.txt", "dev.txt")
    """Names that ``seqloom init`` writes for the training and the development file."""
    depends_on_data: ClassVar[Mapping[str, str]] = DEPENDS_ON_SIZE
    """How a default depends on the data, by ``section.key``; ``seqloom init`` without data leaves these keys open."""
    sequential: ClassVar[bool] = False  # the order of examples matters: held-out data are the last part
    can_hold_out: ClassVar[bool] = True  # a part of the training data can serve as development data
    option_fields: ClassVar[Mapping[str, str]] = {}
    """The prediction options of the task, and the field that each of them sets."""
    prediction_files: ClassVar[Mapping[str, str]] = {}
    """The prediction options that name files which predictions read, and the field of each."""
    data_files: ClassVar[Mapping[str, str]] = {}
    """The prediction options that name files or folders of the data, and the field of each."""
    too_long: ClassVar[tuple[TooLong, ...]] = ("skip",)
    """What can be done with training examples longer than train.max_length, the default first."""
    target_name: ClassVar[str] = "label"
    """The word for a target in messages, such as label or caption."""
    target_place: ClassVar[str] = ""
    """How the files of a folder get their targets, in the imperative."""
    input_name: ClassVar[str] = "example"
    """The word for what has a target, such as word or image."""

    train: str = Field(description="Training file. $NAME is replaced by the environment variable NAME.")
    dev: str = Field(
        "", description="Dev file, which selects the best checkpoint (empty: hold out part of the training file)."
    )
    dev_fraction: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="Fraction of the training file to hold out if there is no dev file (0: no evaluation).",
    )

    dev_fold: str = Field(
        "",
        pattern=r"^(\d{1,3}/\d{1,3})?$",
        description='Cross-validation: fold of the training file to hold out, such as "2/5" (empty: none).',
    )

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        """The defaults of the task by ``section.key``, where they differ from those of the sections.

        They may depend on what the document sets and on the training data, if they are known. Every way to configure a
        task uses them: a file, ``--task`` and ``--data``, ``seqloom init``, and Python.
        """
        return training_defaults(document, data.examples if data else None)

    def preview(self, source: Path | Sequence[Any]) -> DataPreview:
        """A first look at the training data, from which ``defaults`` chooses."""
        return preview(lambda: self.read(source), source)

    @field_validator("dev_fold")
    @classmethod
    def _check_fold(cls, text: str) -> str:
        if text:
            fold, folds = map(int, text.split("/"))
            if not 1 <= fold <= folds or folds < 2:
                raise ValueError(
                    f"expected a fold such as 2/5, from 1/{max(folds, 2)} to {max(folds, 2)}/{max(folds, 2)}"
                )
        return text

    @model_validator(mode="after")
    def _check_dev(self) -> Self:
        if self.dev and self.dev_fold:
            raise ValueError("dev and dev_fold exclude each other: remove one of them")
        if self.dev_fold and not self.can_hold_out:
            raise ValueError(f"dev_fold: the task {self.name} cannot be evaluated on a part of its training data")
        return self

    @property
    def fold(self) -> tuple[int, int] | None:
        """The fold to hold out, and the number of folds; None: no cross-validation."""
        fold, _, folds = self.dev_fold.partition("/")
        return (int(fold), int(folds)) if folds else None

    @property
    def fitted(self) -> ConfigSection:
        """``learned``; ValueError if the task is not fitted yet. Each task narrows the type."""
        return require_fitted(self.learned)

    @property
    @abstractmethod
    def main_metric(self) -> str:
        """The name of the score that chooses the best model."""

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger value of the main metric is better."""
        return True

    @property
    def files(self) -> tuple[str, ...]:
        """The files that training reads; a run can be resumed only if they are unchanged."""
        return tuple(name for name in (self.train, self.dev) if name)

    @property
    def has_formats(self) -> bool:
        """Whether the task reads files of several formats, which the configuration can choose."""
        return "format" in type(self).model_fields

    @property
    def says_how_to_read(self) -> bool:
        """Whether the configuration says how files are read, so that nothing is guessed."""
        return any(
            getattr(self, name) != field.default
            for name, field in type(self).model_fields.items()
            if name in ("format", "parallel") or name.endswith("_column")
        )

    def listed_files(self, source: Path) -> list[Path]:  # noqa: ARG002
        """The files that a data file names, such as images or recordings; they have to stay unchanged as well."""
        return []

    @property
    def gap(self) -> int:
        """Sequential tasks: examples between training and held-out data that overlap with both and are skipped."""
        return 0

    @property
    def no_bptt_reason(self) -> str:
        """Why truncated back-propagation (train.bptt_steps) is impossible; empty if it is possible."""
        return ""

    @property
    def no_max_length_reason(self) -> str:
        """Why training examples cannot be too long (train.max_length); empty if they can."""
        return ""

    @property
    def is_counting_model(self) -> bool:
        """Whether the model is estimated from counts: in a single pass, without gradients and random numbers."""
        return False

    @property
    def is_self_trained(self) -> bool:
        """Whether the model has a training algorithm of its own: no loss to minimise, and no gradients to follow."""
        return self.is_counting_model

    @property
    def warnings(self) -> tuple[str, ...]:
        """What ``fit`` noticed in the training data, for the log."""
        return ()

    def resolve(self, source: Path | Sequence[Any]) -> tuple[Self, tuple[str, ...]]:  # noqa: ARG002
        """A copy in which settings that the training data show are explicit, and a note for each of them."""
        return self, ()

    @abstractmethod
    def read(self, source: Path | Sequence[Any]) -> Iterator[Any]:
        """Yield the examples of a file (``-``: standard input) or of Python values."""

    def read_inputs(self, source: Path | Sequence[Any]) -> Iterator[Any]:
        """Yield examples to predict; they need no labels."""
        return self.read(source)

    def input_note(self, source: Path | Sequence[Any]) -> str:  # noqa: ARG002
        """What ``read_inputs`` takes a file for, where that is not evident; empty: nothing to say."""
        return ""

    def single_example_advice(self, source: Path | Sequence[Any]) -> str:  # noqa: ARG002
        """How to hold out a part of training data that are a single example; empty: nothing special."""
        return ""

    def held_out_advice(self, source: Path | Sequence[Any]) -> str:  # noqa: ARG002
        """What to do if holding out development examples leaves none to train on."""
        return f"set task.dev, or {'another task.dev_fold' if self.fold else 'task.dev_fraction=0'}"

    @abstractmethod
    def fit(self, examples: Iterable[Any]) -> Self:
        """A copy that has learned vocabularies and scales from the training examples."""

    def summarize_example(self, example: Any) -> ExampleSummary:  # noqa: ARG002
        """What ``seqloom check`` counts in an example besides its length: content, labels, columns of numbers."""
        return ExampleSummary()

    def steps(self, example: Any) -> int:
        """The time steps that the fitted model computes for an example."""
        return len(example)

    def measure(self, example: Any) -> int:
        """The length of an example that is compared with train.max_length."""
        return len(example)

    def input_length(self, example: Any) -> float:
        """The length of an input, by which ``evaluate --by length`` groups examples; see ``length_unit``."""
        return self.measure(example)

    @property
    def length_unit(self) -> str:
        """What ``input_length`` counts, such as words or seconds."""
        return "steps"

    def shorten(self, example: Any, length: int, action: TooLong) -> Iterator[Any]:
        """The parts of a long training example, each within the length: the first one, or, to split it, all."""
        raise NotImplementedError(f"the task {self.name} only skips long examples")

    def infeasible(self, example: Any) -> str:  # noqa: ARG002
        """Why the fitted task cannot learn from an example, so that training skips it; empty if it can."""
        return ""

    def infeasible_when_augmented(self, example: Any) -> str:  # noqa: ARG002
        """Why a feasible example becomes infeasible at the fastest speed perturbation; empty if it does not."""
        return ""

    @property
    def augment_example(self) -> Callable[[Any, np.random.Generator], Any] | None:
        """What changes a training example at random, each time it is read; None: nothing."""
        return None

    @abstractmethod
    def collate(self, examples: Sequence[Any]) -> Batch:
        """Turn examples into tensors of shape (B, T, ...), which can be concatenated and cut along time."""

    @abstractmethod
    def build_model(self) -> nn.Module:
        """A new model for the fitted task."""

    def loss(self, model: nn.Module, batch: Batch) -> Loss:  # noqa: ARG002
        """The loss to minimize; not needed if the model trains itself."""
        self._refuse(Task.loss, "be trained by gradient descent")

    @abstractmethod
    def predict(self, model: nn.Module, batch: Batch) -> Predictions:
        """One answer per row; needs no targets."""

    @property
    def is_calibrated(self) -> bool:
        """Whether ``calibrate_to`` adjusts the trained model to the development data."""
        return False

    def calibrate_to(
        self,
        model: nn.Module,  # noqa: ARG002
        examples: Sequence[Any],  # noqa: ARG002  for development
        *,
        predict: Callable[[], list[Any]],  # noqa: ARG002  what the model, as it is now, predicts for them
    ) -> Calibration:
        """Adjust a trained model to the development examples."""
        return Calibration()

    def as_given(self, answer: Any) -> Any:
        """A prediction for Python, with values of the types that the training data in memory had."""
        return answer

    def input_text(self, example: Any) -> str:  # noqa: ARG002
        """What a table of predictions shows of an example; empty: nothing."""
        return ""

    def example_texts(self, example: Any) -> tuple[str, str]:
        """The input and the target of an example for people; the elements of aligned sequences are separated by tabs.

        Empty what is no text.
        """
        return self.input_text(example), self.summarize_example(example).target

    def answer_text(self, prediction: Any) -> str:
        """A prediction for people, in the form of the target of ``example_texts``."""
        return str(prediction).strip()

    @property
    def answers_have_line_breaks(self) -> bool:
        """Whether the texts of predictions have several lines, as programs have, so that ``predict`` escapes them."""
        return False

    def for_prediction(self) -> Self:
        """The task as it answers users, where that differs from the evaluation in training."""
        return self

    def to_json(self, prediction: Any) -> dict[str, Any]:
        """A prediction as JSON shows it."""
        return asdict(prediction)

    @property
    def dev_is_short(self) -> bool:
        """Whether the development file has too little before its end for a good prediction of what follows."""
        return False

    @property
    def prediction_notes(self) -> tuple[str, ...]:
        """What a user should know before the first prediction, such as words of a lexicon that are never found."""
        return ()

    @abstractmethod
    def score(self, predictions: Sequence[Any], examples: Sequence[Any]) -> dict[str, Any]:
        """Metrics by name; the first ones are numbers that a learning curve can show."""

    def thorough_scores(
        self,
        examples: Sequence[Any],  # noqa: ARG002
        *,
        predict: Callable[[Sequence[Any]], list[Any]],  # noqa: ARG002  answers as users get them
    ) -> dict[str, float]:
        """Scores that take too long for an evaluation in training; ``seqloom evaluate`` adds them to the others."""
        return {}

    def degenerate_remedy(self, remedies: Remedies) -> str:
        """What to try if predictions stay degenerate."""
        longer = "" if remedies.overfitting else f" or more {remedies.train_longer}"
        return f"try another train.learning_rate ({remedies.find_learning_rate} suggests one){longer}"

    def degenerate_predictions(self, predictions: Sequence[Any], examples: Sequence[Any]) -> str:  # noqa: ARG002
        """How the predictions show that a model has learned nothing, such as one label for all; empty if not."""
        return ""

    def check_targets(self, examples: Sequence[Any]) -> None:
        """Raise a DataError if no target of the examples occurs in the training data, so that scores mean nothing."""

    def describe_unseen(self, metrics: Mapping[str, Any]) -> str:  # noqa: ARG002
        """The labels of evaluated data that the training data do not have, by their metrics; empty: none."""
        return ""

    def data_warnings(self, examples: Sequence[Any]) -> list[str]:  # noqa: ARG002
        """What is wrong with evaluated data that can be read all the same, such as gaps in time."""
        return []

    def input_warning(self, example: Any) -> str:  # noqa: ARG002
        """Why the prediction for an input means little, such as a text of unknown words; empty: nothing to say."""
        return ""

    def unknown_words(self, example: Any) -> list[str]:  # noqa: ARG002
        """The tokens of a text that are not in the vocabulary, so that the model reads them as <unk>; each once."""
        return []

    def describe_prompt(self, prompt: str) -> str:  # noqa: ARG002
        """What a model that continues texts cannot read of a prompt; empty: nothing."""
        return ""

    @property
    def reads_unknown_by(self) -> str:
        """What the model reads of an unknown word beside <unk>, such as its letters; empty: nothing."""
        return ""

    def is_empty_input(self, example: Any) -> bool:
        """Whether there is nothing in an input from which it could be answered."""
        return not len(example)

    def check_inputs(self, examples: Sequence[Any]) -> None:
        """Raise a DataError if the fitted model cannot read the examples, such as vectors with other channels."""

    def metric_sums(self, predictions: Sequence[Any], examples: Sequence[Any]) -> MetricSums | None:  # noqa: ARG002
        """Sums per example from which the main metric is computed, to compare models; None if there are none."""
        return None

    def label_pairs(self, prediction: Any, example: Any) -> Sequence[tuple[str, str]]:  # noqa: ARG002
        """The true and the predicted label of each element of an example; empty if the answers are not labels."""
        return ()

    def baseline_targets(self, example: Any) -> Iterable[Hashable]:  # noqa: ARG002
        """What the baseline counts in a training example, such as its label."""
        return ()

    def fit_baseline(self, counts: Counter[Any], examples: Sequence[Any]) -> Baseline | None:  # noqa: ARG002
        """The trivial model of the counted training targets; of several, the best on these development examples."""
        return None

    def baseline_sums(self, baseline: Baseline, examples: Sequence[Any]) -> MetricSums | None:  # noqa: ARG002
        """``metric_sums`` of the baseline, to compare a model with it example by example; None if there are none."""
        return None

    def score_baseline(self, baseline: Baseline, examples: Sequence[Any]) -> dict[str, float]:
        """The main metric of the baseline on examples, and others that it has; empty if it has none."""
        sums = self.baseline_sums(baseline, examples)
        return {} if sums is None else {self.main_metric: sums.whole}

    @property
    def answers_each_line(self) -> bool:
        """Whether each line of standard input is an input, instead of a part of a table or a sequence."""
        return True

    @property
    def custom_layer_field(self) -> str:
        """The field whose recurrent layers a custom layer can replace; empty if there is none."""
        return ""

    # Explaining and drawing. The defaults show what any task has; each task overrides what it can explain further.
    # Callers switch gradients off.

    uses_search: ClassVar[bool] = False
    """Whether predictions come from a search, which ``explain`` can show as a tree."""
    explained_together: ClassVar[bool] = False
    """Whether ``explain_together`` explains all inputs at once instead of one by one."""

    @property
    def inputs_are_files(self) -> bool:
        """Whether an input on the command line names a file of examples instead of being the input itself."""
        return False

    @property
    def reads_text(self) -> bool:
        """Whether an input is a text; otherwise it is an array, a table or a file."""
        return not self.inputs_are_files

    @property
    def reads_pairs(self) -> bool:
        """Whether an input is a pair of texts: one string with a tab or ||| between them."""
        return False

    def single_texts(self) -> Self:
        """The task as it reads single texts, for sentence vectors."""
        return self

    def explain(
        self,
        model: nn.Module,
        example: Any,
        *,
        beam: bool = False,  # noqa: ARG002  record every hypothesis of the search
        heads: bool = False,  # noqa: ARG002  record the attention of every layer and head
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

    def input_tokens(self, example: Any) -> list[str]:  # noqa: ARG002
        """The token read at each time step, in the order of reading; empty if inputs are not tokens."""
        return []

    def trace_gates(self, model: nn.Module, example: Any) -> list[LabelledTrace]:
        """Gates and states of each recurrent layer during the prediction of an example, with labelled time steps."""
        batch, tokens = self.collate([example]), self.input_tokens(example)
        return trace_function(model, lambda: self.predict(model, batch), labels=lambda _: tokens)

    def draw_predictions(
        self,
        examples: Sequence[Any],
        folder: Path,
        *,
        predict: Callable[[Sequence[Any]], list[Any]],  # answers of the best model
    ) -> None:
        """Plot predictions for the development examples into the folder of a run; by default nothing is drawn."""

    def with_layer(self, layer: LayerFactory) -> Self:
        """A copy whose recurrent layers are replaced by a custom layer or cell."""
        field = self.custom_layer_field
        if not field:
            raise ValueError(f"this {self.name} model has no recurrent layers that a custom layer could replace")
        update = {"layer_factory": layer, "custom_layer": layer_name(layer)}
        recurrence = getattr(self, field).model_copy(update=update)
        return self.model_copy(update={field: recurrence})

    def load_model(self, weights: Mapping[str, Tensor], origin: object) -> nn.Module:
        """The model with the weights of a run, which is named in errors; no more is allocated than they need."""
        return build_with_weights(self.build_model, weights, origin, trusted=self.runs_own_code)

    @property
    def runs_own_code(self) -> bool:
        """Whether the user has given a custom layer or cell."""
        field = self.custom_layer_field
        return bool(field) and getattr(self, field).layer_factory is not None

    def with_learned(self, run: Run) -> Self:
        """A copy with the learned state of a run."""
        annotation = type(self).model_fields["learned"].annotation  # Learned | None
        kind: type[ConfigSection] = get_args(annotation)[0]
        try:
            learned = kind.model_validate_json(run.learned)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
            message = problem["msg"].removeprefix("Value error, ")
            text = ": ".join(filter(None, (".".join(map(str, problem["loc"])), message)))[:200]
            raise RunError(f"{run.path / 'learned.json'}: does not fit the task {self.name} ({text})") from error
        return self.model_copy(update={"learned": learned})

    def share_learned(self, other: Self) -> Self:
        """A fitted copy with the vocabularies and scales of another task, for a model that starts from its weights."""
        return self.model_copy(update={"learned": other.fitted})

    def warm_start_conflict(self, other: "Task") -> str:  # noqa: ARG002
        """Why a new model of this task cannot start from the weights of one of another; empty if it can."""
        return ""

    def with_options(self, **options: Unpack[PredictionOptions]) -> Self:
        """A validated copy with other prediction options; ValueError for an option that the task does not have."""
        for name in options:
            if name not in self.option_fields:
                available = ", ".join(self.option_fields) or "none"
                raise ValueError(f"the task {self.name} has no option {name!r} (available: {available})")
        changes = {self.option_fields[name]: value for name, value in options.items()}
        if "lm" in options:  # only the fields that are set change
            update = {name: getattr(options["lm"], name) for name in options["lm"].model_fields_set}
            changes["lm"] = getattr(self, self.option_fields["lm"]).model_copy(update=update)
        return with_changes(self, "task", changes) if changes else self

    def ensemble_conflict(self, other: "Task") -> str:
        """Why models of this and another fitted task cannot form an ensemble; empty if they can."""
        return "" if self.learned == other.learned else "have different vocabularies"

    def _missing_target(self, example: Any, purpose: Literal["training", "evaluation", "alignment"]) -> DataError:
        name, file = self.target_name, getattr(example.location, "file", "")
        problem = f"no {name}; {purpose} needs a {name} for each {self.input_name}"
        if file == TABLE or suffix(Path(file)) in SUFFIXES:
            column = getattr(self, "label_column", "")
            named = f" (pandas: data.dropna(subset=[{column!r}]))" if isinstance(column, str) and column else ""
            return MissingTargetError(
                example.location, problem, f"remove the rows without one{named if file == TABLE else ''}"
            )
        advice = (
            f": {self.target_place}" if purpose == "training" and self.target_place and is_media(Path(file)) else ""
        )
        return DataError(example.location, f"{problem}{advice}")

    def _no_examples(self) -> DataError:
        with suppress(DataError, OSError):
            if resolve(self.train).stat().st_size == 0:
                return DataError(self.train, "found no examples to train on: the file is empty")
        return DataError(self.train, "found no examples to train on")

    def _require_target(self, batch: Batch) -> None:
        if batch.target is None:
            raise ValueError(f"cannot compute the loss: some examples of the batch have no {self.target_name}")
