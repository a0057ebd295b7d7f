"""Beam search against a reference in plain Python, and against brute force over all sequences."""

import math
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.decoding.tokens.reference import Limits, State, Toy, beam_search, coverage, everything
from torch import Tensor

from seqloom import state as states
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.search import Hypothesis

START = 0


def run(
    beam: Beam, toy: Toy, limits: Sequence[Limits], *, rows: Sequence[int] | None = None, **options: Any
) -> list[list[Hypothesis]]:
    """All rows in one batch; they differ only in their maximum lengths."""
    first = limits[0]
    return beam(
        toy.step,
        toy.start(range(len(limits)) if rows is None else rows),
        torch.full((len(limits),), START),
        first.end,
        lengths=torch.tensor([limit.length for limit in limits]),
        suppress=first.suppress,
        tree=None if first.only is None else PrefixTree(sorted(first.only), end=first.end),
        coverage=coverage,
        **options,
    )


def check_hypotheses(actual: list[Hypothesis], expected: list[Hypothesis]) -> None:
    """Tokens exactly; scores up to the rounding of logarithms and powers."""
    assert [(left.tokens, left.ended) for left in actual] == [(right.tokens, right.ended) for right in expected]
    for left, right in zip(actual, expected, strict=True):
        assert left.score == pytest.approx(right.score, abs=1e-12)
        assert left.log_probability == pytest.approx(right.log_probability, abs=1e-12)
        assert left.log_probabilities == right.log_probabilities


@st.composite
def beams(draw: st.DrawFn) -> Beam:
    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    return Beam(
        size=groups * draw(st.sampled_from([1, 2, 3, 5, 20])),
        per_node=draw(st.integers(0, 3)),
        threshold=draw(st.sampled_from([0.0, 0.0, 0.6, 2.0])),
        length_penalty=draw(st.sampled_from(["none", "length", "gnmt"])),
        alpha=draw(st.sampled_from([0.0, 0.6, 1.0])),
        coverage_penalty=draw(st.sampled_from([0.0, 0.0, 0.3])),
        min_length=draw(st.integers(0, 3)),
        no_repeat_ngram=draw(st.integers(0, 3)),
        groups=groups,
        diversity=draw(st.sampled_from([0.0, 0.25, 1.0])),
        nbest=draw(st.integers(1, 4)),
    )


@st.composite
def problems(draw: st.DrawFn) -> tuple[Toy, list[Limits]]:
    vocabulary = draw(st.integers(2, 4))
    toy = Toy(
        vocabulary, kind=draw(st.sampled_from(["plain", "ties", "sparse", "float32"])), seed=draw(st.integers(0, 9))
    )
    end = draw(st.integers(0, vocabulary - 1))
    suppress = draw(st.sampled_from([(), (), (vocabulary - 1,), (0,)]))
    others = [token for token in range(vocabulary) if token != end]
    sequences = st.frozensets(st.lists(st.sampled_from(others), max_size=4).map(tuple), min_size=1, max_size=6)
    only = draw(st.one_of(st.none(), st.none(), sequences))
    lengths = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    return toy, [Limits(end, length, suppress, only) for length in lengths]


@settings(max_examples=250)
@given(beam=beams(), problem=problems())
def test_a_batch_matches_the_reference(beam: Beam, problem: tuple[Toy, list[Limits]]) -> None:
    toy, limits = problem
    for row, actual in enumerate(run(beam, toy, limits)):
        check_hypotheses(actual, beam_search(beam, toy, row, limits[row]))


PENALTIES: list[dict[str, Any]] = [
    {},
    {"length_penalty": "length", "alpha": 1.0},
    {"length_penalty": "gnmt", "alpha": 0.6},
    {"coverage_penalty": 0.4},
    {"length_penalty": "length", "alpha": 0.8, "coverage_penalty": 0.2, "min_length": 2, "no_repeat_ngram": 2},
]


