"""One step of generation with recurrent layers: each is one call, and all that follows them is one program."""

import ctypes
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.kernels.fuse.scan import FusedScan
from seqloom.kernels.linalg.packed import PackedMatrix
from seqloom.kernels.program.program import Program
from seqloom.kernels.program.source_attention import attend_to_source, is_readable
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.partition import Partition
from seqloom.layers.attention.attention import Attention
from seqloom.layers.attention.decoder_attention import AttentionState, LuongAttention
from seqloom.layers.attention.scores import Dot, Multiplicative, Scaled
from seqloom.layers.bridge import BridgedLayer
from seqloom.layers.compiled_transformer import ordinary, write_linear, write_output
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack

SERIAL_LIMIT = 1 << 20
"""Multiplications of a cell's step that are not worth a second thread."""
SCALES: dict[type[nn.Module], Callable[[Attention], float]] = {
    Dot: lambda _: 1.0,
    Scaled: lambda attention: 1 / math.sqrt(attention.key_size),
    Multiplicative: lambda _: 1.0,
}
"""The scores that are products with prepared keys, and what the query is multiplied with."""


def fits(module: Any) -> bool:
    """Whether a step of the module is recurrences, at most an attention after them, and the softmax."""
    found = list(_flat(module.layer))
    *below, last = found
    recurrences = below if type(last) is LuongAttention else found
    if not recurrences or not all(type(layer) is Recurrent and not layer.reverse for layer in recurrences):
        return False
    if type(last) is LuongAttention and (
        type(last.attention) is not Attention or type(last.attention.score) not in SCALES
    ):
        return False
    linear = [last.output] if type(last) is LuongAttention else []
    stacks = [part for part in module.layer.modules() if type(part) is Stack]
    return ordinary(module, linear=linear, stacks=stacks) and all(
        _fused(layer, module.embed.weight) is not None for layer in recurrences
    )


def _flat(layer: nn.Module) -> Iterator[Any]:
    """The layers, lowest first, whatever they stand in."""
    if type(layer) is BridgedLayer:
        yield from _flat(layer.layer)
    elif type(layer) is Stack:
        for inner in layer.layers:
            yield from _flat(inner)
    else:
        yield layer


def _fused(layer: Recurrent, like: Tensor) -> FusedScan | None:
    found = layer._kernel(like)  # noqa: SLF001  it looks whether the cell has changed
    return found if isinstance(found, FusedScan) and found.plan.linear else None


class CompiledRecurrent:
    """The step of a module as calls of compiled code, with its packed weights."""

    def __init__(self, module: Any, members: int) -> None:
        self.embed, self.layer = module.embed, module.layer
        self.copied: list[nn.Parameter] = []
        found = list(_flat(module.layer))
        after = found.pop() if type(found[-1]) is LuongAttention else None
        self._weight = module.embed.weight
        self._cells = {id(layer): _Cell(layer, self._weight, self.copied) for layer in found}
        self._symbols = module.output.out_features
        self._program = Program(self._weight.dtype, members)
        width = found[-1].output_size
        current: Any = "seen"
        options = {"left_stride": width}
        if after is not None:
            current = self._program.region(after.output_size)
            wide = after.output.in_features
            self.copied.append(after.output.weight)
            write_linear(self._program, after.output, "seen", current, left_stride=wide, finish=("tanh", 0.0))
            options = {}
        self.copied += write_output(self._program, module, current, **options)
        self._program.finalize()

    def usable(self) -> bool:
        """Whether the cells are still those that the calls were made of."""
        return not any(cell.is_stale() for cell in self._cells.values())

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any] | None:
        found = self._run(self.layer, self._weight.detach().index_select(0, tokens), state)
        if found is None:
            return None
        seen, following = found
        out = torch.empty(len(tokens), self._symbols, dtype=seen.dtype)
        self._program.run(len(tokens), {"seen": seen.data_ptr(), "out": out.data_ptr()}, scratch=0)
        return out, following

    def _run(self, layer: Any, x: Tensor, state: Any) -> tuple[Tensor, Any] | None:
        """What the layer gives; of attention, what its output is made of. None where a state is not one for it."""
        if type(layer) is BridgedLayer:
            return self._run(layer.layer, x, state)
        if type(layer) is Recurrent:
            return self._cells[id(layer)](x, state)
        if type(layer) is LuongAttention:
            return _look(layer, x, state)
        if not isinstance(state, tuple) or len(state) != len(layer.layers):
            return None
        following: list[Any] = []
        for inner, part in zip(layer.layers, state, strict=True):
            found = self._run(inner, x, part)
            if found is None:
                return None
            x = found[0]
            following.append(found[1])
        return x, tuple(following)


def _look(layer: Any, x: Tensor, state: Any) -> tuple[Tensor, AttentionState] | None:  # (B, V + D), state
    """The context and what looked, side by side."""
    if not isinstance(state, AttentionState) or not _readable(state, x, width=layer.attention.key_size):
        return None
    (prepared, values, mask), rows = state.source
    scale = SCALES[type(layer.attention.score)](layer.attention)
    noted = state.coverage.clone(memory_format=torch.contiguous_format)
    seen = attend_to_source(x, prepared, values, mask=mask, rows=rows, scale=scale, accumulated=noted)
    return seen, AttentionState(state.source, state.step + 1, noted)


