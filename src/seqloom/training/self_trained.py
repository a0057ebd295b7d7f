"""Models with a training algorithm of their own (word2vec, n-gram counts, HMM), driven by the same engine as others."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from torch import Tensor, nn

from seqloom.training.config import TrainConfig
from seqloom.training.distributed import SINGLE, ProcessGroup
from seqloom.training.progress import Position, UpdateResult
from seqloom.training.update_rule import LearningRate, UpdateRule


class UpdateStats(NamedTuple):
    """What a self-trained model reports about one update."""

    loss: float  # summed
    items: int  # that it was summed over; 0: there is no loss to log
    processed: int  # elements of the data, in the model's unit


class SelfTrained(nn.Module, ABC):
    """A model that updates itself from examples: no loss function, no gradients, no optimizer.

    It is trained by a single process, which may use several threads.
    """

    examples_per_update: int = 0  # 0: a single update sees all examples
    examples: int = 0  # in the training data
    length: int = 0  # the sum of their lengths
    unit: str = "items"  # what `UpdateStats.processed` counts

    @abstractmethod
    def update(self, examples: Iterable[Any], *, rates: tuple[float, float], seed: Sequence[int]) -> UpdateStats:
        """Learn in place, while the learning rate goes from the first to the second; deterministic given the seed."""


class CountingModel(SelfTrained):
    """A model estimated from counts in a single pass over the examples."""

    @abstractmethod
    def count(self, examples: Iterable[Any]) -> None:
        """Estimate the model from all examples."""

    def update(
        self,
        examples: Iterable[Any],
        *,
        rates: tuple[float, float],  # noqa: ARG002  counts have no learning rate
        seed: Sequence[int],  # noqa: ARG002  and are not random
    ) -> UpdateStats:
        measured = _LengthCounter(examples)
        self.count(measured)
        return UpdateStats(0.0, 0, measured.length)


class SelfTrainedUpdate(UpdateRule):
    """The model's own update, on the next examples in the order of the file."""

    model: SelfTrained
    skips = False  # the model has changed itself

    def __init__(
        self,
        model: SelfTrained,
        read: Callable[[], Iterator[Any]],
        settings: TrainConfig,
        *,
        group: ProcessGroup = SINGLE,
    ) -> None:
        super().__init__(model, settings, group=group.main_only())
        self.read, self.unit, self.single_pass = read, model.unit, not model.examples_per_update

    @property
    def updates_per_epoch(self) -> int:
        return 1 if self.single_pass else max(math.ceil(self.model.examples / self.model.examples_per_update), 1)

    def chunks(self, epoch: int, skip: int) -> Iterator[Iterable[Any]]:  # noqa: ARG002  every epoch has the same order
        examples, size = self.read(), self.model.examples_per_update
        if self.single_pass:
            yield examples
            return
        for _ in islice(examples, size * skip):
            pass
        while chunk := list(islice(examples, size)):
            yield chunk

    def update(self, chunk: Iterable[Any], position: Position, learning_rate: LearningRate) -> UpdateResult:
        length = 0 if self.single_pass else sum(map(len, chunk))  # a stream is not read twice
        rates = learning_rate(0), learning_rate(length)
        seed = self.settings.seed, position.epoch, position.batch
        stats = self.model.update(chunk, rates=rates, seed=seed)
        loss = stats.loss if stats.items else None
        return UpdateResult(
            loss,
            stats.items,
            seen=length,
            processed=stats.processed,
            learning_rate=rates[0],
            finite=math.isfinite(stats.loss),
        )

    def epochs_done(self, position: Position, ahead: int = 0) -> float:
        length = self.model.length
        return position.epoch + (position.seen - position.epoch * length + ahead) / max(length, 1)

    def updates_done(self, position: Position, ahead: int = 0) -> float:
        return self.epochs_done(position, ahead) * self.updates_per_epoch

    def updates_in_epochs(self, epochs: int) -> int:
        return epochs * self.updates_per_epoch

    def updates_for_tokens(self, tokens: int, position: Position) -> float:  # noqa: ARG002  known from the start
        return tokens / max(self.model.length, 1) * self.updates_per_epoch

    def weights(self) -> dict[str, Tensor]:
        return self.model.state_dict()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The weights themselves, which may be large: not a copy, to be written before the next update."""
        return self.model.state_dict(), {}

    def load_state(self, weights: dict[str, Tensor], training: dict[str, Tensor]) -> None:  # noqa: ARG002  empty
        self.model.load_state_dict(weights)

    @property
    def copies(self) -> int:
        return 1

    def dry_run(self) -> int:
        for chunk in islice(self.chunks(0, 0), 1):
            self.model.update(chunk, rates=(1e-3, 1e-3), seed=(1, 0, 0))
        return 0

    def count_updates(self, lengths: Sequence[int], *, tokens: int | None) -> int:  # noqa: ARG002
        return 1 if self.single_pass else math.ceil(len(lengths) / self.model.examples_per_update)


class _LengthCounter:
    """Examples, one by one, and the sum of the lengths of those that were read."""

    def __init__(self, examples: Iterable[Any]) -> None:
        self.examples, self.length = examples, 0

    def __iter__(self) -> Iterator[Any]:
        for example in self.examples:
            self.length += len(example)
            yield example
