"""Interface of a layer: a sequence in, a sequence and a state out."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn


def count_parameters(module: nn.Module) -> int:
    """The number of parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())


class Memory(NamedTuple):
    """The output of an encoder."""

    values: Tensor  # (B, S, D)
    mask: Tensor  # (B, S), True where real
    state: Any  # the encoder's state after each row's last element


class Layer(nn.Module, ABC):
    """Maps a sequence to a sequence. Generation calls ``forward`` with one time step and the previous state."""

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__()
        self.input_size = input_size
        self.output_size = output_size

    @abstractmethod
    def forward(
        self,
        x: Tensor,  # (B, T, input_size)
        mask: Tensor | None = None,  # (B, T), True where real; right-padded, rows of length zero allowed
        state: Any = None,  # as returned by the previous call; None at the start
    ) -> tuple[Tensor, Any]:  # (B, T, output_size), zero in the padding; the state after each row's last real element
        """Run the layer over a batch of sequences."""

    def start(
        self,
        batch: int,
        memory: Memory | None = None,  # noqa: ARG002  used by layers that attend to a source
        *,
        coverage: bool = False,  # noqa: ARG002  used by the same layers: accumulate the attention weights
    ) -> Any:
        """Return the state before the first element; layers with attention keep the source in it."""
        like = next(self.parameters(), torch.empty(0))
        return self(like.new_zeros(batch, 0, self.input_size), None, None)[1]


def coverage(state: Any) -> Tensor | None:
    """Attention that each source element received so far, (B, S): the mean over all attention layers of a state."""
    coverages = list(_find_coverage(state))
    return torch.stack(coverages).mean(dim=0) if coverages else None


def _find_coverage(state: Any) -> Iterator[Tensor]:
    if not isinstance(state, tuple):
        return
    for name, part in zip(getattr(state, "_fields", [""] * len(state)), state, strict=True):
        if name == "coverage" and part.shape[1]:
            yield part
        else:
            yield from _find_coverage(part)


Method = TypeVar("Method", bound=Callable[..., Any])


def untraced(method: Method) -> Method:
    """Exclude a method from ``torch.compile``, without importing the compiler (over a second) when it is not used."""
    disabled: list[Callable[..., Any]] = []

    @wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        if "torch._dynamo" not in sys.modules:
            return method(*arguments, **options)
        if not disabled:
            disabled.append(torch.compiler.disable(method))
        return disabled[0](*arguments, **options)

    vars(call)["_torchdynamo_disable"] = True  # the compiler checks this attribute
    return call  # type: ignore[return-value]


def check_input(
    x: Tensor,
    mask: Tensor | None,
    *,
    size: int,
    like: Tensor,  # a parameter with the expected dtype and device
) -> None:
    """Raise an error that names the argument, its value and the expected one."""
    for name, value in (("x", x), ("mask", mask)):
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"{name} is {type(value).__qualname__}, expected a tensor")
    if x.dim() != 3:
        raise ValueError(f"x has shape {tuple(x.shape)}, expected (batch, time, {size})")
    if x.shape[2] != size:
        raise ValueError(f"x has shape {tuple(x.shape)}, expected (batch, time, {size}) for input_size {size}")
    if x.dtype != like.dtype:
        advice = "cast x or the layer" if x.is_floating_point() else "embed or cast it first"
        raise TypeError(f"x has dtype {x.dtype}, expected {like.dtype} like the layer's parameters: {advice}")
    if x.device != like.device:
        raise ValueError(f"x is on {x.device}, expected {like.device} like the layer's parameters")
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise TypeError(f"mask has dtype {mask.dtype}, expected torch.bool (True where x is real)")
    if mask.shape != x.shape[:2]:
        raise ValueError(f"mask has shape {tuple(mask.shape)}, expected {tuple(x.shape[:2])}: (batch, time) of x")
    if mask.device != x.device:
        raise ValueError(f"mask is on {mask.device}, expected {x.device} like x")
    gaps = mask[:, 1:] & ~mask[:, :-1]
    if gaps.any():
        row = int(gaps.any(dim=1).nonzero()[0])
        raise ValueError(
            f"mask row {row} is padded on the left or in the middle: expected True values, then False (right padding)"
        )
