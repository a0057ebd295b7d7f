"""Building blocks of cells."""

import numpy as np
import torch
from tests.cells.equations import normal
from tests.contracts.registry import noise, randomize

from seqloom.cells.cell import GateNorm, projection, recurrence


def test_projection_is_glorot_uniform_for_each_gate() -> None:
    torch.manual_seed(0)
    linear = projection(300, 100, blocks=4)
    bound = (6 / 400) ** 0.5
    for block in linear.weight.chunk(4):
        assert block.abs().max() <= bound
        # The standard deviation of 30000 uniform values is within 2 % of its expectation, by far more than five sigma.
        assert abs(block.std().item() / (bound / 3**0.5) - 1) < 0.02
    assert torch.equal(linear.bias, torch.zeros(400))


def test_recurrence_has_one_orthogonal_matrix_per_gate() -> None:
    torch.manual_seed(0)
    linear = recurrence(20, blocks=3, bias=True)
    blocks = linear.weight.chunk(3)
    assert all(torch.allclose(block @ block.T, torch.eye(20), rtol=0, atol=1e-5) for block in blocks)
    assert not torch.allclose(blocks[0], blocks[1], rtol=0, atol=0.1)
    assert torch.equal(linear.bias, torch.zeros(60))


def test_gate_norm_normalises_each_gate_separately() -> None:
    norm = GateNorm(5, blocks=3, bias=True)
    randomize(norm)
    values = noise(2, 4, 15).numpy()
    gates = values.reshape(2, 4, 3, 5)
    expected = np.array([[[normal(gate) for gate in row] for row in step] for step in gates]).reshape(2, 4, 15)
    expected = expected * norm.weight.detach().numpy() + norm.get_parameter("bias").detach().numpy()
    np.testing.assert_allclose(norm(torch.from_numpy(values)).detach().numpy(), expected, rtol=0, atol=1e-13)
