"""Analogies in the lab: answers by brute force, the data, and the verdict on made-up results."""

import numpy as np
import pytest
import torch

from seqloom.lab.analogies import (
    BASE_ONLY,
    METHODS,
    OFFSET,
    WITH_QUESTION,
    Analogies,
    Outcome,
    answers,
    load_analogies,
)


def rows(offset: tuple[int, ...], base: tuple[int, ...]) -> list[Outcome]:
    return [
        Outcome(method, seed, 100, right)
        for method, values in ((OFFSET, offset), (WITH_QUESTION, (0, 0, 0)), (BASE_ONLY, base))
        for seed, right in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("offset", "base", "status"),
    [
        ((80, 81, 83), (20, 21, 22), "holds"),
        ((30, 31, 33), (20, 21, 22), "does not hold here"),  # fewer than half
        ((80, 81, 83), (90, 91, 95), "does not hold here"),  # c alone is better
        ((40, 80, 60), (20, 21, 22), "not decided"),
        ((80, 81, 83), (60, 95, 80), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(offset: tuple[int, ...], base: tuple[int, ...], status: str) -> None:
    assert Analogies().verdict(rows(offset, base)).status == status


def test_answers_are_those_of_brute_force() -> None:
    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(12, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    questions = np.array([generator.permutation(12)[:3] for _ in range(20)])
    for method in METHODS:
        expected = []
        for b, a, c in questions:
            goal = vectors[c] if method == BASE_ONLY else vectors[a] - vectors[b] + vectors[c]
            cosines = {word: vector @ goal / np.linalg.norm(goal) for word, vector in enumerate(vectors)}
            allowed = set(cosines) - (set() if method == WITH_QUESTION else {a, b, c})
            expected.append(max(allowed, key=cosines.__getitem__))
        assert answers(torch.tensor(vectors), torch.tensor(questions), method).tolist() == expected


def test_every_word_of_the_questions_is_in_the_text() -> None:
    text, questions = load_analogies()
    words = set(text.data.decode().split())
    assert len(questions) > 200
    assert ("man", "woman") in {(first, second) for first, second, _, _ in questions}
    assert {word for question in questions for word in question} <= words
