"""Comparisons with the LSTM: sizes of the cells, and the verdict on made-up results."""

import pytest

from seqloom.lab.cell_comparison import CellComparison, Score, final_bits, ratios
from seqloom.lab.coupled_gates import CoupledGates
from seqloom.lab.gru import Gru


def scores(cell: str, bits: tuple[float, ...], *, parameters: int = 100, update: int = 8) -> list[Score]:
    return [Score(cell, "prose", seed, update, value, parameters) for seed, value in enumerate(bits)]


LSTM = scores("lstm", (2.0, 2.2, 2.1), parameters=400)


@pytest.mark.parametrize(
    ("bits", "status"),
    [
        ((2.0, 2.2, 2.1), "holds"),
        ((1.8, 2.0, 1.9), "holds"),  # better is as good
        ((2.3, 2.6, 2.5), "does not hold here"),
        ((1.9, 2.4, 2.1), "not decided"),
        ((2.0,), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(bits: tuple[float, ...], status: str) -> None:
    assert Gru().verdict(LSTM + scores("gru", bits, parameters=300)).status == status


def test_the_verdict_names_ratio_and_parameters() -> None:
    verdict = CoupledGates().verdict(LSTM + scores("coupled", (2.0, 2.2, 2.1), parameters=300))
    assert verdict.sentence.startswith(
        "With 75% of the parameters, the LSTM with coupled gates needs 1 [1, 1] times as many bits"
    )


def test_ratios_are_those_of_the_same_text_and_seed_after_the_last_update() -> None:
    early = scores("lstm", (9.0, 9.0), update=4) + scores("gru", (8.0, 8.0), update=4)
    rows = early + scores("lstm", (2.0, 4.0)) + scores("gru", (3.0, 4.0))
    assert final_bits(rows, "gru") == {("prose", 0): 3.0, ("prose", 1): 4.0}
    assert ratios(rows, "gru") == [1.5, 1.0]


@pytest.mark.parametrize("kind", [Gru, CoupledGates])
def test_cells_have_three_quarters_of_the_parameters(kind: type[CellComparison]) -> None:
    experiment = kind(**kind.quick)
    own, lstm = (experiment._measure(cell, "prose", 1)[0].parameters for cell in (kind.cell, "lstm"))
    assert own / lstm == 0.75
