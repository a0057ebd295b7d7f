"""Missing values of tables: counts, stretches and fills, compared with loops over the cells."""

import numpy as np
import pytest

from seqloom.data.readers.missing_values import describe_filled, hold, merge, missing_columns
from seqloom.data.readers.text_files import Location


def at(row: int) -> Location:
    return Location("x.csv", row + 2)


@pytest.mark.parametrize("seed", range(5))
def test_counts_and_fills_equal_those_of_a_loop(seed: int) -> None:
    random = np.random.default_rng(seed)
    mask = random.random((40, 3)) < 0.4
    mask[0] = False
    values = random.random((40, 3))
    filled = hold(np.where(mask, np.nan, values), mask)
    for column, name in enumerate("abc"):
        longest = count = stretch = 0
        expected = values[0, column]
        for row in range(len(mask)):
            stretch = stretch + 1 if mask[row, column] else 0
            count, longest = count + mask[row, column], max(longest, stretch)
            expected = expected if mask[row, column] else values[row, column]
            assert filled[row, column] == expected
        (found,) = [each for each in missing_columns(mask, "abc", at) if each.name == name]
        assert (found.total, found.longest) == (count, longest)
        assert found.first == at(mask[:, column].tolist().index(True))


def test_columns_of_several_tables_are_added_up() -> None:
    mask = np.array([[False, False], [True, False], [True, False], [False, True]])
    a, b = missing_columns(mask, ("a", "b"), at)
    (both, _) = merged = merge((a, b, a._replace(total=5, longest=5)))
    assert (both.total, both.longest, both.first) == (7, 5, at(1))
    assert describe_filled(merged) == (
        "8 values were missing and repeat the previous one: a 7 (at most 5 in a row, first x.csv:3), "
        "b 1 (first x.csv:5)"
    )
    assert describe_filled([b._replace(is_target=True)]) == (
        "1 value was missing and repeats the previous one: b 1 (first x.csv:5); b: the model learns and is scored on "
        "values that nobody has measured"
    )
