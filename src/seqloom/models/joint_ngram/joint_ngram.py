"""Joint n-gram models (Bisani and Ney 2008): sources and targets as sequences of units, counted and not trained."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.decoding.frames.language_models import build_automaton
from seqloom.layers.layer import Memory
from seqloom.models.joint_ngram.alignment import NOTHING, align
from seqloom.models.ngram.kneser_ney import estimate
from seqloom.models.ngram.ngram import Integers, NGram
from seqloom.state import Shared
from seqloom.training.self_trained import CountingModel

START, END, OFFSET = 0, 1, 2
"""Words of the n-gram model: before a text, after it, and the first unit."""
NARROW, UNLIKELY = 1e-3, 1e-4
"""What is left out of a lattice: nodes by their probability relative to the best, arcs by their posterior."""
FLOOR = 1e-5
"""Probability that is spread over all tokens, since those of an impossible target have a loss, too."""


class Lattices(NamedTuple):
    """The arcs of R lattices (see ``kernels.joint_ngram.lattice``), filled up with arcs of weight 0."""

    origins: Tensor  # (R, A)
    destinations: Tensor
    labels: Tensor
    places: Tensor  # the source position
    weights: Tensor


class JointNGramDecoder(nn.Module):
    """The probability of the next target token, given the source and the tokens before it, over all alignments."""

    class State(NamedTuple):
        lattices: Shared  # ``Lattices``
        started: Tensor  # (B,), whether the token before the first one has been read
        probabilities: Tensor  # (B, N), of the nodes of the lattice

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens  # V, of the target vocabulary

    def start(self, memory: Memory, batch: int, *, coverage: bool = False) -> State:  # noqa: ARG002  no attention
        lattices: Lattices = memory.state
        nodes = int(max(lattices.origins.max(), lattices.destinations.max())) + 1
        probabilities = torch.zeros(batch, nodes, dtype=torch.float64)
        probabilities[:, 0] = 1
        return self.State(Shared(lattices, torch.arange(batch)), torch.zeros(batch, dtype=torch.bool), probabilities)

    @torch.no_grad()
    def forward(
        self,
        tokens: Tensor,  # (B, T)
        state: State,
        *,
        mask: Tensor | None = None,  # noqa: ARG002  a decoder's signature; outputs at padding are not used
    ) -> tuple[Tensor, State]:  # log-probabilities (B, T, V), state
        from seqloom.kernels.joint_ngram import lattice as kernel  # importing numba takes 0.5 s

        log_probs = torch.empty(*tokens.shape, self.tokens, dtype=torch.float64)
        lattices = state.lattices.parts
        arcs = [part.numpy() for part in (lattices.origins, lattices.destinations, lattices.labels, lattices.weights)]
        for time, column in enumerate(tokens.cpu().T.contiguous()):
            after, probabilities = torch.empty_like(state.probabilities), log_probs[:, time].contiguous()
            before = (state.lattices.rows, column, state.started, state.probabilities, after, probabilities)
            kernel.step(*arcs, *(part.numpy() for part in before))
            possible = probabilities.sum(dim=1, keepdim=True) > 0
            probabilities = torch.where(possible, probabilities, 1 / self.tokens)
            log_probs[:, time] = ((1 - FLOOR) * probabilities + FLOOR / self.tokens).log()
            state = self.State(state.lattices, torch.ones_like(state.started), after)
        return log_probs.float().to(tokens.device), state

    features = forward
    """The log-probabilities themselves: there is no softmax after them."""

    def score_tokens(
        self,
        features: Tensor,  # (N, V)
        target: Tensor,  # (N,)
    ) -> tuple[Tensor, Tensor]:  # (N,), (N,)
        """The log-probability of each target, and whether it is the most probable token."""
        return features.gather(1, target.unsqueeze(1)).squeeze(1), features.argmax(dim=1) == target

    def alignment(self, memory: Memory, target: Sequence[int]) -> Tensor:  # (T, S)
        """The probability that each token of the target, its end included, belongs to each source position."""
        from seqloom.kernels.joint_ngram import lattice as kernel

        state = self.start(memory, 1)
        posterior = torch.zeros(len(target), memory.mask.shape[1], dtype=torch.float64)
        arcs = (part[0].numpy() for part in state.lattices.parts)
        kernel.positions(*arcs, np.array(target, dtype=np.int64), state.probabilities.shape[1], posterior.numpy())
        return posterior


class JointNGram(CountingModel):
    """An n-gram model of units of a source token and the target tokens it stands for.

    Of a source, it gives the probability of each target: the sum over all alignments. It has no parameters.
    """

    def __init__(
        self,
        encode: Callable[[Any], tuple[Sequence[int], Sequence[int]]],  # ids of the source and the target of an example
        *,
        sources: int,  # size of the source vocabulary
        targets: int,  # size of the target vocabulary
        end: int,  # end token of both, which follows sources and targets
        order: int,  # longest n-gram of units
        longest_chunk: int,  # target tokens that a source token can stand for
    ) -> None:
        super().__init__()
        self.encode, self.sources, self.targets, self.end = encode, sources, targets, end
        self.order, self.longest_chunk = order, longest_chunk
        self.decoder = JointNGramDecoder(targets)
        self._units: Integers = np.zeros((0, 1), dtype=np.int64)  # (U, 1 + B), sorted by their source token
        self._ngram: NGram | None = None
        self._automaton: Any = None

    @property
    def single_decoder(self) -> None:
        """None: there is no neural decoder whose attention and gates could be shown."""
        return

    def count(self, examples: Iterable[Any]) -> None:
        """Align all examples, and estimate the n-gram model of their units."""
        found = align((self.encode(example) for example in examples), longest_chunk=self.longest_chunk)
        texts = ((text + OFFSET).tolist() for text in found.texts)
        ngram = estimate(texts, order=self.order, start=START, end=END, vocabulary=len(found.units) + OFFSET)
        self._set(found.units, ngram)

    def _set(self, units: Integers, ngram: NGram) -> None:
        automaton = build_automaton(ngram)
        self._units, self._ngram = units, ngram
        self._automaton = automaton
        self._first_units = np.searchsorted(units[:, 0], np.arange(self.sources + 1))
        self._chunks = np.ascontiguousarray(units[:, 1:])
        self._node_of = np.full(len(automaton.ngram_words), -1, dtype=np.int32)

    def encoder(
        self,
        inputs: Tensor,  # (B, S), each source with its end
        mask: Tensor,  # (B, S)
    ) -> Memory:
        """The lattices of the sources as the state of a memory."""
        if self._ngram is None:
            raise ValueError("the joint n-gram model has not been estimated yet")
        rows = inputs.cpu().numpy()
        arcs = [self._lattice(row[: length - 1]) for row, length in zip(rows, mask.sum(dim=1).tolist(), strict=True)]
        size = max(len(row[0]) for row in arcs)
        parts = []
        for values, kind in zip(zip(*arcs, strict=True), (torch.int32,) * 4 + (torch.float64,), strict=True):
            part = torch.zeros(len(arcs), size, dtype=kind)
            for row, value in zip(part, values, strict=True):
                row[: len(value)] = torch.from_numpy(value)
            parts.append(part)
        lattices = Lattices(*parts)
        lattices.labels[lattices.weights == 0] = -1
        return Memory(inputs.unsqueeze(2), mask, lattices)

    def _lattice(self, source: Integers) -> tuple[NDArray[Any], ...]:
        """The arcs of one source; tokens that occur in no unit stand for nothing."""
        from seqloom.kernels.joint_ngram import lattice as kernel

        (known,) = np.nonzero(self._first_units[source] < self._first_units[source + 1])
        start = 1 + START if self.order > 1 else 0
        *arcs, first_arcs, forward = kernel.expand(
            source[known], self._first_units, OFFSET, start, END, *self._automaton, self._node_of, NARROW
        )
        origins, destinations, units, weights = arcs
        weights = kernel.condition(origins, destinations, weights, first_arcs, forward, UNLIKELY)
        *ends, places, weights = kernel.spell(origins, destinations, units, weights, first_arcs, self._chunks, self.end)
        return *ends, np.append(known, len(source))[places], weights

    def align(self, inputs: tuple[Tensor, Tensor], target: Sequence[int]) -> Tensor:  # (1, S), (1, S) → (T, S)
        """The probability that each token of a target belongs to each source position."""
        return self.decoder.alignment(self.encoder(*inputs), target)

    def start(self, inputs: Tensor, mask: Tensor, *, coverage: bool = False) -> JointNGramDecoder.State:  # noqa: ARG002
        """The state of the decoder before the first token."""
        return self.decoder.start(self.encoder(inputs, mask), len(mask))

    def loss(
        self,
        features: Tensor,  # (N, V), as the decoder gives them
        target: Tensor,  # (B, T)
        real: Tensor,  # (B, T)
        *,
        smoothing: float = 0.0,  # noqa: ARG002  of gradients
    ) -> Tensor:  # ()
        """The sum of the targets' negative log-probabilities."""
        return -self.decoder.score_tokens(features, target[real])[0].sum()

    def state_dict(self, **options: Any) -> dict[str, Any]:  # type: ignore[override]  # noqa: ARG002
        """The units and the tables, whose sizes are known only after estimation."""
        return {"units": torch.from_numpy(self._units), **self._ngram.tensors()} if self._ngram else {}

    def load_state_dict(self, state_dict: Mapping[str, Any], **options: Any) -> None:  # type: ignore[override]  # noqa: ARG002
        tensors = dict(state_dict)
        units = tensors.pop("units", None)
        if units is None or units.dtype != torch.int64 or units.ndim != 2 or units.shape[1] < 2:
            raise ValueError("units: expected a table of integers with at least two columns")
        ngram = NGram.from_tensors(tensors)
        table: Integers = units.contiguous().numpy()
        letters, chunks = table[:, 0], table[:, 1:]
        if ngram.vocabulary != len(table) + OFFSET or (ngram.start, ngram.end, ngram.order) != (START, END, self.order):
            raise ValueError(f"expected an n-gram model of order {self.order} over {len(table)} units")
        in_order = (letters[1:] >= letters[:-1]).all() and ((letters >= 0) & (letters < self.sources)).all()
        if not in_order or ((chunks < NOTHING) | (chunks >= self.targets)).any():
            raise ValueError("units: expected tokens of the vocabularies, sorted by their source token")
        self._set(table, ngram)
