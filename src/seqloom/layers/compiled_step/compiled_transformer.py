"""A Transformer decoder's step as a program: one call of compiled code."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.kernels.linalg.packed import LLVM_TYPES, PackedMatrix
from seqloom.kernels.linalg.quantized import QuantizedMatrix
from seqloom.kernels.program.choice import CHOICE_OPERANDS
from seqloom.kernels.program.operations import EPILOGUES, float_bits
from seqloom.kernels.program.program import Program, Region
from seqloom.layers.connection import Plain
from seqloom.layers.dropout import Dropout, VariationalDropout
from seqloom.layers.embedding import Embedding
from seqloom.layers.linear import Linear
from seqloom.layers.stack import Stack
from seqloom.layers.transformer.block import Norm, TransformerBlock
from seqloom.layers.transformer.heads import MultiHeadAttention
from seqloom.layers.transformer.positions import Positions, rotate

ACTIVATIONS: dict[type[nn.Module], tuple[str, str]] = {  # epilogue of a product, and the attribute of its parameter
    nn.ReLU: ("relu", ""),
    nn.Tanh: ("tanh", ""),
    nn.Sigmoid: ("sigmoid", ""),
    nn.LeakyReLU: ("leaky_relu", "negative_slope"),
    nn.ELU: ("elu", "alpha"),
    nn.GELU: ("gelu", ""),
    nn.Identity: ("none", ""),
}

CACHE_OPERANDS = ("keys", "values", "row_stride", "slot_stride", "length", "mask", "mask_stride")
ROTARY_OPERANDS = ("rotations", "positions")
SELF_ATTENTION_OPERANDS = (*CACHE_OPERANDS, *ROTARY_OPERANDS)
"""Operands of a layer's self-attention that change at every step."""
CROSS_ATTENTION_OPERANDS = (*CACHE_OPERANDS, "source_rows", "accumulated")
"""Operands of a layer's cross-attention that change at every step."""

UNLIMITED = 1 << 30

ATTRIBUTES: dict[type[nn.Module], tuple[str, ...]] = {
    TransformerBlock: ("heads", "norm", "positions", "context", "causal", "memory_size"),
    Positions: ("kind", "padding", "max_positions"),
    nn.LayerNorm: ("eps",),
    Dropout: ("training",),
    VariationalDropout: ("training",),
    nn.GELU: ("approximate",),
    **{kind: (attribute,) for kind, (_, attribute) in ACTIVATIONS.items() if attribute},
}
"""Attributes that a step depends on, besides submodules and parameters."""


def unsupported(module: Any) -> str:
    """Why a step of the module cannot run as a program; empty if it can."""
    stack = module.layer
    if type(stack) is not Stack or type(stack.layers[0]) is not Positions:
        return "the layers are no Transformer"
    if stack.layers[0].kind == "normalized_counts":
        return "normalised counts need the length of the whole sequence"
    linear = [stack.layers[0].project] if _is_linear(stack.layers[0].project) else []
    for layer in list(stack.layers)[1:]:
        if type(layer) is TransformerBlock:
            linear += [
                layer.query_key_value,
                layer.output,
                *([layer.cross_query, layer.cross_output] if layer.memory_size else []),
            ]
            linear += [layer.feed_forward[0], layer.feed_forward[-1]]
            if reason := _unsupported_block(layer):
                return reason
        elif type(layer) is not Norm:
            return f"{type(layer).__name__} is no part of a Transformer"
    return unsupported_parts(module, linear=linear, stacks=[stack])


def _unsupported_block(block: TransformerBlock) -> str:
    activation = block.feed_forward[1]
    if not block.causal:
        return "the Transformer is not causal"
    if type(block.attention) is not MultiHeadAttention:
        return f"{type(block.attention).__name__} is not compiled, only softmax attention"
    if block.positions == "relative":
        return "relative positions have vectors for each pair of elements"
    if block.context == 1:
        return "with a context of 1 the cache is empty, and positions are not known from its length"
    if type(activation) not in ACTIVATIONS or getattr(activation, "approximate", "none") != "none":
        return f"the activation {activation} has no compiled form"
    return ""


