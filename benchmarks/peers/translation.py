"""The interface of the translation benchmark: model sizes, random batches, and what each peer implements."""

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

UNKNOWN, PAD, BEGIN, END, FIRST = range(5)
"""Indices of the special tokens, in the order that one of the libraries requires, and of the first word."""

LENGTHS = (
    *((6, 6), (10, 6), (8, 7), (9, 7), (11, 7), (8, 8), (9, 8), (9, 8), (10, 8), (6, 9), (9, 9), (9, 9), (10, 9)),
    *((11, 9), (12, 9), (15, 9), (9, 10), (10, 10), (11, 10), (11, 10), (12, 10), (13, 10), (7, 11), (10, 11)),
    *((11, 11), (11, 11), (12, 11), (13, 11), (14, 11), (8, 12), (11, 12), (12, 12), (12, 12), (13, 12), (14, 12)),
    *((16, 12), (11, 13), (12, 13), (13, 13), (14, 13), (15, 13), (9, 14), (13, 14), (14, 14), (15, 14), (16, 14)),
    *((11, 15), (14, 15), (15, 15), (17, 15), (13, 16), (15, 16), (17, 16), (11, 17), (16, 17), (19, 17), (16, 18)),
    *((19, 18), (17, 19), (22, 19), (21, 20), (25, 21), (21, 23), (28, 26)),
)
"""Source and target lengths in tokens: 64 quantiles of the Multi30k training pairs (English, German)."""


class Sizes(NamedTuple):
    """Model and batch sizes."""

    vocabulary: int = 8000  # one embedding matrix for source, target and output
    width: int = 256
    heads: int = 4
    layers: int = 3  # of the encoder, and of the decoder
    feed_forward: int = 1024
    dropout: float = 0.1  # wherever the library applies it by default
    label_smoothing: float = 0.1
    tokens: int = 2048  # target tokens per batch, including padding and END


class Batch(NamedTuple):
    """A batch of sentences and their translations."""

    source: Tensor  # (B, S)
    lengths: Tensor  # (B,), source lengths
    decoder_input: Tensor  # (B, T), the target shifted right, starting with BEGIN
    target: Tensor  # (B, T), ending with END

    @property
    def mask(self) -> Tensor:  # (B, S)
        return self.source != PAD

    @property
    def tokens(self) -> int:
        return int((self.target != PAD).sum())


class Peer(Protocol):
    """A translation model with its training loss and its search."""

    model: nn.Module

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy per target token."""

    def generate(self, source: Tensor, lengths: Tensor, *, beam_size: int, length: int) -> Tensor:  # (B, length)
        """The best hypothesis of beam search (1: greedy); every output has exactly ``length`` tokens."""


def random_batches(sizes: Sizes, *, count: int, seed: int = 1) -> list[Batch]:
    """``count`` batches of random words with the lengths of Multi30k, from short sentences to long ones."""
    generator = random.Random(seed)  # noqa: S311  not a secret
    copies = -(-2 * count * sizes.tokens // sum(target + 1 for _, target in LENGTHS))
    buckets: list[list[tuple[int, int]]] = [[]]
    for pair in sorted(LENGTHS * copies, key=lambda pair: (pair[1], pair[0])):
        if buckets[-1] and (len(buckets[-1]) + 1) * (pair[1] + 1) > sizes.tokens:
            buckets.append([])
        buckets[-1].append(pair)
    full = buckets[:-1]
    return [_batch(full[(2 * number + 1) * len(full) // (2 * count)], generator, sizes) for number in range(count)]


def _batch(lengths: list[tuple[int, int]], generator: random.Random, sizes: Sizes) -> Batch:
    lengths = sorted(lengths, reverse=True)  # required by some of the libraries
    sources = [_words(generator, source, sizes) for source, _ in lengths]
    targets = [_words(generator, target, sizes) for _, target in lengths]
    return Batch(
        source=_pad(sources),
        lengths=torch.tensor([source for source, _ in lengths]),
        decoder_input=_pad([[BEGIN, *target] for target in targets]),
        target=_pad([[*target, END] for target in targets]),
    )


def random_sources(sizes: Sizes, *, rows: int) -> tuple[Tensor, Tensor]:  # (B, S), (B,)
    """Source sentences of about 13 words."""
    generator = random.Random(1)  # noqa: S311
    lengths = (
        [13] if rows == 1 else sorted((LENGTHS[row * len(LENGTHS) // rows][0] for row in range(rows)), reverse=True)
    )
    return _pad([_words(generator, length, sizes) for length in lengths]), torch.tensor(lengths)


def _words(generator: random.Random, length: int, sizes: Sizes) -> list[int]:
    return [generator.randrange(FIRST, sizes.vocabulary) for _ in range(length)]


def _pad(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def updates(
    peer: Peer,
    batches: list[Batch],
    *,
    learning_rate: float = 1e-4,
    precision: Callable[[], AbstractContextManager[Any]] = nullcontext,  # of forward pass and loss
) -> Iterator[None]:
    """A plain training loop with Adam; each iteration is one pass over the batches."""
    optimizer = torch.optim.Adam(peer.model.parameters(), lr=learning_rate, fused=True)
    peer.model.train()
    while True:
        for batch in batches:
            optimizer.zero_grad()
            with precision():
                loss = peer.loss(batch)
            loss.backward()
            nn.utils.clip_grad_norm_(peer.model.parameters(), 1.0)
            optimizer.step()
        yield
