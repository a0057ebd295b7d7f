"""The functions of a compiled model as C sees them, in LLVM IR."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
from llvmlite import ir

from seqloom.export_check import Arrays
from seqloom.kernels.linalg import gemm
from seqloom.kernels.llvm.ir_builder import INTEGER, POINTER, Emitter, Value, integer
from seqloom.kernels.llvm.target import Target, compiling_for
from seqloom.standalone.builder import SHORT, ModelBuilder
from seqloom.standalone.constants import Constants, encode_texts

CType = Literal["int32_t", "float", "double"]
DTYPES: Mapping[CType, Any] = {"int32_t": np.int32, "float": np.float32, "double": np.float64}
BAD_LENGTH, BAD_TOKEN, BAD_WORKSPACE = 1, 2, 3
"""What ``predict`` returns if the length is negative, a token id is not in the vocabulary, or there is not enough
workspace; else 0."""


class Frames(NamedTuple):
    """How elements of the input, such as samples, become frames, and frames those that a model answers for."""

    window: int = 1  # elements
    hop: int = 1  # elements
    factor: int = 1  # frames

    def count(self, length: int) -> int:
        """The number of frames of an input."""
        frames = (length - self.window) // self.hop + 1 if length >= self.window else 0
        return -(-frames // self.factor)


EACH = Frames()
"""Each element of the input is a frame."""


@dataclass(frozen=True)
class Port:
    """An array that a model reads or writes."""

    name: str
    kind: CType
    shape: tuple[int | Literal["length"], ...]
    description: str
    limit: int = 0  # ids are below it; 0: no ids
    is_optional: bool = False  # may be a null pointer
    frames: Frames = EACH  # how many elements of this array there are for the elements of the input


@dataclass(frozen=True)
class Texts:
    """Texts that belong to numbers, such as labels: functions of C give the one or look up the other."""

    texts: Sequence[str]
    name: str  # of one text
    is_looked_up: bool = False  # numbers by text, too
    unknown: int = -1  # the number of all other texts
    reserved: frozenset[str] = frozenset()  # texts that are not looked up


@dataclass(frozen=True)
class StandaloneModel:
    """What a task compiles."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    emit: Callable[[ModelBuilder, Mapping[str, Value]], None]
    feed: Callable[[Sequence[Any]], Arrays]  # examples → inputs and ``lengths``, one row for each
    expected: Callable[[Sequence[Any]], Arrays]  # examples → outputs of the model
    texts: tuple[Texts, ...] = ()
    notes: tuple[str, ...] = ()  # what a caller has to know, for the header
    units: Arrays = field(default_factory=dict)  # of outputs in the units of the data: the deviation of each column


@dataclass(frozen=True)
class Assembly:
    """The code of a model for a target, as LLVM assembly."""

    text: str
    functions: tuple[str, ...]
    workspace: tuple[Fraction, int]  # bytes for each element of the input, and for all


def assemble(model: StandaloneModel, name: str, target: Target) -> Assembly:
    """The module of a model, whose functions start with ``name``."""
    with compiling_for(target):
        module = ir.Module(name)
        constants = Constants(module)
        gemm.emit_multiply(module, "float")
        _emit_barrier(module)
        ports = [*model.inputs, *model.outputs]
        emit = Emitter(module, "run", len(ports) + 2, "float")
        *addresses, length, workspace = emit.arguments
        builder = ModelBuilder(emit, constants, length=length, workspace=workspace)
        model.emit(builder, {port.name: address for port, address in zip(ports, addresses, strict=True)})
        emit.finish()
        for function in module.functions:
            if not function.is_declaration:
                function.linkage = "internal"
        size_type = SHORT if target.architecture == "wasm32" else INTEGER
        size = builder.workspace.size
        functions = [
            _emit_predict(module, f"{name}_predict", model, size, size_type),
            _emit_workspace_size(module, f"{name}_workspace_size", size, size_type),
        ]
        for texts in model.texts:
            functions += _emit_texts(module, constants, name, texts)
        text = constants.define(str(module))
    return Assembly(_without_builtins(text), tuple(functions), size)


