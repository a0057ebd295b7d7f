"""Contextual vectors in the lab: sentences, nearest occurrences by brute force, and the verdict."""

from random import Random

import pytest
import torch

from seqloom.lab.contextual import (
    SENSES,
    WORDS,
    Contextual,
    Occurrence,
    Outcome,
    occurrence,
    same_sense,
    training_sentence,
    vectors_of,
    without_form,
)


def rows(lowest: tuple[float, ...], highest: tuple[float, ...]) -> list[Outcome]:
    return [
        Outcome(layer, seed, word, value, 0.0)
        for layer, values in ((0, lowest), (1, (0.7, 0.7, 0.7)), (2, highest))
        for seed, value in enumerate(values)
        for word in SENSES
    ]


@pytest.mark.parametrize(
    ("lowest", "highest", "status"),
    [
        ((0.5, 0.5, 0.5), (0.97, 0.98, 0.99), "holds"),
        ((0.5, 0.5, 0.5), (0.6, 0.62, 0.61), "does not hold here"),
        ((0.9, 0.9, 0.9), (0.97, 0.98, 0.99), "does not hold here"),  # vectors without context do it, too
        ((0.5, 0.5, 0.5), (0.8, 0.98, 0.99), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(lowest: tuple[float, ...], highest: tuple[float, ...], status: str) -> None:
    assert Contextual().verdict(rows(lowest, highest)).status == status


def test_sentences_hold_words_of_one_sense() -> None:
    random = Random(1)  # noqa: S311  no secret
    contexts = {
        word: (name, sense) for name, both in SENSES.items() for sense, s in enumerate(both) for word in s.split()
    }
    assert len(contexts) == 12 * 6  # no word belongs to two senses
    for _ in range(50):
        words = training_sentence(random)
        assert set(words) <= set(WORDS)
        assert len({contexts[word] for word in words if word in contexts}) == 1
    one = occurrence(random, "stick", 1)
    assert "stick" in one.sentence
    assert {contexts[word] for word in one.context} == {("stick", 1)}


def occurrences_of(*cases: tuple[int, str]) -> list[Occurrence]:
    return [
        Occurrence([], "stick", sense, frozenset(context), index % 2) for index, (sense, context) in enumerate(cases)
    ]


def test_the_nearest_occurrence_shares_no_context() -> None:
    occurrences = occurrences_of((0, "ab"), (0, "bc"), (0, "de"), (1, "uv"), (1, "wx"))
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.01], [0.9, 0.4], [1.0, 0.1], [0.0, 1.0]])
    # One of each sense is compared. 0: 2 or 3, since 1 shares b → 3: wrong; 1: 2 or 3 → 3: wrong; 2: 0 or 3, both of
    # which are there twice, 0, 1 or 3, 4 → 3: wrong; 3: 4 or 0 → 0: wrong; 4: 3 or 0 → 3: right.
    assert same_sense(vectors, occurrences) == pytest.approx(1 / 5)
    vectors[3] = torch.tensor([0.0, -1.0])
    # 0, 1 → 2 and 2 → 0 or 1: right; 3: 4 or 0 → 0: wrong; 4: 3 or 0 → 0: wrong.
    assert same_sense(vectors, occurrences) == pytest.approx(3 / 5)


def test_chance_is_one_half() -> None:
    """Random vectors: fewer occurrences of the own sense share no word, which must not count."""
    random = Random(1)  # noqa: S311  no secret
    occurrences = [occurrence(random, "bat", sense) for sense in (0, 1) for _ in range(100)]
    vectors = torch.randn(200, 8, generator=torch.Generator().manual_seed(1))
    # 200 answers that are right with probability 1/2: 3 standard deviations are 0.106.
    assert same_sense(vectors, occurrences) == pytest.approx(0.5, abs=0.11)


def test_the_form_of_the_sentences_can_be_the_same() -> None:
    """Forms are 0, 1, 0, 1, 0: of the first, third and fifth, only the first two have the same sense."""
    occurrences = occurrences_of((0, "ab"), (0, "bc"), (0, "de"), (1, "uv"), (1, "wx"))
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.01], [0.9, 0.4], [1.0, 0.1], [0.0, 1.0]])
    # 0 → 2 and 2 → 0: right; the others have no occurrence of both senses in sentences of their form.
    assert same_sense(vectors, occurrences, same_form=True) == 1
    means = without_form(vectors, occurrences)
    torch.testing.assert_close(means[[0, 2, 4]].sum(dim=0), torch.zeros(2), atol=1e-6, rtol=0)
    torch.testing.assert_close(means[1], (vectors[1] - vectors[3]) / 2)


def test_equal_vectors_are_chance() -> None:
    occurrences = occurrences_of((0, "ab"), (0, "bc"), (0, "de"), (1, "uv"), (1, "wx"))
    assert same_sense(torch.ones(5, 3), occurrences) == pytest.approx(0.5)


def test_the_lowest_layer_does_not_depend_on_the_context() -> None:
    torch.manual_seed(1)
    random = Random(1)  # noqa: S311  no secret
    model = Contextual(hidden_size=4).build()
    layers = vectors_of(model, [occurrence(random, "bank", sense) for sense in (0, 1, 0, 1)])
    assert len(layers) == 3
    assert torch.equal(layers[0], layers[0][:1].expand(4, -1))
    assert not torch.allclose(layers[2][0], layers[2][1])
