"""Taggers in both directions: the verdict on made-up errors, equal sizes, and what each direction can see."""

import pytest
import torch

from seqloom.lab.bidirectional import (
    BACKWARD,
    BOTH,
    DIRECTIONS,
    FORWARD,
    Bidirectional,
    RoleErrors,
    error_rates,
    error_ratios,
    load_statements,
)


def rows(direction: str, errors: tuple[int, ...]) -> list[RoleErrors]:
    return [
        RoleErrors(direction, seed, role, tokens, min(value, tokens), 10)
        for seed, value in enumerate(errors)
        for role, tokens in (("NAME", 100), ("STRING", 300))
    ]


ONE_WAY = rows(FORWARD, (20, 22, 21)) + rows(BACKWARD, (40, 44, 42))


@pytest.mark.parametrize(
    ("errors", "status"),
    [
        ((10, 11, 10), "holds"),
        ((30, 33, 31), "does not hold here"),  # better than backwards only
        ((10, 30, 20), "not decided"),
        ((10,), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(errors: tuple[int, ...], status: str) -> None:
    assert Bidirectional().verdict(ONE_WAY + rows(BOTH, errors)).status == status


def test_errors_are_summed_over_roles() -> None:
    assert error_rates(ONE_WAY, FORWARD) == {0: 40 / 400, 1: 44 / 400, 2: 42 / 400}
    assert error_ratios(ONE_WAY + rows(BOTH, (10, 0)), FORWARD) == pytest.approx([0.5, 0.5 / 44])


def test_the_bidirectional_tagger_is_as_wide_and_has_no_more_parameters() -> None:
    training, _ = load_statements()
    networks = {direction: Bidirectional().build(direction, training) for direction in DIRECTIONS}
    assert {network.layer.output_size for network in networks.values()} == {48}
    sizes = {name: sum(part.numel() for part in network.layer.parameters()) for name, network in networks.items()}
    assert sizes[BOTH] <= sizes[FORWARD] == sizes[BACKWARD]


def test_each_direction_sees_its_own_side() -> None:
    training, _ = load_statements()
    statement = max(range(50), key=lambda index: len(training.words[index]))
    inputs = training.batch([statement]).inputs
    middle = inputs.values.shape[1] // 2
    for direction in DIRECTIONS:
        torch.manual_seed(1)
        network = Bidirectional(hidden_size=8).build(direction, training)
        x = inputs.values.clone().requires_grad_()
        network(inputs._replace(values=x), inputs.mask)[middle].sum().backward()
        assert x.grad is not None
        norms = x.grad[0].norm(dim=-1)
        assert bool((norms[:middle] > 0).all()) == (direction != BACKWARD)
        assert bool((norms[middle + 1 :] > 0).all()) == (direction != FORWARD)


def test_statements_are_those_of_the_data_set() -> None:
    training, held_out = load_statements()
    assert training.names == held_out.names
    assert "ATTRIBUTE" in training.names
    batch = training.batch([0, 1, 2])
    assert batch.items == sum(len(training.words[index]) for index in range(3)) == int(batch.inputs.mask.sum())
