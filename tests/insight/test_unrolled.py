"""Unrolled networks: layers, steps and what flows between them, counted by hand; drawing changes nothing."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import seqloom
from seqloom.insight.plotting import plot_theme
from seqloom.insight.theme import THEMES
from seqloom.insight.unrolled import INPUT, OUTPUT, Node, UnrolledNetwork, unroll
from seqloom.insight.unrolled_plot import draw_unrolled

STEPS = 3


def unrolled(layer: nn.Module, *, steps: int = STEPS, outputs: int = STEPS, **options: Any) -> UnrolledNetwork:
    x = torch.randn(1, steps, 4, generator=torch.Generator().manual_seed(0))
    names = {"": ["a", "b", "c"]}
    results = {"": [str(number) for number in range(outputs)]}
    return unroll(layer, lambda: layer(x), inputs=names, outputs=results, **options)


def counts(network: UnrolledNetwork) -> Counter[str]:
    return Counter(edge.kind for edge in network.edges())


def test_a_stack_passes_its_states_from_step_to_step() -> None:
    network = unrolled(seqloom.recurrent("lstm", 4, 5, layers=2))
    assert [(layer.kind, layer.flow, layer.level, layer.steps) for layer in network.layers] == [
        ("LSTM", "forward", 1, STEPS),
        ("LSTM", "forward", 2, STEPS),
    ]
    assert counts(network) == {"input": 2 * STEPS, "forward": 2 * (STEPS - 1), "output": STEPS}
    edges = network.edges()
    assert (Node("", INPUT, 1), Node("", 0, 1), "input") in edges
    assert (Node("", 0, 1), Node("", 0, 2), "forward") in edges
    assert (Node("", 1, 2), Node("", OUTPUT, 2), "output") in edges


def test_directions_are_one_level_and_each_reads_both_below() -> None:
    network = unrolled(seqloom.recurrent("gru", 4, 5, layers=2, bidirectional=True), chained=True)
    assert [layer.level for layer in network.layers] == [1, 1, 2, 2]
    assert counts(network) == {
        "input": 2 * STEPS + 4 * STEPS,
        "forward": 2 * (STEPS - 1),
        "backward": 2 * (STEPS - 1),
        "output": 2 * STEPS,
        "chain": STEPS - 1,
    }
    assert (Node("", 1, 2), Node("", 1, 1), "backward") in network.edges()


@pytest.mark.parametrize(("pooling", "expected"), [("last", 2), ("ends", 2), ("mean", 2 * STEPS), ("max", 2 * STEPS)])
def test_pooling_reads_the_last_states_or_all(pooling: str, expected: int) -> None:
    network = unrolled(seqloom.recurrent("gru", 4, 5, bidirectional=True), outputs=1, pooling=pooling)
    assert counts(network)["output"] == expected
    if expected == 2:
        starts = {edge.start for edge in network.edges() if edge.kind == "output"}
        assert starts == {Node("", 0, STEPS - 1), Node("", 1, 0)}  # the backward layer ends at the first step


def test_residual_connections_are_edges_beside_the_layer() -> None:
    network = unrolled(seqloom.recurrent("gru", 4, 4, layers=3, connection="residual"))
    assert counts(network)["skip"] == 2 * STEPS
    assert {layer.connection for layer in network.layers} == {"residual"}


def test_attention_reads_all_steps_or_those_until_now() -> None:
    for is_causal, expected in ((False, STEPS * (STEPS - 1)), (True, STEPS * (STEPS - 1) // 2)):
        network = unrolled(seqloom.transformer(4, 8, layers=1, heads=2, causal=is_causal))
        assert counts(network)["attention"] == expected


def test_results_are_not_changed_and_unknown_names_are_numbers(tmp_path: Path) -> None:
    layer = seqloom.recurrent("lstm", 4, 5)
    x = torch.randn(1, 12, 4)
    before = layer(x)[0]
    network = unroll(layer, lambda: layer(x), inputs={}, outputs={})
    assert torch.equal(layer(x)[0], before)
    assert network.inputs[""] == [str(number) for number in range(1, 13)]
    data = network.to_dict()
    assert len(data["edges"]) == 12 + 11
    for theme in THEMES:
        with plot_theme(theme):
            draw_unrolled(network, tmp_path / f"{theme}.svg")
    assert "… 12" in (tmp_path / "light.svg").read_text()