@pytest.mark.parametrize("options", PENALTIES, ids=str)
@pytest.mark.parametrize("kind", ["plain", "sparse"])
def test_full_width_is_exhaustive_search(options: dict[str, Any], kind: str) -> None:
    toy, limits = Toy(3, kind=kind, seed=4), [Limits(2, length) for length in (5, 1, 3)]
    beam = Beam(size=3**5, nbest=6, **options)
    for row, actual in enumerate(run(beam, toy, limits)):
        check_hypotheses(actual, everything(beam, toy, row, limits[row])[:6])


@given(beam=beams(), problem=problems())
def test_nothing_is_better_than_brute_force(beam: Beam, problem: tuple[Toy, list[Limits]]) -> None:
    toy, limits = problem
    for row, actual in enumerate(run(beam, toy, limits)):
        expected = everything(beam, toy, row, limits[row])
        every = [hypothesis.tokens for hypothesis in expected]
        indices = [every.index(hypothesis.tokens) for hypothesis in actual]  # each of them exists
        check_hypotheses(actual, [expected[index] for index in indices])
        key = [(not hypothesis.ended, -hypothesis.score) for hypothesis in actual]
        assert key == sorted(key)
        assert all(index >= rank or expected[index].score == expected[rank].score for rank, index in enumerate(indices))


def test_a_wider_beam_finds_more() -> None:
    toy, limits = Toy(4, seed=1), [Limits(3, 6)] * 40
    totals = [
        sum(hypothesis.score for (hypothesis,) in run(Beam(size=size, length_penalty="none"), toy, limits))
        for size in (1, 2, 4, 16, 1024)
    ]
    assert totals == sorted(totals)
    assert totals[0] < totals[1] < totals[-1]


class CountingStep:
    """A step that counts the rows of each call."""

    def __init__(self, toy: Toy) -> None:
        self.toy = toy
        self.rows: list[int] = []

    def __call__(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        self.rows.append(len(tokens))
        assert len(tokens) == len(state.prefix)
        return self.toy.step(tokens, state)


def test_finished_sentences_leave_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[int] = []
    select = states.select

    def counting_select(state: Any, rows: Tensor) -> Any:
        moves.extend([len(rows)] if isinstance(state, State) else [])
        return select(state, rows)

    monkeypatch.setattr(states, "select", counting_select)
    toy = Toy(4, seed=2)
    step = CountingStep(toy)
    lengths = torch.tensor([3, 0, 9, 6])
    Beam(size=3, min_length=8)(step, toy.start(range(4)), torch.zeros(4, dtype=torch.int64), 3, lengths=lengths)
    assert step.rows == [3] + [9] * 2 + [6] * 3 + [3] * 3  # the first step needs one row of each sentence
    assert moves == step.rows  # each step moves the state once


def test_a_shared_table_stays_in_order() -> None:
    """Its rows leave with their sentences, those that end at the first step included, so that it is read in blocks."""
    toy, times = Toy(4, seed=2), []

    def step(tokens: Tensor, state: tuple[State, states.Shared]) -> tuple[Tensor, Any]:
        times.append(state[1].times)
        scores, inner = toy.step(tokens, state[0])
        return scores, (inner, state[1])

    shared = states.Shared(torch.arange(4), torch.arange(4))
    lengths = torch.tensor([1, 5, 3, 0])
    Beam(size=3, min_length=9)(step, (toy.start(range(4)), shared), torch.zeros(4).long(), 3, lengths=lengths)
    assert times == [1, 3, 3, 3, 3]


def test_a_beam_of_one_moves_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "select", None)
    toy = Toy(4, seed=2)
    rows = Beam(size=1, min_length=9)(toy.step, toy.start([0, 1]), torch.zeros(2, dtype=torch.int64), 3, lengths=7)
    assert [len(hypothesis.tokens) for (hypothesis,) in rows] == [7, 7]


