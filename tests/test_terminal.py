"""Tables, progress and JSON, piped and on a terminal."""

import contextlib
import io
import json
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


def test_json_is_utf_8() -> None:
    assert terminal.json_line({"text": "Grüße"}) == '{"text": "Grüße"}'


def test_piped_table_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.table(("cell", "path"), [("lstm", "fused"), ("layer_norm_lstm", "loop: why")])
    assert capsys.readouterr().out == "cell             path\nlstm             fused\nlayer_norm_lstm  loop: why\n"


def test_piped_progress_is_a_line_per_step(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.progress(2) as start:
        start("one")
        start("two")
    assert capsys.readouterr() == ("", "one\ntwo\n")


@contextlib.contextmanager
def screen_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """A pseudo-terminal instead of both outputs; the bytes written to it are complete after the context."""
    reading, writing = pty.openpty()
    pieces: list[bytes] = []

    def read_all() -> None:
        with contextlib.suppress(OSError):  # the terminal was closed
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


def test_a_terminal_gets_a_ruled_table_and_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with screen_of(monkeypatch) as pieces:
        with terminal.progress(2) as start:
            start("first [piece]")
        terminal.table(("name", "accuracy"), [("a [b]", "7%"), ("c", "100%")])
    shown = b"".join(pieces).decode()
    assert "first [piece]" in shown
    assert "│ a [b] │       7% │" in shown


# Training


def event(update: int, **values: Any) -> Any:
    """The event of an update."""
    common = {"update": update, "updates": 4, "epoch": update / 2, "loss": 1.25, "learning_rate": 0.001, "items": 10}
    flags = {
        "logged": False,
        "pending": False,
        "evaluation": None,
        "best": False,
        "kept": False,
        "unit": "items",
        "warning": "",
    }
    return SimpleNamespace(**common | flags | values)


def evaluation(accuracy: float) -> Any:
    return SimpleNamespace(metric="accuracy", metrics={"accuracy": accuracy, "loss": 0.5, "examples": 7, "per": {}})


EVENTS = [
    event(1),
    event(2, logged=True, pending=True),
    event(2, evaluation=evaluation(0.75), best=True, kept=True, items=0, loss=math.nan),
    event(4, logged=True, pending=True),
    event(4, evaluation=evaluation(0.5), items=0, loss=math.nan),
]


def test_piped_training_prints_a_line_per_log_entry(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.TrainingProgress() as progress:
        for each_event in EVENTS:
            progress(SimpleNamespace(path="runs/tag", notes=(), warnings=()), each_event)
    out, err = capsys.readouterr()
    lines = [re.sub(r"[\d,]+ items/s", "N items/s", line) for line in err.splitlines()]
    assert out == ""
    assert lines == [
        "epoch 1.00  update 2  loss 1.2500  learning rate 0.001  N items/s",
        "epoch 1.00  update 2  dev: accuracy 0.75  loss 0.5  (best)",
        "epoch 2.00  update 4  loss 1.2500  learning rate 0.001  N items/s",
        "epoch 2.00  update 4  dev: accuracy 0.5  loss 0.5",
    ]


def test_notes_and_warnings_about_the_data_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    run = SimpleNamespace(path="runs/a", notes=("text from column 1",), warnings=("1 of 18 examples is impossible",))
    with terminal.TrainingProgress() as progress:
        for each_event in EVENTS:
            progress(run, each_event)
    err = capsys.readouterr().err
    assert err.startswith("text from column 1\n1 of 18 examples is impossible\n")
    assert err.count("impossible") == err.count("text from") == 1


def test_quiet_training_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.TrainingProgress(quiet=True) as progress:
        for each_event in EVENTS:
            progress(SimpleNamespace(path="runs/tag", notes=(), warnings=()), each_event)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_with_the_best_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with screen_of(monkeypatch) as pieces, terminal.TrainingProgress() as progress:
        for each_event in EVENTS:
            progress(SimpleNamespace(path="runs/[tag]", notes=(), warnings=()), each_event)
    shown = b"".join(pieces).decode()
    assert "runs/[tag]" in shown
    assert "best accuracy 0.75" in shown
    assert "dev: accuracy 0.75  loss 0.5  (best)" in shown
    assert "learning rate" not in shown  # log entries are not printed beside the bar


@pytest.mark.parametrize("columns", [80, 100])
def test_the_bar_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    with screen_of(monkeypatch) as pieces, terminal.TrainingProgress() as progress:
        for each_event in (*EVENTS, event(5)):
            progress(SimpleNamespace(path="/a/long/folder/of/runs/tag", notes=(), warnings=()), each_event)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(pieces).decode())
    lines = re.split(r"[\r\n]+", shown)
    assert max(map(len, lines)) <= columns
    bars = [line for line in lines if "━" in line]
    assert all(line.startswith("…") and "of/runs/tag " in line for line in bars)
    assert any("best accuracy 0.75" in line and "epoch 2.50" in line for line in bars)
    assert not [line for line in bars if line.rstrip().endswith("…")]


def test_parts_of_a_line_are_left_out_if_they_do_not_fit() -> None:
    assert terminal.fit(["epoch 1", "", "a long remark", "x"], 10) == "epoch 1  x"
    assert terminal.fit(["too long for it"], 3) == "too long for it"
    assert terminal.fit([], 3) == ""


def test_the_metric_that_chooses_the_model_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 5.0}
    with terminal.TrainingProgress() as progress:
        chosen = event(1, evaluation=SimpleNamespace(metric="e", metrics=metrics), loss=math.nan)
        progress(SimpleNamespace(path="runs/tag", notes=(), warnings=()), chosen)
    assert capsys.readouterr().err == "epoch 0.50  update 1  dev: e 5  a 1  b 2  c 3\n"


