"""Language models, which continue a text from the state after its last token."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from torch import nn

from seqloom.kernels.llvm.ir_builder import integer
from seqloom.layers.convolution import Convolution
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack
from seqloom.layers.transformer.block import Norm
from seqloom.models.decoder import Decoder
from seqloom.standalone.builder import Addresses, Array, ModelBuilder, Rows
from seqloom.standalone.models import look_up
from seqloom.standalone.modules import State, array, describe, emit_layer, emit_module, log_softmax, unsupported

Start = Any
"""Nested tuples of arrays, as the state that ``emit_layer`` returns."""

STARTS: dict[type[nn.Module], Callable[[Any], Start]] = {
    Recurrent: lambda layer: tuple(array(field).reshape(-1) for field in layer.cell.start(1)),
    Stack: lambda layer: tuple(map(start_of, layer.layers)),
    Norm: lambda _layer: (),
    Convolution: lambda layer: (np.zeros((layer.window - 1) * layer.input_size, np.float32),),
}


def start_of(layer: nn.Module) -> Start:
    """The state of a layer before the first token."""
    if type(layer) not in STARTS:
        raise unsupported(describe(layer))
    return STARTS[type(layer)](layer)


def state_size(decoder: Decoder) -> int:
    """Numbers in the state of a language model."""
    return sum(len(part) for part in _leaves(start_of(decoder.layer)))


def language_model(b: ModelBuilder, arguments: Addresses, *, decoder: Decoder) -> None:
    """The log-probabilities of the token after each one, and the state after the last."""
    vectors = look_up(b, decoder.embed, arguments["tokens"], b.length)
    values, state = emit_layer(b, decoder.layer, vectors, _continued(b, arguments, start_of(decoder.layer)))
    logits = log_softmax(b, emit_module(b, decoder.output, emit_module(b, decoder.bridge, values)))
    b.copy(logits, Rows(arguments["log_probabilities"], b.length, logits.size, logits.size))
    offset = 0
    for part in _leaves(state):
        b.copy(part, Rows(b.emit.advance(arguments["next_state"], offset), part.count, part.size, part.size))
        offset += part.size


def _continued(b: ModelBuilder, arguments: Addresses, start: Start) -> State:
    """The state that the caller passes, or the first one if it passes none. It is copied: the next may replace it."""
    given = arguments["state"]
    is_missing = b.builder.icmp_unsigned("==", given, integer(0))
    offset = 0

    def field(values: Array) -> Rows:
        nonlocal offset
        first = b.constant_rows(values)
        own = b.emit.advance(given, offset)
        offset += len(values)
        target = b.allocate(first.count, len(values))
        b.copy(Rows(b.builder.select(is_missing, first.address, own), first.count, len(values), 0), target)
        return target

    def nested(part: Start) -> State:
        return tuple(map(nested, part)) if isinstance(part, tuple) else field(part)

    return nested(start)


def _leaves(state: Any) -> Iterator[Any]:
    if isinstance(state, tuple):
        for part in state:
            yield from _leaves(part)
    else:
        yield state