def _without_builtins(text: str) -> str:
    """Forbid calls of the C library: LLVM replaces loops by memcpy and memset otherwise."""
    lines = []
    for line in text.splitlines():
        is_definition = line.startswith("define ")
        lines.append(f'{line.rstrip()} nounwind "no-builtins"' if is_definition else line)
    return "\n".join(lines)


def _emit_barrier(module: ir.Module) -> None:
    """What threads would wait for; there is one only."""
    Emitter(module, "barrier", 2, "float").finish()


def _needed(builder: ir.IRBuilder, length: Value, size: tuple[Fraction, int]) -> Value:
    """Bytes of workspace for a length."""
    per_element, constant = size
    variable = builder.mul(length, integer(per_element.numerator))
    return builder.add(builder.sdiv(variable, integer(per_element.denominator)), integer(constant))


def _emit_workspace_size(module: ir.Module, name: str, size: tuple[Fraction, int], size_type: ir.IntType) -> str:
    function = ir.Function(module, ir.FunctionType(size_type, [SHORT]), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    needed = _needed(builder, builder.sext(function.args[0], INTEGER), size)
    builder.ret(needed if size_type is INTEGER else builder.trunc(needed, size_type))
    return name


def _emit_predict(
    module: ir.Module, name: str, model: StandaloneModel, size: tuple[Fraction, int], size_type: ir.IntType
) -> str:
    """The function that a program calls: it checks the length, the workspace and the ids."""
    kinds = [*[POINTER] * len(model.inputs), SHORT, *[POINTER] * len(model.outputs), POINTER, size_type]
    function = ir.Function(module, ir.FunctionType(SHORT, kinds), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    count = len(model.inputs)
    given = function.args[:count]
    length = builder.sext(function.args[count], INTEGER)
    with builder.if_then(builder.icmp_signed("<", length, integer(0))):
        builder.ret(SHORT(BAD_LENGTH))
    *rest, workspace, available = function.args[count + 1 :]
    if size_type is not INTEGER:
        available = builder.zext(available, INTEGER)
    with builder.if_then(builder.icmp_unsigned("<", available, _needed(builder, length, size))):
        builder.ret(SHORT(BAD_WORKSPACE))
    for port, pointer in zip(model.inputs, given, strict=True):
        if port.limit:
            _check_ids(function, builder, pointer, _elements(builder, port, length), port.limit)
    addresses = [builder.ptrtoint(pointer, INTEGER) for pointer in (*given, *rest)]
    builder.call(module.get_global("run"), [*addresses, length, builder.ptrtoint(workspace, INTEGER)])
    builder.ret(SHORT(0))
    return name


def _elements(builder: ir.IRBuilder, port: Port, length: Value) -> Value:
    """The number of elements of an array."""
    total: Value = integer(1)
    for size in port.shape:
        total = builder.mul(total, length if size == "length" else integer(size))
    return total


def _check_ids(function: ir.Function, builder: ir.IRBuilder, pointer: Value, count: Value, limit: int) -> None:
    """Return an error if an id is not from 0 to the limit."""
    before = builder.block
    check, wrong, following, done = (function.append_basic_block(name) for name in ("check", "wrong", "next", "done"))
    builder.cbranch(builder.icmp_signed(">", count, integer(0)), check, done)
    builder.position_at_end(check)
    index = builder.phi(INTEGER)
    index.add_incoming(integer(0), before)
    value = builder.load(builder.gep(pointer, [index], source_etype=SHORT), align=4, typ=SHORT)
    builder.cbranch(builder.icmp_unsigned("<", value, SHORT(limit)), following, wrong)
    builder.position_at_end(wrong)
    builder.ret(SHORT(BAD_TOKEN))
    builder.position_at_end(following)
    advanced = builder.add(index, integer(1))
    index.add_incoming(advanced, following)
    builder.cbranch(builder.icmp_signed("<", advanced, count), check, done)
    builder.position_at_end(done)


def _emit_texts(module: ir.Module, constants: Constants, name: str, texts: Texts) -> list[str]:
    """A function from a number to its text and, where asked for, one from a text to its number."""
    starts, data, ordered = encode_texts(texts.texts, reserved=texts.reserved)
    functions = [f"{name}_{texts.name}"]
    kind = ir.FunctionType(POINTER, [SHORT])
    function = ir.Function(module, kind, functions[0])
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    inside = builder.icmp_unsigned("<", function.args[0], SHORT(len(texts.texts)))
    with builder.if_then(builder.not_(inside)):
        builder.ret(ir.Constant(POINTER, None))
    tables = _Tables(builder, constants, starts, data)
    builder.ret(tables.text(builder.sext(function.args[0], INTEGER)))
    if texts.is_looked_up:
        functions.append(f"{name}_find_{texts.name}")
        _emit_find(module, constants, functions[1], (starts, data, ordered), texts.unknown)
    return functions


class _Tables:
    """Where texts start, and their bytes."""

    def __init__(self, builder: ir.IRBuilder, constants: Constants, starts: Any, data: Any) -> None:
        self._builder = builder
        self._starts, self._data = (
            builder.inttoptr(constants.address(builder, values), POINTER) for values in (starts, data)
        )

    def text(self, index: Value) -> Value:
        """A pointer to a text."""
        place = self._builder.gep(self._starts, [index], source_etype=SHORT)
        start = self._builder.sext(self._builder.load(place, align=4, typ=SHORT), INTEGER)
        return self._builder.gep(self._data, [start], source_etype=ir.IntType(8))


def _emit_find(module: ir.Module, constants: Constants, name: str, tables: tuple[Any, Any, Any], unknown: int) -> None:
    """Binary search for a text: its number, or that of unknown ones."""
    starts, data, ordered = tables
    function = ir.Function(module, ir.FunctionType(SHORT, [POINTER]), name)
    text, byte = function.args[0], ir.IntType(8)
    names = ("entry", "search", "middle", "compare", "same", "differ", "found", "lost")
    blocks = {block: function.append_basic_block(block) for block in names}
    builder = ir.IRBuilder(blocks["entry"])
    known = _Tables(builder, constants, starts, data)
    order = builder.inttoptr(constants.address(builder, ordered), POINTER)
    builder.branch(blocks["search"])
    builder.position_at_end(blocks["search"])
    low, high = builder.phi(INTEGER), builder.phi(INTEGER)
    low.add_incoming(integer(0), blocks["entry"])
    high.add_incoming(integer(len(ordered)), blocks["entry"])
    builder.cbranch(builder.icmp_signed("<", low, high), blocks["middle"], blocks["lost"])
    builder.position_at_end(blocks["middle"])
    middle = builder.udiv(builder.add(low, high), integer(2))
    number = builder.load(builder.gep(order, [middle], source_etype=SHORT), align=4, typ=SHORT)
    candidate = known.text(builder.sext(number, INTEGER))
    builder.branch(blocks["compare"])
    builder.position_at_end(blocks["compare"])
    position = builder.phi(INTEGER)
    position.add_incoming(integer(0), blocks["middle"])
    ours, theirs = (
        builder.load(builder.gep(pointer, [position], source_etype=byte), align=1, typ=byte)
        for pointer in (candidate, text)
    )
    builder.cbranch(builder.icmp_unsigned("==", ours, theirs), blocks["same"], blocks["differ"])
    builder.position_at_end(blocks["same"])
    position.add_incoming(builder.add(position, integer(1)), blocks["same"])
    builder.cbranch(builder.icmp_unsigned("==", ours, byte(0)), blocks["found"], blocks["compare"])
    builder.position_at_end(blocks["differ"])
    is_before = builder.icmp_unsigned("<", ours, theirs)
    low.add_incoming(builder.select(is_before, builder.add(middle, integer(1)), low), blocks["differ"])
    high.add_incoming(builder.select(is_before, high, middle), blocks["differ"])
    builder.branch(blocks["search"])
    builder.position_at_end(blocks["found"])
    builder.ret(number)
    builder.position_at_end(blocks["lost"])
    builder.ret(SHORT(unknown))
