"""The benchmark of recurrent layers with tiny shapes: what it compares and what it prints."""

import json
from collections.abc import Iterator

import pytest
import torch

from benchmarks import child_process, recurrent
from benchmarks.__main__ import main
from benchmarks.measure import Result
from benchmarks.recurrent import Shape
from benchmarks.report import describe
from seqloom import cells
from seqloom.layers.recurrent.recurrent import Recurrent

KEYS = {"case", "unit", "threads", "ours", "peer", "peer_name", "ratio", "goal", "limit"}


@pytest.fixture(scope="module")
def measured() -> list[Result]:
    """The results of all comparisons, with tiny shapes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recurrent, "QUICK_SHAPES", (Shape(3, 2, 4, 5), Shape(2, 1, 4, 5)))
        patch.setattr(recurrent, "peak", lambda threads: 1e9 * threads)
        patch.setattr(child_process, "run", lambda *_, **__: 0.25)
        return list(recurrent.measure(quick=True))


@pytest.fixture
def small(measured: list[Result], monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*, quick: bool) -> Iterator[Result]:
        assert quick
        torch.set_num_threads(1)
        yield from measured

    monkeypatch.setattr(recurrent, "measure", measure)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("small")
def test_json_has_the_agreed_keys_and_every_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    main(["recurrent", "--quick", "--json"])
    results = json.loads(capsys.readouterr().out)
    assert all(result.keys() >= KEYS for result in results)
    compared = {(result["case"], result["peer_name"], result["threads"]) for result in results}
    for threads in (1, 2):
        for cell, peer in (("LSTM", "nn.LSTM"), ("GRU", "nn.GRU"), ("Elman", "nn.RNN")):
            for mode in ("training", "inference"):
                assert (f"{cell} {mode} (T=3, B=2, D=4, H=5)", peer, threads) in compared
                assert (f"geometric mean: {cell} {mode}", peer, threads) in compared
        for cell in recurrent.VARIANTS:
            assert (f"geometric mean: {cell} training", "our LSTM", threads) in compared
    assert ("LSTM first use, warm cache", "the goal", 1) in compared
    for result in results:
        better = result["ours"] / result["peer"] if result["unit"] in ("steps/s", "calls/s", "times as fast") else None
        expected = better if better is not None else result["peer"] / result["ours"]
        assert result["ratio"] == pytest.approx(expected)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("small")
def test_table_says_which_goals_were_reached(capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_num_threads(2)
    main(["recurrent", "--quick"])
    assert torch.get_num_threads() == 2
    out = capsys.readouterr().out
    assert "LSTM first use, warm cache, 1 thread: 1.20x the goal (0.25 vs 0.3 s)" in out
    assert "reached" in out
    assert f"torch {torch.__version__}" in out


def test_limit_counts_all_matrix_products() -> None:
    time, batch, input_size, hidden_size = shape = Shape(7, 3, 5, 11)
    forward = 2 * time * batch * 4 * hidden_size * (input_size + hidden_size)
    assert recurrent._operations(shape, 4, training=False) == forward
    assert recurrent._operations(shape, 4, training=True) == 3 * forward


@pytest.mark.parametrize("unbind", [False, True])
def test_python_loop_equals_our_peephole_lstm(unbind: bool) -> None:
    loop = recurrent.PeepholeLoop(3, 5, unbind=unbind)
    layer = Recurrent(cells.Peephole(3, 5))
    with torch.no_grad():
        loop.peepholes.normal_()
        cell = layer.cell
        cell.get_parameter("input.weight").copy_(loop.input.weight)
        cell.get_parameter("input.bias").copy_(loop.input.bias)
        cell.get_parameter("recurrent.weight").copy_(loop.recurrent.weight)
        for index, gate in enumerate(("input", "forget", "output")):
            cell.get_parameter(f"peepholes.{gate}").copy_(loop.peepholes[index])
    x = torch.randn(4, 6, 3)
    torch.testing.assert_close(layer(x)[0], loop(x.transpose(0, 1)).transpose(0, 1))


def test_user_written_cell_is_fused() -> None:
    assert Recurrent(recurrent.UserWritten(3, 5)).path == "fused"


def test_description_names_case_ratio_and_limit() -> None:
    result = Result("LSTM", "ms", 2, 1.0, 3.0, "nn.LSTM", 3.0, None, 0.5, 1.0, 3.0)
    assert describe(result) == "LSTM, 2 threads: 3.00x nn.LSTM (1 vs 3 ms; limit 0.5 ms)"
    mean = Result("geometric mean: LSTM", "times as fast", 1, 1.25, 1.0, "nn.LSTM", 1.25, 1.5, 1.5, 1.25, 1.0)
    assert describe(mean) == "geometric mean: LSTM, 1 thread: 1.25x nn.LSTM (limit 1.50x)"
