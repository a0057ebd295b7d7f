import pytest
import torch
from tests.contracts.registry import noise
from torch import nn

from seqloom import cells
from seqloom.cells import GRU, LSTM, Cell, Elman, Peephole, RecurrentDropout, Zoneout
from seqloom.layers import Bidirectional, Recurrent, Stack, VariationalDropout
from seqloom.layers.build import names, recurrent
from seqloom.layers.connection import CONNECTIONS


def test_every_cell_has_the_name_of_its_file() -> None:
    assert names() == {
        "coupled": cells.Coupled,
        "elman": Elman,
        "gru": GRU,
        "layer_norm_gru": cells.LayerNormGRU,
        "layer_norm_lstm": cells.LayerNormLSTM,
        "lstm": LSTM,
        "peephole": Peephole,
    }


@pytest.mark.parametrize("name", names())
def test_one_layer_is_a_recurrent_layer(name: str) -> None:
    layer = recurrent(name, 3, 4)
    assert isinstance(layer, Recurrent)
    assert type(layer.cell) is names()[name]
    assert (layer.input_size, layer.output_size, layer.reverse) == (3, 4, False)


def test_a_cell_class_is_as_good_as_a_name() -> None:
    torch.manual_seed(0)
    by_name = recurrent("gru", 3, 4, reset="after", reverse=True)
    torch.manual_seed(0)
    by_class = recurrent(GRU, 3, 4, reset="after", reverse=True)
    x = noise(2, 5, 3, dtype=torch.float32)
    assert torch.equal(by_name(x)[0], by_class(x)[0])
    assert isinstance(by_class, Recurrent)
    assert by_class.reverse
    assert isinstance(by_class.cell, GRU)
    assert by_class.cell.reset == "after"


@pytest.mark.parametrize("connect", CONNECTIONS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_layers_of_fitting_sizes_are_stacked(connect: str, bidirectional: bool) -> None:
    layer = recurrent("lstm", 3, 4, layers=3, bidirectional=bidirectional, connect=connect, dropout=0.3)
    assert isinstance(layer, Stack)
    width = 8 if bidirectional else 4
    sizes = [3, 3 + width, 3 + 2 * width] if connect == "dense" else [3, width, width]
    assert [part.input_size for part in layer.layers] == sizes
    assert {type(part) for part in layer.layers} == {Bidirectional if bidirectional else Recurrent}
    assert layer.connect == connect
    assert isinstance(layer.dropout, nn.Dropout)
    assert layer.dropout.p == 0.3
    outputs, _ = layer(noise(2, 5, 3, dtype=torch.float32))
    assert outputs.shape == (2, 5, width)


def test_one_layer_may_have_a_connection() -> None:
    layer = recurrent("lstm", 4, 4, connect="residual").double()
    x = noise(2, 5, 4)
    assert isinstance(layer, Stack)
    assert torch.equal(layer(x)[0], layer.layers[0](x)[0] + x)


def test_the_kinds_of_dropout_are_where_they_belong() -> None:
    layer = recurrent("lstm", 3, 4, layers=2, dropout=0.1, variational=True, zoneout=0.2, recurrent_dropout=0.3)
    assert isinstance(layer, Stack)
    assert isinstance(layer.dropout, VariationalDropout)
    assert layer.dropout.rate == 0.1
    for part in layer.layers:
        zoneout = part.get_submodule("cell")
        assert isinstance(zoneout, Zoneout)
        assert isinstance(zoneout.cell, RecurrentDropout)
        assert isinstance(zoneout.cell.cell, LSTM)
        assert (zoneout.rate, zoneout.cell.rate) == (0.2, 0.3)


def test_options_go_to_the_cell() -> None:
    layer = recurrent("peephole", 3, 4, peepholes=("output",), bias=False)
    assert {name for name, _ in layer.named_parameters()} == {
        "cell.input.weight",
        "cell.recurrent.weight",
        "cell.peepholes.output",
    }


@pytest.mark.parametrize(("name", "near"), [("lsmt", "lstm"), ("LSTM", "lstm"), ("peephole_lstm", "peephole")])
def test_an_unknown_name_is_refused_with_the_nearest_and_all(name: str, near: str) -> None:
    known = "coupled, elman, gru, layer_norm_gru, layer_norm_lstm, lstm, peephole"
    with pytest.raises(ValueError, match=f"cell is '{name}': did you mean '{near}'. Wanted one of {known}"):
        recurrent(name, 3, 4)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="layers must be at least 1, got 0"):
        recurrent("lstm", 3, 4, layers=0)
    with pytest.raises(ValueError, match="bidirectional and reverse are both True"):
        recurrent("lstm", 3, 4, bidirectional=True, reverse=True)
    with pytest.raises(ValueError, match="connect is 'ladder', expected one of"):
        recurrent("lstm", 3, 4, connect="ladder")


def test_a_cell_of_the_user_will_do() -> None:
    class Mine(Elman):
        pass

    layer = recurrent(Mine, 3, 4, layers=2)
    assert isinstance(layer, Stack)
    cell: nn.Module = layer.layers[1].get_submodule("cell")
    assert isinstance(cell, Cell)
    assert type(cell) is Mine
