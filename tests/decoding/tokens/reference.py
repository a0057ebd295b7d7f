"""Searches as plain Python loops over prefixes, brute force over all sequences, and a model to search in."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.search import Hypothesis

ROWS = 97  # of the tables, a prime number
POSITIONS = 3  # of the source
Prefix = tuple[int, ...]


class State(NamedTuple):
    prefix: Tensor  # (B,), a number for the row and all tokens so far
    seen: Tensor  # (B, S), attention received so far


class Toy:
    """A model whose next token depends on the row and on all tokens before."""

    def __init__(self, vocabulary: int, *, kind: str = "plain", seed: int = 0) -> None:
        random = torch.Generator().manual_seed(seed)
        self.vocabulary = vocabulary
        logits = 2 * torch.randn(ROWS, vocabulary, generator=random, dtype=torch.float64)
        self.table = logits.log_softmax(dim=1)
        if kind == "ties":  # sums of quarters are exact
            self.table = -0.25 * torch.randint(1, 5, (ROWS, vocabulary), generator=random).double()
        if kind == "sparse":
            impossible = torch.rand(ROWS, vocabulary, generator=random) < 0.3
            self.table = logits.masked_fill(impossible, -torch.inf)
            self.table = (self.table - self.table.logsumexp(dim=1, keepdim=True)).nan_to_num(
                -torch.inf, neginf=-torch.inf
            )
        if kind == "float32":
            self.table = self.table.float()
        self.attention = torch.rand(ROWS, POSITIONS, generator=random, dtype=torch.float64)

    def start(self, rows: Sequence[int]) -> State:
        seen = torch.zeros(len(rows), POSITIONS, dtype=torch.float64)
        return State(torch.tensor([self.first(row) for row in rows], dtype=torch.int64), seen)

    @staticmethod
    def first(row: int) -> int:
        return 7919 * row + 13

    @staticmethod
    def follow(number: Any, token: Any) -> Any:
        return (number * 48271 + token * 31 + 7) % 2147483647

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        prefix = self.follow(state.prefix, tokens)
        return self.table[prefix % ROWS], State(prefix, state.seen + self.attention[prefix % ROWS])

    def table_row(self, row: int, prefix: Prefix, start: int) -> int:
        number = self.first(row)
        for token in (start, *prefix):
            number = self.follow(number, token)
        return int(number % ROWS)

    def values(self, row: int, prefix: Prefix, start: int = 0) -> list[float]:
        values: list[float] = self.table[self.table_row(row, prefix, start)].double().tolist()
        return values

    def seen(self, row: int, prefix: Prefix, start: int = 0) -> list[float]:
        """The attention received when the token after the prefix is predicted."""
        rows = [self.table_row(row, prefix[:length], start) for length in range(len(prefix) + 1)]
        return [math.fsum(self.attention[index][position].item() for index in rows) for position in range(POSITIONS)]


def coverage(state: State) -> Tensor:
    return state.seen


class Limits(NamedTuple):
    """The constraints of a search."""

    end: int
    length: int
    suppress: tuple[int, ...] = ()
    only: frozenset[Prefix] | None = None  # sequences without their ends

    def reason(self, prefix: Prefix, token: int) -> str:
        """Why a token may not follow; empty if it may."""
        if token in self.suppress:
            return "SUPPRESSED"
        if self.only is None:
            return ""
        longer = (*prefix, token)
        inside = (
            prefix in self.only
            if token == self.end
            else any(sequence[: len(longer)] == longer for sequence in self.only)
        )
        return "" if inside else "NOT_ALLOWED"


def divisor(beam: Beam, length: int) -> float:
    return float(
        {"none": 1.0, "length": length**beam.alpha, "gnmt": ((5 + length) / 6) ** beam.alpha}[beam.length_penalty]
    )


def score(beam: Beam, toy: Toy, row: int, *, before: Prefix, total: float) -> float:
    """The score of a hypothesis whose last token, or end, follows ``before``."""
    covered = (
        sum(math.log(min(max(seen, 1e-9), 1.0)) for seen in toy.seen(row, before)) if beam.coverage_penalty else 0.0
    )
    return total / divisor(beam, len(before) + 1) + beam.coverage_penalty * covered


def ordered(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda hypothesis: (not hypothesis.ended, -hypothesis.score))


def everything(beam: Beam, toy: Toy, row: int, limits: Limits) -> list[Hypothesis]:
    """All possible sequences, the best first."""
    hypotheses = []
    if not limits.length and limits.only is None:
        return [Hypothesis([], 0.0, 0.0, [], ended=False)]
    for length in range(1, limits.length + 1):
        for sequence in product(range(toy.vocabulary), repeat=length):
            *inside, last = sequence
            ended = last == limits.end
            if limits.end in inside or not (ended or length == limits.length):
                continue
            if (limits.only is not None and not ended) or not possible(beam, sequence, limits):
                continue
            values = [toy.values(row, sequence[:index])[token] for index, token in enumerate(sequence)]
            total = sum(values)
            if total > -math.inf:
                value = score(beam, toy, row, before=sequence[:-1], total=total)
                tokens = inside if ended else list(sequence)
                hypotheses.append(Hypothesis(list(tokens), value, total, values, ended=ended))
    return ordered(hypotheses)


def possible(beam: Beam, sequence: Prefix, limits: Limits) -> bool:
    return not any(forbidden(beam, sequence[:index], token, limits) for index, token in enumerate(sequence))


def forbidden(beam: Beam, prefix: Prefix, token: int, limits: Limits) -> str:
    if reason := limits.reason(prefix, token):
        return reason
    if token == limits.end and len(prefix) < beam.min_length:
        return "TOO_SHORT"
    grams = [
        (*prefix, token)[index : index + beam.no_repeat_ngram]
        for index in range(len(prefix) + 2 - beam.no_repeat_ngram)
    ]
    return "REPEATED" if beam.no_repeat_ngram and token != limits.end and len(set(grams)) < len(grams) else ""


class Live(NamedTuple):
    total: float
    prefix: Prefix
    values: list[float]


class Candidate(NamedTuple):
    rank: float
    total: float
    parent: int
    token: int
    value: float


Statuses = list[tuple[Prefix, int, str]]  # prefix, token, status


def beam_search(beam: Beam, toy: Toy, row: int, limits: Limits, statuses: Statuses | None = None) -> list[Hypothesis]:
    """Beam search by its definition: no batch, no arrays, no early stop."""
    if not limits.length:
        return [Hypothesis([], 0.0, 0.0, [], ended=False)] if limits.only is None else []
    hypotheses: list[Hypothesis] = []
    statuses = [] if statuses is None else statuses
    groups = [[Live(0.0, (), [])] for _ in range(beam.groups)]
    for length in range(1, limits.length + 1):
        taken: list[int] = []
        for group, live in enumerate(groups):
            listed = candidates(beam, toy, row, live=live, limits=limits, statuses=statuses)
            ranked = [
                candidate._replace(rank=candidate.total - beam.diversity * taken.count(candidate.token))
                for candidate in listed
            ]
            chosen, dropped = choose(beam, ranked)
            usual, _ = choose(beam, listed)
            for index in set(range(len(listed))) - set(chosen):
                status = "BELOW_THRESHOLD" if index in dropped else "OTHER_GROUP" if index in usual else "OUTSIDE_BEAM"
                statuses.append((live[listed[index].parent].prefix, listed[index].token, status))
            taken += [listed[index].token for index in chosen]
            following = []
            for candidate in [listed[index] for index in chosen]:
                parent = live[candidate.parent]
                values, ended = [*parent.values, candidate.value], candidate.token == limits.end
                longer = Live(candidate.total, (*parent.prefix, candidate.token), values)
                if ended or length == limits.length:
                    value = score(beam, toy, row, before=parent.prefix, total=candidate.total)
                    tokens = list(parent.prefix if ended else longer.prefix)
                    if ended or limits.only is None:
                        hypotheses.append(Hypothesis(tokens, value, candidate.total, values, ended=ended))
                else:
                    following.append(longer)
            groups[group] = following
    first = {(tuple(hypothesis.tokens), hypothesis.ended): hypothesis for hypothesis in reversed(hypotheses)}
    distinct = [
        hypothesis for hypothesis in hypotheses if hypothesis is first[tuple(hypothesis.tokens), hypothesis.ended]
    ]
    return ordered(distinct)[: beam.nbest]


def candidates(
    beam: Beam, toy: Toy, row: int, *, live: list[Live], limits: Limits, statuses: Statuses
) -> list[Candidate]:
    """The children of all live hypotheses of a group, by hypothesis, the most probable first."""
    listed = []
    for parent, (total, prefix, _) in enumerate(live):
        values = toy.values(row, prefix)
        children = []
        for token in sorted(range(toy.vocabulary), key=lambda token: (-values[token], token)):
            if values[token] == -math.inf:
                continue
            if reason := forbidden(beam, prefix, token, limits):
                statuses.append((prefix, token, reason))
                continue
            value = values[token]
            children.append(Candidate(total + value, total + value, parent, token, value))
        enough = beam.per_node if 0 < beam.per_node < beam.size else len(children)
        for child in children[enough:]:
            statuses.append((prefix, child.token, "PER_NODE"))
        listed += children[:enough]
    return listed


def choose(beam: Beam, listed: list[Candidate]) -> tuple[list[int], list[int]]:
    """The indices of the chosen candidates, the best first, and of those below the threshold."""
    order = sorted(range(len(listed)), key=lambda index: -listed[index].rank)[: beam.size // beam.groups]
    best = max((listed[index].total for index in order), default=0.0)
    far = [index for index in order if beam.threshold and listed[index].total < best - beam.threshold]
    return [index for index in order if index not in far], far
