"""Questions about short stories of people who move and carry things, as in bAbI (Weston et al. 2015)."""

from collections.abc import Iterator

from seqloom.data.builtin.random_text import Random, choose, distinct, generator

PEOPLE = ["Anna", "Boris", "Clara", "David", "Emma", "Felix"]
ROOMS = ["kitchen", "garden", "office", "bathroom", "cellar", "hallway"]
THINGS = ["apple", "book", "key", "lamp"]
MOVES = ("went to the", "walked to the", "moved to the")


def rows(size: int, split: str, *, seed: int) -> Iterator[str]:
    """``story with a question, answer``; the first two moves of a story decide in which file it is."""
    random = generator(split, seed)
    return distinct(size, split, iter(lambda: _row(random), None))


def _row(random: Random) -> tuple[str, str]:
    place: dict[str, str] = {}
    holder: dict[str, str] = {}
    left: dict[str, str] = {}
    story: list[str] = []
    for step in range(int(random.integers(3, 8))):
        who = choose(random, PEOPLE[: 2 + len(place)])
        if step < 2 or who not in place or random.random() < 0.5:
            room = choose(random, [room for room in ROOMS if room != place.get(who)])
            story.append(f"{who} {choose(random, MOVES)} {room} .")
            place[who] = room
            continue
        carried = [thing for thing, owner in holder.items() if owner == who]
        if carried and random.random() < 0.4:
            story.append(f"{who} dropped the {carried[0]} .")
            left[carried[0]] = place[who]
            del holder[carried[0]]
        else:
            free = [thing for thing in THINGS if thing not in holder and left.get(thing, place[who]) == place[who]]
            if free:
                thing = choose(random, free)
                story.append(f"{who} took the {thing} .")
                holder[thing] = who
                left.pop(thing, None)
    things = {thing: place[who] for thing, who in holder.items()} | left
    subject = choose(random, things) if things and random.random() < 0.6 else choose(random, place)
    named = f"the {subject}" if subject in things else subject
    return " ".join(story[:2]), f"{' '.join(story)} Where is {named} ?\t{(place | things)[subject]}"
