"""Beam search against its definition in plain Python, and against brute force over all sequences."""

import math
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.decoding.reference import Limits, State, Toy, beam_search, coverage, everything
from torch import Tensor

from seqloom import state as states
from seqloom.decoding.beam import Beam
from seqloom.decoding.search import Hypothesis
from seqloom.decoding.tree import PrefixTree

START = 0


def run(
    beam: Beam, toy: Toy, limits: Sequence[Limits], *, rows: Sequence[int] | None = None, **options: Any
) -> list[list[Hypothesis]]:
    """All rows in one batch; they differ in their greatest lengths only."""
    first = limits[0]
    return beam(
        toy.step,
        toy.start(range(len(limits)) if rows is None else rows),
        torch.full((len(limits),), START),
        first.end,
        lengths=torch.tensor([one.length for one in limits]),
        never=first.never,
        tree=None if first.only is None else PrefixTree(sorted(first.only), end=first.end),
        coverage=coverage,
        **options,
    )


def same(found: list[Hypothesis], wanted: list[Hypothesis]) -> bool:
    """Tokens exactly; numbers but for the rounding of logarithms and powers."""
    assert [(one.tokens, one.ended) for one in found] == [(one.tokens, one.ended) for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-12)
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-12)
        assert one.log_probabilities == other.log_probabilities
    return True


@st.composite
def beams(draw: st.DrawFn) -> Beam:
    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    return Beam(
        size=groups * draw(st.sampled_from([1, 2, 3, 5, 20])),
        per_node=draw(st.integers(0, 3)),
        threshold=draw(st.sampled_from([0.0, 0.0, 0.6, 2.0])),
        penalty=draw(st.sampled_from(["none", "length", "gnmt"])),
        alpha=draw(st.sampled_from([0.0, 0.6, 1.0])),
        coverage=draw(st.sampled_from([0.0, 0.0, 0.3])),
        minimum=draw(st.integers(0, 3)),
        no_repeat=draw(st.integers(0, 3)),
        groups=groups,
        diversity=draw(st.sampled_from([0.0, 0.25, 1.0])),
        best=draw(st.integers(1, 4)),
    )


@st.composite
def problems(draw: st.DrawFn) -> tuple[Toy, list[Limits]]:
    symbols = draw(st.integers(2, 4))
    toy = Toy(symbols, kind=draw(st.sampled_from(["plain", "ties", "sparse", "float32"])), seed=draw(st.integers(0, 9)))
    end = draw(st.integers(0, symbols - 1))
    never = draw(st.sampled_from([(), (), (symbols - 1,), (0,)]))
    others = [symbol for symbol in range(symbols) if symbol != end]
    sequences = st.frozensets(st.lists(st.sampled_from(others), max_size=4).map(tuple), min_size=1, max_size=6)
    only = draw(st.one_of(st.none(), st.none(), sequences))
    lengths = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    return toy, [Limits(end, length, never, only) for length in lengths]


@settings(max_examples=400)
@given(beam=beams(), problem=problems())
def test_a_batch_equals_the_definition(beam: Beam, problem: tuple[Toy, list[Limits]]) -> None:
    toy, limits = problem
    for row, found in enumerate(run(beam, toy, limits)):
        assert same(found, beam_search(beam, toy, row, limits[row]))
