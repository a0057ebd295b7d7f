"""Real texts for experiments, character by character: the built-in prose and Python code."""

import math
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from seqloom.data.batch import Batch
from seqloom.data.builtin import datasets
from seqloom.lab.network import classification_loss, one_hot_batch

TextName = Literal["prose", "code"]
CHARACTERS = 64
"""The most frequent characters of a text; all others are one more."""


@dataclass(frozen=True)
class Text:
    """A text as numbers of characters."""

    train: Tensor  # (N,)
    dev: Tensor  # (M,)
    size: int  # different characters

    def sampler(self, *, batch_size: int, length: int, seed: int) -> Callable[[], Batch]:
        """A function that draws windows of the training text; each character is to be predicted from those before."""
        draw = torch.Generator().manual_seed(seed)

        def sample() -> Batch:
            starts = torch.randint(len(self.train) - length - 1, (batch_size, 1), generator=draw)
            return self._batch(self.train[starts + torch.arange(length + 1)])

        return sample

    def dev_batch(self, *, windows: int = 40, length: int = 100) -> Batch:
        """Windows at equal distances in the dev text."""
        starts = torch.linspace(0, len(self.dev) - length - 2, windows).long().unsqueeze(1)
        return self._batch(self.dev[starts + torch.arange(length + 1)])

    def _batch(self, windows: Tensor) -> Batch:
        return one_hot_batch(windows[:, :-1], windows[:, 1:], size=self.size)


@cache
def load_text(name: TextName) -> Text:
    """English prose of the Python manual, or statements of the Python standard library, in lowercase."""
    with tempfile.TemporaryDirectory() as folder:
        files = datasets.build("prose" if name == "prose" else "python_tags", Path(folder) / name)
        train, dev = (_content(path, name) for path in (files.train, files.dev))
    known = {character: index for index, (character, _) in enumerate(Counter(train).most_common(CHARACTERS))}
    other = len(known)

    def numbers(content: str) -> Tensor:
        return torch.tensor([known.get(character, other) for character in content])

    return Text(numbers(train), numbers(dev), size=other + 1)


def _content(path: Path, name: TextName) -> str:
    text = path.read_text(encoding="utf-8").lower()
    if name == "prose":
        return text
    # CoNLL: a token and its label on each line, an empty line after each statement.
    return "\n".join(" ".join(line.partition("\t")[0] for line in block.splitlines()) for block in text.split("\n\n"))


@torch.no_grad()
def bits_per_character(network: nn.Module, batch: Batch) -> float:
    """The mean loss in bits."""
    loss = classification_loss(network, batch)
    return loss.total.item() / loss.items / math.log(2)
