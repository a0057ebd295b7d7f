"""What is held out is not learnt from, at any reading."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.split import hold_out


@given(total=st.integers(0, 60), share=st.floats(0.01, 0.9), seed=st.integers(0, 5))
def test_a_random_share_and_the_rest_are_all_in_their_order(total: int, share: float, seed: int) -> None:
    train, dev = hold_out(lambda: iter(range(total)), share, seed=seed, sequential=False)
    stays, held = list(train()), list(dev())
    assert sorted(stays + held) == list(range(total))
    assert stays == sorted(stays)
    assert held == sorted(held)
    assert (list(train()), list(dev())) == (stays, held)  # the same at every reading


def test_a_random_share_is_about_as_large_as_asked_for_and_differs_by_seed() -> None:
    found = [list(hold_out(lambda: iter(range(10_000)), 0.1, seed=seed, sequential=False)[1]()) for seed in (1, 2)]
    assert all(900 < len(held) < 1100 for held in found)  # three deviations of 30, and some
    assert found[0] != found[1]


@given(total=st.integers(2, 60), share=st.floats(0.01, 0.9), gap=st.integers(0, 3))
def test_a_sequential_share_is_the_end_with_a_gap_before_it(total: int, share: float, gap: int) -> None:
    train, dev = hold_out(lambda: iter(range(total)), share, seed=1, sequential=True, gap=gap)
    held = list(dev())
    border = total - len(held)
    assert held == list(range(border, total))
    assert len(held) == min(max(total - round(total * (1 - share)), 1), total - 1)
    assert list(train()) == list(range(max(border - gap, 0)))


@pytest.mark.parametrize("total", [0, 1])
def test_too_little_to_share_is_held_out_or_nothing(total: int) -> None:
    train, dev = hold_out(lambda: iter(range(total)), 0.5, seed=1, sequential=True)
    assert list(train()) == []
    assert list(dev()) == list(range(total))


def test_nothing_is_read_beyond_the_border() -> None:
    seen: list[int] = []

    def read() -> Iterator[int]:
        for number in range(10):
            seen.append(number)
            yield number

    train, _ = hold_out(read, 0.3, seed=1, sequential=True)
    seen.clear()
    assert list(train()) == list(range(7))
    assert max(seen) == 7
