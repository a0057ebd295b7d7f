"""What the demo of handwriting prints: each drawing in a terminal, and the file with the picture."""

import pytest

from seqloom import demos


def test_drawings_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    line = {"text": "l", "strokes": [[0, 0, 0], [0, -8, 1]], "picture": "written.svg"}
    dash = {"text": "-", "strokes": [[0, 0, 0], [8, 0, 1]], "picture": "written.svg"}
    demos.find("handwriting").show([line, dash])
    assert capsys.readouterr().out.splitlines() == [
        "What it writes:",
        *("", "l:", *["⡇"] * 8),
        *("", "-:", "⠉" * 72),
        *("", "As a picture: written.svg"),
    ]