def _readable(state: AttentionState, x: Tensor, *, width: int) -> bool:
    """Whether everything is as long and as wide as the kernel takes it to be, which is given addresses alone."""
    (prepared, values, mask), rows = state.source
    if not (is_readable(prepared, x.dtype) and is_readable(values, x.dtype)):
        return False
    if not (is_readable(mask, torch.bool) and is_readable(rows, torch.int64)):
        return False
    (batch, size), shape, noted = x.shape, tuple(mask.shape), state.coverage
    if len(shape) != 2 or prepared.shape != (*shape, size) or values.shape != (*shape, width):
        return False
    if (noted.dtype, noted.device) != (x.dtype, x.device) or noted.shape not in ((batch, 0), (batch, shape[1])):
        return False
    if state.step.shape != (batch,) or rows.shape != (batch,):
        return False
    numbers: list[int] = rows.tolist()
    return min(numbers) >= 0 and max(numbers) < shape[0]


def _plain(given: Any, shape: tuple[int, int], like: Tensor) -> bool:
    return (
        type(given) is Tensor
        and given.shape == shape
        and given.dtype == like.dtype
        and given.device.type == "cpu"
        and given.is_contiguous()
    )


class _Cell:
    """Steps of one cell."""

    def __init__(self, layer: Recurrent, like: Tensor, copied: list[nn.Parameter]) -> None:
        fused = _fused(layer, like)
        if fused is None:
            raise TypeError(f"{type(layer.cell).__name__} has no fused kernel")
        self._layer, self._like, self._fused = layer, like, fused
        self._kind: Any = layer.cell.State
        self._kernel = fused.kernel("forward")
        parameters = dict(layer.cell.named_parameters())
        products = [(str(index), fused.plan.traced.products[index]) for index in self._kernel.products]
        matrices = {name: (product.matrix, product.transposed) for name, product in products}
        matrices["input"] = fused.plan.linear or "", True
        self._tensors: dict[str, Tensor] = {}
        self._work = 0  # multiplications for a row
        for name, (parameter, transposed) in matrices.items():
            weight = parameters[parameter]
            packed = PackedMatrix(weight.detach().t() if transposed else weight.detach())
            self._tensors[f"packed {name}"] = packed.values
            self._work += packed.depth * packed.width
        self._tensors |= {f"parameter {name}": parameters[name].detach().contiguous() for name in fused.names}
        copied += parameters.values()
        self._fields = tuple(
            (self._kernel.positions[f"initial {index}"], self._kernel.positions[f"final {index}"], size)
            for index, size in enumerate(fused.plan.traced.state)
        )
        self._benches: list[_Bench] = []

    def __call__(self, x: Tensor, state: Any) -> tuple[Tensor, Any] | None:  # (B, D) → (B, H), state
        batch, kernel = len(x), self._kernel
        if not isinstance(state, tuple) or len(state) != len(self._fields):
            return None
        if not all(_plain(given, (batch, size), x) for given, (_, _, size) in zip(state, self._fields, strict=True)):
            return None
        try:
            bench = self._benches.pop()
        except IndexError:  # all are in use by other threads
            bench = _Bench()
        if bench.batch != batch:
            bench.fill(batch, self._share(batch), kernel, self._tensors, x)
        table, following = bench.table, [torch.empty_like(given) for given in state]
        for given, after, (initial, final, _) in zip(state, following, self._fields, strict=True):
            table[initial], table[final] = given.data_ptr(), after.data_ptr()
        table[kernel.positions["x"]] = x.data_ptr()
        table[kernel.positions["sequence 0"]] = following[0].data_ptr()  # of one step it is the state
        bench.run(kernel.address)
        self._benches.append(bench)
        return following[0], self._kind(*following)

    def is_stale(self) -> bool:
        return _fused(self._layer, self._like) is not self._fused

    def _share(self, batch: int) -> Partition:
        workers = 1 if batch * self._work < SERIAL_LIMIT else threads.count()
        team = batch < workers and self._fused.plan.shareable and threads.can_team()
        parts = 1 if team else min(workers, batch)
        return Partition.create(1, batch, None, reverse=False, parts=parts, members=workers if team else 1)


class _Bench:
    """The arguments of a kernel and its memory, kept for the next step."""

    batch = 0

    def fill(self, batch: int, partition: Partition, kernel: Any, tensors: dict[str, Tensor], x: Tensor) -> None:
        """Write down what is the same at every step of such a batch."""
        size = kernel.layout.size(partition.max_rows, 1)
        self.batch, self._partition = batch, partition
        self._memory = torch.empty(partition.parts * size, dtype=x.dtype)
        self._meeting = ctypes.c_int64(0)
        self.table = (ctypes.c_int64 * len(kernel.positions))()
        known = partition.arguments | {name: tensor.data_ptr() for name, tensor in tensors.items()}
        known |= {"chunk": 1, "barrier": ctypes.addressof(self._meeting), "scratch": self._memory.data_ptr()}
        known |= {"scratch_bytes": size * x.element_size(), "x_time": x.stride(0), "x_row": x.stride(0)}
        for name, value in known.items():
            if name in kernel.positions:
                self.table[kernel.positions[name]] = value

    def run(self, address: int) -> None:
        self._meeting.value = 0
        place, partition = ctypes.addressof(self.table), self._partition
        if partition.members > 1:
            threads.run_team(address, place, partition.members)
        else:
            threads.run(address, place, partition.parts)
