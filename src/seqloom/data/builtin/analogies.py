"""A small text in which analogies hold by construction: of two words of a pair, one has the company of one kind."""

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

import numpy as np

SENTENCES = 90  # in which each word occurs
ASKED = {"dev": 40, "test": 100}  # questions of each group


class Group(NamedTuple):
    """Pairs of words that differ in the same way."""

    pairs: str  # lines of two words, and what only these two are seen with
    first: str  # what all first words are seen with
    second: str
    sentences: tuple[str, ...]  # of the word {w}, its own company {a} {b}, and that of its kind {k} {l}


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


def lines(name: str, *, seed: int) -> Iterator[str]:
    """The text for ``train``; for ``dev`` and ``test`` questions, none of which is in both."""
    random = np.random.default_rng([seed, 5])
    if name == "train":
        found = [line for group in GROUPS.values() for line in _sentences(group, random)]
        yield from (found[index] for index in random.permutation(len(found)))
        return
    for title, group in GROUPS.items():
        pairs = [words for words, _ in _pairs(group)]
        questions = [f"{one[0]} {one[1]} {other[0]} {other[1]}" for one, other in permutations(pairs, 2)]
        random.shuffle(questions)
        start = 0 if name == "dev" else ASKED["dev"]
        yield f": {title}"
        yield from questions[start : start + ASKED[name]]


def _pairs(group: Group) -> Iterator[tuple[list[str], list[str]]]:
    for line in group.pairs.split("\n"):
        words, company = line.split(":")
        yield words.split(), company.split()


def _sentences(group: Group, random: np.random.Generator) -> Iterator[str]:
    for words, company in _pairs(group):
        for word, kind in zip(words, (group.first, group.second), strict=True):
            for _ in range(SENTENCES):
                a, b = random.permutation(company)[:2]
                k, l = random.permutation(kind.split())[:2]  # noqa: E741
                yield str(random.choice(group.sentences)).format(w=word, a=a, b=b, k=k, l=l)
