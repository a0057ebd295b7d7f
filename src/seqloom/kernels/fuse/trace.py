"""Symbolic tracing of a step function and of its gradient.

The step runs once on a few rows, forward and backward, under a TorchDispatchMode that replays every ATen operator on
symbols. An operator without a symbolic rule raises ``Unfusable`` with the reason.
"""

import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache, reduce
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

from seqloom.kernels.fuse.contraction_rules import materialize
from seqloom.kernels.fuse.expression import CONDITIONS, Graph, Row, Segment, row_width
from seqloom.kernels.fuse.operator_rules import ROWS, OperatorCall, describe_shape
from seqloom.kernels.fuse.row_rules import RULES
from seqloom.kernels.fuse.symbols import (
    BatchRows,
    BatchSum,
    Impure,
    MatrixParameter,
    OuterProductSum,
    StridedRows,
    Symbol,
    TracedStep,
    Unfusable,
)

READING: dict[Any, str] = {
    getattr(Tensor, name): name
    for name in ("tolist", "numpy", "__array__", "__dlpack__", "data_ptr", "untyped_storage", "register_hook")
} | {getattr(Tensor, name).__get__: name for name in ("requires_grad", "grad_fn", "grad", "is_leaf")}
"""Methods and attributes whose results a kernel would freeze."""

StepFunction = Callable[[Mapping[str, Tensor], Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]
"""(parameters, projected (B, P), state of (B, n)) → next state. The input may follow in the same row: (B, P + D)."""


def trace(
    step: StepFunction,
    parameters: Mapping[str, Tensor],
    projected_width: int,
    state_widths: tuple[int, ...],
    *,
    passed_width: int = 0,  # of the input, if it follows the projected one
) -> TracedStep:
    """Trace ``step`` and its gradient for the given widths."""
    like = next(iter(parameters.values()))
    traced = TracedStep(Graph(), projected_width, state_widths, passed_width)

    def sample(rows: int, size: int) -> Tensor:
        return torch.rand(rows, size, dtype=like.dtype, device=like.device).requires_grad_()

    def run(recorder: "_Recorder", rows: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Row, ...]]:
        """Inputs and states, the next state, and the next state as expressions."""
        widths = projected_width + passed_width, *state_widths
        inputs, *states = arguments = tuple(sample(rows, size) for size in widths)
        sides = ("projected", projected_width), ("input", passed_width)
        row = [Segment(traced.graph.leaf(kind, "", width=width), width) for kind, width in sides if width]
        recorder.define(inputs, BatchRows(tuple(row)))
        recorder.define_rows("state", tuple(states))
        for name, tensor in copies.items():
            recorder.define(tensor, _parameter(traced.graph, name, tensor))
        recorder.in_step = True
        try:
            with recorder, _UserCalls(recorder):
                next_state = step(copies, inputs, tuple(states))
        finally:
            recorder.in_step = False
            if recorder.refusal is not None:  # the step may catch it, and TorchScript raises another error
                raise recorder.refusal from None
        for tensor, size in zip(next_state, state_widths, strict=True):
            if tensor.shape != (rows, size):
                raise Unfusable(f"a state of width {size} becomes one of shape {describe_shape(tensor)}")
        return arguments, next_state, tuple(recorder.row(tensor) for tensor in next_state)

    rng_state = torch.random.get_rng_state()
    try:
        with torch.inference_mode(mode=False), torch.enable_grad():
            copies = {name: value.detach().clone().requires_grad_() for name, value in parameters.items()}
            recorder = _Recorder(traced, like.dtype)
            (inputs, *states), next_state, traced.next_state = run(recorder, ROWS)
            cotangents = tuple(torch.rand_like(tensor) for tensor in states)  # gradients of the next state
            recorder.define_rows("cotangent", cotangents)
            with recorder:
                _differentiate(recorder, next_state, inputs, tuple(states), copies, cotangents)
            *_, again = run(_Recorder(traced, like.dtype, ROWS + 2), ROWS + 2)
            if again != traced.next_state:
                raise Impure("step computes something else at each call, or depends on the size of the batch")
    finally:
        torch.random.set_rng_state(rng_state)
    return traced


