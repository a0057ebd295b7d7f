"""Each schedule against its formula."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.training.config import TrainConfig
from seqloom.training.schedules import NEED_TOTAL_UPDATES, SCHEDULES, ScheduleOptions, SchedulePoint, factor


def at(update: int, *, updates: int = 100, epoch: float = 0.0, scores: tuple[float, ...] = ()) -> SchedulePoint:
    return SchedulePoint(update, updates, epoch, scores)


def test_constant() -> None:
    assert [factor("constant", at(update), ScheduleOptions()) for update in (0, 50, 99)] == [1, 1, 1]


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_warm_up_is_linear_and_ends_at_the_peak(name: str) -> None:
    options = ScheduleOptions(warmup=10, decay=0.1, decay_after_epochs=1)
    result = [factor(name, at(update), options) for update in range(10)]
    assert result == pytest.approx([(update + 1) / 10 for update in range(10)])


@given(update=st.integers(0, 120), warmup=st.integers(0, 40), decay=st.floats(0, 1))
def test_cosine_and_linear(update: int, warmup: int, decay: float) -> None:
    options = ScheduleOptions(warmup=warmup, decay=decay)
    rise = min((update + 1) / warmup, 1) if warmup else 1
    done = min(max((update - warmup) / (100 - warmup), 0), 1)
    cosine = decay + (1 - decay) * 0.5 * (1 + math.cos(math.pi * done))
    assert factor("cosine", at(update), options) == pytest.approx(rise * cosine)
    assert factor("linear", at(update), options) == pytest.approx(rise * (decay * done + (1 - done)))


def test_the_ends_of_cosine_and_linear() -> None:
    for name in NEED_TOTAL_UPDATES:
        assert factor(name, at(0), ScheduleOptions(decay=0.1)) == 1
        assert factor(name, at(100), ScheduleOptions(decay=0.1)) == pytest.approx(0.1)
        assert factor(name, at(50), ScheduleOptions(decay=0.0)) == pytest.approx(0.5)
        assert (
            factor(name, at(3, updates=3), ScheduleOptions(warmup=7, decay=0.0)) <= 1
        )  # a warm-up longer than the training


@pytest.mark.parametrize("name", sorted(NEED_TOTAL_UPDATES))
def test_the_learning_rate_does_not_decay_while_the_total_is_unknown(name: str) -> None:
    assert factor(name, at(7, updates=0), ScheduleOptions(decay=0.1)) == 1
    assert factor(name, at(7, updates=0), ScheduleOptions(warmup=16, decay=0.1)) == 0.5


@given(update=st.integers(0, 10_000), warmup=st.integers(1, 500))
def test_inverse_root(update: int, warmup: int) -> None:
    # Vaswani et al. 2017, equation 3, with steps from 1 in the warm-up, in units of its highest value.
    expected = (update + 1) / warmup if update < warmup else math.sqrt(warmup / update)
    assert factor("inverse_root", at(update), ScheduleOptions(warmup=warmup)) == pytest.approx(expected)


def test_step_decay_of_zaremba() -> None:
    options = ScheduleOptions(decay=0.5, decay_after_epochs=4)  # the small model: four epochs, then halved in each
    result = [factor("step", at(0, epoch=epoch), options) for epoch in (0, 0.9, 3.99, 4, 4.5, 5, 6.01)]
    assert result == [1, 1, 1, 0.5, 0.5, 0.25, 0.125]


@pytest.mark.parametrize("name", SCHEDULES)
def test_default_options_start_at_the_peak(name: str) -> None:
    chosen = TrainConfig()
    options = ScheduleOptions(chosen.warmup, chosen.decay, chosen.decay_after_epochs, chosen.plateau_patience)
    assert factor(name, at(0), options) == 1


@pytest.mark.parametrize(
    ("scores", "wait", "expected"),
    [
        ((), 1, 1),
        ((1.0, 2.0, 3.0), 1, 1),
        ((1.0, 1.0), 1, 0.5),
        ((3.0, 2.0, 1.0), 1, 0.25),
        ((3.0, 2.0, 1.0), 2, 0.5),
        ((3.0, 2.0, 4.0, 1.0), 2, 1),
        ((3.0, 2.0, 1.0, 2.5, 2.5), 2, 0.25),
        ((-math.inf, -5.0, -math.inf), 1, 0.25),  # an evaluation that failed is no better one
    ],
)
def test_plateau(scores: tuple[float, ...], wait: int, expected: float) -> None:
    assert factor("plateau", at(7, scores=scores), ScheduleOptions(decay=0.5, plateau_patience=wait)) == expected
