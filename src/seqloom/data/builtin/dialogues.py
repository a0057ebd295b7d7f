"""Dialogues with a service that books tables: the turns so far, and what the service says next."""

from collections.abc import Iterator

from seqloom.data.builtin.random_text import Random, choose, distinct, generator

FOOD = ["Italian", "Indian", "Greek", "Thai", "French", "Turkish"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
HOURS = ["five", "six", "seven", "eight", "nine"]
COUNTS = ["two", "three", "four", "five", "six"]
ASKED = {  # what is missing, the question, and answers to it
    "food": ("What kind of food would you like ?", ("{food} , please .", "I would like {food} food .")),
    "count": ("For how many people ?", ("For {count} .", "We are {count} people .")),
    "day": ("On which day ?", ("On {day} .", "{day} would be good .")),
    "hour": ("At what time ?", ("At {hour} .", "{hour} o'clock , please .")),
}
GREETINGS = ("Hello , I need a table", "Can you book a table", "I want to eat out")
GIVEN = {"food": "with {food} food", "count": "for {count}", "day": "on {day}", "hour": "at {hour}"}


def rows(size: int, split: str, *, seed: int) -> Iterator[str]:
    """``turns, reply``; dialogues are held out."""
    random = generator(split, seed)
    return distinct(size, split, iter(lambda: _row(random), None))


def _row(random: Random) -> tuple[str, str]:
    values = {"food": choose(random, FOOD), "count": choose(random, COUNTS)}
    values |= {"day": choose(random, DAYS), "hour": choose(random, HOURS)}
    known = [name for name in GIVEN if random.random() < 0.4]
    turns = [f"<user> {' '.join([choose(random, GREETINGS), *(GIVEN[name] for name in known)]).format(**values)} ."]
    missing = [name for name in ASKED if name not in known]
    for name in missing[: int(random.integers(len(missing) + 1))]:
        question, answers = ASKED[name]
        turns += [f"<bot> {question}", f"<user> {choose(random, answers).format(**values)}"]
        known.append(name)
    rest = [name for name in ASKED if name not in known]
    confirmation = "A table for {count} on {day} at {hour} , {food} food . Is that right ?"
    reply = ASKED[rest[0]][0] if rest else confirmation.format(**values)
    if not rest and random.random() < 0.5:
        turns += [f"<bot> {reply}", "<user> Yes , thank you ."]
        reply = "Your table is booked for {day} at {hour} .".format(**values)
    wording = " ".join(turns)
    return wording, f"{wording}\t{reply}"
