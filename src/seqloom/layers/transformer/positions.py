"""Where an element stands in its sequence, for layers that do not see order by themselves."""

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
    """Neighbouring features as complex numbers, turned by e^(i t ω): products see differences of t only (Su 2021)."""
    angles = _angles(positions, x.shape[-1] // 2).to(x.dtype).unsqueeze(2)  # (B, T, 1, D / 2)
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2)


def _angles(positions: Tensor, count: int) -> Tensor:
    frequencies = torch.exp(torch.arange(count, device=positions.device) * (-math.log(10_000) / max(count, 1)))
    return positions.unsqueeze(-1).double() * frequencies.double()


def check_whole(name: str, value: object, least: int) -> None:
    """Options come from configurations, where they may be anything."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}, expected a whole number from {least} on")


class Positions(Layer):
    """√D · W x_t + p_t: how vectors enter a Transformer; W only where the widths differ, p only where it is added.

    The factor makes vectors of the usual size, such as those of symbols, as large as the positions.
    """

    class State(NamedTuple):
        position: Tensor  # (B,), of the next element

    def __init__(self, input_size: int, output_size: int, *, kind: Kind = "sinusoidal", longest: int = 1024) -> None:
        if kind not in KINDS:
            raise ValueError(f"positions is {kind!r}, expected one of {', '.join(KINDS)}")
        check_whole("longest", longest, 1)
        super().__init__(input_size, output_size)
        self.kind = kind
        wide = input_size != output_size
        self.project: nn.Module = nn.Linear(input_size, output_size, bias=False) if wide else nn.Identity()
        self.table = nn.Parameter(torch.randn(longest, output_size) / 2) if kind == "learned" else None

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, "Positions.State"]:
        check_input(x, mask, size=self.input_size, like=next(self.parameters(), x))
        if mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0)
        before = torch.zeros(len(x), dtype=torch.int64, device=x.device) if state is None else state.position
        y = self.project(x) * math.sqrt(self.output_size)
        if self.kind in ("sinusoidal", "learned"):
            steps = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
            y = y + self.places(steps if state is None else before.unsqueeze(1) + steps, y)
            if mask is not None:
                y = y.masked_fill(~mask.unsqueeze(-1), 0)
        return y, self.State(before + (x.shape[1] if mask is None else mask.sum(dim=1)))

    def places(self, positions: Tensor, like: Tensor) -> Tensor:  # (B, T) → (B, T, output_size)
        """The vectors of positions."""
        if self.table is None:
            return sinusoidal(positions, self.output_size, like.dtype)
        longest = len(self.table)
        if positions.numel() and int(positions.max()) >= longest:
            raise ValueError(
                f'a sequence is longer than the {longest} learnt positions: raise options.longest, or choose "rotary"'
            )
        return self.table[positions]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.output_size}, {self.kind}"
