"""A step function taken apart: its products, its expressions, and those of its gradient.

The step is run once on a few rows, forwards and backwards, while every operation below autograd is recorded and
replayed on symbols. What has no symbolic counterpart raises ``Unfusable`` with the reason.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from seqloom.kernels.activations import RULES
from seqloom.kernels.expression import Graph, Row, Segment, width
from seqloom.kernels.rules import Call
from seqloom.kernels.symbols import Column, Matrix, Outer, Program, Rows, Symbol, Unfusable

ROWS = 3

StepFunction = Callable[[Mapping[str, Tensor], Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]
"""(parameters, projected (B, P), state of (B, n)) → next state."""


def trace(
    step: StepFunction,
    parameters: Mapping[str, Tensor],
    projected: int,
    state: tuple[int, ...],
) -> Program:
    """Record ``step`` and its gradient for the given widths."""
    like = next(iter(parameters.values()))
    program = Program(Graph(), projected, state)

    def sample(size: int) -> Tensor:
        return torch.rand(ROWS, size, dtype=like.dtype, device=like.device).requires_grad_()

    random = torch.random.get_rng_state()
    try:
        with torch.inference_mode(mode=False), torch.enable_grad():
            inputs = sample(projected)
            states = tuple(sample(size) for size in state)
            copies = {name: value.detach().clone().requires_grad_() for name, value in parameters.items()}
            recorder = _Recorder(program)
            recorder.define(inputs, Rows((Segment(program.graph.leaf("projected", "", width=projected), projected),)))
            for index, tensor in enumerate(states):
                node = program.graph.leaf("state", index, width=state[index])
                recorder.define(tensor, Rows((Segment(node, state[index]),)))
            for name, tensor in copies.items():
                recorder.define(tensor, _parameter(program.graph, name, tensor))
            cotangents = tuple(torch.rand_like(tensor) for tensor in states)
            for index, tensor in enumerate(cotangents):
                node = program.graph.leaf("cotangent", index, width=state[index])
                recorder.define(tensor, Rows((Segment(node, state[index]),)))
            with recorder:
                following = step(copies, inputs, states)
                for tensor, size in zip(following, state, strict=True):
                    if tensor.shape != (ROWS, size):
                        raise Unfusable(f"a state of width {size} becomes one of shape {tuple(tensor.shape)}")
                program.following = tuple(recorder.row(tensor) for tensor in following)
                _differentiate(recorder, following, inputs, states, copies, cotangents)
    finally:
        torch.random.set_rng_state(random)
    return program


def _differentiate(
    recorder: "_Recorder",
    following: tuple[Tensor, ...],
    inputs: Tensor,
    states: tuple[Tensor, ...],
    parameters: Mapping[str, Tensor],
    cotangents: tuple[Tensor, ...],
) -> None:
    program = recorder.program
    sources = (inputs, *states, *parameters.values())
    pairs = [pair for pair in zip(following, cotangents, strict=True) if pair[0].requires_grad]
    if not pairs:
        raise Unfusable("the next state does not depend on the input, the state or the parameters")
    # The gradient of one number: grad_outputs would make torch import sympy, which takes a third of a second.
    total = reduce(torch.add, [(tensor * cotangent).sum() for tensor, cotangent in pairs])
    gradients: tuple[Tensor | None, ...] = torch.autograd.grad(total, sources, allow_unused=True)
    count = len(states)
    program.projected_gradient = recorder.optional(gradients[0])
    program.state_gradient = tuple(recorder.optional(gradient) for gradient in gradients[1 : 1 + count])
    for name, gradient in zip(parameters, gradients[1 + count :], strict=True):
        symbol = None if gradient is None else recorder.symbol(gradient)
        if symbol is not None and not isinstance(symbol, Outer | Column):
            raise Unfusable(f"the gradient of {name} is not a sum over the batch")
        program.parameter_gradient[name] = symbol


def _parameter(graph: Graph, name: str, tensor: Tensor) -> Symbol:
    if tensor.dim() == 2:
        return Matrix(name)
    if tensor.dim() > 2:
        raise Unfusable(f"parameter {name} has {tensor.dim()} dimensions")
    size = tensor.numel()
    return Rows((Segment(graph.leaf("parameter", name, width=size), size),), uniform=True)


class _Recorder(TorchDispatchMode):
    """Keeps for every tensor that the step makes what it stands for."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self._symbols: dict[tuple[object, ...], Symbol] = {}
        self._alive: list[Tensor] = []  # keeps addresses from being used twice
        self._views: defaultdict[int, set[tuple[object, ...]]] = defaultdict(set)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping imports torch._dynamo, which takes more than a second

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        in_place = func._schema.is_mutable
        rule = RULES.get(name.removesuffix("_") if in_place else name)
        if rule is None or func.namespace != "aten":
            raise Unfusable(f"{func} has no place in a fused kernel")
        symbols = rule(Call(self.program, self.symbol, result), *args, **(kwargs or {}))
        if in_place and len(self._views[result.untyped_storage().data_ptr()]) > 1:
            raise Unfusable(f"{func} changes a tensor that is also seen as another one")
        if isinstance(result, Tensor):
            self.define(result, symbols)
        else:
            for tensor, symbol in zip(result, symbols, strict=True):
                if symbol is not None:
                    self.define(tensor, symbol)
        return result

    @staticmethod
    def _key(tensor: Tensor) -> tuple[object, ...]:
        return tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype

    def define(self, tensor: Tensor, symbol: Symbol) -> None:
        self._alive.append(tensor)
        key = self._key(tensor)
        self._symbols[key] = symbol
        self._views[tensor.untyped_storage().data_ptr()].add(key)

    def symbol(self, tensor: Tensor) -> Symbol:
        symbol = self._symbols.get(self._key(tensor))
        if symbol is None:
            raise Unfusable(
                f"step uses a tensor of shape {tuple(tensor.shape)} that is neither a parameter nor its input"
            )
        return symbol

    def row(self, tensor: Tensor) -> Row:
        symbol = self.symbol(tensor)
        if not isinstance(symbol, Rows):
            raise Unfusable(f"step mixes the rows of a batch in a tensor of shape {tuple(tensor.shape)}")
        if width(symbol.row) == 1 and tensor.dim() == 2 and tensor.shape[1] > 1:
            return (Segment(symbol.row[0].node, tensor.shape[1]),)
        return symbol.row

    def optional(self, tensor: Tensor | None) -> Row | None:
        return None if tensor is None else self.row(tensor)
