"""The largest values of rows against Python's sort, constraints on tokens, and invalid arguments."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.decoding.tokens.constraints import MAX_ARGMAX, ConstrainedTopK, StepRules, top
from seqloom.decoding.tokens.prefix_tree import PrefixTree


@given(
    rows=st.lists(
        st.lists(st.sampled_from([-math.inf, -3.0, -1.0, -0.5, 0.0]), min_size=40, max_size=40), min_size=1, max_size=3
    ),
    count=st.sampled_from([1, 2, 5, MAX_ARGMAX, MAX_ARGMAX + 1, 30, 40, 99]),
)
def test_the_largest_values_and_the_lowest_column_of_ties(rows: list[list[float]], count: int) -> None:
    values, columns = top(np.asarray(rows), count)
    for row, top_values, top_columns in zip(rows, values.tolist(), columns.tolist(), strict=True):
        expected = sorted(range(len(row)), key=lambda column: (-row[column], column))[:count]
        assert top_values == [row[column] for column in expected]
        possible = sum(value > -math.inf for value in top_values)
        assert top_columns[:possible] == expected[:possible]


@pytest.mark.parametrize("count", [3, MAX_ARGMAX + 1])
def test_nan_counts_as_the_largest(count: int) -> None:
    row = np.full((1, 40), -1.0)
    row[0, 7] = math.nan
    assert math.isnan(top(row, count)[0][0, 0])


def test_the_scores_of_the_step_are_not_modified() -> None:
    scores = torch.zeros(2, 4)
    constraints = ConstrainedTopK(1, suppress=(0, 2), tree=None)
    values, labels = constraints(
        scores, StepRules(np.zeros(2, np.int64), suppress_end=True, banned=(np.array([1]), np.array([3])))
    )
    assert labels is None
    assert values.tolist() == [[-math.inf] * 3 + [0.0], [-math.inf] * 4]
    top(values, 4)
    assert scores.tolist() == [[0.0] * 4] * 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_every_precision(dtype: torch.dtype) -> None:
    values, _ = ConstrainedTopK(0, suppress=(), tree=None)(
        torch.tensor([[-0.5, -1.5]], dtype=dtype), StepRules(np.zeros(1, np.int64))
    )
    assert values.tolist() == [[-0.5, -1.5]]


@pytest.mark.parametrize(
    ("end", "suppress", "tree"),
    [(4, (), None), (-1, (), None), (0, (4,), None), (0, (-1,), None), (0, (), PrefixTree([[1, 4]], end=0))],
)
def test_tokens_outside_the_vocabulary_are_rejected(end: int, suppress: tuple[int, ...], tree: PrefixTree) -> None:
    with pytest.raises(ValueError, match="expected token ids from 0 to 3, as the step returns them"):
        ConstrainedTopK(end, suppress=suppress, tree=tree)(torch.zeros(1, 4), StepRules(np.zeros(1, np.int64)))


def test_the_tree_needs_the_same_end_token() -> None:
    with pytest.raises(ValueError, match="the prefix tree has the end token 0, but the search has 1"):
        ConstrainedTopK(1, suppress=(), tree=PrefixTree([[2]], end=0))


@pytest.mark.parametrize("shape", [(1, 4), (2, 1, 4), (4,)])
def test_the_step_must_return_one_row_per_hypothesis(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"the step returned shape .*, expected \(2, vocabulary size\)"):
        ConstrainedTopK(1, suppress=(), tree=None)(torch.zeros(shape), StepRules(np.zeros(2, np.int64)))
