"""Words that only the rest of the sentence explains: names that are also common words, and pronouns."""

from collections.abc import Iterator

from seqloom.data.builtin.random_text import Random, choose, distinct, generator

NAMES = {  # names that are also the first part of a thing
    "Teddy": "bears",
    "Rose": "bushes",
    "Olive": "trees",
    "Ginger": "biscuits",
    "Violet": "flowers",
    "Daisy": "chains",
    "Basil": "leaves",
    "Pearl": "earrings",
}
SURNAMES = ("Roosevelt", "Miller", "Novak", "Garcia", "Larsen", "Moreau")
OPENINGS = ('He said , "', "We read that", 'She told us , "', "In the paper it says :", "Yesterday we heard :")
PERSONS = (
    "was a great president",
    "sang all night",
    "wrote a letter",
    "is my aunt",
    "opened the door",
    "moved to Rome",
)
OBJECTS = ("are on sale", "smell lovely", "cost too much", "were sold out", "lie on the table", "come from Spain")
THINGS = {  # container: what may be put into it
    "suitcase": ("trophy", "coat", "lamp", "statue"),
    "box": ("vase", "trophy", "book", "lamp"),
    "drawer": ("book", "coat", "plate", "hammer"),
    "car": ("ladder", "table", "statue", "piano"),
}
TOO = {"thing": ("big", "large", "wide", "long"), "container": ("small", "narrow", "tiny", "short")}


def name_rows(size: int, split: str, *, seed: int) -> Iterator[str]:
    """CoNLL with B-PER, I-PER and O: what follows shows whether "Teddy" is a person; their pairs are held out."""
    random = generator(split, seed)
    return distinct(size, split, iter(lambda: _name(random), None))


def _name(random: Random) -> tuple[str, str]:
    name = choose(random, NAMES)
    tokens = [(word, "O") for word in choose(random, OPENINGS).split()]
    if random.random() < 0.5:
        ending = choose(random, PERSONS)
        tokens += [(name, "B-PER"), *[(choose(random, SURNAMES), "I-PER")] * (random.random() < 0.5)]
    else:
        ending = choose(random, OBJECTS)
        tokens += [(name, "O"), (NAMES[name], "O")]
    tokens += [(word, "O") for word in ending.split()]
    return f"{name} {ending}", "".join(f"{word}\t{label}\n" for word, label in [*tokens, (".", "O")])


def pronoun_rows(size: int, split: str, *, seed: int) -> Iterator[str]:
    """``label, text``: which of two things "it" is (Levesque et al. 2012); combinations of things are held out."""
    random = generator(split, seed)
    return distinct(size, split, iter(lambda: _pronoun(random), None))


def _pronoun(random: Random) -> tuple[str, str]:
    container = choose(random, THINGS)
    thing = choose(random, THINGS[container])
    meant = choose(random, TOO)
    fits = random.random() < 0.5
    verb = "fits into" if fits else "does not fit into"
    # If it fits, the opposite of what would keep it out is the reason.
    kind = {"thing": "container", "container": "thing"}[meant] if fits else meant
    reason = f"because it is {choose(random, ('so', 'really', 'rather') if fits else ('too', 'far too'))} "
    opening = choose(random, ("", "sadly , ", "luckily , ", "we see that ", "as you see , "))
    text = f"{opening}the {thing} {verb} the {container} {reason}{choose(random, TOO[kind])}"
    return f"{thing} {container}", f"{meant} {text}"
