import pytest
import torch
from tests.contracts.registry import noise, randomize

from seqloom.layers.connection import CONNECTIONS, Dense, Highway, Plain, Residual


def test_plain_returns_the_output_only() -> None:
    y = noise(2, 3, 5)
    assert torch.equal(Plain(4, 5)(noise(2, 3, 4), y), y)


def test_residual_adds_the_input() -> None:
    x, y = noise(2, 3, 5), noise(2, 3, 5, seed=1)
    connection = Residual(5, 5)
    assert list(connection.parameters()) == []
    assert torch.equal(connection(x, y), x + y)


def test_residual_projects_where_the_widths_differ() -> None:
    x, y = noise(2, 3, 4), noise(2, 3, 5, seed=1)
    connection = Residual(4, 5).double()
    weight = connection.get_parameter("skip.weight")
    torch.testing.assert_close(connection(x, y), y + torch.einsum("btd,hd->bth", x, weight), rtol=0, atol=1e-14)


@pytest.mark.parametrize("size", [4, 5])
def test_highway_chooses_by_a_gate(size: int) -> None:
    x, y = noise(2, 3, size), noise(2, 3, 5, seed=1)
    connection = Highway(size, 5)
    randomize(connection)
    weight, bias = connection.get_parameter("gate.weight"), connection.get_parameter("gate.bias")
    t = 1 / (1 + torch.exp(-torch.einsum("btd,hd->bth", x, weight) - bias))
    skipped = x if size == 5 else torch.einsum("btd,hd->bth", x, connection.get_parameter("skip.weight"))
    torch.testing.assert_close(connection(x, y), t * y + (1 - t) * skipped, rtol=0, atol=1e-14)


def test_highway_gate_is_initially_almost_closed() -> None:
    assert torch.equal(Highway(4, 5).gate.bias, torch.full((5,), -2.0))


def test_dense_concatenates_input_and_output() -> None:
    x, y = noise(2, 3, 4), noise(2, 3, 5, seed=1)
    assert torch.equal(Dense(4, 5)(x, y), torch.cat([x, y], dim=-1))


@pytest.mark.parametrize("kind", CONNECTIONS.values())
def test_the_output_has_the_declared_size_and_zero_stays_zero(kind: type[Plain]) -> None:
    connection = kind(4, 5)
    randomize(connection, dtype=torch.float32)
    actual = connection(torch.zeros(2, 3, 4), torch.zeros(2, 3, 5))
    assert torch.equal(actual, torch.zeros(2, 3, connection.size))
