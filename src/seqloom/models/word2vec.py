"""word2vec (Mikolov et al. 2013): word vectors from contexts, and queries for similar words."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.data.readers.word_vectors import write_vectors
from seqloom.data.text.passages import Passage
from seqloom.data.text.word_counts import WordIndex
from seqloom.training.self_trained import CountingModel, SelfTrained, UpdateStats

BLOCK = 1 << 16  # words compared at a time
POWER = 0.75  # exponent of word frequencies in the distribution of negative samples


class WordVectorModel(nn.Module, ABC):
    """Word vectors that can be compared with each other."""

    @abstractmethod
    def cosines(self, words: Tensor, weights: Tensor, chosen: slice) -> Tensor:  # (B, T), (B, T) → (B, chosen)
        """The cosines between weighted sums of unit vectors and each of the chosen words."""

    @abstractmethod
    def member_cosines(self, words: Tensor, weights: Tensor) -> Tensor:  # (B, T), (B, T) → (B, T)
        """The cosines between each sum and the words it is made of."""

    def nearest(self, words: Tensor, weights: Tensor, *, among: int, count: int) -> tuple[Tensor, Tensor]:
        """Cosines and ids (B, count) of the words nearest to each sum, without its own words."""
        size = words.shape[1]
        best = torch.full((len(words), 0), -torch.inf)
        ids = torch.zeros(len(words), 0, dtype=torch.int64)
        rows = torch.arange(len(words))[:, None]
        for start in range(0, among, BLOCK):
            stop = min(start + BLOCK, among)
            cosines = self.cosines(words, weights, slice(start, stop))
            inside = (words >= start) & (words < stop) & (weights != 0)
            cosines[rows.expand(-1, size)[inside], words[inside] - start] = -torch.inf
            values, columns = cosines.topk(min(count, stop - start), dim=1)
            values, columns = torch.cat([best, values], 1), torch.cat([ids, columns + start], 1)
            best, order = values.topk(min(count, values.shape[1]), dim=1)
            ids = columns.gather(1, order)
        return best, ids


class OneHot(WordVectorModel, CountingModel):
    """The baseline: all words are equally distant from each other. There is nothing to train."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def count(self, examples: Iterable[Any]) -> None:
        """Does nothing: only the vocabulary matters."""

    def cosines(self, words: Tensor, weights: Tensor, chosen: slice) -> Tensor:
        sums = torch.zeros(len(words), self.size).scatter_add_(1, words, weights.float())
        return nn.functional.normalize(sums, dim=1)[:, chosen]

    def member_cosines(self, words: Tensor, weights: Tensor) -> Tensor:
        return self.cosines(words, weights, slice(None)).gather(1, words)


