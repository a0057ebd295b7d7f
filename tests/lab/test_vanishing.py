"""Gradients through time against products of Jacobians, and the verdict on made-up results."""

import pytest
import torch

from seqloom.lab.vanishing import SEQUENCES, Activation, Gradient, Matrix, Vanishing, gradient_norms, growths
from seqloom.layers.recurrent.recurrent import Recurrent

SMALL = Vanishing(hidden_size=6, lags=8, seeds=1)


def gradients(
    *, value: float, rate: float, matrix: Matrix = "orthogonal", activation: Activation = "tanh", networks: int = 50
) -> list[Gradient]:
    return [
        Gradient(matrix, activation, value, value / 2 if matrix == "gaussian" else value, seed, lag, rate**lag)
        for seed in range(networks)
        for lag in (5, 10)
    ]


@pytest.mark.parametrize("matrix", ["orthogonal", "gaussian"])
@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_gradients_are_products_of_jacobians(matrix: Matrix, activation: Activation) -> None:
    torch.manual_seed(1)
    cell, radius = SMALL._build(matrix, activation, 1.3)
    weight = cell.recurrent.weight.detach()
    assert torch.linalg.svdvals(weight)[0].item() == pytest.approx(1.3)
    assert radius <= 1.3 + 1e-12
    torch.manual_seed(2)
    norms = gradient_norms(Recurrent(cell), 8)
    torch.manual_seed(2)
    x = torch.randn(SEQUENCES, 8, 6, dtype=torch.double)
    direction = torch.randn(SEQUENCES, 6, dtype=torch.double)
    direction /= direction.norm(dim=-1, keepdim=True)
    hidden = torch.zeros(SEQUENCES, 6, dtype=torch.double)
    jacobians = []
    with torch.no_grad():
        for t in range(8):
            total = cell.input(x[:, t]) + hidden @ weight.T
            hidden = total if activation == "linear" else total.tanh()
            slope = torch.ones_like(hidden) if activation == "linear" else 1 - hidden**2
            jacobians.append(slope.unsqueeze(-1) * weight)
    backward = direction.unsqueeze(1)
    expected = {}
    for lag in range(1, 9):
        backward = backward @ jacobians[-lag]
        expected[lag] = backward.norm(dim=-1).mean().item()
    assert list(norms) == [2, 4, 6, 8]
    assert norms == pytest.approx({lag: expected[lag] for lag in norms})


def test_a_linear_orthogonal_network_grows_by_its_singular_value() -> None:
    rows = Vanishing(singular_values=(0.5, 2.0), matrices=("orthogonal",), activations=("linear",), lags=20, seeds=2)
    measured = [row for trial in rows.trials() for row in trial.measure()]
    assert [growth.rate for growth in growths(measured)] == pytest.approx([0.5, 0.5, 2.0, 2.0])
    assert [growth.spectral_radius for growth in growths(measured)] == pytest.approx([0.5, 0.5, 2.0, 2.0])


def test_the_claim_holds_if_all_networks_follow_it() -> None:
    rows = gradients(value=0.5, rate=0.4) + gradients(value=2, rate=1.2)
    verdict = SMALL.verdict(rows)
    assert verdict.status == "holds"
    assert "vanishes in 0 of 50." in verdict.sentence


@pytest.mark.parametrize(
    "rows",
    [
        gradients(value=0.5, rate=0.4) + gradients(value=2, rate=0.9),
        gradients(value=0.5, rate=1.1) + gradients(value=2, rate=1.2),
    ],
    ids=["vanishes above 1", "explodes below 1"],
)
def test_the_claim_does_not_hold_if_one_half_fails(rows: list[Gradient]) -> None:
    assert SMALL.verdict(rows).status == "does not hold here"


def test_too_few_networks_decide_nothing() -> None:
    rows = gradients(value=0.5, rate=0.4, networks=3) + gradients(value=2, rate=1.2, networks=3)
    assert SMALL.verdict(rows).status == "not decided"


def test_linear_networks_are_compared_with_their_largest_eigenvalue() -> None:
    rows = gradients(value=1.5, rate=0.8, matrix="gaussian", activation="linear")  # spectral radius 0.75
    rows += gradients(value=3, rate=1.4, matrix="gaussian", activation="linear") + gradients(value=0.5, rate=0.4)
    verdict = SMALL.verdict(rows)
    assert verdict.estimates["linear networks that follow their largest eigenvalue"].value == 1
    assert "even at a value of 1.5" in verdict.sentence
