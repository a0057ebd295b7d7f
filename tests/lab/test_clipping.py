"""Trainings that explode, and the verdict on made-up results."""

import math

import pytest

from seqloom.lab.clipping import CLIPPED, UNCLIPPED, Clipping, Outcome, largest, succeeded

SMALL = Clipping(hidden_size=16, length=20, updates=30, batch_size=8)


def outcomes(clipping: str, *bits: tuple[float, ...]) -> list[Outcome]:
    """The bits of each seed at two learning rates."""
    return [
        Outcome(clipping, rate, seed, value, chance=6.0, diverged=math.isinf(value), norms=(1.0, 2.0))
        for seed, values in enumerate(bits)
        for rate, value in zip((0.1, 1.0), values, strict=True)
    ]


GOOD, BAD, HALF = (3.0, 3.0), (6.0, 5.0), (3.0, math.inf)


@pytest.mark.parametrize(
    ("clipped", "unclipped", "status"),
    [
        ((GOOD, GOOD, GOOD), (HALF, HALF, HALF), "holds"),
        ((HALF, HALF, HALF), (GOOD, GOOD, GOOD), "does not hold here"),
        ((GOOD, GOOD, GOOD), (GOOD, GOOD, GOOD), "does not hold here"),
        ((GOOD, BAD, GOOD), (HALF, HALF, BAD), "not decided"),
        ((GOOD,), (BAD,), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(
    clipped: tuple[tuple[float, ...], ...], unclipped: tuple[tuple[float, ...], ...], status: str
) -> None:
    verdict = SMALL.verdict(outcomes(CLIPPED, *clipped) + outcomes(UNCLIPPED, *unclipped))
    assert verdict.status == status


def test_success_needs_three_quarters_of_uniform_guessing() -> None:
    rows = outcomes(CLIPPED, (4.4, 4.6))
    assert [succeeded(row) for row in rows] == [True, False]


def test_norms_are_the_largest_of_groups() -> None:
    assert largest([1, 5, 2, math.inf, 3], 2) == (5, 2, 3)
    assert largest([math.nan], 3) == (0,)
    assert largest([], 3) == (0,)


def test_a_network_explodes_without_clipping_only() -> None:
    (exploded,) = SMALL._measure(UNCLIPPED, 3.0, 1)
    (tamed,) = SMALL._measure(CLIPPED, 3.0, 1)
    assert exploded.diverged
    assert exploded.bits == exploded.chance
    assert not tamed.diverged
    assert tamed.bits < tamed.chance
    assert max(exploded.norms) > 10 * max(tamed.norms)
