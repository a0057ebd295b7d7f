"""Skip-gram, CBOW and hierarchical softmax against their equations, and against torch's gradients."""

import heapq
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from seqloom.kernels.word2vec import training as kernel
from seqloom.kernels.word2vec.row_products import GROUP

WORDS, RATE = 12, 0.1
COUNTS = np.array([90, 50, 30, 20, 12, 9, 7, 5, 4, 3, 2, 1], np.int64)
ALL = np.full(WORDS, 2**32 - 1, np.uint32)
CLOSE = 2e-5  # float32; and the table of the sigmoid is off by 4e-6


def matrices(width: int, *, rows: int = WORDS, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    random = np.random.default_rng(seed)
    inputs, outputs = (random.normal(size=(count, width)) * 0.5 for count in (WORDS, rows))
    return inputs.astype(np.float32), outputs.astype(np.float32)


def tables(negative: int) -> tuple[Any, ...]:
    if negative:
        return *kernel.alias_tables(COUNTS.astype(np.float64) ** 0.75), np.zeros(1, np.int32), np.zeros(1, np.uint8)
    return np.zeros(WORDS, np.uint32), np.zeros(1, np.int32), *kernel.huffman(COUNTS)


def train(
    text: list[int], inputs: Any, outputs: Any, *, negative: int, mean: bool, window: int = 3, seed: int = 5
) -> tuple[float, int, int]:
    rate = np.float32(RATE)
    found: tuple[float, int, int] = kernel.train(
        np.array(text, np.int32), inputs, outputs, ALL, *tables(negative), kernel.SIGMOID, rate, rate, window,
        negative, 32, mean, np.uint64(seed),
    )  # fmt: skip
    return found


class Random:
    """The random numbers of the kernel, in Python."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def half(self) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.state >> 32

    def word(self, thresholds: Any, others: Any) -> int:
        product = self.half() * len(thresholds)
        index = product >> 32
        return index if product % 2**32 < int(thresholds[index]) else int(others[index])


def path(word: int) -> list[tuple[int, int]]:
    """The nodes above a word and what each should say."""
    parents, second = kernel.huffman(COUNTS)
    found = []
    while word != len(parents) - 1:
        found.append((int(parents[word]) - WORDS, 1 - int(second[word])))
        word = int(parents[word])
    return found


def plain(text: list[int], inputs: Any, outputs: Any, *, negative: int, mean: bool, window: int, seed: int) -> float:
    """The algorithm as it is written in papers, word by word in float64; makes the same choices."""
    random, loss = Random(seed), 0.0
    thresholds, others, *_ = tables(negative)

    def targets(word: int) -> list[tuple[int, int]]:
        if not negative:
            return path(word)
        drawn = [random.word(thresholds, others) for _ in range(negative)]
        return [(word, 1), *((other, 0) for other in drawn if other != word)]

    for line in "".join(chr(97 + word) if word >= 0 else " " for word in text).split(" "):
        words = [ord(letter) - 97 for letter in line]
        for _ in words:
            random.half()  # whether it is seen
        if len(words) < 2:
            continue
        chosen = targets(words[0])
        for place in range(len(words)):
            now, chosen = chosen, targets(words[place + 1]) if place + 1 < len(words) else []
            reach = window - (random.half() * window >> 32)
            around = [
                words[at] for at in range(max(0, place - reach), min(len(words), place + reach + 1)) if at != place
            ]
            for group in [around] if mean else [[word] for word in around]:
                vector = inputs[group].mean(axis=0)
                scores = [float(outputs[row] @ vector) for row, _ in now]
                change = np.zeros_like(vector)
                for (row, wanted), score in zip(now, scores, strict=True):
                    said = 1 / (1 + np.exp(-score))
                    loss -= np.log(said if wanted else 1 - said)
                    change += RATE * (wanted - said) * outputs[row]
                    outputs[row] += RATE * (wanted - said) * vector
                for word in group:
                    inputs[word] += change
    return loss


TEXT = [0, 3, 1, 5, 0, 2, -1, 7, -1, 4, 4, 1, 9, 0, 11, 3, 2, -1, 6, 8]


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("negative", [0, 1, GROUP - 1, 9])
@pytest.mark.parametrize("width", [1, 3, 4, 8, 13, 21])
def test_a_text_is_learnt_as_the_plain_algorithm_does(width: int, negative: int, mean: bool) -> None:
    inputs, outputs = matrices(width, rows=WORDS if negative else WORDS - 1)
    wide_inputs, wide_outputs = inputs.astype(np.float64), outputs.astype(np.float64)
    loss, predictions, words = train(TEXT, inputs, outputs, negative=negative, mean=mean)
    wanted = plain(TEXT, wide_inputs, wide_outputs, negative=negative, mean=mean, window=3, seed=5)
    assert words == sum(word >= 0 for word in TEXT)
    assert loss == pytest.approx(wanted, rel=1e-4)
    assert predictions > 0
    np.testing.assert_allclose(inputs, wide_inputs, atol=CLOSE)
    np.testing.assert_allclose(outputs, wide_outputs, atol=CLOSE)


def drawn(seed: int, negative: int) -> list[list[int]]:
    """What is drawn for each of two words, after it was drawn whether they are seen."""
    random = Random(seed)
    thresholds, others, *_ = tables(negative)
    random.half()
    random.half()
    return [[random.word(thresholds, others) for _ in range(negative)] for _ in range(2)]


@pytest.mark.parametrize("negative", [0, 5])
@pytest.mark.parametrize("mean", [False, True])
def test_one_update_is_the_gradient_of_the_loss(mean: bool, negative: int) -> None:
    """Of two words, with a window of one: each is predicted from the other one. The second sees what the first did."""
    seed = next(seed for seed in range(1, 99) if all(len(set(each)) == negative for each in drawn(seed, negative)))
    inputs, outputs = matrices(10, rows=WORDS if negative else WORDS - 1)
    left, right = torch.tensor(inputs).double(), torch.tensor(outputs).double()
    train([2, 4], inputs, outputs, negative=negative, mean=mean, window=1, seed=seed)
    for (word, seen), no in zip([(2, 4), (4, 2)], drawn(seed, negative), strict=True):
        targets = [(word, 1), *((other, 0) for other in no if other != word)] if negative else path(word)
        left.requires_grad_(), right.requires_grad_()
        scores = right[[row for row, _ in targets]] @ left[seen]
        wanted = torch.tensor([float(each) for _, each in targets], dtype=torch.float64)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, wanted, reduction="sum")
        slopes = torch.autograd.grad(loss, [left, right])
        left, right = left.detach() - RATE * slopes[0], right.detach() - RATE * slopes[1]
    np.testing.assert_allclose(inputs, left.numpy(), atol=CLOSE)
    np.testing.assert_allclose(outputs, right.numpy(), atol=CLOSE)


def test_what_is_not_meant_is_drawn_by_its_frequency() -> None:
    weights = COUNTS.astype(np.float64) ** 0.75
    thresholds, others = kernel.alias_tables(weights)
    shares = np.zeros(WORDS)
    for index in range(WORDS):  # what the tables say, exactly
        kept = (int(thresholds[index]) + (thresholds[index] == 2**32 - 1)) / 2**32
        shares[index] += kept / WORDS
        shares[others[index]] += (1 - kept) / WORDS
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=1e-9)
    state, counts = np.uint64(3), np.zeros(WORDS)
    drawn = 100_000
    for _ in range(drawn):
        state, found = kernel.sample(state, thresholds, others)
        counts[found] += 1
    wanted = drawn * weights / weights.sum()
    statistic = float(((counts - wanted) ** 2 / wanted).sum())
    assert statistic < 31.3  # one in a thousand, of chi square with 11 degrees of freedom


def test_frequent_words_are_passed_over_at_their_rate() -> None:
    keep = ALL.copy()
    keep[0] = 2**30  # a quarter
    inputs, outputs = matrices(4)
    text = np.tile(np.array([0, 1, -1], np.int32), 20_000)
    rate = np.float32(0)
    arrays = (inputs, outputs, keep, *tables(1), kernel.SIGMOID, rate, rate)
    _, predictions, words = kernel.train(text, *arrays, 1, 1, 32, True, np.uint64(1))
    assert words == 40_000
    assert predictions / 2 == pytest.approx(5_000, abs=4 * np.sqrt(20_000 * 0.25 * 0.75))  # both words are there


def test_codes_are_as_short_as_can_be() -> None:
    lengths = [len(path(word)) for word in range(WORDS)]
    heap = COUNTS.tolist()
    heapq.heapify(heap)
    shortest = 0
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        shortest += both
        heapq.heappush(heap, both)
    assert int(COUNTS @ lengths) == shortest
    assert sum(2.0**-length for length in lengths) == 1
    codes = {tuple(wanted for _, wanted in reversed(path(word))) for word in range(WORDS)}
    assert len(codes) == WORDS
    assert kernel.tree_depth(kernel.huffman(COUNTS)[0]) == max(lengths)


@pytest.mark.parametrize("text", [[], [-1], [3], [-1, 3, -1, -1, 4]])
def test_lines_of_one_word_teach_nothing(text: list[int]) -> None:
    inputs, outputs = matrices(5)
    before = inputs.copy(), outputs.copy()
    loss, predictions, _ = train(text, inputs, outputs, negative=2, mean=False)
    assert (loss, predictions) == (0, 0)
    assert (inputs == before[0]).all()
    assert (outputs == before[1]).all()


def test_the_table_is_the_sigmoid() -> None:
    scores = np.linspace(-7.9, 7.9, 999).astype(np.float32)
    slopes = np.zeros_like(scores)
    wanted = np.zeros_like(scores)
    kernel._gradients(scores, wanted, slopes, len(scores), np.float32(1), kernel.SIGMOID)
    np.testing.assert_allclose(slopes, -1 / (1 + np.exp(-scores.astype(np.float64))), atol=4e-6)
