"""Unigram subwords: the pieces that make the words most probable (Kudo 2018, "Subword Regularization").

The trainer of the tokenizers library sums in the order of a hash map, so its results differ each time; this one is
deterministic.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

MAX_PIECE = 16  # characters of a piece
MAX_WORD = 32  # characters of a word; longer ones are cut
MAX_WORDS = 100_000  # most frequent words to train on
SEED_FACTOR = 8  # initial pieces per final piece

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


def train_unigram(words: Counter[str], *, size: int, reserved: Collection[str] = ()) -> list[tuple[str, float]]:
    """At most ``size`` pieces with their log-probabilities, most probable first; reserved ones are excluded."""
    counts = frequent_words(words)
    if not counts:
        return []
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    alphabet = {character: characters[character] for character in by_frequency(characters)[:size]}
    counts = split_at_unknown(counts, alphabet)
    pieces = alphabet | seeds(counts, SEED_FACTOR * size, reserved=reserved)
    names, weights = list(pieces), np.array(list(pieces.values()), dtype=float)
    lattices = list(build_lattices(counts, names))
    piece_lattices = list(build_lattices(Counter({piece: 1 for piece in names if len(piece) > 1}), names))
    while True:
        for _ in range(2):
            weights = expected_counts(lattices, log_probabilities(weights))
        if len(names) <= size:
            break
        kept = np.sort(
            np.argsort(-removal_losses(piece_lattices, weights), kind="stable")[: max(size, len(names) * 3 // 4)]
        )
        renumbered = np.full(len(names) + 1, len(kept))
        renumbered[kept] = np.arange(len(kept))
        lattices = [(renumbered[ids], count) for ids, count in lattices]
        piece_lattices = [(renumbered[ids], count) for ids, count in piece_lattices]
        piece_lattices = [(ids[ids[:, 0, -1] < len(kept)], count) for ids, count in piece_lattices]
        names, weights = [names[piece] for piece in kept], weights[kept]
    return sorted(
        zip(names, log_probabilities(weights).tolist()[:-1], strict=True), key=lambda pair: (-pair[1], pair[0])
    )


def frequent_words(words: Counter[str]) -> Counter[str]:
    """The most frequent words, long ones cut."""
    cut: Counter[str] = Counter()
    for word, count in words.items():
        for start in range(0, len(word), MAX_WORD):
            cut[word[start : start + MAX_WORD]] += count
    return Counter({word: cut[word] for word in by_frequency(cut)[:MAX_WORDS]})


def by_frequency(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda name: (-counts[name], name))


def split_at_unknown(words: Counter[str], alphabet: Collection[str]) -> Counter[str]:
    """The words, split at characters that are not in the alphabet."""
    cut: Counter[str] = Counter()
    for word, count in words.items():
        for part in "".join(character if character in alphabet else "\0" for character in word).split("\0"):
            if part:
                cut[part] += count
    return cut


def seeds(words: Counter[str], limit: int, *, reserved: Collection[str]) -> dict[str, int]:
    """The substrings that cover most of the text, each counted on its own, with their counts."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for start in range(len(word) - 1):
            for stop in range(start + 2, min(start + MAX_PIECE, len(word)) + 1):
                counts[word[start:stop]] += count
    repeated = [piece for piece, count in counts.items() if count > 1 and piece not in reserved]
    repeated.sort(key=lambda piece: (-counts[piece] * len(piece), piece))
    return {piece: counts[piece] for piece in repeated[:limit]}


def build_lattices(words: Counter[str], pieces: list[str]) -> Iterator[tuple[Ids, Floats]]:
    """Lattices of all words of one length n: ids of the pieces by start and length (W, n, L), and word counts (W,)."""
    piece_ids = {piece: index for index, piece in enumerate(pieces)}
    absent = len(pieces)
    for length in sorted({len(word) for word in words}):
        group_words = [word for word in words if len(word) == length]
        longest = min(length, MAX_PIECE)
        ids = np.full((len(group_words), length, longest), absent)
        for start in range(length):
            for size in range(1, min(longest, length - start) + 1):
                ids[:, start, size - 1] = [piece_ids.get(word[start : start + size], absent) for word in group_words]
        yield ids, np.array([words[word] for word in group_words], dtype=float)


def log_probabilities(weights: Floats) -> Floats:
    """Log-probabilities of the pieces, followed by minus infinity for absent ones."""
    safe = np.maximum(weights, 1e-3)  # single characters must stay possible
    return np.append(np.log(safe) - math.log(safe.sum()), -np.inf)


def expected_counts(lattices: list[tuple[Ids, Floats]], scores: Floats) -> Floats:
    """Expected count of each piece over all segmentations of the words (forward-backward)."""
    total = np.zeros(len(scores))
    for ids, counts in lattices:
        length, longest = ids.shape[1:]
        score = scores[ids]
        forward = np.full((len(ids), length + 1), -np.inf)
        backward = forward.copy()
        forward[:, 0] = backward[:, length] = 0
        for stop in range(1, length + 1):
            ways = [
                forward[:, stop - size] + score[:, stop - size, size - 1] for size in range(1, min(longest, stop) + 1)
            ]
            forward[:, stop] = np.logaddexp.reduce(ways)
        for start in range(length - 1, -1, -1):
            sizes = range(1, min(longest, length - start) + 1)
            backward[:, start] = np.logaddexp.reduce(
                [backward[:, start + size] + score[:, start, size - 1] for size in sizes]
            )
        score += forward[:, :-1, None] - forward[:, -1:, None]
        for size in range(1, longest + 1):
            score[:, : length - size + 1, size - 1] += backward[:, size:]
        total += np.bincount(ids.ravel(), (np.exp(score) * counts[:, None, None]).ravel(), minlength=len(scores))
    return total[:-1]


def removal_losses(lattices: list[tuple[Ids, Floats]], weights: Floats) -> Floats:
    """The loss in log-likelihood if a piece is removed; infinite for single characters."""
    scores = log_probabilities(weights)
    loss = np.full(len(weights), np.inf)
    for ids, _ in lattices:
        length = ids.shape[1]
        piece = ids[:, 0, -1]
        score = scores[ids]
        score[:, 0, -1] = -np.inf
        best = np.zeros((len(ids), length + 1))
        for stop in range(1, length + 1):
            ways = [best[:, stop - size] + score[:, stop - size, size - 1] for size in range(1, stop + 1)]
            best[:, stop] = np.max(ways, axis=0)
        loss[piece] = weights[piece] * (scores[piece] - best[:, -1])
    return loss
