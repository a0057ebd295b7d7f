"""word2vec: threads and seeds, nearest words by brute force, subsampling probabilities."""

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
    counts = count_words(passages(TEXTS))
    settings: dict[str, Any] = {"size": 8, "window": 2, "negative": 2, "mean": False, "sample": 0.0}
    torch.manual_seed(1)
    return Word2Vec(
        WordIndex("\n".join(counts.words)),
        counts.counts,
        **settings | fields,
        examples=counts.passages,
        length=counts.length,
    )


@pytest.mark.parametrize("fields", [{}, {"mean": True}, {"negative": 0}, {"sample": 0.01}])
def test_one_thread_is_deterministic_and_several_threads_learn_as_much(fields: dict[str, Any]) -> None:
    before = torch.get_num_threads()
    trained = []
    try:
        for threads in (1, 1, 3):
            torch.set_num_threads(threads)
            module = model(**fields)
            stats = module.update(list(passages(TEXTS)), rates=(0.05, 0.01), seed=(1, 0, 0))
            trained.append((module.vectors.clone(), stats))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(trained[0][0], trained[1][0])
    assert trained[0][1] == trained[1][1]
    assert trained[2][1].processed == trained[0][1].processed == 12 * 180
    assert trained[2][1].items == trained[0][1].items  # which words are drawn depends on the passage alone
    assert trained[2][1].loss == pytest.approx(trained[0][1].loss, rel=0.1)
    other = model(**fields)
    other.update(list(passages(TEXTS)), rates=(0.05, 0.01), seed=(2, 0, 0))
    assert not torch.equal(other.vectors, trained[0][0])


def test_subsampling_probabilities() -> None:
    module = model(sample=0.05)
    keep = module.tables()[0] / 2**32
    frequency = module.counts / module.counts.sum()
    np.testing.assert_allclose(keep, np.minimum(np.sqrt(0.05 / frequency) + 0.05 / frequency, 1), atol=1e-9)
    assert (keep < 1).any()


@pytest.mark.parametrize("block", [5, 1 << 16])
def test_the_nearest_words_by_brute_force(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word2vec, "BLOCK", block)
    module = model()
    torch.nn.init.normal_(module.vectors)
    units = torch.nn.functional.normalize(module.vectors, dim=1).numpy()
    words, weights = torch.tensor([[3, 1, 2], [4, 0, 0]]), torch.tensor([[1, -1, 1], [1, 0, 0]])
    values, ids = module.nearest(words, weights, among=10, count=3)
    for row, query in enumerate([{3, 1, 2}, {4}]):
        total = sum(sign * units[word] for word, sign in zip(words[row], weights[row].tolist(), strict=True))
        cosines = units[:10] @ (total / np.linalg.norm(total))
        order = [index for index in np.argsort(-cosines).tolist() if index not in query][:3]
        assert ids[row].tolist() == order
        np.testing.assert_allclose(values[row].numpy(), cosines[order], atol=1e-6)
    np.testing.assert_allclose(
        module.member_cosines(words[1:], weights[1:])[0, :2].numpy(), [1, units[4] @ units[0]], atol=1e-6
    )


def test_one_hot_vectors_are_equally_distant() -> None:
    module = OneHot(6)
    values, ids = module.nearest(torch.tensor([[3, 1]]), torch.tensor([[1, -1]]), among=6, count=2)
    assert values.tolist() == [[0, 0]]
    assert not {3, 1} & set(ids[0].tolist())
    assert module.member_cosines(torch.tensor([[3, 1]]), torch.tensor([[1, 0]])).tolist() == [[1, 0]]


@pytest.mark.parametrize("counts", [[3], [3, 2, 1], [3, 0], [3, -1]])
def test_counts_that_do_not_fit_the_words_are_refused(counts: list[int]) -> None:
    sizes: dict[str, Any] = {"size": 4, "window": 2, "negative": 2, "mean": False, "sample": 0.0}
    with pytest.raises(ValueError, match="expected a positive count for each of 2 words"):
        Word2Vec(WordIndex("a\nb"), np.array(counts), **sizes, examples=1, length=5)
