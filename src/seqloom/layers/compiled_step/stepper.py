"""Runs steps of a decoder by compiled code, if the decoder is supported and unchanged."""

from typing import Any

import torch
from torch import Tensor, nn

from seqloom.kernels.program import attention
from seqloom.kernels.program.program import Repetition
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.staleness import (
    FORWARD_HOOKS,
    ModuleSnapshot,
    active_transform,
    global_forward_hooks,
    hook_tables,
)
from seqloom.layers.compiled_step import compiled_recurrent, compiled_transformer
from seqloom.layers.compiled_step.choosing import Choice, Choosing, Chosen, steps_at_once
from seqloom.layers.compiled_step.compiled_recurrent import CompiledRecurrent
from seqloom.layers.compiled_step.compiled_transformer import (
    ATTRIBUTES,
    SELF_ATTENTION_OPERANDS,
    CompiledTransformer,
)
from seqloom.layers.layer import untraced
from seqloom.layers.transformer.block import Norm, TransformerBlock
from seqloom.layers.transformer.cache import Cache
from seqloom.layers.transformer.positions import Positions
from seqloom.state import Shared


class Stepper:
    """Compiled steps of a module with the submodules ``embed``, ``layer``, ``dropout``, ``bridge`` and ``output``.

    The step is compiled at the first call, and again when the module has changed.
    """

    def __init__(self) -> None:
        self._compiled: _Compiled | None = None

    @untraced
    def __call__(
        self,
        module: nn.Module,
        tokens: Tensor,  # (B,)
        state: Any,
    ) -> tuple[Tensor, Any] | None:  # log-probabilities (B, V), state; None if unsupported
        compiled = self._current(module, tokens)
        return None if compiled is None else compiled.step(tokens, state)

    @untraced
    def choose(
        self,
        module: nn.Module,
        tokens: Tensor,  # (B,)
        state: Any,
        choice: Choice,
    ) -> Chosen | None:
        """The most probable tokens of several steps, in one call of compiled code; None if unsupported."""
        compiled = self._current(module, tokens)
        return None if compiled is None else compiled.choose(tokens, state, choice)

    def _current(self, module: nn.Module, tokens: Tensor) -> "_Compiled | None":
        """The compiled module as it is now."""
        if torch.is_grad_enabled() or module.training or not _is_plain(tokens) or active_transform() is not None:
            return None
        compiled = self._compiled
        if compiled is None or not compiled.usable():
            self._compiled = None
            if _has_hooks(module) or unsupported(module):
                return None
            compiled = self._compiled = _Compiled(module)
        return compiled

    def clear(self) -> None:
        """Free the packed weights."""
        self._compiled = None

    def __reduce__(self) -> tuple[type["Stepper"], tuple[()]]:
        """Copies start without compiled code."""
        return Stepper, ()


def unsupported(module: Any) -> str:
    """Why the layers of a module run step by step instead of as compiled code; empty if they are compiled."""
    if any(isinstance(part, TransformerBlock) for part in module.layer.modules()):
        return compiled_transformer.unsupported(module)
    return compiled_recurrent.unsupported(module)


def _has_hooks(module: nn.Module) -> bool:
    return any(hook_tables(module.modules(), FORWARD_HOOKS)) or any(global_forward_hooks())


def _is_plain(tokens: Tensor) -> bool:
    return (
        type(tokens) is Tensor
        and tokens.dim() == 1
        and tokens.shape[0] > 0
        and tokens.dtype is torch.int64
        and tokens.is_cpu
        and tokens.is_contiguous()
    )


class _Compiled:
    """A compiled module with a snapshot of what it was compiled from."""

    def __init__(self, module: Any) -> None:
        self._members, self._vocab_size = threads.count(), module.embed.num_embeddings
        self._outputs = module.output.out_features
        self._step = (
            _TransformerStep(module, self._members)
            if not compiled_transformer.unsupported(module)
            else CompiledRecurrent(module, self._members)
        )
        self._snapshot = ModuleSnapshot(
            module, attributes=ATTRIBUTES | compiled_recurrent.ATTRIBUTES, copied=self._step.copied
        )

    def usable(self) -> bool:
        return self._members == threads.count() and self._snapshot.matches() and self._step.usable()

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any] | None:
        return self._step.step(tokens, state) if self._has_embeddings(tokens.tolist()) else None

    def choose(self, tokens: Tensor, state: Any, choice: Choice) -> Chosen | None:
        written = [choice.end, *choice.suppressed.tolist()]
        if min(written) < 0 or max(written) >= self._outputs or self._outputs > self._vocab_size:
            return None
        return self._step.choose(tokens, state, choice) if self._has_embeddings(tokens.tolist()) else None

    def _has_embeddings(self, indices: list[int]) -> bool:
        return min(indices) >= 0 and max(indices) < self._vocab_size


