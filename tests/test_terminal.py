"""Tables and progress, piped and on a terminal."""

import contextlib
import math
import os
import pty
import re
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

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


@contextlib.contextmanager
def screen_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """A terminal in the place of both outputs, and what it is sent, complete once it is left."""
    reading, writing = pty.openpty()
    pieces: list[bytes] = []

    def read_all() -> None:
        with contextlib.suppress(OSError):  # the end of a terminal that was closed
            while piece := os.read(reading, 100_000):
                pieces.append(piece)

    reader = threading.Thread(target=read_all)
    reader.start()
    with os.fdopen(writing, "w", encoding="utf-8") as screen, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", screen)
        patch.setattr(sys, "stderr", screen)
        yield pieces
    reader.join()
    os.close(reading)


def test_terminal_gets_rules_and_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with screen_of(monkeypatch) as pieces:
        with terminal.progress(2) as begin:
            begin("first [piece]")
        terminal.table(("name", "accuracy"), [("a [b]", "7%"), ("c", "100%")])
    shown = b"".join(pieces).decode()
    assert "first [piece]" in shown
    assert "│ a [b] │       7% │" in shown


# Trainings


def event(update: int, **values: Any) -> Any:
    """What a training tells after an update."""
    common = {"update": update, "updates": 4, "epoch": update / 2, "loss": 1.25, "rate": 0.001, "items": 10}
    flags = {"logged": False, "pending": False, "evaluation": None, "best": False, "unit": "items"}
    return SimpleNamespace(**common | flags | values)


def evaluation(accuracy: float) -> Any:
    return SimpleNamespace(metric="accuracy", metrics={"accuracy": accuracy, "loss": 0.5, "examples": 7, "per": {}})


EVENTS = [
    event(1),
    event(2, logged=True, pending=True),
    event(2, evaluation=evaluation(0.75), best=True, items=0, loss=math.nan),
    event(4, logged=True, pending=True),
    event(4, evaluation=evaluation(0.5), items=0, loss=math.nan),
]


def test_piped_training_is_a_line_for_each_entry(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.Watch() as watch:
        for one in EVENTS:
            watch(SimpleNamespace(path="runs/tag", remarks=()), one)
    out, said = capsys.readouterr()
    lines = [re.sub(r"[\d,]+ items/s", "N items/s", line) for line in said.splitlines()]
    assert out == ""
    assert lines == [
        "epoch 1.00  update 2  loss 1.2500  rate 0.001  N items/s",
        "epoch 1.00  update 2  dev: accuracy 0.75  loss 0.5  (best)",
        "epoch 2.00  update 4  loss 1.2500  rate 0.001  N items/s",
        "epoch 2.00  update 4  dev: accuracy 0.5  loss 0.5",
    ]


def test_what_was_found_in_the_data_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.Watch() as watch:
        for one in EVENTS:
            watch(SimpleNamespace(path="runs/a", remarks=("1 of 18 examples (5.56%) are impossible",)), one)
    said = capsys.readouterr().err
    assert said.startswith("1 of 18 examples (5.56%) are impossible\n")
    assert said.count("impossible") == 1


def test_a_quiet_training_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.Watch(quiet=True) as watch:
        for one in EVENTS:
            watch(SimpleNamespace(path="runs/tag", remarks=()), one)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_with_loss_and_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with screen_of(monkeypatch) as pieces, terminal.Watch() as watch:
        for one in EVENTS:
            watch(SimpleNamespace(path="runs/[tag]", remarks=()), one)
    shown = b"".join(pieces).decode()
    assert "runs/[tag]" in shown
    assert "best accuracy 0.75" in shown
    assert "dev: accuracy 0.75  loss 0.5  (best)" in shown
    assert "rate 0.001" not in shown  # the bar shows the entries of the log


def test_scores_are_rows_with_their_intervals() -> None:
    found = {"accuracy": 2 / 3, "accuracy_interval": [0.5, 0.8], "examples": 7, "per_label": {"a": {}}, "list": [1]}
    assert terminal.numbers(found) == [("accuracy", "0.66667  [0.5, 0.8]"), ("examples", "7")]
    assert [terminal.number(value) for value in (1234567.0, 3, "x", [0.5, 1])] == ["1.2346e+06", "3", "x", "0.5, 1"]


def test_mistakes_of_transcripts(capsys: pytest.CaptureFixture[str]) -> None:
    errors = {"substitutions": 2, "insertions": 1, "deletions": 0, "symbols": 40}
    pairs = [("3", "8", 2), ("", "1", 1), (" ", "", 1)]
    confusions = [{"wanted": wanted, "found": found, "times": times} for wanted, found, times in pairs]
    terminal.mistakes({"cer_errors": errors, "confusions": confusions, "worst": ["a.png: 1 wanted\nREF:  3\nHYP:  8"]})
    assert capsys.readouterr().out.splitlines() == [
        "",
        "Errors of the CER: 2 replaced, 1 put in, 0 left out, of 40 symbols.",
        "",
        "Most often:",
        "wanted     found      times",
        "3          8          2",
        "(nothing)  1          1",
        "(space)    (nothing)  1",
        "",
        "Where most is wrong (S replaced, I put in, D left out):",
        "",
        "a.png: 1 wanted",
        "REF:  3",
        "HYP:  8",
    ]
    terminal.mistakes({"accuracy": 1.0})
    assert capsys.readouterr().out == ""