def unsupported_parts(module: Any, *, linear: list[Any], stacks: list[Any]) -> str:
    """Why the modules around the layers are not supported: they are, in eval mode, on the CPU and of one dtype."""
    dropouts = [module.dropout, module.embed.dropout, *(stack.dropout for stack in stacks)]
    parameters = list(module.parameters())
    if any(part.training for part in module.modules()):
        return "the module is in training mode"
    if type(module.embed) is not Embedding or module.embed.max_norm is not None:
        return "the embedding is not a plain one"
    if not all(type(part) in (Linear, nn.Linear) for part in [*linear, module.output]):
        return "a linear map is not a plain one"
    if _is_linear(module.bridge) and type(module.bridge) is not Linear:
        return "the map before the softmax is not a plain one"
    if not all(type(part) is Plain for stack in stacks for part in stack.connections):
        return "the layers have skip connections"
    if not all(type(part) in (Dropout, VariationalDropout) for part in dropouts):
        return "dropout is not a plain one"
    if not all(type(part) is nn.Parameter and part.device.type == "cpu" for part in parameters):
        return "a parameter is not on the CPU"
    if len({part.dtype for part in parameters}) != 1 or parameters[0].dtype not in LLVM_TYPES:
        return "the parameters are not all float32 or all float64"
    return ""


def _is_linear(part: nn.Module) -> bool:
    return type(part) is not nn.Identity


class PositionTable:
    """Vectors of positions; the table grows on demand."""

    def __init__(self, make: Callable[[Tensor], Tensor], size: int | None = None) -> None:
        self._make, self.size = make, size
        self._rows = make(torch.arange(size or 64))

    def up_to(self, position: int) -> Tensor | None:
        """Return the table with at least this position; None if it has no such position."""
        if position >= len(self._rows):
            if self.size is not None:
                return None
            self._rows = self._make(torch.arange(2 * position))
        return self._rows if position >= 0 else None


