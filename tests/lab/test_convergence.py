"""Networks of equal size, and the verdict on made-up learning curves."""

import pytest

from seqloom.lab.convergence import ELMAN, GRU, LSTM, NETWORKS, TRANSFORMER, Convergence, Score, best_rate, final_bits


def scores(bits: dict[str, float], *, spread: float = 0.001, seeds: int = 3) -> list[Score]:
    """Two learning rates, of which the second is worse, and two moments, of which only the last counts."""
    return [
        Score(
            network, rate, seed, update, value + penalty + early + spread * (seed if network == ELMAN else -seed), 100
        )
        for network, value in bits.items()
        for rate, penalty in ((0.1, 0.0), (0.2, 0.5))
        for update, early in ((1, 3.0), (2, 0.0))
        for seed in range(seeds)
    ]


CLAIMED = {ELMAN: 3.0, GRU: 2.8, LSTM: 2.9, TRANSFORMER: 2.5}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "holds"),
        ({LSTM: 3.2}, "does not hold here"),
        ({GRU: 3.2}, "does not hold here"),
        ({TRANSFORMER: 2.85}, "does not hold here"),  # better than all but the GRU
    ],
)
def test_the_verdict_follows_the_rule(changes: dict[str, float], status: str) -> None:
    assert Convergence().verdict(scores(CLAIMED | changes)).status == status


def test_a_wide_spread_or_a_single_seed_decides_nothing() -> None:
    assert Convergence().verdict(scores(CLAIMED, spread=-0.5)).status == "not decided"
    assert Convergence().verdict(scores(CLAIMED, seeds=1)).status == "not decided"


def test_the_best_rate_and_the_last_update_count() -> None:
    rows = scores(CLAIMED)
    assert best_rate(rows, LSTM) == 0.1
    assert final_bits(rows, LSTM) == pytest.approx({0: 2.9, 1: 2.899, 2: 2.898})


def test_networks_are_about_as_large() -> None:
    experiment = Convergence(parameters=20_000)
    for name in NETWORKS:
        network = experiment._build(name, 40)
        count = sum(parameter.numel() for parameter in network.parameters())
        assert 0.75 * 20_000 < count <= 20_000  # the width of a Transformer grows in steps of 8
        assert not any(parameter.is_meta for parameter in network.parameters())
