"""Held-out examples are the same each time the data are read, and never in the training part."""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.split import hold_out, hold_out_fold


@given(total=st.integers(0, 60), fraction=st.floats(0.01, 0.9))
def test_random_split_keeps_all_examples_in_order(total: int, fraction: float) -> None:
    train, dev = hold_out(lambda: iter(range(total)), fraction, sequential=False)
    remaining, held_out = list(train()), list(dev())
    assert sorted(remaining + held_out) == list(range(total))
    assert remaining == sorted(remaining)
    assert held_out == sorted(held_out)
    assert (list(train()), list(dev())) == (remaining, held_out)  # the same at every reading


@given(total=st.integers(0, 300), fraction=st.floats(0.01, 0.9))
def test_random_split_has_the_requested_size(total: int, fraction: float) -> None:
    _, dev = hold_out(lambda: iter(range(total)), fraction, sequential=False)
    assert abs(len(list(dev())) - total * fraction) < 1 + 1e-3  # a millionth of the fraction, for 300 examples


def test_random_split_takes_one_example_of_each_block() -> None:
    _, dev = hold_out(lambda: iter(range(10_000)), 0.1, sequential=False)
    held_out = list(dev())
    assert [number // 10 for number in held_out] == list(range(1000))
    assert min(Counter(number % 10 for number in held_out[1:]).values()) > 60  # 100 expected, deviation 9.5


@pytest.mark.parametrize("total", range(5, 12))
def test_random_split_of_few_examples_has_both_parts(total: int) -> None:
    train, dev = hold_out(lambda: iter(range(total)), 0.1, sequential=False)
    assert (len(list(train())), len(list(dev()))) in ((total - 1, 1), (total - 2, 2))


@given(total=st.integers(2, 60), fraction=st.floats(0.01, 0.9), gap=st.integers(0, 3))
def test_sequential_split_is_the_end_after_a_gap(total: int, fraction: float, gap: int) -> None:
    train, dev = hold_out(lambda: iter(range(total)), fraction, sequential=True, gap=gap)
    held_out = list(dev())
    border = total - len(held_out)
    assert held_out == list(range(border, total))
    assert len(held_out) == min(max(total - round(total * (1 - fraction)), 1), total - 1)
    assert list(train()) == list(range(max(border - gap, 0)))


@pytest.mark.parametrize("total", [0, 1])
def test_split_of_very_few_examples(total: int) -> None:
    train, dev = hold_out(lambda: iter(range(total)), 0.5, sequential=True)
    assert list(train()) == []
    assert list(dev()) == list(range(total))


def test_sequential_split_stops_reading_at_the_border() -> None:
    read_so_far: list[int] = []

    def read() -> Iterator[int]:
        for number in range(10):
            read_so_far.append(number)
            yield number

    train, _ = hold_out(read, 0.3, sequential=True)
    read_so_far.clear()
    assert list(train()) == list(range(7))
    assert max(read_so_far) == 7


def test_each_example_is_in_one_fold() -> None:
    labels = ["a"] * 20 + ["b"] * 10 + ["c"]
    examples = list(enumerate(labels))
    held_out: list[tuple[int, str]] = []
    for fold in range(1, 6):
        train, dev = hold_out_fold(
            lambda: iter(examples), fold, 5, sequential=False, stratum=lambda example: example[1]
        )
        own = list(dev())
        assert list(dev()) == own
        assert sorted([*train(), *own]) == examples
        counts = Counter(label for _, label in own)
        assert (counts["a"], counts["b"]) == (4, 2)
        held_out += own
    assert sorted(held_out) == examples


def test_sequential_folds_follow_what_they_are_trained_on() -> None:
    parts = [hold_out_fold(lambda: iter(range(20)), fold, 3, sequential=True, gap=2) for fold in (1, 2, 3)]
    assert [(list(train()), list(dev())) for train, dev in parts] == [
        (list(range(3)), list(range(5, 10))),
        (list(range(8)), list(range(10, 15))),
        (list(range(13)), list(range(15, 20))),
    ]
