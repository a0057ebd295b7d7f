"""Hidden Markov models of labels by counting, with unknown words judged by their endings (Brants 2000)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.data.batch import Batch
from seqloom.layers.embedding import UNKNOWN
from seqloom.models.crf import Chain, log_partition, marginals, score, viterbi
from seqloom.training.self_trained import CountingModel

LONGEST_ENDING = 5
RARE = 10
"""Words that occur up to so often tell what unknown words are like."""

COUNTED_TOGETHER = 256
NEIGHBOURS, WORD, ENDING = 3.0, 0.5, 3.0
"""How many times the less precise estimate counts beside what was counted."""


class Clues(NamedTuple):
    """What the model sees of each word."""

    words: Tensor  # (B, T), 1 where unknown
    endings: Tensor  # (B, T), the longest known ending
    mask: Tensor  # (B, T)


class HMM(CountingModel):
    """P(label | label before) and P(word | label) from counts: has no parameters and needs one pass over the data.

    An unknown word's labels are those of rare words with the same ending; P(word | label) is proportional to
    P(label | word) / P(label). Counts are interpolated with those of less: a word's with its ending's, an ending's with
    the one that is a character shorter, a pair's with its second label's.
    """

    start: Tensor
    between: Tensor
    end: Tensor
    words: Tensor
    endings: Tensor

    def __init__(
        self,
        words: int,
        labels: int,
        *,
        parents: Sequence[int],  # of each ending the number of the one that is a character shorter; 1 is the root
        collate: Callable[[Sequence[Any]], Batch],  # examples → Clues and labels (B, T), -1 where there is none
    ) -> None:
        super().__init__()
        self.collate = collate
        self.parents = tuple(parents)
        self.register_buffer("start", torch.zeros(labels))
        self.register_buffer("between", torch.zeros(labels, labels))
        self.register_buffer("end", torch.zeros(labels))
        self.register_buffer("words", torch.zeros(words, labels))  # log P(label | word) / P(label)
        self.register_buffer("endings", torch.zeros(len(self.parents), labels))

    @property
    def chain(self) -> Chain:
        return Chain(self.start, self.between, self.end)

    def count(self, examples: Iterable[Any]) -> None:
        """Estimate all tables from the examples."""
        labels = len(self.start)
        pairs = torch.zeros(
            labels + 1, labels + 1, dtype=torch.float64
        )  # the last row is the start, the last column the end
        words = torch.zeros(self.words.shape, dtype=torch.float64)
        endings = torch.zeros(self.endings.shape, dtype=torch.float64)
        ending = torch.ones(len(words), dtype=torch.long)  # of each word
        for batch in self._batches(examples):
            clues, target = batch.inputs, batch.target
            real = clues.mask & (target >= 0)
            _add(words, clues.words[real], target[real])
            ending[clues.words[real]] = clues.endings[real]
            unknown = real & (clues.words == UNKNOWN)
            _add(endings, clues.endings[unknown], target[unknown])
            edge = torch.full((len(real), 1), labels)
            before = torch.cat([edge, target.masked_fill(~real, labels)], dim=1)
            after = torch.cat([target.masked_fill(~real, labels), edge], dim=1)
            some = torch.cat([real[:, :1], real], dim=1)  # a row that is not empty has a pair more than labels
            _add(pairs, before[some], after[some])
        rare = (words.sum(dim=1) <= RARE).nonzero().flatten()
        rare = rare[rare > UNKNOWN]
        endings.index_add_(0, ending[rare], words[rare])
        overall = (words.sum(dim=0) + 1) / (words.sum() + labels)
        endings = self._interpolate(endings, overall)
        words = _mix(words, endings[ending], WORD)
        following = (pairs.sum(dim=0) + 1) / (pairs.sum() + labels + 1)
        pairs = _mix(pairs, following.expand_as(pairs), NEIGHBOURS).log()
        self.words.copy_((words / overall).log())
        self.endings.copy_((endings / overall).log())
        self.start.copy_(pairs[-1, :-1])
        self.between.copy_(pairs[:-1, :-1])
        self.end.copy_(pairs[:-1, -1])

    def _batches(self, examples: Iterable[Any]) -> Iterator[Batch]:
        iterator = iter(examples)
        while some := list(islice(iterator, COUNTED_TOGETHER)):
            yield self.collate(some)

    def _interpolate(self, counts: Tensor, overall: Tensor) -> Tensor:
        """P(label | ending) from counts of the longest endings: each is seen by all that are shorter."""
        parents = torch.tensor(self.parents)
        depths = torch.tensor([self._depth(number) for number in range(len(self.parents))])
        levels = [(depths == depth).nonzero().flatten() for depth in range(int(depths.max()) + 1)]
        for level in reversed(levels[1:]):
            counts.index_add_(0, parents[level], counts[level])
        found = overall.expand_as(counts).clone()
        found[levels[0]] = _mix(counts[levels[0]], found[levels[0]], ENDING)
        for level in levels[1:]:
            found[level] = _mix(counts[level], found[parents[level]], ENDING)
        return found

    def _depth(self, number: int) -> int:
        return 0 if number <= UNKNOWN else 1 + self._depth(self.parents[number])

    def forward(self, inputs: Clues, state: None = None) -> tuple[Tensor, None]:
        """log P(label | word) / P(label) for each label (B, T, L)."""
        known = (inputs.words != UNKNOWN).unsqueeze(2)
        return torch.where(known, self.words[inputs.words], self.endings[inputs.endings]), state

    def loss(self, emissions: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        """The negative logarithm of P(labels | words), summed over all rows."""
        total = log_partition(emissions, mask, self.chain) - score(emissions, mask, labels, chain=self.chain)
        return total.sum()

    def decode(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The most probable sequence of labels (B, T)."""
        return viterbi(emissions, mask, self.chain)

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The probability of each label at each place (B, T, L)."""
        return marginals(emissions, mask, self.chain)


def endings(word: str) -> list[str]:
    """A word's shape with its last characters, from many to none."""
    tails = [word[len(word) - length :].lower() for length in range(min(LONGEST_ENDING, len(word)), -1, -1)]
    return [shape(word) + tail for tail in tails]


def shorten(ending: str) -> str:
    """The same ending with a character less; an empty text where there is none left."""
    return ending[:1] + ending[2:] if len(ending) > 1 else ""


def shape(word: str) -> str:
    """One character: 0 with a digit, * without a letter, A in capitals, a all small, Aa as T, other mixtures as m."""
    if any(symbol.isdigit() for symbol in word):
        return "0"
    if not any(symbol.isalpha() for symbol in word):
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
    """Shares of each row, as if the prior had been counted so many times more."""
    return (counts + times * prior) / (counts.sum(dim=1, keepdim=True) + times)
