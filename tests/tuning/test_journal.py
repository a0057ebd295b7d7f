"""The journal of a sweep: several processes, dead ones, torn files."""

import json
import os
import socket
from pathlib import Path

import pytest

from seqloom.run import Run
from seqloom.tuning import journal as journals
from seqloom.tuning.journal import Journal
from seqloom.tuning.sampler import distribution
from seqloom.tuning.space import Choice, Domain, NumberRange, SweepConfig

SPACE: dict[str, Domain] = {"rate": NumberRange(1e-4, 1e-1, log=True), "cell": Choice(("lstm", "gru"))}


def open_journal(folder: Path, **settings: object) -> Journal:
    return Journal(folder, SweepConfig(**settings), SPACE, higher_is_better=False)  # type: ignore[arg-type]


def finish(journal: Journal, value: float) -> int:
    with journal.start(100) as trial:
        assert trial is not None
        trial.finish(value, 1.0)
        return trial.number


def test_trials_are_shared_by_all_who_open_the_file(tmp_path: Path) -> None:
    first, second = open_journal(tmp_path), open_journal(tmp_path)
    assert [finish(first, 3.0), finish(second, 1.0), finish(first, 2.0)] == [0, 1, 2]
    assert first.trials() == second.trials() == open_journal(tmp_path).trials()
    assert [trial.value for trial in first.trials()] == [3.0, 1.0, 2.0]
    best = second.best()
    assert best is not None
    assert best.number == 1
    assert len({trial.values["rate"] for trial in first.trials()}) == 3


def test_a_trial_that_fails_to_end_is_continued_under_its_number(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    with pytest.raises(KeyboardInterrupt), journal.start(9):
        raise KeyboardInterrupt
    (waiting,) = journal.trials()
    values = waiting.values
    assert (waiting.number, waiting.state, values.keys()) == (0, "waiting", SPACE.keys())
    with open_journal(tmp_path).start(9) as continued:
        assert continued is not None
        assert (continued.number, continued.values, continued.folder) == (0, values, tmp_path / "trials" / "0")
        continued.finish(2.0, 1.0)
    assert [(trial.number, trial.state) for trial in journal.trials()] == [(0, "finished")]
    assert finish(journal, 1.0) == 2  # Optuna counts the interrupted one


def abandon(journal: Journal, owner: dict[str, object]) -> None:
    """Start a trial and leave it as a process does that is killed."""
    asked = journal.study.ask({name: distribution(domain) for name, domain in SPACE.items()})
    path = journal.heartbeat_path(asked.number)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(owner))


def test_the_trial_of_a_dead_process_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = open_journal(tmp_path)
    abandon(journal, {"host": socket.gethostname(), "process": os.getpid()})
    assert journal.requeue_stale() == []
    monkeypatch.setattr(journals, "_process_exists", lambda _: False)
    assert journal.requeue_stale() == [0]
    assert [trial.state for trial in journal.trials()] == ["waiting"]
    assert journal.requeue_stale() == []


def test_a_process_on_another_machine_is_dead_when_it_gives_no_sign_of_life(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    abandon(journal, {"host": "elsewhere", "process": 1})
    assert journal.requeue_stale() == []
    path = journal.heartbeat_path(0)
    past = path.stat().st_mtime - journals.STALE_SECONDS - 1
    os.utime(path, (past, past))
    assert journal.requeue_stale() == [0]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["journal.log", "trials"]


def test_a_trial_whose_run_is_locked_is_not_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = open_journal(tmp_path)
    abandon(journal, {"host": socket.gethostname(), "process": 1})
    monkeypatch.setattr(journals, "_process_exists", lambda _: False)
    run = Run.create(journal.run_folder(0), config="", learned="{}", environment={})
    with run.lock():
        assert journal.requeue_stale() == []
    assert journal.requeue_stale() == [0]


def test_a_process_that_was_believed_dead_changes_nothing(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    with journal.start(9) as trial:
        assert trial is not None
        open_journal(tmp_path).requeue(trial.frozen())
        assert trial.report(1.0) is False
        trial.finish(1.0, 1.0)
    assert [(trial.number, trial.state) for trial in journal.trials()] == [(0, "waiting")]


def test_a_failed_trial_keeps_its_reason(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    with journal.start(9) as trial:
        assert trial is not None
        trial.fail("too bad")
    (failed,) = journal.trials()
    assert (failed.state, failed.error, failed.value) == ("failed", "too bad", None)
    assert journal.best() is None


def test_processes_that_ask_at_once_run_no_more_than_all_trials(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    for value in (1.0, 2.0):
        finish(journal, value)
    with journal.start(2) as trial:
        assert trial is None
    assert len(journal.trials()) == 2


def test_a_torn_line_is_removed(tmp_path: Path) -> None:
    finish(open_journal(tmp_path), 1.0)
    path = tmp_path / "journal.log"
    content = path.read_bytes()
    path.write_bytes(content + b'{"op_code": 4, "work')
    journal = open_journal(tmp_path)
    assert path.read_bytes().startswith(content + b'{"op_code":')
    finish(journal, 2.0)
    assert [trial.value for trial in open_journal(tmp_path).trials()] == [1.0, 2.0]


def test_a_grid_is_queued_once(tmp_path: Path) -> None:
    space: dict[str, Domain] = {"a": Choice((1, 2, 3)), "b": Choice((True, False))}
    journal = Journal(tmp_path, SweepConfig(sampler="grid"), space, higher_is_better=True)
    assert journal.queue_grid(4) == 4
    assert journal.queue_grid(None) == 6
    assert journal.queue_grid(None) == 6
    assert sorted(tuple(trial.values.values()) for trial in journal.trials()) == [
        (a, b) for a in (1, 2, 3) for b in (False, True)
    ]


def test_importance_needs_trials_that_differ(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    for _ in range(4):
        finish(journal, 1.0)
    assert journal.importance(4) == {}
    for _ in range(12):
        with journal.start(100) as trial:
            assert trial is not None
            trial.finish(float(trial.values["rate"]), 1.0)
    importance = journal.importance(4)
    assert list(importance) == ["rate", "cell"]
    assert sum(importance.values()) == pytest.approx(1)
