"""Time reduction: consecutive elements of a sequence are merged into one."""

from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from seqloom.layers.layer import check_input

Method = Literal["stride", "pyramid", "max"]


class TimeReduction(nn.Module):
    """Merges every ``factor`` (n) consecutive elements into one.

    stride: y_t = relu(W [x_{nt}; …; x_{nt+n-1}] + b), a convolution whose stride equals its window. pyramid: their
    concatenation, without weights (Chan et al. 2016). max: the largest value of each feature.

    An incomplete last group is filled up with zeros, which the maximum ignores. If more input follows, it is kept in
    the state instead, so that chunks give the same result as the whole sequence.
    """

    class State(NamedTuple):
        pending: Tensor  # (B, factor - 1, input_size), elements of an incomplete group, right-aligned after zeros
        length: Tensor  # (B,), number of pending elements

    def __init__(self, input_size: int, factor: int, *, method: Method = "stride") -> None:
        if factor < 1:
            raise ValueError(f"factor must be at least 1, got {factor}")
        if method not in get_args(Method):
            raise ValueError(f"method is {method!r}, expected one of {', '.join(get_args(Method))}")
        super().__init__()
        self.input_size, self.factor, self.method = input_size, factor, method
        self.output_size = factor * input_size if method == "pyramid" else input_size
        self.linear = nn.Linear(factor * input_size, input_size) if method == "stride" else None

    def forward(
        self,
        x: Tensor,  # (B, T, input_size)
        mask: Tensor | None = None,  # (B, T)
        state: Any = None,
        *,
        more: bool = False,  # another chunk follows
    ) -> tuple[Tensor, Tensor, "TimeReduction.State"]:  # (B, T', output_size), its mask (B, T'), the state
        check_input(x, mask, size=self.input_size, like=x if self.linear is None else self.linear.weight)
        mask = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        x = x.masked_fill(~mask.unsqueeze(-1), 0)
        lengths = mask.sum(dim=1)
        factor = self.factor
        if state is not None:
            pending, length = self._check(state, x)
            x, lengths = _prepend(pending, x, length), lengths + length
        output_lengths = lengths // factor if more else self.output_length(lengths)
        time = x.shape[1] // factor if more else self.output_length(x.shape[1])
        padded = nn.functional.pad(x, (0, 0, 0, max(time * factor - x.shape[1], 0)))
        y = padded[:, : time * factor].reshape(len(x), time, factor * self.input_size)
        if self.linear is not None:
            y = torch.relu(self.linear(y))
        elif self.method == "max":
            places = torch.arange(time * factor, device=x.device).view(time, factor, 1)
            is_filled = places >= lengths.view(-1, 1, 1, 1)
            y = y.unflatten(2, (factor, self.input_size)).masked_fill(is_filled, -torch.inf).amax(dim=2)
        output_mask = torch.arange(time, device=x.device) < output_lengths.unsqueeze(1)
        y = y.masked_fill(~output_mask.unsqueeze(-1), 0)
        return y, output_mask, self._next_state(x, lengths, more=more)

    def output_length(self, length: Any) -> Any:
        """Return the length after the reduction, of one length or a tensor of lengths."""
        return -(-length // self.factor)

    def _check(self, state: Any, x: Tensor) -> "TimeReduction.State":
        if not isinstance(state, TimeReduction.State):
            raise TypeError(f"state is {type(state).__name__}, expected TimeReduction.State{self.State._fields}")
        pending, shape = state.pending, (x.shape[0], self.factor - 1, x.shape[2])
        if pending.shape != shape:
            raise ValueError(f"state.pending has shape {tuple(pending.shape)}, expected {shape}")
        if pending.dtype != x.dtype or pending.device != x.device:
            raise TypeError(f"state.pending is {pending.dtype} on {pending.device}, expected {x.dtype} on {x.device}")
        return state

    def _next_state(self, x: Tensor, lengths: Tensor, *, more: bool) -> "TimeReduction.State":
        length = lengths % self.factor if more else torch.zeros_like(lengths)
        from_end = torch.arange(self.factor - 1, 0, -1, device=x.device)  # distance of each slot from the end
        steps = lengths.unsqueeze(1) - from_end  # (B, factor - 1)
        pending = _take(x, steps).masked_fill((from_end > length.unsqueeze(1)).unsqueeze(-1), 0)
        return self.State(pending, length)

    def extra_repr(self) -> str:
        return f"factor={self.factor}, method={self.method}"


def _prepend(pending: Tensor, x: Tensor, length: Tensor) -> Tensor:
    """Concatenate the last ``length`` pending elements and x, left-aligned in each row."""
    slots = pending.shape[1]
    joined = torch.cat([pending, x], dim=1)
    steps = torch.arange(joined.shape[1], device=x.device) + (slots - length).unsqueeze(1)
    beyond = steps >= joined.shape[1]
    return _take(joined, steps).masked_fill(beyond.unsqueeze(-1), 0)


def _take(x: Tensor, steps: Tensor) -> Tensor:  # (B, T, D), (B, S) → (B, S, D)
    if not x.shape[1]:
        return x.new_zeros(*steps.shape, x.shape[2])
    steps = steps.clamp(0, x.shape[1] - 1)
    return x.gather(1, steps.unsqueeze(-1).expand(-1, -1, x.shape[2]))
