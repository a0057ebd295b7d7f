"""Pooling: the verdict on made-up accuracies, and the classes of the generated sequences."""

from collections import Counter

import pytest
import torch

from seqloom.lab.pooling import ORDER, Pooling, Score, accuracies


def rows(**accuracies: tuple[float, ...]) -> list[Score]:
    return [
        Score(pooling, "find", length, seed, value)
        for pooling, values in accuracies.items()
        for seed, value in enumerate(values)
        for length in (10, 20)
    ]


@pytest.mark.parametrize(
    ("maximum", "status"),
    [
        ((0.8, 0.79, 0.81), "holds"),
        ((0.6, 0.59, 0.61), "does not hold here"),  # worse than the mean
        ((0.6, 0.95, 0.75), "not decided"),
        ((0.8,), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(maximum: tuple[float, ...], status: str) -> None:
    known = {"last": (0.5, 0.51, 0.49), "mean": (0.7, 0.69, 0.71), "attention": (0.9, 0.91, 0.92)}
    seeds = len(maximum)
    measured = {**{name: values[:seeds] for name, values in known.items()}, "max": maximum}
    assert Pooling().verdict(rows(**measured)).status == status


def test_accuracies_are_averaged_over_tasks_and_lengths() -> None:
    scores = [Score("last", task, length, 7, value) for task, length, value in (("find", 5, 0.2), ("count", 9, 0.8))]
    assert accuracies(scores, "last") == {7: 0.5}


def test_the_class_is_the_symbol_after_the_marker() -> None:
    batch = Pooling().sequences("find", 12, 200, torch.Generator().manual_seed(1))
    for row, target in zip(batch.inputs.values.argmax(-1).tolist(), batch.target.tolist(), strict=True):
        assert row.count(4) == 1
        assert row[row.index(4) + 1] == target


def test_the_class_is_the_most_frequent_symbol() -> None:
    batch = Pooling().sequences("count", 12, 200, torch.Generator().manual_seed(1))
    for row, target in zip(batch.inputs.values.argmax(-1).tolist(), batch.target.tolist(), strict=True):
        counts = Counter(row)
        assert counts[target] == max(counts.values())
        assert 4 not in counts


@pytest.mark.parametrize("pooling", ORDER)
def test_each_pooling_learns(pooling: str) -> None:
    experiment = Pooling(lengths=(6,), hidden_size=16, updates=150, learning_rate=0.02)
    (score,) = experiment._measure(pooling, "find", 1)
    assert score.accuracy > 0.6  # chance: 0.25
