"""The run folder: configuration, checkpoints, metrics and log of one training run."""

import errno
import json
import os
import secrets
import shutil
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Self

from seqloom import checkpoint, files, html
from seqloom.checkpoint import RunError, Snapshot
from seqloom.files import os_error_message
from seqloom.migration import FORMAT, migrate_texts

__all__ = ["Run", "RunError", "Snapshot"]

Name = Literal["best", "last"]

FILES = ("config.toml", "learned.json", "env.json")
"""Files that are written when a run is created and never change; the manifest lists them."""

MAX_LINE_BYTES = 1 << 20  # of metrics.jsonl
MAX_FILE_BYTES = 1 << 30
LOG_END = 1 << 16  # bytes of train.log that are read
SHOWN_SCORES = 8  # in a notebook
DETAILS = "details/dev.json"
SUMMARY = "summary.json"
CARD = "README.md"
BLOCK_BYTES = 1 << 20


def _print_warning(message: str) -> None:
    sys.stderr.write(f"warning: {message}\n")


def refuse_existing(path: str | Path) -> None:
    """Raise RunError if a path exists that a new run is to be created at."""
    if any("\ud800" <= character <= "\udfff" for character in str(path)):
        raise RunError(f"{str(path)!a}: the name is not valid UTF-8, as texts in a run are: choose another folder")
    if os.path.lexists(path):
        raise RunError(f"{path}: already exists, and runs are never overwritten: choose another folder")
    above = next((folder for folder in Path(path).parents if os.path.lexists(folder)), None)
    if above is not None and not above.is_dir():
        raise RunError(f"{path}: {above} is a file, not a folder: choose another folder")


