"""The trials of a sweep in Optuna's journal file, which several processes and machines may share."""

import json
import os
import random
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalFileSymlinkLock
from optuna.trial import FrozenTrial, TrialState

from seqloom import files
from seqloom.interrupt import Interrupted, interruptible
from seqloom.run import Run, RunError
from seqloom.tuning.sampler import CONTINUES, SeededSampler, decode, distribution, encode, grid, make_pruner
from seqloom.tuning.space import Space, SweepConfig

HEARTBEAT_SECONDS = 10.0
STALE_SECONDS = 120.0
"""A trial whose process has given no sign of life for this long is taken over by another process."""

STATES = {
    TrialState.COMPLETE: "finished",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}


@dataclass(frozen=True)
class Trial:
    """One training of a sweep."""

    number: int  # from 0; a trial that is continued keeps its number
    state: str  # finished, pruned, failed, running or waiting
    value: float | None  # the metric: of the best checkpoint, or of the last evaluation before it was pruned
    values: Mapping[str, Any]  # by section.key
    evaluations: tuple[float, ...]  # the metric at each evaluation
    minutes: float | None
    error: str
    identifier: int = field(repr=False)  # Optuna's number


class Journal:
    """The trials of a sweep; every process that opens the same file sees and extends the same list."""

    def __init__(self, folder: Path, config: SweepConfig, space: Space, *, higher_is_better: bool) -> None:
        self.folder, self.config, self.space = folder, config, space
        self.higher_is_better = higher_is_better
        path = folder / "journal.log"
        lock_type = JournalFileOpenLock if sys.platform == "win32" else JournalFileSymlinkLock
        lock = lock_type(str(path))
        _remove_torn_line(path, lock)
        with quiet_optuna():
            self.study = optuna.create_study(
                study_name="sweep",
                storage=JournalStorage(JournalFileBackend(str(path), lock)),
                direction="maximize" if higher_is_better else "minimize",
                sampler=SeededSampler(config),
                pruner=make_pruner(config),
                load_if_exists=True,
            )

    def queue_grid(self, most: int | None) -> int:
        """Queue the combinations of a grid in random order, unless they are there already; how many there are."""
        points = list(grid(self.space))
        random.Random(self.config.seed).shuffle(points)  # noqa: S311
        trials = self.study.get_trials(deepcopy=False)
        known = [trial.system_attrs.get("fixed_params", trial.params) for trial in trials]
        for point in points[:most]:
            if point not in known:
                self.study.enqueue_trial(point)
        return len(points[:most])

    def queue(self, values: Mapping[str, Any]) -> None:
        """Let a trial with these values be the next."""
        self.study.enqueue_trial({name: encode(value) for name, value in values.items()}, skip_if_exists=True)

    def trials(self) -> list[Trial]:
        """All trials by their number; without those that were interrupted and are continued by others."""
        by_number: dict[int, Trial] = {}
        for frozen in self.study.get_trials(deepcopy=False):
            if frozen.state != TrialState.FAIL or "error" in frozen.user_attrs:
                trial = self._trial(frozen)
                by_number[trial.number] = trial
        return [by_number[number] for number in sorted(by_number)]

    def _trial(self, frozen: FrozenTrial) -> Trial:
        stored = frozen.params or frozen.system_attrs.get("fixed_params", {})
        steps = sorted(frozen.intermediate_values)
        return Trial(
            number=frozen.user_attrs.get(CONTINUES, frozen.number),
            state=STATES[frozen.state],
            value=frozen.value if frozen.state in (TrialState.COMPLETE, TrialState.PRUNED) else None,
            values={name: decode(domain, stored[name]) for name, domain in self.space.items() if name in stored},
            evaluations=tuple(frozen.intermediate_values[step] for step in steps),
            minutes=frozen.user_attrs.get("minutes"),
            error=frozen.user_attrs.get("error", ""),
            identifier=frozen.number,
        )

    def best(self) -> Trial | None:
        """The finished trial with the best value; None if there is none."""
        finished = [trial for trial in self.trials() if trial.state == "finished" and trial.value is not None]
        sign = 1 if self.higher_is_better else -1
        return max(finished, key=lambda trial: sign * (trial.value or 0.0), default=None)

    def importance(self, min_trials: int) -> dict[str, float]:
        """The share of each key in the variation of the metric (PED-ANOVA, Watanabe et al. 2023), the largest first.

        Empty: there are too few finished trials, or they all have the same value.
        """
        values = {trial.value for trial in self.trials() if trial.state == "finished"}
        finished = sum(trial.state == "finished" for trial in self.trials())
        if finished < min_trials or len(values) < 2:
            return {}
        with quiet_optuna():
            return optuna.importance.get_param_importances(self.study)

    @contextmanager
    def start(self, total: int) -> Iterator["RunningTrial | None"]:
        """The next trial: one that waits, or one with new values. An exception puts it back into the queue.

        None: there are ``total`` trials, because another process was faster.
        """
        with quiet_optuna(), interruptible() as interrupted:
            optuna_trial = self.study.ask({name: distribution(domain) for name, domain in self.space.items()})
        trial = RunningTrial(self, optuna_trial)
        if trial.number not in [other.number for other in self.trials()[:total]]:
            self.study.tell(optuna_trial, state=TrialState.FAIL)
            yield None
            return
        try:
            trial.keep_alive(interrupted=interrupted())
            yield trial
        except BaseException:
            self.requeue(trial.frozen())
            raise
        finally:
            self.heartbeat_path(trial.number).unlink(missing_ok=True)

    def requeue(self, frozen: FrozenTrial) -> None:
        """Let another process continue a trial."""
        number = frozen.user_attrs.get(CONTINUES, frozen.number)
        try:
            with quiet_optuna():
                self.study.tell(frozen.number, state=TrialState.FAIL)
        except (ValueError, UpdateFinishedTrialError):
            return  # another process was faster
        if frozen.params.keys() == self.space.keys():
            self.study.enqueue_trial(frozen.params, user_attrs={CONTINUES: number})

    def requeue_stale(self) -> list[int]:
        """Put trials whose process has died back into the queue; their numbers."""
        numbers = []
        for frozen in self.study.get_trials(deepcopy=True, states=(TrialState.RUNNING,)):
            number = frozen.user_attrs.get(CONTINUES, frozen.number)
            if not self._is_alive(frozen, number) and not _is_locked(self.run_folder(number)):
                self.requeue(frozen)
                numbers.append(number)
        return numbers

    def _is_alive(self, frozen: FrozenTrial, number: int) -> bool:
        path = self.heartbeat_path(number)
        try:
            owner, beaten = json.loads(path.read_text(encoding="utf-8")), path.stat().st_mtime
        except (OSError, ValueError):  # none yet, or none any more: its process may be about to write it
            return frozen.datetime_start is not None and _age(frozen) < HEARTBEAT_SECONDS
        if owner["host"] == socket.gethostname() and not _process_exists(owner["process"]):
            return False
        return self._now() - beaten < STALE_SECONDS

    def _now(self) -> float:
        """The time by the clock of the file system, which other machines may share."""
        probe = self.folder / f".clock-{os.getpid()}"
        probe.touch()
        now = probe.stat().st_mtime
        probe.unlink(missing_ok=True)
        return now

    def heartbeat_path(self, number: int) -> Path:
        return self.folder / "trials" / f"{number}.alive"

    def run_folder(self, number: int) -> Path:
        """The run of a trial."""
        return self.folder / "trials" / str(number)


