"""Progress in a notebook: what is displayed during and after training."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import seqloom
from seqloom.interactive.progress import NotebookProgress, in_notebook, training_display
from seqloom.run import Run
from seqloom.terminal import TrainingProgress

DATA = [(f"{word} {number}", word) for word in ("good", "bad") for number in range(10)]


def train(folder: Path, **options: Any) -> Run:
    return seqloom.train(
        task="classify",
        data=DATA,
        dev=DATA[::3],
        output=folder / "run",
        epochs=2,
        encoder={"hidden_size": 4},
        **options,
    )


def test_the_display_shows_the_run_its_evaluations_and_the_end(tmp_path: Path) -> None:
    pages: list[str] = []
    with NotebookProgress(pages.append) as display:
        train(tmp_path, quiet=True, listeners=[display])
    assert "accuracy" in pages[-1]
    assert pages[-1].count("<tr") == 3  # a heading and two evaluations
    assert "finished: " in pages[-1]
    assert "finished: " not in pages[0]
    assert "run" in pages[-1]


def test_an_interrupted_training_says_so(tmp_path: Path) -> None:
    pages: list[str] = []

    def stop(_: Run, event: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), NotebookProgress(pages.append) as display:
        train(tmp_path, quiet=True, listeners=[display, stop])
    assert "stopped" in pages[-1]


def test_a_notebook_gets_html_and_other_places_get_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    assert isinstance(training_display(), TrainingProgress)

    shown: list[Any] = []
    handle = SimpleNamespace(update=shown.append)
    modules = {name: ModuleType(name) for name in ("IPython", "IPython.core", "IPython.core.getipython")}
    shell = SimpleNamespace()
    modules["IPython.core.getipython"].get_ipython = lambda: shell  # type: ignore[attr-defined]
    display = ModuleType("IPython.display")
    display.HTML = str  # type: ignore[attr-defined]
    display.display = lambda _, **options: handle if options else None  # type: ignore[attr-defined]
    for name, module in {**modules, "IPython.display": display}.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert isinstance(training_display(), TrainingProgress)  # a terminal
    shell.kernel = object()
    assert isinstance(training_display(quiet=True), TrainingProgress)
    train(tmp_path)
    assert "finished: " in shown[-1]
