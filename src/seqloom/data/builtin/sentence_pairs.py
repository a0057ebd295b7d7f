"""Pairs of generated sentences: whether one follows from the other, and how similar they are in meaning."""

import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from seqloom.data.builtin.held_out import belongs_to

PEOPLE = {"man": "person", "woman": "person", "boy": "child", "girl": "child", "nurse": "person", "farmer": "person"}
AGES = {"young": "old", "old": "young", "tall": "short", "short": "tall"}  # each with its opposite
COLOURS = ["red", "blue", "green", "black", "white", "yellow"]
CLOTHES = ["shirt", "coat", "hat", "jacket", "scarf"]
ACTIONS = {  # what is done, in other words, more generally
    "plays the guitar": ("performs on the guitar", "makes music"),
    "plays the piano": ("performs on the piano", "makes music"),
    "reads a newspaper": ("looks through a newspaper", "reads something"),
    "reads a letter": ("looks through a letter", "reads something"),
    "eats an apple": ("is eating an apple", "eats fruit"),
    "eats a pear": ("is eating a pear", "eats fruit"),
    "feeds the ducks": ("gives food to the ducks", "feeds some animals"),
    "feeds the horses": ("gives food to the horses", "feeds some animals"),
    "repairs a bicycle": ("fixes a bicycle", "repairs something"),
    "repairs a radio": ("fixes a radio", "repairs something"),
}
PLACES = {  # more generally
    "in the garden": "outside",
    "by the river": "outside",
    "in the street": "outside",
    "in the kitchen": "inside",
    "in the library": "inside",
    "at the station": "in a public place",
}
OPPOSITE = {"outside": "inside", "inside": "outside"}
UNKNOWN = (
    "is waiting for a friend",
    "has a brother",
    "speaks three languages",
    "will leave soon",
    "likes the weather",
    "lives nearby",
    "is late for work",
    "won a prize",
)


class Scene(NamedTuple):
    """What a sentence says."""

    age: str
    person: str
    colour: str
    garment: str
    action: str
    place: str

    def sentence(self, *, definite: bool = False, action: str = "") -> str:
        who = f"the {self.age}" if definite else _a(self.age)
        return f"{who} {self.person} in {_a(self.colour)} {self.garment} {action or self.action} {self.place}"


def _a(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _scene(random: np.random.Generator) -> Scene:
    return Scene(*(_choose(random, values) for values in (AGES, PEOPLE, COLOURS, CLOTHES, ACTIONS, PLACES)))


def _choose(random: np.random.Generator, values: Iterable[str]) -> str:
    known = list(values)
    return known[random.integers(len(known))]


def _other(random: np.random.Generator, values: Iterable[str], known: str) -> str:
    return _choose(random, (value for value in values if value != known))


def _scenes(split: str, seed: int) -> Iterator[tuple[np.random.Generator, Scene]]:
    """Scenes without end; persons with their actions and places are held out."""
    random = np.random.default_rng([seed, zlib.crc32(split.encode())])
    while True:
        scene = _scene(random)
        if belongs_to(split, f"{scene.person} {scene.action} {scene.place}"):
            yield random, scene


def entailment_rows(size: int, split: str, *, seed: int) -> Iterator[str]:
    """``premise, hypothesis, label``: entailment, contradiction or neutral, each a third of the rows."""
    yield "premise\thypothesis\tlabel"
    for number, (random, scene) in zip(range(size), _scenes(split, seed), strict=False):
        label = ("entailment", "contradiction", "neutral")[number % 3]
        yield f"{scene.sentence()}\t{_hypothesis(random, scene, label)}\t{label}"


def _hypothesis(random: np.random.Generator, scene: Scene, label: str) -> str:
    who = str(random.choice([f"the {scene.person}", f"the {PEOPLE[scene.person]}", f"the {scene.age} {scene.person}"]))
    if label == "neutral":
        worn = f"wears {_a(_choose(random, COLOURS))} {_other(random, CLOTHES, scene.garment)}"
        return f"{who} {random.choice([str(random.choice(UNKNOWN)), worn])}"
    true = label == "entailment"
    same_words, more_general = ACTIONS[scene.action]
    actions = [scene.action, same_words, more_general]
    wrong_action = _other(random, [name for name in ACTIONS if ACTIONS[name][1] != more_general], scene.action)
    colour = scene.colour if true else _other(random, COLOURS, scene.colour)
    place = scene.place if true else _other(random, PLACES, scene.place)
    age = scene.age if true else AGES[scene.age]
    general = PLACES[scene.place]
    where = [place, general if true else OPPOSITE.get(general, place)]
    wording = (
        f"{who} {random.choice(actions) if true else wrong_action}",
        f"{who} wears {_a(colour)} {scene.garment}",
        f"{who} is {random.choice(where)}",
        f"the {scene.person} is {age}",
        f"somebody {random.choice(actions)}" if true else f"nobody {scene.action} {scene.place}",
        f"{who} does not {_infinitive(wrong_action if true else scene.action)}",
    )
    return str(wording[random.integers(len(wording))])


def _infinitive(action: str) -> str:
    verb, rest = action.split(" ", maxsplit=1)
    return f"{verb[:-1]} {rest}"


def similarity_rows(size: int, split: str, *, seed: int) -> Iterator[str]:
    """``sentence1, sentence2, score``: 5 if both say the same, 0 if they have nothing in common."""
    yield "sentence1\tsentence2\tscore"
    for _, (random, scene) in zip(range(size), _scenes(split, seed), strict=False):
        fresh = _scene(random)
        changed = random.permutation(len(Scene._fields))[: random.integers(len(Scene._fields) + 1)]
        names = [Scene._fields[index] for index in changed]
        other = scene._replace(**{name: getattr(fresh, name) for name in names})
        wording = str(random.choice([other.action, ACTIONS[other.action][0]]))
        score = sum(WEIGHTS[name] for name in Scene._fields if getattr(scene, name) == getattr(other, name))
        if scene.action != other.action and ACTIONS[scene.action][1] == ACTIONS[other.action][1]:
            score += WEIGHTS["action"] / 2  # different instruments, letters, animals …
        second = other.sentence(definite=bool(random.integers(2)), action=wording)
        yield f"{scene.sentence()}\t{second}\t{score:.2f}"


WEIGHTS = {"age": 0.4, "person": 1.0, "colour": 0.4, "garment": 0.4, "action": 2.0, "place": 0.8}
"""What an equal part of two scenes adds to their similarity; 5 in all."""
