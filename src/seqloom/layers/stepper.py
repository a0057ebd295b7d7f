"""One step of generation by compiled code: of a Transformer one program, of recurrences a call each and a program."""

from typing import Any

import torch
from torch import Tensor, nn

from seqloom.kernels.program import attention
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.staleness import (
    FORWARD_HOOKS,
    Snapshot,
    active_transform,
    global_forward_hooks,
    hook_tables,
)
from seqloom.layers import compiled_recurrent, compiled_transformer
from seqloom.layers.compiled_recurrent import CompiledRecurrent
from seqloom.layers.compiled_transformer import ATTRIBUTES, CompiledTransformer
from seqloom.layers.layer import untraced
from seqloom.layers.transformer.block import Norm, TransformerBlock
from seqloom.layers.transformer.cache import Cache
from seqloom.layers.transformer.positions import Positions
from seqloom.state import Shared


class Stepper:
    """Steps of a module with the parts ``embed``, ``layer``, ``dropout``, ``bridge`` and ``output``.

    The program is made when it is first asked for, and made again when the module has changed.
    """

    def __init__(self) -> None:
        self._compiled: _Compiled | None = None

    @untraced
    def __call__(
        self,
        module: nn.Module,
        tokens: Tensor,  # (B,)
        state: Any,
    ) -> tuple[Tensor, Any] | None:  # log-probabilities (B, V), state; None: this step is not one for a program
        if torch.is_grad_enabled() or module.training or not _plain(tokens) or active_transform() is not None:
            return None
        compiled = self._compiled
        if compiled is None or not compiled.usable():
            self._compiled = None
            if _has_hooks(module) or not (compiled_transformer.fits(module) or compiled_recurrent.fits(module)):
                return None
            compiled = self._compiled = _Compiled(module)
        return compiled.step(tokens, state)

    def forget(self) -> None:
        """Give back the memory of packed weights."""
        self._compiled = None

    def __reduce__(self) -> tuple[type["Stepper"], tuple[()]]:
        """A copy begins anew."""
        return Stepper, ()


def _has_hooks(module: nn.Module) -> bool:
    return any(hook_tables(module.modules(), FORWARD_HOOKS)) or any(global_forward_hooks())


def _plain(tokens: Tensor) -> bool:
    return (
        type(tokens) is Tensor
        and tokens.dim() == 1
        and len(tokens) > 0
        and tokens.dtype == torch.int64
        and tokens.device.type == "cpu"
        and tokens.is_contiguous()
    )


class _Compiled:
    """A module as a program, for the states that a step meets."""

    def __init__(self, module: Any) -> None:
        self._members, self._known = threads.count(), module.embed.num_embeddings
        self._kind = (
            _Blocks(module, self._members)
            if compiled_transformer.fits(module)
            else CompiledRecurrent(module, self._members)
        )
        self._snapshot = Snapshot(module, attributes=ATTRIBUTES, copied=self._kind.copied)

    def usable(self) -> bool:
        return self._members == threads.count() and self._snapshot.matches() and self._kind.usable()

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any] | None:
        numbers = tokens.tolist()
        if min(numbers) < 0 or max(numbers) >= self._known:
            return None
        return self._kind.step(tokens, state)


class _Blocks:
    """Blocks of a Transformer as one program."""

    def __init__(self, module: Any, members: int) -> None:
        self._compiled = CompiledTransformer(module, members)
        self._symbols, self.copied = module.output.out_features, self._compiled.copied

    def usable(self) -> bool:
        return True  # the snapshot knows all that it is made of

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any] | None:
        compiled, rows = self._compiled, len(tokens)
        if not isinstance(state, tuple) or len(state) != len(compiled.layers):
            return None
        call = _Call(compiled, rows)
        following: list[Any] = []
        for index, (layer, part) in enumerate(zip(compiled.layers, state, strict=True)):
            found = call.positions(part) if not index else () if type(layer) is Norm else call.block(index, part)
            if found is None:
                return None
            following.append(found)
        out = torch.empty(rows, self._symbols, dtype=compiled.dtype)
        call.given.update(tokens=tokens.data_ptr(), out=out.data_ptr())
        compiled.program.run(rows, call.given, scratch=call.scratch)
        for index, layer in enumerate(compiled.layers):
            if type(layer) is TransformerBlock and layer.context:
                block = following[index]
                following[index] = block._replace(past=block.past.latest(layer.context - 1))
        return out, tuple(following)


