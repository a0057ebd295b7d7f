"""Recurrent cells, one per file, named as in a configuration; ``wrapper`` adds zoneout or dropout to any of them."""

from seqloom.cells.cell import Cell
from seqloom.cells.coupled import Coupled
from seqloom.cells.elman import Elman
from seqloom.cells.gru import GRU
from seqloom.cells.layer_norm_gru import LayerNormGRU
from seqloom.cells.layer_norm_lstm import LayerNormLSTM
from seqloom.cells.lstm import LSTM
from seqloom.cells.peephole import Peephole
from seqloom.cells.wrapper import RecurrentDropout, Zoneout

__all__ = [
    "GRU",
    "LSTM",
    "Cell",
    "Coupled",
    "Elman",
    "LayerNormGRU",
    "LayerNormLSTM",
    "Peephole",
    "RecurrentDropout",
    "Zoneout",
]
