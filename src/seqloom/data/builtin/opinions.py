"""Sentences with opinion expressions: direct ones ("strongly criticised") and expressive ones ("a shame")."""

from collections.abc import Iterator

from seqloom.data.builtin.random_text import Random, choose, distinct, generator

HOLDERS = ("the minister", "many voters", "the report", "our neighbours", "the court", "some experts", "the coach")
TOPICS = ("the new law", "the old bridge", "this decision", "the last film", "the plan", "the referee", "the budget")
ADVERBS = ("strongly", "openly", "hardly", "really", "deeply", "never", "almost always")
DIRECT = ("criticised", "praised", "welcomed", "feared", "supported", "condemned", "doubted", "admired")
FACTS = ("read", "described", "visited", "signed", "mentioned", "measured", "opened", "discussed")
OPINIONS = (
    *("awful", "brilliant", "shameful", "delightful", "foolish", "brave", "dreadful", "charming", "unfair", "splendid"),
    *("cruel", "wonderful", "pointless", "honest", "hopeless", "superb", "careless", "elegant", "useless", "sensible"),
)
PROPERTIES = (
    *("wooden", "yearly", "northern", "printed", "second", "local", "recent", "medical", "public", "electric"),
    *("monthly", "southern", "golden", "foreign", "daily", "square", "woollen", "central", "written", "digital"),
)
NOUNS = ("step", "piece", "affair", "building", "document", "change", "event", "work")
INTENSIFIERS = ("rather", "truly", "utterly", "quite")
NEUTRAL = ("on Monday", "in the town hall", "from 1998", "on page three", "after the meeting", "in two parts")


def rows(size: int, split: str, *, seed: int) -> Iterator[str]:
    """CoNLL with the labels B-DSE, I-DSE, B-ESE, I-ESE and O; adjectives are held out."""
    random = generator(split, seed)
    return distinct(size, split, iter(lambda: _row(random), None))


def _row(random: Random) -> tuple[str, str]:
    adverb = choose(random, ADVERBS) if random.random() < 0.5 else ""
    direct = random.random() < 0.6
    wording = f"{adverb} {choose(random, DIRECT if direct else FACTS)}".strip()
    tokens = [
        *_plain(choose(random, HOLDERS)),
        *(_span(wording, "DSE") if direct else _plain(wording)),
        *_plain(choose(random, TOPICS)),
        *_plain(choose(random, ("which is", "and called it", "because it was"))),
    ]
    adjective = choose(random, (*OPINIONS, *PROPERTIES))
    noun = choose(random, NOUNS)
    if adjective in OPINIONS:
        strength = f"{choose(random, INTENSIFIERS)} " if random.random() < 0.5 else ""
        tokens += _span(f"a {strength}{adjective} {noun}", "ESE")
    else:
        tokens += _plain(f"a {adjective} {noun}")
    if random.random() < 0.4:
        tokens += _plain(choose(random, NEUTRAL))
    return adjective, "".join(f"{word}\t{label}\n" for word, label in [*tokens, (".", "O")])


def _plain(text: str) -> list[tuple[str, str]]:
    return [(word, "O") for word in text.split()]


def _span(text: str, kind: str) -> list[tuple[str, str]]:
    return [(word, f"{'I' if number else 'B'}-{kind}") for number, word in enumerate(text.split())]