class Word2Vec(WordVectorModel, SelfTrained):
    """Skip-gram or CBOW, with negative sampling or hierarchical softmax.

    Threads update the two matrices without locks (Hogwild, Recht et al. 2011); with one thread, the result depends
    only on the seed.
    """

    examples_per_update = 32  # passages, about four million characters
    unit = "words"

    def __init__(
        self,
        words: WordIndex,
        counts: NDArray[np.int64],
        *,
        size: int,
        window: int,
        negative: int,  # 0: hierarchical softmax
        mean: bool,  # CBOW
        sample: float,  # frequency above which words are subsampled (0: no subsampling)
        examples: int,
        length: int,
    ) -> None:
        super().__init__()
        if counts.shape != (len(words),) or counts.min(initial=1) < 1:  # kernels index tables of counts by words
            raise ValueError(f"expected a positive count for each of {len(words)} words")
        self.words, self.counts, self.examples, self.length = words, counts, examples, length
        self.window, self.negative, self.mean, self.sample = window, negative, mean, sample
        rows = len(words) if negative else max(len(words) - 1, 1)
        self.vectors = nn.Parameter(torch.empty(len(words), size).uniform_(-1 / size, 1 / size), requires_grad=False)
        self.outputs = nn.Parameter(torch.zeros(rows, size), requires_grad=False)
        self._tables: tuple[Any, ...] | None = None
        self._scales: Tensor | None = None

    def update(self, examples: Iterable[Passage], *, rates: tuple[float, float], seed: Sequence[int]) -> UpdateStats:
        """Train on some passages; the learning rate goes linearly from the first to the second of ``rates``."""
        self._scales = None
        tables, passages = self.tables(), list(examples)
        ends = np.cumsum([0, *map(len, passages)]) / max(sum(map(len, passages)), 1)
        at = [rates[0] + (rates[1] - rates[0]) * end for end in ends.tolist()]
        jobs = [(passage, (at[i], at[i + 1]), _mix_seed((*seed, i))) for i, passage in enumerate(passages)]
        threads = min(torch.get_num_threads(), len(jobs))
        if threads <= 1:
            results = [self._train_passage(job, tables) for job in jobs]
        else:
            with ThreadPoolExecutor(threads, thread_name_prefix="seqloom-words") as executor:
                results = list(executor.map(lambda job: self._train_passage(job, tables), jobs))
        losses, predictions, words = zip(*results, strict=True)
        return UpdateStats(float(sum(losses)), sum(predictions), sum(words))

    def tables(self) -> tuple[Any, ...]:
        """Sampling probabilities and the Huffman tree, as the kernel reads them."""
        if self._tables is None:
            from seqloom.kernels.word2vec import training as kernel

            weights = self.counts.astype(np.float64)
            keep = np.full(len(weights), 2**32 - 1, np.uint32)
            if self.sample:
                ratio = self.sample * weights.sum() / weights
                keep = (np.minimum(np.sqrt(ratio) + ratio, 1.0) * (2**32 - 1)).astype(np.uint32)
            none = np.zeros(1, np.int32), np.zeros(1, np.uint8)
            if self.negative:
                self._tables = (keep, *kernel.alias_tables(weights**POWER), *none, self.negative + 1)
            else:
                parents, second = kernel.huffman(self.counts)
                chances = np.zeros(len(weights), np.uint32), np.zeros(1, np.int32)
                self._tables = (keep, *chances, parents, second, kernel.tree_depth(parents))
        return self._tables

    def _train_passage(
        self, job: tuple[Passage, tuple[float, float], int], tables: tuple[Any, ...]
    ) -> tuple[float, int, int]:
        from seqloom.kernels.word2vec import training as kernel

        passage, rates, seed = job
        result: tuple[float, int, int] = kernel.train(
            self.words.encode(passage.data),
            self.vectors.numpy(),
            self.outputs.numpy(),
            *tables[:-1],
            kernel.SIGMOID,
            np.float32(rates[0]),
            np.float32(rates[1]),
            self.window,
            self.negative,
            tables[-1],
            self.mean,
            np.uint64(seed),
        )
        return result

    def write(self, path: Path) -> None:
        """Write the vectors in word2vec format: binary if the file name ends with .bin, otherwise as text."""
        write_vectors(path, self.words, self.vectors.numpy(), binary=path.name.endswith(".bin"))

    def scales(self) -> Tensor:  # (V,)
        """The reciprocal norm of each vector."""
        if self._scales is None:
            lengths = [part.norm(dim=1) for part in self.vectors.split(BLOCK)]
            self._scales = torch.cat(lengths).clamp_min(1e-12).reciprocal()
        return self._scales

    def sums(self, words: Tensor, weights: Tensor) -> Tensor:  # (B, T) → (B, D), unit vectors
        units = self.vectors[words] * (self.scales()[words] * weights)[..., None]
        return nn.functional.normalize(units.sum(dim=1), dim=1)

    def cosines(self, words: Tensor, weights: Tensor, chosen: slice) -> Tensor:
        return (self.sums(words, weights) @ self.vectors[chosen].T) * self.scales()[chosen]

    def member_cosines(self, words: Tensor, weights: Tensor) -> Tensor:
        units = self.vectors[words] * self.scales()[words][..., None]
        return torch.einsum("btd,bd->bt", units, self.sums(words, weights))

    def load_state_dict(self, state_dict: Mapping[str, Any], **options: Any) -> Any:  # type: ignore[override]
        self._scales = None
        return super().load_state_dict(state_dict, **options)


def _mix_seed(parts: Sequence[int]) -> int:
    """A 64-bit seed from several integers (splitmix64)."""
    seed = 0
    for part in parts:
        seed = (seed + part + 0x9E3779B97F4A7C15) & (2**64 - 1)
        seed = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        seed = ((seed ^ (seed >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        seed ^= seed >> 31
    return seed
