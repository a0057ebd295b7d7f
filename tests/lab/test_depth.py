"""Stacks of equal size, and the verdict on made-up results."""

from functools import partial

import pytest
import torch

from seqloom.lab.depth import KINDS, Depth, Kind, Score, build_stack
from seqloom.lab.network import widest
from seqloom.layers.connection import CONNECTIONS
from seqloom.layers.layer import count_parameters


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("connection", CONNECTIONS)
def test_stacks_are_the_widest_that_fit(kind: Kind, connection: str) -> None:
    torch.manual_seed(1)
    random = torch.get_rng_state()
    build = partial(build_stack, kind, 10, layers=4, connection=connection)
    width = widest(lambda width: build(hidden_size=width), 5000)
    assert torch.equal(torch.get_rng_state(), random)
    layer, wider = build(hidden_size=width), build(hidden_size=width + 1)
    assert count_parameters(layer) <= 5000 < count_parameters(wider)
    y, _ = layer(torch.randn(2, 6, 10))
    assert y.shape[:2] == (2, 6)


def test_feed_forward_stacks_see_a_window_of_the_past() -> None:
    torch.manual_seed(1)
    layer = build_stack("feed-forward", 3, hidden_size=4, layers=3, connection="residual")
    x = torch.randn(1, 12, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(x)[0][0, 9].sum(), x)
    assert gradient[0].abs().sum(-1).nonzero().squeeze(1).tolist() == [5, 6, 7, 8, 9]


def rows(*, double: float = 0.9, skip: float = 0.8, highway: float = 0.8, spread: float = 0.01) -> list[Score]:
    """Bits relative to those of one layer and of plain stacks."""
    bits = {("recurrent", 1, "plain"): 1.0, ("recurrent", 2, "plain"): double}
    for kind, layers in (("recurrent", 8), ("feed-forward", 24)):
        values = {"plain": 1.0, "residual": skip, "dense": skip, "highway": highway}
        bits |= {(kind, layers, connection): value for connection, value in values.items()}
    return [
        Score("recurrent" if kind == "recurrent" else "feed-forward", layers, connection, 100, seed, value * factor)
        for (kind, layers, connection), value in bits.items()
        for seed, factor in enumerate((1 - spread * value, 1.0, 1 + spread * value))
    ]


@pytest.mark.parametrize(
    ("measured", "status"),
    [
        (rows(), "holds"),
        (rows(double=1.1), "does not hold here"),
        (rows(highway=1.2), "does not hold here"),
        (rows(double=0.99, spread=0.9), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(measured: list[Score], status: str) -> None:
    verdict = Depth().verdict(measured)
    assert verdict.status == status
    assert len(verdict.estimates) == 7


def test_the_sentence_names_ratios() -> None:
    sentence = Depth().verdict(rows(spread=0.0)).sentence
    assert "Two LSTM layers need 0.9 [0.9, 0.9] times" in sentence
    assert "24 feed-forward layers need 0.8 [0.8, 0.8] (residual)" in sentence
