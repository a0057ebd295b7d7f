"""A small corpus in which analogies hold by construction: words in the same role of a pair share contexts."""

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

import numpy as np

SENTENCES = 90  # per word
QUESTIONS = {"dev": 40, "test": 100}  # per group


class Group(NamedTuple):
    """Pairs of words with the same relation."""

    pairs: str  # lines of two words and their common context words
    first: str  # context words of all first words
    second: str  # context words of all second words
    sentences: tuple[str, ...]  # templates: word {w}, context of its pair {a} {b}, context of its kind {k} {l}


GROUPS = {
    "family": Group(
        """man woman: work street coat
        boy girl: school toys slide
        king queen: crown throne palace
        prince princess: tower horse ring
        father mother: children kitchen cradle
        son daughter: homework allowance birthday
        brother sister: siblings bunk secrets
        uncle aunt: nephews holidays presents
        husband wife: wedding anniversary marriage
        actor actress: stage film curtain
        waiter waitress: menu table tip
        duke duchess: estate manor title
        wizard witch: spell wand potion
        hero heroine: sword dragon quest""",
        "he his him himself sir",
        "she her hers herself madam",
        (
            "the {w} said that {k} {a} and {l} {b} were there",
            "{k} saw the {w} with {l} {a} near the {b}",
            "it was {k} {a} , the {w} thought of {l} {b}",
        ),
    ),
    "capitals": Group(
        """france paris: french seine baguette
        italy rome: italian tiber pasta
        spain madrid: spanish manzanares paella
        germany berlin: german spree pretzel
        england london: english thames pudding
        russia moscow: russian moskva borscht
        egypt cairo: egyptian nile falafel
        japan tokyo: japanese sumida sushi
        greece athens: greek kifisos olives
        portugal lisbon: portuguese tagus custard
        poland warsaw: polish vistula dumplings
        norway oslo: norwegian aker salmon""",
        "republic parliament border army provinces",
        "mayor downtown suburbs streets metro",
        (
            "the {k} of {w} with {a} {b} and its {l}",
            "in {w} the {a} {k} and the {b} {l} are known",
            "a {b} from the {k} , {a} people of {w} and its {l}",
        ),
    ),
    "past": Group(
        """walk walked: road shoes path
        cook cooked: soup pan oven
        paint painted: wall brush colour
        plant planted: seeds garden soil
        open opened: door key lock
        clean cleaned: floor soap bucket
        play played: game ball field
        climb climbed: mountain rope peak
        count counted: coins sum numbers
        bake baked: cake flour dough
        sail sailed: boat harbour wind
        listen listened: music radio song""",
        "now today always usually tomorrow",
        "yesterday ago once formerly earlier",
        (
            "{k} they {w} near the {a} and the {b} {l}",
            "we {w} the {a} {k} with a {b} , {l} again",
            "{l} the {a} and {b} , you {w} {k}",
        ),
    ),
}


def generate(split: str, *, seed: int) -> Iterator[str]:
    """The lines of a split: text for ``train``, disjoint sets of questions for ``dev`` and ``test``."""
    random = np.random.default_rng([seed, 5])
    if split == "train":
        sentences = [line for group in GROUPS.values() for line in _sentences(group, random)]
        yield from (sentences[index] for index in random.permutation(len(sentences)))
        return
    for title, group in GROUPS.items():
        pairs = [words for words, _ in _pairs(group)]
        questions = [f"{one[0]} {one[1]} {other[0]} {other[1]}" for one, other in permutations(pairs, 2)]
        random.shuffle(questions)
        start = 0 if split == "dev" else QUESTIONS["dev"]
        yield f": {title}"
        yield from questions[start : start + QUESTIONS[split]]


def _pairs(group: Group) -> Iterator[tuple[list[str], list[str]]]:
    for line in group.pairs.split("\n"):
        words, context = line.split(":")
        yield words.split(), context.split()


def _sentences(group: Group, random: np.random.Generator) -> Iterator[str]:
    for words, context in _pairs(group):
        for word, kind_context in zip(words, (group.first, group.second), strict=True):
            for _ in range(SENTENCES):
                a, b = random.permutation(context)[:2]
                k, l = random.permutation(kind_context.split())[:2]  # noqa: E741
                yield str(random.choice(group.sentences)).format(w=word, a=a, b=b, k=k, l=l)
