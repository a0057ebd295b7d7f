"""Joint n-gram models (Bisani and Ney 2008): sources and targets as sequences of units, counted and not trained."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.decoding.frames.language_models import build_automaton
from seqloom.kernels.joint_ngram import EPSILON
from seqloom.layers.embedding import PADDING, UNKNOWN
from seqloom.layers.layer import Memory
from seqloom.models.joint_ngram.alignment import align
from seqloom.models.ngram.kneser_ney import estimate
from seqloom.models.ngram.ngram import Integers, NGram
from seqloom.state import Shared
from seqloom.training.self_trained import CountingModel

START, END, OFFSET = 0, 1, 2
"""Words of the n-gram model: before a text, after it, and the first unit."""
NODE_PRUNING, ARC_PRUNING = 1e-3, 1e-4
"""What is pruned from a lattice: nodes by their probability relative to the best, arcs by their posterior."""
IMPOSSIBLE = -30.0
"""Log-probability, in a search, of tokens that no unit gives, and of all tokens after them: worse than any others."""
FLOOR = 1e-5
"""Probability that the loss spreads over all tokens, since impossible targets have one, too."""


class Lattices(NamedTuple):
    """The arcs of R lattices (see ``kernels.joint_ngram.lattice``)."""

    sizes: Tensor  # (R,), their numbers of arcs
    origins: Tensor  # (R, A)
    destinations: Tensor
    labels: Tensor
    positions: Tensor  # in the source
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
        arcs = (lattices.sizes, lattices.origins, lattices.destinations, lattices.labels, lattices.weights)
        for time, column in enumerate(tokens.T.contiguous()):
            after, probabilities = torch.empty_like(state.probabilities), log_probs[:, time].contiguous()
            rows = (state.lattices.rows, column, state.started, state.probabilities, after, probabilities)
            kernel.step(*(part.numpy() for part in (*arcs, *rows)))
            probabilities[:, PADDING] = probabilities.sum(dim=1) == 0  # a token that is never generated
            log_probs[:, time] = probabilities.log().clamp(IMPOSSIBLE, 0)
            state = self.State(state.lattices, torch.ones_like(state.started), after)
        return log_probs.float(), state

    features = forward
    """The log-probabilities themselves: there is no softmax after them."""

    def score_tokens(
        self,
        features: Tensor,  # (N, V)
        target: Tensor,  # (N,)
    ) -> tuple[Tensor, Tensor]:  # (N,), (N,)
        """The log-probability of each target, and whether it is the most probable token.

        After tokens that no unit gives, all are equally probable.
        """
        dead = features[:, PADDING] == 0
        probabilities = torch.where(dead.unsqueeze(1), 1 / self.tokens, features.double().exp())
        chosen = probabilities.gather(1, target.unsqueeze(1)).squeeze(1)
        scores = ((1 - FLOOR) * chosen + FLOOR / self.tokens).log().float()
        return scores, (features.argmax(dim=1) == target) & ~dead

    def alignment(self, memory: Memory, target: Sequence[int]) -> Tensor:  # (T, S)
        """The probability that each token of the target, its end included, belongs to each source position."""
        from seqloom.kernels.joint_ngram import lattice as kernel

        state = self.start(memory, 1)
        posterior = torch.zeros(len(target), memory.mask.shape[1], dtype=torch.float64)
        size, *arcs = (part[0].numpy() for part in state.lattices.parts)
        kernel.align_target(
            *(part[:size] for part in arcs),
            np.array(target, dtype=np.int64),
            state.probabilities.shape[1],
            posterior.numpy(),
        )
        return posterior


class JointNGram(CountingModel):
    """An n-gram model of units of a source token and the target tokens it stands for.

    The probability of a target, given a source, is the sum over all alignments. The model has no parameters.
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
        """Align all examples without unknown target tokens, and estimate the n-gram model of their units."""
        pairs = ((source, target) for source, target in map(self.encode, examples) if UNKNOWN not in target)
        aligned = align(pairs, longest_chunk=self.longest_chunk)
        texts = ((text + OFFSET).tolist() for text in aligned.texts)
        ngram = estimate(texts, order=self.order, start=START, end=END, vocabulary=len(aligned.units) + OFFSET)
        self._set(aligned.units, ngram)

    def _set(self, units: Integers, ngram: NGram) -> None:
        automaton = build_automaton(ngram)
        self._units, self._ngram = units, ngram
        self._automaton = automaton
        self._first_units = np.searchsorted(units[:, 0], np.arange(self.sources + 1))
        self._chunks = np.ascontiguousarray(units[:, 1:])

    def encoder(
        self,
        inputs: Tensor,  # (B, S), each source with its end
        mask: Tensor,  # (B, S)
    ) -> Memory:
        """The lattices of the sources as the state of a memory."""
        if self._ngram is None:
            raise ValueError("the joint n-gram model has not been estimated yet")
        node_of = np.full(len(self._automaton.ngram_words), -1, dtype=np.int32)  # of this call: threads share a model
        lengths = mask.sum(dim=1).tolist()
        arcs = [self._lattice(row[: length - 1], node_of) for row, length in zip(inputs.numpy(), lengths, strict=True)]
        sizes = torch.tensor([len(origins) for origins, *_ in arcs])
        parts = []
        for values, kind in zip(zip(*arcs, strict=True), (torch.int32,) * 4 + (torch.float64,), strict=True):
            part = torch.zeros(len(arcs), int(sizes.max()), dtype=kind)
            for row, value in zip(part, values, strict=True):
                row[: len(value)] = torch.from_numpy(value)
            parts.append(part)
        return Memory(inputs.unsqueeze(2), mask, Lattices(sizes, *parts))

    def _lattice(self, source: Integers, node_of: NDArray[np.int32]) -> tuple[NDArray[Any], ...]:
        """The arcs of one source; tokens that occur in no unit stand for nothing."""
        from seqloom.kernels.joint_ngram import lattice as kernel

        (known,) = np.nonzero(self._first_units[source] < self._first_units[source + 1])
        start = 1 + START if self.order > 1 else 0
        *arcs, first_arcs, forward = kernel.expand(
            source[known], self._first_units, OFFSET, start, END, *self._automaton, node_of, NODE_PRUNING
        )
        origins, destinations, units, weights = arcs
        weights = kernel.condition(origins, destinations, weights, first_arcs, forward, ARC_PRUNING)
        *ends, positions, weights = kernel.spell(
            origins, destinations, units, weights, first_arcs, self._chunks, self.end
        )
        return *ends, np.append(known, len(source))[positions], weights

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
        sources, chunks = table[:, 0], table[:, 1:]
        if ngram.vocabulary != len(table) + OFFSET or (ngram.start, ngram.end, ngram.order) != (START, END, self.order):
            raise ValueError(f"expected an n-gram model of order {self.order} over {len(table)} units")
        in_order = (sources[1:] >= sources[:-1]).all() and ((sources >= 0) & (sources < self.sources)).all()
        first, *longer = ngram.log_probabilities
        if not all(np.isfinite(values).all() for values in (first[END:], *longer)):
            raise ValueError("expected finite log-probabilities")
        if not in_order or ((chunks < EPSILON) | (chunks >= self.targets)).any():
            raise ValueError("units: expected tokens of the vocabularies, sorted by their source token")
        self._set(table, ngram)
