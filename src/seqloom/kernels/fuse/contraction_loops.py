"""LLVM code of a contraction for one row of the batch: nested loops, the innermost over vectors where possible."""

from collections.abc import Callable
from dataclasses import dataclass

from seqloom.kernels.fuse.symbols import Contraction
from seqloom.kernels.llvm.ir_builder import Emitter, Value, VectorSlice, integer, vector_loop


@dataclass(frozen=True)
class _Position:
    """Offsets in the left side, the right side and the output."""

    left: Value
    right: Value
    out: Value


@dataclass(frozen=True)
class _Index:
    """One loop: its size and its strides."""

    size: int
    left: int
    right: int
    out: int


def emit_contraction(emit: Emitter, contraction: Contraction, operand: Value, out: Value) -> None:
    """Compute a contraction from the address of its operand to the address of its output."""
    _ContractionBuilder(emit, contraction, operand, out).emit()


class _ContractionBuilder:
    def __init__(self, emit: Emitter, contraction: Contraction, operand: Value, out: Value) -> None:
        self._emit = emit
        self._builder = emit.builder
        self._has_right = contraction.right is not None
        self._operand = operand
        self._right = emit.advance(operand, contraction.right_start)
        self._out = out
        count = len(contraction.sizes) - contraction.summed
        indices = []
        stride = contraction.size
        for position, size in enumerate(contraction.sizes):
            stride = stride // size if position < count else 0
            right = contraction.right[position] if contraction.right is not None else 0
            indices.append(_Index(size, contraction.left[position], right, stride))
        self._outputs, self._summed = indices[:count], indices[count:]

    def emit(self) -> None:
        zero = integer(0)
        start = _Position(zero, zero, zero)
        if self._outputs and self._is_vector(self._outputs[-1]):
            *outer, inner = self._outputs
            self._nest(outer, start, lambda position: self._store_vectors(inner, position))
            return
        vectors = [index for index in self._summed if index.left == 1 and index.right == int(self._has_right)]
        if vectors:
            self._nest(self._outputs, start, lambda position: self._store_sum(vectors[-1], position))
        else:
            self._nest(self._outputs, start, self._store_number)

    @staticmethod
    def _is_vector(index: _Index) -> bool:
        return index.left in (0, 1) and index.right in (0, 1)

    def _nest(self, indices: list[_Index], position: _Position, body: Callable[[_Position], None]) -> None:
        if not indices:
            body(position)
            return
        with self._emit.loop(0, indices[0].size) as number:
            self._nest(indices[1:], self._advance(position, indices[0], number), body)

    def _advance(self, position: _Position, index: _Index, number: Value) -> _Position:
        def moved(offset: Value, stride: int) -> Value:
            return self._builder.add(offset, self._builder.mul(number, integer(stride)))

        return _Position(
            moved(position.left, index.left), moved(position.right, index.right), moved(position.out, index.out)
        )

    def _store_vectors(self, index: _Index, position: _Position) -> None:
        """Outputs side by side, a vector at a time."""

        def body(vector: VectorSlice, number: Value, _: tuple[Value, ...]) -> tuple[Value, ...]:
            here = self._advance(position, index, number)
            value = self._accumulate(
                self._summed, here, lambda place: self._term(place, vector, index.left == 1, index.right == 1)
            )
            vector.store(value, self._emit.address(self._out, here.out))
            return ()

        vector_loop(self._emit, integer(index.size), body)

    def _store_sum(self, index: _Index, position: _Position) -> None:
        """One output, whose terms are added a vector at a time."""
        others = [other for other in self._summed if other is not index]

        def body(vector: VectorSlice, number: Value, sums: tuple[Value, ...]) -> tuple[Value, ...]:
            here = self._advance(position, index, number)
            (before,) = sums
            value = self._accumulate(others, here, lambda place: self._term(place, vector, True, True))  # noqa: FBT003
            return (self._builder.fadd(before, vector.fill_rest(value)),)

        (total,) = vector_loop(self._emit, integer(index.size), body, (self._emit.splat(0.0),))
        self._store_first(self._emit.splat(self._emit.sum_lanes(total)), position)

    def _store_number(self, position: _Position) -> None:
        whole = VectorSlice(self._emit)
        value = self._accumulate(
            self._summed,
            position,
            lambda place: self._term(place, whole, False, False),  # noqa: FBT003
        )
        self._store_first(value, position)

    def _store_first(self, value: Value, position: _Position) -> None:
        self._emit.masked_store(value, self._emit.address(self._out, position.out), 1)

    def _accumulate(self, indices: list[_Index], position: _Position, term: Callable[[_Position], Value]) -> Value:
        """The sum of the terms over these indices."""
        if not indices:
            return term(position)
        index, *inner = indices
        initial = (self._emit.splat(0.0),)
        with self._emit.loop_carrying(0, index.size, 1, initial) as (number, sums, advance):
            value = self._accumulate(inner, self._advance(position, index, number), term)
            totals = advance(self._builder.fadd(sums[0], value, flags=("contract",)))
        (total,) = totals
        return total

    def _term(self, position: _Position, vector: VectorSlice, left: bool, right: bool) -> Value:  # noqa: FBT001
        """left · right at a position; a side is a vector, or one number for all lanes."""
        value = self._load(self._operand, position.left, vector, left)
        if not self._has_right:
            return value
        return self._builder.fmul(value, self._load(self._right, position.right, vector, right), flags=("contract",))

    def _load(self, base: Value, offset: Value, vector: VectorSlice, is_vector: bool) -> Value:  # noqa: FBT001
        pointer = self._emit.address(base, offset)
        return vector.load(pointer) if is_vector else self._emit.splat(self._emit.load_scalar(pointer))
