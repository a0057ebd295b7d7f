"""Texts as numbers, and bits per character against the entropy of known predictions."""

import math

import pytest
import torch
from torch import Tensor, nn

from seqloom.lab.texts import CHARACTERS, Text, bits_per_character, load_text

SMALL = Text(train=torch.arange(100) % 7, dev=torch.arange(60) % 7, size=7)


class Uniform(nn.Module):
    """Predicts that all characters are equally probable."""

    def forward(self, _inputs: object, where: Tensor) -> Tensor:
        return torch.zeros(int(where.sum()), 7)


def test_each_character_is_to_be_predicted_from_those_before() -> None:
    for batch in (SMALL.sampler(batch_size=4, length=9, seed=1)(), SMALL.dev_batch(windows=3, length=9)):
        tokens = batch.inputs.values.argmax(-1)
        assert tokens.shape[1] == 9
        assert torch.equal(batch.target, (tokens + 1) % 7)


def test_the_seed_chooses_the_windows() -> None:
    first, again, other = (SMALL.sampler(batch_size=4, length=5, seed=seed)().target for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_uniform_guessing_takes_the_logarithm_of_the_characters() -> None:
    assert bits_per_character(Uniform(), SMALL.dev_batch(windows=3, length=9)) == pytest.approx(math.log2(7))


@pytest.mark.parametrize("name", ["prose", "code"])
def test_built_in_texts_are_large_and_have_one_number_for_rare_characters(name: str) -> None:
    text = load_text("prose" if name == "prose" else "code")
    assert min(len(text.train), len(text.dev)) > 5_000
    assert text.size <= CHARACTERS + 1
    assert max(text.train.max(), text.dev.max()) < text.size
    counts = torch.bincount(text.train, minlength=text.size)[:-1]
    assert torch.equal(counts, counts.sort(descending=True).values)
