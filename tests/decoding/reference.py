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
    prefix: Tensor  # (B,), a number for the row and all symbols so far
    seen: Tensor  # (B, S), attention received so far


class Toy:
    """A model whose next symbol depends on the row and on all symbols before."""

    def __init__(self, symbols: int, *, kind: str = "plain", seed: int = 0) -> None:
        random = torch.Generator().manual_seed(seed)
        self.symbols = symbols
        logits = 2 * torch.randn(ROWS, symbols, generator=random, dtype=torch.float64)
        self.table = logits.log_softmax(dim=1)
        if kind == "ties":  # sums of quarters are exact
            self.table = -0.25 * torch.randint(1, 5, (ROWS, symbols), generator=random).double()
        if kind == "sparse":
            impossible = torch.rand(ROWS, symbols, generator=random) < 0.3
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
    def follow(number: Any, symbol: Any) -> Any:
        return (number * 48271 + symbol * 31 + 7) % 2147483647

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        prefix = self.follow(state.prefix, tokens)
        return self.table[prefix % ROWS], State(prefix, state.seen + self.attention[prefix % ROWS])

    def place(self, row: int, prefix: Prefix, start: int) -> int:
        number = self.first(row)
        for symbol in (start, *prefix):
            number = self.follow(number, symbol)
        return int(number % ROWS)

    def values(self, row: int, prefix: Prefix, start: int = 0) -> list[float]:
        found: list[float] = self.table[self.place(row, prefix, start)].double().tolist()
        return found

    def seen(self, row: int, prefix: Prefix, start: int = 0) -> list[float]:
        """The attention received when the symbol after the prefix is predicted."""
        places = [self.place(row, prefix[:length], start) for length in range(len(prefix) + 1)]
        return [math.fsum(self.attention[place][position].item() for place in places) for position in range(POSITIONS)]


def coverage(state: State) -> Tensor:
    return state.seen


class Limits(NamedTuple):
    """What a search may find."""

    end: int
    length: int
    never: tuple[int, ...] = ()
    only: frozenset[Prefix] | None = None  # sequences without their ends

    def allow(self, prefix: Prefix, symbol: int) -> str:
        """Why a symbol may not follow."""
        if symbol in self.never:
            return "NEVER"
        if self.only is None:
            return ""
        longer = (*prefix, symbol)
        inside = prefix in self.only if symbol == self.end else any(one[: len(longer)] == longer for one in self.only)
        return "" if inside else "TREE"


def divisor(beam: Beam, length: int) -> float:
    return float(
        {"none": 1.0, "length": length**beam.alpha, "gnmt": ((5 + length) / 6) ** beam.alpha}[beam.length_penalty]
    )


def score(beam: Beam, toy: Toy, row: int, *, before: Prefix, total: float) -> float:
    """Of a hypothesis whose last symbol, or end, came after ``before``."""
    covered = (
        sum(math.log(min(max(seen, 1e-9), 1.0)) for seen in toy.seen(row, before)) if beam.coverage_penalty else 0.0
    )
    return total / divisor(beam, len(before) + 1) + beam.coverage_penalty * covered


def ordered(found: list[Hypothesis]) -> list[Hypothesis]:
    return sorted(found, key=lambda one: (not one.ended, -one.score))


def everything(beam: Beam, toy: Toy, row: int, limits: Limits) -> list[Hypothesis]:
    """All sequences that are possible, the best first."""
    found = []
    if not limits.length and limits.only is None:
        return [Hypothesis([], 0.0, 0.0, [], ended=False)]
    for length in range(1, limits.length + 1):
        for sequence in product(range(toy.symbols), repeat=length):
            *inside, last = sequence
            ended = last == limits.end
            if limits.end in inside or not (ended or length == limits.length):
                continue
            if (limits.only is not None and not ended) or not possible(beam, sequence, limits):
                continue
            values = [toy.values(row, sequence[:place])[symbol] for place, symbol in enumerate(sequence)]
            total = sum(values)
            if total > -math.inf:
                value = score(beam, toy, row, before=sequence[:-1], total=total)
                tokens = inside if ended else list(sequence)
                found.append(Hypothesis(list(tokens), value, total, values, ended=ended))
    return ordered(found)


