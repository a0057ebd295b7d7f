"""Tables and progress, piped and on a terminal."""

import os
import pty
import sys

import pytest

from seqloom import terminal


def test_piped_table_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.table(("cell", "path"), [("lstm", "fused"), ("layer_norm_lstm", "loop: why")])
    assert capsys.readouterr().out == "cell             path\nlstm             fused\nlayer_norm_lstm  loop: why\n"


def test_piped_progress_is_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.progress(2) as begin:
        begin("one")
        begin("two")
    assert capsys.readouterr() == ("", "one\ntwo\n")


def test_terminal_gets_rules_and_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    reading, writing = pty.openpty()
    with os.fdopen(writing, "w", encoding="utf-8") as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        monkeypatch.setattr(sys, "stderr", screen)
        with terminal.progress(2) as begin:
            begin("first [piece]")
        terminal.table(("name", "accuracy"), [("a [b]", "7%"), ("c", "100%")])
        screen.flush()
        shown = os.read(reading, 100_000).decode()
    os.close(reading)
    assert "first [piece]" in shown
    assert "│ a [b] │       7% │" in shown
