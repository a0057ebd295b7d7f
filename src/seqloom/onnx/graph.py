"""A graph of ONNX operators, written as expressions over named values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, DTypeLike, NDArray
from onnx import helper, numpy_helper

from seqloom.export_check import ExportError

OPSET, IR_VERSION = 20, 10
"""Versions of the operators and of the file format: those that runtimes of several years understand."""

MAX_BYTES = 2_000_000_000
"""Of the constants of a graph: a message of protobuf has less than 2 GiB."""

FLOAT, DOUBLE, INTEGER, BOOLEAN = (np.dtype(kind) for kind in (np.float32, np.float64, np.int64, np.bool_))
Axis = int | str
"""A size, or the name of a size that is known at run time only."""


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A tensor of a graph. Operators apply ONNX operators; NumPy's rules of broadcasting hold."""

    graph: "Graph"
    name: str
    dtype: np.dtype[Any]

    def __add__(self, other: "Operand") -> "Value":
        return self.graph.call("Add", self, other)

    def __sub__(self, other: "Operand") -> "Value":
        return self.graph.call("Sub", self, other)

    def __mul__(self, other: "Operand") -> "Value":
        return self.graph.call("Mul", self, other)

    def __truediv__(self, other: "Operand") -> "Value":
        return self.graph.call("Div", self, other)

    def __matmul__(self, other: "Operand") -> "Value":
        return self.graph.call("MatMul", self, other)

    def __lt__(self, other: "Operand") -> "Value":
        return self.graph.call("Less", self, other, dtype=BOOLEAN)

    def __gt__(self, other: "Operand") -> "Value":
        return self.graph.call("Greater", self, other, dtype=BOOLEAN)

    def __le__(self, other: "Operand") -> "Value":
        return self.graph.call("LessOrEqual", self, other, dtype=BOOLEAN)

    def __and__(self, other: "Operand") -> "Value":
        return self.graph.call("And", self, other, dtype=BOOLEAN)

    def __invert__(self) -> "Value":
        return self.graph.call("Not", self)

    def equals(self, other: "Operand") -> "Value":
        return self.graph.call("Equal", self, other, dtype=BOOLEAN)

    def cast(self, dtype: np.dtype[Any]) -> "Value":
        if dtype == self.dtype:
            return self
        return self.graph.call("Cast", self, dtype=dtype, to=helper.np_dtype_to_tensor_dtype(dtype))

    def apply(self, operator: str, **attributes: Any) -> "Value":
        """Apply an operator of one argument, such as Tanh."""
        return self.graph.call(operator, self, **attributes)

    def transpose(self, *axes: int) -> "Value":
        return self.graph.call("Transpose", self, perm=axes)

    def unsqueeze(self, *axes: int) -> "Value":
        return self.graph.call("Unsqueeze", self, np.array(axes))

    def squeeze(self, *axes: int) -> "Value":
        return self.graph.call("Squeeze", self, np.array(axes))

    def reshape(self, *sizes: "int | Value") -> "Value":
        """Change the shape; 0 keeps a size, and one -1 is what is left."""
        return self.graph.call("Reshape", self, self.graph.shape(*sizes))

    def expand(self, *sizes: "int | Value") -> "Value":
        """Repeat axes of size 1."""
        return self.graph.call("Expand", self, self.graph.shape(*sizes))

    def part(self, axis: int, start: "int | Value", stop: "int | Value | None" = None) -> "Value":
        """Elements from ``start`` to ``stop`` of an axis; negative numbers count from the end, None is the end."""
        ends = [self.graph.shape(bound) for bound in (start, 1 << 62 if stop is None else stop)]
        return self.graph.call("Slice", self, *ends, np.array([axis]))

    def split(self, parts: int, axis: int = -1) -> "list[Value]":
        """Cut an axis into equal parts."""
        return self.graph.calls("Split", self, outputs=parts, axis=axis, num_outputs=parts)

    def size(self, axis: int) -> "Value":
        """The size of an axis, a scalar."""
        end = {"end": axis + 1} if axis != -1 else {}
        return self.graph.call("Shape", self, dtype=INTEGER, start=axis, **end).squeeze(0)

    def sum(self, axis: int, *, keep: bool = False) -> "Value":
        return self.graph.call("ReduceSum", self, np.array([axis]), keepdims=int(keep))

    def max(self, axis: int, *, keep: bool = False) -> "Value":
        return self.graph.call("ReduceMax", self, np.array([axis]), keepdims=int(keep))

    def argmax(self, axis: int) -> "Value":
        return self.graph.call("ArgMax", self, dtype=INTEGER, axis=axis, keepdims=0)

    def take(self, indices: "Operand", axis: int = 0) -> "Value":
        """Elements of an axis by their indices."""
        return self.graph.call("Gather", self, indices, axis=axis)


