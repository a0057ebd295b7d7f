"""Vectors that were learnt: threads, questions by brute force, the chances of words."""

from typing import Any

import numpy as np
import pytest
import torch

from seqloom.data.text.passages import passages
from seqloom.data.text.word_counts import WordIndex, count_words
from seqloom.models import word2vec
from seqloom.models.word2vec import OneHot, Word2Vec

TEXTS = [" ".join(f"w{number % 7} v{number % 5}" for number in range(start, start + 90)) for start in range(12)]


def model(**fields: Any) -> Word2Vec:
    found = count_words(passages(TEXTS))
    settings: dict[str, Any] = {"size": 8, "window": 2, "negative": 2, "mean": False, "sample": 0.0}
    torch.manual_seed(1)
    return Word2Vec(
        WordIndex("\n".join(found.words)),
        found.counts,
        **settings | fields,
        examples=found.passages,
        length=found.length,
    )


@pytest.mark.parametrize("fields", [{}, {"mean": True}, {"negative": 0}, {"sample": 0.01}])
def test_the_same_seed_is_the_same_result_and_threads_learn_as_much(fields: dict[str, Any]) -> None:
    before = torch.get_num_threads()
    learnt = []
    try:
        for threads in (1, 1, 3):
            torch.set_num_threads(threads)
            module = model(**fields)
            found = module.update(list(passages(TEXTS)), rates=(0.05, 0.01), seed=(1, 0, 0))
            learnt.append((module.vectors.clone(), found))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(learnt[0][0], learnt[1][0])
    assert learnt[0][1] == learnt[1][1]
    assert learnt[2][1].processed == learnt[0][1].processed == 12 * 180
    assert learnt[2][1].items == learnt[0][1].items  # which words are drawn depends on the passage alone
    assert learnt[2][1].loss == pytest.approx(learnt[0][1].loss, rel=0.1)
    other = model(**fields)
    other.update(list(passages(TEXTS)), rates=(0.05, 0.01), seed=(2, 0, 0))
    assert not torch.equal(other.vectors, learnt[0][0])


def test_chances_to_be_seen() -> None:
    module = model(sample=0.05)
    keep = module.tables()[0] / 2**32
    share = module.counts / module.counts.sum()
    np.testing.assert_allclose(keep, np.minimum(np.sqrt(0.05 / share) + 0.05 / share, 1), atol=1e-9)
    assert (keep < 1).any()


@pytest.mark.parametrize("block", [5, 1 << 16])
def test_the_nearest_words_by_brute_force(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word2vec, "BLOCK", block)
    module = model()
    torch.nn.init.normal_(module.vectors)
    units = torch.nn.functional.normalize(module.vectors, dim=1).numpy()
    words, weights = torch.tensor([[3, 1, 2], [4, 0, 0]]), torch.tensor([[1, -1, 1], [1, 0, 0]])
    values, numbers = module.nearest(words, weights, among=10, count=3)
    for row, asked in enumerate([{3, 1, 2}, {4}]):
        total = sum(sign * units[word] for word, sign in zip(words[row], weights[row].tolist(), strict=True))
        cosines = units[:10] @ (total / np.linalg.norm(total))
        order = [index for index in np.argsort(-cosines).tolist() if index not in asked][:3]
        assert numbers[row].tolist() == order
        np.testing.assert_allclose(values[row].numpy(), cosines[order], atol=1e-6)
    np.testing.assert_allclose(
        module.between(words[1:], weights[1:])[0, :2].numpy(), [1, units[4] @ units[0]], atol=1e-6
    )


def test_one_hot_vectors_are_all_alike() -> None:
    module = OneHot(6)
    values, numbers = module.nearest(torch.tensor([[3, 1]]), torch.tensor([[1, -1]]), among=6, count=2)
    assert values.tolist() == [[0, 0]]
    assert not {3, 1} & set(numbers[0].tolist())
    assert module.between(torch.tensor([[3, 1]]), torch.tensor([[1, 0]])).tolist() == [[1, 0]]
