"""The memory experiment: its data, its gradients against finite differences, and its verdict on made-up results."""

import pytest
import torch

from seqloom.lab.memory import (
    ELMAN,
    ELMAN_ORTHOGONAL,
    LSTM_1997,
    LSTM_OPEN,
    LSTM_PLAIN,
    NETWORKS,
    Memory,
    Outcome,
    _input_gradient,
    spans,
)
from seqloom.lab.network import IGNORED, Network

SMALL = Memory(lengths=(3, 6), hidden_size=8, batch_size=16, updates=5, seeds=1)


def outcomes(**remembered: tuple[int, ...]) -> list[Outcome]:
    """Results at 10, 20, 40, 80 and 160 steps in which each seed of a network remembers up to a length."""
    names = {"elman": ELMAN, "orthogonal": ELMAN_ORTHOGONAL, "lstm": LSTM_1997, "plain": LSTM_PLAIN, "open": LSTM_OPEN}
    return [
        Outcome(name, seed, length, 0.95 if length <= span else 0.3, updates=1, gradient=0.1)
        for key, name in names.items()
        for seed, span in enumerate(remembered.get(key, (40, 40, 40)))
        for length in (10, 20, 40, 80, 160)
    ]


def test_sequences_hold_one_symbol_first_and_distractors_after_it() -> None:
    batch = SMALL._draw(6, 50, torch.Generator().manual_seed(3))
    x, symbol = batch.inputs.values, batch.target[:, -1]
    assert x.shape == (50, 7, 8)
    assert torch.equal(x.sum(-1), torch.ones(50, 7))
    assert torch.equal(x[:, 0].argmax(-1), symbol)
    assert symbol.max() < 4 <= x[:, 1:].argmax(-1).min()
    assert (batch.target[:, :-1] == IGNORED).all()


@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_match_finite_differences(network: str) -> None:
    model = SMALL._build(network, 1).double()
    batch = SMALL._draw(3, SMALL.batch_size, torch.Generator().manual_seed(1))
    x, width = batch.inputs.values.double(), 1e-5
    batch = batch._replace(inputs=batch.inputs._replace(values=x))

    def losses(shifted: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            logits = model(batch.inputs._replace(values=shifted), batch.target != IGNORED)
            return torch.nn.functional.cross_entropy(logits, batch.target[:, -1], reduction="none")

    gradients = torch.zeros(SMALL.batch_size, 8, dtype=torch.double)
    for feature in range(8):
        shift = torch.zeros_like(x)
        shift[:, 0, feature] = width
        gradients[:, feature] = (losses(x + shift) - losses(x - shift)) / (2 * width)
    # Central differences of width 1e-5 in double precision are exact to about 1e-9.
    assert _input_gradient(model, batch) == pytest.approx(gradients.norm(dim=-1).mean().item(), rel=1e-6)


def test_initial_weights() -> None:
    def recurrent_weight(model: Network) -> torch.Tensor:
        return next(value for name, value in model.named_parameters() if name.endswith("recurrent.weight")).detach()

    orthogonal = recurrent_weight(SMALL._build(ELMAN_ORTHOGONAL, 1))
    torch.testing.assert_close(orthogonal @ orthogonal.T, torch.eye(8))
    plain = recurrent_weight(SMALL._build(ELMAN, 1))
    assert 0.3 < plain.abs().max() <= 8**-0.5
    bias = SMALL._build(LSTM_1997, 1).state_dict()["layer.cell.input.bias"]
    assert torch.equal(bias[8:16], torch.full((8,), 20.0))
    assert bias[:8].abs().max() <= 8**-0.5


def test_a_network_learns_and_stops() -> None:
    rows = Memory(lengths=(5,), updates=300)._measure(LSTM_OPEN, 1)
    assert rows[0].accuracy is not None
    assert rows[0].accuracy > 0.95
    assert 10 <= rows[0].updates < 200


def test_no_length_is_trained_after_a_failure() -> None:
    rows = Memory(lengths=(40, 5, 20), updates=1)._measure(LSTM_PLAIN, 1)
    assert [(row.length, row.updates, row.accuracy is None) for row in rows] == [
        *((5, 1, False), (20, 0, True), (40, 0, True)),
    ]
    assert rows[0].gradient > rows[1].gradient > rows[2].gradient > 0


def test_a_span_ends_at_the_first_failure() -> None:
    rows = [
        *(Outcome(ELMAN, 1, length, score, 1, 0.1) for length, score in ((5, 1.0), (10, 0.95), (20, 0.5), (40, 1.0))),
        *(Outcome(ELMAN, 2, length, score, 1, 0.1) for length, score in ((10, None), (5, 0.89))),
    ]
    assert spans(rows, ELMAN) == [10, 0]


@pytest.mark.parametrize(
    ("remembered", "status"),
    [
        ({"elman": (10, 10, 20), "lstm": (160, 160, 160)}, "not decided"),  # the interval of Elman reaches beyond 14
        ({"elman": (20, 20, 20), "lstm": (160, 160, 160)}, "does not hold here"),
        ({"elman": (10, 10, 10), "lstm": (40, 160, 160)}, "not decided"),
        ({"elman": (10, 10, 10), "lstm": (160, 160, 160)}, "holds"),
        ({"elman": (40, 40, 40), "lstm": (160, 160, 160)}, "does not hold here"),
        ({"elman": (10, 10, 10), "lstm": (20, 20, 40)}, "does not hold here"),
        ({"elman": (10,), "lstm": (160,)}, "not decided"),  # one seed has no interval
        ({"elman": (0, 10, 10), "lstm": (160, 160, 160)}, "not decided"),  # 1 step instead of 0: a wide interval
    ],
)
def test_the_verdict_follows_the_rule(remembered: dict[str, tuple[int, ...]], status: str) -> None:
    assert Memory().verdict(outcomes(**remembered)).status == status


def test_the_verdict_names_the_numbers() -> None:
    verdict = Memory().verdict(outcomes(elman=(10, 10, 10), lstm=(160, 160, 160), open=(40, 80, 160)))
    assert "the Elman network remembers 10 [10, 10] steps, the LSTM of 1997 160 [160, 160] steps" in verdict.sentence
    estimate = verdict.estimates[LSTM_OPEN]
    assert estimate.value == pytest.approx(80)
    # Student's t for 2 degrees of freedom is 4.3027; the logarithms are spread by log 2.
    assert estimate.high / estimate.value == pytest.approx(2 ** (4.30265 / 3**0.5), rel=1e-4)


def test_the_table_counts_seeds() -> None:
    columns, rows = Memory().table(outcomes(elman=(10, 20, 20)))
    assert columns[1:] == ["10", "20", "40", "80", "160"]
    assert rows[0] == [ELMAN, "3/3", "2/3", "0/3", "0/3", "0/3"]
