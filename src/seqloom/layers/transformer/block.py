"""Transformer block (Vaswani et al. 2017) as a layer: self-attention, cross-attention and a feed-forward network."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.layers.convolution import ACTIVATIONS, make_activation
from seqloom.layers.dropout import Dropout
from seqloom.layers.layer import Layer, Memory, check_input
from seqloom.layers.linear import Linear
from seqloom.layers.stack import Stack
from seqloom.layers.transformer import cache
from seqloom.layers.transformer.cache import Cache
from seqloom.layers.transformer.heads import MultiHeadAttention
from seqloom.layers.transformer.linear_attention import LinearAttention, LinearState
from seqloom.layers.transformer.positions import (
    DISTANCE_KINDS,
    KINDS,
    Combination,
    Kind,
    Positions,
    check_integer,
    rotate,
)
from seqloom.state import Shared

ATTENTIONS = ("softmax", "linear")


class CrossAttentionSource(NamedTuple):
    """Keys and values of an encoder's memory."""

    keys: Tensor  # (R, S, H, D)
    values: Tensor  # (R, S, H, D)
    mask: Tensor  # (R, S), True where real; (R, 0) if all are


class TransformerBlock(Layer):
    """Self-attention, optional cross-attention and a feed-forward network, each with a residual connection.

    norm "pre": x + f(norm(x)); "post": norm(x + f(x)). Causal blocks attend to earlier elements, whose keys and values
    are kept in the state; other blocks attend to the whole sequence, which must be given at once.
    """

    class State(NamedTuple):
        past: Any  # Cache, or LinearState; () if the block is not causal
        memory: Any  # Shared CrossAttentionSource; () without cross-attention
        coverage: Tensor  # (B, S), sum of the cross-attention weights so far; (B, 0) if not requested

    def __init__(
        self,
        size: int,
        *,
        heads: int = 4,
        feed_forward: int = 0,  # inner width; 0: four times the size
        activation: str = "relu",
        negative_slope: float = 0.01,  # of leaky_relu
        elu_alpha: float = 1.0,
        norm: Literal["pre", "post"] = "pre",
        positions: Kind = "rotary",
        max_distance: int = 16,  # relative positions: larger distances are treated alike
        attention: Literal["softmax", "linear"] = "softmax",  # linear: see LinearAttention
        context: int = 0,  # elements attended to in each direction, itself included; 0: all
        dropout: float = 0.0,  # dropout of each residual branch
        causal: bool = True,
        memory_size: int = 0,  # width of the memory; 0: no cross-attention
    ) -> None:
        for name, value, least in (("heads", heads, 1), ("feed_forward", feed_forward, 0), ("context", context, 0)):
            check_integer(name, value, least)
        check_integer("max_distance", max_distance, 1)
        _check(size, heads=heads, activation=activation, norm=norm, positions=positions)
        _check_attention(attention, positions=positions, context=context)
        super().__init__(size, size)
        self.heads, self.norm, self.positions, self.context, self.causal = heads, norm, positions, context, causal
        self.memory_size = memory_size
        self.query_key_value = Linear(size, 3 * size)
        self.attention: MultiHeadAttention | LinearAttention = LinearAttention()
        if attention == "softmax":
            self.attention = MultiHeadAttention(
                size // heads,
                max_distance=max_distance if positions == "relative" else 0,
                alibi_heads=heads if positions == "alibi" else 0,
            )
        self.output = Linear(size, size)
        self.feed_forward = nn.Sequential(
            Linear(size, feed_forward or 4 * size),
            make_activation(activation, negative_slope=negative_slope, elu_alpha=elu_alpha),
            Linear(feed_forward or 4 * size, size),
        )
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(3 if memory_size else 2))
        self.dropout = Dropout(dropout)
        if memory_size:
            self.cross_query = Linear(size, size)
            self.cross_key_value = Linear(memory_size, 2 * size)
            self.cross_attention = MultiHeadAttention(size // heads)
            self.cross_output = Linear(size, size)
        for module in self.modules():
            if isinstance(module, Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def start(self, batch: int, memory: Memory | None = None, *, coverage: bool = False) -> "TransformerBlock.State":
        none = self.query_key_value.weight.new_zeros(batch, 0)
        past: Any = ()
        if self.causal:
            empty = none.view(batch, 0, self.heads, self.input_size // self.heads)
            past = cache.start_cache(empty, empty, None)
            if isinstance(self.attention, LinearAttention):
                past = self.attention.start(empty.transpose(1, 2))
        if not self.memory_size:
            return self.State(past, (), none)
        if memory is None:
            raise TypeError("memory is None, but this block has cross-attention: call start(batch, memory)")
        return self.State(past, self._source(memory), none.new_zeros(memory.mask.shape) if coverage else none)

    def _source(self, memory: Memory) -> Shared:
        real = _RealElements(memory.mask)
        projected = real.unpack(self.cross_key_value(real.pack(memory.values)))
        keys, values = projected.unflatten(-1, (2, self.heads, -1)).unbind(2)
        mask = memory.mask[:, :0] if real.indices is None else memory.mask
        return Shared(CrossAttentionSource(keys, values, mask), torch.arange(len(keys), device=keys.device))

    def forward(
        self, x: Tensor, mask: Tensor | None = None, state: Any = None
    ) -> tuple[Tensor, "TransformerBlock.State"]:
        check_input(x, mask, size=self.input_size, like=self.query_key_value.weight)
        if state is None and self.memory_size:
            raise TypeError("state is None, but this block has cross-attention: call start(batch, memory) first")
        past, memory, coverage = state or self.State((), (), x.new_zeros(len(x), 0))
        real = _RealElements(mask, x)
        next_past = past

        def self_attend(h: Tensor) -> Tensor:
            nonlocal next_past
            projected = real.unpack(self.query_key_value(h))
            context, next_past = self._self_attend(projected, None if real.indices is None else mask, past)
            return self.output(real.pack(context))  # type: ignore[no-any-return]

        def cross_attend(h: Tensor) -> Tensor:
            nonlocal coverage
            context, coverage = self._cross_attend(real.unpack(self.cross_query(h)), mask, memory, coverage)
            return self.cross_output(real.pack(context))  # type: ignore[no-any-return]

        sublayers: list[Callable[[Tensor], Tensor]] = [self_attend, self.feed_forward]
        if self.memory_size:
            sublayers.insert(1, cross_attend)
        h = real.pack(x)
        for norm, sublayer in zip(self.norms, sublayers, strict=True):
            h = h + self.dropout(sublayer(norm(h))) if self.norm == "pre" else norm(h + self.dropout(sublayer(h)))
        return real.unpack(h), self.State(next_past, memory, coverage)

    def _self_attend(self, projected: Tensor, mask: Tensor | None, past: Any) -> tuple[Tensor, Any]:
        """Self-attention: (B, T, 3 D), zero in the padding → (B, T, D), and the new cache."""
        query, keys, values = projected.unflatten(-1, (3, self.heads, -1)).unbind(2)  # (B, T, H, D) each
        if isinstance(self.attention, LinearAttention):
            return self._attend_linearly(self.attention, _heads_first(query, keys, values), mask, past)
        continued = isinstance(past, Cache) and past.keys.shape[1] > 0
        steps = torch.arange(query.shape[1], device=query.device).unsqueeze(0)
        if continued:
            ragged = past.mask.shape[1] or mask is not None  # otherwise all rows are equally long
            steps = steps + (past.position if ragged else past.position[:1]).unsqueeze(1)
        if self.positions == "rotary":
            query_keys = projected[..., : 2 * self.input_size].unflatten(-1, (2 * self.heads, -1))
            query, keys = rotate(query_keys, steps).chunk(2, dim=2)
        if not self.causal:
            visible = None if mask is None else mask[:, None, None]
            pairs = self.positions in DISTANCE_KINDS and not self.context  # a window computes its own distances
            distances = steps.unsqueeze(1) - steps.unsqueeze(2) if pairs else None
            context = self.attention(
                *_heads_first(query, keys, values), visible, distances=distances, window=self.context
            )
            return context.transpose(1, 2).flatten(2), ()
        kept = past.append(keys, values, mask) if continued else cache.start_cache(keys, values, mask)
        used = kept.length
        options = self._visible(kept, steps, first=not continued)
        context = self.attention(*_heads_first(query, kept.keys[:, :used], kept.values[:, :used]), **options)
        return context.transpose(1, 2).flatten(2), kept.latest(self.context - 1) if self.context else kept

    def _attend_linearly(
        self,
        attention: LinearAttention,
        heads: list[Tensor],  # queries, keys and values, (B, H, T, D) each
        mask: Tensor | None,
        past: Any,
    ) -> tuple[Tensor, Any]:
        state = (past if isinstance(past, LinearState) else attention.start(heads[0])) if self.causal else None
        steps = None
        if self.positions == "rotary":
            steps = torch.arange(heads[0].shape[2], device=heads[0].device).unsqueeze(0)
            steps = steps if state is None else steps + state.position.unsqueeze(1)
        context, next_state = attention(*heads, mask, state=state, steps=steps)
        return context.transpose(1, 2).flatten(2), () if next_state is None else next_state

    def _visible(self, kept: Cache, steps: Tensor, *, first: bool) -> dict[str, Any]:
        """Return which cached elements each new element attends to, as keyword arguments of the attention."""
        length, new = kept.length, steps.shape[1]
        relative = self.positions in DISTANCE_KINDS
        gaps = kept.mask.shape[1] > 0
        if first and not relative and not self.context:
            return {"causal": True}  # padding comes last, after all real elements
        if self.context and (first or not gaps):  # slots are as far apart as elements
            return {"causal": True, "window": self.context}
        slots = torch.arange(length, device=steps.device)
        new_slots = slots[length - new :].unsqueeze(1)  # (T, 1)
        visible = (slots <= new_slots).unsqueeze(0)  # (1, T, S)
        distances = (slots - new_slots).unsqueeze(0)
        if gaps:
            real = kept.real()
            visible = visible & real.unsqueeze(1)
            positions = real.cumsum(dim=1) - 1 + (kept.position - real.sum(dim=1)).unsqueeze(1)  # (B, S)
            distances = positions.unsqueeze(1) - steps.unsqueeze(2)
        if self.context:
            visible = visible & (distances > -self.context)
        needed = gaps or self.context or new > 1
        return {"mask": visible.unsqueeze(1) if needed else None, "distances": distances if relative else None}

    def _cross_attend(
        self, query: Tensor, mask: Tensor | None, memory: Shared, coverage: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Cross-attention: (B, T, D) → (B, T, D), and the new coverage."""
        batch, length = query.shape[:2]
        times = memory.times
        source: CrossAttentionSource = memory.parts if times else memory.gathered()
        size = self.input_size // self.heads
        # Rows of one source become queries of one row.
        queries = query.reshape(len(source.keys), (times or 1) * length, self.heads, size)
        visible = source.mask[:, None, None] if source.mask.shape[1] else None
        queries, keys, values = _heads_first(queries, source.keys, source.values)
        context = self.cross_attention(queries, keys, values, visible).transpose(1, 2).reshape(query.shape)
        if coverage.shape[1]:
            weights = self.cross_attention.weights(queries, keys, visible).mean(dim=1)
            weights = weights.view(batch, length, keys.shape[2])
            if mask is not None:
                weights = weights.masked_fill(~mask.unsqueeze(-1), 0)
            coverage = coverage + weights.sum(dim=1)
        return context, coverage

    def extra_repr(self) -> str:
        direction = "causal" if self.causal else "bidirectional"
        if isinstance(self.attention, LinearAttention):
            direction = f"linear, {direction}"
        return f"heads={self.heads}, norm={self.norm}, positions={self.positions}, {direction}"


class Norm(Layer):
    """Layer normalisation after the last block of a pre-norm stack."""

    def __init__(self, size: int) -> None:
        super().__init__(size, size)
        self.norm = nn.LayerNorm(size)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, tuple[()]]:  # noqa: ARG002
        check_input(x, mask, size=self.input_size, like=self.norm.weight)
        y = self.norm(x)
        return (y if mask is None else y.masked_fill(~mask.unsqueeze(-1), 0)), ()


def transformer(
    input_size: int,
    size: int,
    *,
    layers: int = 1,
    norm: Literal["pre", "post"] = "pre",
    positions: Kind = "rotary",
    combine_positions: Combination = "add",  # how the features of positions join the input, if they have any
    position_size: int = 0,  # width of concatenated sinusoidal or learned positions; 0: a quarter of the size
    max_positions: int = 1024,  # number of learned or binary positions
    **options: Any,  # options of TransformerBlock
) -> Stack:
    """Stack of blocks, with positions before them and, for norm "pre", a norm after them."""
    if positions == "normalized_counts" and options.get("causal", True):
        raise ValueError(
            "normalized_counts divide by the length of the sequence, which a causal layer does not know: set "
            'bidirectional to true, or positions to "counts"'
        )
    embed = Positions(
        input_size,
        size,
        kind=positions,
        combine=combine_positions,
        position_size=position_size,
        max_positions=max_positions,
    )
    blocks: list[Layer] = [embed]
    blocks += [TransformerBlock(size, norm=norm, positions=positions, **options) for _ in range(layers)]
    return Stack([*blocks, Norm(size)] if norm == "pre" else blocks)


class _RealElements:
    """Packs the real elements of a batch, so that padding is neither computed nor read."""

    def __init__(self, mask: Tensor | None, like: Tensor | None = None) -> None:
        shape = mask if like is None else like
        assert shape is not None  # noqa: S101  the caller passes one of them
        self.shape = shape.shape[:2]
        unpadded = mask is None or bool(mask.all())
        self.indices = None if mask is None or unpadded else mask.flatten().nonzero().squeeze(1)

    def pack(self, x: Tensor) -> Tensor:  # (B, T, D) → (N, D)
        x = x.flatten(0, 1)
        return x if self.indices is None else x.index_select(0, self.indices)

    def unpack(self, x: Tensor) -> Tensor:  # (N, D) → (B, T, D), zero in the padding
        if self.indices is not None:
            x = x.new_zeros(self.shape.numel(), x.shape[1]).index_copy(0, self.indices, x)
        return x.view(*self.shape, x.shape[1])


def _heads_first(*tensors: Tensor) -> list[Tensor]:  # (B, T, H, D) → (B, H, T, D)
    return [tensor.transpose(1, 2) for tensor in tensors]


def _check_attention(attention: str, *, positions: str, context: int) -> None:
    if attention not in ATTENTIONS:
        raise ValueError(f"attention is {attention!r}, expected one of {', '.join(ATTENTIONS)}")
    if attention != "linear":
        return
    if positions in DISTANCE_KINDS:
        raise ValueError(
            f"positions is {positions!r}, but linear attention computes no score for each pair of elements: use "
            '"rotary", or a kind with features'
        )
    if context:
        raise ValueError(f"context is {context}, but linear attention has no window: set context to 0")


def _check(size: int, *, heads: int, activation: str, norm: str, positions: str) -> None:
    if size % heads:
        raise ValueError(f"heads is {heads}, expected a divisor of the width {size}")
    if positions == "rotary" and size // heads % 2:
        raise ValueError(f"rotary positions need heads of even width, got {size // heads} ({size} / {heads} heads)")
    for name, value, allowed in (
        ("activation", activation, tuple(ACTIVATIONS)),
        ("norm", norm, ("pre", "post")),
        ("positions", positions, KINDS),
    ):
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}, expected one of {', '.join(allowed)}")
