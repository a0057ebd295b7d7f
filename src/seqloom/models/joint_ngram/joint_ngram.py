"""Joint n-gram models (Bisani and Ney 2008): sources and targets as sequences of units, counted and not trained."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.layers.embedding import PADDING
from seqloom.layers.layer import Memory
from seqloom.models.joint_ngram.alignment import align
from seqloom.models.joint_ngram.unit_ngram import Lattices, UnitNGram
from seqloom.state import Shared
from seqloom.training.self_trained import CountingModel

IMPOSSIBLE = -30.0
"""Log-probability, in a search, of tokens that no unit gives, and of all tokens after them: worse than any others."""
FLOOR = 1e-5
"""Probability that the loss spreads over all tokens, since impossible targets have one, too."""


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


class LatticeModel(nn.Module, ABC):
    """A model from a source to the lattice of all its targets."""

    decoder: JointNGramDecoder

    @abstractmethod
    def encoder(
        self,
        inputs: Tensor,  # (B, S), each source with its end
        mask: Tensor,  # (B, S)
    ) -> Memory:
        """A memory whose state are the lattices of the sources."""

    @property
    def single_decoder(self) -> None:
        """None: there is no neural decoder whose attention and gates could be shown."""
        return

    def align(self, inputs: tuple[Tensor, Tensor], target: Sequence[int]) -> Tensor:  # (1, S), (1, S) → (T, S)
        """The probability that each token of a target belongs to each source position."""
        return self.decoder.alignment(self.encoder(*inputs), target)

    def start(self, inputs: Tensor, mask: Tensor, *, coverage: bool = False) -> JointNGramDecoder.State:  # noqa: ARG002
        """The state of the decoder before the first token."""
        return self.decoder.start(self.encoder(inputs, mask), len(mask))


class JointNGram(LatticeModel, CountingModel):
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
        self._estimated: UnitNGram | None = None

    def count(self, examples: Iterable[Any]) -> None:
        """Align all examples without unknown target tokens, and estimate the n-gram model of their units."""
        aligned = align(map(self.encode, examples), longest_chunk=self.longest_chunk)
        self._estimated = UnitNGram.estimate(aligned, order=self.order, sources=self.sources, end=self.end)

    def encoder(self, inputs: Tensor, mask: Tensor) -> Memory:
        if self._estimated is None:
            raise ValueError("the joint n-gram model has not been estimated yet")
        return Memory(inputs.unsqueeze(2), mask, self._estimated.lattices(inputs, mask))

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
        return self._estimated.tensors() if self._estimated else {}

    def load_state_dict(self, state_dict: Mapping[str, Any], **options: Any) -> None:  # type: ignore[override]  # noqa: ARG002
        sizes: dict[str, int] = {"sources": self.sources, "targets": self.targets, "order": self.order}
        self._estimated = UnitNGram.from_tensors(state_dict, **sizes, end=self.end)
