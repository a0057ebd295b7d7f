"""Padded sequences and batches of examples."""

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from seqloom.state import apply

Example = TypeVar("Example", bound=Sized)


class Padded(NamedTuple):
    """Sequences of unequal length, padded on the right."""

    values: Tensor  # (B, T) or (B, T, D)
    mask: Tensor  # (B, T), True where real

    @property
    def lengths(self) -> Tensor:  # (B,)
        return self.mask.sum(dim=1)


class Batch(NamedTuple):
    """Examples as tensors; ``inputs`` and ``target`` are nested named tuples, batch first."""

    inputs: Any  # what the model reads
    target: Any  # what it should predict; None: unknown
    items: int  # sequences or elements, whatever the loss is averaged over
    continues: bool = False  # continues the sequences of the previous batch (truncated BPTT)
    state: Any = None  # model state after the previous batch; None at the start
    examples: tuple[Any, ...] = ()  # the examples, if predictions repeat a part of them

    def to(self, device: torch.device | str) -> "Batch":
        def move(part: Any) -> Any:
            return None if part is None else apply(lambda tensor: tensor.to(device), part)

        return self._replace(inputs=move(self.inputs), target=move(self.target), state=move(self.state))


MAX_WASTE = 3
"""Padded size of a batch relative to its elements, above which it is divided."""
SMALL = 1 << 20  # padded elements of a batch that is never divided


def split_by_padding(examples: Iterable[Example], rows: int) -> Iterator[list[Example]]:
    """The examples in order, at most ``rows`` at a time, and fewer where most of their batch would be padding.

    One input of 400,000 words does not make a batch of 32 that are all as long.
    """
    group: list[Example] = []
    longest = total = 0
    for example in examples:
        length = max(len(example), 1)
        padded = max(longest, length) * (len(group) + 1)
        if group and padded > SMALL and padded > MAX_WASTE * (total + length):
            yield group
            group, longest, total = [], 0, 0
        group.append(example)
        longest, total = max(longest, length), total + length
        if len(group) == rows:  # at once: the next example may be a line that is still being typed
            yield group
            group, longest, total = [], 0, 0
    if group:
        yield group


def pad(sequences: Sequence[ArrayLike], *, fill: float = 0, dtype: Any = None) -> Padded:
    """Sequences (T,) or (T, D) as one Padded, at least one step wide even if all are empty."""
    arrays = [np.asarray(sequence, dtype=dtype) for sequence in sequences]
    longest = max((len(array) for array in arrays), default=0) or 1
    shape = max((array.shape[1:] for array in arrays), key=len, default=())
    values = np.full((len(arrays), longest, *shape), fill, dtype=arrays[0].dtype if arrays else np.int64)
    mask = np.zeros((len(arrays), longest), dtype=bool)
    for row, array in enumerate(arrays):
        values[row, : len(array)] = array
        mask[row, : len(array)] = True
    return Padded(torch.from_numpy(values), torch.from_numpy(mask))