class CompiledTransformer:
    """A module's step as a program, with packed weights and position tables."""

    def __init__(self, module: Any, members: int) -> None:
        self.embed, self.layers = module.embed, list(module.layer.layers)
        self.dtype = self.embed.weight.dtype
        self.program = Program(self.dtype, members)
        self.position_table: PositionTable | None = None  # vectors added to the token embeddings
        self.rotations: dict[int, PositionTable] = {}  # by layer, for rotary positions
        self.copied: list[nn.Parameter] = []
        self.self_attention_names: dict[int, tuple[str, ...]] = {}  # names of the operands, by layer
        self.cross_attention_names: dict[int, tuple[str, ...]] = {}
        self._write(module)
        self.program.finalize()

    def steps_left(self, state: Any) -> int:
        """Steps for which there are learned positions; many if they are not limited."""
        size = None if self.position_table is None else self.position_table.size
        first = state[0] if isinstance(state, tuple) and state else None
        if size is None or not isinstance(first, Positions.State):
            return UNLIMITED
        return size - max(first.position.tolist(), default=0)

    def _write(self, module: Any) -> None:
        program, size = self.program, module.layer.output_size
        stream, sums = program.region(size), program.region(size)
        normed, output = program.region(size, per_thread=True), program.region(size, per_thread=True)
        context = program.region(size)
        blocks = [layer for layer in self.layers if type(layer) is TransformerBlock]
        inner = program.region(max([3 * size, *(block.feed_forward[0].out_features for block in blocks)]))
        self._embed(self.layers[0], stream)
        current = stream
        for index, layer in enumerate(self.layers[1:], 1):
            if type(layer) is Norm:
                self._norm(layer.norm, current, output)
                current = output
                continue
            sublayers = [self._self_attention, self._feed_forward]
            if layer.memory_size:
                sublayers.insert(1, self._cross_attention)
            for norm, sublayer in zip(layer.norms, sublayers, strict=True):
                if layer.norm == "pre":
                    self._norm(norm, current, normed)
                    sublayer(layer, index, normed, (inner, context), {"residual": current, "out": stream})
                    current = stream
                else:
                    sublayer(layer, index, current, (inner, context), {"residual": current, "out": sums})
                    self._norm(norm, sums, output)
                    current = output
        self.copied += write_output(program, module, current)

    def _embed(self, positions: Any, out: Region) -> None:
        program = self.program
        weight = self.embed.weight
        tokens = {"source": weight, "index": "tokens", "source_stride": weight.stride(0), "out_stride": "stride"}
        scaled: dict[str, Any] = {"scale": float_bits(math.sqrt(positions.output_size)), "size": positions.output_size}
        if positions.has_features:
            size = positions.max_positions if positions.is_limited else None
            like = torch.empty(0, dtype=self.dtype)
            self.copied += [] if positions.table is None else [positions.table]
            self.copied += [] if positions.widen is None else [positions.widen.weight]
            self.position_table = PositionTable(
                lambda steps: positions.embed_positions(steps.unsqueeze(0), like)[0].detach(), size
            )
            scaled |= {"position_table": "position_table", "positions": "next_position"}
        project = _padded(positions, self.dtype)
        if not _is_linear(project):
            program.add("embedding", **tokens, **scaled, out=out)
            return
        narrow, wide = program.region(positions.input_size), program.region(positions.output_size)
        program.add("embedding", **tokens, scale=float_bits(1.0), size=positions.input_size, out=narrow)
        self._linear(project, narrow, wide)
        self.copied += positions.project.parameters()
        program.add("embedding", source=wide, source_stride="stride", **scaled, out=out, out_stride="stride")

    def _norm(self, norm: nn.LayerNorm, source: Region, out: Region) -> None:
        self.program.add(
            "norm",
            barrier=False,  # each thread has its own copy
            source=source,
            source_stride="stride",
            source_thread_stride=source.thread_stride,
            weight=norm.weight,
            bias=norm.bias,
            epsilon=float_bits(norm.eps),
            out=out,
            out_stride="stride",
            out_thread_stride=out.thread_stride,
            size=norm.weight.numel(),
        )

    def _linear(self, linear: Any, left: Region, out: Region | str, **options: Any) -> None:
        write_linear(self.program, linear, left, out, **options)
        self.copied.append(linear.weight)

    def _self_attention(
        self, block: Any, index: int, left: Region, buffers: tuple[Region, Region], ends: dict[str, Region]
    ) -> None:
        inner, context = buffers
        size = block.input_size
        self._linear(block.query_key_value, left, inner)
        rotary = block.positions == "rotary"
        if rotary:
            self.rotations[index] = _rotation_table(block.input_size // block.heads, self.dtype)
        self.self_attention_names[index] = tuple(f"{field} {index}" for field in SELF_ATTENTION_OPERANDS)
        names = zip(SELF_ATTENTION_OPERANDS, self.self_attention_names[index], strict=True)
        operands = {field: name for field, name in names if rotary or field not in ROTARY_OPERANDS}
        slopes = {"slopes": block.attention.slopes.to(self.dtype)} if block.positions == "alibi" else {}
        new = slopes | {"new_keys": Region(inner.offset + size), "new_values": Region(inner.offset + 2 * size)}
        self._attention(block, inner, context, **operands, **new)
        self._linear(block.output, context, **ends)

    def _cross_attention(
        self, block: Any, index: int, left: Region, buffers: tuple[Region, Region], ends: dict[str, Region]
    ) -> None:
        inner, context = buffers
        self._linear(block.cross_query, left, inner)
        names = tuple(f"source {field} {index}" for field in CROSS_ATTENTION_OPERANDS)
        self.cross_attention_names[index] = names
        self._attention(block, inner, context, **dict(zip(CROSS_ATTENTION_OPERANDS, names, strict=True)))
        self._linear(block.cross_output, context, **ends)

    def _attention(self, block: Any, query: Region, out: Region, **operands: Any) -> None:
        width = block.input_size // block.heads
        fixed = {"query": query, "stride": "stride", "heads": block.heads, "size": width, "out": out}
        scale = float_bits(1 / math.sqrt(width))
        self.program.add("attention", **fixed, scale=scale, out_stride="stride", **operands)

    def _feed_forward(
        self, block: Any, _: int, left: Region, buffers: tuple[Region, Region], ends: dict[str, Region]
    ) -> None:
        first, activation, second = block.feed_forward
        name, attribute = ACTIVATIONS[type(activation)]
        epilogue = name, getattr(activation, attribute) if attribute else 0.0
        self._linear(first, left, buffers[0], epilogue=epilogue)
        self._linear(second, buffers[0], **ends)


def write_linear(
    program: Program,
    linear: Any,
    left: Region | str,
    out: Region | str,
    *,
    residual: Region | None = None,  # added to the result
    epilogue: tuple[str, float] = ("none", 0.0),  # function applied to the result, and its parameter
    **strides: Any,  # where they differ from those of a region
) -> None:
    """out = linear(left)."""
    packed = _packed(linear)
    bias = linear.weight.new_zeros(packed.columns) if linear.bias is None else linear.bias
    name, slope = epilogue if residual is None else ("add", 0.0)
    added: dict[str, Any] = {}
    if residual is not None:
        added = {"residual": residual, "residual_stride": "stride", "residual_thread_stride": residual.thread_stride}
    program.add(
        "quantized_linear" if isinstance(packed, QuantizedMatrix) else "linear",
        left=left,
        left_thread_stride=left.thread_stride if isinstance(left, Region) else 0,
        packed=packed.values,
        depth=packed.depth,
        panels=packed.panels,
        columns=packed.columns,
        bias=bias.detach(),
        epilogue=list(EPILOGUES).index(name),
        slope=float_bits(slope),
        out=out,
        **{"left_stride": "stride", "out_stride": "stride", **strides},
        **added,
    )
    if isinstance(packed, QuantizedMatrix):
        program.reserve_integers(packed.depth)
    program.multiplications += packed.depth * packed.width


def write_output(program: Program, module: Any, current: Region | str, **strides: Any) -> list[nn.Parameter]:
    """Add the log-probabilities of the tokens, at "out", and the choice of one; return the copied parameters."""
    copied = [module.output.weight]
    if _is_linear(module.bridge):
        bridged = program.region(module.bridge.out_features)
        write_linear(program, module.bridge, current, bridged, **strides)
        copied.append(module.bridge.weight)
        current, strides = bridged, {}
    vocab_size = module.output.out_features
    write_linear(program, module.output, current, "out", out_stride=vocab_size, **strides)
    program.add("log_softmax", out="out", out_stride=vocab_size, size=vocab_size)
    named: dict[str, Any] = {name: name for name in CHOICE_OPERANDS if name not in ("scores", "stride", "size")}
    program.add("choose", scores="out", stride=vocab_size, size=vocab_size, **named)
    return copied


def _packed(linear: Any) -> PackedMatrix | QuantizedMatrix:
    """Return the packed weights, shared with the linear map if it has them."""
    shared = None
    if isinstance(linear, Linear):
        shared = linear.packed_weights(linear.weight.new_empty(1, linear.in_features))
    return shared or PackedMatrix(linear.weight.detach().t())


def _padded(positions: Any, dtype: torch.dtype) -> nn.Module:
    """The projection of the elements, with zeros where concatenated positions are added."""
    if not positions.padding:
        return positions.project  # type: ignore[no-any-return]
    padded = nn.Linear(positions.input_size, positions.output_size, bias=False, dtype=dtype)
    width = positions.output_size - positions.padding
    with torch.no_grad():
        padded.weight.zero_()
        padded.weight[:width] = (
            positions.project.weight if _is_linear(positions.project) else torch.eye(width, dtype=dtype)
        )
    return padded


def _rotation_table(width: int, dtype: torch.dtype) -> PositionTable:
    units = torch.tensor([1.0, 0.0], dtype=dtype).repeat(width // 2)

    def make(steps: Tensor) -> Tensor:  # (N,) → (N, 2 D): cosines, and sines with alternating signs
        rotated = rotate(units.expand(1, len(steps), 1, width), steps.unsqueeze(0)).view(len(steps), -1, 2)
        cosines, sines = rotated.unbind(2)
        signed = torch.stack([-sines, sines], dim=2).flatten(1)
        return torch.cat([cosines.repeat_interleave(2, dim=1), signed], dim=1)

    return PositionTable(make)
