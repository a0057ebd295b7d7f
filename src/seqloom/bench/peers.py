"""What the contestants of ``seqloom bench translate`` share: sizes, random sentences, and what each of them can do."""

import importlib
import random
import sys
from collections.abc import Iterator
from importlib.metadata import version
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

UNKNOWN, PAD, BEGIN, END, FIRST = range(5)
"""Numbers of the special symbols, in the order that one of the peers insists on, and of the first word."""

LENGTHS = (
    *((6, 6), (10, 6), (8, 7), (9, 7), (11, 7), (8, 8), (9, 8), (9, 8), (10, 8), (6, 9), (9, 9), (9, 9), (10, 9)),
    *((11, 9), (12, 9), (15, 9), (9, 10), (10, 10), (11, 10), (11, 10), (12, 10), (13, 10), (7, 11), (10, 11)),
    *((11, 11), (11, 11), (12, 11), (13, 11), (14, 11), (8, 12), (11, 12), (12, 12), (12, 12), (13, 12), (14, 12)),
    *((16, 12), (11, 13), (12, 13), (13, 13), (14, 13), (15, 13), (9, 14), (13, 14), (14, 14), (15, 14), (16, 14)),
    *((11, 15), (14, 15), (15, 15), (17, 15), (13, 16), (15, 16), (17, 16), (11, 17), (16, 17), (19, 17), (16, 18)),
    *((19, 18), (17, 19), (22, 19), (21, 20), (25, 21), (21, 23), (28, 26)),
)
"""Words and marks in English and German: 64 quantiles of the training pairs of Multi30k."""


class Sizes(NamedTuple):
    """Of the models and of the batches."""

    vocabulary: int = 8000  # of both languages and of the output, one table for all three
    width: int = 256
    heads: int = 4
    layers: int = 3  # on each side
    feed_forward: int = 1024
    dropout: float = 0.1  # wherever the library has it unless told otherwise
    smoothing: float = 0.1
    tokens: int = 2048  # of the target in a batch, padding and end included


class Pairs(NamedTuple):
    """A batch of sentences and their translations."""

    source: Tensor  # (B, S)
    lengths: Tensor  # (B,), of the sources
    before: Tensor  # (B, T), the target behind BEGIN
    target: Tensor  # (B, T), with END

    @property
    def mask(self) -> Tensor:  # (B, S)
        return self.source != PAD

    @property
    def tokens(self) -> int:
        return int((self.target != PAD).sum())


class Peer(Protocol):
    """A model in training, and its search."""

    model: nn.Module

    def loss(self, pairs: Pairs) -> Tensor:
        """The mean over the target's symbols."""

    def generate(self, source: Tensor, lengths: Tensor, *, width: int, length: int) -> Tensor:  # (B, length)
        """The best of a beam that is ``width`` wide; 1 is greedy. Nothing ends before ``length`` symbols."""


def pairs(sizes: Sizes, *, count: int, seed: int = 1) -> list[Pairs]:
    """``count`` batches of random words, from short sentences to long ones; their lengths are those of Multi30k."""
    chooser = random.Random(seed)  # noqa: S311  not a secret
    copies = -(-2 * count * sizes.tokens // sum(target + 1 for _, target in LENGTHS))
    buckets: list[list[tuple[int, int]]] = [[]]
    for pair in sorted(LENGTHS * copies, key=lambda pair: (pair[1], pair[0])):
        if buckets[-1] and (len(buckets[-1]) + 1) * (pair[1] + 1) > sizes.tokens:
            buckets.append([])
        buckets[-1].append(pair)
    whole = buckets[:-1]
    return [_batch(whole[(2 * number + 1) * len(whole) // (2 * count)], chooser, sizes) for number in range(count)]


def _batch(lengths: list[tuple[int, int]], chooser: random.Random, sizes: Sizes) -> Pairs:
    lengths = sorted(lengths, reverse=True)  # as one of the peers wants it
    sources = [_words(chooser, source, sizes) for source, _ in lengths]
    targets = [_words(chooser, target, sizes) for _, target in lengths]
    return Pairs(
        source=_pad(sources),
        lengths=torch.tensor([source for source, _ in lengths]),
        before=_pad([[BEGIN, *target] for target in targets]),
        target=_pad([[*target, END] for target in targets]),
    )


def sources(sizes: Sizes, *, rows: int) -> tuple[Tensor, Tensor]:  # (B, S), (B,)
    """Sentences of about 13 words to translate."""
    chooser = random.Random(1)  # noqa: S311
    lengths = (
        [13] if rows == 1 else sorted((LENGTHS[row * len(LENGTHS) // rows][0] for row in range(rows)), reverse=True)
    )
    return _pad([_words(chooser, length, sizes) for length in lengths]), torch.tensor(lengths)


def _words(chooser: random.Random, length: int, sizes: Sizes) -> list[int]:
    return [chooser.randrange(FIRST, sizes.vocabulary) for _ in range(length)]


def _pad(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def updates(peer: Peer, batches: list[Pairs], *, rate: float = 1e-4) -> Iterator[None]:
    """Training as everybody does it; each step is one pass over the batches."""
    optimizer = torch.optim.Adam(peer.model.parameters(), lr=rate, fused=True)
    peer.model.train()
    while True:
        for batch in batches:
            optimizer.zero_grad()
            peer.loss(batch).backward()
            nn.utils.clip_grad_norm_(peer.model.parameters(), 1.0)
            optimizer.step()
        yield


INSTALLED = {"transformers": "HF transformers", "opennmt": "OpenNMT-py", "joeynmt": "JoeyNMT"}
"""Peers that somebody may have installed, by the file that has ``transformer`` and ``recurrent`` of them."""

PACKAGES = {"transformers": "transformers", "opennmt": "OpenNMT-py", "joeynmt": "joeynmt"}


def find(kind: str, sizes: Sizes) -> dict[str, Peer]:
    """The peers of a kind, transformer or recurrent, that can be imported here; of others, a line on stderr."""
    found: dict[str, Peer] = {}
    for file, name in {"torch": "plain torch", **INSTALLED}.items():
        try:
            module = importlib.import_module(f"seqloom.bench.peers_{file}")
        except ImportError as error:
            print(f"Not compared with {name}: {error}", file=sys.stderr)
            continue
        torch.manual_seed(1)
        if hasattr(module, kind):
            full = f"{name} {version(PACKAGES[file])}" if file in PACKAGES else name
            found[full] = getattr(module, kind)(sizes)
    return found
