"""Run a trial in its own process: its peak memory is its own, and a crash does not end the comparison."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

import seqloom
from seqloom.comparison.trial import results_path
from seqloom.interrupt import Interrupted, interruptible
from seqloom.run_config import Config

POLL_SECONDS = 0.05
"""Time between two checks for Ctrl-C."""


def run_trial_in_subprocess(config: Config, folder: Path) -> dict[str, Any]:
    """The results of ``run_trial``, or ``{"error": …}`` if it failed; Interrupted after Ctrl-C, once it has saved."""
    results_path(folder).unlink(missing_ok=True)
    sources = str(Path(seqloom.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [sources, os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-P", "-m", "seqloom.comparison", str(folder)]
    # The trial gets its own process group: Ctrl-C reaches only this process, which forwards it exactly once.
    with (
        interruptible() as interrupted,
        subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=2,  # standard output is for the table
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"},
            process_group=0,
        ) as process,
    ):
        try:
            forwarded = False
            with suppress(BrokenPipeError), cast(IO[str], process.stdin) as stdin:
                stdin.write(config.text())
            while process.poll() is None:
                if interrupted() and not forwarded:
                    process.send_signal(signal.SIGINT)
                    forwarded = True
                with suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_SECONDS)
        except BaseException:
            process.kill()
            raise
    if forwarded or process.returncode == 130:
        raise Interrupted(folder)
    try:
        results: dict[str, Any] = json.loads(results_path(folder).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"error": _describe_exit(process.returncode)}
    return results


def _describe_exit(code: int) -> str:
    """How a process ended that has written no results."""
    if code == -signal.SIGKILL:
        return "the process was killed, probably because memory ran out"
    return f"the process ended with {f'signal {-code}' if code < 0 else f'exit code {code}; see its last output'}"
