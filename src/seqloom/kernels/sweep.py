"""Loops over rows of any size in whole vectors, the last of them in part."""

from collections.abc import Callable, Sequence

from seqloom.kernels.emit import Emitter, Value, integer


class Span:
    """A vector's worth of elements, or, with ``count``, only its first ones: nothing beyond them is touched."""

    def __init__(self, emit: Emitter, count: Value | None = None) -> None:
        self._emit, self._count = emit, count

    def load(self, pointer: Value) -> Value:
        """Zero beyond the elements."""
        return self._emit.load(pointer) if self._count is None else self._emit.masked_load(pointer, self._count)

    def store(self, value: Value, pointer: Value) -> None:
        if self._count is None:
            self._emit.store(value, pointer)
        else:
            self._emit.masked_store(value, pointer, self._count)

    def only(self, value: Value, other: float = 0.0) -> Value:
        """The value, and ``other`` beyond the elements."""
        if self._count is None:
            return value
        return self._emit.builder.select(self._emit.mask(self._count), value, self._emit.splat(other))


Body = Callable[[Span, Value, tuple[Value, ...]], Sequence[Value]]
"""(elements, index of the first, values so far) → next values."""


def sweep(emit: Emitter, size: Value, body: Body, initial: tuple[Value, ...] = ()) -> list[Value]:
    """Emit ``body`` for all of ``size`` elements, a vector at a time; gives the last values."""
    whole = emit.builder.and_(size, integer(-emit.lanes))
    with emit.carry(0, whole, emit.lanes, initial) as (index, values, advance):
        final = advance(*body(Span(emit), index, values))
    with emit.carry(whole, size, emit.lanes, tuple(final)) as (index, values, advance):
        span = Span(emit, emit.builder.sub(size, whole))
        final = advance(*body(span, index, values))
    return [*final]