class RunningTrial:
    """A trial of this process."""

    def __init__(self, journal: Journal, optuna_trial: optuna.Trial) -> None:
        self.journal, self.optuna_trial = journal, optuna_trial
        self.number: int = optuna_trial.user_attrs.get(CONTINUES, optuna_trial.number)
        self.values = {name: decode(domain, optuna_trial.params[name]) for name, domain in journal.space.items()}
        self.folder = journal.run_folder(self.number)
        self.evaluations = 0
        self.beaten = 0.0

    def frozen(self) -> FrozenTrial:
        return self.journal.study.get_trials(deepcopy=True)[self.optuna_trial.number]

    def keep_alive(self, *, interrupted: bool = False) -> None:
        """Tell other processes from time to time that this one is alive; Interrupted after Ctrl-C."""
        if interrupted:
            raise Interrupted(self.folder)
        if time.monotonic() - self.beaten > HEARTBEAT_SECONDS or not self.beaten:
            path = self.journal.heartbeat_path(self.number)
            files.write(path, json.dumps({"host": socket.gethostname(), "process": os.getpid()}))
            self.beaten = time.monotonic()

    def report(self, value: float) -> bool:
        """Add the metric of an evaluation; whether the trial is to be pruned."""
        self.evaluations += 1
        with quiet_optuna(), suppress(UpdateFinishedTrialError):
            self.optuna_trial.report(value, self.evaluations)
            return self.optuna_trial.should_prune()
        return False

    def finish(self, value: float, minutes: float) -> None:
        self._tell(value, None, minutes=minutes)

    def prune(self) -> None:
        self._tell(None, TrialState.PRUNED)

    def fail(self, error: str) -> None:
        self._tell(None, TrialState.FAIL, error=error)

    def _tell(self, value: float | None, state: TrialState | None, **attributes: float | str) -> None:
        with quiet_optuna(), suppress(UpdateFinishedTrialError):  # another process believed this one to be dead
            for name, attribute in attributes.items():
                self.optuna_trial.set_user_attr(name, attribute)
            self.journal.study.tell(self.optuna_trial, value, state, skip_if_finished=True)


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Optuna's own messages only if they are warnings."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _age(frozen: FrozenTrial) -> float:
    assert frozen.datetime_start is not None  # noqa: S101
    return time.time() - frozen.datetime_start.timestamp()


def _process_exists(number: int) -> bool:
    if sys.platform == "win32":
        return True  # the heartbeat decides: signal 0 is Ctrl-C there
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_locked(folder: Path) -> bool:
    """Whether a process is training in a run folder."""
    try:
        run = Run.open(folder)
    except RunError:  # none yet
        return False
    try:
        with run.lock():
            return False
    except RunError:
        return True


def _remove_torn_line(path: Path, lock: Any) -> None:
    """Cut off the end of a journal that a full disk or a power failure has left incomplete."""
    if not path.exists():
        return
    lock.acquire()
    try:
        content = path.read_bytes()
        complete = content.rfind(b"\n") + 1
        if complete < len(content):
            files.truncate(path, complete)
    finally:
        lock.release()
