"""GRU and LSTM learn the same text."""

from seqloom.lab.gru import Gru


def test_both_cells_learn() -> None:
    experiment = Gru(seeds=1, texts=("prose",), hidden_size=16, length=20, updates=80, learning_rate=0.03)
    for cell in ("lstm", "gru"):
        scores = experiment._measure(cell, "prose", 1)
        assert [score.update for score in scores] == list(range(10, 81, 10))
        assert scores[-1].bits < scores[0].bits - 0.5
