"""Positions for layers that do not depend on the order of elements: features of the input, or known to attention."""

import math
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from seqloom.layers.layer import Layer, check_input

Kind = Literal["counts", "normalized_counts", "binary", "sinusoidal", "learned", "relative", "rotary", "alibi", "none"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FEATURE_KINDS = ("counts", "normalized_counts", "binary", "sinusoidal", "learned")
"""Kinds that give each position features, which are part of the input."""
DISTANCE_KINDS = ("relative", "alibi")
"""Kinds for which attention needs the distance between every query and key."""
Combination = Literal["add", "concatenate"]
COMBINATIONS: tuple[Combination, ...] = get_args(Combination)


def sinusoidal(
    positions: Tensor,  # (B, T), from 0
    size: int,
    dtype: torch.dtype,
) -> Tensor:  # (B, T, size)
    """sin(t ω_i) and cos(t ω_i) side by side, with ω_i from 1 down to 1/10000 (Vaswani et al. 2017)."""
    angles = position_angles(positions, (size + 1) // 2)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[..., :size].to(dtype)


def rotate(
    x: Tensor,  # (B, T, H, D), D even
    positions: Tensor,  # (B, T) or (1, T), from 0
) -> Tensor:  # (B, T, H, D)
    """Rotary positions (Su et al. 2021): pairs of features as complex numbers, multiplied by e^(i t ω)."""
    angles = position_angles(positions, x.shape[-1] // 2).to(x.dtype).unsqueeze(2)  # (B, T, 1, D / 2)
    rotated = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(rotated).flatten(-2)


def position_angles(positions: Tensor, count: int) -> Tensor:  # (...) → (..., count), float64
    """t ω_i for each position t."""
    frequencies = torch.exp(torch.arange(count, device=positions.device) * (-math.log(10_000) / max(count, 1)))
    return positions.unsqueeze(-1).double() * frequencies.double()


def check_integer(name: str, value: object, minimum: int) -> None:
    """Check an option that comes from a configuration and may have any type."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"{name} is {value!r}, expected an integer of at least {minimum}")


def binary(
    positions: Tensor,  # (B, T), from 0
    bits: int,
    dtype: torch.dtype,
) -> Tensor:  # (B, T, bits)
    """The binary digits of each position, the lowest first."""
    return (positions.unsqueeze(-1) >> torch.arange(bits, device=positions.device)).bitwise_and(1).to(dtype)


def alibi_slopes(heads: int) -> Tensor:  # (heads,)
    """Slopes of ALiBi (Press et al. 2022): 2^(-8 h / H) for H heads, a power of two.

    For other numbers, those of the next lower power, then every second one of the next higher power.
    """
    power = 1 << (heads.bit_length() - 1)
    slopes = 2.0 ** (-8 / power * torch.arange(1, power + 1))
    between = 2.0 ** (-4 / power * (2 * torch.arange(heads - power) + 1))
    return torch.cat([slopes, between])


class Positions(Layer):
    """Input of a Transformer: the elements, scaled and projected to its width, and features of their positions.

    ::

        add:         √D · W x_t + U f(t); U only if the features are narrower than the model
        concatenate: [√D · W x_t; f(t)]

    W only if the widths differ; the factor scales vectors of the usual size, such as token embeddings, to the size of
    the positions. The features f(t) of an element t, from 0, in a sequence of T:

    ::

        counts:            t
        normalized_counts: t / (T - 1), which needs the whole sequence at once
        binary:            the binary digits of t
        sinusoidal:        sines and cosines of t
        learned:           row t of a table

    Other kinds have no features: the attention knows the positions, or nothing does.
    """

    class State(NamedTuple):
        position: Tensor  # (B,), position of the next element

    def __init__(
        self,
        input_size: int,
        output_size: int,
        *,
        kind: Kind = "sinusoidal",
        combine: Combination = "add",
        position_size: int = 0,  # concatenate: width of sinusoidal and learned features; 0: a quarter of output_size
        max_positions: int = 1024,  # learned and binary positions
    ) -> None:
        for name, value, allowed in (("positions", kind, KINDS), ("combine_positions", combine, COMBINATIONS)):
            if value not in allowed:
                raise ValueError(f"{name} is {value!r}, expected one of {', '.join(allowed)}")
        check_integer("max_positions", max_positions, 1)
        check_integer("position_size", position_size, 0)
        super().__init__(input_size, output_size)
        self.kind, self.combine, self.max_positions = kind, combine, max_positions
        concatenated = combine == "concatenate" and self.has_features
        wide = (position_size or max(1, output_size // 4)) if concatenated else output_size
        fixed = {"counts": 1, "normalized_counts": 1, "binary": max(1, (max_positions - 1).bit_length())}
        self.feature_size = fixed.get(kind, wide)
        self.padding = self.feature_size if concatenated else 0  # columns after the projected elements
        width = output_size - self.padding
        if width < 1:
            raise ValueError(
                f"the model has width {output_size}, expected more than the {self.feature_size} of the positions"
            )
        self.project: nn.Module = nn.Identity() if input_size == width else nn.Linear(input_size, width, bias=False)
        self.table = nn.Parameter(torch.randn(max_positions, self.feature_size) / 2) if kind == "learned" else None
        widened = self.has_features and not concatenated and self.feature_size < output_size
        self.widen = nn.Linear(self.feature_size, output_size, bias=False) if widened else None
        if self.widen is not None:
            nn.init.xavier_uniform_(self.widen.weight)

    @property
    def has_features(self) -> bool:
        """Whether each position has features; otherwise only the attention may know the positions."""
        return self.kind in FEATURE_KINDS

    @property
    def is_limited(self) -> bool:
        """Whether there are only ``max_positions``."""
        return self.kind in ("learned", "binary")

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, "Positions.State"]:
        check_input(x, mask, size=self.input_size, like=next(self.parameters(), x))
        if mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0)
        start = torch.zeros(len(x), dtype=torch.int64, device=x.device) if state is None else state.position
        y = self.project(x) * math.sqrt(self.output_size)
        if self.padding:
            y = pad(y, (0, self.padding))
        if self.has_features:
            steps = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
            lengths = torch.tensor([x.shape[1]], device=x.device) if mask is None else mask.sum(dim=1)
            y = y + self.embed_positions(steps if state is None else start.unsqueeze(1) + steps, y, lengths=lengths)
            if mask is not None:
                y = y.masked_fill(~mask.unsqueeze(-1), 0)
        return y, self.State(start + (x.shape[1] if mask is None else mask.sum(dim=1)))

    def embed_positions(
        self,
        positions: Tensor,  # (B, T)
        like: Tensor,
        *,
        lengths: Tensor | None = None,  # (B,), of the whole sequences, for normalised counts
    ) -> Tensor:  # (B, T, output_size)
        """Return what is added to the projected elements."""
        features = self.features(positions, like, lengths=lengths)
        if self.widen is not None:
            features = self.widen(features)
        return pad(features, (self.output_size - self.padding, 0)) if self.padding else features

    def features(
        self, positions: Tensor, like: Tensor, *, lengths: Tensor | None = None
    ) -> Tensor:  # (B, T, feature_size)
        """Return the features of positions."""
        if self.is_limited and positions.numel() and int(positions.max()) >= self.max_positions:
            raise ValueError(
                f"a sequence is longer than the {self.max_positions} {self.kind} positions: increase "
                'options.max_positions, or use positions = "rotary"'
            )
        if self.table is not None:
            return self.table[positions]
        if self.kind == "binary":
            return binary(positions, self.feature_size, like.dtype)
        if self.kind == "sinusoidal":
            return sinusoidal(positions, self.feature_size, like.dtype)
        counts = positions.unsqueeze(-1).to(like.dtype)
        if self.kind == "counts":
            return counts
        if lengths is None:
            raise TypeError("lengths is None, but normalised counts need the lengths of the sequences")
        return counts / (lengths - 1).clamp(min=1)[:, None, None]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.output_size}, {self.kind}" + (", concatenated" if self.padding else "")
