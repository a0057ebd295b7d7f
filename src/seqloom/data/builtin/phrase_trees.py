"""Sentences of a small grammar with their parse trees in brackets."""

from collections.abc import Iterator

from seqloom.data.builtin.random_text import Random, choose, distinct, generator

WORDS = {
    "DT": ["the", "that", "every", "this"],
    "JJ": ["old", "small", "green", "happy", "quiet"],
    "NN": ["dog", "teacher", "child", "bird", "house", "garden", "book", "bridge"],
    "IN": ["in", "near", "with", "behind"],
    "VT": ["sees", "likes", "finds", "follows"],
    "VI": ["sleeps", "sings", "waits", "runs"],
    "VS": ["says", "thinks", "knows"],
}
DEPTH = 3  # phrases within phrases


def rows(size: int, split: str, *, seed: int) -> Iterator[str]:
    """``sentence, tree``; tree shapes are held out."""
    random = generator(split, seed)
    return distinct(size, split, iter(lambda: _row(random), None))


def _row(random: Random) -> tuple[str, str]:
    shape, words = _sentence(random, 0)
    return shape, f"{' '.join(words)}\t{shape}"


def _phrase(label: str, *parts: tuple[str, list[str]]) -> tuple[str, list[str]]:
    return f"({label} {' '.join(shape for shape, _ in parts)} )", [word for _, words in parts for word in words]


def _word(random: Random, tag: str) -> tuple[str, list[str]]:
    return tag, [choose(random, WORDS[tag])]


def _sentence(random: Random, depth: int) -> tuple[str, list[str]]:
    return _phrase("S", _noun_phrase(random, depth), _verb_phrase(random, depth))


def _noun_phrase(random: Random, depth: int) -> tuple[str, list[str]]:
    adjectives = [_word(random, "JJ")] * (random.random() < 0.35)
    noun = _phrase("NP", _word(random, "DT"), *adjectives, _word(random, "NN"))
    if depth < DEPTH and random.random() < 0.3:
        return _phrase("NP", noun, _phrase("PP", _word(random, "IN"), _noun_phrase(random, depth + 1)))
    return noun


def _verb_phrase(random: Random, depth: int) -> tuple[str, list[str]]:
    kind = random.random()
    if kind < 0.2 and depth < DEPTH - 1:
        return _phrase("VP", _word(random, "VS"), _sentence(random, depth + 1))
    if kind < 0.6:
        return _phrase("VP", _word(random, "VT"), _noun_phrase(random, depth + 1))
    return _phrase("VP", _word(random, "VI"))
