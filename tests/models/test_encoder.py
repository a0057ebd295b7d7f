"""Encoders: the layers of a configuration, causality, dropout."""

from typing import Any

import pytest
import torch
from tests.contracts.registry import make_mask, noise, randomize
from torch import Tensor, nn

from seqloom.cells import GRU, LSTM
from seqloom.layers import Bidirectional, Recurrent, Stack, VariationalDropout
from seqloom.layers.convolution import Convolution
from seqloom.models.encoder import Encoder, PrenetConfig, RecurrenceConfig, build_stack


def build(prenet: PrenetConfig, recurrence: RecurrenceConfig, **options: Any) -> nn.Module:
    layer = build_stack(prenet, recurrence, 3, **options)
    randomize(layer)
    return layer.eval()


def test_the_prenet_comes_before_the_recurrence() -> None:
    layer = build(
        PrenetConfig(layers=2, size=6, window=3, activation="tanh"), RecurrenceConfig(cell="gru", hidden_size=4)
    )
    x, mask = noise(2, 5, 3), make_mask([5, 2], 5)
    expected = x
    assert isinstance(layer, Stack)
    for part in layer.layers:
        expected, _ = part(expected, mask)
    assert torch.equal(layer(x, mask)[0], expected)
    assert [type(part) for part in layer.layers] == [Convolution, Convolution, Recurrent]
    assert isinstance(layer.layers[2].cell, GRU)
    assert layer.output_size == 4


@pytest.mark.parametrize(("connection", "size"), [("residual", 6), ("highway", 6), ("dense", 6)])
def test_connections_of_the_prenet(connection: Any, size: int) -> None:
    prenet = PrenetConfig(layers=2, size=6, window=3, activation="tanh", connection=connection)
    whole = build(prenet, RecurrenceConfig(cell="gru", hidden_size=4))
    assert isinstance(whole, Stack)
    front, recurrent = whole.layers
    assert isinstance(front, Stack)
    assert isinstance(recurrent, Recurrent)
    x, mask = noise(2, 5, 3), make_mask([5, 2], 5)
    expected = x
    for layer, combine in zip(front.layers, front.connections, strict=True):
        expected = combine(expected, layer(expected, mask)[0])
    assert front.connection == connection
    assert front.output_size == recurrent.input_size == size
    assert torch.equal(front(x.masked_fill(~mask.unsqueeze(-1), 0), mask)[0][mask], expected[mask])


def test_slopes_of_the_prenet() -> None:
    for activation, slope, expected in (
        ("leaky_relu", {"negative_slope": 0.3}, -0.6),
        ("elu", {"elu_alpha": 2}, -1.729),
    ):
        settings: dict[str, Any] = {"layers": 1, "size": 1, "activation": activation, **slope}
        layer = build_stack(PrenetConfig(**settings), RecurrenceConfig(layers=0), 1)
        nn.init.ones_(layer.get_parameter("linear.weight"))
        nn.init.zeros_(layer.get_parameter("linear.bias"))
        assert layer(torch.tensor([[[-2.0]]]))[0].item() == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("causal", [True, False])
def test_causal(causal: bool) -> None:
    layer = build(
        PrenetConfig(layers=2, size=6, window=3, activation="tanh"), RecurrenceConfig(hidden_size=4), causal=causal
    )
    x = noise(1, 7, 3).requires_grad_()
    outputs, _ = layer(x)
    (gradient,) = torch.autograd.grad(outputs[0, 3].sum(), x)
    assert (gradient[0].abs().sum(dim=1) != 0).tolist() == [True] * 4 + [not causal] * 2 + [False]


@pytest.mark.parametrize(
    ("prenet", "recurrence", "kind", "size"),
    [
        (PrenetConfig(), RecurrenceConfig(hidden_size=4), Recurrent, 4),
        (PrenetConfig(), RecurrenceConfig(hidden_size=4, bidirectional=True), Bidirectional, 8),
        (PrenetConfig(), RecurrenceConfig(hidden_size=4, layers=2), Stack, 4),
        (PrenetConfig(layers=1, size=6), RecurrenceConfig(layers=0), Convolution, 6),
        (PrenetConfig(), RecurrenceConfig(layer_factory=LSTM, hidden_size=5), Recurrent, 5),
    ],
)
def test_layers_of_a_configuration(prenet: PrenetConfig, recurrence: RecurrenceConfig, kind: type, size: int) -> None:
    layer = build_stack(prenet, recurrence, 3)
    assert type(layer) is kind
    assert layer.output_size == size


