"""Padded sequences and batches of examples."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from seqloom.state import apply


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
