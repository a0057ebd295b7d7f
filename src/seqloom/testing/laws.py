"""What all contract checks share: reproducible data, comparison up to rounding, and errors that name the broken law."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from safetensors import torch as safetensors
from torch import Tensor, nn

from seqloom import state as states

Law = Callable[[Any], None]
"""Checks a case and raises an AssertionError. The first line of its docstring states the law."""

TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5}
"""Rounding only: some hundred operations at 1e-16 or 6e-8 each, in any order."""


def check_law(law: Callable[..., None], case: Any, **settings: Any) -> None:
    """Run one law; whatever goes wrong becomes an AssertionError that names the law and the case."""
    statement = (law.__doc__ or "").strip().splitlines()[0]
    shown = f" with {settings}" if settings else ""
    broken = f"{case}{shown} breaks the law {law.__name__!r} ({statement.rstrip('.')})"
    with warnings.catch_warnings():
        # A cell without a fused kernel is slow, not wrong.
        warnings.filterwarnings("ignore", message=".*runs step by step")
        try:
            law(case, **settings)
        except AssertionError as error:
            raise AssertionError(f"{broken}: {error}") from error
        except Exception as error:
            raise AssertionError(f"{broken}: raised {type(error).__name__}: {error}") from error


def check_laws(laws: Iterable[Law], case: Any) -> None:
    for law in laws:
        check_law(law, case)


def require(condition: bool, message: str) -> None:  # noqa: FBT001  like assert, which python -O removes
    if not condition:
        raise AssertionError(message)


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Standard normal values, the same in both precisions."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def make_mask(lengths: list[int], time: int) -> Tensor:
    """The mask (B, T) of rows of the given lengths."""
    return torch.arange(time) < torch.tensor(lengths, dtype=torch.long).view(-1, 1)


def randomize(module: nn.Module, *, seed: int = 0, dtype: torch.dtype = torch.float64) -> None:
    """Give all parameters random values, so that no zero or one hides an error; the same in both precisions."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    module.to(dtype)


def tensors(state: Any, name: str = "state", *, shared: bool = False) -> dict[str, Tensor]:
    """All tensors of a state by name; tables that rows share (the source of a decoder) only on request."""
    if isinstance(state, Tensor):
        return {name: state}
    if isinstance(state, states.Shared) and not shared:
        return {}
    if not isinstance(state, tuple):
        raise TypeError(f"{name} is {type(state).__name__}, expected a tensor or a (named) tuple of them")
    fields = getattr(state, "_fields", range(len(state)))
    parts = [tensors(part, f"{name}.{field}", shared=shared) for field, part in zip(fields, state, strict=True)]
    return {key: value for part in parts for key, value in part.items()}


def assert_close(
    actual: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    *,
    tolerance: float,  # relative to the largest value of each tensor; 0: bit for bit
) -> None:
    require(list(actual) == list(expected), f"expected {', '.join(expected)}; found {', '.join(actual)}")
    for name, value in expected.items():
        left, right = actual[name].detach(), value.detach()
        require(
            (left.shape, left.dtype) == (right.shape, right.dtype),
            f"{name}: expected {right.dtype} {tuple(right.shape)}, found {left.dtype} {tuple(left.shape)}",
        )
        if torch.equal(left, right) or not right.numel():
            continue
        # A sum is rounded like its largest terms, so the tolerance is relative to the largest value.
        finite = right[right.isfinite()].abs() if right.is_floating_point() else right.abs()
        allowed = tolerance * max(1.0, float(finite.max()) if finite.numel() else 1.0)
        far = ~torch.isclose(left, right, rtol=0, atol=allowed, equal_nan=True)
        if far.any():
            index = tuple(far.nonzero()[0].tolist())
            raise AssertionError(
                f"{name}{list(index)}: expected {right[index].item():.9g}, found {left[index].item():.9g} "
                f"(tolerance {allowed:.1g}; {int(far.sum())} of {far.numel()} values differ)"
            )


def saved(module: nn.Module) -> dict[str, Tensor]:
    """The weights of a module, written in the format of a run's checkpoint and read back."""
    weights = {name: value.detach().clone().contiguous() for name, value in module.state_dict().items()}
    return safetensors.load(safetensors.save(weights))
