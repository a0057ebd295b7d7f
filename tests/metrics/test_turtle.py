"""Programs of the turtle: what they draw by hand, and that nothing else can be run."""

import pytest

from seqloom.metrics.turtle import ProgramError, execution_sums, run, same_drawing

SQUARE = "repeat 4\n    forward 2\n    left"
UNROLLED = "forward 2\nleft\n" * 4


def test_a_square() -> None:
    drawing = run(SQUARE)
    assert len(drawing.lines) == 8
    assert (drawing.place, drawing.direction, drawing.draws) == ((0, 0), (0, 1), True)
    assert (0, 0, 0, 1) in drawing.lines
    assert (-2, 1, -2, 2) in drawing.lines


@pytest.mark.parametrize(
    ("program", "place", "lines"),
    [
        ("forward 3\nright\nforward 1", (1, 3), 4),
        ("pen up\nforward 3\npen down\nback 1", (0, 2), 1),
        ("repeat 2\n  repeat 3\n    forward 1\n  left\nforward 1", (-3, 2), 7),
        ("repeat 0\n    forward 9", (0, 0), 0),
        ("", (0, 0), 0),
    ],
)
def test_programs(program: str, place: tuple[int, int], lines: int) -> None:
    assert (run(program).place, len(run(program).lines)) == (place, lines)


def test_programs_that_draw_the_same_are_equal() -> None:
    assert same_drawing(UNROLLED, SQUARE)
    assert not same_drawing("forward 2", SQUARE)
    assert not same_drawing(f"{UNROLLED}pen up", SQUARE)
    assert execution_sums([UNROLLED, "left", "dance"], [SQUARE, "right", "left"]).whole == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("dance", "line 1: expected forward, back, left"),
        ("forward 2\n__import__('os')", "line 2: expected"),
        ("forward", "line 1: expected"),
        ("forward 2000", "up to 1000, found 2000"),
        ("forward 1\n    left", "unexpected indentation"),
        ("repeat 3", "repeat without indented lines"),
        ("repeat 3\nleft", "repeat without indented lines"),
        ("repeat 1000\n repeat 1000\n  repeat 1000\n   left", "more than 10000 steps"),
        ("\n".join(f"{' ' * depth}repeat 1" for depth in range(20)) + f"\n{' ' * 20}left", "more than 16 repeats"),
    ],
)
def test_what_is_no_program(program: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        run(program)
    assert not same_drawing(program, SQUARE)
