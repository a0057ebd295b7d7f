"""Greedy search against a loop over prefixes."""

import math

import pytest
import torch
from hypothesis import given
from tests.decoding.tokens.reference import Limits, Toy
from tests.decoding.tokens.test_beam import problems

from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.search import Hypothesis


def follow(toy: Toy, row: int, limits: Limits) -> list[Hypothesis]:
    """The most probable allowed token; ties go to the lowest id."""
    prefix: list[int] = []
    log_probs: list[float] = []
    for _ in range(limits.length):
        values = toy.values(row, tuple(prefix))
        possible = [token for token in range(toy.vocabulary) if not limits.reason(tuple(prefix), token)]
        possible = [token for token in possible if values[token] > -math.inf]
        if not possible:
            return []
        token = max(possible, key=lambda token: values[token])
        log_probs.append(values[token])
        if token == limits.end:
            return [Hypothesis(prefix, sum(log_probs), sum(log_probs), log_probs, ended=True)]
        prefix.append(token)
    return [Hypothesis(prefix, sum(log_probs), sum(log_probs), log_probs, ended=False)] if limits.only is None else []


@given(problem=problems())
def test_the_most_probable_token_at_each_step(problem: tuple[Toy, list[Limits]]) -> None:
    toy, limits = problem
    first = limits[0]
    tree = None if first.only is None else PrefixTree(sorted(first.only), end=first.end)
    lengths = torch.tensor([limit.length for limit in limits])
    for search in (Greedy(), Beam(size=1, length_penalty="none")):
        hypotheses = search(
            toy.step,
            toy.start(range(len(limits))),
            torch.zeros(len(limits)).long(),
            first.end,
            lengths=lengths,
            suppress=first.suppress,
            tree=tree,
        )
        assert hypotheses == [follow(toy, row, limit) for row, limit in enumerate(limits)]


def test_finished_rows_leave_the_batch() -> None:
    toy, rows = Toy(4, seed=5), []

    def step(tokens: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows.append(len(tokens))
        assert len(state) == len(tokens)
        return toy.table[: len(tokens)], state

    Greedy()(step, torch.zeros(3, 2), torch.zeros(3).long(), 3, lengths=torch.tensor([20, 0, 40]), suppress=(3,))
    assert rows == [2] * 20 + [1] * 20  # longer than the first arrays, too


def test_greedy_has_no_options() -> None:
    with pytest.raises(ValueError, match="extra"):
        Greedy.model_validate({"size": 2})
