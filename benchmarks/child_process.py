"""Measurements that need a process of their own, such as peak memory and the time of a first import."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
"""Working directory of child processes: from here they can import ``benchmarks``."""


def run(program: str, *arguments: object, cache_folder: str | None = None) -> float:
    """Run Python code in a child process and return the number it prints."""
    environment = dict(os.environ) | ({"SEQLOOM_CACHE": cache_folder} if cache_folder else {})
    command = [sys.executable, "-c", program, *map(str, arguments)]
    child = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=ROOT)  # noqa: S603
    return float(child.stdout)
