"""Hidden Markov models: tables against counts, decoding and loss against all label sequences."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, product

import torch

from seqloom.data.batch import Batch, pad
from seqloom.models.hmm import HMM, SUFFIX_PRIOR, TRANSITION_PRIOR, WORD_PRIOR, HMMInput, shape, shorten, suffixes

# Words 2, 3 and 4 are known, 1 is unknown; suffixes: 2 is the parent of 3, whose parent is the root 1.
PARENTS = [1, 1, 1, 2]
SUFFIX_OF = {2: 3, 3: 2, 4: 3}
Row = tuple[list[int], list[int], list[int]]  # words, suffixes, labels
DATA: list[Row] = [
    ([2, 3, 2, 4], [3, 2, 3, 3], [0, 1, 0, 1]),
    ([3, 1], [2, 3], [1, 0]),
    ([2] * 12, [3] * 12, [0] * 11 + [1]),
    ([], [], []),
]


def collate(rows: Sequence[Row]) -> Batch:
    words, mask = pad([row[0] for row in rows], dtype="int64")
    inputs = HMMInput(words, pad([row[1] for row in rows], dtype="int64").values, mask)
    target = pad([row[2] for row in rows], fill=-1, dtype="int64").values
    return Batch(inputs, target, int(mask.sum()))


def counted() -> HMM:
    model = HMM(5, 2, parents=PARENTS, collate=collate)
    model.count(DATA)
    return model


def test_a_counting_model_has_no_parameters() -> None:
    model = counted()
    assert not list(model.parameters())
    assert set(model.state_dict()) == {"start", "transitions", "end", "words", "suffixes"}


def test_tables_are_interpolated_counts() -> None:
    model = counted()
    pairs: Counter[tuple[int, int]] = Counter()
    words: Counter[tuple[int, int]] = Counter()
    rare = [[0.0, 0.0] for _ in PARENTS]  # labels of rare and of unknown words, for each suffix
    times = Counter(word for row in DATA for word in row[0])
    for row in DATA:
        if row[0]:
            pairs.update(pairwise((2, *row[2], 2)))
        for word, suffix, label in zip(*row, strict=True):
            words[word, label] += 1
            if times[word] <= 10:
                for shorter in {3: (3, 2, 1), 2: (2, 1)}[suffix]:
                    rare[shorter][label] += 1
    total = sum(times.values())
    overall = [(sum(words[word, label] for word in range(5)) + 1) / (total + 2) for label in (0, 1)]

    def mixed(counts: Sequence[float], prior: Sequence[float], weight: float) -> list[float]:
        return [(own + weight * other) / (sum(counts) + weight) for own, other in zip(counts, prior, strict=True)]

    by_suffix = {1: mixed(rare[1], overall, SUFFIX_PRIOR)}
    by_suffix[2] = mixed(rare[2], by_suffix[1], SUFFIX_PRIOR)
    by_suffix[3] = mixed(rare[3], by_suffix[2], SUFFIX_PRIOR)
    for suffix, shares in by_suffix.items():
        expected = [math.log(share / whole) for share, whole in zip(shares, overall, strict=True)]
        torch.testing.assert_close(model.suffixes[suffix], torch.tensor(expected))
    for word, suffix in SUFFIX_OF.items():
        shares = mixed([words[word, 0], words[word, 1]], by_suffix[suffix], WORD_PRIOR)
        expected = [math.log(share / whole) for share, whole in zip(shares, overall, strict=True)]
        torch.testing.assert_close(model.words[word], torch.tensor(expected))
    ends = Counter(right for _, right in pairs.elements())
    prior = [(ends[label] + 1) / (sum(ends.values()) + 3) for label in range(3)]
    for left in range(3):
        shares = mixed([pairs[left, right] for right in range(3)], prior, TRANSITION_PRIOR)
        *transitions, end = (math.log(share) for share in shares)
        torch.testing.assert_close(model.start if left == 2 else model.transitions[left], torch.tensor(transitions))
        if left < 2:
            torch.testing.assert_close(model.end[left], torch.tensor(end))


def test_decoding_and_loss_match_brute_force_over_all_sequences() -> None:
    model = counted()
    batch = collate([([2, 1, 3, 4], [3, 2, 2, 3], [0, 0, 1, 1]), ([1], [2], [1])])
    emissions, _ = model(batch.inputs)
    best = model.decode(emissions, batch.inputs.mask)
    loss = 0.0
    for row, length in enumerate((4, 1)):
        totals = {}
        for labels in product((0, 1), repeat=length):
            scores = [
                float((model.suffixes if word == 1 else model.words)[suffix if word == 1 else word, label])
                for word, suffix, label in zip(
                    batch.inputs.words[row], batch.inputs.suffixes[row], labels, strict=False
                )
            ]
            steps = [float(model.transitions[left, right]) for left, right in pairwise(labels)]
            totals[labels] = float(model.start[labels[0]] + model.end[labels[-1]]) + sum(scores) + sum(steps)
        assert tuple(best[row, :length].tolist()) == max(totals, key=lambda labels: totals[labels])
        truth = tuple(batch.target[row, :length].tolist())
        loss += math.log(math.fsum(map(math.exp, totals.values()))) - totals[truth]
    torch.testing.assert_close(model.loss(emissions, batch.inputs.mask, batch.target), torch.tensor(loss))


def test_suffixes_and_shapes() -> None:
    assert suffixes("Running") == ["Tnning", "Tning", "Ting", "Tng", "Tg", "T"]
    assert suffixes("a1") == ["0a1", "01", "0"]
    assert [shorten(suffix) for suffix in ("Ting", "Tg", "T", "<unk>")] == ["Tng", "T", "", "<nk>"]
    shapes = {"cat": "a", "Cat": "T", "CAT": "A", "I": "T", "McCat": "m", "3rd": "0", "...": "*", "": "*"}
    assert {word: shape(word) for word in shapes} == shapes
