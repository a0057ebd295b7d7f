"""Subjects and the number of their verb, with other nouns in between (Linzen et al. 2016)."""

from collections.abc import Iterator

from seqloom.data.builtin.random_text import Random, choose, distinct, generator

NOUNS = [
    "key",
    "cabinet",
    "label",
    "bottle",
    "picture",
    "teacher",
    "farmer",
    "child",
    "window",
    "road",
    "letter",
    "garden",
]
IRREGULAR = {"child": "children"}
LINKS = ("to the", "near the", "behind the", "of the", "with the", "next to the")
OPENINGS = ("", "yesterday , ", "it seems that ", "as we know , ")
RELATIVE = {
    "singular": ("that was bought from the", "which stands by the"),
    "plural": ("that were bought from the", "which stand by the"),
}


def rows(size: int, split: str, *, seed: int) -> Iterator[str]:
    """``label, text`` up to the verb; the label is singular or plural.

    Test has two or three nouns after the subject, train and dev up to two.
    Pairs of subject and the noun after it are held out.
    """
    random = generator(split, seed)
    return distinct(size, split, iter(lambda: _row(random, split), None))


def _row(random: Random, split: str) -> tuple[str, str]:
    number = choose(random, ("singular", "plural"))
    subject = choose(random, NOUNS)
    words = [choose(random, OPENINGS) + "the", _noun(subject, number)]
    nouns: list[str] = []
    for _ in range(int(random.integers(2, 4) if split == "test" else random.integers(0, 3))):
        link = choose(random, RELATIVE[number]) if not nouns and random.random() < 0.3 else choose(random, LINKS)
        nouns.append(choose(random, NOUNS))
        words += [link, _noun(nouns[-1], choose(random, ("singular", "plural")))]
    return f"{subject} {nouns[0] if nouns else number}", f"{number} {' '.join(words)}"


def _noun(noun: str, number: str) -> str:
    return noun if number == "singular" else IRREGULAR.get(noun, f"{noun}s")
