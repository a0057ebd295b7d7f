"""What all contract checks share: reproducible data, comparison up to rounding, and errors that name the broken law."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from safetensors import torch as safetensors
from torch import Tensor, nn

from seqloom import state as states

Law = Callable[[Any], None]
"""Checks a case and raises an AssertionError. The first line of its docstring states the law."""

TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5}
"""Rounding only: some hundred operations at 1e-16 or 6e-8 each, in any order."""


class Difference(NamedTuple):
    """How far two tensors are apart that should be equal."""

    name: str
    value: float  # the largest difference, relative to the largest value of the tensor if that is above 1
    dtype: torch.dtype


_differences: ContextVar[list[Difference] | None] = ContextVar("_differences", default=None)


@contextmanager
def recorded_differences() -> Iterator[list[Difference]]:
    """Everything that ``assert_close`` compares meanwhile."""
    differences: list[Difference] = []
    token = _differences.set(differences)
    try:
        yield differences
    finally:
        _differences.reset(token)


class BrokenLaw(AssertionError):
    """A law that does not hold, with what was found instead."""

    def __init__(self, message: str, *, case: str, finding: str) -> None:
        super().__init__(f"{message}: {finding}")
        self.case = case
        self.finding = finding


def statement(law: Callable[..., None]) -> str:
    """What a law says."""
    return (law.__doc__ or "").strip().splitlines()[0].rstrip(".")


def check_law(law: Callable[..., None], case: Any, **settings: Any) -> None:
    """Run one law; whatever goes wrong becomes an AssertionError that names the law and the case."""
    shown = f" with {settings}" if settings else ""
    broken = f"{case}{shown} breaks the law {law.__name__!r} ({statement(law)})"
    with warnings.catch_warnings():
        # A cell without a fused kernel is slow, not wrong.
        warnings.filterwarnings("ignore", message=".*runs step by step")
        try:
            law(case, **settings)
        except AssertionError as error:
            raise BrokenLaw(broken, case=str(case), finding=str(error)) from error
        except Exception as error:
            raise BrokenLaw(broken, case=str(case), finding=f"raised {type(error).__name__}: {error}") from error


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
        _record(name, left, right)
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


def _record(name: str, left: Tensor, right: Tensor) -> None:
    differences = _differences.get()
    if differences is None or not right.numel() or not right.is_floating_point():
        return
    both = left.isfinite() & right.isfinite()
    if both.any():
        largest = max(1.0, float(right[both].abs().max()))
        differences.append(Difference(name, float((left - right)[both].abs().max()) / largest, right.dtype))


def saved(module: nn.Module) -> dict[str, Tensor]:
    """The weights of a module, written in the format of a run's checkpoint and read back."""
    weights = {name: value.detach().clone().contiguous() for name, value in module.state_dict().items()}
    return safetensors.load(safetensors.save(weights))
