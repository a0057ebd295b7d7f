"""One vector per text from the outputs of any encoder, and the sentences whose vectors are nearest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.layers.layer import Memory
from seqloom.models.pooling import (
    AttentionPooling,
    FirstPooling,
    LastPooling,
    MaxPooling,
    MeanPooling,
    PairPooling,
    Pooling,
)

SentencePooling = Literal["mean", "max", "first", "last", "attention"]
SENTENCE_POOLINGS: tuple[str, ...] = get_args(SentencePooling)
PLAIN: dict[str, type[Pooling]] = {
    "mean": MeanPooling,
    "max": MaxPooling,
    "first": FirstPooling,
    "last": LastPooling,
}
"""Poolings without weights of their own."""


@dataclass(frozen=True, slots=True)
class SentenceVector:
    """The vector of a text."""

    vector: list[float]

    def __str__(self) -> str:
        return " ".join(f"{value:.6g}" for value in self.vector)


def sentence_vectors(model: nn.Module, memory: Memory, pooling: str) -> Tensor:  # (B, D)
    """The pooled outputs of an encoder; ``attention`` is that of a model which was trained with it."""
    if pooling not in SENTENCE_POOLINGS:
        raise ValueError(f"pooling is {pooling!r}, expected one of {', '.join(SENTENCE_POOLINGS)}")
    if pooling != "attention":
        plain: Tensor = PLAIN[pooling](memory.values.shape[2])(memory)
        return plain
    own = getattr(model, "pooling", None)
    own = own.pooling if isinstance(own, PairPooling) else own
    if not isinstance(own, AttentionPooling):
        raise TypeError(
            'this model has no attention pooling: train a classifier with task.pooling = "attention", or choose one of '
            f"{', '.join(PLAIN)}"
        )
    pooled: Tensor = own(memory)
    return pooled


@dataclass(frozen=True)
class NearSentence:
    """A sentence, and how similar it is."""

    text: str
    similarity: float  # cosine


@dataclass(frozen=True)
class SentenceIndex:
    """Sentences with their vectors."""

    texts: Sequence[str]
    vectors: NDArray[np.float32]  # (N, D)
    pooling: str

    def nearest(self, vector: NDArray[np.float32], *, count: int) -> list[NearSentence]:  # (D,)
        """The sentences with the highest cosine similarity to a vector, the nearest first; of equal texts, one."""
        if count < 1:
            raise ValueError(f"count is {count}, expected at least 1")
        norms = np.linalg.norm(self.vectors, axis=1) * np.linalg.norm(vector)
        similarities = np.divide(self.vectors @ vector, norms, out=np.zeros_like(norms), where=norms > 0)
        nearest: dict[str, NearSentence] = {}
        for row in np.argsort(-similarities, kind="stable"):
            text = self.texts[row]
            nearest.setdefault(text, NearSentence(text, float(similarities[row])))
            if len(nearest) == count:
                break
        return list(nearest.values())
