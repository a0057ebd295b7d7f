"""States: nested named tuples of batch-first tensors, and the four operations on them."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

S = TypeVar("S")


def apply(function: Callable[..., Tensor], state: S, *others: S) -> S:
    """Call ``function`` on every tensor of ``state`` (with the matching ones of ``others``), keeping the structure."""
    if isinstance(state, Tensor):
        return cast(S, function(state, *others))
    if not isinstance(state, tuple):
        raise TypeError(f"a state consists of tensors and tuples of them, got {type(state).__name__}")
    return _rebuild(
        state, [apply(function, *matching) for matching in zip(state, *cast(tuple[tuple[object]], others), strict=True)]
    )


class Shared(NamedTuple):
    """A table that several rows of the batch share, such as the source sentence of all its hypotheses.

    Row b of the batch reads row ``rows[b]`` of the table, so that selecting or repeating rows copies indices only.
    """

    parts: Any  # the table: a state of R rows
    rows: Tensor  # (B,)

    @property
    def times(self) -> int:
        """Consecutive rows of the batch per row of the table, if the same number for all and in order; else 0."""
        count = len(_first(self.parts))
        times, remainder = divmod(len(self.rows), count) if count else (0, 1)
        if remainder or not times:
            return 0
        regular = torch.arange(count, device=self.rows.device).unsqueeze(1).expand(-1, times)
        return times if torch.equal(self.rows.view(count, times), regular) else 0

    def gathered(self) -> Any:
        """Return the table row of each batch row, as a state of B rows."""
        return self.parts if self.times == 1 else select(self.parts, self.rows)


def select(state: S, rows: Tensor) -> S:
    """Select rows of the batch, in this order; a row may occur more than once.

    A state that need not copy all of its memory has a method ``select_rows``.
    """
    if isinstance(state, Tensor):
        return cast(S, state.index_select(0, rows))
    if isinstance(state, Shared):
        read = state.rows.index_select(0, rows)
        if len(read) >= len(state.rows):
            return cast(S, Shared(state.parts, read))
        kept, read = torch.unique(read, return_inverse=True)  # drop table rows that are no longer read
        parts = state.parts if len(kept) == len(_first(state.parts)) else select(state.parts, kept)
        return cast(S, Shared(parts, read))
    if (own := getattr(state, "select_rows", None)) is not None:
        return cast(S, own(rows))
    return _rebuild(state, [select(part, rows) for part in cast(tuple[Any, ...], state)])


def repeat(state: S, times: int) -> S:
    """Repeat every row ``times`` times, copies next to each other."""
    if isinstance(state, Tensor):
        return cast(S, state.repeat_interleave(times, dim=0))
    if isinstance(state, Shared):
        return cast(S, Shared(state.parts, state.rows.repeat_interleave(times)))
    return _rebuild(state, [repeat(part, times) for part in cast(tuple[Any, ...], state)])


def where(rows: Tensor, state: S, other: S) -> S:
    """Take the rows of ``state`` where ``rows`` (B,) is True, those of ``other`` elsewhere."""

    def choose(left: Tensor, right: Tensor) -> Tensor:
        return torch.where(rows.view(-1, *[1] * (left.dim() - 1)), left, right)

    if isinstance(state, Shared) and isinstance(other, Shared):
        if _first(state.parts) is _first(other.parts):
            return cast(S, Shared(state.parts, torch.where(rows, state.rows, other.rows)))
        parts = apply(choose, state.gathered(), other.gathered())
        return cast(S, Shared(parts, torch.arange(len(rows), device=rows.device)))
    if isinstance(state, Tensor):
        return cast(S, choose(state, cast(Tensor, other)))
    pairs = zip(cast(tuple[Any, ...], state), cast(tuple[Any, ...], other), strict=True)
    return _rebuild(state, [where(rows, left, right) for left, right in pairs])


def _rebuild(state: S, parts: list[Any]) -> S:
    return cast(S, type(state)(*parts) if hasattr(state, "_fields") else tuple(parts))


def _first(state: Any) -> Tensor:
    while not isinstance(state, Tensor):
        state = state[0]
    return state