Operand = Value | ArrayLike
"""A value; or a constant, which is converted to the type of the value beside it."""

Body = Callable[[list[Value], list[Value]], tuple[Sequence[Value], Sequence[Value]]]
"""A step of ``Graph.scan``: states and elements of the sequences → next states and outputs."""


@dataclass(frozen=True)
class Port:
    """An input or output of a graph."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[Axis, ...]

    def to_onnx(self) -> onnx.ValueInfoProto:
        return _describe(self.name, self.dtype, list(self.shape))


class Graph:
    """Collects the operators of a model; ``constant``, ``call`` and ``scan`` add to it, ``finish`` checks it."""

    def __init__(self) -> None:
        self.inputs: list[Port] = []
        self.outputs: list[Port] = []
        self._scopes: list[list[onnx.NodeProto]] = [[]]  # of the graph, and of the bodies that are being written
        self._constants: dict[tuple[Any, ...], Value] = {}
        self._tensors: list[onnx.TensorProto] = []
        self._count = 0

    def input(self, name: str, dtype: DTypeLike, shape: Sequence[Axis]) -> Value:
        self.inputs.append(Port(name, np.dtype(dtype), tuple(shape)))
        return Value(self, name, np.dtype(dtype))

    def output(self, name: str, value: Value, shape: Sequence[Axis]) -> None:
        self._scopes[-1].append(helper.make_node("Identity", [value.name], [name]))
        self.outputs.append(Port(name, value.dtype, tuple(shape)))

    def constant(self, array: ArrayLike, dtype: DTypeLike | None = None) -> Value:
        """A constant; equal ones are stored once."""
        values: NDArray[Any] = np.array(array, dtype=dtype, order="C")
        key = values.dtype.str, values.shape, sha256(values.tobytes()).digest()
        if key not in self._constants:
            name = self._name("constant")
            self._tensors.append(numpy_helper.from_array(values, name))
            self._constants[key] = Value(self, name, values.dtype)
        return self._constants[key]

    def call(self, operator: str, *operands: Operand, dtype: np.dtype[Any] | None = None, **attributes: Any) -> Value:
        """Apply an operator with one output, of the type of its first operand unless another one is given."""
        (value,) = self.calls(operator, *operands, dtype=dtype, **attributes)
        return value

    def calls(
        self,
        operator: str,
        *operands: Operand | None,  # None: an optional operand that is missing
        outputs: int = 1,
        dtype: np.dtype[Any] | None = None,
        **attributes: Any,
    ) -> list[Value]:
        """Apply an operator with several outputs."""
        first = next(operand for operand in operands if isinstance(operand, Value))
        names = [self._operand_name(operand, first.dtype) for operand in operands]
        results = [Value(self, self._name(operator.lower()), dtype or first.dtype) for _ in range(outputs)]
        self._scopes[-1].append(helper.make_node(operator, names, [value.name for value in results], **attributes))
        return results

    def _operand_name(self, operand: Operand | None, dtype: np.dtype[Any]) -> str:
        if operand is None:
            return ""
        if isinstance(operand, Value):
            return operand.name
        # A number takes the type of what it is combined with; an array keeps its own.
        return self.constant(operand, dtype if isinstance(operand, int | float) else None).name

    def shape(self, *sizes: "int | Value") -> Value:  # (number of sizes,)
        """Sizes as the operand of an operator."""
        if not any(isinstance(size, Value) for size in sizes):
            return self.constant(np.array(sizes, dtype=np.int64))
        parts = [
            size.unsqueeze(0) if isinstance(size, Value) else self.constant(np.array([size], dtype=np.int64))
            for size in sizes
        ]
        return parts[0] if len(parts) == 1 else self.call("Concat", *parts, axis=0)

    def full(self, fill: float, *sizes: "int | Value", dtype: np.dtype[Any] = FLOAT) -> Value:
        tensor = numpy_helper.from_array(np.array([fill], dtype=dtype))
        return self.call("ConstantOfShape", self.shape(*sizes), dtype=dtype, value=tensor)

    def range(self, stop: Value) -> Value:
        """The integers from 0 on."""
        return self.call("Range", self.constant(0, np.int64), stop, self.constant(1, np.int64))

    def where(self, condition: Value, left: Operand, right: Operand) -> Value:
        given = left if isinstance(left, Value) else right
        if not isinstance(given, Value):
            raise TypeError("where needs a value, not two constants")
        names = [condition.name, *(self._operand_name(operand, given.dtype) for operand in (left, right))]
        result = Value(self, self._name("where"), given.dtype)
        self._scopes[-1].append(helper.make_node("Where", names, [result.name]))
        return result

    def concatenate(self, values: Sequence[Value], axis: int = -1) -> Value:
        return values[0] if len(values) == 1 else self.call("Concat", *values, axis=axis)

    def scan(
        self,
        body: Body,
        initial: Sequence[Value],
        sequences: Sequence[Value],  # (T, ...) each
        *,
        reverse: bool = False,
    ) -> tuple[list[Value], list[Value]]:  # last states, outputs (T, ...)
        """Run a step over time."""
        states = [Value(self, self._name("state"), value.dtype) for value in initial]
        elements = [Value(self, self._name("element"), value.dtype) for value in sequences]
        with_body, results = self._write_body(body, states, elements)
        outputs = [Value(self, self._name("scan"), value.dtype) for value in results]
        count = len(states)
        directions: dict[str, Any] = {"scan_input_directions": [int(reverse)] * len(sequences)}
        if len(outputs) > count:
            directions["scan_output_directions"] = [int(reverse)] * (len(outputs) - count)
        self._scopes[-1].append(
            helper.make_node(
                "Scan",
                [value.name for value in (*initial, *sequences)],
                [value.name for value in outputs],
                num_scan_inputs=len(sequences),
                body=with_body,
                **directions,
            )
        )
        return outputs[:count], outputs[count:]

    def _write_body(
        self, body: Body, states: list[Value], elements: list[Value]
    ) -> tuple[onnx.GraphProto, list[Value]]:
        self._scopes.append([])
        next_states, outputs = body(states, elements)
        results = [value.apply("Identity") for value in (*next_states, *outputs)]  # a result may be an argument
        nodes = self._scopes.pop()
        inputs, produced = (
            [_describe(value.name, value.dtype, None) for value in side] for side in ([*states, *elements], results)
        )
        return helper.make_graph(nodes, self._name("body"), inputs, produced), results

    def loop(
        self,
        step: Callable[[Value, list[Value]], tuple[Value, Sequence[Value], Sequence[Value]]],
        initial: Sequence[Value],
        limit: Value,  # (), largest number of steps
    ) -> tuple[list[Value], list[Value]]:  # last states, outputs (steps, ...)
        """Repeat a step: its number and the states → whether to go on, the next states, and outputs."""
        number, go_on = Value(self, self._name("step"), INTEGER), Value(self, self._name("go_on"), BOOLEAN)
        states = [Value(self, self._name("state"), value.dtype) for value in initial]
        self._scopes.append([])
        following, next_states, produced = step(number, states)
        results = [value.apply("Identity") for value in (following, *next_states, *produced)]
        nodes = self._scopes.pop()
        scalars = [_describe(value.name, value.dtype, []) for value in (number, go_on)]
        arguments = [_describe(value.name, value.dtype, None) for value in states]
        first, *others = results
        outputs = [_describe(first.name, BOOLEAN, []), *(_describe(each.name, each.dtype, None) for each in others)]
        body = helper.make_graph(nodes, self._name("body"), [*scalars, *arguments], outputs)
        finals = [Value(self, self._name("loop"), value.dtype) for value in others]
        operands = [limit.name, self.constant(1, np.bool_).name, *(value.name for value in initial)]
        self._scopes[-1].append(helper.make_node("Loop", operands, [value.name for value in finals], body=body))
        return finals[: len(initial)], finals[len(initial) :]

    def finish(self, name: str, metadata: Mapping[str, str]) -> onnx.ModelProto:
        """The checked model."""
        size = sum(len(tensor.raw_data) for tensor in self._tensors)
        if size > MAX_BYTES:
            raise ExportError(
                f"the weights take {size / 1e9:.1f} GB, but an ONNX file holds at most {MAX_BYTES / 1e9:.1f} GB; word "
                "vectors are limited by task.pretrained.extra_words in training"
            )
        graph = helper.make_graph(
            self._scopes[0],
            name,
            [port.to_onnx() for port in self.inputs],
            [port.to_onnx() for port in self.outputs],
            self._tensors,
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="seqloom"
        )
        helper.set_model_props(model, dict(metadata))
        onnx.checker.check_model(model, full_check=True)
        return model

    def _name(self, hint: str) -> str:
        self._count += 1
        return f"{hint}_{self._count}"


def _describe(name: str, dtype: np.dtype[Any], shape: list[Axis] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)