class _TransformerStep:
    """The step of a Transformer as one program."""

    def __init__(self, module: Any, members: int) -> None:
        self._compiled = CompiledTransformer(module, members)
        self._vocab_size, self.copied = module.output.out_features, self._compiled.copied

    def usable(self) -> bool:
        return True  # the snapshot covers everything

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any] | None:
        arguments = _ProgramArguments(self._compiled, tokens.numel(), steps=1)
        if (next_states := arguments.layers(state)) is None:
            return None
        out = torch.empty(len(tokens), self._vocab_size, dtype=self._compiled.dtype)
        arguments.addresses.update(tokens=tokens.data_ptr(), out=out.data_ptr())
        self._compiled.program.run(len(tokens), arguments.addresses, scratch=arguments.scratch)
        return out, self._finished(next_states)

    def choose(self, tokens: Tensor, state: Any, choice: Choice) -> Chosen | None:
        steps = min(steps_at_once(choice.steps, len(tokens)), self._compiled.steps_left(state))
        arguments = _ProgramArguments(self._compiled, len(tokens), steps=steps)
        if steps < 1 or (next_states := arguments.layers(state)) is None:
            return None
        chosen = Choosing(choice, tokens, steps=steps, vocab_size=self._vocab_size, dtype=self._compiled.dtype)
        done = self._compiled.program.run(
            len(tokens),
            arguments.addresses | chosen.addresses,
            scratch=arguments.scratch,
            repetition=Repetition(steps, arguments.growing | chosen.growing, arguments.numbers),
        )
        return chosen.result(done, self._finished(next_states, unused=steps - done))

    def _finished(self, next_states: list[Any], *, unused: int = 0) -> tuple[Any, ...]:
        """The states without the steps that were not made, and without what no later element attends to."""
        for index, layer in enumerate(self._compiled.layers):
            if type(layer) is Positions and unused:
                next_states[index] = Positions.State(next_states[index].position - unused)
            elif type(layer) is TransformerBlock and (unused or layer.context):
                block = next_states[index]
                past = block.past.release(unused)
                next_states[index] = block._replace(past=past.latest(layer.context - 1) if layer.context else past)
        return tuple(next_states)