def _differentiate(
    recorder: "_Recorder",
    next_state: tuple[Tensor, ...],
    inputs: Tensor,
    states: tuple[Tensor, ...],
    parameters: Mapping[str, Tensor],
    cotangents: tuple[Tensor, ...],
) -> None:
    traced = recorder.traced
    sources = (inputs, *states, *parameters.values())
    pairs = [pair for pair in zip(next_state, cotangents, strict=True) if pair[0].requires_grad]
    if not pairs:
        raise Unfusable("the next state does not depend on the input, the state or the parameters")
    # The gradient of one number: grad_outputs would make torch import sympy, which takes a third of a second.
    total = reduce(torch.add, [(tensor * cotangent).sum() for tensor, cotangent in pairs])
    gradients: tuple[Tensor | None, ...] = torch.autograd.grad(total, sources, allow_unused=True)
    count = len(states)
    traced.projected_gradient = recorder.optional(gradients[0])
    traced.state_gradient = tuple(recorder.optional(gradient) for gradient in gradients[1 : 1 + count])
    for name, gradient in zip(parameters, gradients[1 + count :], strict=True):
        symbol = None if gradient is None else recorder.symbol(gradient)
        if symbol is not None and not isinstance(symbol, OuterProductSum | BatchSum):
            raise Unfusable(f"the gradient of {name} is not a sum over the batch")
        traced.parameter_gradient[name] = symbol


def _parameter(graph: Graph, name: str, tensor: Tensor) -> Symbol:
    if tensor.dim() == 2:
        return MatrixParameter(name, (tensor.shape[0], tensor.shape[1]))
    if tensor.dim() > 2:
        raise Unfusable(f"parameter {name} has {tensor.dim()} dimensions")
    size = tensor.numel()
    return BatchRows((Segment(graph.leaf("parameter", name, width=size), size),), uniform=True)


def _is_sound(result: Tensor, symbol: Symbol, name: str) -> bool:
    """Whether a Boolean result is a condition, and an integer one a count of conditions, or a view of an index."""
    if result.dtype == torch.bool:
        return isinstance(symbol, BatchRows) and all(node.operation in CONDITIONS for node, _ in symbol.row)
    return result.is_floating_point() or name in ("sum", "view", "squeeze", "unsqueeze", "detach")


class _UserCalls(TorchFunctionMode):
    """Tells the recorder which function the step calls, and refuses what reads a tensor without an operator."""

    def __init__(self, recorder: "_Recorder") -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func in READING:
            self._recorder.refusal = Unfusable(f"step calls Tensor.{READING[func]}, which a compiled step cannot do")
            raise self._recorder.refusal
        self._recorder.function = resolve_name(func) or getattr(func, "__name__", "a function of torch")
        result = func(*args, **(kwargs or {}))
        self._recorder.function = ""
        return result


SPELLINGS = {
    "torch.Tensor.__getitem__": "indexing",
    "torch.Tensor.__setitem__": "assignment to elements of a tensor",
    "torch.Tensor.__bool__": "a decision by the value of a tensor (if, while, and, or)",
    "torch.Tensor.__pow__": "the operator **",
    "torch.Tensor.__floordiv__": "the operator //",
    "torch.functional.einsum": "torch.einsum",
}
"""How a user writes what torch names otherwise."""


_signature = cache(inspect.signature)


