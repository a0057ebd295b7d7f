"""A block of the Transformer (Vaswani et al. 2017) as a layer: attention to itself, to a source, and a network."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.layers.convolution import ACTIVATIONS
from seqloom.layers.dropout import Dropout
from seqloom.layers.layer import Layer, Memory, check_input
from seqloom.layers.linear import Linear
from seqloom.layers.stack import Stack
from seqloom.layers.transformer import cache
from seqloom.layers.transformer.cache import Cache
from seqloom.layers.transformer.heads import MultiHeadAttention
from seqloom.layers.transformer.positions import KINDS, Kind, Positions, check_whole, rotate
from seqloom.state import Shared


class CrossAttentionSource(NamedTuple):
    """A memory as a block reads it."""

    keys: Tensor  # (R, S, H, D)
    values: Tensor  # (R, S, H, D)
    mask: Tensor  # (R, S), True where real; (R, 0) where all are


class TransformerBlock(Layer):
    """Self-attention, attention to a memory if there is one, and a feed-forward network, each with a way around it.

    norm "pre": x + f(norm(x)); "post": norm(x + f(x)). ``causal`` blocks see what came before, and their state holds
    its keys and values; others see the whole sequence, which must come in one piece.
    """

    class State(NamedTuple):
        past: Any  # Cache; () of blocks that are not causal
        memory: Any  # Shared Source; () of blocks without
        coverage: Tensor  # (B, S) attention that each element of the memory got; (B, 0) where nobody asks

    def __init__(
        self,
        size: int,
        *,
        heads: int = 4,
        feed_forward: int = 0,  # width inside; 0: four times the size
        activation: str = "relu",
        norm: Literal["pre", "post"] = "pre",
        positions: Kind = "rotary",
        distance: int = 16,  # of relative positions: those further away are alike
        context: int = 0,  # of causal blocks: how many elements back, itself included, an element sees; 0: all
        dropout: float = 0.0,  # on what is added
        causal: bool = True,
        memory_size: int = 0,  # width of the memory to look at; 0: there is none
    ) -> None:
        for name, value, least in (("heads", heads, 1), ("feed_forward", feed_forward, 0), ("context", context, 0)):
            check_whole(name, value, least)
        check_whole("distance", distance, 1)
        _check(size, heads=heads, activation=activation, norm=norm, positions=positions)
        super().__init__(size, size)
        self.heads, self.norm, self.positions, self.context, self.causal = heads, norm, positions, context, causal
        self.memory_size = memory_size
        self.project = Linear(size, 3 * size)  # query, key, value
        self.attention = MultiHeadAttention(size // heads, distance=distance if positions == "relative" else 0)
        self.collect = Linear(size, size)
        self.feed = nn.Sequential(
            Linear(size, feed_forward or 4 * size),
            ACTIVATIONS[activation](),
            Linear(feed_forward or 4 * size, size),
        )
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(3 if memory_size else 2))
        self.dropout = Dropout(dropout)
        if memory_size:
            self.ask = Linear(size, size)
            self.read = Linear(memory_size, 2 * size)
            self.look = MultiHeadAttention(size // heads)
            self.gather = Linear(size, size)
        for module in self.modules():
            if isinstance(module, Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def start(self, batch: int, memory: Memory | None = None, *, coverage: bool = False) -> "TransformerBlock.State":
        none = self.project.weight.new_zeros(batch, 0)
        past: Any = ()
        if self.causal:
            empty = none.view(batch, 0, self.heads, self.input_size // self.heads)
            past = cache.begin(empty, empty, None)
        if not self.memory_size:
            return self.State(past, (), none)
        if memory is None:
            raise TypeError("memory is None, and this block looks at one: give what the encoder returned")
        noted = none.new_zeros(memory.mask.shape) if coverage else none
        return self.State(past, self._source(memory), noted)

    def _source(self, memory: Memory) -> Shared:
        rows = _Rows(memory.mask)
        keys, values = rows.unpack(self.read(rows.pack(memory.values))).unflatten(-1, (2, self.heads, -1)).unbind(2)
        mask = memory.mask[:, :0] if rows.real is None else memory.mask
        return Shared(CrossAttentionSource(keys, values, mask), torch.arange(len(keys), device=keys.device))

    def forward(
        self, x: Tensor, mask: Tensor | None = None, state: Any = None
    ) -> tuple[Tensor, "TransformerBlock.State"]:
        check_input(x, mask, size=self.input_size, like=self.project.weight)
        if state is None and self.memory_size:
            raise TypeError("state is None, and this block looks at a memory: begin with start(batch, memory)")
        past, memory, noted = state or self.State((), (), x.new_zeros(len(x), 0))
        rows = _Rows(mask, x)
        following = past

        def attend(h: Tensor) -> Tensor:
            nonlocal following
            seen, following = self._attend(rows.unpack(self.project(h)), None if rows.real is None else mask, past)
            return self.collect(rows.pack(seen))  # type: ignore[no-any-return]

        def look(h: Tensor) -> Tensor:
            nonlocal noted
            seen, noted = self._look(rows.unpack(self.ask(h)), mask, memory, noted)
            return self.gather(rows.pack(seen))  # type: ignore[no-any-return]

        parts: list[Callable[[Tensor], Tensor]] = [attend, look, self.feed] if self.memory_size else [attend, self.feed]
        h = rows.pack(x)
        for norm, part in zip(self.norms, parts, strict=True):
            h = h + self.dropout(part(norm(h))) if self.norm == "pre" else norm(h + self.dropout(part(h)))
        return rows.unpack(h), self.State(following, memory, noted)

    def _attend(self, projected: Tensor, mask: Tensor | None, past: Any) -> tuple[Tensor, Any]:
        """Self-attention: (B, T, 3 D), zero in the padding → (B, T, D), and what is remembered."""
        query, keys, values = projected.unflatten(-1, (3, self.heads, -1)).unbind(2)  # (B, T, H, D) each
        begun = isinstance(past, Cache) and past.keys.shape[1] > 0
        steps = torch.arange(query.shape[1], device=query.device).unsqueeze(0)
        if begun:  # without gaps all rows are equally long
            steps = steps + (past.position if past.mask.shape[1] or mask is not None else past.position[:1]).unsqueeze(
                1
            )
        if self.positions == "rotary":
            both = projected[..., : 2 * self.input_size].unflatten(-1, (2 * self.heads, -1))
            query, keys = rotate(both, steps).chunk(2, dim=2)
        if not self.causal:
            visible = None if mask is None else mask[:, None, None]
            apart = steps.unsqueeze(1) - steps.unsqueeze(2) if self.positions == "relative" else None
            seen = self.attention(*_headed(query, keys, values), visible, apart=apart)
            return seen.transpose(1, 2).flatten(2), ()
        kept = past.append(keys, values, mask) if begun else cache.begin(keys, values, mask)
        used = kept.length
        options = self._visible(kept, steps, first=not begun)
        seen = self.attention(*_headed(query, kept.keys[:, :used], kept.values[:, :used]), **options)
        return seen.transpose(1, 2).flatten(2), kept.latest(self.context - 1) if self.context else kept

    def _visible(self, kept: Cache, steps: Tensor, *, first: bool) -> dict[str, Any]:
        """What each new element sees of the cache with the new ones in it, as options of the attention."""
        length, new = kept.length, steps.shape[1]
        relative = self.positions == "relative"
        gaps = kept.mask.shape[1] > 0
        if first and not relative and not self.context:
            return {"causal": True}  # the padding comes last, where nobody looks
        slots = torch.arange(length, device=steps.device)
        own = slots[length - new :].unsqueeze(1)  # (T, 1), the slots of the new elements
        visible = (slots <= own).unsqueeze(0)  # (1, T, S)
        apart = (slots - own).unsqueeze(0)
        if gaps:
            real = kept.real()
            visible = visible & real.unsqueeze(1)
            apart = (real.cumsum(dim=1) - 1 + (kept.position - real.sum(dim=1)).unsqueeze(1)).unsqueeze(
                1
            ) - steps.unsqueeze(2)
        if self.context:
            visible = visible & (apart > -self.context)
        needed = gaps or self.context or new > 1
        return {"mask": visible.unsqueeze(1) if needed else None, "apart": apart if relative else None}

    def _look(self, query: Tensor, mask: Tensor | None, memory: Shared, noted: Tensor) -> tuple[Tensor, Tensor]:
        """Attention to the memory: (B, T, D) → (B, T, D), and the attention that the memory got so far."""
        batch, length = query.shape[:2]
        times = memory.times
        source: CrossAttentionSource = memory.parts if times else memory.gathered()
        table = len(source.keys)
        size = self.input_size // self.heads
        asked = query.reshape(table, (times or 1) * length, self.heads, size)  # rows of one source side by side
        visible = source.mask[:, None, None] if source.mask.shape[1] else None
        asked, keys, values = _headed(asked, source.keys, source.values)
        seen = self.look(asked, keys, values, visible).transpose(1, 2).reshape(query.shape)
        if noted.shape[1]:
            weights = self.look.weights(asked, keys, visible).mean(dim=1).view(batch, length, keys.shape[2])
            if mask is not None:
                weights = weights.masked_fill(~mask.unsqueeze(-1), 0)
            noted = noted + weights.sum(dim=1)
        return seen, noted

    def extra_repr(self) -> str:
        direction = "causal" if self.causal else "both ways"
        return f"heads={self.heads}, norm={self.norm}, positions={self.positions}, {direction}"


class Norm(Layer):
    """Layer normalisation: what ends a stack of blocks whose norms come first."""

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
    longest: int = 1024,  # of learnt positions
    **options: Any,  # of Block
) -> Stack:
    """Blocks on top of each other, with their positions before and the last norm behind them."""
    blocks: list[Layer] = [Positions(input_size, size, kind=positions, longest=longest)]
    blocks += [TransformerBlock(size, norm=norm, positions=positions, **options) for _ in range(layers)]
    return Stack([*blocks, Norm(size)] if norm == "pre" else blocks)


class _Rows:
    """The real elements of a batch, so that nothing is computed for the padding, and nothing read from it."""

    def __init__(self, mask: Tensor | None, like: Tensor | None = None) -> None:
        shape = mask if like is None else like
        assert shape is not None  # noqa: S101  one of them is given
        self.shape = shape.shape[:2]
        whole = mask is None or bool(mask.all())
        self.real = None if mask is None or whole else mask.flatten().nonzero().squeeze(1)

    def pack(self, x: Tensor) -> Tensor:  # (B, T, D) → (N, D)
        x = x.flatten(0, 1)
        return x if self.real is None else x.index_select(0, self.real)

    def unpack(self, x: Tensor) -> Tensor:  # (N, D) → (B, T, D), zero in the padding
        if self.real is not None:
            x = x.new_zeros(self.shape.numel(), x.shape[1]).index_copy(0, self.real, x)
        return x.view(*self.shape, x.shape[1])


def _headed(*tensors: Tensor) -> list[Tensor]:  # (B, T, H, D) → (B, H, T, D)
    return [tensor.transpose(1, 2) for tensor in tensors]


def _check(size: int, *, heads: int, activation: str, norm: str, positions: str) -> None:
    if size % heads:
        raise ValueError(f"heads is {heads}: so many do not share a width of {size} equally")
    if positions == "rotary" and size // heads % 2:
        raise ValueError(f"rotary positions need heads of even width, found {size // heads} ({size} for {heads} heads)")
    for name, value, allowed in (
        ("activation", activation, tuple(ACTIVATIONS)),
        ("norm", norm, ("pre", "post")),
        ("positions", positions, KINDS),
    ):
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}, expected one of {', '.join(allowed)}")
