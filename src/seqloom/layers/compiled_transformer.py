"""A decoder's step, written as a program: what it is made of, in which order, and where it finds what it needs."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.kernels.linalg.packed import LLVM_TYPES, PackedMatrix
from seqloom.kernels.program.operations import EPILOGUES, float_bits
from seqloom.kernels.program.program import Program, Region
from seqloom.layers.connection import Plain
from seqloom.layers.dropout import Dropout, VariationalDropout
from seqloom.layers.embedding import Embedding
from seqloom.layers.linear import Linear
from seqloom.layers.stack import Stack
from seqloom.layers.transformer.block import Norm, TransformerBlock
from seqloom.layers.transformer.positions import Positions, rotate

ACTIVATIONS: dict[type[nn.Module], tuple[str, str]] = {  # what follows a product, and the attribute with its parameter
    nn.ReLU: ("relu", ""),
    nn.Tanh: ("tanh", ""),
    nn.Sigmoid: ("sigmoid", ""),
    nn.LeakyReLU: ("leaky_relu", "negative_slope"),
    nn.ELU: ("elu", "alpha"),
    nn.GELU: ("gelu", ""),
    nn.Identity: ("none", ""),
}

STORE = ("keys", "values", "row_stride", "slot_stride", "length", "mask", "mask_stride")
TURNING = ("rotations", "positions")
PAST = (*STORE, *TURNING)
"""What self-attention of a layer is given at every step."""
SOURCE = (*STORE, "source_rows", "accumulated")
"""What attention to a memory is given at every step."""

ATTRIBUTES: dict[type[nn.Module], tuple[str, ...]] = {
    TransformerBlock: ("heads", "norm", "positions", "context", "causal", "memory_size"),
    Positions: ("kind",),
    nn.LayerNorm: ("eps",),
    Dropout: ("training",),
    VariationalDropout: ("training",),
    nn.GELU: ("approximate",),
    **{kind: (attribute,) for kind, (_, attribute) in ACTIVATIONS.items() if attribute},
}
"""What decides, beside parts and parameters, what a step does."""


def fits(module: Any) -> bool:
    """Whether a program can do what the module does in a step."""
    stack = module.layer
    if type(stack) is not Stack or type(stack.layers[0]) is not Positions:
        return False
    linear = [stack.layers[0].project] if _moves(stack.layers[0].project) else []
    for layer in list(stack.layers)[1:]:
        if type(layer) is TransformerBlock:
            linear += [layer.project, layer.collect, *([layer.ask, layer.gather] if layer.memory_size else [])]
            linear += [layer.feed[0], layer.feed[-1]]
            # A block that sees itself alone counts positions from its last element on.
            usual = layer.causal and layer.positions != "relative" and layer.context != 1
            between = layer.feed[1]
            if not usual or type(between) not in ACTIVATIONS or getattr(between, "approximate", "none") != "none":
                return False
        elif type(layer) is not Norm:
            return False
    return ordinary(module, linear=linear, stacks=[stack])


def ordinary(module: Any, *, linear: list[Any], stacks: list[Any]) -> bool:
    """Whether the parts around the layers are such as a program knows, at rest, and all of one type."""
    drops = [module.dropout, module.embed.dropout, *(stack.dropout for stack in stacks)]
    parameters = list(module.parameters())
    return (
        type(module.embed) is Embedding
        and all(type(part) in (Linear, nn.Linear) for part in [*linear, module.output])
        and (not _moves(module.bridge) or type(module.bridge) is nn.Linear)
        and all(type(part) is Plain for stack in stacks for part in stack.connections)
        and all(type(part) in (Dropout, VariationalDropout) for part in drops)
        and all(type(part) is nn.Parameter and part.device.type == "cpu" for part in parameters)
        and len({part.dtype for part in parameters}) == 1
        and parameters[0].dtype in LLVM_TYPES
        and module.embed.max_norm is None
        and not any(part.training for part in module.modules())
    )


def _moves(part: nn.Module) -> bool:
    return type(part) is not nn.Identity


class Table:
    """Vectors of positions, as many as were asked for so far."""

    def __init__(self, make: Callable[[Tensor], Tensor], longest: int | None = None) -> None:
        self._make, self._longest = make, longest
        self._rows = make(torch.arange(longest or 64))

    def upto(self, position: int) -> Tensor | None:
        """The table with at least this position; None if there is none."""
        if position >= len(self._rows):
            if self._longest is not None:
                return None
            self._rows = self._make(torch.arange(2 * position))
        return self._rows if position >= 0 else None


class CompiledTransformer:
    """The step of a module as a program, with its packed weights and the tables of its positions."""

    def __init__(self, module: Any, members: int) -> None:
        self.embed, self.layers = module.embed, list(module.layer.layers)
        self.dtype = self.embed.weight.dtype
        self.program = Program(self.dtype, members)
        self.places: Table | None = None  # what is added to the symbols' vectors
        self.turns: dict[int, Table] = {}  # of the layers with rotary positions
        self.copied: list[nn.Parameter] = []
        self.past_names: dict[int, tuple[str, ...]] = {}  # of what each layer is given
        self.source_names: dict[int, tuple[str, ...]] = {}
        self._write(module)
        self.program.finalize()

    def _write(self, module: Any) -> None:
        program, size = self.program, module.layer.output_size
        stream, sums = program.region(size), program.region(size)
        normed, now = program.region(size, per_thread=True), program.region(size, per_thread=True)
        seen = program.region(size)
        wide = max(
            [3 * size, *(layer.feed[0].out_features for layer in self.layers if type(layer) is TransformerBlock)]
        )
        inner = program.region(wide)
        self._enter(self.layers[0], stream)
        current = stream
        for index, layer in enumerate(self.layers[1:], 1):
            if type(layer) is Norm:
                self._norm(layer.norm, current, now)
                current = now
                continue
            parts = [self._attend, self._look, self._feed] if layer.memory_size else [self._attend, self._feed]
            for norm, part in zip(layer.norms, parts, strict=True):
                if layer.norm == "pre":
                    self._norm(norm, current, normed)
                    part(layer, index, normed, (inner, seen), {"around": current, "out": stream})
                    current = stream
                else:
                    part(layer, index, current, (inner, seen), {"around": current, "out": sums})
                    self._norm(norm, sums, now)
                    current = now
        self.copied += write_output(program, module, current)

    def _enter(self, positions: Any, out: Region) -> None:
        program = self.program
        weight = self.embed.weight
        symbols = {"source": weight, "index": "tokens", "source_stride": weight.stride(0), "out_stride": "stride"}
        scaled: dict[str, Any] = {"scale": float_bits(math.sqrt(positions.output_size)), "size": positions.output_size}
        if positions.kind in ("sinusoidal", "learned"):
            longest = None if positions.table is None else len(positions.table)
            like = torch.empty(0, dtype=self.dtype)
            self.copied += [] if positions.table is None else [positions.table]
            self.places = Table(lambda steps: positions.places(steps.unsqueeze(0), like)[0].detach(), longest)
            scaled |= {"position_table": "position_table", "positions": "next_position"}
        if not _moves(positions.project):
            program.add("embedding", **symbols, **scaled, out=out)
            return
        narrow, wide = program.region(positions.input_size), program.region(positions.output_size)
        program.add("embedding", **symbols, scale=float_bits(1.0), size=positions.input_size, out=narrow)
        self._linear(positions.project, narrow, wide)
        program.add("embedding", source=wide, source_stride="stride", **scaled, out=out, out_stride="stride")

    def _norm(self, norm: nn.LayerNorm, source: Region, out: Region) -> None:
        self.program.add(
            "norm",
            barrier=False,  # each member has its own
            source=source,
            source_stride="stride",
            source_own=source.thread_stride,
            weight=norm.weight,
            bias=norm.bias,
            epsilon=float_bits(norm.eps),
            out=out,
            out_stride="stride",
            out_own=out.thread_stride,
            size=norm.weight.numel(),
        )

    def _linear(self, linear: Any, left: Region, out: Region | str, **options: Any) -> None:
        write_linear(self.program, linear, left, out, **options)
        self.copied.append(linear.weight)

    def _attend(
        self, block: Any, index: int, left: Region, inside: tuple[Region, Region], ends: dict[str, Region]
    ) -> None:
        inner, seen = inside
        size = block.input_size
        self._linear(block.project, left, inner)
        if block.positions == "rotary":
            self.turns[index] = _turns(block.input_size // block.heads, self.dtype)
        self.past_names[index] = tuple(f"{field} {index}" for field in PAST)
        turning = block.positions == "rotary"
        names = zip(PAST, self.past_names[index], strict=True)
        given = {field: name for field, name in names if turning or field not in TURNING}
        new = {"new_keys": Region(inner.offset + size), "new_values": Region(inner.offset + 2 * size)}
        self._heads(block, inner, seen, **given, **new)
        self._linear(block.collect, seen, ends["out"], around=ends["around"])

    def _look(
        self, block: Any, index: int, left: Region, inside: tuple[Region, Region], ends: dict[str, Region]
    ) -> None:
        inner, seen = inside
        self._linear(block.ask, left, inner)
        self.source_names[index] = tuple(f"source {field} {index}" for field in SOURCE)
        self._heads(block, inner, seen, **dict(zip(SOURCE, self.source_names[index], strict=True)))
        self._linear(block.gather, seen, ends["out"], around=ends["around"])

    def _heads(self, block: Any, query: Region, out: Region, **operands: Any) -> None:
        width = block.input_size // block.heads
        fixed = {"query": query, "stride": "stride", "heads": block.heads, "size": width, "out": out}
        scale = float_bits(1 / math.sqrt(width))
        self.program.add("attention", **fixed, scale=scale, out_stride="stride", **operands)

    def _feed(self, block: Any, _: int, left: Region, inside: tuple[Region, Region], ends: dict[str, Region]) -> None:
        first, between, second = block.feed
        name, attribute = ACTIVATIONS[type(between)]
        self._linear(first, left, inside[0], finish=(name, getattr(between, attribute) if attribute else 0.0))
        self._linear(second, inside[0], ends["out"], around=ends["around"])


def write_linear(
    program: Program,
    linear: Any,
    left: Region | str,
    out: Region | str,
    *,
    around: Region | None = None,  # what the result is added to
    finish: tuple[str, float] = ("none", 0.0),  # what else follows the product
    **strides: Any,  # where they are not those of a row's strip
) -> None:
    """out = linear(left)."""
    packed = _packed(linear)
    bias = linear.weight.new_zeros(packed.columns) if linear.bias is None else linear.bias
    name, slope = finish if around is None else ("add", 0.0)
    beside: dict[str, Any] = (
        {}
        if around is None
        else {"residual": around, "residual_stride": "stride", "residual_own": around.thread_stride}
    )
    program.add(
        "linear",
        left=left,
        left_own=left.thread_stride if isinstance(left, Region) else 0,
        packed=packed.values,
        depth=packed.depth,
        panels=packed.panels,
        columns=packed.columns,
        bias=bias.detach(),
        epilogue=list(EPILOGUES).index(name),
        slope=float_bits(slope),
        out=out,
        **{"left_stride": "stride", "out_stride": "stride", **strides},
        **beside,
    )
    program.multiplications += packed.depth * packed.width


def write_output(program: Program, module: Any, current: Region | str, **strides: Any) -> list[nn.Parameter]:
    """Log-probabilities of the symbols, at "out"; the parameters that were copied."""
    copied = [module.output.weight]
    if _moves(module.bridge):
        bridged = program.region(module.bridge.out_features)
        write_linear(program, module.bridge, current, bridged, **strides)
        copied.append(module.bridge.weight)
        current, strides = bridged, {}
    symbols = module.output.out_features
    write_linear(program, module.output, current, "out", out_stride=symbols, **strides)
    program.add("log_softmax", out="out", out_stride=symbols, size=symbols)
    return copied


def _packed(linear: Any) -> PackedMatrix:
    """The copy of the weights that the linear map has itself, if it is one that packs."""
    shared = None
    if isinstance(linear, Linear):
        shared = linear.packed_weights(linear.weight.new_empty(1, linear.in_features))
    return shared or PackedMatrix(linear.weight.detach().t())


def _turns(width: int, dtype: torch.dtype) -> Table:
    units = torch.tensor([1.0, 0.0], dtype=dtype).repeat(width // 2)

    def make(steps: Tensor) -> Tensor:  # (N,) → (N, 2 D): cosines, and sines with alternating signs
        turned = rotate(units.expand(1, len(steps), 1, width), steps.unsqueeze(0)).view(len(steps), -1, 2)
        cosines, sines = turned.unbind(2)
        signed = torch.stack([-sines, sines], dim=2).flatten(1)
        return torch.cat([cosines.repeat_interleave(2, dim=1), signed], dim=1)

    return Table(make)
