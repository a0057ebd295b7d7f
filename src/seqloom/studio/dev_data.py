"""The dev data of the runs in the studio: examples to try, and the states that a model has for them."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import torch

from seqloom.data.readers.text_files import DataError
from seqloom.insight.state_search import StateIndex, index_states
from seqloom.model import Model
from seqloom.tasks.task import Task
from seqloom.training_data import dev_examples

KEPT = 4
MAX_EXAMPLES = 2_000
MAX_ELEMENTS = 20_000  # whose states are kept
BATCH = 32

Result = TypeVar("Result")


@dataclass(frozen=True)
class DevData:
    """Examples of the dev data; the first ones, if there are many."""

    examples: list[Any]
    note: str = ""  # why there are none, or that there are more


def read_dev_data(model: Model) -> DevData:
    """The dev examples of a run; none if they are not on this machine any more, or have changed."""
    try:
        examples = list(islice(dev_examples(model.config, model.trained_on), MAX_EXAMPLES + 1))
    except (DataError, OSError) as error:
        return DevData([], f"The dev data of this run cannot be shown: {error}.")
    more = len(examples) > MAX_EXAMPLES
    return DevData(examples[:MAX_EXAMPLES], f"Only the first {MAX_EXAMPLES:,} dev examples are used." if more else "")


@dataclass(frozen=True)
class DevStates:
    """The states of a model for its dev data."""

    index: StateIndex
    rows: list[int]  # the number of each indexed example among the dev examples


def index_dev_states(model: Model, data: DevData) -> DevStates:
    """The states for as many dev examples as fit."""
    task, module = model.config.task, model.module
    if task.is_self_trained:
        raise ValueError(f"a {task.name} model that is not trained by gradients has no hidden states")
    usable = [row for row, example in enumerate(data.examples) if not task.infeasible(example)]
    rows, total = list[int](), 0
    for row in usable:
        total += elements(task, data.examples[row])
        if total > MAX_ELEMENTS and rows:
            break
        rows.append(row)
    rows.sort(key=lambda row: elements(task, data.examples[row]))

    def batches() -> Iterator[tuple[list[int], Callable[[], Any]]]:
        for start in range(0, len(rows), BATCH):
            chosen = [data.examples[row] for row in rows[start : start + BATCH]]
            yield [elements(task, each) for each in chosen], partial(task.loss, module, task.collate(chosen))

    with torch.random.fork_rng(devices=[]):
        return DevStates(index_states(module, batches()), rows)


def elements(task: Task, example: Any) -> int:
    """The number of steps in which the layers read an example."""
    return len(task.input_tokens(example)) or task.steps(example)


class Cache:
    """The last results of computations, by a key that changes with the weights of a model."""

    def __init__(self) -> None:
        self._values: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[Any, ...], compute: Callable[[], Result]) -> Result:
        """The result that is kept under a key; computed if there is none."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                kept: Result = self._values[key]
                return kept
        result = compute()
        with self._lock:
            self._values[key] = result
            while len(self._values) > KEPT:
                self._values.popitem(last=False)
        return result
