"""Positions in the lab: questions and answers by hand, blindness by construction, and the verdict."""

import pytest
import torch

from seqloom.lab.network import IGNORED
from seqloom.lab.positions import ABSOLUTE, NONE, RELATIVE, Positions, Score

SMALL = Positions(**Positions.quick)


def rows(*, blind: float = 0.5, inside: float = 0.99, absolute: float = 0.5, relative: float = 0.98) -> list[Score]:
    values = {(NONE, 20): blind, (NONE, 80): blind, (RELATIVE, 20): inside, (RELATIVE, 80): relative}
    values |= {(kind, 20): inside for kind in ABSOLUTE} | {(kind, 80): absolute for kind in ABSOLUTE}
    return [
        Score(kind, seed, length, value, value + 0.002 * seed)
        for (kind, length), value in values.items()
        for seed in range(3)
    ]


@pytest.mark.parametrize(
    ("measured", "status"),
    [
        (rows(), "holds"),
        (rows(blind=0.8), "does not hold here"),
        (rows(inside=0.7), "does not hold here"),  # positions do not cure it
        (rows(absolute=0.97), "does not hold here"),  # absolute positions carry over
        (rows(relative=0.6), "does not hold here"),
        (rows(relative=0.899), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(measured: list[Score], status: str) -> None:
    assert Positions().verdict(measured).status == status


def test_questions_are_about_the_order() -> None:
    batch = SMALL.sequences_of(7, 50, torch.Generator().manual_seed(1))
    first_mark = SMALL.symbols
    for tokens, answers in zip(batch.inputs.values.argmax(-1).tolist(), batch.target.tolist(), strict=True):
        places = [tokens.index(first_mark), tokens.index(first_mark + 1)]
        for at, (token, answer) in enumerate(zip(tokens, answers, strict=True)):
            if token >= first_mark:
                other = places[1] if at == places[0] else places[0]
                assert answer == first_mark + 2 + (other < at)
            else:
                assert answer == (tokens[at - 1] if at else IGNORED)


@pytest.mark.parametrize("kind", SMALL.kinds)
def test_only_a_network_without_positions_is_blind_to_order(kind: str) -> None:
    torch.manual_seed(1)
    (kind,) = (known for known in SMALL.kinds if known == kind)
    network = SMALL.build(kind).double().eval()
    x = SMALL.sequences_of(6, 3, torch.Generator().manual_seed(2)).inputs.values.double()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    with torch.no_grad():
        same = torch.allclose(network.layer(x[:, order])[0], network.layer(x)[0][:, order], atol=1e-9)
    assert same == (kind == NONE)
