"""Time reduction: several elements of a sequence become one."""

from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from seqloom.layers.layer import check_input

Kind = Literal["stride", "pyramid"]


class TimeReduction(nn.Module):
    """Each ``factor`` elements that follow each other become one.

    stride: y_t = relu(W [x_{nt}; …; x_{nt+n-1}] + b), a convolution whose window is its step. pyramid: they stand side
    by side, which has no weights (Chan et al. 2016).

    The last element may have fewer than n to read, and zeros in their place. Where more is to come, those that are left
    over wait in the state instead: pieces give what the whole gives.
    """

    class State(NamedTuple):
        left: Tensor  # (B, factor - 1, input_size), the elements that are left over, at the end; zero before them
        number: Tensor  # (B,), how many they are

    def __init__(self, input_size: int, factor: int, *, kind: Kind = "stride") -> None:
        if factor < 1:
            raise ValueError(f"factor must be at least 1, got {factor}")
        if kind not in get_args(Kind):
            raise ValueError(f"kind is {kind!r}, expected one of {', '.join(get_args(Kind))}")
        super().__init__()
        self.input_size, self.factor, self.kind = input_size, factor, kind
        self.output_size = input_size if kind == "stride" else factor * input_size
        self.linear = nn.Linear(factor * input_size, input_size) if kind == "stride" else None

    def forward(
        self,
        x: Tensor,  # (B, T, input_size)
        mask: Tensor | None = None,  # (B, T)
        state: Any = None,
        *,
        more: bool = False,  # another piece follows
    ) -> tuple[Tensor, Tensor, "TimeReduction.State"]:  # (B, T', output_size), its mask (B, T'), the state
        check_input(x, mask, size=self.input_size, like=x if self.linear is None else self.linear.weight)
        mask = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        x = x.masked_fill(~mask.unsqueeze(-1), 0)
        lengths = mask.sum(dim=1)
        factor = self.factor
        if state is not None:
            left, number = self._check(state, x)
            x, lengths = _after(left, x, number), lengths + number
        groups = lengths // factor if more else self.reduced(lengths)
        width = x.shape[1] // factor if more else self.reduced(x.shape[1])
        read = nn.functional.pad(x, (0, 0, 0, max(width * factor - x.shape[1], 0)))
        y = read[:, : width * factor].reshape(len(x), width, factor * self.input_size)
        if self.linear is not None:
            y = torch.relu(self.linear(y))
        real = torch.arange(width, device=x.device) < groups.unsqueeze(1)
        y = y.masked_fill(~real.unsqueeze(-1), 0)
        return y, real, self._remember(x, lengths, more=more)

    def reduced(self, length: Any) -> Any:
        """How many elements so many become: a number or a tensor of them."""
        return -(-length // self.factor)

    def _check(self, state: Any, x: Tensor) -> "TimeReduction.State":
        if not isinstance(state, TimeReduction.State):
            raise TypeError(f"state is {type(state).__name__}, expected Reduce.State with the fields left and number")
        expected = (x.shape[0], self.factor - 1, x.shape[2])
        if state.left.shape != expected:
            raise ValueError(f"state.left has shape {tuple(state.left.shape)}, expected {expected}")
        if state.left.dtype != x.dtype or state.left.device != x.device:
            raise TypeError(f"state.left is {state.left.dtype} on {state.left.device}, expected {x.dtype} on {x.device}")
        return state

    def _remember(self, x: Tensor, lengths: Tensor, *, more: bool) -> "TimeReduction.State":
        number = lengths % self.factor if more else torch.zeros_like(lengths)
        back = torch.arange(self.factor - 1, 0, -1, device=x.device)  # of each slot, how far before the end
        steps = lengths.unsqueeze(1) - back  # (B, factor - 1)
        kept = _take(x, steps).masked_fill((back > number.unsqueeze(1)).unsqueeze(-1), 0)
        return self.State(kept, number)

    def extra_repr(self) -> str:
        return f"factor={self.factor}, kind={self.kind}"


def _after(left: Tensor, x: Tensor, number: Tensor) -> Tensor:
    """The last ``number`` of ``left``, then x: each row begins with its own first element."""
    slots = left.shape[1]
    read = torch.cat([left, x], dim=1)
    steps = torch.arange(read.shape[1], device=x.device) + (slots - number).unsqueeze(1)
    beyond = steps >= read.shape[1]
    return _take(read, steps).masked_fill(beyond.unsqueeze(-1), 0)


def _take(x: Tensor, steps: Tensor) -> Tensor:  # (B, T, D), (B, S) → (B, S, D)
    if not x.shape[1]:
        return x.new_zeros(*steps.shape, x.shape[2])
    steps = steps.clamp(0, x.shape[1] - 1)
    return x.gather(1, steps.unsqueeze(-1).expand(-1, -1, x.shape[2]))
