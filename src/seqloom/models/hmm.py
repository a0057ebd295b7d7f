"""Hidden Markov models of labels, estimated by counting; unknown words are handled by their suffixes (Brants 2000)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.data.batch import Batch
from seqloom.layers.embedding import UNKNOWN
from seqloom.models.crf import Chain, log_partition, marginals, score, viterbi
from seqloom.training.self_trained import CountingModel

MAX_SUFFIX = 5  # characters
RARE = 10
"""Words with at most this many occurrences represent unknown words."""

BATCH_SIZE = 256
TRANSITION_PRIOR, WORD_PRIOR, SUFFIX_PRIOR = 3.0, 0.5, 3.0
"""Pseudo-counts of the less specific estimates that transitions, words and suffixes are interpolated with."""


class HMMInput(NamedTuple):
    """The input of the model for each word."""

    words: Tensor  # (B, T), 1 where unknown
    suffixes: Tensor  # (B, T), the longest known suffix
    mask: Tensor  # (B, T)


class HMM(CountingModel):
    """P(label | previous label) and P(word | label) from counts, in one pass over the data and without parameters.

    Unknown words get the labels of rare words with the same suffix; P(word | label) is proportional to
    P(label | word) / P(label). Estimates are interpolated with less specific ones: words with their suffix, suffixes
    with the one that is a character shorter, transitions with the probability of the second label.
    """

    start: Tensor
    transitions: Tensor
    end: Tensor
    words: Tensor
    suffixes: Tensor

    def __init__(
        self,
        words: int,
        labels: int,
        *,
        parents: Sequence[int],  # for each suffix, the index of the one that is a character shorter; 1 is the root
        collate: Callable[[Sequence[Any]], Batch],  # examples → HMMInput and labels (B, T), -1 where there is none
    ) -> None:
        super().__init__()
        self.collate = collate
        self.parents = tuple(parents)
        self.register_buffer("start", torch.zeros(labels))
        self.register_buffer("transitions", torch.zeros(labels, labels))
        self.register_buffer("end", torch.zeros(labels))
        self.register_buffer("words", torch.zeros(words, labels))  # log P(label | word) / P(label)
        self.register_buffer("suffixes", torch.zeros(len(self.parents), labels))

    @property
    def chain(self) -> Chain:
        return Chain(self.start, self.transitions, self.end)

    def count(self, examples: Iterable[Any]) -> None:
        """Estimate all tables from the examples."""
        labels = len(self.start)
        # The last row is the start, the last column the end.
        pairs = torch.zeros(labels + 1, labels + 1, dtype=torch.float64)
        words = torch.zeros(self.words.shape, dtype=torch.float64)
        suffix_counts = torch.zeros(self.suffixes.shape, dtype=torch.float64)
        word_suffixes = torch.ones(len(words), dtype=torch.long)  # of each word
        for batch in self._batches(examples):
            inputs, target = batch.inputs, batch.target
            real = inputs.mask & (target >= 0)
            _add(words, inputs.words[real], target[real])
            word_suffixes[inputs.words[real]] = inputs.suffixes[real]
            unknown = real & (inputs.words == UNKNOWN)
            _add(suffix_counts, inputs.suffixes[unknown], target[unknown])
            edge = torch.full((len(real), 1), labels)
            before = torch.cat([edge, target.masked_fill(~real, labels)], dim=1)
            after = torch.cat([target.masked_fill(~real, labels), edge], dim=1)
            present = torch.cat([real[:, :1], real], dim=1)  # a non-empty row has one transition more than labels
            _add(pairs, before[present], after[present])
        rare = (words.sum(dim=1) <= RARE).nonzero().flatten()
        rare = rare[rare > UNKNOWN]
        suffix_counts.index_add_(0, word_suffixes[rare], words[rare])
        overall = (words.sum(dim=0) + 1) / (words.sum() + labels)
        by_suffix = self._interpolate(suffix_counts, overall)
        words = _mix(words, by_suffix[word_suffixes], WORD_PRIOR)
        following = (pairs.sum(dim=0) + 1) / (pairs.sum() + labels + 1)
        pairs = _mix(pairs, following.expand_as(pairs), TRANSITION_PRIOR).log()
        self.words.copy_((words / overall).log())
        self.suffixes.copy_((by_suffix / overall).log())
        self.start.copy_(pairs[-1, :-1])
        self.transitions.copy_(pairs[:-1, :-1])
        self.end.copy_(pairs[:-1, -1])

    def _batches(self, examples: Iterable[Any]) -> Iterator[Batch]:
        iterator = iter(examples)
        while chunk := list(islice(iterator, BATCH_SIZE)):
            yield self.collate(chunk)

    def _interpolate(self, counts: Tensor, overall: Tensor) -> Tensor:
        """P(label | suffix) from the counts of the longest suffixes, which add to all shorter ones."""
        parents = torch.tensor(self.parents)
        depths = torch.tensor([self._depth(index) for index in range(len(self.parents))])
        levels = [(depths == depth).nonzero().flatten() for depth in range(int(depths.max()) + 1)]
        for level in reversed(levels[1:]):
            counts.index_add_(0, parents[level], counts[level])
        probabilities = overall.expand_as(counts).clone()
        probabilities[levels[0]] = _mix(counts[levels[0]], probabilities[levels[0]], SUFFIX_PRIOR)
        for level in levels[1:]:
            probabilities[level] = _mix(counts[level], probabilities[parents[level]], SUFFIX_PRIOR)
        return probabilities

    def _depth(self, index: int) -> int:
        return 0 if index <= UNKNOWN else 1 + self._depth(self.parents[index])

    def forward(self, inputs: HMMInput, state: None = None) -> tuple[Tensor, None]:
        """log P(label | word) / P(label) for each label (B, T, L)."""
        known = (inputs.words != UNKNOWN).unsqueeze(2)
        return torch.where(known, self.words[inputs.words], self.suffixes[inputs.suffixes]), state

    def loss(self, emissions: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        """The negative logarithm of P(labels | words), summed over all rows."""
        total = log_partition(emissions, mask, self.chain) - score(emissions, mask, labels, chain=self.chain)
        return total.sum()

    def decode(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The most probable label sequence (B, T)."""
        return viterbi(emissions, mask, self.chain)

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The probability of each label at each position (B, T, L)."""
        return marginals(emissions, mask, self.chain)


def suffixes(word: str) -> list[str]:
    """The shape of a word followed by its last characters, from the longest suffix to the empty one."""
    tails = [word[len(word) - length :].lower() for length in range(min(MAX_SUFFIX, len(word)), -1, -1)]
    return [shape(word) + tail for tail in tails]


def shorten(suffix: str) -> str:
    """The suffix without its first character; empty if none is left."""
    return suffix[:1] + suffix[2:] if len(suffix) > 1 else ""


def shape(word: str) -> str:
    """0: contains a digit; *: no letters; a: lowercase; A: uppercase; T: title case; m: mixed case."""
    if any(character.isdigit() for character in word):
        return "0"
    if not any(character.isalpha() for character in word):
        return "*"
    if word == word.lower():
        return "a"
    if word == word.upper() and len(word) > 1:
        return "A"
    return "T" if word[1:] == word[1:].lower() else "m"


def _add(table: Tensor, rows: Tensor, columns: Tensor) -> None:
    ones = torch.ones(len(rows), dtype=table.dtype)
    table.index_put_((rows, columns), ones, accumulate=True)


def _mix(counts: Tensor, prior: Tensor, times: float) -> Tensor:
    """The relative frequencies of each row after adding the prior ``times`` times."""
    return (counts + times * prior) / (counts.sum(dim=1, keepdim=True) + times)
