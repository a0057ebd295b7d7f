"""What the demo of music prints: the piano roll, and the file to play."""

import pytest

from seqloom import demos

C4, D4 = 39, 41  # keys of the piano, from 0


def test_the_piano_roll_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    frames = [[int(key in keys) for key in range(88)] for keys in ((C4,), (C4, C4 + 1), (), (D4,))]
    demos.find("music").show([{"file": "composed.mid", "seconds": 2.0, "frames": frames}])
    assert capsys.readouterr().out.splitlines() == [
        "What it composes (time from left to right, low notes at the bottom):",
        "",
        "  D4    ▄",
        "  C4 ▄█",
        "",
        "To play it: composed.mid",
    ]
