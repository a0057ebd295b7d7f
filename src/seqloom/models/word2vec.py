"""A vector for each word, learnt from the words around it (Mikolov et al. 2013); and what can be asked of vectors."""

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

BLOCK = 1 << 16  # words that questions are compared with at a time
POWER = 0.75  # of a word's frequency, to draw what is not meant


class Vectors(nn.Module, ABC):
    """What answers questions about words: the vectors of a subclass, as they are compared with each other."""

    @abstractmethod
    def compare(self, words: Tensor, weights: Tensor, chosen: slice) -> Tensor:  # (B, T), (B, T) → (B, chosen)
        """The cosines of weighted sums of words' unit vectors, and each of the chosen words."""

    @abstractmethod
    def between(self, words: Tensor, weights: Tensor) -> Tensor:  # (B, T), (B, T) → (B, T)
        """The same with the words of the sums themselves."""

    def nearest(self, words: Tensor, weights: Tensor, *, among: int, count: int) -> tuple[Tensor, Tensor]:
        """Cosines and numbers (B, count) of the words nearest to each sum, but those it is made of."""
        size = words.shape[1]
        best = torch.full((len(words), 0), -torch.inf)
        numbers = torch.zeros(len(words), 0, dtype=torch.int64)
        rows = torch.arange(len(words))[:, None]
        for start in range(0, among, BLOCK):
            stop = min(start + BLOCK, among)
            found = self.compare(words, weights, slice(start, stop))
            inside = (words >= start) & (words < stop) & (weights != 0)
            found[rows.expand(-1, size)[inside], words[inside] - start] = -torch.inf
            values, places = found.topk(min(count, stop - start), dim=1)
            values, places = torch.cat([best, values], 1), torch.cat([numbers, places + start], 1)
            best, order = values.topk(min(count, values.shape[1]), dim=1)
            numbers = places.gather(1, order)
        return best, numbers


class OneHot(Vectors, CountingModel):
    """The baseline: all words are equally far from each other. There is nothing to learn."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def count(self, examples: Iterable[Any]) -> None:
        """Nothing: the vocabulary is all there is."""

    def compare(self, words: Tensor, weights: Tensor, chosen: slice) -> Tensor:
        sums = torch.zeros(len(words), self.size).scatter_add_(1, words, weights.float())
        return nn.functional.normalize(sums, dim=1)[:, chosen]

    def between(self, words: Tensor, weights: Tensor) -> Tensor:
        return self.compare(words, weights, slice(None)).gather(1, words)


class Word2Vec(Vectors, SelfTrained):
    """Skip-gram or CBOW, with negative sampling or hierarchical softmax.

    Two matrices are all that is large. Threads change them at the same time and take no notice of each other
    (Recht et al. 2011); on one thread the result depends on the seed alone.
    """

    examples_per_update = 32  # passages: about four million characters
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
        sample: float,  # share of the text from which on a word counts as frequent; 0: none does
        examples: int,
        length: int,
    ) -> None:
        super().__init__()
        self.words, self.counts, self.examples, self.length = words, counts, examples, length
        self.window, self.negative, self.mean, self.sample = window, negative, mean, sample
        rows = len(words) if negative else max(len(words) - 1, 1)
        self.vectors = nn.Parameter(torch.empty(len(words), size).uniform_(-1 / size, 1 / size), requires_grad=False)
        self.outputs = nn.Parameter(torch.zeros(rows, size), requires_grad=False)
        self._tables: tuple[Any, ...] | None = None
        self._scales: Tensor | None = None

    def update(self, examples: Iterable[Passage], *, rates: tuple[float, float], seed: Sequence[int]) -> UpdateStats:
        """One pass over some passages; the learning rate is interpolated between the two."""
        self._scales = None
        tables, passages = self.tables(), list(examples)
        ends = np.cumsum([0, *map(len, passages)]) / max(sum(map(len, passages)), 1)
        at = [rates[0] + (rates[1] - rates[0]) * end for end in ends.tolist()]
        jobs = [(each, (at[index], at[index + 1]), _mixed((*seed, index))) for index, each in enumerate(passages)]
        threads = min(torch.get_num_threads(), len(jobs))
        if threads <= 1:
            found = [self._train_passage(job, tables) for job in jobs]
        else:
            with ThreadPoolExecutor(threads, thread_name_prefix="seqloom-words") as executor:
                found = list(executor.map(lambda job: self._train_passage(job, tables), jobs))
        losses, predictions, words = zip(*found, strict=True)
        return UpdateStats(float(sum(losses)), sum(predictions), sum(words))

    def tables(self) -> tuple[Any, ...]:
        """What is drawn with which chance, and the tree, as the kernel wants them."""
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
        found: tuple[float, int, int] = kernel.train(
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
        return found

    def write(self, path: Path) -> None:
        """The vectors in the format of word2vec: binary where the file ends with .bin, as text otherwise."""
        write_vectors(path, self.words, self.vectors.numpy(), binary=path.name.endswith(".bin"))

    def scales(self) -> Tensor:  # (V,)
        """What makes each vector as long as one."""
        if self._scales is None:
            lengths = [part.norm(dim=1) for part in self.vectors.split(BLOCK)]
            self._scales = torch.cat(lengths).clamp_min(1e-12).reciprocal()
        return self._scales

    def sums(self, words: Tensor, weights: Tensor) -> Tensor:  # (B, T) → (B, D), as long as one
        units = self.vectors[words] * (self.scales()[words] * weights)[..., None]
        return nn.functional.normalize(units.sum(dim=1), dim=1)

    def compare(self, words: Tensor, weights: Tensor, chosen: slice) -> Tensor:
        return (self.sums(words, weights) @ self.vectors[chosen].T) * self.scales()[chosen]

    def between(self, words: Tensor, weights: Tensor) -> Tensor:
        units = self.vectors[words] * self.scales()[words][..., None]
        return torch.einsum("btd,bd->bt", units, self.sums(words, weights))

    def load_state_dict(self, state_dict: Mapping[str, Any], **options: Any) -> Any:  # type: ignore[override]
        self._scales = None
        return super().load_state_dict(state_dict, **options)


def _mixed(numbers: Sequence[int]) -> int:
    """A seed of 64 bits from several numbers (splitmix64)."""
    found = 0
    for number in numbers:
        found = (found + number + 0x9E3779B97F4A7C15) & (2**64 - 1)
        found = ((found ^ (found >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        found = ((found ^ (found >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        found ^= found >> 31
    return found
