"""A network and an n-gram model that choose the units of a source together (Rao et al. 2015)."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.data.batch import Padded
from seqloom.layers.layer import Memory
from seqloom.models.encoder import Encoder
from seqloom.models.joint_ngram.alignment import Alignment
from seqloom.models.joint_ngram.joint_ngram import JointNGramDecoder, LatticeModel
from seqloom.models.joint_ngram.unit_ngram import UnitNGram, UnitScores

NGRAM_WEIGHT, NETWORK_WEIGHT = 0.5, 0.25
"""Factors of the log-probabilities of both. The sum is less than 1, since the models repeat each other.

They were near the best for English, French and Korean words.
"""
UNIT_SCORES = "unit_log_probabilities"


class Tables(nn.Module):
    """Tables as buffers, in folders named after the parts of their names."""


class TableShapes(ConfigSection):
    """The shapes of the tables of units and n-grams; the tables themselves are part of the weights of a model."""

    shapes: dict[str, tuple[int, ...]]
    chunks: int = Field(ge=1)  # number of different chunks
    initial: Any = Field(None, exclude=True, repr=False)  # tensors by name; None: they will be loaded

    @classmethod
    def estimate(cls, aligned: Alignment, *, order: int, sources: int, end: int) -> Self:
        """The tables of aligned pairs."""
        estimated = UnitNGram.estimate(aligned, order=order, sources=sources, end=end)
        tensors = estimated.tensors() | {UNIT_SCORES: torch.from_numpy(aligned.log_probabilities).float()}
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        return cls(shapes=shapes, chunks=estimated.chunk_count, initial=tensors)

    def build(self) -> "Tables":
        """The tables as buffers of a module."""
        tensors = self.initial or {
            name: torch.zeros(shape, dtype=_type_of(name)) for name, shape in self.shapes.items()
        }
        module = Tables()
        for name, tensor in tensors.items():
            folder, _, last = name.rpartition(".")
            if folder not in dict(module.named_modules()):
                module.add_module(folder, Tables())
            module.get_submodule(folder).register_buffer(last, tensor.clone())
        return module


def _type_of(name: str) -> torch.dtype:
    is_score = name == UNIT_SCORES or name.startswith(("log_probabilities.", "log_backoffs."))
    return torch.float32 if is_score else torch.int64


class Candidates(NamedTuple):
    """The units of all source tokens of a batch, one after the other."""

    log_probs: Tensor  # (N,)
    offsets: Tensor  # (B, S): unit u of token s is at offsets[s] + u
    counts: Tensor  # (B, S)
    places: Tensor  # (N,), the source token of each, of B × S


class HybridTranslator(LatticeModel):
    """A network that reads the whole source and scores the chunk of each token, and an n-gram model of the units.

    The score of an alignment is the weighted sum of its log-probabilities according to both; that of a target is the
    sum over all of its alignments.
    """

    def __init__(
        self,
        network: Encoder,
        tables: TableShapes,
        *,
        sources: int,  # sizes of the vocabularies
        targets: int,
        end: int,
        order: int,
    ) -> None:
        super().__init__()
        self.network = network
        self.output = nn.Linear(network.size, tables.chunks)
        self.tables = tables.build()
        self.decoder = JointNGramDecoder(targets)
        self._sizes = {"sources": sources, "targets": targets, "end": end, "order": order}
        self._units: UnitNGram | None = None
        if tables.initial:
            self._read_tables()

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **options: Any) -> Any:
        result = super().load_state_dict(state_dict, *args, **options)
        self._read_tables()
        return result

    def _read_tables(self) -> None:
        tensors = {name: tensor.cpu() for name, tensor in self.tables.state_dict().items()}
        scores = tensors.pop(UNIT_SCORES, torch.zeros(0))
        units = UnitNGram.from_tensors(tensors, **self._sizes)
        if scores.shape != (len(units.units),):
            raise ValueError(f"{UNIT_SCORES}: expected one value for each of {len(units.units)} units")
        if units.chunk_count != self.output.out_features:
            raise ValueError(f"expected units with {self.output.out_features} different chunks")
        self._units, self._unit_scores = units, scores.double().numpy()

    @property
    def units(self) -> UnitNGram:
        """The units and their n-gram model."""
        if self._units is None:
            raise ValueError("the tables of the model have not been loaded yet")
        return self._units

    def candidates(
        self,
        values: Tensor,  # (B, S, D), outputs of the network
        inputs: Tensor,  # (B, S)
    ) -> "Candidates":
        """The units of each source token, with a softmax over them."""
        device, tokens = inputs.device, inputs.reshape(-1)
        first_units = torch.from_numpy(self.units.first_units).to(device)
        counts = first_units[tokens + 1] - first_units[tokens]
        offsets = counts.cumsum(0) - counts - first_units[tokens]
        places = torch.arange(len(tokens), device=device).repeat_interleave(counts)
        units = torch.arange(len(places), device=device) - offsets[places]
        chunks = torch.from_numpy(self.units.chunk_numbers).to(device)[units]
        logits: Tensor = self.output(values).flatten(0, 1)[places, chunks]
        largest = logits.new_full((len(tokens),), -torch.inf).scatter_reduce(0, places, logits.detach(), "amax")
        shifted = logits - largest[places]
        sums = logits.new_zeros(len(tokens)).index_add(0, places, shifted.exp())
        return Candidates(shifted - sums[places].log(), offsets.view_as(inputs), counts.view_as(inputs), places)

    def encoder(self, inputs: Tensor, mask: Tensor) -> Memory:  # (B, S), (B, S)
        """The outputs of the network, and the lattices of the sources as the state of the memory, on the CPU."""
        values = self.network(inputs, mask).values
        scores, offsets, *_ = (part.detach().cpu() for part in self.candidates(values, inputs))
        scored = UnitScores(NETWORK_WEIGHT * scores, offsets, NGRAM_WEIGHT)
        return Memory(values.cpu(), mask.cpu(), self.units.lattices(inputs.cpu(), mask.cpu(), scored))

    def alignment_loss(
        self,
        inputs: Padded,  # (B, S)
        target: Padded,  # (B, T), with the end
        *,
        smoothing: float = 0.0,
    ) -> Tensor:  # ()
        """The network's negative log-probability of the best alignments, summed.

        Of pairs that cannot be aligned by known units, all tokens are equally probable.
        """
        units, impossible = self.align_units(inputs, target)
        real = units >= 0
        log_probs, offsets, counts, places = self.candidates(self.network(*inputs).values, inputs.values)
        chosen = log_probs[(offsets + units)[real]].sum()
        total: Tensor = impossible * math.log(self.decoder.tokens) - chosen
        if not smoothing:
            return total
        sums = log_probs.new_zeros(units.numel()).index_add(0, places, log_probs).view_as(units)
        return total + smoothing * (chosen - (sums[real] / counts[real]).sum())

    def align_units(self, inputs: Padded, target: Padded) -> tuple[Tensor, int]:
        """The units (B, S) of the best alignments, -1: none, and how many tokens the targets without one have."""
        from seqloom.kernels.joint_ngram import alignment as kernel  # importing numba takes 0.5 s

        aligned = np.full(inputs.values.shape, kernel.EMPTY)
        impossible = 0
        sources, targets = (part.values.cpu().numpy() for part in (inputs, target))
        tables = self.units.first_units, self.units.chunks, self._unit_scores
        sizes = zip(inputs.lengths.tolist(), target.lengths.tolist(), strict=True)
        for row, (length, size) in enumerate(sizes):
            texts = sources[row, : length - 1], targets[row, : size - 1]
            if not kernel.align_units(*texts, *tables, aligned[row, : length - 1]):
                impossible += size
        return torch.from_numpy(aligned).to(inputs.values.device), impossible
