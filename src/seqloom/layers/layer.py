"""The contract of a layer: a sequence in, a sequence and a state out."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn


class Memory(NamedTuple):
    """What an encoder made of a source."""

    values: Tensor  # (B, S, D)
    mask: Tensor  # (B, S), True where real
    state: Any  # of the encoder after each row's last element


class Layer(nn.Module, ABC):
    """Sequence to sequence. Generation is ``forward`` with one time step and the state handed on."""

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__()
        self.input_size = input_size
        self.output_size = output_size

    @abstractmethod
    def forward(
        self,
        x: Tensor,  # (B, T, input_size)
        mask: Tensor | None = None,  # (B, T), True where real; right-padded, rows of length zero allowed
        state: Any = None,  # as returned by an earlier call; None for the start
    ) -> tuple[Tensor, Any]:  # (B, T, output_size), zero in the padding; the state after each row's last real element
        """Run the layer over a batch of sequences."""

    def start(
        self,
        batch: int,
        memory: Memory | None = None,  # noqa: ARG002  of the layers that look at a source
        *,
        coverage: bool = False,  # noqa: ARG002  of the same: note how much each element of the source is looked at
    ) -> Any:
        """The state before the first element of each sequence; a layer that looks at a source keeps it there."""
        like = next(self.parameters(), torch.empty(0))
        return self(like.new_zeros(batch, 0, self.input_size), None, None)[1]


def coverage(state: Any) -> Tensor | None:
    """How much each element of the source was looked at so far, (B, S): the mean of all that a state has noted."""
    found = list(_noted(state))
    return torch.stack(found).mean(dim=0) if found else None


def _noted(state: Any) -> Iterator[Tensor]:
    if not isinstance(state, tuple):
        return
    for name, part in zip(getattr(state, "_fields", [""] * len(state)), state, strict=True):
        if name == "coverage" and part.shape[1]:
            yield part
        else:
            yield from _noted(part)


Method = TypeVar("Method", bound=Callable[..., Any])


def untraced(method: Method) -> Method:
    """Keep ``torch.compile`` out of a method, without importing the compiler (over a second) where nobody uses it."""
    disabled: list[Callable[..., Any]] = []

    @wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        if "torch._dynamo" not in sys.modules:
            return method(*arguments, **options)
        if not disabled:
            disabled.append(torch.compiler.disable(method))
        return disabled[0](*arguments, **options)

    vars(call)["_torchdynamo_disable"] = True  # the compiler looks for this mark
    return call  # type: ignore[return-value]


def check_input(
    x: Tensor,
    mask: Tensor | None,
    *,
    size: int,
    like: Tensor,  # a parameter: its dtype and device are the expected ones
) -> None:
    """Raise an error that names the argument, what was found and what is expected."""
    for name, value in (("x", x), ("mask", mask)):
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"{name} is {type(value).__qualname__}, expected a tensor")
    if x.dim() != 3:
        raise ValueError(f"x has shape {tuple(x.shape)}, expected (batch, time, {size})")
    if x.shape[2] != size:
        raise ValueError(f"x has shape {tuple(x.shape)}, expected (batch, time, {size}) for input_size {size}")
    if x.dtype != like.dtype:
        advice = "cast x or the layer" if x.is_floating_point() else "embed or cast it first"
        raise TypeError(f"x has dtype {x.dtype}, expected {like.dtype} as the layer's parameters: {advice}")
    if x.device != like.device:
        raise ValueError(f"x is on {x.device}, expected {like.device} as the layer's parameters")
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise TypeError(f"mask has dtype {mask.dtype}, expected torch.bool (True where x is real)")
    if mask.shape != x.shape[:2]:
        raise ValueError(f"mask has shape {tuple(mask.shape)}, expected {tuple(x.shape[:2])} as (batch, time) of x")
    if mask.device != x.device:
        raise ValueError(f"mask is on {mask.device}, expected {x.device} as x")
    late = mask[:, 1:] & ~mask[:, :-1]
    if late.any():
        row = int(late.any(dim=1).nonzero()[0])
        raise ValueError(
            f"mask row {row} is padded on the left or inside: expected True values first, then False (right padding)"
        )
