"""Skip-gram, CBOW and hierarchical softmax against their equations, and against torch's gradients."""

import heapq
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from seqloom.kernels.word2vec import training as kernel
from seqloom.kernels.word2vec.row_products import GROUP

pytestmark = pytest.mark.sampled(2)

WORDS, RATE = 12, 0.1
COUNTS = np.array([90, 50, 30, 20, 12, 9, 7, 5, 4, 3, 2, 1], np.int64)
KEEP_ALL = np.full(WORDS, 2**32 - 1, np.uint32)
TOLERANCE = 2e-5  # float32; and the tabulated sigmoid has an error of 4e-6


def matrices(width: int, *, rows: int = WORDS, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    random = np.random.default_rng(seed)
    inputs, outputs = (random.normal(size=(count, width)) * 0.5 for count in (WORDS, rows))
    return inputs.astype(np.float32), outputs.astype(np.float32)


def tables(negative: int) -> tuple[Any, ...]:
    if negative:
        return *kernel.alias_tables(COUNTS.astype(np.float64) ** 0.75), np.zeros(1, np.int32), np.zeros(1, np.uint8)
    return np.zeros(WORDS, np.uint32), np.zeros(1, np.int32), *kernel.huffman(COUNTS)


def train(
    text: list[int], inputs: Any, outputs: Any, *, negative: int, cbow: bool, window: int = 3, seed: int = 5
) -> tuple[float, int, int]:
    rate = np.float32(RATE)
    result: tuple[float, int, int] = kernel.train(
        np.array(text, np.int32), inputs, outputs, KEEP_ALL, *tables(negative), kernel.SIGMOID, rate, rate, window,
        negative, 32, cbow, np.uint64(seed),
    )  # fmt: skip
    return result


class Random:
    """The random number generator of the kernel in Python."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def next(self) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.state >> 32

    def word(self, thresholds: Any, aliases: Any) -> int:
        product = self.next() * len(thresholds)
        index = product >> 32
        return index if product % 2**32 < int(thresholds[index]) else int(aliases[index])


def path(word: int) -> list[tuple[int, int]]:
    """The inner nodes above a word, each with its label."""
    parents, second = kernel.huffman(COUNTS)
    nodes = []
    while word != len(parents) - 1:
        nodes.append((int(parents[word]) - WORDS, 1 - int(second[word])))
        word = int(parents[word])
    return nodes


def plain(text: list[int], inputs: Any, outputs: Any, *, negative: int, cbow: bool, window: int, seed: int) -> float:
    """The algorithm as in the papers, word by word in float64, with the same random numbers."""
    random, loss = Random(seed), 0.0
    thresholds, aliases, *_ = tables(negative)

    def targets(word: int) -> list[tuple[int, int]]:
        if not negative:
            return path(word)
        drawn = [random.word(thresholds, aliases) for _ in range(negative)]
        return [(word, 1), *((other, 0) for other in drawn if other != word)]

    for line in "".join(chr(97 + word) if word >= 0 else " " for word in text).split(" "):
        words = [ord(letter) - 97 for letter in line]
        for _ in words:
            random.next()  # subsampling
        if len(words) < 2:
            continue
        chosen = targets(words[0])
        for position in range(len(words)):
            outputs_now, chosen = chosen, targets(words[position + 1]) if position + 1 < len(words) else []
            reach = window - (random.next() * window >> 32)
            context = [
                words[at]
                for at in range(max(0, position - reach), min(len(words), position + reach + 1))
                if at != position
            ]
            for number, group in enumerate([context] if cbow else [[word] for word in context]):
                if negative and number:
                    outputs_now = targets(words[position])
                vector = inputs[group].mean(axis=0)
                scores = [float(outputs[row] @ vector) for row, _ in outputs_now]
                change = np.zeros_like(vector)
                for (row, label), score in zip(outputs_now, scores, strict=True):
                    probability = 1 / (1 + np.exp(-score))
                    loss -= np.log(probability if label else 1 - probability)
                    change += RATE * (label - probability) * outputs[row]
                    outputs[row] += RATE * (label - probability) * vector
                for word in group:
                    inputs[word] += change
    return loss


TEXT = [0, 3, 1, 5, 0, 2, -1, 7, -1, 4, 4, 1, 9, 0, 11, 3, 2, -1, 6, 8]


@pytest.mark.parametrize("cbow", [False, True])
@pytest.mark.parametrize("negative", [0, 1, GROUP - 1, 9])
@pytest.mark.parametrize("width", [1, 3, 4, 8, 13, 21])
def test_training_equals_the_plain_algorithm(width: int, negative: int, cbow: bool) -> None:
    inputs, outputs = matrices(width, rows=WORDS if negative else WORDS - 1)
    wide_inputs, wide_outputs = inputs.astype(np.float64), outputs.astype(np.float64)
    loss, predictions, words = train(TEXT, inputs, outputs, negative=negative, cbow=cbow)
    expected = plain(TEXT, wide_inputs, wide_outputs, negative=negative, cbow=cbow, window=3, seed=5)
    assert words == sum(word >= 0 for word in TEXT)
    assert loss == pytest.approx(expected, rel=1e-4)
    assert predictions > 0
    np.testing.assert_allclose(inputs, wide_inputs, atol=TOLERANCE)
    np.testing.assert_allclose(outputs, wide_outputs, atol=TOLERANCE)


def negative_samples(seed: int, negative: int) -> list[list[int]]:
    """The negative samples of each of two words, after their subsampling."""
    random = Random(seed)
    thresholds, aliases, *_ = tables(negative)
    random.next()
    random.next()
    return [[random.word(thresholds, aliases) for _ in range(negative)] for _ in range(2)]


@pytest.mark.parametrize("negative", [0, 5])
@pytest.mark.parametrize("cbow", [False, True])
def test_one_update_is_the_gradient_of_the_loss(cbow: bool, negative: int) -> None:
    """Two words, window 1: each is predicted from the other one; the second update follows the first."""
    seed = next(
        seed
        for seed in range(1, 99)
        if all(len(set(samples)) == negative for samples in negative_samples(seed, negative))
    )
    inputs, outputs = matrices(10, rows=WORDS if negative else WORDS - 1)
    left, right = torch.tensor(inputs).double(), torch.tensor(outputs).double()
    train([2, 4], inputs, outputs, negative=negative, cbow=cbow, window=1, seed=seed)
    for (word, context), samples in zip([(2, 4), (4, 2)], negative_samples(seed, negative), strict=True):
        targets = [(word, 1), *((other, 0) for other in samples if other != word)] if negative else path(word)
        left.requires_grad_(), right.requires_grad_()
        scores = right[[row for row, _ in targets]] @ left[context]
        expected = torch.tensor([float(label) for _, label in targets], dtype=torch.float64)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, expected, reduction="sum")
        gradients = torch.autograd.grad(loss, [left, right])
        left, right = left.detach() - RATE * gradients[0], right.detach() - RATE * gradients[1]
    np.testing.assert_allclose(inputs, left.numpy(), atol=TOLERANCE)
    np.testing.assert_allclose(outputs, right.numpy(), atol=TOLERANCE)


def test_negative_samples_follow_the_smoothed_frequencies() -> None:
    weights = COUNTS.astype(np.float64) ** 0.75
    thresholds, aliases = kernel.alias_tables(weights)
    probabilities = np.zeros(WORDS)
    for index in range(WORDS):  # exact probabilities from the tables
        kept = (int(thresholds[index]) + (thresholds[index] == 2**32 - 1)) / 2**32
        probabilities[index] += kept / WORDS
        probabilities[aliases[index]] += (1 - kept) / WORDS
    np.testing.assert_allclose(probabilities, weights / weights.sum(), atol=1e-9)
    state, counts = np.uint64(3), np.zeros(WORDS)
    draws = 100_000
    for _ in range(draws):
        state, sampled = kernel.sample(state, thresholds, aliases)
        counts[sampled] += 1
    expected = draws * weights / weights.sum()
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < 31.3  # 99.9 % quantile of chi-squared with 11 degrees of freedom


def test_frequent_words_are_subsampled() -> None:
    keep = KEEP_ALL.copy()
    keep[0] = 2**30  # a quarter
    inputs, outputs = matrices(4)
    text = np.tile(np.array([0, 1, -1], np.int32), 20_000)
    rate = np.float32(0)
    arrays = (inputs, outputs, keep, *tables(1), kernel.SIGMOID, rate, rate)
    _, predictions, words = kernel.train(text, *arrays, 1, 1, 32, True, np.uint64(1))
    assert words == 40_000
    pairs = predictions / 2  # lines in which both words are kept
    assert pairs == pytest.approx(5_000, abs=4 * np.sqrt(20_000 * 0.25 * 0.75))


def test_huffman_codes_are_optimal() -> None:
    lengths = [len(path(word)) for word in range(WORDS)]
    heap = COUNTS.tolist()
    heapq.heapify(heap)
    optimum = 0
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        optimum += both
        heapq.heappush(heap, both)
    assert int(COUNTS @ lengths) == optimum
    assert sum(2.0**-length for length in lengths) == 1
    codes = {tuple(label for _, label in reversed(path(word))) for word in range(WORDS)}
    assert len(codes) == WORDS
    assert kernel.tree_depth(kernel.huffman(COUNTS)[0]) == max(lengths)


@pytest.mark.parametrize("text", [[], [-1], [3], [-1, 3, -1, -1, 4]])
def test_lines_of_one_word_change_nothing(text: list[int]) -> None:
    inputs, outputs = matrices(5)
    before = inputs.copy(), outputs.copy()
    loss, predictions, _ = train(text, inputs, outputs, negative=2, cbow=False)
    assert (loss, predictions) == (0, 0)
    assert (inputs == before[0]).all()
    assert (outputs == before[1]).all()


def test_the_table_equals_the_sigmoid() -> None:
    scores = np.linspace(-7.9, 7.9, 999).astype(np.float32)
    gradients = np.zeros_like(scores)
    labels = np.zeros_like(scores)
    kernel._gradients(scores, labels, gradients, len(scores), np.float32(1), kernel.SIGMOID)
    np.testing.assert_allclose(gradients, -1 / (1 + np.exp(-scores.astype(np.float64))), atol=4e-6)
