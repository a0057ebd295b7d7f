"""Optimizers against their equations."""

import math
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from seqloom.training.config import OptimizerName
from seqloom.training.optimizers import build, group_norms, step, tensor_norms, total_norm

RATE, DECAY, MOMENTUM = 0.1, 0.3, 0.9
BETAS, EPSILON = (0.9, 0.999), 1e-8


def by_hand(name: str, weights: Tensor, gradients: list[Tensor], *, decay: float) -> Tensor:
    """Kingma & Ba 2015, Loshchilov & Hutter 2019, and the momentum of Polyak as torch writes it."""
    weights = weights.clone()
    first = second = velocity = torch.zeros_like(weights)
    for number, given in enumerate(gradients, start=1):
        gradient = given if name == "adamw" else given + decay * weights
        if name == "sgd":
            velocity = MOMENTUM * velocity + gradient
            weights = weights - RATE * velocity
            continue
        if name == "adamw":
            weights = weights * (1 - RATE * decay)
        first = BETAS[0] * first + (1 - BETAS[0]) * gradient
        second = BETAS[1] * second + (1 - BETAS[1]) * gradient**2
        root = (second / (1 - BETAS[1] ** number)).sqrt() + EPSILON
        weights = weights - RATE * first / (1 - BETAS[0] ** number) / root
    return weights


@pytest.mark.parametrize("name", get_args(OptimizerName))
def test_updates_match_the_equations_and_vectors_have_no_weight_decay(name: OptimizerName) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    gradients = [[torch.randn_like(parameter) for parameter in model.parameters()] for _ in range(3)]
    optimizer = build(name, model, learning_rate=RATE, weight_decay=DECAY, momentum=MOMENTUM)
    for each in gradients:
        for parameter, gradient in zip(model.parameters(), each, strict=True):
            parameter.grad = 4 * gradient
        step(optimizer, divisor=4.0)
    for parameter, start, given in zip(model.parameters(), before, zip(*gradients, strict=True), strict=True):
        expected = by_hand(name, start, list(given), decay=DECAY if start.dim() > 1 else 0.0)
        assert torch.allclose(parameter, expected, rtol=0, atol=1e-12)


def test_frozen_parameters_are_not_updated() -> None:
    model = nn.Linear(2, 2)
    model.weight.requires_grad_(False)
    optimizer = build("adam", model, learning_rate=1.0, weight_decay=0.0, momentum=0.0)
    assert [group["params"] for group in optimizer.param_groups] == [[model.bias]]


def test_total_norm_is_of_all_gradients() -> None:
    gradients = [torch.tensor([[3.0, 4.0]]), torch.tensor([12.0])]
    assert total_norm(tensor_norms(gradients)) == 13
    assert total_norm(tensor_norms([])) == 0
    assert math.isnan(total_norm(tensor_norms([torch.tensor([math.nan]), torch.tensor([1.0])])))


def test_norms_of_groups_are_those_of_layers() -> None:
    names = ["embed.table.weight", "layer.layers.0.cell.input.weight", "layer.layers.0.cell.input.bias", "bias"]
    norms = group_norms(names, torch.tensor([2.0, 3.0, 4.0, 7.0]))
    assert norms == {"embed.table": 2, "layer.layers.0": 5, "bias": 7}
    many = [f"layer.layers.{number}.weight" for number in range(100)]
    assert group_norms(many, torch.ones(100)) == {"layer.layers": 10}