class _Call:
    """What a program is given for one step; None where a state is not one for it."""

    def __init__(self, compiled: CompiledTransformer, batch: int) -> None:
        self._compiled, self._batch = compiled, batch
        self._alive: list[Tensor] = []
        self.given: dict[str, int] = {}
        self.scratch = 0

    def _address(self, tensor: Tensor) -> int:
        self._alive.append(tensor)
        return tensor.data_ptr()

    def _indices(self, tensor: Any) -> bool:
        shaped = isinstance(tensor, Tensor) and tensor.shape == (self._batch,) and tensor.is_contiguous()
        return shaped and tensor.dtype == torch.int64

    def positions(self, state: Any) -> Positions.State | None:
        if not isinstance(state, Positions.State) or not self._indices(state.position):
            return None
        places = self._compiled.places
        if places is not None:
            table = places.upto(max(state.position.tolist()))
            if table is None:
                return None
            self.given |= {"position_table": self._address(table), "next_position": self._address(state.position)}
        return Positions.State(state.position + 1)

    def block(self, index: int, state: Any) -> TransformerBlock.State | None:
        layer: Any = self._compiled.layers[index]
        if not isinstance(state, TransformerBlock.State) or not isinstance(state.past, Cache):
            return None
        past = self._past(index, layer, state.past)
        noted: Tensor | None = state.coverage
        if past is not None and layer.memory_size:
            noted = self._source(index, layer, state.memory, state.coverage)
        return None if past is None or noted is None else TransformerBlock.State(past, state.memory, noted)

    def _past(self, index: int, layer: Any, past: Cache) -> Cache | None:
        """The cache with a slot for the new element."""
        width = layer.input_size // layer.heads
        if past.keys.dtype != self._compiled.dtype or past.keys.shape[::2] != (self._batch, layer.heads):
            return None
        kept = past.reserve(1)
        if kept is None:
            blank = past.keys.new_empty(self._batch, 1, layer.heads, width)
            kept = past.append(blank, blank, None)
        strides, mask = kept.keys.stride(), kept.mask
        gaps = mask.shape[1] > 0
        if strides[2:] != (width, 1) or kept.values.stride() != strides or (gaps and layer.context):
            return None
        turned = 0, 0
        if index in self._compiled.turns:
            highest = max(past.position.tolist()) if self._indices(past.position) else -1
            table = self._compiled.turns[index].upto(highest)
            if table is None:
                return None
            turned = self._address(table), self._address(past.position)
        length = kept.length
        hidden = max(0, length - layer.context) if layer.context else 0
        skipped = hidden * strides[1] * kept.keys.element_size()
        keys, values = self._address(kept.keys) + skipped, self._address(kept.values) + skipped
        masking = (self._address(mask), mask.stride(0)) if gaps else (0, 0)
        words = (keys, values, *strides[:2], length - hidden, *masking, *turned)
        self.given.update(zip(self._compiled.past_names[index], words, strict=True))
        self._need(width, length)
        return kept

    def _source(self, index: int, layer: Any, memory: Any, noted: Tensor) -> Tensor | None:
        """How much the memory was looked at, with room for this step's part."""
        if not isinstance(memory, Shared) or not self._indices(memory.rows):
            return None
        keys, values, mask = memory.parts
        strides, length, width = keys.stride(), keys.shape[1], layer.input_size // layer.heads
        if keys.dtype != self._compiled.dtype or strides[2:] != (width, 1) or values.stride() != strides:
            return None
        if (mask.shape[1] and not mask.is_contiguous()) or noted.shape[1] not in (0, length):
            return None
        received = 0
        if noted.shape[1]:
            noted = noted.clone(memory_format=torch.contiguous_format)
            received = self._address(noted)
        masking = (self._address(mask), length) if mask.shape[1] else (0, 0)
        words = (self._address(keys), self._address(values), *strides[:2], length, *masking)
        words = (*words, self._address(memory.rows), received)
        self.given.update(zip(self._compiled.source_names[index], words, strict=True))
        self._need(width, length)
        return noted

    def _need(self, width: int, length: int) -> None:
        self.scratch = max(self.scratch, attention.scratch_size(self._compiled.program.real, width, length))
