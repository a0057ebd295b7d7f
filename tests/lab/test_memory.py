"""The memory experiment in small: data, measurements, verdict, plot."""

from pathlib import Path

import pytest
import torch

from seqloom.lab.memory import MemoryExperiment, Outcome, draw, memory_span, tabulate, verdict

SMALL = MemoryExperiment(lengths=(3, 6), hidden_size=8, batch_size=16, attempts=2, updates=5)


def outcome(network: str, length: int, accuracy: float, gradient: float) -> Outcome:
    return Outcome(network, length, accuracy, attempts=1, updates=1, gradient=gradient, seconds=0.0)


OUTCOMES = [
    outcome("LSTM", 10, 1.0, 0.2),
    outcome("Elman network", 10, 0.95, 0.1),
    outcome("LSTM", 20, 0.99, 0.3),
    outcome("Elman network", 20, 0.3, 1e-9),
]


def test_sequences_hold_one_symbol_first_and_distractors_after_it() -> None:
    x, symbol = SMALL._draw(6, 50, torch.Generator().manual_seed(3))
    assert x.shape == (50, 7, 8)
    assert torch.equal(x.sum(-1), torch.ones(50, 7))
    assert torch.equal(x[:, 0].argmax(-1), symbol)
    assert symbol.max() < 4 <= x[:, 1:].argmax(-1).min()


@pytest.mark.parametrize("network", SMALL.networks)
def test_gradients_match_finite_differences(network: str) -> None:
    layer, answer = SMALL._build(network, SMALL.seed)
    layer, answer = layer.double(), answer.double()
    x, symbol = SMALL._draw(3, SMALL.batch_size, torch.Generator().manual_seed(SMALL.seed))
    x, width = x.double(), 1e-5

    def losses(shifted: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return torch.nn.functional.cross_entropy(answer(layer(shifted)[0][:, -1]), symbol, reduction="none")

    gradients = torch.zeros(SMALL.batch_size, 8, dtype=torch.double)
    for feature in range(8):
        shift = torch.zeros_like(x)
        shift[:, 0, feature] = width
        gradients[:, feature] = (losses(x + shift) - losses(x - shift)) / (2 * width)
    # The experiment is in single precision: 1e-4.
    assert SMALL._gradient(network, 3) == pytest.approx(gradients.norm(dim=-1).mean().item(), rel=1e-4)


def test_the_same_seed_gives_the_same_outcome_and_keeps_the_random_state() -> None:
    torch.set_num_threads(2)
    random = torch.get_rng_state()
    first, second = (SMALL.measure("LSTM", 6) for _ in range(2))
    assert (first.accuracy, first.gradient, first.updates) == (second.accuracy, second.gradient, second.updates)
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.get_num_threads() == 2


def test_a_network_that_does_not_learn_tries_again() -> None:
    result = MemoryExperiment(updates=1, attempts=2).measure("Elman network", 10)
    assert (result.attempts, result.updates) == (2, 1)


def test_a_network_learns_and_stops() -> None:
    result = MemoryExperiment().measure("LSTM", 5)
    assert result.accuracy > 0.95
    assert 10 <= result.updates < 100


def test_the_memory_span_ends_at_the_first_failure() -> None:
    assert memory_span(OUTCOMES, "LSTM") == 20
    assert memory_span(OUTCOMES, "Elman network") == 10
    assert memory_span([*OUTCOMES, outcome("Elman network", 40, 1.0, 1.0)], "Elman network") == 10


def test_the_verdict_names_networks_and_the_reason() -> None:
    assert verdict(OUTCOMES) == (
        "The symbol is remembered by the LSTM over at least 20 steps, by the Elman network over 10 steps. The reason: "
        "over 20 steps, the gradient that reaches the symbol is 3e-01 in the LSTM, 1e-09 in the Elman network."
    )


def test_the_verdict_gives_no_reason_if_gradients_do_not_explain_it() -> None:
    assert "reason" not in verdict([outcome("LSTM", 10, 0.3, 1.0), outcome("Elman network", 10, 1.0, 0.1)])


def test_table_has_a_row_for_each_length() -> None:
    columns, rows = tabulate(OUTCOMES)
    assert columns == ["steps", "LSTM", "Elman network", "∇ LSTM", "∇ Elman network"]
    assert rows == [["10", "100%", "95%", "2e-01", "1e-01"], ["20", "99%", "30%", "3e-01", "1e-09"]]


def test_plot(tmp_path: Path) -> None:
    draw(OUTCOMES, tmp_path / "memory.png", chance=0.25)
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")
