"""Sequences of unequal length as rectangles of tensors, and what a task makes of several examples."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from seqloom.state import apply


class Padded(NamedTuple):
    """Sequences of unequal length side by side, padded on the right."""

    values: Tensor  # (B, T) or (B, T, D)
    mask: Tensor  # (B, T), True where real

    @property
    def lengths(self) -> Tensor:  # (B,)
        return self.mask.sum(dim=1)


class Batch(NamedTuple):
    """Some examples as tensors; ``inputs`` and ``target`` are nested named tuples, batch first, as any state is."""

    inputs: Any  # what the model reads
    target: Any  # what it should answer; None where that is not known
    items: int  # how many things are counted: sequences or elements, as the loss counts them
    continues: bool = False  # the sequences of the batch before go on in this one
    state: Any = None  # of the model after that batch; None at the start
    examples: tuple[Any, ...] = ()  # what it was made of, where the answers repeat a part of it

    def to(self, device: torch.device | str) -> "Batch":
        def move(part: Any) -> Any:
            return None if part is None else apply(lambda tensor: tensor.to(device), part)

        return self._replace(inputs=move(self.inputs), target=move(self.target), state=move(self.state))


def pad(sequences: Sequence[ArrayLike], *, fill: float = 0, dtype: Any = None) -> Padded:
    """Sequences (each (T,) or (T, D)) as one Padded; at least one step wide, so that empty rows are allowed."""
    arrays = [np.asarray(sequence, dtype=dtype) for sequence in sequences]
    longest = max((len(array) for array in arrays), default=0) or 1
    shape = max((array.shape[1:] for array in arrays), key=len, default=())
    values = np.full((len(arrays), longest, *shape), fill, dtype=arrays[0].dtype if arrays else np.int64)
    mask = np.zeros((len(arrays), longest), dtype=bool)
    for row, array in enumerate(arrays):
        values[row, : len(array)] = array
        mask[row, : len(array)] = True
    return Padded(torch.from_numpy(values), torch.from_numpy(mask))