def test_custom_layer() -> None:
    layer = build(PrenetConfig(layers=1, size=6), RecurrenceConfig(layer_factory=lambda size: nn.Linear(size, 2)))
    x = noise(2, 5, 3)
    assert isinstance(layer, Stack)
    linear: nn.Module = layer.layers[1].get_submodule("module")
    assert torch.equal(layer(x)[0], linear(layer.layers[0](x)[0]))


def test_options_reach_the_layers() -> None:
    recurrence = RecurrenceConfig(
        cell="elman", hidden_size=4, layers=2, dropout=0.5, variational_dropout=True, options={"activation": "relu"}
    )
    layer = build_stack(PrenetConfig(), recurrence, 3)
    assert isinstance(layer, Stack)
    assert isinstance(layer.dropout, VariationalDropout)
    randomize(layer)
    layer.eval()
    assert bool((layer(noise(2, 5, 3))[0] >= 0).all())


@pytest.mark.parametrize(
    ("prenet", "recurrence", "message"),
    [
        (PrenetConfig(), RecurrenceConfig(layers=0), "set layers or prenet.layers to at least 1"),
        (PrenetConfig(), RecurrenceConfig(custom_layer="mine"), "the custom layer mine: pass it again"),
        (
            PrenetConfig(),
            RecurrenceConfig(cell="elman", options={"activaton": "relu"}),
            "has no option 'activaton'; did you mean 'activation'",
        ),
        (PrenetConfig(), RecurrenceConfig(options={"layers": 3}), "lstm has no option 'layers'"),
    ],
)
def test_invalid_configurations_are_rejected(prenet: PrenetConfig, recurrence: RecurrenceConfig, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_stack(prenet, recurrence, 3)


def test_unknown_cells_are_rejected_with_a_suggestion() -> None:
    with pytest.raises(ValueError, match=r'did you mean "lstm"\? \(allowed: coupled, elman, gru, .*lstm, '):
        RecurrenceConfig(cell="lstn")
    with pytest.raises(ValueError, match=r'unknown cell "a:b" \(allowed: coupled, '):
        RecurrenceConfig(cell="a:b")


class Double(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return 2 * inputs


def test_an_encoder_returns_a_memory() -> None:
    layer = build_stack(PrenetConfig(), RecurrenceConfig(hidden_size=4), 3).double()
    encoder = Encoder(Double(), layer).eval()
    x, mask = noise(2, 5, 3), make_mask([5, 2], 5)
    memory = encoder(x, mask)
    expected, state = layer(2 * x, mask)
    assert torch.equal(memory.values, expected)
    assert torch.equal(memory.mask, mask)
    assert torch.equal(memory.state.hidden, state.hidden)
    further = encoder(x, mask, memory.state)
    assert torch.equal(further.values, layer(2 * x, mask, state)[0])
    assert encoder.size == 4


@pytest.mark.parametrize("variational", [True, False])
def test_dropout_on_the_output_of_an_encoder(variational: bool) -> None:
    torch.manual_seed(0)
    encoder = Encoder(
        nn.Identity(),
        build_stack(PrenetConfig(), RecurrenceConfig(hidden_size=40), 3),
        dropout=0.5,
        variational=variational,
    )
    randomize(encoder, dtype=torch.float32)
    x, mask = noise(2, 5, 3, dtype=torch.float32), make_mask([5, 5], 5)
    dropped = encoder(x, mask).values
    kept = dropped != 0
    assert bool((kept == kept[:, :1]).all()) == variational
    torch.testing.assert_close(dropped[kept], 2 * encoder.eval()(x, mask).values[kept])


def test_recurrent_options_are_rejected_for_transformers() -> None:
    with pytest.raises(ValueError, match=r"zoneout is 0\.1, which applies to recurrent layers only"):
        build_stack(PrenetConfig(), RecurrenceConfig(cell="transformer", zoneout=0.1), 8)
    mixed = build_stack(PrenetConfig(), RecurrenceConfig(cell=("gru", "transformer"), hidden_size=8, zoneout=0.1), 8)
    assert mixed.output_size == 8
