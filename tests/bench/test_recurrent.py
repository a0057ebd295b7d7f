"""The benchmark of recurrent layers on shapes so small that it takes a moment: what it compares and what it prints."""

import json

import pytest
import torch

from seqloom import cells
from seqloom.bench import process, recurrent
from seqloom.bench.measure import Result
from seqloom.bench.show import describe
from seqloom.layers.recurrent.recurrent import Recurrent

KEYS = {"case", "unit", "threads", "ours", "peer", "peer_name", "ratio", "goal", "limit"}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "QUICK", ((3, 2, 4, 5), (2, 1, 4, 5)))
    monkeypatch.setattr(recurrent, "peak", lambda threads: 1e9 * threads)
    monkeypatch.setattr(process, "child", lambda *_, **__: 0.25)


@pytest.mark.usefixtures("small")
def test_json_has_the_agreed_keys_and_every_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    recurrent.main(quick=True, as_json=True)
    results = json.loads(capsys.readouterr().out)
    assert all(result.keys() >= KEYS for result in results)
    found = {(result["case"], result["peer_name"], result["threads"]) for result in results}
    for threads in (1, 2):
        for cell, peer in (("LSTM", "nn.LSTM"), ("GRU", "nn.GRU"), ("Elman", "nn.RNN")):
            for kind in ("training", "inference"):
                assert (f"{cell} {kind} (3, 2, 4, 5)", peer, threads) in found
                assert (f"geometric mean: {cell} {kind}", peer, threads) in found
        for cell in recurrent.VARIANTS:
            assert (f"geometric mean: {cell} training", "our LSTM", threads) in found
    assert ("LSTM first use, warm cache", "the goal", 1) in found
    for result in results:
        better = result["ours"] / result["peer"] if result["unit"] in ("steps/s", "times as fast") else None
        expected = better if better is not None else result["peer"] / result["ours"]
        assert result["ratio"] == pytest.approx(expected)


@pytest.mark.usefixtures("small")
def test_table_says_which_goals_were_reached(capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_num_threads(2)
    recurrent.main(quick=True, as_json=False)
    assert torch.get_num_threads() == 2
    out = capsys.readouterr().out
    assert "LSTM first use, warm cache, 1 thread, against the goal: 1.20 (0.25 against 0.3 s)" in out
    assert "reached" in out
    assert f"torch {torch.__version__}" in out


def test_limit_counts_all_products() -> None:
    time, batch, input_size, hidden_size = shape = (7, 3, 5, 11)
    one = 2 * time * batch * 4 * hidden_size * (input_size + hidden_size)
    assert recurrent._operations(shape, 4, training=False) == one
    assert recurrent._operations(shape, 4, training=True) == 3 * one


@pytest.mark.parametrize("careful", [False, True])
def test_python_loop_equals_our_peephole_lstm(careful: bool) -> None:
    loop = recurrent.PeepholeLoop(3, 5, careful=careful)
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
    assert describe(result) == "LSTM, 2 threads, against nn.LSTM: 3.00 (1 against 3 ms, limit 0.5)"
