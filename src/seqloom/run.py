"""The run directory: create, open, checkpoint, log, verify."""

import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

from seqloom import checkpoint
from seqloom.checkpoint import PLAIN, RunError, Snapshot

__all__ = ["Run", "RunError", "Snapshot"]

Name = Literal["best", "last"]

FILES = ("config.toml", "learned.json", "env.json")
"""What a run is born with; its manifest vouches for them. They never change."""

LONGEST_LINE = 1 << 20  # bytes of a line of metrics.jsonl
LARGEST_TABLE = 1 << 30  # bytes of all of them


def _complain(message: str) -> None:
    sys.stderr.write(f"warning: {message}\n")


def refuse_existing(path: str | Path) -> None:
    """Raise RunError if there is anything where a run is to be made."""
    if os.path.lexists(path):
        raise RunError(f"{path}: exists already, and a run is never overwritten; choose another folder")


@dataclass(frozen=True, slots=True)
class Run:
    """A directory from which everything can be redone.

    It may come from anywhere: what is read from it is data, checked before use, and never code.
    """

    path: Path
    config: str  # TOML, complete
    learned: str  # JSON
    environment: dict[str, Any]
    remarks: tuple[str, ...] = ()  # of a new run: what was found in its data

    @classmethod
    def create(cls, path: str | Path, *, config: str, learned: str, environment: Mapping[str, Any]) -> Self:
        """Make a new run, which appears all at once. What exists is never overwritten."""
        path = Path(path)
        refuse_existing(path)
        texts = {"config.toml": config, "learned.json": learned, "env.json": json.dumps(environment, indent=2) + "\n"}
        partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.mkdir()
            try:
                for name, text in texts.items():
                    checkpoint.write_text(partial / name, text)
                checkpoint.seal(partial, FILES)
                checkpoint.move([(partial, path)])
            finally:
                if partial.exists():
                    shutil.rmtree(partial)
        except OSError as error:
            raise RunError(f"{path}: no run could be made: {checkpoint.reason(error)}") from error
        return cls(path, config, learned, json.loads(texts["env.json"]))

    @classmethod
    def open(cls, path: str | Path) -> Self:
        path = Path(path)
        checkpoint.refuse_links(path, folders=True)
        if not os.path.lexists(path / checkpoint.MANIFEST):
            raise RunError(f"{path}: not a run: it has no {checkpoint.MANIFEST}")
        checkpoint.verify(path, FILES)
        config, learned, environment = (checkpoint.read_text(path / name) for name in FILES)
        return cls(path, config, learned, checkpoint.parse(environment, path / "env.json"))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Refuse a second process that wants to train here. The lock of a process that was killed is gone with it."""
        try:
            descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | PLAIN, 0o666)
        except OSError as error:
            raise RunError(f"{self.path}: cannot be locked: {checkpoint.reason(error)}") from error
        if not _grab(descriptor):
            owner = os.read(descriptor, 20)
            os.close(descriptor)
            process = f"process {int(owner)}" if owner.isdigit() else "another process"
            raise RunError(f"{self.path}: {process} is training on it")
        _held.add(descriptor)
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
            yield
        finally:
            if descriptor in _held:  # not so in a forked child
                _held.remove(descriptor)
                os.close(descriptor)

    def save(self, name: Name, snapshot: Snapshot) -> None:
        """Write a checkpoint, completely or not at all; the one before is kept as ``<name>.previous``.

        What was recorded until now is on the disk before it.
        """
        for log in (self._metrics, self._log):
            if log.is_file():
                try:
                    checkpoint.sync(log)
                except OSError as error:
                    raise RunError(f"{log}: {checkpoint.reason(error)}") from error
        with suppress(OSError):
            checkpoint.sweep(self._folder("last" if name == "best" else "best"))
        checkpoint.save(self._folder(name), snapshot)

    def load(self, name: Name, *, warn: Callable[[str], object] = _complain) -> Snapshot:
        """The checkpoint, verified; the one before, after a warning that names the file, where a file is damaged."""
        return checkpoint.load(self._folder(name), warn=warn)

    def load_best(self) -> Snapshot:
        """The best checkpoint; the last one where nothing was evaluated yet."""
        return self.load("best" if self.saved("best") else "last")

    def best_metrics(self) -> dict[str, Any]:
        """Development metrics of the best checkpoint; empty if there was no evaluation."""
        metrics: dict[str, Any] = self.load_best().facts.get("metrics", {})
        return metrics

    def saved(self, name: Name) -> bool:
        """Whether there is a checkpoint of this name to be loaded."""
        return bool(checkpoint.places(self._folder(name)))

    def verify(self, name: Name) -> None:
        """Raise RunError if the checkpoint, itself and not the one before, is damaged."""
        checkpoint.check(self._folder(name))

    def log(self, line: str) -> None:
        """Append a line to train.log, with the time."""
        _append(self._log, f"{datetime.now(UTC).astimezone():%Y-%m-%d %H:%M:%S%z} {line}\n")

    def record(self, row: Mapping[str, Any]) -> None:
        """Append a row to metrics.jsonl."""
        _append(self._metrics, json.dumps(row) + "\n")

    def rows(self) -> list[dict[str, Any]]:
        """What was recorded; a last line that was not written to its end does not count."""
        lines = enumerate(_lines(self._metrics), start=1)
        return [checkpoint.parse(line, f"{self._metrics}:{number}") for number, line in lines]

    def rewind(self, rows: int) -> None:
        """Keep the first rows of metrics.jsonl and forget all that was recorded after them."""
        size = found = 0
        for line in _lines(self._metrics):
            if found == rows:
                break
            found += 1
            size += len(line)
        if found < rows:
            raise RunError(f"{self._metrics}: {found} complete lines, wanted {rows}")
        if not self._metrics.is_file():
            return
        try:
            os.truncate(self._metrics, size)  # one call: nobody sees it half done
            checkpoint.sync(self._metrics)
        except OSError as error:
            raise RunError(f"{self._metrics}: {checkpoint.reason(error)}") from error

    @property
    def _log(self) -> Path:
        return self.path / "train.log"

    @property
    def _metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    def _folder(self, name: Name) -> Path:
        if name not in ("best", "last"):
            raise ValueError(f"checkpoint is {name!r}, wanted best or last")
        return self.path / name


def _append(path: Path, text: str) -> None:
    """All of the text or nothing of it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | PLAIN, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            try:
                checkpoint.write(descriptor, text.encode(errors="backslashreplace"))
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise RunError(f"{path}: {checkpoint.reason(error)}") from error


def _lines(path: Path) -> Iterator[bytes]:
    """The complete lines of a file, with their ends; none if there is no file."""
    if not os.path.lexists(path):
        return
    with checkpoint.opened(path) as file:
        if os.fstat(file.fileno()).st_size > LARGEST_TABLE:
            raise RunError(f"{path}: more than {LARGEST_TABLE} bytes")
        while (line := file.readline(LONGEST_LINE)).endswith(b"\n"):
            yield line
        if len(line) == LONGEST_LINE:
            raise RunError(f"{path}: a line of more than {LONGEST_LINE} bytes")


if sys.platform == "win32":
    import msvcrt

    def _grab(descriptor: int) -> bool:
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # the number of the process stays readable
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True
else:
    import fcntl

    def _grab(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


_held: set[int] = set()  # descriptors of locks of this process


def _let_go() -> None:
    """A forked child, such as a loader's worker, must not keep the lock of a parent that was killed."""
    while _held:
        os.close(_held.pop())


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_let_go)
