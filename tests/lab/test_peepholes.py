"""Spikes of the timing tasks, and the verdict on made-up results."""

import pytest
import torch

from seqloom.lab.network import IGNORED
from seqloom.lab.peepholes import DISTANCES, PERIODS, TASKS, Outcome, Peepholes, gain, spikes


def outcomes(cell: str, *accuracies: float) -> list[Outcome]:
    return [Outcome(cell, task, 10, seed, value) for seed, value in enumerate(accuracies) for task in TASKS]


@pytest.mark.parametrize(
    ("peephole", "status"),
    [
        ((0.9, 0.92, 0.91), "holds"),
        ((0.8, 0.82, 0.81), "does not hold here"),
        ((0.81, 0.83, 0.82), "does not hold here"),  # one point is not enough
        ((0.6, 0.99, 0.9), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(peephole: tuple[float, ...], status: str) -> None:
    rows = outcomes("lstm", 0.8, 0.82, 0.81) + outcomes("peephole", *peephole)
    assert Peepholes().verdict(rows).status == status


def test_the_gain_is_paired_by_seed() -> None:
    rows = outcomes("lstm", 0.1, 0.9) + outcomes("peephole", 0.2, 1.0)
    assert gain(rows).value == pytest.approx(0.1)
    assert gain(rows).high - gain(rows).low == pytest.approx(0)


def test_the_distance_of_two_spikes_is_to_be_measured() -> None:
    batch = spikes("measure", 6, 50, torch.Generator().manual_seed(1))
    tokens = batch.inputs.values.argmax(-1)
    assert torch.equal(tokens.sum(-1), torch.full((50,), 2))
    seen = set()
    for row, target in zip(tokens, batch.target, strict=True):
        first, second = row.nonzero().squeeze(1).tolist()
        (step,) = (target != IGNORED).nonzero().squeeze(1).tolist()
        assert (first, second) == (0, step)
        assert target[step] == second - 6
        seen.add(second)
    assert seen == set(range(6, 6 + DISTANCES))


def test_spikes_are_to_be_generated_after_the_first() -> None:
    batch = spikes("generate", 5, 50, torch.Generator())
    assert batch.inputs.values.argmax(-1).nonzero().tolist() == [[0, 0]]
    (target,) = batch.target.tolist()
    assert [step for step, value in enumerate(target) if value == 1] == [5 * period for period in range(1, PERIODS + 1)]
    assert target.count(0) == 2 * PERIODS
    assert all(target[step - 1] == target[step + 1] == 0 for step in (5, 10))
