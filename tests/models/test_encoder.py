from typing import Any

import pytest
import torch
from pydantic import ValidationError
from tests.contracts.registry import make_mask, noise, randomize
from torch import Tensor, nn

from seqloom.cells import GRU, LSTM
from seqloom.layers import Bidirectional, Recurrent, Stack, VariationalDropout
from seqloom.layers.convolution import Convolution
from seqloom.models.encoder import Encoder, PrenetConfig, RecurrenceConfig, build_stack


def build(front: PrenetConfig, recurrence: RecurrenceConfig, **options: Any) -> nn.Module:
    layer = build_stack(front, recurrence, 3, **options)
    randomize(layer)
    return layer.eval()


def test_front_then_recurrence_is_one_after_the_other() -> None:
    layer = build(
        PrenetConfig(layers=2, size=6, window=3, activation="tanh"), RecurrenceConfig(cell="gru", hidden_size=4)
    )
    x, mask = noise(2, 5, 3), make_mask([5, 2], 5)
    wanted = x
    assert isinstance(layer, Stack)
    for part in layer.layers:
        wanted, _ = part(wanted, mask)
    assert torch.equal(layer(x, mask)[0], wanted)
    assert [type(part) for part in layer.layers] == [Convolution, Convolution, Recurrent]
    assert isinstance(layer.layers[2].cell, GRU)
    assert layer.output_size == 4


@pytest.mark.parametrize("causal", [True, False])
def test_causal_where_asked(causal: bool) -> None:
    layer = build(
        PrenetConfig(layers=2, size=6, window=3, activation="tanh"), RecurrenceConfig(hidden_size=4), causal=causal
    )
    x = noise(1, 7, 3).requires_grad_()
    outputs, _ = layer(x)
    (slope,) = torch.autograd.grad(outputs[0, 3].sum(), x)
    assert (slope[0].abs().sum(dim=1) != 0).tolist() == [True] * 4 + [not causal] * 2 + [False]


@pytest.mark.parametrize(
    ("front", "recurrence", "kind", "size"),
    [
        (PrenetConfig(), RecurrenceConfig(hidden_size=4), Recurrent, 4),
        (PrenetConfig(), RecurrenceConfig(hidden_size=4, bidirectional=True), Bidirectional, 8),
        (PrenetConfig(), RecurrenceConfig(hidden_size=4, layers=2), Stack, 4),
        (PrenetConfig(layers=1, size=6), RecurrenceConfig(layers=0), Convolution, 6),
        (PrenetConfig(), RecurrenceConfig(given=LSTM, hidden_size=5), Recurrent, 5),
    ],
)
def test_what_is_asked_for_is_built(front: PrenetConfig, recurrence: RecurrenceConfig, kind: type, size: int) -> None:
    layer = build_stack(front, recurrence, 3)
    assert type(layer) is kind
    assert layer.output_size == size


def test_a_layer_of_the_user_s_own() -> None:
    layer = build(PrenetConfig(layers=1, size=6), RecurrenceConfig(given=lambda size: nn.Linear(size, 2)))
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
    ("front", "recurrence", "message"),
    [
        (PrenetConfig(), RecurrenceConfig(layers=0), "there is nothing to train"),
        (PrenetConfig(), RecurrenceConfig(custom_layer="mine"), "the custom layer mine: pass it again"),
        (
            PrenetConfig(),
            RecurrenceConfig(cell="elman", options={"activaton": "relu"}),
            "has no option 'activaton': did you mean",
        ),
        (PrenetConfig(), RecurrenceConfig(options={"layers": 3}), "lstm has no option 'layers'"),
    ],
)
def test_what_cannot_be_built_is_refused(front: PrenetConfig, recurrence: RecurrenceConfig, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_stack(front, recurrence, 3)


def test_a_cell_that_does_not_exist_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ValidationError, match=r'did you mean "lstm"\? \(allowed: coupled, elman, gru, .*lstm, '):
        RecurrenceConfig(cell="lstn")
    with pytest.raises(ValidationError, match=r"there is no such cell \(allowed: coupled, "):
        RecurrenceConfig(cell="a:b")


class Double(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return 2 * inputs


def test_an_encoder_embeds_and_remembers() -> None:
    layer = build_stack(PrenetConfig(), RecurrenceConfig(hidden_size=4), 3).double()
    encoder = Encoder(Double(), layer).eval()
    x, mask = noise(2, 5, 3), make_mask([5, 2], 5)
    memory = encoder(x, mask)
    wanted, state = layer(2 * x, mask)
    assert torch.equal(memory.values, wanted)
    assert torch.equal(memory.mask, mask)
    assert torch.equal(memory.state.hidden, state.hidden)
    further = encoder(x, mask, memory.state)
    assert torch.equal(further.values, layer(2 * x, mask, state)[0])
    assert encoder.size == 4


@pytest.mark.parametrize("variational", [True, False])
def test_an_encoder_drops_parts_of_its_output_when_training(variational: bool) -> None:
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


def test_what_transformers_do_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match=r"zoneout is 0\.1, which is of recurrent layers"):
        build_stack(PrenetConfig(), RecurrenceConfig(cell="transformer", zoneout=0.1), 8)
    mixed = build_stack(PrenetConfig(), RecurrenceConfig(cell=("gru", "transformer"), hidden_size=8, zoneout=0.1), 8)
    assert mixed.output_size == 8
