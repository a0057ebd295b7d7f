"""Traces hold what the layer computed, and tracing changes nothing (law 7); plots of gates."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import seqloom
from seqloom import cells
from seqloom.insight import draw_gates, trace_gates
from seqloom.insight.gates import unit_panels
from seqloom.layers.recurrent.two_dimensional import TwoDimensionalLSTM
from seqloom.tasks.transcribe import Transcribe


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = seqloom.recurrent("gru", 3, 5, layers=2, bidirectional=True)
        self.head = nn.Linear(10, 2)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.encoder(x, mask=mask)[0])
        return out


def masked(*lengths: int) -> torch.Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("reverse", [False, True])
def test_states_are_the_outputs_and_gates_follow_the_equations(reverse: bool) -> None:
    torch.manual_seed(1)
    layer = seqloom.Recurrent(cells.LSTM(3, 5), reverse=reverse).double()
    x, mask = torch.randn(3, 6, 3, dtype=torch.float64), masked(6, 2, 0)
    (out, state), (result,) = trace_gates(layer, x, mask)
    # The kernel computes the output, the plain steps the trace: they agree to the last places.
    torch.testing.assert_close(result.states["hidden"], out, rtol=0, atol=1e-12)
    i, f, z, o = (result.gates[name] for name in ("input", "forget", "candidate", "output"))
    memory = result.states["memory"]
    if reverse:
        before = torch.cat([memory[:, 1:], torch.zeros_like(memory[:, :1])], dim=1)
    else:
        before = torch.cat([torch.zeros_like(memory[:, :1]), memory[:, :-1]], dim=1)
    torch.testing.assert_close(memory, f * before + i * z, rtol=0, atol=1e-12)
    torch.testing.assert_close(out, o * memory.tanh(), rtol=0, atol=1e-12)
    assert result.gates["forget"][1, 2:].count_nonzero() == 0
    torch.testing.assert_close(state.hidden[0], out[0, 0 if reverse else 5], rtol=0, atol=1e-12)


def test_every_recurrent_layer_of_a_model_is_traced_in_order() -> None:
    torch.manual_seed(2)
    model, x, mask = Model(), torch.randn(2, 4, 3), masked(4, 3)
    result, traces = trace_gates(model, x, mask)
    assert torch.equal(result, model(x, mask))
    assert [trace.name for trace in traces] == [
        f"encoder.layers.{index}.{way}" for index in (0, 1) for way in ("forward_layer", "backward_layer")
    ]
    assert list(traces[0].gates) == ["reset", "update", "candidate"]


def test_tracing_changes_nothing() -> None:
    torch.manual_seed(3)
    model = seqloom.recurrent("lstm", 3, 5, layers=2, dropout=0.3, zoneout=0.2, recurrent_dropout=0.2)
    twin = copy.deepcopy(model)
    x = torch.randn(2, 7, 3)
    results = []
    for module, traced in ((model, True), (twin, False)):
        torch.manual_seed(4)
        outputs = [(trace_gates(module, x)[0] if traced else module(x))[0] for _ in range(3)]
        outputs[-1].sum().backward()
        results.append([*outputs, *[parameter.grad for parameter in module.parameters()], torch.rand(1)])
    for with_trace, without_trace in zip(*results, strict=True):
        assert torch.equal(with_trace, without_trace)


def test_dropout_is_replayed() -> None:
    torch.manual_seed(5)
    layer = seqloom.Recurrent(cells.Zoneout(cells.Elman(3, 5), 0.5))
    (out, _), (result,) = trace_gates(layer, torch.randn(2, 20, 3))
    # Half of the values are carried over: another draw would not give the same output.
    torch.testing.assert_close(result.states["hidden"], out, rtol=0, atol=1e-6)


def test_state_and_empty_sequences() -> None:
    layer = seqloom.Recurrent(cells.GRU(3, 5))
    _, state = layer(torch.randn(2, 4, 3))
    (out, _), (result,) = trace_gates(layer, torch.randn(2, 1, 3), state=state)
    torch.testing.assert_close(result.states["hidden"], out, rtol=0, atol=1e-6)
    _, (result,) = trace_gates(layer, torch.randn(2, 0, 3))
    assert result.gates["reset"].shape == (2, 0, 5)


def shifted(grid: torch.Tensor, axis: int, step: int) -> torch.Tensor:
    """Each position gets the value of the one before it along an axis (+1) or after it (-1); zero at the border."""
    moved = torch.roll(grid, step, axis)
    moved.select(axis, 0 if step > 0 else -1).zero_()
    return moved


def test_an_image_has_one_trace_for_each_direction_which_follows_the_equations() -> None:
    torch.manual_seed(6)
    layer = TwoDimensionalLSTM(3, 4).double()
    x = torch.randn(2, 5, 7, 3, dtype=torch.float64)
    y, traces = trace_gates(layer, x)
    corners = ["top_left", "top_right", "bottom_left", "bottom_right"]
    assert [trace.name for trace in traces] == [f"from_{corner}" for corner in corners]
    outputs, projections = y.chunk(4, dim=-1), layer.input(x).chunk(4, dim=-1)
    row_cells: list[Any] = [direction.get_submodule("cell") for direction in layer.directions]
    for trace, cell, output, projected in zip(traces, row_cells, outputs, projections, strict=True):
        assert (trace.length, trace.rows) == (7, 5)
        # as (B, rows, columns, units):
        hidden, memory = (trace.states[name].transpose(1, 2) for name in ("hidden", "memory"))
        down, right = (1 if "top" in trace.name else -1), (1 if "left" in trace.name else -1)
        total = projected + cell.above(shifted(hidden, 1, down)) + cell.before(shifted(hidden, 2, right))
        i, f_above, f_before, z, o = total.chunk(5, dim=-1)
        gates = [i.sigmoid(), f_above.sigmoid(), f_before.sigmoid(), z.tanh(), o.sigmoid()]
        for values, expected in zip(trace.gates.values(), gates, strict=True):
            torch.testing.assert_close(values.transpose(1, 2), expected, rtol=0, atol=1e-12)
        i, f_above, f_before, z, o = gates
        expected = f_above * shifted(memory, 1, down) + f_before * shifted(memory, 2, right) + i * z
        torch.testing.assert_close(memory, expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(hidden, o * memory.tanh(), rtol=0, atol=1e-12)
        torch.testing.assert_close(hidden, output, rtol=0, atol=1e-12)


def test_each_call_of_a_layer_over_images_is_a_trace_of_its_own() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.level = TwoDimensionalLSTM(3, 3)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.level(x), self.level(y)

    _, traces = trace_gates(Twice(), torch.randn(1, 2, 3, 3), torch.randn(1, 4, 6, 3))
    assert [(trace.rows, trace.length) for trace in traces] == [(2, 3)] * 4 + [(4, 6)] * 4
    assert {trace.name.rpartition("_")[0] for trace in traces} == {"level.from_top", "level.from_bottom"}


def test_each_unit_of_an_image_is_drawn_over_its_rows(tmp_path: Path) -> None:
    torch.manual_seed(7)
    _, (trace, *_) = trace_gates(TwoDimensionalLSTM(3, 4), torch.randn(2, 5, 7, 3))
    panels = unit_panels(trace, 1, 6, sort=False)
    sorted_panels = unit_panels(trace, 1, 6)
    assert list(panels) == [*trace.gates, "hidden (state)", "memory (state)"]
    for name, values in (trace.gates | trace.states).items():
        key = name if name in panels else f"{name} (state)"
        expected = [[values[1, :6, row, unit].tolist() for row in range(5)] for unit in range(4)]
        assert panels[key].reshape(4, 5, 6).tolist() == expected
        # Sorted, units stay together.
        blocks = sorted_panels[key].reshape(4, 5, 6).tolist()
        assert sorted(blocks) == sorted(expected)
    draw_gates(trace, tmp_path / "gates.svg", row=1)
    drawn = (tmp_path / "gates.svg").read_text()
    assert "hidden unit × 5 rows" in drawn
    assert "forget_above (open = keeps)" in drawn
    assert "<!-- column -->" in drawn


def test_padding_is_not_drawn(tmp_path: Path) -> None:
    layer = seqloom.Recurrent(cells.LSTM(3, 8))
    mask = torch.arange(9) < torch.tensor([[9], [4]])
    _, (result,) = trace_gates(layer, torch.randn(2, 9, 3), mask)
    draw_gates(result, tmp_path / "new" / "gates.png", row=1, labels=["the", "clouds", "are", "in"])
    assert (tmp_path / "new" / "gates.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="labels has 4 entries, expected 9"):
        draw_gates(result, tmp_path / "gates.png", row=0, labels=["the", "clouds", "are", "in"])


@pytest.mark.parametrize(("update_gate", "effect"), [("keep", "keeps"), ("write", "writes")])
def test_gates_are_labelled_by_what_they_do(update_gate: str, effect: str, tmp_path: Path) -> None:
    layer = seqloom.Recurrent(cells.GRU(3, 8, update_gate=update_gate))
    _, (result,) = trace_gates(layer, torch.randn(1, 5, 3))
    draw_gates(result, tmp_path / "gates.svg")
    drawn = (tmp_path / "gates.svg").read_text()
    assert f"update (open = {effect})" in drawn
    assert "reset (open = reads)" in drawn


def test_cells_without_gates_show_their_state(tmp_path: Path) -> None:
    _, (result,) = trace_gates(seqloom.Recurrent(cells.Elman(3, 8)), torch.randn(1, 5, 3))
    draw_gates(result, tmp_path / "states.png")
    assert (tmp_path / "states.png").is_file()


def test_rows_that_cannot_be_drawn_are_named(tmp_path: Path) -> None:
    mask = torch.arange(3) < torch.tensor([[3], [0]])
    _, (result,) = trace_gates(seqloom.Recurrent(cells.Elman(3, 8)), torch.randn(2, 3, 3), mask)
    with pytest.raises(ValueError, match="row 1 has no time steps"):
        draw_gates(result, tmp_path / "gates.png", row=1)
    with pytest.raises(ValueError, match="row is 2, but the trace has 2 rows"):
        draw_gates(result, tmp_path / "gates.png", row=2)


def test_audio_has_seconds_on_its_time_axis(tmp_path: Path) -> None:
    _, (result,) = trace_gates(seqloom.Recurrent(cells.Elman(3, 8)), torch.randn(1, 5, 3))
    for seconds, label in ((0.0, "time step"), (0.04, "time in seconds")):
        draw_gates(replace(result, step_seconds=seconds), tmp_path / "states.svg")
        assert f"<!-- {label} -->" in (tmp_path / "states.svg").read_text(encoding="utf-8")
    settings: dict[str, Any] = {"audio": {"n_mels": 5, "sample_rate": 1000}, "encoder": {"hidden_size": 4}}
    task = Transcribe(train="-", **settings)
    task = task.fit(task.read([(np.random.default_rng(1).normal(size=700), "ab")]))
    (example,) = task.read([np.zeros(500)])
    with torch.no_grad():
        (trace, _), *_ = task.trace_gates(task.build_model().eval(), example)
    assert trace.length * trace.step_seconds == pytest.approx(0.5)
