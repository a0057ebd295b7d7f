"""Instructions in English, and programs of a turtle that carry them out (see metrics/turtle.py)."""

import json
from collections.abc import Iterator

from seqloom.data.builtin.random_text import Random, choose, distinct, generator

NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
INDENT = "    "


def rows(size: int, split: str, *, seed: int) -> Iterator[str]:
    """JSON lines with ``source`` and ``target``, a program of several lines; combinations of steps are held out."""
    random = generator(split, seed)
    return distinct(size, split, iter(lambda: _row(random), None))


def _row(random: Random) -> tuple[str, str]:
    parts = [_part(random) for _ in range(int(random.integers(1, 4)))]
    text = " , then ".join(wording for wording, _ in parts)
    program = "\n".join(line for _, lines in parts for line in lines)
    return " ".join(program.split()), json.dumps({"source": text, "target": program})


def _part(random: Random) -> tuple[str, list[str]]:
    if random.random() < 0.45:
        times = int(random.integers(2, 6))
        steps = [_step(random) for _ in range(int(random.integers(1, 3)))]
        wording = " and ".join(text for text, _ in steps)
        written = [f"{INDENT}{line}" for _, line in steps]
        form = choose(random, ("{n} times {wording}", "repeat {n} times : {wording}", "do this {n} times : {wording}"))
        return form.format(n=NUMBERS[times], wording=wording), [f"repeat {times}", *written]
    text, line = _step(random)
    return text, [line]


def _step(random: Random) -> tuple[str, str]:
    count = int(random.integers(1, 10))
    steps = f"{NUMBERS[count]} step{'s' * (count > 1)}"
    kind = int(random.integers(5))
    if kind <= 1:
        return choose(random, ("go forward {s}", "walk {s}", "move {s} ahead")).format(s=steps), f"forward {count}"
    if kind == 2:
        return choose(random, ("go back {s}", "step back by {s}")).format(s=steps), f"back {count}"
    if kind == 3:
        side = choose(random, ("left", "right"))
        return choose(random, ("turn {d}", "face {d}", "make a {d} turn")).format(d=side), side
    lifted = choose(random, ("up", "down"))
    wording = {"up": ("lift the pen", "stop drawing"), "down": ("lower the pen", "start drawing")}[lifted]
    return choose(random, wording), f"pen {lifted}"
