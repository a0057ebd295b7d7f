"""n-gram models of units, and the lattices of all targets that the units of a source can give."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.decoding.frames.language_models import build_automaton
from seqloom.kernels.joint_ngram import EPSILON
from seqloom.models.joint_ngram.alignment import Alignment
from seqloom.models.ngram.kneser_ney import estimate
from seqloom.models.ngram.ngram import Integers, NGram

START, END, OFFSET = 0, 1, 2
"""Words of the n-gram model: before a text, after it, and the first unit."""
NODE_PRUNING, ARC_PRUNING = 1e-3, 1e-4
"""What is pruned from a lattice: nodes by their probability relative to the best, arcs by their posterior."""


class Lattices(NamedTuple):
    """The arcs of R lattices (see ``kernels.joint_ngram.lattice``)."""

    sizes: Tensor  # (R,), their numbers of arcs
    origins: Tensor  # (R, A)
    destinations: Tensor
    labels: Tensor
    positions: Tensor  # in the source
    weights: Tensor


class UnitScores(NamedTuple):
    """Further scores of the units of each source token, which do not depend on the units before."""

    scores: Tensor  # (N,), of the units of all tokens, one after the other: added to the logarithms
    offsets: Tensor  # (B, S): that of unit u at token s is scores[offsets[s] + u]
    ngram_weight: float  # factor of the logarithms of the n-gram model


class UnitNGram:
    """Units, sorted by their source token, and the n-gram model of their sequences."""

    def __init__(
        self,
        units: Integers,  # (U, 1 + B): a source token, and its target tokens followed by EPSILON
        ngram: NGram,
        *,
        sources: int,  # size of the source vocabulary
        end: int,  # end token of both vocabularies
    ) -> None:
        self.units, self.ngram, self.end = units, ngram, end
        self._automaton = build_automaton(ngram)
        self.first_units: Integers = np.searchsorted(units[:, 0], np.arange(sources + 1))
        self.chunks: Integers = np.ascontiguousarray(units[:, 1:])
        _, numbers = np.unique(self.chunks, axis=0, return_inverse=True)
        self.chunk_numbers: Integers = numbers.reshape(-1)  # of each unit

    @property
    def chunk_count(self) -> int:
        """The number of different chunks."""
        return int(self.chunk_numbers.max(initial=-1)) + 1

    @classmethod
    def estimate(cls, aligned: Alignment, *, order: int, sources: int, end: int) -> Self:
        """The n-gram model of aligned pairs."""
        texts = ((text + OFFSET).tolist() for text in aligned.texts)
        ngram = estimate(texts, order=order, start=START, end=END, vocabulary=len(aligned.units) + OFFSET)
        return cls(aligned.units, ngram, sources=sources, end=end)

    def tensors(self) -> dict[str, Tensor]:
        """The units and the n-gram model as tensors by name."""
        return {"units": torch.from_numpy(self.units), **self.ngram.tensors()}

    @classmethod
    def from_tensors(
        cls,
        tensors: Mapping[str, Tensor],
        *,
        sources: int,  # sizes of the vocabularies
        targets: int,
        order: int,
        end: int,
    ) -> Self:
        """The model from its ``tensors``; ValueError if they contradict each other."""
        others = dict(tensors)
        units = others.pop("units", None)
        if units is None or units.dtype != torch.int64 or units.ndim != 2 or units.shape[1] < 2:
            raise ValueError("units: expected a table of integers with at least two columns")
        ngram = NGram.from_tensors(others)
        table: Integers = units.contiguous().numpy()
        tokens, chunks = table[:, 0], table[:, 1:]
        if ngram.vocabulary != len(table) + OFFSET or (ngram.start, ngram.end, ngram.order) != (START, END, order):
            raise ValueError(f"expected an n-gram model of order {order} over {len(table)} units")
        in_order = (tokens[1:] >= tokens[:-1]).all() and ((tokens >= 0) & (tokens < sources)).all()
        first, *longer = ngram.log_probabilities
        if not all(np.isfinite(values).all() for values in (first[END:], *longer)):
            raise ValueError("expected finite log-probabilities")
        if not in_order or ((chunks < EPSILON) | (chunks >= targets)).any():
            raise ValueError("units: expected tokens of the vocabularies, sorted by their source token")
        return cls(table, ngram, sources=sources, end=end)

    def lattices(
        self,
        inputs: Tensor,  # (B, S), each source with its end
        mask: Tensor,  # (B, S)
        others: UnitScores | None = None,
    ) -> Lattices:
        """All targets of each source."""
        node_of = np.full(len(self._automaton.ngram_words), -1, dtype=np.int32)  # of this call: threads share a model
        scores, offsets, weight = others or UnitScores(torch.zeros(0), torch.zeros_like(inputs), 1.0)
        rows = zip(inputs.numpy(), offsets.numpy(), mask.sum(dim=1).tolist(), strict=True)
        values = scores.double().numpy()
        arcs = [self._lattice(row[: size - 1], values, shifts, weight, node_of) for row, shifts, size in rows]
        sizes = torch.tensor([len(origins) for origins, *_ in arcs])
        parts = []
        for values, kind in zip(zip(*arcs, strict=True), (torch.int32,) * 4 + (torch.float64,), strict=True):
            part = torch.zeros(len(arcs), int(sizes.max()), dtype=kind)
            for row, value in zip(part, values, strict=True):
                row[: len(value)] = torch.from_numpy(value)
            parts.append(part)
        return Lattices(sizes, *parts)

    def _lattice(
        self,
        source: Integers,
        scores: NDArray[np.float64],
        offsets: Integers,
        ngram_weight: float,
        node_of: NDArray[np.int32],
    ) -> tuple[NDArray[Any], ...]:
        """The arcs of one source; tokens that occur in no unit stand for nothing."""
        from seqloom.kernels.joint_ngram import lattice as kernel  # importing numba takes 0.5 s

        (known,) = np.nonzero(self.first_units[source] < self.first_units[source + 1])
        start = 1 + START if self.ngram.order > 1 else 0
        units = source[known], self.first_units, OFFSET, scores, offsets[known], ngram_weight
        *arcs, first_arcs, forward = kernel.expand(*units, start, END, *self._automaton, node_of, NODE_PRUNING)
        origins, destinations, chosen, weights = arcs
        weights = kernel.condition(origins, destinations, weights, first_arcs, forward, ARC_PRUNING)
        *ends, positions, weights = kernel.spell(
            origins, destinations, chosen, weights, first_arcs, self.chunks, self.end
        )
        return *ends, np.append(known, len(source))[positions], weights
