"""Recurrent cells, one per file, named as in a configuration; ``wrapper`` adds zoneout or dropout to any of them."""

from seqloom.cells.cell import Cell
from seqloom.cells.coupled import Coupled
from seqloom.cells.elman import Elman
from seqloom.cells.gru import GRU
from seqloom.cells.ind_rnn import IndRNN
from seqloom.cells.layer_norm_gru import LayerNormGRU
from seqloom.cells.layer_norm_lstm import LayerNormLSTM
from seqloom.cells.lstm import LSTM
from seqloom.cells.mgu import MGU
from seqloom.cells.min_gru import MinGRU
from seqloom.cells.min_lstm import MinLSTM
from seqloom.cells.mogrifier_lstm import MogrifierLSTM
from seqloom.cells.peephole import Peephole
from seqloom.cells.slstm import SLSTM
from seqloom.cells.sru import SRU
from seqloom.cells.wrapper import RecurrentDropout, Zoneout

__all__ = [
    "GRU",
    "LSTM",
    "MGU",
    "SLSTM",
    "SRU",
    "Cell",
    "Coupled",
    "Elman",
    "IndRNN",
    "LayerNormGRU",
    "LayerNormLSTM",
    "MinGRU",
    "MinLSTM",
    "MogrifierLSTM",
    "Peephole",
    "RecurrentDropout",
    "Zoneout",
]
