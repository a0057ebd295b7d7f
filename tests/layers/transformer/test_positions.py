"""Positions against their formulas."""

import math

import pytest
import torch
from tests.contracts.registry import make_mask, noise

from seqloom.layers.transformer.block import transformer
from seqloom.layers.transformer.positions import Kind, Positions, alibi_slopes, rotate, sinusoidal


@pytest.mark.parametrize("size", [1, 6, 7])
def test_sinusoidal_positions_are_sines_and_cosines(size: int) -> None:
    half = (size + 1) // 2
    actual = sinusoidal(torch.arange(5).unsqueeze(0), size, torch.float64)[0]
    for t in range(5):
        angles = [t / 10_000 ** (index / half) for index in range(half)]
        expected = [*map(math.sin, angles), *map(math.cos, angles)][:size]
        torch.testing.assert_close(actual[t], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-6)


def test_counts_and_binary_digits() -> None:
    x, mask = noise(2, 6, 3), make_mask([6, 3], 6)
    expected: dict[Kind, list[list[list[float]]]] = {
        "counts": [[[t] for t in range(6)], [[t] for t in range(3)]],
        "normalized_counts": [[[t / 5] for t in range(6)], [[t / 2] for t in range(3)]],
        "binary": [[[int(digit) for digit in f"{t:04b}"[::-1]] for t in range(length)] for length in (6, 3)],
    }
    for kind, rows in expected.items():
        joined = Positions(3, 9, kind=kind, combine="concatenate", max_positions=13).double()
        added = Positions(3, 9, kind=kind, max_positions=13).double()
        assert added.widen is not None
        for row, (length, features) in enumerate(zip((6, 3), rows, strict=True)):
            values = torch.tensor(features, dtype=torch.float64)
            elements = 3 * joined.project(x[row, :length])
            actual = joined(x, mask)[0][row]
            torch.testing.assert_close(actual[:length], torch.cat([elements, values], dim=1), rtol=0, atol=1e-14)
            assert not actual[length:].any()
            total = 3 * added.project(x[row, :length]) + values @ added.widen.weight.T
            torch.testing.assert_close(added(x, mask)[0][row, :length], total, rtol=0, atol=1e-14)


def test_concatenated_features_have_the_configured_width() -> None:
    joined = Positions(6, 8, kind="sinusoidal", combine="concatenate").double()
    x = noise(1, 5, 6)
    expected = torch.cat([x * math.sqrt(8), sinusoidal(torch.arange(5).unsqueeze(0), 2, torch.float64)], dim=2)
    torch.testing.assert_close(joined(x)[0], expected, rtol=0, atol=1e-14)
    learned = Positions(3, 8, kind="learned", combine="concatenate", position_size=5)
    assert learned.table is not None
    assert torch.equal(learned(torch.zeros(1, 4, 3))[0][0, :, 3:], learned.table[:4])
    assert Positions(8, 8, kind="rotary", combine="concatenate").padding == 0


def test_the_slopes_of_alibi_are_those_of_the_paper() -> None:
    assert alibi_slopes(8).tolist() == [2.0**-exponent for exponent in range(1, 9)]
    sixteen = [2.0 ** (-exponent / 2) for exponent in range(1, 17)]
    expected = torch.tensor([*(2.0**-exponent for exponent in range(1, 9)), *sixteen[:8:2]])
    torch.testing.assert_close(alibi_slopes(12), expected)
    assert alibi_slopes(1).tolist() == [2.0**-8]


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


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="positions is 'here', expected one of"):
        Positions(3, 4, kind="here")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="combine_positions is 'mix', expected one of add, concatenate"):
        Positions(3, 4, combine="mix")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the model has width 10, expected more than the 10 of the positions"):
        Positions(3, 10, kind="binary", combine="concatenate")
    with pytest.raises(ValueError, match=r"normalized_counts divide by the length.*set bidirectional to true"):
        transformer(3, 8, positions="normalized_counts")
