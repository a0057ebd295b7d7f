"""The contract of a task: seven methods, one for each arrow from a file to a score."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import AfterValidator, Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.data.batch import Batch
from seqloom.data.readers.text_files import encoding_problem
from seqloom.metrics.confidence import MetricSums


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


class Task(ConfigSection, ABC):
    """What is learnt from which files. Owns no loop, no device, no file output, no optimiser.

    An example has a length (``len``, for buckets) and a ``place`` (file and line, for errors).
    """

    recommended: ClassVar[Mapping[str, Any]] = {"task.train": "train.txt", "task.dev": "dev.txt"}
    """What ``seqloom init`` writes instead of the defaults, by ``section.key``."""
    sequential: ClassVar[bool] = False  # the order of the examples matters: a share held out is the last part

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

    def represent(self, model: nn.Module, batch: Batch) -> list[Any]:  # noqa: ARG002  of the tasks that have such
        """The vectors of the words of each row, where a model has some to give."""
        raise TypeError(f"a model of the task {self.name} gives no vectors; wanted a language_model in both directions")

    @abstractmethod
    def score(self, predictions: Sequence[Any], examples: Sequence[Any]) -> dict[str, Any]:
        """The metrics of the field, by name; the first ones are numbers that a learning curve can show."""

    def metric_sums(self, predictions: Sequence[Any], examples: Sequence[Any]) -> MetricSums | None:  # noqa: ARG002  as above
        """What ``metric`` is made of, example by example, so that models can be compared on them; None: no sums."""
        return None


def asking(
    search: str = "", *, allowed: str = "", lexicon: str = "", language: str = "", folder: str = ""
) -> list[str]:
    """How a run is asked, as changes of its configuration: ``beam size=5``, files, ``words.arpa weight=0.8``."""
    files = {"allowed": allowed, "lexicon": lexicon, "folder": folder}
    changes = [f"task.{name}={json.dumps(file)}" for name, file in files.items() if file]
    if search.strip():
        name, *pairs = search.split()
        if wrong := [pair for pair in pairs if "=" not in pair]:
            raise ValueError(f"--search has {wrong[0]!r}, wanted a name and key=value pairs such as 'beam size=5'")
        changes += [f"task.search={{ name = {json.dumps(name)} }}", *(f"task.search.{pair}" for pair in pairs)]
    elif lexicon or language:
        changes.append('task.search.name="prefix_beam"')  # the only search that has room for them
    file = language.strip()
    weights: list[str] = []
    while found := re.search(r"(?:^|\s+)(\w+=\S+)$", file):  # names may have blanks
        file, weights = file[: found.start()], [f"task.lm.{found[1]}", *weights]
    return changes + ([f"task.lm.model={json.dumps(file)}"] if file else []) + weights
