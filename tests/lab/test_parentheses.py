"""Brackets against a stack in Python, and the verdict on made-up results."""

import pytest
import torch

from seqloom.lab.network import IGNORED
from seqloom.lab.parentheses import Accuracy, Parentheses, brackets


def test_brackets_are_balanced_and_classes_are_the_innermost_open_ones() -> None:
    tokens, target, depths = brackets(200, 20, kinds=3, max_depth=4, draw=torch.Generator().manual_seed(1))
    seen = set()
    for row, classes, levels in zip(tokens.tolist(), target.tolist(), depths.tolist(), strict=True):
        stack: list[int] = []
        for token, name, level in zip(row, classes, levels, strict=True):
            if token < 3:
                stack.append(token)
            else:
                assert stack.pop() == token - 3
            assert name == (stack[-1] if stack and token >= 3 else IGNORED)
            assert level == len(stack) <= 4
            seen.add(level)
        assert stack == []
    assert seen == {0, 1, 2, 3, 4}


def test_an_odd_length_is_rounded_down() -> None:
    assert brackets(2, 7, kinds=2, max_depth=2, draw=torch.Generator())[0].shape == (2, 6)


def rows(inside: float, longer: float, deeper: float) -> list[Accuracy]:
    values = [("length", 40, inside), ("length", 320, longer), ("depth", 3, inside)]
    values += [("depth", depth, deeper + shift) for depth, shift in ((5, 0.01), (6, 0.0), (7, -0.01))]
    return [
        Accuracy("lstm", seed, "length" if aspect == "length" else "depth", value, accuracy + 0.001 * seed)
        for seed in range(3)
        for aspect, value, accuracy in values
    ]


@pytest.mark.parametrize(
    ("measured", "status"),
    [
        (rows(0.99, 0.98, 0.8), "holds"),
        (rows(0.99, 0.98, 0.97), "does not hold here"),  # it goes deeper, too
        (rows(0.99, 0.98, 0.955), "does not hold here"),  # on average, though not where it is deepest
        (rows(0.99, 0.7, 0.8), "does not hold here"),
        (rows(0.8, 0.98, 0.8), "does not hold here"),
        (rows(0.99, 0.949, 0.8), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(measured: list[Accuracy], status: str) -> None:
    verdict = Parentheses().verdict(measured)
    assert verdict.status == status
    assert "where 5 to 7 brackets are open" in verdict.sentence


def test_networks_learn_flat_brackets() -> None:
    experiment = Parentheses(depth=2, length=10, test_depth=2, test_lengths=(20,), hidden_size=16, updates=150)
    accuracy = {(row.aspect, row.value): row.accuracy for row in experiment._measure("lstm", 1)}
    assert accuracy.keys() == {("depth", 1), ("length", 10), ("length", 20)}
    assert accuracy["length", 20] > 0.9