class _Recorder(TorchDispatchMode):
    """Maps every tensor of the step to its symbol."""

    def __init__(self, traced: TracedStep, dtype: torch.dtype, batch: int = ROWS) -> None:
        super().__init__()
        self.traced = traced
        self.batch = batch
        self._dtype = dtype
        self._symbols: dict[tuple[object, ...], Symbol] = {}
        self._alive: list[Tensor] = []  # so that no address is reused
        self._views: defaultdict[int, set[tuple[object, ...]]] = defaultdict(set)
        self.function = ""  # of torch that the step calls; empty in the gradient
        self.in_step = False  # and not in its gradient
        self.refusal: Unfusable | None = None  # why the step cannot be traced

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping imports torch._dynamo, which takes more than a second

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        try:
            return self._record(func, args, kwargs)
        except Unfusable as refusal:
            self.refusal = refusal
            raise

    def _record(self, func: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        if self.in_step and not self.function:
            raise Unfusable("step calls a function of TorchScript or C++, which a compiled step cannot do")
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        in_place = func._schema.is_mutable
        operator = name.removesuffix("_") if in_place else name
        rule = RULES.get(operator)
        if rule is None or func.namespace != "aten" or (in_place and not name.endswith("_")):  # out=
            raise Unfusable(f"{self._spelling(name)} is not supported in a compiled step")
        self._check_dtype(name, args, result)
        call = OperatorCall(self.traced, self.symbol, operator, result, batch=self.batch)
        try:
            _signature(rule).bind(call, *args, **(kwargs or {}))
        except TypeError:  # an overload of the operator, or a keyword, that the rule does not know
            form = f" with {', '.join(kwargs)}" if kwargs else f" of {len(args)} arguments"
            raise Unfusable(f"{self._spelling(name)}{form} is not supported in a compiled step") from None
        try:
            symbols = rule(call, *args, **(kwargs or {}))
        except Unfusable as error:
            raise Unfusable(
                f"this use of {self._spelling(name)} is not supported in a compiled step: {error}"
            ) from None
        if isinstance(result, Tensor) and not _is_sound(result, symbols, name):
            raise Unfusable(f"{self._spelling(name)} of conditions or integers is not supported in a compiled step")
        if in_place and len(self._views[result.untyped_storage().data_ptr()]) > 1:
            raise Unfusable(f"{self._spelling(name)} changes a tensor that has other views")
        if isinstance(result, Tensor):
            self._define_result(name, result, symbols)
        else:
            for tensor, symbol in zip(result, symbols, strict=True):
                if symbol is not None:
                    self._define_result(name, tensor, symbol)
        return result

    def _spelling(self, operator: str) -> str:
        """The function that the step calls, as a user writes it."""
        if not self.function:
            return f"the gradient of torch.{operator.strip('_').removesuffix('_data').removesuffix('_backward')}"
        return SPELLINGS.get(self.function, self.function)

    def _define_result(self, name: str, tensor: Tensor, symbol: Symbol) -> None:
        """Define the result of an operator, whose row must have as many elements as the tensor, or one for all."""
        if isinstance(symbol, BatchRows) and tensor.dim() and tensor.numel():
            width = tensor.shape[-1] if symbol.uniform else tensor.numel() // self.batch
            if row_width(symbol.row) not in (1, width):
                raise Unfusable(
                    f"{self._spelling(name)} with a result of shape {describe_shape(tensor)} "
                    "is not supported in a compiled step"
                )
        self.define(tensor, symbol)

    def _check_dtype(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        """Everything is computed in one floating-point type, except conditions and counts of them."""
        for value in (*args, *(result if isinstance(result, tuple | list) else (result,))):
            if isinstance(value, Tensor) and value.dtype not in (self._dtype, torch.bool, torch.int64):
                names = (str(dtype).removeprefix("torch.") for dtype in (value.dtype, self._dtype))
                raise Unfusable(f"{self._spelling(name)} computes in {next(names)}, the cell in {next(names)}")

    @staticmethod
    def _key(tensor: Tensor) -> tuple[object, ...]:
        return tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype

    def define(self, tensor: Tensor, symbol: Symbol) -> None:
        self._alive.append(tensor)
        key = self._key(tensor)
        self._symbols[key] = symbol
        self._views[tensor.untyped_storage().data_ptr()].add(key)

    def define_rows(self, kind: str, tensors: tuple[Tensor, ...]) -> None:
        """Define tensors (B, n) as leaves of one kind, named by their position."""
        for index, tensor in enumerate(tensors):
            width = tensor.shape[1]
            self.define(tensor, BatchRows((Segment(self.traced.graph.leaf(kind, index, width=width), width),)))

    def symbol(self, tensor: Tensor) -> Symbol:
        symbol = self._symbols.get(self._key(tensor))
        if symbol is None:
            raise Unfusable(
                f"step uses a tensor of shape {describe_shape(tensor)} that is neither a parameter nor its input"
            )
        return symbol

    def row(self, tensor: Tensor) -> Row:
        symbol = self.symbol(tensor)
        if isinstance(symbol, StridedRows):
            symbol = materialize(self.traced, symbol)
        if not isinstance(symbol, BatchRows):
            raise Unfusable(f"step mixes the rows of a batch in a tensor of shape {describe_shape(tensor)}")
        if row_width(symbol.row) == 1 and tensor.dim() == 2 and tensor.shape[1] > 1:
            return (Segment(symbol.row[0].node, tensor.shape[1]),)
        return symbol.row

    def optional(self, tensor: Tensor | None) -> Row | None:
        return None if tensor is None else self.row(tensor)
