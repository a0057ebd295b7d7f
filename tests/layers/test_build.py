import pytest
import torch
from tests.contracts.registry import noise
from torch import nn

from seqloom import cells
from seqloom.cells import GRU, LSTM, Cell, Elman, Peephole, RecurrentDropout, Zoneout
from seqloom.layers import Bidirectional, Recurrent, Stack, VariationalDropout
from seqloom.layers.build import cell_classes, recurrent
from seqloom.layers.connection import CONNECTIONS


def test_every_cell_has_the_name_of_its_file() -> None:
    assert cell_classes() == {
        "coupled": cells.Coupled,
        "elman": Elman,
        "gru": GRU,
        "ind_rnn": cells.IndRNN,
        "layer_norm_gru": cells.LayerNormGRU,
        "layer_norm_lstm": cells.LayerNormLSTM,
        "lstm": LSTM,
        "mgu": cells.MGU,
        "min_gru": cells.MinGRU,
        "min_lstm": cells.MinLSTM,
        "mogrifier_lstm": cells.MogrifierLSTM,
        "peephole": Peephole,
        "slstm": cells.SLSTM,
        "sru": cells.SRU,
    }


@pytest.mark.parametrize("name", cell_classes())
def test_one_layer_is_a_recurrent_layer(name: str) -> None:
    layer = recurrent(name, 3, 4)
    assert isinstance(layer, Recurrent)
    assert type(layer.cell) is cell_classes()[name]
    assert (layer.input_size, layer.output_size, layer.reverse) == (3, 4, False)


def test_a_cell_class_works_like_its_name() -> None:
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


@pytest.mark.parametrize("connection", CONNECTIONS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_several_layers_are_stacked(connection: str, bidirectional: bool) -> None:
    layer = recurrent("lstm", 3, 4, layers=3, bidirectional=bidirectional, connection=connection, dropout=0.3)
    assert isinstance(layer, Stack)
    width = 8 if bidirectional else 4
    sizes = [3, 3 + width, 3 + 2 * width] if connection == "dense" else [3, width, width]
    assert [part.input_size for part in layer.layers] == sizes
    assert {type(part) for part in layer.layers} == {Bidirectional if bidirectional else Recurrent}
    assert layer.connection == connection
    assert isinstance(layer.dropout, nn.Dropout)
    assert layer.dropout.p == 0.3
    outputs, _ = layer(noise(2, 5, 3, dtype=torch.float32))
    assert outputs.shape == (2, 5, width)


def test_one_layer_may_have_a_connection() -> None:
    layer = recurrent("lstm", 4, 4, connection="residual").double()
    x = noise(2, 5, 4)
    assert isinstance(layer, Stack)
    assert torch.equal(layer(x)[0], layer.layers[0](x)[0] + x)


def test_each_kind_of_dropout_is_applied_in_its_place() -> None:
    layer = recurrent("lstm", 3, 4, layers=2, dropout=0.1, variational_dropout=True, zoneout=0.2, recurrent_dropout=0.3)
    assert isinstance(layer, Stack)
    assert isinstance(layer.dropout, VariationalDropout)
    assert layer.dropout.rate == 0.1
    for part in layer.layers:
        zoneout = part.get_submodule("cell")
        assert isinstance(zoneout, Zoneout)
        assert isinstance(zoneout.cell, RecurrentDropout)
        assert isinstance(zoneout.cell.cell, LSTM)
        assert (zoneout.rate, zoneout.cell.rate) == (0.2, 0.3)


def test_options_are_passed_to_the_cell() -> None:
    layer = recurrent("peephole", 3, 4, peepholes=("output",), bias=False)
    assert {name for name, _ in layer.named_parameters()} == {
        "cell.input.weight",
        "cell.recurrent.weight",
        "cell.peepholes.output",
    }


@pytest.mark.parametrize(("name", "near"), [("lsmt", "lstm"), ("LSTM", "lstm"), ("peephole_lstm", "peephole")])
def test_the_error_for_an_unknown_name_suggests_the_nearest(name: str, near: str) -> None:
    names = ", ".join(cell_classes())
    with pytest.raises(ValueError, match=f"cell is '{name}': did you mean '{near}'. Expected one of {names}"):
        recurrent(name, 3, 4)


def test_invalid_options_are_refused() -> None:
    with pytest.raises(ValueError, match="layers must be at least 1, got 0"):
        recurrent("lstm", 3, 4, layers=0)
    with pytest.raises(ValueError, match="bidirectional and reverse are both True"):
        recurrent("lstm", 3, 4, bidirectional=True, reverse=True)
    with pytest.raises(ValueError, match="connection is 'ladder', expected one of"):
        recurrent("lstm", 3, 4, connection="ladder")


def test_a_user_defined_cell_works() -> None:
    class Mine(Elman):
        pass

    layer = recurrent(Mine, 3, 4, layers=2)
    assert isinstance(layer, Stack)
    cell: nn.Module = layer.layers[1].get_submodule("cell")
    assert isinstance(cell, Cell)
    assert type(cell) is Mine
