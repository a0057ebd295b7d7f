"""Loops over time that run only the rows of the batch that have not ended, so that padding costs nothing."""

from typing import Any, TypeVar

import torch
from torch import Tensor

from seqloom import state as states

S = TypeVar("S")


class ActiveRows:
    """The active rows of each step: rows are sorted by length, and step t runs the first ``counts[t]`` rows."""

    def __init__(
        self,
        mask: Tensor | None,  # (B, T), right-padded
        shape: tuple[int, int],  # B, T
        *,
        all_rows: bool = False,  # run all rows in all steps, in their order
    ) -> None:
        self.shape = shape
        self.counts = [shape[0]] * shape[1]
        self.order: Tensor | None = None  # (B,), None: unsorted
        self.mask = None if mask is None or bool(mask.all()) else mask
        self._indices: Tensor | None = None  # (N,), row × T + step of each active element, step by step
        if self.mask is None or all_rows:
            return
        lengths, self.order = self.mask.sum(dim=1).sort(descending=True, stable=True)
        steps = torch.arange(shape[1], device=lengths.device).unsqueeze(1)
        active = steps < lengths  # (T, B)
        self.counts = active.sum(dim=1).tolist()
        self._indices = (self.order * shape[1] + steps)[active]

    def pack(
        self,
        x: Tensor,  # (B, T, D)
    ) -> tuple[Tensor, ...]:  # (n, D) for each step
        """Split the input into the active rows of each step."""
        return self.split(self.flatten(x))

    def flatten(self, x: Tensor) -> Tensor:  # (B, T, D) → (N, D)
        """Return all active elements, step by step."""
        if self._indices is not None:
            return x.reshape(-1, x.shape[2]).index_select(0, self._indices)
        if self.mask is not None:
            x = x.masked_fill(~self.mask.unsqueeze(-1), 0)
        return x.transpose(0, 1).reshape(-1, x.shape[2])

    def split(self, flat: Tensor) -> tuple[Tensor, ...]:  # (N, D) → (n, D) for each step
        # split instead of indexing, whose gradient fills a tensor of the whole sequence at every step.
        return tuple(torch.split(flat, self.counts))

    def unpack(
        self,
        steps: list[Tensor],  # (n, D) for each step
    ) -> Tensor:  # (B, T, D), zero in the padding
        """Join the outputs of the active rows of each step."""
        flat = torch.cat(steps)
        batch, time = self.shape
        if self._indices is not None:
            out = flat.new_zeros(batch * time, flat.shape[1]).index_copy(0, self._indices, flat)
            return out.view(batch, time, flat.shape[1])
        out = flat.view(time, batch, flat.shape[1]).transpose(0, 1)
        return out if self.mask is None else out.masked_fill(~self.mask.unsqueeze(-1), 0)

    def mask_state(self, time: int, next_state: S, state: S) -> S:
        """Return the state after a step; with all rows running, those that have ended keep their state."""
        if self.mask is None or self._indices is not None:
            return next_state
        return states.where(self.mask[:, time], next_state, state)

    def sort(self, state: S) -> S:
        """Sort the rows of a state for the loop."""
        return state if self.order is None else states.select(state, self.order)

    def unsort(self, parts: list[Any]) -> Any:
        """Join the states of the rows that ran to the end and of those that ended earlier, latest first, unsorted."""
        whole = parts[0] if len(parts) == 1 else states.apply(lambda *tensors: torch.cat(tensors), *parts)
        return whole if self.order is None else states.select(whole, self.order.argsort())
