"""Position embeddings for layers that do not depend on the order of elements."""

import math
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.layers.layer import Layer, check_input

Kind = Literal["sinusoidal", "learned", "relative", "rotary", "none"]
KINDS = ("sinusoidal", "learned", "relative", "rotary", "none")


def sinusoidal(
    positions: Tensor,  # (B, T), from 0
    size: int,
    dtype: torch.dtype,
) -> Tensor:  # (B, T, size)
    """sin(t ω_i) and cos(t ω_i) side by side, with ω_i from 1 down to 1/10000 (Vaswani et al. 2017)."""
    angles = _angles(positions, (size + 1) // 2)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[..., :size].to(dtype)


def rotate(
    x: Tensor,  # (B, T, H, D), D even
    positions: Tensor,  # (B, T) or (1, T), from 0
) -> Tensor:  # (B, T, H, D)
    """Rotary positions (Su et al. 2021): pairs of features as complex numbers, multiplied by e^(i t ω)."""
    angles = _angles(positions, x.shape[-1] // 2).to(x.dtype).unsqueeze(2)  # (B, T, 1, D / 2)
    rotated = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(rotated).flatten(-2)


def _angles(positions: Tensor, count: int) -> Tensor:
    frequencies = torch.exp(torch.arange(count, device=positions.device) * (-math.log(10_000) / max(count, 1)))
    return positions.unsqueeze(-1).double() * frequencies.double()


def check_integer(name: str, value: object, minimum: int) -> None:
    """Check an option that comes from a configuration and may have any type."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"{name} is {value!r}, expected an integer of at least {minimum}")


class Positions(Layer):
    """Input of a Transformer: √D · W x_t + p_t, with W only if the widths differ, p only for added positions.

    The factor scales vectors of the usual size, such as token embeddings, to the size of the positions.
    """

    class State(NamedTuple):
        position: Tensor  # (B,), position of the next element

    def __init__(
        self, input_size: int, output_size: int, *, kind: Kind = "sinusoidal", max_positions: int = 1024
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"positions is {kind!r}, expected one of {', '.join(KINDS)}")
        check_integer("max_positions", max_positions, 1)
        super().__init__(input_size, output_size)
        self.kind = kind
        same = input_size == output_size
        self.project: nn.Module = nn.Identity() if same else nn.Linear(input_size, output_size, bias=False)
        self.table = nn.Parameter(torch.randn(max_positions, output_size) / 2) if kind == "learned" else None

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, "Positions.State"]:
        check_input(x, mask, size=self.input_size, like=next(self.parameters(), x))
        if mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0)
        start = torch.zeros(len(x), dtype=torch.int64, device=x.device) if state is None else state.position
        y = self.project(x) * math.sqrt(self.output_size)
        if self.kind in ("sinusoidal", "learned"):
            steps = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
            y = y + self.embed_positions(steps if state is None else start.unsqueeze(1) + steps, y)
            if mask is not None:
                y = y.masked_fill(~mask.unsqueeze(-1), 0)
        return y, self.State(start + (x.shape[1] if mask is None else mask.sum(dim=1)))

    def embed_positions(self, positions: Tensor, like: Tensor) -> Tensor:  # (B, T) → (B, T, output_size)
        """Return the vectors of positions."""
        if self.table is None:
            return sinusoidal(positions, self.output_size, like.dtype)
        max_positions = len(self.table)
        if positions.numel() and int(positions.max()) >= max_positions:
            raise ValueError(
                f"a sequence is longer than the {max_positions} learned positions: increase options.max_positions, "
                'or use positions = "rotary"'
            )
        return self.table[positions]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.output_size}, {self.kind}"
