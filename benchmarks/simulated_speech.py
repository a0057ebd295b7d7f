"""Simulated speech: a vocabulary, sentences that an n-gram can learn, and the frame-wise logits of a CTC model."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLANK, SEPARATOR = 0, 1
ALPHABET = "_ abcdefghijklmnopqrstuvwxyz'"
"""The blank, the word separator, and the characters of words: 29 tokens."""

FOLLOWERS, FOLLOWER_PROBABILITY = 16, 0.6
"""Preferred successors of each word, and the probability that one of them comes next."""
FRAMES_PER_TOKEN = 5
CONFUSION_PROBABILITY = 0.15
"""The probability that a second token gets a high logit, too."""


class AcousticModel(NamedTuple):
    """How confident the simulated model is."""

    name: str
    height: float  # added to the logit of the correct token
    noise: float  # standard deviation of all logits


PEAKY, FLAT = AcousticModel("peaky", 11.0, 2.2), AcousticModel("flat", 4.0, 1.0)


def make_words(count: int, *, seed: int = 1) -> list[str]:
    """Distinct words of one to five syllables; a shorter list is a prefix of a longer one."""
    random = np.random.default_rng(seed)
    onsets, vowels, codas = (
        part.split(".") for part in ("b.c.d.f.g.h.k.l.m.n.p.r.s.t.v.w.st.tr.", "a.e.i.o.u.ee", "...n.r.s.t")
    )
    words: dict[str, None] = {}
    while len(words) < count:
        sizes = random.choice(5, size=4096, p=(0.15, 0.35, 0.3, 0.15, 0.05)) + 1
        for size in sizes.tolist():
            picks = random.integers((len(onsets), len(vowels), len(codas)), size=(size, 3)).tolist()
            word = "".join(onsets[onset] + vowels[vowel] + codas[coda] for onset, vowel, coda in picks)
            words[word] = None
    return list(words)[:count]


class SentenceGenerator:
    """Random sentences of word indices: Zipf's law, and for each word a set of preferred successors."""

    def __init__(self, count: int, *, seed: int = 2) -> None:
        self.random = np.random.default_rng(seed)
        frequencies = 1 / (np.arange(count) + 10.0)
        self.cumulative = np.cumsum(frequencies / frequencies.sum())
        self.followers = self._draw(count * FOLLOWERS).reshape(count, FOLLOWERS)

    def _draw(self, count: int) -> NDArray[np.int64]:
        return np.minimum(np.searchsorted(self.cumulative, self.random.random(count)), len(self.cumulative) - 1)

    def sentence(self, length: int) -> list[int]:
        unigrams, uniform = self._draw(length).tolist(), self.random.random(length).tolist()
        choices = np.minimum(self.random.geometric(0.25, length), FOLLOWERS).tolist()
        words: list[int] = []
        for unigram, value, choice in zip(unigrams, uniform, choices, strict=True):
            follows = words and value < FOLLOWER_PROBABILITY
            words.append(int(self.followers[words[-1], choice - 1]) if follows else unigram)
        return words

    def corpus(self, sentences: int) -> list[list[int]]:
        return [self.sentence(length) for length in self.random.integers(5, 20, sentences).tolist()]


def spell(word: str) -> list[int]:
    return [ALPHABET.index(letter) for letter in word]


class Utterances(NamedTuple):
    """Reference words and simulated model outputs."""

    words: list[list[int]]
    logits: NDArray[np.float32]  # (B, T, V)


def simulate(
    sentences: SentenceGenerator,
    lexicon: Sequence[str],
    *,
    model: AcousticModel,
    count: int,
    frames: int,
    seed: int = 3,
) -> Utterances:
    """Utterances with as many words as fit into the frames, each followed by the separator."""
    random = np.random.default_rng(seed)
    references, logits = [], []
    for _ in range(count):
        sentence: list[int] = []
        tokens: list[int] = []
        for word in sentences.sentence(frames // FRAMES_PER_TOKEN):
            longer = [*tokens, *spell(lexicon[word]), SEPARATOR]
            if sentence and len(longer) > frames // FRAMES_PER_TOKEN:
                break
            sentence.append(word)
            tokens = longer
        references.append(sentence)
        logits.append(_simulate_logits(tokens, model, frames=frames, random=random))
    return Utterances(references, np.stack(logits).astype(np.float32))


def _simulate_logits(
    tokens: Sequence[int], model: AcousticModel, *, frames: int, random: np.random.Generator
) -> NDArray[np.float64]:  # (T, V)
    """Logits of an alignment in which a token lasts one or two frames, with blanks between tokens."""
    repeated = [0, *(int(left == right) for left, right in pairwise(tokens)), 0]
    count = len(tokens)
    spare = frames - count - sum(repeated)
    blanks = np.array(repeated) + random.multinomial(spare - spare // 8, [1 / (count + 1)] * (count + 1))
    durations = 1 + random.multinomial(spare // 8, [1 / count] * count)
    logits = random.normal(scale=model.noise, size=(frames, len(ALPHABET)))
    path = np.zeros(frames, np.int64)
    start = 0
    for token, before, duration in zip(tokens, blanks.tolist(), durations.tolist(), strict=False):
        start += before
        path[start : start + duration] = token
        if random.random() < CONFUSION_PROBABILITY:
            logits[start : start + duration, random.integers(1, len(ALPHABET))] += model.height
        start += duration
    logits[np.arange(frames), path] += model.height
    return logits
