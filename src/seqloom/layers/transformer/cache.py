"""Key-value cache of self-attention, with spare slots for later elements."""

from typing import NamedTuple

import torch
from torch import Tensor

BLOCK = 16
"""Slots by which the cache grows, so that most steps write one slot and copy nothing."""

MAX_TOLIST = 64
"""Length up to which ``tolist`` is faster than indexing."""


class Cache(NamedTuple):
    """Keys and values of earlier elements, followed by spare slots for later elements.

    A state may be continued more than once. Only the first continuation writes its slots in place: the buffers record
    how far they were written (``filled``), and a state that uses fewer slots (``slots``) gets a copy.
    """

    keys: Tensor  # (B, C, H, D)
    values: Tensor  # (B, C, H, D)
    mask: Tensor  # (B, C), True where a slot is real; (B, 0) if all used slots are
    position: Tensor  # (B,), position of the next element: number of elements so far
    slots: Tensor  # (B,), slots used by this state, the same for all rows
    filled: Tensor  # (B,), slots written by any state, the same for all rows; changed in place

    @property
    def length(self) -> int:
        """Number of used slots."""
        return _first(self.slots) if self.slots.numel() else self.keys.shape[1]

    def reserve(self, added: int) -> "Cache | None":
        """Return the cache with more slots, to be written by the caller; None if they are taken or there are gaps."""
        used = self.length
        total = used + added
        if self.mask.shape[1] or not self.filled.numel() or total > self.keys.shape[1] or _first(self.filled) != used:
            return None
        self.filled.fill_(total)
        slots = self.slots + added
        position = slots if self.position is self.slots else self.position + added
        return Cache(self.keys, self.values, self.mask, position, slots, self.filled)

    def release(self, unused: int) -> "Cache":
        """Return the cache without the last slots, which were reserved but not written."""
        if not unused:
            return self
        self.filled.sub_(unused)
        slots = self.slots - unused
        position = slots if self.position is self.slots else self.position - unused
        return Cache(self.keys, self.values, self.mask, position, slots, self.filled)

    def append(self, keys: Tensor, values: Tensor, mask: Tensor | None) -> "Cache":
        """Return the cache with more keys and values, each (B, T, H, D); the mask is (B, T)."""
        used, added = self.length, keys.shape[1]
        total = used + added
        needs_gradient = torch.is_grad_enabled() and (keys.requires_grad or self.keys.requires_grad)
        grown = None if mask is not None or needs_gradient else self.reserve(added)
        if grown is not None:
            grown.keys[:, used:total] = keys
            grown.values[:, used:total] = values
            return grown
        slots = self.slots + added
        position = slots
        if mask is not None or self.position is not self.slots:
            position = self.position + (added if mask is None else mask.sum(dim=1))
        capacity = total if needs_gradient else -(-(total + 1) // BLOCK) * BLOCK
        slot_mask = self.mask
        if mask is not None or self.mask.shape[1]:
            slot_mask = _concatenate(self.real(), _full_mask(mask, keys), capacity)
        keys = _concatenate(self.keys[:, :used], keys, capacity)
        values = _concatenate(self.values[:, :used], values, capacity)
        return Cache(keys, values, slot_mask, position, slots, slots.clone())

    def select_rows(self, rows: Tensor) -> "Cache":
        """Return the cache of these rows; spare slots are not copied."""
        used = self.length
        if torch.is_grad_enabled() and self.keys.requires_grad:
            keys, values = self.keys.index_select(0, rows), self.values.index_select(0, rows)
        else:
            keys, values = (_select_used(part, rows, used) for part in (self.keys, self.values))
        mask, slots, filled = (part.index_select(0, rows) for part in (self.mask, self.slots, self.filled))
        position = slots if self.position is self.slots else self.position.index_select(0, rows)
        return Cache(keys, values, mask, position, slots, filled)

    def real(self) -> Tensor:
        """Return the mask of the used slots, (B, S)."""
        return self.mask[:, : self.length] if self.mask.shape[1] else _full_mask(None, self.keys[:, : self.length])

    def latest(self, count: int) -> "Cache":
        """Drop the first slots that no later element attends to if it attends to ``count`` earlier elements."""
        used = self.length
        if used <= count:
            return self
        if not self.mask.shape[1]:
            first = used - count
        else:
            real = self.real()
            later = real.sum(dim=1, keepdim=True) - real.cumsum(dim=1)
            first = int((~real | (later >= count)).all(dim=0).cumprod(dim=0).sum())
        kept = slice(first, used)
        slots = self.slots - first
        mask = self.mask[:, kept] if self.mask.shape[1] else self.mask
        return Cache(self.keys[:, kept], self.values[:, kept], mask, self.position, slots, slots.clone())


def start_cache(keys: Tensor, values: Tensor, mask: Tensor | None) -> Cache:
    """Return the cache of the first keys and values, each (B, T, H, D); the mask is (B, T)."""
    batch, length = keys.shape[:2]
    slots = torch.full((batch,), length, device=keys.device)
    position = slots if mask is None else mask.sum(dim=1)
    slot_mask = torch.empty(batch, 0, dtype=torch.bool, device=keys.device) if mask is None else mask
    return Cache(keys, values, slot_mask, position, slots, slots.clone())


def _select_used(values: Tensor, rows: Tensor, used: int) -> Tensor:  # (B, C, H, D) → (R, C, H, D)
    """Rows of a buffer; only the used slots are copied."""
    selected = values.new_empty(len(rows), *values.shape[1:])
    if used and len(rows):
        size = used * values.shape[2] * values.shape[3]
        source, target = (buffer.flatten(1)[:, :size] for buffer in (values, selected))
        torch.index_select(source, 0, rows, out=target)
    return selected


def _first(values: Tensor) -> int:
    return int(values[0]) if values.numel() > MAX_TOLIST else int(values.tolist()[0])


def _full_mask(mask: Tensor | None, like: Tensor) -> Tensor:
    return like.new_ones(like.shape[:2], dtype=torch.bool) if mask is None else mask


def _concatenate(old: Tensor, new: Tensor, capacity: int) -> Tensor:
    spare = capacity - old.shape[1] - new.shape[1]
    return torch.cat([old, new, *([new.new_zeros(len(new), spare, *new.shape[2:])] if spare else [])], dim=1)
