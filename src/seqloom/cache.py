"""The folder for files that can be made again: compiled kernels, lexica, names for shell completion."""

import os
import sys
from pathlib import Path


def cache_root() -> Path:
    """``SEQLOOM_CACHE``, or the user's cache folder."""
    if chosen := os.environ.get("SEQLOOM_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "seqloom"
