"""Layers map a sequence to a sequence. ``build.recurrent`` builds the common arrangements by name."""

from seqloom.layers.dropout import VariationalDropout
from seqloom.layers.layer import Layer
from seqloom.layers.recurrent.bidirectional import Bidirectional
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack
from seqloom.layers.torch_conversion import from_torch, to_torch

__all__ = ["Bidirectional", "Layer", "Recurrent", "Stack", "VariationalDropout", "from_torch", "to_torch"]
