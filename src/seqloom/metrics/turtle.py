"""A tiny language that moves a turtle, and whether two of its programs draw the same.

    forward 3          move and draw
    left               turn by 90°; also right
    pen up             move without drawing; pen down draws again
    repeat 4           the indented lines below, four times
        forward 2
        left

Programs are interpreted, never run as Python: there is nothing but these words, and the number of steps is limited.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from seqloom.metrics.confidence import MetricSums, ratio_of_sums

LARGEST = 1000  # number in a program
MAX_STEPS = 10_000  # steps that are executed
MAX_DEPTH = 16  # repeats within each other
LINE = re.compile(r"(\s*)(?:(forward|back|repeat) (\d{1,4})|(left|right)|pen (up|down))\s*")


class Drawing(NamedTuple):
    """What a program does: the unit lines that it draws, and where the turtle ends."""

    lines: frozenset[tuple[int, int, int, int]]
    place: tuple[int, int]
    direction: tuple[int, int]
    draws: bool  # whether the pen is down in the end


class ProgramError(ValueError):
    """A program that is malformed or takes too long."""


class _Line(NamedTuple):
    indent: int
    name: str
    number: int


def run(program: str) -> Drawing:
    """What a program draws; ProgramError with its line if it is malformed."""
    return _Turtle(_parse(program)).drawing()


def same_drawing(hypothesis: str, reference: str) -> bool:
    """Whether a program does the same as the reference, which may be written in another way."""
    expected = run(reference)
    try:
        return run(hypothesis) == expected
    except ProgramError:
        return False


def execution_sums(hypotheses: Sequence[str], references: Sequence[str]) -> MetricSums:
    """The share of programs that do the same as their reference."""
    pairs = zip(hypotheses, references, strict=True)
    return ratio_of_sums([same_drawing(*pair) for pair in pairs], [1] * len(references))


def _parse(program: str) -> list[_Line]:
    lines: list[_Line] = []
    for number, text in enumerate(program.splitlines(), start=1):
        if not text.strip():
            continue
        match = LINE.fullmatch(text)
        if match is None:
            raise ProgramError(f"line {number}: expected forward, back, left, right, pen or repeat, found {text!r:.40}")
        indent, name, count, turn, pen = match.groups()
        value = int(count or 0)
        if value > LARGEST:
            raise ProgramError(f"line {number}: expected a number up to {LARGEST}, found {value}")
        lines.append(_Line(len(indent), name or turn or f"pen {pen}", value))
    return lines


class _Turtle:
    def __init__(self, program: Sequence[_Line]) -> None:
        self.program = program
        self.x, self.y, self.dx, self.dy = 0, 0, 0, 1
        self.draws, self.steps = True, 0
        self.lines: set[tuple[int, int, int, int]] = set()

    def drawing(self) -> Drawing:
        first = self.program[0].indent if self.program else 0
        if self._block(0, first, 0) < len(self.program):
            raise ProgramError("unexpected indentation")
        return Drawing(frozenset(self.lines), (self.x, self.y), (self.dx, self.dy), self.draws)

    def _block(self, start: int, indent: int, depth: int) -> int:
        """Execute the lines of a block; return the index after them."""
        if depth > MAX_DEPTH:
            raise ProgramError(f"more than {MAX_DEPTH} repeats within each other")
        index = start
        while index < len(self.program) and self.program[index].indent >= indent:
            line = self.program[index]
            if line.indent > indent:
                raise ProgramError("unexpected indentation")
            index += 1
            self._count()
            if line.name != "repeat":
                self._step(line)
                continue
            if index == len(self.program) or self.program[index].indent <= indent:
                raise ProgramError("repeat without indented lines below it")
            end = self._skip(index, indent)
            for _ in range(line.number):
                self._block(index, self.program[index].indent, depth + 1)
            index = end
        return index

    def _skip(self, start: int, indent: int) -> int:
        index = start
        while index < len(self.program) and self.program[index].indent > indent:
            index += 1
        return index

    def _step(self, line: _Line) -> None:
        if line.name in ("forward", "back"):
            sign = 1 if line.name == "forward" else -1
            for _ in range(line.number):
                self._count()
                before = self.x, self.y
                self.x, self.y = self.x + sign * self.dx, self.y + sign * self.dy
                if self.draws:
                    one, other = sorted([before, (self.x, self.y)])
                    self.lines.add((*one, *other))
        elif line.name == "left":
            self.dx, self.dy = -self.dy, self.dx
        elif line.name == "right":
            self.dx, self.dy = self.dy, -self.dx
        else:
            self.draws = line.name == "pen down"

    def _count(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise ProgramError(f"more than {MAX_STEPS} steps")