def _folders(path: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in path.iterdir() if entry.is_dir())
    except OSError:
        return []


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """A run folder, which contains everything needed to use, resume or reproduce a training run.

    It may be of untrusted origin: its files are data, verified before use, and never executed.
    """

    path: Path
    config: str  # TOML, complete
    learned: str  # JSON
    environment: dict[str, Any]
    notes: tuple[str, ...] = ()  # what was detected in the data of a new run, to be shown to the user
    warnings: tuple[str, ...] = ()  # about the data of a new run, to be shown to the user

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {value}" for name, value in list(self._scores().items())[:3])
        return f"<Run {self.path}: {self._task()}{f', {scores}' if scores else ''}>"

    def _repr_html_(self) -> str:
        losses = [row["loss"] for row in self.rows() if isinstance(row.get("loss"), float | int)]
        facts = self.summary()
        trivial = {
            name: f"{value:.4g}" for name, value in facts.get("baseline_scores", {}).items() if isinstance(value, float)
        }
        rows = [
            (html.remark(name), html.escape(value), html.remark(trivial.get(name, "")))
            for name, value in list(self._scores().items())[:SHOWN_SCORES]
        ]
        scores = html.table(("", "score", "baseline" if trivial else ""), rows) if rows else ""
        return html.block(
            html.heading(self.path, ", ".join(filter(None, (self._task(), facts.get("finished", ""))))),
            html.beside(scores or html.remark("not evaluated yet"), html.curve(losses, label="training loss")),
            *map(html.remark, self.warnings),
        )

    def _task(self) -> str:
        name: str = tomllib.loads(self.config).get("task", {}).get("name", "")
        return name

    def _scores(self) -> dict[str, str]:
        """The numbers among the development metrics of the best checkpoint, with their confidence intervals."""
        metrics = self.facts().get("metrics", {})
        scores = {}
        for name, value in metrics.items():
            if isinstance(value, float | int) and not isinstance(value, bool):
                low, high = metrics.get(f"{name}_interval") or (None, None)
                interval = "" if low is None else f" [{low:.4g}, {high:.4g}]"
                scores[name] = (f"{value:.4g}" if isinstance(value, float) else f"{value:,}") + interval
        return scores

    def facts(self) -> dict[str, Any]:
        """The facts of the best checkpoint, read without its weights; empty if there is none."""
        for folder in checkpoint.candidates(self._folder("best")):
            with suppress(RunError):
                path = folder / "training.json"
                return checkpoint.parse_json(checkpoint.read_text(path), path)
        return {}

    @property
    def precision(self) -> str:
        """How the weights of the best checkpoint are stored: float32 or int8."""
        return str(self.facts().get("precision", "float32"))

    def refuse_int8(self, purpose: str) -> None:
        """Raise RunError if the run holds int8 weights, which are for predictions only."""
        if self.precision == "int8":
            source = self.facts().get("quantized_from", "")
            named = f" ({source})" if isinstance(source, str) and source else ""
            raise RunError(
                f"{self.path}: holds int8 weights, which cannot be {purpose}: use the run it was made from{named}"
            )

    @classmethod
    def create(cls, path: str | Path, *, config: str, learned: str, environment: Mapping[str, Any]) -> Self:
        """Create a run folder atomically; an existing path is never overwritten."""
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
                checkpoint.write_manifest(partial, FILES)
                checkpoint.rename_all([(partial, path)])
            finally:
                if partial.exists():
                    shutil.rmtree(partial)
        except OSError as error:
            raise RunError(f"{path}: cannot create the run: {os_error_message(error)}") from error
        return cls(path, config, learned, json.loads(texts["env.json"]))

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open an existing run folder; raises RunError if it is not one or if a file is damaged."""
        path = Path(path)
        if not os.path.lexists(path):
            near = [path.parent / name for name in get_close_matches(path.name, _folders(path.parent), n=1)]
            raise RunError(f"{path}: no such run" + "".join(f"; did you mean {folder}?" for folder in near))
        if path.is_file():
            raise RunError(f"{path}: not a run but a file: give the folder of a training run, such as runs/classify")
        checkpoint.refuse_special_files(path, allow_folders=True)
        if not os.path.lexists(path / checkpoint.MANIFEST):
            raise RunError(f"{path}: not a run: it has no {checkpoint.MANIFEST}")
        version = checkpoint.verify_files(path, FILES)
        config, learned, environment = (checkpoint.read_text(path / name) for name in FILES)
        try:
            config, learned = migrate_texts(config, learned, version)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise RunError(f"{path}: cannot be brought from format {version} to {FORMAT}: {error}") from error
        return cls(path, config, learned, checkpoint.parse_json(environment, path / "env.json"))

    def remove(self) -> None:
        """Remove the folder; only for a new run in which nothing was trained."""
        try:
            shutil.rmtree(self.path)
        except OSError as error:
            raise RunError(f"{self.path}: cannot be removed: {os_error_message(error)}") from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the run for training by this process; the system releases the lock if the process is killed."""
        try:
            descriptor = files.open_own(self.path / ".lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise RunError(f"{self.path}: cannot lock: {os_error_message(error)}") from error
        if not _lock_soon(descriptor):
            owner = os.read(descriptor, 20)
            os.close(descriptor)
            process = f"process {int(owner)}" if owner.isdigit() else "another process"
            raise RunError(f"{self.path}: in use by {process}, which is training")
        _lock_descriptors.add(descriptor)
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
            yield
        finally:
            if descriptor in _lock_descriptors:  # a forked child has closed it
                _lock_descriptors.remove(descriptor)
                os.close(descriptor)

    @staticmethod
    def is_training(path: Path) -> bool:
        """Whether a process is training in the folder of a run."""
        return Run.training_process(path) is not None

    @staticmethod
    def training_process(path: Path) -> int | None:
        """The number of the process that is training in the folder of a run; None: there is none. 0: not known."""
        try:
            descriptor = os.open(path / ".lock", os.O_RDWR | files.OPEN_FLAGS)
        except OSError:
            return None
        try:
            if _try_lock(descriptor):
                return None
            owner = os.read(descriptor, 20)
            return int(owner) if owner.isdigit() else 0
        finally:
            os.close(descriptor)  # releases the lock, if it was free

    def save(self, name: Name, snapshot: Snapshot) -> None:
        """Write a checkpoint atomically, after flushing metrics and log; the one before becomes ``<name>.previous``."""
        for path in (self._metrics_path, self._log_path):
            if path.is_file():
                try:
                    files.sync(path)
                except OSError as error:
                    raise RunError(f"{path}: {os_error_message(error)}") from error
        with suppress(OSError):
            checkpoint.remove_leftovers(self._folder("last" if name == "best" else "best"))
        checkpoint.save(self._folder(name), snapshot)

    def load(self, name: Name, *, warn: Callable[[str], object] = _print_warning) -> Snapshot:
        """Load a checkpoint after verifying it; if a file is damaged, warn and load the one before."""
        return checkpoint.load(self._folder(name), warn=warn)

    def load_best(self) -> Snapshot:
        """The best checkpoint, or the last one if there was no evaluation yet."""
        return self.load("best" if self.saved("best") else "last")

    def best_metrics(self) -> dict[str, Any]:
        """Development metrics of the best checkpoint; empty if there was no evaluation."""
        metrics: dict[str, Any] = self.load_best().facts.get("metrics", {})
        return metrics

    def keep_best(self) -> None:
        """Remove everything but the best checkpoint, if there is one; the run can then no longer be resumed."""
        if not self.saved("best"):
            return
        self.verify("best")
        try:
            for folder in (
                *checkpoint.candidates(self._folder("last")),
                *checkpoint.candidates(self._folder("best"))[1:],
            ):
                if os.path.lexists(folder):
                    shutil.rmtree(folder)
        except OSError as error:
            raise RunError(f"{self.path}: {os_error_message(error)}") from error

    def saved(self, name: Name) -> bool:
        """Whether there is a checkpoint of this name."""
        return bool(checkpoint.candidates(self._folder(name)))

    def verify(self, name: Name) -> None:
        """Raise RunError if the checkpoint is damaged, even if the one before could be loaded."""
        checkpoint.verify_checkpoint(self._folder(name))

    def log(self, line: str) -> None:
        """Append a line with a time stamp to train.log."""
        _append(self._log_path, f"{datetime.now(UTC).astimezone():%Y-%m-%d %H:%M:%S%z} {line}\n")

    def log_end(self) -> list[str]:
        """The last lines of train.log; none if there is no log."""
        if not os.path.lexists(self._log_path):
            return []
        with checkpoint.open_regular_file(self._log_path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_END))
            return file.read(LOG_END).decode(errors="replace").splitlines()

    def record(self, row: Mapping[str, Any]) -> None:
        """Append a row to metrics.jsonl."""
        line = json.dumps(row) + "\n"
        if len(line) >= MAX_LINE_BYTES:  # it could not be read again
            raise ValueError(f"a row of {self._metrics_path} is limited to {MAX_LINE_BYTES:,} bytes, got {len(line):,}")
        _append(self._metrics_path, line)

    def rows(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl, without an incomplete last line."""
        return [row for _, row in self.rows_from(0)]

    def rows_from(self, position: int) -> list[tuple[int, dict[str, Any]]]:
        """The complete rows of metrics.jsonl from a position in bytes on, each with the position after it."""
        rows: list[tuple[int, dict[str, Any]]] = []
        after = f" after byte {position:,}" if position else ""
        for number, line in enumerate(_lines(self._metrics_path, position), start=1):
            position += len(line)
            rows.append((position, checkpoint.parse_json(line, f"{self._metrics_path}:{number}{after}")))
        return rows

    def truncate_rows(self, rows: int) -> None:
        """Truncate metrics.jsonl to its first rows, whatever they contain."""
        if not os.path.lexists(self._metrics_path):
            size, count = 0, 0
        else:
            size, count = _size_of_lines(self._metrics_path, rows)
        if count < rows:
            raise RunError(f"{self._metrics_path}: expected {rows} complete lines, found {count}")
        if not self._metrics_path.is_file():
            return
        try:
            files.truncate(self._metrics_path, size)  # atomic
        except OSError as error:
            raise RunError(f"{self._metrics_path}: {os_error_message(error)}") from error

    def write_details(self, details: Mapping[str, Any]) -> None:
        """Write what is too long for metrics.jsonl: the details of the best evaluation."""
        text = json.dumps(details)
        if len(text) >= checkpoint.LIMITS["dev.json"]:
            text = json.dumps({name: _first_entries(value) for name, value in details.items()})
        self._replace(DETAILS, text + "\n")

    def details(self) -> dict[str, Any]:
        """The details of the best evaluation; empty if there are none."""
        return self._read_json(DETAILS)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write facts about the data and the training: sizes, baseline, how it ended."""
        self._replace(SUMMARY, json.dumps(summary) + "\n")

    def summary(self) -> dict[str, Any]:
        """What ``write_summary`` has written; empty for a run of an earlier version."""
        return self._read_json(SUMMARY)

    def card(self) -> str:
        """The model card; empty if there is none."""
        path = self.path / CARD
        return checkpoint.read_text(path) if os.path.lexists(path) else ""

    def write_card(self, text: str) -> None:
        """Write the model card, README.md."""
        self._replace(CARD, text)

    def _read_json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        return checkpoint.parse_json(checkpoint.read_text(path), path) if os.path.lexists(path) else {}

    def _replace(self, name: str, text: str) -> None:
        """Replace a file of the run at once: it holds the old or the new text, never a part."""
        path = self.path / name
        try:
            files.write(path, text, inside=self.path)
        except OSError as error:
            refused = error.filename if error.errno == errno.ELOOP else path
            raise RunError(f"{refused}: {os_error_message(error)}") from error

    @property
    def name(self) -> str:
        """The name of the folder, or of its parent if it is just called ``run``."""
        return self.path.resolve().parent.name if self.path.name == "run" else self.path.name

    @property
    def _log_path(self) -> Path:
        return self.path / "train.log"

    @property
    def _metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"

    def _folder(self, name: Name) -> Path:
        if name not in ("best", "last"):
            raise ValueError(f"checkpoint: expected best or last, got {name!r}")
        return self.path / name


def _append(path: Path, text: str) -> None:
    """Append a text completely; after an error the file is as before."""
    try:
        files.append(path, text.encode(errors="backslashreplace"))
    except OSError as error:
        raise RunError(f"{path}: {os_error_message(error)}") from error


def _size_of_lines(path: Path, count: int) -> tuple[int, int]:
    """The size in bytes of the first ``count`` complete lines of a file, and their number, which may be smaller."""
    size = lines = position = 0
    with checkpoint.open_regular_file(path) as file:
        while lines < count and (block := file.read(BLOCK_BYTES)):
            end = -1
            while lines < count and (end := block.find(b"\n", end + 1)) >= 0:
                size, lines = position + end + 1, lines + 1
            position += len(block)
    return size, lines


def _first_entries(value: Any, most: int = 1000) -> Any:
    """The first entries of a list or a dictionary."""
    if isinstance(value, dict):
        return dict(list(value.items())[:most])
    return value[:most] if isinstance(value, list) else value


def _lines(path: Path, position: int = 0) -> Iterator[bytes]:
    """The complete lines of a file from a position on, with their line ends; none if it does not exist."""
    if not os.path.lexists(path):
        return
    with checkpoint.open_regular_file(path) as file:
        if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
            raise RunError(f"{path}: larger than {MAX_FILE_BYTES:,} bytes")
        file.seek(position)
        while (line := file.readline(MAX_LINE_BYTES)).endswith(b"\n"):
            yield line
        if len(line) == MAX_LINE_BYTES:
            raise RunError(f"{path}: a line is longer than {MAX_LINE_BYTES:,} bytes")


LOCK_TRIES, LOCK_WAIT = 5, 0.02  # seconds


def _lock_soon(descriptor: int) -> bool:
    """Whether a lock was taken; one who asks whether a run is being trained holds it for a moment."""
    for _ in range(LOCK_TRIES):
        if _try_lock(descriptor):
            return True
        time.sleep(LOCK_WAIT)
    return False


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # so that the process number at the start stays readable
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True
else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


_lock_descriptors: set[int] = set()  # of the locks that this process holds


def _close_locks() -> None:
    """Release the locks in a forked child: it must not keep them if its parent is killed."""
    while _lock_descriptors:
        os.close(_lock_descriptors.pop())


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_close_locks)
