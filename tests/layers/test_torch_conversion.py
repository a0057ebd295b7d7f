"""Layers against torch.nn with the same weights: outputs, states and gradients, with packed sequences for masks."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.registry import make_mask, noise, randomize
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seqloom.cells import GRU, LSTM, Coupled, Elman, Peephole, Zoneout
from seqloom.layers import Bidirectional, Layer, Recurrent, Stack, VariationalDropout, from_torch, to_torch
from seqloom.layers.build import recurrent

pytestmark = pytest.mark.sampled(4)

TorchModule = nn.LSTM | nn.GRU | nn.RNN
KINDS = ["lstm", "gru", "tanh", "relu"]
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def make(kind: str, *sizes: int, dtype: torch.dtype = torch.float64, **options: Any) -> TorchModule:
    """A module of torch.nn in eval mode, with random weights."""
    options = {"batch_first": True, "dtype": dtype} | options
    module: TorchModule
    if kind == "lstm":
        module = nn.LSTM(*(sizes or (3, 5)), **options)
    elif kind == "gru":
        module = nn.GRU(*(sizes or (3, 5)), **options)
    else:
        module = nn.RNN(*(sizes or (3, 5)), nonlinearity=kind, **options)
    randomize(module, dtype=dtype)
    return module.eval()


def run_torch(module: nn.RNNBase, x: Tensor, lengths: list[int]) -> tuple[Tensor, list[Tensor]]:
    """Outputs (B, T, ·), and the last states (layers and directions, B, H), hidden first."""
    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    outputs, state = module(packed)
    padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
    return padded, list(state) if isinstance(state, tuple) else [state]


def fields(state: Any) -> list[tuple[Tensor, ...]]:
    """The states of all layers and directions in the order of torch.nn."""
    if isinstance(state[0], Tensor):
        return [state]
    return [field for part in state for field in fields(part)]


def gradients(module: nn.Module, layer: Layer) -> list[tuple[Tensor, Tensor]]:
    """Pairs of gradients that should be equal: layer, torch module."""
    assert isinstance(module, nn.RNNBase)
    cells = [part.cell for part in layer.modules() if isinstance(part, Recurrent)]
    pairs = []
    for cell, weights in zip(cells, module.all_weights, strict=True):
        slopes = [weight.grad for weight in weights]
        rows = 2 * cell.hidden_size if isinstance(cell, GRU) else len(weights[1])
        for name, index, part in [
            ("input.weight", 0, slice(None)),
            ("recurrent.weight", 1, slice(rows)),
            ("candidate.weight", 1, slice(rows, None)),
            ("input.bias", 2, slice(None)),
            ("candidate.bias", 3, slice(rows, None)),
        ]:
            if name in dict(cell.named_parameters()):
                gradient, other = cell.get_parameter(name).grad, slopes[index]
                assert gradient is not None
                assert other is not None
                pairs.append((gradient, other[part]))
    return pairs


def check(module: TorchModule, layer: Layer, lengths: list[int], tolerance: float) -> None:
    dtype = next(module.parameters()).dtype
    module.zero_grad()
    layer.zero_grad()
    time = max(lengths) + 2
    mask = make_mask(lengths, time)
    x, other = (noise(len(lengths), time, 3, dtype=dtype).requires_grad_() for _ in range(2))
    outputs, state = layer(x, mask)
    expected, last = run_torch(module, other, lengths)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=tolerance)
    for index, field in enumerate(last):
        actual = torch.stack([part[index] for part in fields(state)])
        torch.testing.assert_close(actual, field, rtol=0, atol=tolerance)
    weights = noise(*outputs.shape, seed=3, dtype=dtype)
    for values, final in ((outputs, torch.stack([part[-1] for part in fields(state)])), (expected, last[-1])):
        torch.autograd.backward((values * weights).sum() + final.square().sum())
    for left, right in [(x.grad, other.grad), *gradients(module, layer)]:
        assert right is not None
        torch.testing.assert_close(left, right, rtol=0, atol=tolerance * max(1.0, right.abs().max().item()))


# Rounding over a few steps and layers: some hundred units in the last place at the most.
@EVERY_KIND
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (3, True)])
def test_conversions_in_both_directions_keep_outputs_states_and_gradients(
    kind: str, layers: int, bidirectional: bool, bias: bool, dtype: torch.dtype, tolerance: float
) -> None:
    module = make(kind, num_layers=layers, bidirectional=bidirectional, bias=bias, dtype=dtype)
    layer = from_torch(module)
    check(module, layer, [6, 1, 4], tolerance)
    check(to_torch(layer), layer, [6, 1, 4], tolerance)


@EVERY_KIND
@settings(max_examples=10)
@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=5))
def test_rows_of_any_length_agree_with_packed_sequences(kind: str, lengths: list[int]) -> None:
    module = make(kind, num_layers=2, bidirectional=True)
    check(module, from_torch(module), lengths, 1e-13)


@EVERY_KIND
def test_an_initial_state_agrees(kind: str) -> None:
    module = make(kind, num_layers=2, bidirectional=True)
    layer = from_torch(module)
    first, x = noise(2, 4, 3), noise(2, 3, 3, seed=1)
    _, state = layer(first)
    outputs, _ = layer(x, None, state)
    expected, _ = module(x, module(first)[1])
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-13)


@EVERY_KIND
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_a_round_trip_keeps_the_weights_bit_for_bit(kind: str, layers: int, bidirectional: bool, bias: bool) -> None:
    options: dict[str, Any] = {"reset": "after"} if kind == "gru" else {} if kind == "lstm" else {"activation": kind}
    name = kind if kind in ("lstm", "gru") else "elman"
    layer = recurrent(name, 3, 5, layers=layers, bidirectional=bidirectional, bias=bias, **options)
    randomize(layer, dtype=torch.float32)
    twin = from_torch(to_torch(layer))
    assert repr(twin) == repr(layer)
    for (left_name, left), (right_name, right) in zip(
        twin.state_dict().items(), layer.state_dict().items(), strict=True
    ):
        assert left_name == right_name
        assert torch.equal(left, right)


@EVERY_KIND
def test_dropout_mode_and_requires_grad_are_kept(kind: str) -> None:
    module = make(kind, num_layers=2, dropout=0.3, batch_first=False).train()
    for name in ("weight_hh_l0", "bias_ih_l1", "bias_hh_l1"):
        module.get_parameter(name).requires_grad_(False)
    layer = from_torch(module)
    assert isinstance(layer, Stack)
    assert isinstance(layer.dropout, nn.Dropout)
    assert layer.dropout.p == 0.3
    assert all(part.training for part in layer.modules())
    assert not layer.get_parameter("layers.0.cell.recurrent.weight").requires_grad
    assert not layer.get_parameter("layers.1.cell.input.bias").requires_grad
    assert layer.get_parameter("layers.0.cell.input.bias").requires_grad
    assert layer.get_parameter("layers.1.cell.recurrent.weight").requires_grad
    assert {parameter.dtype for parameter in layer.parameters()} == {torch.float64}
    with torch.no_grad():
        back = to_torch(layer)
    assert back.dropout == 0.3
    assert back.training
    assert back.batch_first
    assert not back.weight_hh_l0.requires_grad
    assert not back.bias_ih_l1.requires_grad
    assert not back.bias_hh_l1.requires_grad
    assert back.weight_hh_l1.requires_grad
    assert not to_torch(layer.eval()).training


def test_the_conversion_uses_no_random_numbers() -> None:
    module = make("lstm")
    before = torch.get_rng_state()
    from_torch(module)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_weights_are_copies() -> None:
    module = make("lstm")
    layer = from_torch(module)
    expected = layer.get_parameter("cell.input.weight").clone()
    with torch.no_grad():
        module.get_parameter("weight_ih_l0").zero_()
    assert torch.equal(layer.get_parameter("cell.input.weight"), expected)


def test_unsupported_modules_are_refused() -> None:
    other: Any = nn.Linear(3, 5)
    with pytest.raises(ValueError, match="module has proj_size 2, expected 0"):
        from_torch(nn.LSTM(3, 5, proj_size=2))
    with pytest.raises(TypeError, match=r"module is Linear, expected nn.LSTM, nn.GRU or nn.RNN"):
        from_torch(other)


@pytest.mark.parametrize(
    ("layer", "error", "message"),
    [
        (Recurrent(Peephole(3, 5)), TypeError, "layer 0 has a Peephole cell, which torch.nn does not have"),
        (Recurrent(Coupled(3, 5)), TypeError, "layer 0 has a Coupled cell"),
        (Recurrent(Zoneout(LSTM(3, 5), 0.1)), TypeError, "layer 0 has a Zoneout cell"),
        (Recurrent(GRU(3, 5)), ValueError, "layer 0 is a GRU with reset='before', expected 'after'"),
        (Recurrent(Elman(3, 5, activation="elu")), ValueError, "activation='elu', expected 'tanh' or 'relu'"),
        (Recurrent(LSTM(3, 5), reverse=True), ValueError, "layer 0 has reverse=True, expected False"),
        (
            recurrent("lstm", 5, 5, layers=2, connection="residual"),
            ValueError,
            "connection is 'residual', expected 'plain'",
        ),
        (Stack([Recurrent(LSTM(3, 5))], dropout=VariationalDropout(0.1)), TypeError, "dropout is Variational"),
        (
            Stack([Recurrent(LSTM(3, 5)), Recurrent(LSTM(5, 4))]),
            ValueError,
            r"layer 1 is LSTM\(hidden_size=4, bias=True\), expected LSTM\(hidden_size=5, bias=True\) like layer 0",
        ),
        (Stack([Recurrent(LSTM(3, 5)), Recurrent(LSTM(5, 5, bias=False))]), ValueError, "layer 1 is LSTM.*bias=False"),
        (Stack([Recurrent(LSTM(3, 5)), Recurrent(Elman(5, 5))]), ValueError, r"layer 1 is RNN\(tanh, hidden_size=5"),
        (Stack([recurrent("lstm", 3, 4, bidirectional=True), Recurrent(LSTM(8, 4))]), ValueError, "layer 1 has 1 dir"),
        (Stack([Stack([Recurrent(LSTM(3, 5))])]), TypeError, "layer 0 is Stack, which torch.nn does not have"),
        (
            Bidirectional(Recurrent(LSTM(3, 5)), Recurrent(LSTM(3, 6), reverse=True)),
            ValueError,
            r"layer 0 is LSTM\(hidden_size=6, bias=True\), expected LSTM\(hidden_size=5",
        ),
    ],
)
def test_unsupported_layers_are_refused(layer: Layer, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        to_torch(layer)


def test_subclasses_are_refused() -> None:
    class Mine(LSTM):
        pass

    class Other(nn.LSTM):
        pass

    with pytest.raises(TypeError, match=r"has a Mine cell, which torch\.nn does not have"):
        to_torch(Recurrent(Mine(3, 5)))
    with pytest.raises(TypeError, match="module is Other, expected"):
        from_torch(Other(3, 5))
