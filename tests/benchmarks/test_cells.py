"""The benchmark of cells with tiny sizes: what it measures and what it prints."""

import pytest
import torch

from benchmarks import cells
from benchmarks.cells import Shape
from seqloom.cells import LSTM, MinGRU
from seqloom.layers.build import cell_classes


@pytest.mark.exhaustive
def test_every_cell_is_compared_with_the_lstm(capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    cells.main(Shape(2, 1, 3, 5), repetitions=1)
    torch.set_num_threads(threads)
    _, _, _, header, *rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert header[:2] == ["cell", "multiplications"]
    assert [row[0] for row in rows] == list(cell_classes())
    (lstm,) = [row for row in rows if row[0] == "lstm"]
    assert (lstm[1], *lstm[-4:]) == ("1.00", "1.00", "(1.00)", "1.00", "(1.00)")


def test_only_matrices_count() -> None:
    assert cells.weights(LSTM(3, 5)) == 4 * (3 * 5 + 5 * 5)
    assert cells.weights(MinGRU(3, 5)) == 2 * 3 * 5
    assert cells.Products(MinGRU(3, 5))(torch.zeros(1, 1, 3))[0].shape == (1, 1, 10)
