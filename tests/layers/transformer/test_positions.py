"""Positions against their formulas."""

import math

import pytest
import torch
from tests.contracts.registry import noise

from seqloom.layers.transformer.positions import Positions, rotate, sinusoidal


@pytest.mark.parametrize("size", [1, 6, 7])
def test_sinusoidal_positions_are_sines_and_cosines(size: int) -> None:
    half = (size + 1) // 2
    actual = sinusoidal(torch.arange(5).unsqueeze(0), size, torch.float64)[0]
    for t in range(5):
        angles = [t / 10_000 ** (index / half) for index in range(half)]
        expected = [*map(math.sin, angles), *map(math.cos, angles)][:size]
        torch.testing.assert_close(actual[t], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-6)


def test_rotary_positions_rotate_pairs_of_features() -> None:
    x = noise(1, 3, 2, 4)
    actual = rotate(x, torch.tensor([[0, 3, 7]]))
    for step, t in enumerate([0, 3, 7]):
        for pair in range(2):
            a, b = x[0, step, 0, 2 * pair].item(), x[0, step, 0, 2 * pair + 1].item()
            angle = t / 10_000 ** (pair / 2)
            rotated = [a * math.cos(angle) - b * math.sin(angle), a * math.sin(angle) + b * math.cos(angle)]
            expected = torch.tensor(rotated, dtype=torch.float64)
            torch.testing.assert_close(actual[0, step, 0, 2 * pair : 2 * pair + 2], expected, rtol=0, atol=1e-6)


def test_rotated_products_depend_on_the_difference_only() -> None:
    query, key = noise(1, 1, 1, 8), noise(1, 1, 1, 8, seed=1)

    def product(first: int, second: int) -> torch.Tensor:
        return (rotate(query, torch.tensor([[first]])) * rotate(key, torch.tensor([[second]]))).sum()

    torch.testing.assert_close(product(2, 5), product(10, 13), rtol=0, atol=1e-12)
    assert abs(product(2, 5) - product(2, 6)) > 1e-3


def test_sequences_longer_than_the_learned_positions_are_refused() -> None:
    layer = Positions(3, 4, kind="learned", max_positions=5)
    _, state = layer(torch.zeros(1, 4, 3))
    with pytest.raises(ValueError, match="longer than the 5 learned positions"):
        layer(torch.zeros(1, 2, 3), None, state)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="positions is 'here', expected one of"):
        Positions(3, 4, kind="here")  # type: ignore[arg-type]