class _ProgramArguments:
    """Arguments of a program. Methods return the state after all steps, or None if the state is unsupported.

    Both states keep the tensors alive whose addresses are passed, and the program runs while its caller holds them.
    """

    def __init__(self, compiled: CompiledTransformer, batch: int, *, steps: int) -> None:
        self._compiled, self._batch, self._steps = compiled, batch, steps
        self._alive: list[Tensor] = []  # position tables, which another thread may replace, and positions that grow
        self.addresses: dict[str, int] = {}
        self.growing: dict[str, int] = {}
        self.numbers: list[tuple[int, int, int]] = []
        self.scratch = 0

    def layers(self, state: Any) -> list[Any] | None:
        """The states of all layers."""
        layers = self._compiled.layers
        if not isinstance(state, tuple) or len(state) != len(layers):
            return None
        next_states: list[Any] = []
        for index, (layer, layer_state) in enumerate(zip(layers, state, strict=True)):
            next_state: Any = ()
            if index == 0:
                next_state = self._positions(layer_state)
            elif type(layer) is not Norm:
                next_state = self._block(index, layer_state)
            if next_state is None:
                return None
            next_states.append(next_state)
        return next_states

    def _address(self, tensor: Tensor) -> int:
        self._alive.append(tensor)
        return tensor.data_ptr()

    def _growing_address(self, positions: Tensor) -> int:
        """The address of positions that are those of each step."""
        if self._steps == 1:
            return positions.data_ptr()
        address = self._address(positions.clone())
        self.numbers.append((address, self._batch, 1))
        return address

    def _is_index(self, tensor: Any) -> bool:
        fits = isinstance(tensor, Tensor) and tensor.shape == (self._batch,) and tensor.is_contiguous()
        return fits and tensor.dtype == torch.int64

    def _positions(self, state: Any) -> Positions.State | None:
        if not isinstance(state, Positions.State) or not self._is_index(state.position):
            return None
        position_table = self._compiled.position_table
        if position_table is not None:
            table = position_table.up_to(max(state.position.tolist()) + self._steps - 1)
            if table is None:
                return None
            self.addresses["position_table"] = self._address(table)
            self.addresses["next_position"] = self._growing_address(state.position)
        return Positions.State(state.position + self._steps)

    def _block(self, index: int, state: Any) -> TransformerBlock.State | None:
        layer: Any = self._compiled.layers[index]
        if not isinstance(state, TransformerBlock.State) or not isinstance(state.past, Cache):
            return None
        past = self._past(index, layer, state.past)
        coverage: Tensor | None = state.coverage
        if past is not None and layer.memory_size:
            coverage = self._source(index, layer, state.memory, state.coverage)
        return None if past is None or coverage is None else TransformerBlock.State(past, state.memory, coverage)

    def _past(self, index: int, layer: Any, past: Cache) -> Cache | None:
        """Return the cache with a slot for each new element."""
        width, steps = layer.input_size // layer.heads, self._steps
        if past.keys.dtype != self._compiled.dtype or past.keys.shape[::2] != (self._batch, layer.heads):
            return None
        if steps > 1 and (past.mask.shape[1] or (layer.context and past.length + steps > layer.context)):
            return None  # the mask, or the first slot of the window, changes from step to step
        kept = past.reserve(steps)
        if kept is None:
            slots = past.keys.new_empty(self._batch, steps, layer.heads, width)
            kept = past.append(slots, slots, None)
        strides, mask = kept.keys.stride(), kept.mask
        gaps = mask.shape[1] > 0
        if strides[2:] != (width, 1) or kept.values.stride() != strides or (gaps and layer.context):
            return None
        if gaps and layer.positions == "alibi":  # distances do not follow from the slots
            return None
        rotation = 0, 0
        if index in self._compiled.rotations:
            if not self._is_index(past.position):
                return None
            table = self._compiled.rotations[index].up_to(max(past.position.tolist()) + steps - 1)
            if table is None:
                return None
            rotation = self._address(table), self._growing_address(past.position)
        total = kept.length
        length = total - steps + 1  # of the first step
        hidden = max(0, length - layer.context) if layer.context else 0
        skipped = hidden * strides[1] * kept.keys.element_size()
        keys, values = kept.keys.data_ptr() + skipped, kept.values.data_ptr() + skipped
        masking = (mask.data_ptr(), mask.stride(0)) if gaps else (0, 0)
        operands = (keys, values, *strides[:2], length - hidden, *masking, *rotation)
        names = self._compiled.self_attention_names[index]
        self.addresses.update(zip(names, operands, strict=True))
        self.growing[names[SELF_ATTENTION_OPERANDS.index("length")]] = 1
        self._reserve_scratch(width, total)
        return kept

    def _source(self, index: int, layer: Any, memory: Any, coverage: Tensor) -> Tensor | None:
        """Return a copy of the coverage, to which the program adds the weights of this step."""
        if not isinstance(memory, Shared) or not self._is_index(memory.rows):
            return None
        keys, values, mask = memory.parts
        strides, length, width = keys.stride(), keys.shape[1], layer.input_size // layer.heads
        if keys.dtype != self._compiled.dtype or strides[2:] != (width, 1) or values.stride() != strides:
            return None
        if (mask.shape[1] and not mask.is_contiguous()) or coverage.shape[1] not in (0, length):
            return None
        accumulated = 0
        if coverage.shape[1]:
            coverage = coverage.clone(memory_format=torch.contiguous_format)
            accumulated = coverage.data_ptr()
        masking = (mask.data_ptr(), length) if mask.shape[1] else (0, 0)
        operands = (
            keys.data_ptr(),
            values.data_ptr(),
            *strides[:2],
            length,
            *masking,
            memory.rows.data_ptr(),
            accumulated,
        )
        self.addresses.update(zip(self._compiled.cross_attention_names[index], operands, strict=True))
        self._reserve_scratch(width, length)
        return coverage

    def _reserve_scratch(self, width: int, length: int) -> None:
        self.scratch = max(self.scratch, attention.scratch_size(self._compiled.program.real, width, length))