def likely(tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """First 1 or 2, then the end (0) with one half."""
    first, later = torch.tensor([0.0, 0.7, 0.3]), torch.tensor([0.5, 0.45, 0.05])
    return torch.where(state > 0, later, first).double().log(), state + 1


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"length_penalty": "none"}, 2),  # 0.7 · 0.5 has ended, 0.7 · 0.45 is alive
        ({"length_penalty": "none", "nbest": 2}, 3),  # 0.7 · 0.45 · 0.5 has ended, too
        ({"length_penalty": "length"}, 14),  # log(0.7 · 0.45^13) / 20, at most, is less than log(0.7 · 0.5) / 2
        ({"length_penalty": "length", "patience": 0.5}, 2),
        ({"length_penalty": "length", "threshold": 0.1}, 2),  # 0.45 is too far below 0.5
    ],
    ids=str,
)
def test_the_search_stops_when_the_nbest_are_final(options: dict[str, Any], steps: int) -> None:
    seen = []

    def step(tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        seen.append(len(tokens))
        return likely(tokens, state)

    beam = Beam(size=2, **options)
    (hypotheses,) = beam(step, torch.zeros(1, 1), torch.tensor([1]), 0, lengths=20)
    assert hypotheses[0].tokens == [1]
    assert hypotheses[0].log_probability == pytest.approx(math.log(0.7 * 0.5))
    assert len(seen) == steps


def test_patience_only_stops_earlier() -> None:
    toy, limits = Toy(4, seed=3), [Limits(3, 8)] * 30
    patient = run(Beam(size=4, length_penalty="length"), toy, limits)
    hasty = run(Beam(size=4, length_penalty="length", patience=0.25), toy, limits)  # the first that ends
    endless = run(Beam(size=4, length_penalty="length", patience=1e9), toy, limits)
    assert patient == endless
    assert all(best.score >= early.score for (best,), (early,) in zip(patient, hasty, strict=True))
    assert patient != hasty


def test_groups_differ_and_duplicates_count_once() -> None:
    toy, limits = Toy(6, seed=3), [Limits(5, 6)]
    alike, diverse = (
        run(Beam(size=3, groups=3, diversity=diversity, nbest=3), toy, limits)[0] for diversity in (0.0, 9.0)
    )
    assert len(alike) == 1  # three greedy searches
    assert alike == run(Beam(size=1), toy, limits)[0]
    assert len({hypothesis.tokens[0] if hypothesis.tokens else 5 for hypothesis in diverse}) == 3
    assert alike[0] in diverse


def test_memory_is_linear_in_the_width() -> None:
    toy, vocabulary, length = Toy(50, seed=3), 50, 40
    peaks = []
    for size in (64, 128, 256):
        tracemalloc.start()
        run(Beam(size=size, min_length=length), toy, [Limits(vocabulary - 1, length)])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 2.2 * peaks[1] < 2.2**2 * peaks[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "greater than or equal to 1"),
        ({"size": 5, "groups": 2}, "size must be a multiple of groups, found size = 5 and groups = 2"),
        ({"length_penalty": "short"}, "none"),
        ({"threshold": -1.0}, "greater than or equal to 0"),
        ({"alpha": math.inf}, "less than or equal to 10"),
        ({"threshold": math.nan}, "greater than or equal to 0"),
    ],
    ids=str,
)
def test_invalid_settings_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Beam.model_validate(options)


@pytest.mark.parametrize("attention", [None, lambda _: None], ids=["missing", "none"])
def test_coverage_needs_attention(attention: Any) -> None:
    toy = Toy(3)
    with pytest.raises(ValueError, match=r"coverage_penalty is 0\.5, but the model has no attention: set it to 0"):
        Beam(coverage_penalty=0.5)(toy.step, toy.start([0]), torch.zeros(1).long(), 1, lengths=3, coverage=attention)


def test_empty_slots_may_hold_nan() -> None:
    def step(tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """NaN after the end token (0), which only empty slots continue."""
        return torch.where((tokens == 0).unsqueeze(1), torch.nan, torch.tensor([0.5, 0.3, 0.2]).log()), state

    (hypotheses,) = Beam(size=4, nbest=4, length_penalty="length")(
        step, torch.zeros(1), torch.tensor([1]), 0, lengths=4
    )
    assert [hypothesis.tokens for hypothesis in hypotheses] == [[], [1], [1, 1], [1, 1, 1]]
    assert all(math.isfinite(hypothesis.score) for hypothesis in hypotheses)
