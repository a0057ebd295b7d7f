"""Simulated speech: words, sentences that a 3-gram can learn, and what a recogniser makes of them frame by frame."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLANK, SEPARATOR = 0, 1
ALPHABET = "_ abcdefghijklmnopqrstuvwxyz'"
"""The blank, what stands between words, and what words are made of: 29 symbols."""

FOLLOWERS, HABIT = 16, 0.6
"""Words that like to follow a word, and how often one of them does."""
SHARE = 5
"""Frames for each symbol."""
DOUBT = 0.15
"""How often a recogniser hears another symbol as well."""

Numbers = NDArray[np.int64]


class Kind(NamedTuple):
    """How sure a recogniser is."""

    name: str
    height: float  # of the logit of what is said
    noise: float  # deviation of all logits


PEAKY, FLAT = Kind("peaky", 11.0, 2.2), Kind("flat", 4.0, 1.0)


def words(count: int, *, seed: int = 1) -> list[str]:
    """Different words of one to five syllables; fewer of them are the first of more."""
    random = np.random.default_rng(seed)
    onsets, vowels, codas = (
        part.split(".") for part in ("b.c.d.f.g.h.k.l.m.n.p.r.s.t.v.w.st.tr.", "a.e.i.o.u.ee", "...n.r.s.t")
    )
    found: dict[str, None] = {}
    while len(found) < count:
        sizes = random.choice(5, size=4096, p=(0.15, 0.35, 0.3, 0.15, 0.05)) + 1
        for size in sizes.tolist():
            picks = random.integers((len(onsets), len(vowels), len(codas)), size=(size, 3)).tolist()
            word = "".join(onsets[onset] + vowels[vowel] + codas[coda] for onset, vowel, coda in picks)
            found[word] = None
    return list(found)[:count]


class Speaker:
    """Says words by their numbers: frequent ones by Zipf's law, and after each of them some more often than others."""

    def __init__(self, count: int, *, seed: int = 2) -> None:
        self.random = np.random.default_rng(seed)
        frequencies = 1 / (np.arange(count) + 10.0)
        self.sums = np.cumsum(frequencies / frequencies.sum())
        self.followers = self.draw(count * FOLLOWERS).reshape(count, FOLLOWERS)

    def draw(self, count: int) -> Numbers:
        return np.minimum(np.searchsorted(self.sums, self.random.random(count)), len(self.sums) - 1)

    def say(self, count: int) -> list[int]:
        """So many words in a row."""
        anything, habits = self.draw(count).tolist(), self.random.random(count).tolist()
        choices = np.minimum(self.random.geometric(0.25, count), FOLLOWERS).tolist()
        said: list[int] = []
        for word, habit, choice in zip(anything, habits, choices, strict=True):
            said.append(int(self.followers[said[-1], choice - 1]) if said and habit < HABIT else word)
        return said

    def corpus(self, sentences: int) -> list[list[int]]:
        return [self.say(length) for length in self.random.integers(5, 20, sentences).tolist()]


def spell(word: str) -> list[int]:
    return [ALPHABET.index(letter) for letter in word]


class Utterances(NamedTuple):
    """What was said, and what was heard."""

    words: list[list[int]]
    logits: NDArray[np.float32]  # (B, T, V)


def utter(
    speaker: Speaker, lexicon: Sequence[str], kind: Kind, *, count: int, frames: int, seed: int = 3
) -> Utterances:
    """As many words as the frames have room for, each with the separator behind it."""
    random = np.random.default_rng(seed)
    said, heard = [], []
    for _ in range(count):
        sentence: list[int] = []
        symbols: list[int] = []
        for word in speaker.say(frames // SHARE):
            longer = [*symbols, *spell(lexicon[word]), SEPARATOR]
            if sentence and len(longer) > frames // SHARE:
                break
            sentence.append(word)
            symbols = longer
        said.append(sentence)
        heard.append(hear(symbols, kind, frames=frames, random=random))
    return Utterances(said, np.stack(heard).astype(np.float32))


def hear(symbols: Sequence[int], kind: Kind, *, frames: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Logits (T, V): a symbol lasts for a frame or two, blanks are between."""
    repeated = [0, *(int(left == right) for left, right in pairwise(symbols)), 0]
    count = len(symbols)
    spare = frames - count - sum(repeated)
    blanks = np.array(repeated) + random.multinomial(spare - spare // 8, [1 / (count + 1)] * (count + 1))
    lasting = 1 + random.multinomial(spare // 8, [1 / count] * count)
    logits = random.normal(scale=kind.noise, size=(frames, len(ALPHABET)))
    path = np.zeros(frames, np.int64)
    start = 0
    for symbol, before, length in zip(symbols, blanks.tolist(), lasting.tolist(), strict=False):
        start += before
        path[start : start + length] = symbol
        if random.random() < DOUBT:
            logits[start : start + length, random.integers(1, len(ALPHABET))] += kind.height
        start += length
    logits[np.arange(frames), path] += kind.height
    return logits