def test_metrics_are_rows_with_their_confidence_intervals() -> None:
    metrics = {"accuracy": 2 / 3, "accuracy_interval": [0.5, 0.8], "examples": 7, "per_label": {"a": {}}, "list": [1]}
    columns, rows = terminal.score_table(metrics, {"accuracy": 0.25}, source="dev")
    assert columns == ["metric", "dev", "95 % interval", "baseline"]
    assert rows == [["accuracy", "0.66667", "[0.5, 0.8]", "0.25"], ["examples", "7", "", ""]]
    assert terminal.score_table({"loss": 1.5}, {}, source="value") == (["metric", "value"], [["loss", "1.5"]])


def test_transcription_errors_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    errors = {"substitutions": 2, "insertions": 1, "deletions": 0, "tokens": 40}
    pairs = [("3", "8", 2), ("", "1", 1), (" ", "", 1)]
    confusions = [{"reference": left, "hypothesis": right, "count": count} for left, right, count in pairs]
    terminal.print_details(
        {"cer_errors": errors, "confusions": confusions, "worst": ["a.png: 1 tokens\nREF:  3\nHYP:  8"]}
    )
    assert capsys.readouterr().out.splitlines() == [
        "",
        "CER: 2 substitutions, 1 insertions, 0 deletions in 40 tokens.",
        "",
        "Most frequent errors:",
        "reference  hypothesis  count",
        "3          8           2",
        "(nothing)  1           1",
        "(space)    (nothing)   1",
        "",
        "Worst transcripts (S substitution, I insertion, D deletion):",
        "",
        "a.png: 1 tokens",
        "REF:  3",
        "HYP:  8",
    ]
    terminal.print_details({"accuracy": 1.0})
    assert capsys.readouterr().out == ""


def test_scores_of_labels_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"precision": 1.0, "f1": 0.5}
    scores = {name: {**row, "recall": 0.9, "support": 10} for name in "abc"} | {"d": {**row, "recall": 0, "support": 7}}
    confusions = [{"label": name, "predicted": "long " * 10, "count": 2} for name in "ab"]
    terminal.print_details({"per_label": scores, "confusions": confusions}, most=1)
    assert capsys.readouterr().out.splitlines() == [
        "",
        "Labels with the most errors (2 of 4):",
        "label  precision  recall  f1     count",
        "d      1.000      0.000   0.500  7",
        "a      1.000      0.900   0.500  10",
        "",
        "Most frequent errors (1 of 2):",
        "label  predicted                       count",
        "a      long long long long long long…  2",
    ]
    perfect = {name: {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 9} for name in "ab"}
    unseen = {name: {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0} for name in "cde"}
    terminal.print_details({"per_label": perfect | unseen}, most=1)
    assert capsys.readouterr().out == ""  # no label has errors
    terminal.print_details({"per_label": perfect | unseen | {"f": scores["d"]}}, most=1)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "Labels with the most errors (1 of 6):",
        "label  precision  recall  f1     count",
        "f      1.000      0.000   0.500  7",
    ]
    terminal.print_details({"per_type": scores})
    assert capsys.readouterr().out.splitlines()[1:3] == ["Spans:", "label  precision  recall  f1     count"]


def test_json_has_null_for_numbers_that_are_not_finite(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_json({"perplexity": 1.5})
    assert capsys.readouterr().out == '{\n  "perplexity": 1.5\n}\n'
    terminal.print_json({"loss": math.inf, "interval": (math.nan, -math.inf, 1.0, True, "x")})
    assert json.loads(capsys.readouterr().out) == {"loss": None, "interval": [None, None, 1.0, True, "x"]}


def test_a_line_of_json_has_no_nan() -> None:
    assert (
        terminal.json_line({"probability": math.nan, "all": [math.inf, 0.5]})
        == '{"probability": null, "all": [null, 0.5]}'
    )


def test_any_stream_can_be_printed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content, encoding="ascii", write_through=True))
    monkeypatch.setattr(sys, "stderr", None)  # closed
    terminal.prepare_output()
    terminal.print_lines("é █")
    terminal.print_note("lost")
    terminal.print_json({"text": "é"})
    sys.stderr.close()
    assert content.getvalue().splitlines() == [rb"\xe9 \u2588", b"{", rb'  "text": "\u00e9"', b"}"]


def test_baselines_of_a_forecast(capsys: pytest.CaptureFixture[str]) -> None:
    def errors(value: float) -> dict[str, float]:
        return {"mse_scaled": value, "mae": 2 * value}

    better: dict[str, Any] = {"baselines": {"last value": errors(0.9), "drift": errors(0.7)}, **errors(0.5)}
    terminal.print_results(better, {"mae": 1.5}, source="dev", sentences=["What it means."])
    assert capsys.readouterr().out.split("\n") == [
        "What it means.",
        "",
        "forecast    mse_scaled  mae",
        "model       0.5         1",
        "last value  0.9         1.8",
        "drift       0.7         1.4",
        "",
        "All metrics:",
        "metric      dev  baseline",
        "mse_scaled  0.5",
        "mae         1    1.5",
        "",
    ]


def test_of_many_series_those_with_the_largest_errors_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    scores = {f"shop {number}": {"mse_scaled": 1 / number, "windows": 3} for number in range(1, 21)}
    terminal.print_details({"per_series": scores}, most=2)
    assert capsys.readouterr().out.splitlines() == [
        "",
        "Series (4 of 20, the largest errors first):",
        "series  mse_scaled  windows",
        "shop 1  1           3",
        "shop 2  0.5         3",
        "shop 3  0.33333     3",
        "shop 4  0.25        3",
    ]
