"""Generated sentences, what counts as agreement, and the verdict on made-up results."""

from itertools import pairwise
from random import Random

import pytest
import torch
from torch import Tensor

from seqloom.data.batch import Padded
from seqloom.lab.agreement import (
    LONGER,
    NOUNS,
    NUMBERS,
    VERBS,
    WORDS,
    Agreement,
    Outcome,
    agreement,
    batch_of,
    sentence,
)
from seqloom.lab.network import IGNORED, Network
from seqloom.layers.build import recurrent


def outcomes(cell: str, *accuracies: float) -> list[Outcome]:
    """The accuracy at the longest distance of training; nearer and further ones must not matter."""
    return [
        Outcome(cell, seed, phrases, value if phrases == 3 else 0.5)
        for seed, value in enumerate(accuracies)
        for phrases in range(3 + LONGER + 1)
    ]


@pytest.mark.parametrize(
    ("elman", "lstm", "status"),
    [
        ((0.7, 0.72, 0.71), (0.99, 0.98, 0.99), "holds"),
        ((0.97, 0.98, 0.97), (0.99, 0.98, 0.99), "does not hold here"),  # hardly better
        ((0.5, 0.51, 0.5), (0.8, 0.81, 0.8), "does not hold here"),  # not reliable
        ((0.3, 0.9, 0.99), (0.99, 0.98, 0.99), "not decided"),
        ((0.7,), (0.99,), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(elman: tuple[float, ...], lstm: tuple[float, ...], status: str) -> None:
    assert Agreement().verdict(outcomes("elman", *elman) + outcomes("lstm", *lstm)).status == status


def seeded() -> Random:
    return Random(1)  # noqa: S311  no secret


def number_of(noun: str) -> int:
    (number,) = [index for index, nouns in enumerate(NOUNS) if noun in nouns]
    return number


def test_verbs_agree_and_the_other_nouns_mislead() -> None:
    random = seeded()
    plural = 0
    for phrases in (0, 1, 3) * 20:
        words = sentence(random, phrases, misleading=True)
        subject, *others = [number_of(word) for word in words if any(word in nouns for nouns in NOUNS)]
        assert len(others) == phrases
        assert set(others) <= {1 - subject}
        assert words[-3] == VERBS[subject]
        assert words[-1] == "."
        for noun, verb in pairwise(words[:-3]):
            assert verb not in VERBS or VERBS[number_of(noun)] == verb  # in relative clauses, the nearest noun's
        plural += subject
    assert 10 < plural < 50


def test_the_next_word_is_to_be_predicted() -> None:
    short, long = ["the", "flight", "was", "full", "."], ["the", "pilot", "of", "the", "guests", "was", "late", "."]
    batch = batch_of([short, long])
    assert [WORDS[number] for number in batch.target[1]] == long[1:]
    assert [WORDS[number] for number in batch.target[0, :4]] == short[1:]
    assert batch.target[0, 4:].tolist() == [IGNORED] * 3
    assert [WORDS[number] for number in batch.inputs.values[1].argmax(-1)] == long[:-1]


class Nearest(Network):
    """Prefers the form of the last noun that it has seen, or of the first one."""

    def __init__(self, *, first: bool) -> None:
        super().__init__(recurrent("elman", len(WORDS), 1), len(WORDS))
        self.first = first

    def forward(self, inputs: Padded, where: Tensor) -> Tensor:
        logits = torch.zeros(len(inputs.values), len(WORDS))
        for row, (words, step) in enumerate(zip(inputs.values.argmax(-1), where.nonzero()[:, 1], strict=True)):
            seen = [WORDS[word] for word in words[: step + 1]]
            nouns = [word for word in seen if any(word in group for group in NOUNS)]
            logits[row, NUMBERS[VERBS[number_of(nouns[0 if self.first else -1])]]] = 1
        return logits


def test_the_nearest_noun_misleads_and_the_first_one_does_not() -> None:
    assert agreement(Nearest(first=True), 3, seeded()) == 1
    assert agreement(Nearest(first=False), 3, seeded()) == 0
    assert agreement(Nearest(first=False), 0, seeded()) == 1
