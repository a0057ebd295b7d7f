"""Subwords by a unigram model: the pieces that make the words most probable (Kudo 2018, "Subword Regularization").

The trainer of the tokenizers library sums in the order of a hash map: other numbers each time. This one does not.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

LONGEST = 16  # characters of a piece
STRETCH = 32  # characters of a word; what is longer is cut
WORDS = 100_000  # the most frequent ones, which are learnt from
SEEDS = 8  # pieces to begin with, for each that is kept

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


def learn(words: Counter[str], *, size: int, reserved: Collection[str] = ()) -> list[tuple[str, float]]:
    """At most ``size`` pieces and their log-probabilities, the most probable first; none of them is reserved."""
    counts = stretches(words)
    if not counts:
        return []
    characters: Counter[str] = Counter()
    for word, number in counts.items():
        for character in word:
            characters[character] += number
    alphabet = {character: characters[character] for character in ranking(characters)[:size]}
    counts = within(counts, alphabet)
    pieces = alphabet | seeds(counts, SEEDS * size, reserved=reserved)
    names, weights = list(pieces), np.array(list(pieces.values()), dtype=float)
    lattices = list(group(counts, names))
    own = list(group(Counter({piece: 1 for piece in names if len(piece) > 1}), names))  # a piece as if it were a word
    while True:
        for _ in range(2):
            weights = expected(lattices, logarithms(weights))
        if len(names) <= size:
            break
        kept = np.sort(np.argsort(-losses(own, weights), kind="stable")[: max(size, len(names) * 3 // 4)])
        renumbered = np.full(len(names) + 1, len(kept))
        renumbered[kept] = np.arange(len(kept))
        lattices = [(renumbered[ids], number) for ids, number in lattices]
        own = [(renumbered[ids], number) for ids, number in own]
        own = [(ids[ids[:, 0, -1] < len(kept)], number) for ids, number in own]
        names, weights = [names[piece] for piece in kept], weights[kept]
    return sorted(zip(names, logarithms(weights).tolist()[:-1], strict=True), key=lambda pair: (-pair[1], pair[0]))


def stretches(words: Counter[str]) -> Counter[str]:
    """The most frequent words, cut where they are very long."""
    cut: Counter[str] = Counter()
    for word, number in words.items():
        for start in range(0, len(word), STRETCH):
            cut[word[start : start + STRETCH]] += number
    return Counter({word: cut[word] for word in ranking(cut)[:WORDS]})


def ranking(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda symbol: (-counts[symbol], symbol))


def within(words: Counter[str], alphabet: Collection[str]) -> Counter[str]:
    """The words cut where a character is not of the alphabet."""
    cut: Counter[str] = Counter()
    for word, number in words.items():
        for part in "".join(character if character in alphabet else "\0" for character in word).split("\0"):
            if part:
                cut[part] += number
    return cut


def seeds(words: Counter[str], most: int, *, reserved: Collection[str]) -> dict[str, int]:
    """The substrings that cover most of the text, each by itself, and how often they occur."""
    found: Counter[str] = Counter()
    for word, number in words.items():
        for start in range(len(word) - 1):
            for stop in range(start + 2, min(start + LONGEST, len(word)) + 1):
                found[word[start:stop]] += number
    several = [piece for piece, number in found.items() if number > 1 and piece not in reserved]
    return {
        piece: found[piece] for piece in sorted(several, key=lambda piece: (-found[piece] * len(piece), piece))[:most]
    }


def group(words: Counter[str], pieces: list[str]) -> Iterator[tuple[Numbers, Floats]]:
    """Words of one length n together: the piece at each start and length (W, n, L), and how often each occurs."""
    numbers = {piece: number for number, piece in enumerate(pieces)}
    absent = len(pieces)
    for length in sorted({len(word) for word in words}):
        chosen = [word for word in words if len(word) == length]
        longest = min(length, LONGEST)
        ids = np.full((len(chosen), length, longest), absent)
        for start in range(length):
            for size in range(1, min(longest, length - start) + 1):
                ids[:, start, size - 1] = [numbers.get(word[start : start + size], absent) for word in chosen]
        yield ids, np.array([words[word] for word in chosen], dtype=float)


def logarithms(weights: Floats) -> Floats:
    """Log-probabilities of the pieces, and of one that does not exist."""
    safe = np.maximum(weights, 1e-3)  # a character has to stay possible
    return np.append(np.log(safe) - math.log(safe.sum()), -np.inf)


def expected(lattices: list[tuple[Numbers, Floats]], scores: Floats) -> Floats:
    """How often each piece is used, over all ways to cut the words."""
    total = np.zeros(len(scores))
    for ids, number in lattices:
        length, longest = ids.shape[1:]
        score = scores[ids]
        before = np.full((len(ids), length + 1), -np.inf)
        after = before.copy()
        before[:, 0] = after[:, length] = 0
        for stop in range(1, length + 1):
            ways = [
                before[:, stop - size] + score[:, stop - size, size - 1] for size in range(1, min(longest, stop) + 1)
            ]
            before[:, stop] = np.logaddexp.reduce(ways)
        for start in range(length - 1, -1, -1):
            sizes = range(1, min(longest, length - start) + 1)
            after[:, start] = np.logaddexp.reduce(
                [after[:, start + size] + score[:, start, size - 1] for size in sizes]
            )
        score += before[:, :-1, None] - before[:, -1:, None]
        for size in range(1, longest + 1):
            score[:, : length - size + 1, size - 1] += after[:, size:]
        total += np.bincount(ids.ravel(), (np.exp(score) * number[:, None, None]).ravel(), minlength=len(scores))
    return total[:-1]


def losses(lattices: list[tuple[Numbers, Floats]], weights: Floats) -> Floats:
    """What the text loses without each of the pieces; without a single character, everything."""
    scores = logarithms(weights)
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
