"""Every overload and keyword of every operator that the recorder claims: recorded right, or refused."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch
from tests.contracts.registry import noise
from torch import Tensor

from seqloom.kernels.fuse.expression import ExpressionNode, Graph, Row, Segment
from seqloom.kernels.fuse.row_rules import RULES
from seqloom.kernels.fuse.symbols import BatchRows, BatchSum, Symbol, TracedStep, Unfusable
from seqloom.kernels.fuse.trace import _Recorder

pytestmark = pytest.mark.sampled(5)

ROWS, WIDTH = 3, 4
X, H = noise(ROWS, WIDTH, seed=1), noise(ROWS, WIDTH, seed=2).abs() + 0.1

CANDIDATES: dict[str, tuple[Any, ...]] = {
    "Tensor": ("x", "h", "condition"),
    "Optional[Tensor]": (None, "h"),
    "number": (0.5, 2),
    "Optional[number]": (None, 0.5),
    "float": (0.5,),
    "Optional[float]": (None, 0.5),
    "int": (-1, 1, 2),
    "Optional[int]": (None, 1),
    "bool": (False, True),
    "Optional[bool]": (None, True),
    "List[int]": ([-1], [1, 3], [ROWS, WIDTH], [WIDTH]),
    "Optional[List[int]]": (None, [-1]),
    "List[Tensor]": (("x", "h"),),
    "List[bool]": ([True, True, True],),
    "Optional[str]": (None, "floor", "trunc"),
    "str": ("floor", "none"),
}
"""Values for the arguments of each type; x, h and condition stand for tensors."""


def overloads() -> Iterator[str]:
    for name in RULES:
        for packet in (name, f"{name}_"):
            if hasattr(torch.ops.aten, packet):
                yield from (f"{packet}.{overload}" for overload in getattr(torch.ops.aten, packet).overloads())


def candidates(argument: Any) -> tuple[Any, ...]:
    if argument.name.endswith("dtype"):
        return torch.float64, torch.float32, torch.bool
    return CANDIDATES.get(str(argument.type), ())


def calls(schema: Any) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Arguments of all kinds; optional ones are given one after the other."""
    required = [argument for argument in schema.arguments if not argument.has_default_value()]
    optional = [argument for argument in schema.arguments if argument.has_default_value()]
    choices = [candidates(argument) for argument in required]
    for values in list(product(*choices))[:30]:
        positional = [value for value, argument in zip(values, required, strict=True) if not argument.kwarg_only]
        named = {a.name: value for value, a in zip(values, required, strict=True) if a.kwarg_only}
        yield positional, named
        for argument in optional:
            for value in candidates(argument):
                yield positional, named | {argument.name: value}


def evaluate(node: ExpressionNode, leaves: dict[str, Tensor]) -> Any:  # (B, width), (B, 1) or a number
    if node.operation in leaves:
        offset = node.source[1]
        return leaves[node.operation][:, offset : offset + node.width]
    if node.operation == "position":
        return torch.arange(node.source[1], node.source[1] + node.width).view(1, -1)
    if node.operation == "constant":
        return torch.full((1, 1), node.constant, dtype=torch.float64)
    values = [evaluate(argument, leaves) for argument in node.arguments]
    if node.operation in ("sum", "amax"):
        return getattr(torch, node.operation)(values[0], dim=-1, keepdim=True)
    functions: dict[str, Any] = {
        "max": torch.maximum,
        "min": torch.minimum,
        "less": torch.lt,
        "equal": torch.eq,
        "and": torch.logical_and,
        "or": torch.logical_or,
        "not": torch.logical_not,
        "select": torch.where,
    }
    function: Any = functions.get(node.operation) or getattr(torch, node.operation)
    return function(*values)


def evaluate_row(row: Row, leaves: dict[str, Tensor]) -> Tensor:
    return torch.cat([evaluate(node, leaves).double().expand(ROWS, width) for node, width in row], dim=-1)


def check(symbol: Symbol | None, result: Tensor) -> None:
    leaves = {"projected": X, "state": H}
    if isinstance(symbol, BatchRows):
        actual = evaluate_row(symbol.row, leaves)
        if symbol.uniform and result.shape[:1] != (ROWS,):
            actual = actual[:1]
    elif isinstance(symbol, BatchSum):
        actual = evaluate_row(symbol.row, leaves).sum(dim=0, keepdim=True)
    else:
        return  # a transposed view: no values of its own
    if actual.numel() != result.numel():
        actual = actual.expand(actual.shape[0], result.numel() // actual.shape[0])
    torch.testing.assert_close(actual.flatten(), result.double().flatten(), rtol=0, atol=1e-12, equal_nan=True)


def tensors() -> dict[Any, Any]:
    x, h = X.clone(), H.clone()
    return {"x": x, "h": h, "condition": x > h, ("x", "h"): [x, h]}


def call(operator: Any, positional: list[Any], named: dict[str, Any], values: dict[Any, Any]) -> Any:
    def value(argument: Any) -> Any:
        return values.get(argument, argument) if isinstance(argument, str | tuple) else argument

    keywords = {name: value(argument) for name, argument in named.items()}
    return operator(*[value(argument) for argument in positional], **keywords)


def is_valid(operator: Any, positional: list[Any], named: dict[str, Any]) -> bool:
    """Whether torch accepts the call and returns tensors, not Python numbers as the overloads of TorchScript do."""
    try:
        result = call(operator, positional, named, tensors())
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
        return False
    parts = result if isinstance(result, tuple | list) else [result]
    return all(part is None or (isinstance(part, Tensor) and part.layout == torch.strided) for part in parts)


def check_call(operator: Any, positional: list[Any], named: dict[str, Any]) -> bool:
    """Record a call and compare its values with torch's; False if it is refused."""
    traced = TracedStep(Graph(), WIDTH, (WIDTH,))
    recorder = _Recorder(traced, torch.float64)
    values = tensors()
    for kind, tensor, key in (("projected", values["x"], ""), ("state", values["h"], 0)):
        recorder.define(tensor, BatchRows((Segment(traced.graph.leaf(kind, key, width=WIDTH), WIDTH),)))
    with recorder:
        values["condition"] = values["x"] > values["h"]
    try:
        with recorder:
            result = call(operator, positional, named, values)
        parts = [part for part in (result if isinstance(result, tuple | list) else [result]) if part is not None]
        symbols = [recorder.symbol(part) for part in parts]
    except Unfusable:
        return False
    for symbol, part in zip(symbols, parts, strict=True):
        check(symbol, part)
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(overloads()))
def test_every_overload_is_recorded_right_or_refused(name: str) -> None:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload)
    for positional, named in calls(operator._schema):
        if is_valid(operator, positional, named):
            check_call(operator, positional, named)


@pytest.mark.parametrize(
    "name", ["mul.Tensor", "add.Tensor", "clamp.default", "sum.dim_IntList", "lerp.Scalar", "tanh_.default"]
)
def test_some_calls_are_recorded(name: str) -> None:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload)
    valid = [arguments for arguments in calls(operator._schema) if is_valid(operator, *arguments)]
    assert any(check_call(operator, *arguments) for arguments in valid)
