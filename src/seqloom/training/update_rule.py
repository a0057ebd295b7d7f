"""The contract of an update rule: what differs between gradient descent and self-trained models."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor, nn

from seqloom.training.config import TrainConfig
from seqloom.training.distributed import ProcessGroup
from seqloom.training.progress import Position, UpdateResult

LearningRate = Callable[[int], float]
"""The learning rate as a function of the number of tokens from now on."""


class UpdateRule(ABC):
    """A model, its training data, and how one update changes the model.

    The engine owns everything else: position, limits, schedule, evaluation, early stopping, events and snapshots.
    """

    unit: str = "items"  # what `UpdateResult.processed` counts
    single_pass: bool = False  # one update sees all examples, and nothing is left to learn after it
    skips: bool = True  # an update that is not finite leaves the model as it was

    def __init__(self, model: nn.Module, settings: TrainConfig, *, group: ProcessGroup) -> None:
        self.model, self.settings, self.group = model, settings, group

    @abstractmethod
    def chunks(self, epoch: int, skip: int) -> Iterator[Any]:
        """The data of each update of an epoch, without the first ``skip`` updates."""

    @abstractmethod
    def update(self, chunk: Any, position: Position, learning_rate: LearningRate) -> UpdateResult:
        """Change the model in place."""

    @abstractmethod
    def epochs_done(self, position: Position, ahead: int = 0) -> float:
        """Epochs with their fraction, after ``ahead`` more tokens."""

    @abstractmethod
    def updates_done(self, position: Position, ahead: int = 0) -> float:
        """Updates, with their fraction where an update spans a change of the learning rate."""

    @abstractmethod
    def updates_in_epochs(self, epochs: int) -> int | None:
        """Updates in the first epochs; None: not known before the data have been read."""

    @abstractmethod
    def updates_for_tokens(self, tokens: int, position: Position) -> float | None:
        """The estimated number of updates until ``tokens`` have been seen; None: not known yet."""

    def evaluation_weights(self) -> AbstractContextManager[None]:
        """A context in which the model has the weights that are evaluated."""
        return nullcontext()

    @abstractmethod
    def weights(self) -> dict[str, Tensor]:
        """The weights that are evaluated."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The weights, and all other tensors that are needed to resume; every process of the group has to call it."""

    @abstractmethod
    def load_state(self, weights: dict[str, Tensor], training: dict[str, Tensor]) -> None:
        """Restore what ``state`` returned."""

    @property
    @abstractmethod
    def copies(self) -> int:
        """Tensors of the size of each parameter that training keeps, the parameter included."""

    @abstractmethod
    def dry_run(self) -> int:
        """Compute the first update, and raise ValueError if it fails; the bytes kept for the backward pass."""

    @abstractmethod
    def count_updates(self, lengths: Sequence[int], *, tokens: int | None) -> int | None:
        """Updates in an epoch over examples of these lengths, which collate to ``tokens`` tokens; None: not known."""
