"""How much of a loss's gradient is left k steps back: ‖∂ loss_t / ∂ h_(t-k)‖ by lag, layer and direction.

Exact: back-propagation through the unrolled steps, once per target. The rows of a batch do not affect each other, so
that one pass back serves one target in every row.

``loss_t`` is the part of the loss that enters at step t: its gradient with respect to the output at t alone, as it
reaches the part of the model. Where each output has a loss of its own (taggers, language models), this is the loss of
that step. ``h`` is the whole state of a cell, all fields together (of an LSTM the output and the memory), each taken as
independent of the others; of a layer without a cell, what it reads at that step.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seqloom.diagnosis.recording import Part
from seqloom.diagnosis.thresholds import AT_THE_END, LEFT, MIN_TARGETS

FORWARD, BACKWARD, BOTH = "forward", "backward", "both"


@dataclass(frozen=True)
class GradientByLag:
    """The gradient of a loss at one step with respect to the state k steps before (after, if backward)."""

    layer: str
    direction: str  # forward: what was read before; backward: what was read after
    of: str  # "state": of a cell; "input": what a layer without a cell reads
    mean: list[float]  # norm by lag, from 0
    low: list[float]  # 10 % of the targets are below
    high: list[float]  # 10 % of the targets are above
    left: list[float]  # mean norm relative to that at lag 0, of the same targets
    targets: list[int]  # number of targets that have this lag
    memory: int | None  # the largest lag at which 1 % is left; None: it is the largest that was measured
    factor: float  # by which a step multiplies the gradient, geometric mean over the lags; NaN: unknown
    half: float  # the lag up to which half of the gradient beyond lag 0 lies; NaN: there is none

    @property
    def reached(self) -> int:
        """The largest lag at which 1 % is left, as far as lags were measured."""
        return len(self.mean) - 1 if self.memory is None else self.memory


@dataclass(frozen=True)
class LossEntry:
    """Where the gradient of the loss enters a part of the model."""

    norms: Tensor  # (B, T), of the gradient with respect to the output of each step
    at_ends: bool  # whether it enters only at the ends of sequences, or at few of their steps
    final_state: bool  # whether it also enters by the final state


def gradients_by_lag(
    part: Part, loss: Tensor, *, targets: int
) -> tuple[list[GradientByLag], LossEntry]:  # the loss is a number
    """The gradients of all layers of a part for about this many targets."""
    nodes = [part.outputs, *part.state]
    entering = _gradients([loss], nodes, None)
    outputs, final = entering[0].masked_fill(~part.mask.unsqueeze(-1), 0), entering[1:]
    norms = outputs.norm(dim=-1)
    by_state = any(bool(grad.count_nonzero()) for grad in final)
    entry = LossEntry(norms, _enters_at_ends(norms, part.mask), by_state)
    measured: dict[tuple[str, str, str], list[Tensor]] = {}
    for positions in _passes(norms, part.mask, targets=targets, by_state=by_state):
        chosen = torch.zeros_like(outputs)
        if positions is not None:
            rows = (positions >= 0).nonzero().squeeze(1)
            chosen[rows, positions[rows]] = outputs[rows, positions[rows]]
        given = [chosen, *(final if positions is None else map(torch.zeros_like, final))]
        for layer, direction, of, by_lag in _pull_back(part, nodes, given, positions):
            measured.setdefault((layer, direction, of), []).append(by_lag)
    return [_summarize(*name, torch.cat(passes)) for name, passes in measured.items()], entry


@dataclass(frozen=True)
class Reach:
    """How strongly the loss at some outputs depends on the state of a layer at each step, of one sequence."""

    layer: str
    direction: str
    of: str  # "state" or "input", as in GradientByLag
    outputs: list[int]  # steps of the output; -1: all of them, by the final state
    norms: list[list[float]]  # (outputs, steps): ‖∂ loss_t / ∂ h_s‖


def reach_of(part: Part, loss: Tensor, *, most: int) -> list[Reach]:
    """The reach of the outputs of a part with one sequence; of more outputs than ``most``, evenly spaced ones."""
    nodes = [part.outputs, *part.state]
    entering = _gradients([loss], nodes, None)
    outputs, final = entering[0].masked_fill(~part.mask.unsqueeze(-1), 0), entering[1:]
    rows: dict[tuple[str, str, str], Reach] = {}
    passes = _passes(
        outputs.norm(dim=-1), part.mask, targets=most, by_state=any(bool(grad.count_nonzero()) for grad in final)
    )
    for positions in passes:
        chosen = torch.zeros_like(outputs)
        if positions is not None:
            chosen[0, positions[0]] = outputs[0, positions[0]]
        given = [chosen, *(final if positions is None else map(torch.zeros_like, final))]
        for layer, direction, of, norms, mask in _norms(part, nodes, given):
            reach = rows.setdefault((layer, direction, of), Reach(layer, direction, of, [], []))
            reach.outputs.append(-1 if positions is None else int(positions[0]))
            reach.norms.append(norms[0][mask[0]].tolist())
    return list(rows.values())


def _enters_at_ends(norms: Tensor, mask: Tensor) -> bool:
    """Whether the loss enters only at the first and last steps of sequences of three or more, or at few steps."""
    lengths = mask.sum(dim=1)
    steps = torch.arange(mask.shape[1], device=mask.device)
    inner = mask & (steps > 0) & (steps < (lengths - 1).unsqueeze(1))
    entered = int((inner & (norms > 0)).sum())
    return bool(inner.any()) and entered <= AT_THE_END * int(inner.sum())


def _passes(norms: Tensor, mask: Tensor, *, targets: int, by_state: bool) -> Iterator[Tensor | None]:
    """The target position of each row (-1: none) in each pass back; None: the final state."""
    if by_state:
        yield None
    rows = int((norms > 0).any(dim=1).sum())
    if not rows:
        return
    candidates = [row.nonzero().squeeze(1) for row in norms > 0]
    passes = min(max(math.ceil(targets / rows), 1), max(map(len, candidates)))
    for number in range(1, passes + 1):
        positions = torch.full((len(mask),), -1, device=mask.device)
        for row, steps in enumerate(candidates):
            if len(steps) and number <= len(steps):
                # Evenly spaced, the last one included.
                count = min(passes, len(steps))
                positions[row] = steps[math.ceil(number * len(steps) / count) - 1]
        yield positions


def _pull_back(
    part: Part, nodes: list[Tensor], given: list[Tensor], positions: Tensor | None
) -> Iterator[tuple[str, str, str, Tensor]]:
    """The norms (targets, lags) of one pass, NaN where there is no such lag, for each layer and direction."""
    for layer, reading, of, norms, mask in _norms(part, nodes, given):
        for direction in (FORWARD, BACKWARD) if reading == BOTH else (reading,):
            starts = _starts(positions, mask, part.mask, direction)
            yield layer, direction, of, _by_lag(norms, mask, starts, direction)


def _norms(
    part: Part, nodes: list[Tensor], given: list[Tensor]
) -> Iterator[tuple[str, str, str, Tensor, Tensor]]:  # and (B, T), and its mask
    """The norms of the gradients with respect to the state of each layer at each step, of one pass back."""
    tensors: list[Tensor] = []
    for call in part.cells:
        tensors += [value for step in call.steps for value in step.state]
    tensors += [call.values for call in part.values]
    kept = [(node, grad) for node, grad in zip(nodes, given, strict=True) if node.requires_grad]
    grads = iter(_gradients([node for node, _ in kept], tensors, [grad for _, grad in kept]))
    for call in part.cells:
        squares = torch.zeros(call.mask.shape, dtype=torch.float64, device=call.mask.device)  # (B, T)
        for step in call.steps:
            for _ in step.state:
                squares[step.rows, step.position] += next(grads).double().flatten(1).square().sum(dim=1)
        yield call.name, BACKWARD if call.reverse else FORWARD, "state", squares.sqrt(), call.mask
    for values in part.values:
        norms = next(grads).double().norm(dim=-1)
        yield values.name, FORWARD if values.is_causal else BOTH, "input", norms, values.mask


def _gradients(outputs: list[Tensor], inputs: list[Tensor], given: list[Tensor] | None) -> list[Tensor]:
    """The gradients of outputs with respect to inputs; zeros where they do not depend on them."""
    grads = torch.autograd.grad(outputs, inputs, given, retain_graph=True, allow_unused=True, materialize_grads=True)
    return list(grads)


def _starts(positions: Tensor | None, mask: Tensor, part_mask: Tensor, direction: str) -> Tensor:  # (B,), -1: none
    """The step of a layer from which lags are counted: that of the target, or where the final state was computed."""
    lengths = mask.sum(dim=1)
    if positions is None:
        return lengths - 1 if direction == FORWARD else torch.where(lengths > 0, 0, -1)
    if mask.shape[1] == part_mask.shape[1]:
        return positions
    # The layer reads at another pace than the part writes, such as below a reduction of time.
    scaled = ((positions + 1) * lengths / part_mask.sum(dim=1).clamp(min=1)).ceil().long() - 1
    return torch.where(positions < 0, positions, scaled.clamp(min=0))


def _by_lag(
    norms: Tensor,  # (B, T)
    mask: Tensor,
    starts: Tensor,  # (B,)
    direction: str,
) -> Tensor:  # (targets, T)
    """The norms of the rows that have a target, from its step on, against the direction of reading."""
    length = norms.shape[1]
    steps = torch.arange(length, device=norms.device)
    positions = starts.unsqueeze(1) + (-steps if direction == FORWARD else steps)
    inside = (positions >= 0) & (positions < length) & (starts >= 0).unsqueeze(1)
    clamped = positions.clamp(0, length - 1)
    inside &= mask.gather(1, clamped)
    values = norms.gather(1, clamped).masked_fill(~inside, math.nan)
    return values[(starts >= 0) & ~(values[:, 0] == 0)]  # a loss that does not depend on the layer says nothing


def _summarize(layer: str, direction: str, of: str, norms: Tensor) -> GradientByLag:
    """Mean and spread of the norms (targets, lags), and how far back something is left."""
    known = ~norms.isnan()
    counts = known.sum(dim=0)
    least = min(MIN_TARGETS, int(counts.max())) if len(norms) else 0
    lags = int((counts >= max(least, 1)).sum())  # later lags have fewer targets
    norms, known = norms[:, :lags], known[:, :lags]
    total = norms.nansum(dim=0)
    at_zero = (norms[:, :1] * known).nansum(dim=0) if lags else total
    left = [float(value) for value in total / at_zero]
    low, high = (norms.nanquantile(share, dim=0).tolist() if lags else [] for share in (0.1, 0.9))
    return GradientByLag(
        layer,
        direction,
        of,
        norms.nanmean(dim=0).tolist() if lags else [],
        low,
        high,
        left,
        counts[:lags].tolist(),
        _memory(left),
        _factor(left),
        _half(left),
    )


def _memory(left: Sequence[float]) -> int | None:
    """The largest lag at which 1 % is left; None if it is the last one."""
    last = max((lag for lag, share in enumerate(left) if share >= LEFT), default=0)
    return last if last + 1 < len(left) else None


def _factor(left: Sequence[float]) -> float:
    """What a step multiplies the gradient by: the slope of its logarithm over the lags, by least squares."""
    points = [(lag, math.log(share)) for lag, share in enumerate(left) if 0 < share < math.inf]
    if len(points) < 2:
        return math.nan
    lags, logs = torch.tensor(points, dtype=torch.float64).unbind(1)
    lags = lags - lags.mean()
    return math.exp(float((lags * (logs - logs.mean())).sum() / lags.square().sum()))


def _half(left: Sequence[float]) -> float:
    """The lag up to which half of the sum over all lags but 0 lies."""
    total, summed = sum(left[1:]), 0.0
    for lag, share in enumerate(left[1:], start=1):
        summed += share
        if summed >= total / 2 > 0:
            return float(lag)
    return math.nan
