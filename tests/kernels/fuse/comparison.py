"""The plain loop over a step function, and the comparison of a kernel with it."""

from collections.abc import Callable, Mapping, Sequence

import torch
from tests.contracts.registry import noise
from torch import Tensor
from torch.nn import functional

from seqloom.kernels.fuse.scan import FusedScan, fuse
from seqloom.kernels.fuse.trace import StepFunction

TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5}
"""Rounding over a dozen steps and rows: some hundred operations at 1e-16 or 6e-8 each, in another order."""

Tensors = dict[str, Tensor]
Run = Callable[[], tuple[Tensor, Sequence[Tensor]]]  # outputs, final state


def results_and_gradients(run: Run, sources: Mapping[str, Tensor]) -> Tensors:
    """Outputs, final state, and the gradient of all of them, weighted at random, for each source."""
    out, final = run()
    results = {"out": out} | {f"final {index}": tensor for index, tensor in enumerate(final)}
    weighted = [
        (value * noise(*value.shape, seed=seed, dtype=value.dtype)).sum() for seed, value in enumerate(results.values())
    ]
    gradients = torch.autograd.grad(
        torch.stack(weighted).sum(), list(sources.values()), allow_unused=True, materialize_grads=True
    )
    by_source = {f"gradient of {name}": gradient for name, gradient in zip(sources, gradients, strict=True)}
    return {name: value.detach() for name, value in (results | by_source).items()}


def assert_same(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor], *, factor: float = 1) -> None:
    """Equal up to rounding, in units of each tensor's largest value."""
    assert list(actual) == list(expected)
    for name, value in expected.items():
        scale = max(1.0, value.abs().max().item()) if value.numel() else 1.0
        tolerance = factor * scale * TOLERANCES[value.dtype]
        torch.testing.assert_close(
            actual[name],
            value,
            rtol=0,
            atol=tolerance,
            equal_nan=True,
            msg=lambda text, name=name: f"{name}: {text}",  # type: ignore[misc]
        )


def plain(
    step: StepFunction,
    x: Tensor,  # (T, B, P)
    state: tuple[Tensor, ...],
    parameters: Mapping[str, Tensor],
    *,
    lengths: Tensor | None = None,
    reverse: bool = False,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run the step function in a plain loop over time."""
    outputs = []
    steps = list(enumerate(x))
    for time, x_t in reversed(steps) if reverse else steps:
        real = torch.ones(x.shape[1], 1, dtype=torch.bool) if lengths is None else (time < lengths).unsqueeze(1)
        next_state = step(parameters, torch.where(real, x_t, 0), state)
        state = tuple(torch.where(real, new, old) for new, old in zip(next_state, state, strict=True))
        outputs.append(torch.where(real, state[0], 0))
    return torch.stack(outputs[::-1] if reverse else outputs), state


class Case:
    """A step function with its arguments, to be run by the kernel and by the plain loop."""

    def __init__(
        self,
        step: StepFunction,
        parameters: Mapping[str, Tensor],
        *,
        projected: int,
        state: tuple[int, ...],
        shape: tuple[int, int] = (6, 4),  # time, batch
        linear: str | None = None,
    ) -> None:
        self.step, self.linear = step, linear
        self.parameters = {name: value.clone().requires_grad_() for name, value in parameters.items()}
        like = next(iter(parameters.values()))
        width = parameters[linear].shape[1] if linear else projected
        self.x = noise(*shape, width, seed=40, dtype=like.dtype).requires_grad_()
        self.state = tuple(
            (0.5 * noise(shape[1], size, seed=50 + index, dtype=like.dtype)).requires_grad_()
            for index, size in enumerate(state)
        )
        self.fused: FusedScan = fuse(step, self.parameters, projected=projected, state=state, linear=linear)

    @property
    def sources(self) -> Tensors:
        states = {f"initial {index}": tensor for index, tensor in enumerate(self.state)}
        return {"x": self.x, **states, **self.parameters}

    def by_kernel(self, *, lengths: Tensor | None = None, reverse: bool = False) -> Tensors:
        return results_and_gradients(
            lambda: self.fused(self.x, self.state, self.parameters, lengths=lengths, reverse=reverse), self.sources
        )

    def by_loop(self, *, lengths: Tensor | None = None, reverse: bool = False) -> Tensors:
        def run() -> tuple[Tensor, tuple[Tensor, ...]]:
            x = self.x
            if self.linear:
                x = functional.linear(torch.nan_to_num(x), self.parameters[self.linear])
            return plain(self.step, x, self.state, self.parameters, lengths=lengths, reverse=reverse)

        return results_and_gradients(run, self.sources)

    def check(self, *, lengths: Tensor | None = None, reverse: bool = False, factor: float = 1) -> None:
        actual = self.by_kernel(lengths=lengths, reverse=reverse)
        assert_same(actual, self.by_loop(lengths=lengths, reverse=reverse), factor=factor)