def possible(beam: Beam, sequence: Prefix, limits: Limits) -> bool:
    return not any(forbidden(beam, sequence[:place], symbol, limits) for place, symbol in enumerate(sequence))


def forbidden(beam: Beam, prefix: Prefix, symbol: int, limits: Limits) -> str:
    if reason := limits.allow(prefix, symbol):
        return reason
    if symbol == limits.end and len(prefix) < beam.min_length:
        return "SHORT"
    grams = [
        (*prefix, symbol)[place : place + beam.no_repeat_ngram]
        for place in range(len(prefix) + 2 - beam.no_repeat_ngram)
    ]
    return "REPEATED" if beam.no_repeat_ngram and symbol != limits.end and len(set(grams)) < len(grams) else ""


class Live(NamedTuple):
    total: float
    prefix: Prefix
    values: list[float]


class Candidate(NamedTuple):
    rank: float
    total: float
    parent: int
    symbol: int
    value: float


Fates = list[tuple[Prefix, int, str]]  # prefix, symbol, fate


def beam_search(beam: Beam, toy: Toy, row: int, limits: Limits, fates: Fates | None = None) -> list[Hypothesis]:
    """The definition: no batch, no arrays, no early stop."""
    if not limits.length:
        return [Hypothesis([], 0.0, 0.0, [], ended=False)] if limits.only is None else []
    found: list[Hypothesis] = []
    fates = [] if fates is None else fates
    groups = [[Live(0.0, (), [])] for _ in range(beam.groups)]
    for length in range(1, limits.length + 1):
        taken: list[int] = []
        for group, live in enumerate(groups):
            listed = candidates(beam, toy, row, live=live, limits=limits, fates=fates)
            ranked = [one._replace(rank=one.total - beam.diversity * taken.count(one.symbol)) for one in listed]
            chosen, dropped = choose(beam, ranked)
            usual, _ = choose(beam, listed)
            for place in set(range(len(listed))) - set(chosen):
                fate = "THRESHOLD" if place in dropped else "GROUP" if place in usual else "BEAM"
                fates.append((live[listed[place].parent].prefix, listed[place].symbol, fate))
            taken += [listed[place].symbol for place in chosen]
            following = []
            for one in [listed[place] for place in chosen]:
                parent = live[one.parent]
                values, ended = [*parent.values, one.value], one.symbol == limits.end
                longer = Live(one.total, (*parent.prefix, one.symbol), values)
                if ended or length == limits.length:
                    value = score(beam, toy, row, before=parent.prefix, total=one.total)
                    tokens = list(parent.prefix if ended else longer.prefix)
                    if ended or limits.only is None:
                        found.append(Hypothesis(tokens, value, one.total, values, ended=ended))
                else:
                    following.append(longer)
            groups[group] = following
    different = {(tuple(one.tokens), one.ended): one for one in reversed(found)}  # the first of each
    return ordered([one for one in found if one is different[tuple(one.tokens), one.ended]])[: beam.nbest]


def candidates(beam: Beam, toy: Toy, row: int, *, live: list[Live], limits: Limits, fates: Fates) -> list[Candidate]:
    """The children of all live hypotheses of a group, hypothesis by hypothesis, the most probable first."""
    found = []
    for parent, (total, prefix, _) in enumerate(live):
        values = toy.values(row, prefix)
        children = []
        for symbol in sorted(range(toy.symbols), key=lambda symbol: (-values[symbol], symbol)):
            if values[symbol] == -math.inf:
                continue
            if reason := forbidden(beam, prefix, symbol, limits):
                fates.append((prefix, symbol, reason))
                continue
            value = values[symbol]
            children.append(Candidate(total + value, total + value, parent, symbol, value))
        enough = beam.per_node if 0 < beam.per_node < beam.size else len(children)
        for child in children[enough:]:
            fates.append((prefix, child.symbol, "PER_NODE"))
        found += children[:enough]
    return found


def choose(beam: Beam, listed: list[Candidate]) -> tuple[list[int], list[int]]:
    """The places of those that are chosen, the best first, and of those that are too far below the best."""
    order = sorted(range(len(listed)), key=lambda place: -listed[place].rank)[: beam.size // beam.groups]
    best = max((listed[place].total for place in order), default=0.0)
    far = [place for place in order if beam.threshold and listed[place].total < best - beam.threshold]
    return [place for place in order if place not in far], far
