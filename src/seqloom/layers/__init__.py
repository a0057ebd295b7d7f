"""Layers: sequence to sequence. The shortcut that builds them by name is in ``build``."""

from seqloom.layers.bidirectional import Bidirectional
from seqloom.layers.dropout import Variational
from seqloom.layers.exchange import from_torch, to_torch
from seqloom.layers.layer import Layer
from seqloom.layers.recurrent import Recurrent
from seqloom.layers.stack import Stack

__all__ = ["Bidirectional", "Layer", "Recurrent", "Stack", "Variational", "from_torch", "to_torch"]
