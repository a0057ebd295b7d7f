"""The largest values of rows against Python's sort, and what is not allowed."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.decoding.tokens.constraints import FEW, ConstrainedTopK, Rules, top
from seqloom.decoding.tokens.prefix_tree import PrefixTree


@given(
    rows=st.lists(
        st.lists(st.sampled_from([-math.inf, -3.0, -1.0, -0.5, 0.0]), min_size=40, max_size=40), min_size=1, max_size=3
    ),
    count=st.sampled_from([1, 2, 5, FEW, FEW + 1, 30, 40, 99]),
)
def test_the_largest_come_first_and_of_equal_ones_the_lowest(rows: list[list[float]], count: int) -> None:
    values, columns = top(np.asarray(rows), count)
    for row, found, places in zip(rows, values.tolist(), columns.tolist(), strict=True):
        wanted = sorted(range(len(row)), key=lambda column: (-row[column], column))[:count]
        assert found == [row[column] for column in wanted]
        possible = sum(value > -math.inf for value in found)
        assert places[:possible] == wanted[:possible]


@pytest.mark.parametrize("count", [3, FEW + 1])
def test_what_is_not_a_number_is_seen(count: int) -> None:
    row = np.full((1, 40), -1.0)
    row[0, 7] = math.nan
    assert math.isnan(top(row, count)[0][0, 0])


def test_the_scores_of_the_step_are_left_alone() -> None:
    scores = torch.zeros(2, 4)
    allowed = ConstrainedTopK(1, never=(0, 2), tree=None)
    values, labels = allowed(scores, Rules(np.zeros(2, np.int64), short=True, banned=(np.array([1]), np.array([3]))))
    assert labels is None
    assert values.tolist() == [[-math.inf] * 3 + [0.0], [-math.inf] * 4]
    top(values, 4)
    assert scores.tolist() == [[0.0] * 4] * 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_every_precision_will_do(dtype: torch.dtype) -> None:
    values, _ = ConstrainedTopK(0, never=(), tree=None)(
        torch.tensor([[-0.5, -1.5]], dtype=dtype), Rules(np.zeros(1, np.int64))
    )
    assert values.tolist() == [[-0.5, -1.5]]


@pytest.mark.parametrize(
    ("end", "never", "tree"),
    [(4, (), None), (-1, (), None), (0, (4,), None), (0, (-1,), None), (0, (), PrefixTree([[1, 4]], end=0))],
)
def test_symbols_that_the_step_does_not_have_are_refused(end: int, never: tuple[int, ...], tree: PrefixTree) -> None:
    with pytest.raises(ValueError, match="wanted symbols from 0 to 3, as the step has"):
        ConstrainedTopK(end, never=never, tree=tree)(torch.zeros(1, 4), Rules(np.zeros(1, np.int64)))


def test_a_tree_has_the_same_end() -> None:
    with pytest.raises(ValueError, match="the end symbol of the prefix tree is 0, that of the search 1"):
        ConstrainedTopK(1, never=(), tree=PrefixTree([[2]], end=0))


@pytest.mark.parametrize("shape", [(1, 4), (2, 1, 4), (4,)])
def test_the_step_gives_a_row_for_each(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"the step gave the shape .*, wanted \(2, symbols\)"):
        ConstrainedTopK(1, never=(), tree=None)(torch.zeros(shape), Rules(np.zeros(2, np.int64)))
