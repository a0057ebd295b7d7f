"""A network and an n-gram model that choose the units of a source together (Rao et al. 2015)."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.data.batch import Padded
from seqloom.layers.layer import Memory
from seqloom.models.encoder import Encoder
from seqloom.models.joint_ngram.alignment import Alignment
from seqloom.models.joint_ngram.joint_ngram import JointNGramDecoder, LatticeModel
from seqloom.models.joint_ngram.unit_ngram import ChunkScores, UnitNGram

NGRAM_WEIGHT, NETWORK_WEIGHT = 0.5, 0.25
"""Factors of the log-probabilities of both. The sum is less than 1: the models repeat each other.

With English, French and Korean words, more or less of either has more errors.
"""
UNIT_SCORES = "unit_log_probabilities"


class Tables(nn.Module):
    """Tables as buffers, in folders named after the parts of their names."""


class UnitTables(ConfigSection):
    """The shapes of the tables of units and n-grams, which are part of the weights of a model."""

    shapes: dict[str, tuple[int, ...]]
    chunks: int = Field(ge=1)  # number of different chunks
    initial: Any = Field(None, exclude=True, repr=False)  # tensors by name; None: they will be loaded

    @classmethod
    def estimate(cls, aligned: Alignment, *, order: int, sources: int, end: int) -> Self:
        """The tables of aligned pairs."""
        estimated = UnitNGram.estimate(aligned, order=order, sources=sources, end=end)
        tensors = estimated.tensors() | {UNIT_SCORES: torch.from_numpy(aligned.log_probabilities).float()}
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        return cls(shapes=shapes, chunks=int(estimated.chunk_numbers.max()) + 1, initial=tensors)

    def build(self) -> "Tables":
        """The tables as buffers of a module."""
        tensors = self.initial or {name: torch.zeros(shape, dtype=_kind(name)) for name, shape in self.shapes.items()}
        module = Tables()
        for name, tensor in tensors.items():
            folder, _, last = name.rpartition(".")
            if folder not in dict(module.named_modules()):
                module.add_module(folder, Tables())
            module.get_submodule(folder).register_buffer(last, tensor.clone())
        return module


def _kind(name: str) -> torch.dtype:
    is_score = name == UNIT_SCORES or name.startswith(("log_probabilities.", "log_backoffs."))
    return torch.float32 if is_score else torch.int64


class _Loaded(NamedTuple):
    units: UnitNGram
    log_probabilities: NDArray[np.float64]  # of the units
    chunks_of: Tensor  # (V, C), whether a source token can stand for a chunk


class HybridTranslator(LatticeModel):
    """A network that reads the whole source and scores the chunk of each token, and an n-gram model of the units.

    The score of an alignment is the weighted sum of its log-probabilities according to both; that of a target is the
    sum over all of its alignments.
    """

    def __init__(
        self,
        network: Encoder,
        tables: UnitTables,
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
        self._loaded: _Loaded | None = None
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
        if scores.shape != (len(units.units),) or len(units.units) == 0:
            raise ValueError(f"{UNIT_SCORES}: expected one value for each of {len(units.units)} units")
        if int(units.chunk_numbers.max()) + 1 != self.output.out_features:
            raise ValueError(f"expected units with {self.output.out_features} different chunks")
        allowed = torch.zeros(self._sizes["sources"], self.output.out_features, dtype=torch.bool)
        allowed[units.units[:, 0], units.chunk_numbers] = True
        self._loaded = _Loaded(units, scores.double().numpy(), allowed)

    @property
    def loaded(self) -> "_Loaded":
        """What the tables hold."""
        if self._loaded is None:
            raise ValueError("the tables of the model have not been loaded yet")
        return self._loaded

    def chunk_log_probabilities(self, memory: Memory, inputs: Tensor) -> Tensor:  # (B, S) → (B, S, C)
        """Of the chunk of each source token, according to the network; uniform at tokens that occur in no unit."""
        allowed = self.loaded.chunks_of.to(inputs.device)[inputs]
        logits: Tensor = self.output(memory.values)
        allowed = allowed | ~allowed.any(dim=2, keepdim=True)
        return logits.masked_fill(~allowed, -torch.inf).log_softmax(dim=2)

    def encoder(self, inputs: Tensor, mask: Tensor) -> Memory:  # (B, S), (B, S)
        """The outputs of the network, and the lattices of the sources as the state of the memory."""
        memory = self.network(inputs, mask)
        scores = NETWORK_WEIGHT * self.chunk_log_probabilities(memory, inputs).detach().cpu()
        lattices = self.loaded.units.lattices(inputs.cpu(), mask.cpu(), ChunkScores(scores, NGRAM_WEIGHT))
        return Memory(memory.values, mask, lattices)

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
        chunks, impossible = self._chunks_of(inputs, target)
        real = chunks >= 0
        log_probs = self.chunk_log_probabilities(self.network(*inputs), inputs.values)[real]
        chosen = log_probs.gather(1, chunks[real].unsqueeze(1)).sum()
        total: Tensor = impossible * math.log(self.decoder.tokens) - chosen
        if not smoothing:
            return total
        possible = log_probs > -torch.inf
        spread = (log_probs.masked_fill(~possible, 0).sum(dim=1) / possible.sum(dim=1)).sum()
        return total + smoothing * (chosen - spread)

    def _chunks_of(self, inputs: Padded, target: Padded) -> tuple[Tensor, int]:
        """The number of the chunk of each source token (B, S), -1: none, and the tokens of targets without chunks."""
        from seqloom.kernels.joint_ngram import alignment as kernel  # importing numba takes 0.5 s

        units, scores, _ = self.loaded
        chunks = np.full(inputs.values.shape, -1)
        impossible = 0
        sources, targets = (part.values.cpu().numpy() for part in (inputs, target))
        sizes = zip(inputs.lengths.tolist(), target.lengths.tolist(), strict=True)
        for row, (length, size) in enumerate(sizes):
            texts = sources[row, : length - 1], targets[row, : size - 1]
            best = np.empty(length - 1, dtype=np.int64)
            if kernel.align_units(*texts, units.first_units, units.chunks, scores, best):
                chunks[row, : length - 1] = np.where(best >= 0, units.chunk_numbers[best], -1)
            else:
                impossible += size
        return torch.from_numpy(chunks).to(inputs.values.device), impossible
