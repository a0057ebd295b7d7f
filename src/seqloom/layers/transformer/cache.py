"""What self-attention remembers: the keys and values of all elements so far, in room that is kept for later ones."""

from typing import NamedTuple

import torch
from torch import Tensor

ROOM = 16
"""Slots by which a store grows, so that most steps write one slot and copy nothing."""

MANY = 64
"""Numbers from which on it is quicker to pick one than to list all."""


class Cache(NamedTuple):
    """Keys and values of earlier elements; slots behind the used ones are room for later elements.

    A state may be gone on from twice. Slots are written in place only by the first that goes on: the store knows
    (``filled``) how far it was written, and whoever has used less of it than that (``slots``) gets a copy.
    """

    keys: Tensor  # (B, C, H, D)
    values: Tensor  # (B, C, H, D)
    mask: Tensor  # (B, C), True where a slot is real; (B, 0) where all used ones are
    position: Tensor  # (B,), of the next element: how many there were so far
    slots: Tensor  # (B,), slots that this state uses, the same for all rows
    filled: Tensor  # (B,), slots that anybody has written to, the same for all rows; changed in place

    @property
    def length(self) -> int:
        """Slots that are used."""
        return _first(self.slots) if len(self.slots) else self.keys.shape[1]

    def reserve(self, added: int) -> "Cache | None":
        """The cache with further slots, for the caller to write to; None where they are not free, or there are gaps."""
        used = self.length
        total = used + added
        if self.mask.shape[1] or not len(self.filled) or total > self.keys.shape[1] or _first(self.filled) != used:
            return None
        self.filled.fill_(total)
        slots = self.slots + added
        position = slots if self.position is self.slots else self.position + added
        return Cache(self.keys, self.values, self.mask, position, slots, self.filled)

    def append(self, keys: Tensor, values: Tensor, mask: Tensor | None) -> "Cache":
        """The cache with the elements of a further piece, each (B, T, H, D); the mask is (B, T)."""
        used, added = self.length, keys.shape[1]
        total = used + added
        recorded = torch.is_grad_enabled() and (keys.requires_grad or self.keys.requires_grad)
        grown = None if mask is not None or recorded else self.reserve(added)
        if grown is not None:
            grown.keys[:, used:total] = keys
            grown.values[:, used:total] = values
            return grown
        slots = self.slots + added
        position = slots
        if mask is not None or self.position is not self.slots:
            position = self.position + (added if mask is None else mask.sum(dim=1))
        room = total if recorded else -(-(total + 1) // ROOM) * ROOM
        known = self.mask
        if mask is not None or self.mask.shape[1]:
            known = _joined(self.real(), _whole(mask, keys), room)
        keys, values = _joined(self.keys[:, :used], keys, room), _joined(self.values[:, :used], values, room)
        return Cache(keys, values, known, position, slots, slots.clone())

    def real(self) -> Tensor:
        """The mask of the used slots, (B, S)."""
        return self.mask[:, : self.length] if self.mask.shape[1] else _whole(None, self.keys[:, : self.length])

    def latest(self, count: int) -> "Cache":
        """Without the first slots that no later element can see, if it sees ``count`` elements before itself."""
        used = self.length
        if used <= count:
            return self
        if not self.mask.shape[1]:
            first = used - count
        else:
            real = self.real()
            behind = real.sum(dim=1, keepdim=True) - real.cumsum(dim=1)
            first = int((~real | (behind >= count)).all(dim=0).cumprod(dim=0).sum())
        kept = slice(first, used)
        slots = self.slots - first
        mask = self.mask[:, kept] if self.mask.shape[1] else self.mask
        return Cache(self.keys[:, kept], self.values[:, kept], mask, self.position, slots, slots.clone())


def begin(keys: Tensor, values: Tensor, mask: Tensor | None) -> Cache:
    """The cache of a first piece, each (B, T, H, D); the mask is (B, T)."""
    batch, length = keys.shape[:2]
    slots = torch.full((batch,), length, device=keys.device)
    position = slots if mask is None else mask.sum(dim=1)
    known = torch.empty(batch, 0, dtype=torch.bool, device=keys.device) if mask is None else mask
    return Cache(keys, values, known, position, slots, slots.clone())


def _first(numbers: Tensor) -> int:
    return int(numbers[0]) if len(numbers) > MANY else int(numbers.tolist()[0])


def _whole(mask: Tensor | None, like: Tensor) -> Tensor:
    return like.new_ones(like.shape[:2], dtype=torch.bool) if mask is None else mask


def _joined(old: Tensor, new: Tensor, room: int) -> Tensor:
    rest = room - old.shape[1] - new.shape[1]
    return torch.cat([old, new, *([new.new_zeros(len(new), rest, *new.shape[2:])] if rest else [])], dim=1)
