"""Loops over time in which a row of the batch leaves when it has ended, so that padding costs nothing."""

from typing import Any, TypeVar

import torch
from torch import Tensor

from seqloom import state as states

S = TypeVar("S")


class ActiveRows:
    """The rows that are active in each step: rows are sorted by length, and step t runs the first ``counts[t]``."""

    def __init__(
        self,
        mask: Tensor | None,  # (B, T), right-padded
        shape: tuple[int, int],  # B, T
        *,
        together: bool = False,  # all rows take part in all steps, in their own order
    ) -> None:
        self.shape = shape
        self.counts = [shape[0]] * shape[1]
        self.order: Tensor | None = None  # (B,), None: as they are
        self.mask = None if mask is None or bool(mask.all()) else mask
        self._places: Tensor | None = None  # (N,), row × T + step of each element that takes part, step by step
        if self.mask is None or together:
            return
        lengths, self.order = self.mask.sum(dim=1).sort(descending=True, stable=True)
        steps = torch.arange(shape[1], device=lengths.device).unsqueeze(1)
        active = steps < lengths  # (T, B)
        self.counts = active.sum(dim=1).tolist()
        self._places = (self.order * shape[1] + steps)[active]

    def pack(
        self,
        x: Tensor,  # (B, T, D)
    ) -> tuple[Tensor, ...]:  # (n, D) for each step
        """What the rows of each step read."""
        return self.split(self.flatten(x))

    def flatten(self, x: Tensor) -> Tensor:  # (B, T, D) → (N, D)
        """All elements that take part, step by step."""
        if self._places is not None:
            return x.reshape(-1, x.shape[2]).index_select(0, self._places)
        if self.mask is not None:
            x = x.masked_fill(~self.mask.unsqueeze(-1), 0)
        return x.transpose(0, 1).reshape(-1, x.shape[2])

    def split(self, flat: Tensor) -> tuple[Tensor, ...]:  # (N, D) → (n, D) for each step
        # Not indexing: the gradient of an index fills a tensor of the whole sequence at every step.
        return tuple(torch.split(flat, self.counts))

    def unpack(
        self,
        steps: list[Tensor],  # (n, D) for each step
    ) -> Tensor:  # (B, T, D), zero in the padding
        """What the rows of each step gave."""
        flat = torch.cat(steps)
        batch, time = self.shape
        if self._places is not None:
            out = flat.new_zeros(batch * time, flat.shape[1]).index_copy(0, self._places, flat)
            return out.view(batch, time, flat.shape[1])
        out = flat.view(time, batch, flat.shape[1]).transpose(0, 1)
        return out if self.mask is None else out.masked_fill(~self.mask.unsqueeze(-1), 0)

    def hold(self, time: int, following: S, state: S) -> S:
        """The state after a step: of rows that have ended and take part all the same, it stays as it is."""
        if self.mask is None or self._places is not None:
            return following
        return states.where(self.mask[:, time], following, state)

    def sort(self, state: S) -> S:
        """A state of all rows, as the loop wants it."""
        return state if self.order is None else states.select(state, self.order)

    def unsort(self, parts: list[Any]) -> Any:
        """The state of all rows from that of those who stayed to the end, and of those who left, the latest first."""
        whole = parts[0] if len(parts) == 1 else states.apply(lambda *each: torch.cat(each), *parts)
        return whole if self.order is None else states.select(whole, self.order.argsort())
