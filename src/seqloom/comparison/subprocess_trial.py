"""Run a trial in its own process: its peak memory is its own, and a crash does not end the comparison."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

import seqloom
from seqloom.comparison.trial import FAILURES, results_path, run_trial, trial_error, write_json
from seqloom.comparison.variants import VariantLayer
from seqloom.interrupt import Interrupted, interruptible
from seqloom.run_config import Config
from seqloom.training_data import FILES_ONLY, Sources

POLL_SECONDS = 0.05
"""Time between two checks for Ctrl-C."""

END_OF_CONFIG = "\0\n"
"""The line after the configuration that a trial reads."""


def run_trial_in_subprocess(
    config: Config,
    folder: Path,
    *,
    layer: VariantLayer | None = None,
    show_warnings: bool = True,  # about the data; False: an earlier trial has shown them
    watch: Callable[[], bool] = lambda: False,  # called again and again; True stops the trial once it has saved
    brief: bool = False,  # print nothing, and do not predict the development data once more
) -> dict[str, Any]:
    """The results of ``run_trial``, or ``{"error": …}`` if it failed; Interrupted after Ctrl-C, once it has saved.

    A custom layer that no other process can import, such as one of a notebook, is trained in this one.
    """
    results_path(folder).unlink(missing_ok=True)
    if layer and not layer.name:
        return run_trial_here(config, folder, layer=layer, brief=brief)
    sources = str(Path(seqloom.__file__).parent.parent)
    own_path = sys.path if layer else []  # where this process has imported the layer from
    path = os.pathsep.join(filter(None, [sources, os.environ.get("PYTHONPATH", ""), *own_path]))
    options = ["--brief"] * brief + ["--no-warnings"] * (not show_warnings)
    options += [f"--layer={layer.name}" for layer in (layer,) if layer]
    command = [sys.executable, "-P", "-m", "seqloom.comparison", str(folder), *options]
    # The trial gets its own process group: Ctrl-C reaches only this process, which forwards it exactly once.
    # Standard input stays open as long as this process lives: its end stops the trial.
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
            stopping = False
            stdin = cast(IO[str], process.stdin)
            with suppress(BrokenPipeError):
                stdin.write(f"{config.text()}\n{END_OF_CONFIG}")
                stdin.flush()
            while process.poll() is None:
                if not stopping and (interrupted() or watch()):
                    _stop(process)
                    stopping = True
                with suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_SECONDS)
        except BaseException:
            process.kill()
            raise
        finally:
            with suppress(BrokenPipeError):
                stdin.close()
    if interrupted() or (process.returncode == 130 and not stopping):
        raise Interrupted(folder)
    try:
        results: dict[str, Any] = json.loads(results_path(folder).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"error": _describe_exit(process.returncode)}
    return results


def run_trial_here(
    config: Config,
    folder: Path,
    *,
    layer: VariantLayer | None = None,
    show_warnings: bool = True,  # noqa: ARG001  as in a process of its own, where listeners show them
    brief: bool = False,
    sources: Sources = FILES_ONLY,  # data in memory
) -> dict[str, Any]:
    """Run a trial in this process, whose memory says nothing about the trial."""
    results_path(folder).unlink(missing_ok=True)
    factory = layer.factory if layer else None
    try:
        results = run_trial(config, folder, layer=factory, brief=brief, sources=sources) | {"memory_mb": None}
    except FAILURES as error:
        results = trial_error(error)
    write_json(results_path(folder), results)
    return results


def _stop(process: "subprocess.Popen[str]") -> None:
    """Let a trial save and end."""
    if sys.platform == "win32":  # has no signals for other processes
        cast(IO[str], process.stdin).close()
    else:
        process.send_signal(signal.SIGINT)


def _describe_exit(code: int) -> str:
    """How a process ended that has written no results."""
    if code == -signal.SIGKILL:
        return "the process was killed, probably because memory ran out"
    return f"the process ended with {f'signal {-code}' if code < 0 else f'exit code {code}; see its last output'}"
