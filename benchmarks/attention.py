"""Transformer blocks on long inputs: a window and linear attention compared with full attention, in time and memory."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks import child_process
from benchmarks.measure import Call, Result, compare_costs, compare_times, interleave
from seqloom.layers.transformer.block import TransformerBlock

LENGTHS = (512, 2048, 8192)
SIZE, HEADS, WINDOW = 128, 4, 128
KINDS: dict[str, dict[str, Any]] = {
    "full attention": {},
    f"window of {WINDOW}": {"context": WINDOW},
    "linear attention": {"attention": "linear"},
}
TIME_GOAL = 3.0
"""How many times as fast as full attention a variant should be at the greatest length."""

PEAK_MEMORY = """
import sys
from benchmarks.attention import training_step
from seqloom.comparison.trial import peak_memory

step = training_step(sys.argv[1], int(sys.argv[2]), causal=sys.argv[3] == "True")
before = peak_memory()
step()
print(peak_memory() - before)
"""


def measure(*, quick: bool) -> Iterator[Result]:
    """Forward and backward pass of one block for a single sequence, causal and not; one thread."""
    torch.set_num_threads(1)
    for causal in (True, False):
        for length in LENGTHS[:2] if quick else LENGTHS:
            yield from compare(length, causal=causal, repetitions=2 if quick else 5)


def compare(length: int, *, causal: bool, repetitions: int) -> Iterator[Result]:
    """Both variants against full attention at one length."""
    full, *others = KINDS
    calls: dict[str, Call] = {kind: training_step(kind, length, causal=causal) for kind in KINDS}
    times = interleave(calls, repetitions=repetitions, warm_up=1)
    megabytes = {kind: max(0.1, child_process.run(PEAK_MEMORY, kind, length, causal)) for kind in KINDS}
    goal = TIME_GOAL if length == LENGTHS[-1] else None
    for kind in others:
        case = f"{kind}, {'causal' if causal else 'both directions'}, T={length:,}"
        yield compare_times(case, 1, ours=times[kind], peer=times[full], peer_name=full, goal=goal)
        yield compare_costs(f"{case}: memory", 1, unit="MB", ours=megabytes[kind], peer=megabytes[full], peer_name=full)


def training_step(kind: str, length: int, *, causal: bool) -> Callable[[], tuple[Tensor, ...]]:
    """A function that computes the gradients of a block for one sequence."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    block = TransformerBlock(SIZE, heads=HEADS, causal=causal, **KINDS[kind])
    x = torch.randn(1, length, SIZE)
    parameters = list(block.parameters())

    def step() -> tuple[Tensor, ...]:
        return torch.autograd.grad(block(x)[0].square().mean(), parameters)

    return step
