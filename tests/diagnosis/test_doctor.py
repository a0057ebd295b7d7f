"""The doctor names networks that vanish or explode, and healthy ones; its result is data."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import seqloom
from seqloom.diagnosis.diagnosis import Diagnosis
from seqloom.layers.recurrent.recurrent import Recurrent


def scaled_elman(scale: float, size: int = 24) -> Any:
    """A tanh network whose recurrent matrix is orthogonal, times a number."""
    torch.manual_seed(1)
    layer: Any = Recurrent(seqloom.cells.Elman(4, size))
    with torch.no_grad():
        layer.cell.recurrent.weight.mul_(scale)
    return layer


def last_output(result: Any) -> Tensor:
    outputs: Tensor = result[0]
    return outputs[:, -1].square().sum()


@pytest.fixture(scope="module")
def x() -> Tensor:
    return 0.3 * torch.randn(8, 60, 4, generator=torch.Generator().manual_seed(2))


def test_a_network_made_to_vanish_is_named_so(x: Tensor) -> None:
    finding = seqloom.doctor(scaled_elman(0.5), x, loss=last_output).find("memory")
    assert finding.severity == "problem"
    steps = finding.evidence["steps_back"]["forward"]
    assert steps == pytest.approx(math.log(0.01) / math.log(0.5), abs=1.5)  # 6.6, less where tanh flattens
    assert f"sees about {steps} steps back" in finding.verdict
    assert "vanishing gradient" in finding.verdict
    assert 'cell = "lstm"' in finding.verdict
    assert finding.keys == ("cell", "forget_bias")


def test_a_network_made_to_explode_is_named_so(x: Tensor) -> None:
    finding = seqloom.doctor(scaled_elman(2.5), x).find("stability")
    assert finding.severity == "problem"
    assert "explode" in finding.verdict
    assert finding.evidence["largest_growth"] > 100
    (exponent,) = finding.evidence["lyapunov_exponent"].values()
    assert exponent > 0


def test_a_healthy_network_is_healthy(x: Tensor) -> None:
    diagnosis = seqloom.doctor(scaled_elman(0.97), x, loss=last_output)
    assert {finding.name: finding.severity for finding in diagnosis.findings} == {
        "memory": "healthy",
        "stability": "healthy",
        "gates": "healthy",
        "units": "healthy",
    }
    assert diagnosis.severity == "healthy"
    assert "sees about 35 steps back; sequences have 60" in diagnosis.find("memory").verdict


def test_reach_says_what_has_to_be_seen(x: Tensor) -> None:
    layer = scaled_elman(0.8)
    near, far = (seqloom.doctor(layer, x, reach=reach).find("memory") for reach in (5, 40))
    assert (near.severity, far.severity) == ("healthy", "problem")
    assert "dependencies over 40 steps are out of reach" in far.verdict


def test_saturated_and_dead_units_are_counted() -> None:
    torch.manual_seed(3)
    x = 40 * torch.randn(6, 30, 4)
    saturated = seqloom.doctor(scaled_elman(1.0), x).find("gates")
    assert saturated.severity == "problem"
    assert "saturated" in saturated.verdict
    dead: Any = Recurrent(seqloom.cells.Elman(4, 10, activation="relu"))
    with torch.no_grad():
        dead.cell.input.bias[:9] = -1000.0
    finding = seqloom.doctor(dead, x).find("units")
    assert finding.severity == "problem"
    assert "9 of the 10 units" in finding.verdict


def test_the_effective_rank_is_that_of_the_states() -> None:
    """Units that repeat each other add no rank: with copies of one unit it is 1."""
    layer: Any = Recurrent(seqloom.cells.Elman(4, 6)).double()
    with torch.no_grad():
        layer.cell.recurrent.weight.zero_()
        layer.cell.input.weight.copy_(torch.ones(6, 4))
    (use,) = seqloom.doctor(layer, torch.randn(4, 20, 4, dtype=torch.float64)).parts[0].units
    assert use.effective_rank == pytest.approx(1.0, abs=1e-6)
    assert (use.dead, use.redundant) == (0, 5)


def test_forget_gates_are_measured() -> None:
    layer = seqloom.recurrent("lstm", 4, 5, forget_bias=30.0)
    gates = {use.gate: use for use in seqloom.doctor(layer, torch.randn(4, 30, 4)).parts[0].gates}
    assert gates["forget"].stuck_high == 1
    assert gates["forget"].mean == pytest.approx(1, abs=1e-6)
    closed = seqloom.recurrent("lstm", 4, 5, forget_bias=-30.0)
    finding = seqloom.doctor(closed, torch.randn(4, 30, 4)).find("gates")
    assert finding.severity == "problem"
    assert "forget gate" in finding.verdict
    assert "always closed" in finding.verdict


def test_heads_of_attention() -> None:
    """Without learned differences of the keys, a head attends to all positions alike; with huge ones, to one."""
    torch.manual_seed(4)
    layer: Any = seqloom.transformer(6, 8, layers=1, heads=2, causal=False, positions="none")
    x = torch.randn(4, 12, 6)
    with torch.no_grad():
        layer.layers[1].query_key_value.weight[:16] = 0
    even = seqloom.doctor(layer, x)
    assert [head.entropy for head in even.heads] == pytest.approx([1, 1])
    assert [head.places for head in even.heads] == pytest.approx([12, 12])
    # The mean distance of two of 12 positions drawn at random: (n² - 1) / 3n.
    assert [head.distance for head in even.heads] == pytest.approx([(144 - 1) / 36] * 2)
    assert even.find("attention").severity == "warning"
    with torch.no_grad():
        layer.layers[1].query_key_value.weight[:16] = 30 * torch.randn(16, 8)
    assert "a single position" in seqloom.doctor(layer, x).find("attention").verdict


def test_modules_of_torch_are_examined() -> None:
    torch.manual_seed(5)
    module = nn.LSTM(4, 6, num_layers=2, bidirectional=True)
    x = torch.randn(25, 3, 4)
    diagnosis = seqloom.doctor(module, x)
    same = seqloom.doctor(seqloom.from_torch(module), x.transpose(0, 1))
    assert diagnosis.model == "LSTM"
    assert [curve.mean for curve in diagnosis.parts[0].gradients] == [curve.mean for curve in same.parts[0].gradients]
    assert len(diagnosis.parts[0].gradients) == 4


class Custom(nn.Module):
    """A layer of a user, which mixes each step with the one before."""

    def forward(self, x: Tensor) -> Tensor:
        before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
        return x + 0.5 * before


def test_a_custom_layer_is_measured_by_what_it_reads() -> None:
    (forward, backward) = seqloom.doctor(Custom(), torch.randn(3, 20, 4)).parts[0].gradients
    assert forward.of == "input"
    assert forward.left[:3] == pytest.approx([1.0, 0.5, 0.0])
    assert forward.memory == 1
    assert backward.left[:2] == pytest.approx([1.0, 0.0])


def test_a_diagnosis_is_data(x: Tensor, tmp_path: Path) -> None:
    diagnosis = seqloom.doctor(seqloom.recurrent("gru", 4, 6, layers=2, bidirectional=True), x)
    values = json.loads(diagnosis.to_json())
    assert values == json.loads(json.dumps(diagnosis.to_dict()))
    assert [finding["name"] for finding in values["findings"]] == [finding.name for finding in diagnosis.findings]
    assert len(values["parts"][0]["gradients"]) == 4
    summary = diagnosis.summary()
    assert summary["findings"] == {finding.title: finding.severity for finding in diagnosis.findings}
    assert repr(diagnosis).startswith("<Diagnosis: Stack, ")
    with pytest.raises(KeyError, match="there is no finding 'sleep'"):
        diagnosis.find("sleep")
    pictures = diagnosis.draw(tmp_path, suffix=".svg")
    assert [path.name for path in pictures] == [f"{finding.name}_layer.svg" for finding in diagnosis.findings]
    assert all(path.stat().st_size > 5000 for path in pictures)


def test_the_report_names_findings_and_layers(x: Tensor) -> None:
    lines = str(seqloom.doctor(scaled_elman(0.5), x, loss=last_output)).splitlines()
    assert lines[0] == "Recurrent: 1 problem, 3 healthy"
    assert "✗ problem: memory (layer)" in lines
    assert lines[-1].split()[:4] == ["layer", "layer", "1", "forward"]


def test_a_loss_that_is_not_finite_is_a_problem(x: Tensor) -> None:
    diagnosis = seqloom.doctor(scaled_elman(1.0), x, loss=lambda result: result[0].sum() * math.inf)
    assert diagnosis.severity == "problem"
    assert "not a finite number" in diagnosis.findings[0].verdict


@pytest.mark.parametrize(
    ("model", "batch", "options", "message"),
    [
        ("runs/tag", None, {}, "expected a layer, an nn.Module or a loaded model, found a str"),
        (nn.Identity(), torch.zeros(2, 3, 4), {"targets": 0}, "targets must be at least 1"),
        (nn.Identity(), torch.zeros(2, 3, 4), {"loss": lambda _: "low"}, "loss returned a str, expected a tensor"),
        (nn.Identity(), torch.zeros(2, 3, dtype=torch.long), {}, "pass loss"),
        (nn.LSTM(3, 4), torch.zeros(2, 3), {}, "a tensor of three dimensions"),
    ],
)
def test_wrong_arguments(model: Any, batch: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        seqloom.doctor(model, batch, **options)


def test_a_model_without_sequences_has_nothing_to_measure() -> None:
    diagnosis: Diagnosis = seqloom.doctor(nn.Linear(3, 2), torch.randn(5, 3))
    assert diagnosis.findings == []
    assert "no recurrent layer" in diagnosis.notes[0]
