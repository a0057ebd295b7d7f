"""Linear chains of labels: conditional random fields (Lafferty, McCallum & Pereira 2001) by forward-backward."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.kernels.runtime.differentiation import differentiable_once

EMISSION, TRANSITION = -640.0, -60.0
"""Lower bounds of emission and transition scores relative to their maximum: no sum underflows in float64."""


class Chain(NamedTuple):
    """Transition scores of labels; -inf forbids a transition."""

    start: Tensor  # (L,), first label
    transitions: Tensor  # (L, L), from a label (row) to the next (column)
    end: Tensor  # (L,), last label


class CRF(nn.Module):
    """Scores label sequences by emissions and learned transition, start and end scores.

    A row of length 0 has one sequence, the empty one, with score 0. Labels are integers (B, T); labels and emissions
    in the padding are ignored.
    """

    def __init__(
        self,
        labels: int,
        *,
        allowed: Chain | None = None,  # Booleans; forbidden transitions are never decoded
        strict: bool = False,  # forbidden transitions have no probability in training either
    ) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(labels))
        self.transitions = nn.Parameter(torch.zeros(labels, labels))
        self.end = nn.Parameter(torch.zeros(labels))
        self.allowed = allowed
        self.strict = strict

    @property
    def chain(self) -> Chain:
        return Chain(self.start, self.transitions, self.end)

    @property
    def allowed_chain(self) -> Chain:
        if self.allowed is None:
            return self.chain
        pairs = zip(self.chain, self.allowed, strict=True)
        return Chain(*(scores.masked_fill(~allowed.to(scores.device), -torch.inf) for scores, allowed in pairs))

    def forward(self, emissions: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        """The negative log-likelihood of each row's labels (B,)."""
        chain = self.allowed_chain if self.strict else self.chain
        return log_partition(emissions, mask, chain) - score(emissions, mask, labels, chain=self.chain)

    def decode(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The best labels (B, T), 0 in the padding."""
        return viterbi(emissions, mask, self.allowed_chain)

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The probability of each label at each position (B, T, L), 0 in the padding."""
        return marginals(emissions, mask, self.allowed_chain)

    def log_odds(self, emissions: Tensor, mask: Tensor, *, position: int, label: int) -> Tensor:
        """The log-odds ln p / (1 - p) of a label at a position (B,): the sequences with it against all others."""
        others = torch.zeros_like(emissions, dtype=torch.bool)
        others[:, position] = True
        others[:, position, label] = False
        this = torch.zeros_like(others)
        this[:, position, label] = True
        with_label, without = (
            log_partition(emissions.masked_fill(excluded, -torch.inf), mask, self.allowed_chain)
            for excluded in (others, this)
        )
        return with_label - without

    def extra_repr(self) -> str:
        return f"labels={len(self.start)}, constrained={self.allowed is not None}, strict={self.strict}"


def allowed_transitions(names: Sequence[str]) -> Chain:
    """The allowed transitions as Booleans: I-x and E-x only follow B-x and I-x; with E- labels, spans end with one."""
    kinds = [name[:1] for name in names]
    types = [name[2:] for name in names]
    has_ends = "E" in kinds and bool({"O", "S"} & set(kinds))
    inside = torch.tensor([kind in "IE" for kind in kinds])  # must continue a span
    opened = torch.tensor([kind in "BI" for kind in kinds])  # can be continued
    same = torch.tensor([[left == right for right in types] for left in types])
    continues = opened.unsqueeze(1) & inside & same
    transitions = continues | ~inside.expand_as(same) & (~opened.unsqueeze(1) if has_ends else torch.ones_like(same))
    return Chain(~inside, transitions, ~opened if has_ends else torch.ones_like(opened))


def is_allowed(
    allowed: Chain,
    names: Sequence[str],
    pairs: Iterable[tuple[str, str]],  # adjacent labels; an empty name stands for the start and the end
) -> bool:
    """Whether all transitions between these labels are allowed."""
    index = {name: position for position, name in enumerate(names)}
    starts, ends = allowed.start.tolist(), allowed.end.tolist()
    transitions = allowed.transitions.tolist()

    def allows(left: str, right: str) -> bool:
        if not left:
            return not right or bool(starts[index[right]])
        return bool(transitions[index[left]][index[right]] if right else ends[index[left]])

    return all(allows(left, right) for left, right in pairs)


def score(
    emissions: Tensor,  # (B, T, L)
    mask: Tensor,  # (B, T)
    labels: Tensor,  # (B, T)
    *,
    chain: Chain,
) -> Tensor:  # (B,)
    """The score of one label sequence per row."""
    labels = labels.masked_fill(~mask, 0)
    emission_scores = emissions.gather(2, labels.unsqueeze(2)).squeeze(2)
    pairs = labels[:, :-1] * len(chain.start) + labels[:, 1:]
    steps = chain.transitions.flatten()[pairs].masked_fill(~mask[:, 1:], 0)
    last = labels.gather(1, (mask.sum(dim=1, keepdim=True) - 1).clamp(min=0)).squeeze(1)
    ends = (chain.start[labels[:, 0]] + chain.end[last]).masked_fill(~mask[:, 0], 0)
    return emission_scores.masked_fill(~mask, 0).sum(dim=1) + steps.sum(dim=1) + ends


def log_partition(
    emissions: Tensor,  # (B, T, L)
    mask: Tensor,  # (B, T)
    chain: Chain,
) -> Tensor:  # (B,)
    """The log of the sum of exp(score) over all label sequences."""
    total: Tensor = _LogPartition.apply(emissions, mask, *chain)
    return total


@torch.no_grad()
def marginals(emissions: Tensor, mask: Tensor, chain: Chain) -> Tensor:  # (B, T, L)
    forward = _Forward(emissions, mask, chain)
    return _posteriors(forward, forward.backward()).transpose(0, 1).to(emissions.dtype)


@torch.no_grad()
def viterbi(
    emissions: Tensor,  # (B, T, L)
    mask: Tensor,  # (B, T)
    chain: Chain,
) -> Tensor:  # (B, T)
    """The label sequence with the highest score, 0 in the padding."""
    emissions = emissions.masked_fill(~mask.unsqueeze(2), 0)
    into = chain.transitions.T.contiguous()  # previous label last: the maximum runs over adjacent memory
    best = [chain.start + emissions[:, 0]]  # each (B, L): best score of a sequence that ends there with each label
    for time in range(1, emissions.shape[1]):
        best.append((best[-1].unsqueeze(1) + into).amax(dim=2) + emissions[:, time])
    path = torch.zeros_like(mask, dtype=torch.long)
    following = path[:, 0]
    lengths = mask.sum(dim=1)
    for time in reversed(range(emissions.shape[1])):
        # Backpointers are recomputed on the way back instead of stored on the way forward.
        after = torch.where((lengths == time + 1).unsqueeze(1), chain.end, into[following])
        following = (best[time] + after).argmax(dim=1)
        path[:, time] = following
    return path.masked_fill(~mask, 0)


class _Forward:
    """The forward recursion in float64, scaled to sum 1 at each position: matrix products instead of logarithms."""

    def __init__(self, emissions: Tensor, mask: Tensor, chain: Chain) -> None:
        start, transitions, end = (scores.detach().double() for scores in chain)
        self.mask = mask.T.unsqueeze(2)  # (T, B, 1)
        scores = emissions.detach().transpose(0, 1).double().masked_fill(~self.mask, 0)  # (T, B, L)
        scores[0] += start
        self.factors, highest = _exponentials(scores, dim=2, lowest=EMISSION)
        self.transitions, step = _exponentials(transitions.flatten(), dim=0, lowest=TRANSITION)
        self.transitions = self.transitions.view_as(transitions)
        self.end, last = _exponentials(end, dim=0, lowest=TRANSITION)
        self.values = torch.empty_like(self.factors)  # (T, B, L)
        self.scales = self.values.new_empty(*self.values.shape[:2], 1)  # (T, B, 1)
        steps = zip(self.values.unbind(0), self.factors.unbind(0), self.scales.unbind(0), strict=True)
        before: Tensor | None = None
        for value, factor, scale in steps:
            if before is None:
                value.copy_(factor)
            else:
                torch.mm(before, self.transitions, out=value).mul_(factor)
            value.div_(torch.sum(value, 1, keepdim=True, out=scale))
            before = value
        self.lengths = mask.sum(dim=1)
        final = self.values[(self.lengths - 1).clamp(min=0), torch.arange(len(mask), device=mask.device)]
        logarithms = (self.scales.log() + highest).masked_fill(~self.mask, 0).sum(dim=(0, 2))
        total = logarithms + step * (self.lengths - 1) + (final @ self.end).log() + last
        self.total = total.masked_fill(self.lengths == 0, 0)  # (B,)

    def backward(self) -> Tensor:  # (T, B, L)
        """The backward recursion, scaled to sum 1 at each position."""
        values = (self.end / self.end.sum()).expand_as(self.values).contiguous()
        into = self.transitions.T.contiguous()
        product, arrived = torch.empty_like(values[0]), torch.empty_like(values[0])
        steps = zip(values.unbind(0)[:-1], values.unbind(0)[1:], self.factors.unbind(0)[1:], self.mask[1:], strict=True)
        for value, following, factor, real in reversed(list(steps)):
            torch.mm(torch.mul(following, factor, out=arrived), into, out=product)
            product.div_(product.sum(dim=1, keepdim=True))
            torch.where(real, product, value, out=value)
        return values


def _exponentials(scores: Tensor, *, dim: int, lowest: float) -> tuple[Tensor, Tensor]:
    """exp(scores - maximum), at least exp(lowest) unless forbidden, and the maximum."""
    highest = scores.amax(dim=dim, keepdim=True)
    below = scores - highest
    return below.clamp(min=lowest).exp_().masked_fill_(below == -torch.inf, 0), highest


def _posteriors(forward: _Forward, backward: Tensor) -> Tensor:  # (T, B, L)
    both = forward.values * backward
    return (both / both.sum(dim=2, keepdim=True)).masked_fill_(~forward.mask, 0)


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, emissions: Tensor, mask: Tensor, start: Tensor, transitions: Tensor, end: Tensor) -> Tensor:
        ctx.forward = _Forward(emissions, mask, Chain(start, transitions, end))
        ctx.dtypes = emissions.dtype, start.dtype
        total: Tensor = ctx.forward.total.to(emissions.dtype)
        return total

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        forward: _Forward = ctx.forward
        backward = forward.backward()
        both = forward.values * backward
        weights = gradient.double().unsqueeze(1) / both.sum(dim=2, keepdim=True)  # (T, B, 1)
        emissions = (both * weights).masked_fill_(~forward.mask, 0)  # (T, B, L)
        arrived = backward[1:] * forward.factors[1:] * (weights[1:] / forward.scales[1:])
        arrived.masked_fill_(~forward.mask[1:], 0)
        pairs = forward.values[:-1].flatten(0, 1).T @ arrived.flatten(0, 1)  # (L, L)
        rows = torch.arange(len(gradient), device=gradient.device)
        last = emissions[(forward.lengths - 1).clamp(min=0), rows].sum(dim=0)
        outer, inner = ctx.dtypes
        return (
            emissions.transpose(0, 1).to(outer),
            None,
            emissions[0].sum(dim=0).to(inner),
            (pairs * forward.transitions).to(inner),
            last.to(inner),
        )


def scaled_exponentials(scores: Tensor) -> NDArray[np.float64]:
    """exp(scores - maximum), at least exp(TRANSITION) unless forbidden, for exports."""
    factors, _ = _exponentials(scores.detach().double().flatten(), dim=0, lowest=TRANSITION)
    values: NDArray[np.float64] = factors.view_as(scores).numpy()
    return values
