"""Which function writes the operators of a module: one per class, found by the exact class.

A layer is written by ``emit_layer``, and any other module that maps one tensor to one by ``emit_module``. A subclass
needs a function of its own, since it may compute something else. Users register theirs in the same way::

    @emits_layer(MyLayer)
    def emit_my_layer(graph, layer, x, rows, state): ...
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.export_check import ExportError
from seqloom.layers.custom import CustomLayer
from seqloom.layers.dropout import Dropout, VariationalDropout
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Layer
from seqloom.layers.linear import Linear
from seqloom.onnx.graph import Graph, Value

State = Any
"""Nested tuples of values, batch first; None: the state before the first element."""


@dataclass(frozen=True)
class Rows:
    """Which elements of a batch (B, T, ...) are real: it is padded on the right."""

    lengths: Value  # (B,), int64
    mask: Value  # (B, T)

    @classmethod
    def of(cls, x: Value, lengths: Value) -> "Rows":
        """The rows of x, (B, T, ...)."""
        return cls(lengths, x.graph.range(x.size(1)).unsqueeze(0) < lengths.unsqueeze(1))

    def clear_padding(self, x: Value) -> Value:  # (B, T, D)
        """Set the padding to zero, even where it is NaN."""
        return x.graph.where(self.mask.unsqueeze(2), x, 0.0)


EmitLayer = Callable[[Graph, Any, Value, Rows, State], tuple[Value, State]]
EmitModule = Callable[[Any, Value], Value]
Function = TypeVar("Function", bound=Callable[..., Any])

LAYERS: dict[type[nn.Module], EmitLayer] = {}
MODULES: dict[type[nn.Module], EmitModule] = {}


def emits_layer(*classes: type[Layer]) -> Callable[[Function], Function]:
    """Register the function that writes layers of these classes.

    It gets the graph, the layer, its input (B, T, D), the rows and the state, and returns the output, zero in the
    padding, and the state after each row's last element.
    """
    return partial(_register, LAYERS, classes)


def emits(*classes: type[nn.Module]) -> Callable[[Function], Function]:
    """Register the function that writes modules of these classes: it gets the module and its input."""
    return partial(_register, MODULES, classes)


def _register(table: dict[Any, Any], classes: tuple[type, ...], function: Function) -> Function:
    table.update(dict.fromkeys(classes, function))
    return function


def emit_layer(graph: Graph, layer: nn.Module, x: Value, rows: Rows, state: State = None) -> tuple[Value, State]:
    """Write a layer: (B, T, D) → (B, T, E), zero in the padding, and the state after each row's last element."""
    emit = LAYERS.get(type(layer))
    if emit is None:
        raise ExportError(_unknown(layer, "emits_layer"))
    return emit(graph, layer, x, rows, state)


def emit_module(module: nn.Module, x: Value) -> Value:
    """Write a module that maps one tensor to one."""
    emit = MODULES.get(type(module))
    if emit is None:
        raise ExportError(_unknown(module, "emits"))
    return emit(module, x)


def _unknown(module: nn.Module, decorator: str) -> str:
    kind = type(module.module if isinstance(module, CustomLayer) else module)
    return (
        f"{kind.__module__}.{kind.__qualname__} cannot be exported: no function writes it as ONNX operators "
        f"(seqloom.onnx.modules.{decorator} registers one)"
    )


def array(tensor: Tensor) -> NDArray[Any]:
    """The values of a parameter."""
    values: NDArray[Any] = tensor.detach().cpu().numpy()
    return values


@emits(nn.Linear, Linear)
def emit_linear(linear: nn.Linear, x: Value) -> Value:
    product = x @ array(linear.weight).T
    bias: Tensor | None = linear.bias
    return product if bias is None else product + array(bias)


@emits(nn.Identity, Dropout, VariationalDropout)
def emit_identity(_module: nn.Module, x: Value) -> Value:
    return x


@emits(nn.Sequential)
def emit_sequential(modules: nn.Sequential, x: Value) -> Value:
    for module in modules:
        x = emit_module(module, x)
    return x


@emits(Embedding)
def emit_embedding(embedding: Embedding, tokens: Value) -> Value:
    return tokens.graph.constant(array(embedding.weight)).take(tokens)


@emits(nn.LayerNorm)
def emit_layer_norm(norm: nn.LayerNorm, x: Value) -> Value:
    return x.graph.call("LayerNormalization", x, array(norm.weight), array(norm.bias), axis=-1, epsilon=norm.eps)


@emits(nn.ReLU, nn.Tanh, nn.Sigmoid)
def emit_activation(module: nn.Module, x: Value) -> Value:
    return x.apply({nn.ReLU: "Relu", nn.Tanh: "Tanh", nn.Sigmoid: "Sigmoid"}[type(module)])


@emits(nn.LeakyReLU)
def emit_leaky_relu(module: nn.LeakyReLU, x: Value) -> Value:
    return x.apply("LeakyRelu", alpha=module.negative_slope)


@emits(nn.ELU)
def emit_elu(module: nn.ELU, x: Value) -> Value:
    return x.apply("Elu", alpha=module.alpha)


@emits(nn.GELU)
def emit_gelu(module: nn.GELU, x: Value) -> Value:
    return x.apply("Gelu", approximate=module.approximate)


def lowest(x: Value) -> float:
    """The lowest finite number: the softmax of a row that is masked completely must not be NaN."""
    return float(np.finfo(x.dtype).min)
