"""A trial in a process of its own: its peak of memory is true, and what kills it kills nothing else."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

import seqloom
from seqloom.compare.trial import beside
from seqloom.interrupt import Interrupted, interruptible
from seqloom.run_config import Config

LOOK = 0.05
"""Seconds between two looks whether Ctrl-C was pressed."""


def measure(config: Config, folder: Path) -> dict[str, Any]:
    """What a trial measured, or why it failed; Interrupted once a training that was asked to stop has saved."""
    beside(folder).unlink(missing_ok=True)
    sources = str(Path(seqloom.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [sources, os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-P", "-m", "seqloom.compare", str(folder)]
    # In a group of its own: Ctrl-C comes here, and is handed on once, whoever sent it.
    with (
        interruptible() as interrupted,
        subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=2,  # results alone go to standard output
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"},
            process_group=0,
        ) as process,
    ):
        try:
            told = False
            with suppress(BrokenPipeError), cast(IO[str], process.stdin) as given:
                given.write(config.text())
            while process.poll() is None:
                if interrupted() and not told:
                    process.send_signal(signal.SIGINT)
                    told = True
                with suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK)
        except BaseException:
            process.kill()
            raise
    if told or process.returncode == 130:
        raise Interrupted(folder)
    try:
        found: dict[str, Any] = json.loads(beside(folder).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"failed": _end(process.returncode)}
    return found


def _end(code: int) -> str:
    """How a process ended that left nothing behind."""
    if code == -signal.SIGKILL:
        return "it was killed; most often there was not enough memory"
    return f"it ended by signal {-code}" if code < 0 else f"it ended with exit code {code}; see its last lines"
