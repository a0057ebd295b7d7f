"""Folders for files that can be made again: compiled kernels, lexica, names for shell completion.

What is cached may be executed, so a folder is used only if nobody else can write to it, and every entry carries a
digest under a key that only its user can read. An entry that is damaged or of other origin counts as missing.
"""

import errno
import hmac
import os
import secrets
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from seqloom import files

KEY_BYTES: Final = 32
DIGEST_BYTES: Final = 32
MAX_FILES: Final = 2000
"""Entries of a folder; the least recently used are removed."""


def cache_root() -> Path:
    """``SEQLOOM_CACHE``, or the user's cache folder, or one in the temporary folder for a user without a home."""
    if chosen := os.environ.get("SEQLOOM_CACHE"):
        return Path(chosen)
    try:
        if sys.platform == "win32":
            root = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            root = Path.home() / "Library" / "Caches"
        else:
            root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # the user has no home
        return Path(tempfile.gettempdir()) / f"seqloom-{_user()}"
    return root / "seqloom"


class CacheFolder:
    """A folder of the cache; where it cannot be used, nothing is cached, and one warning per process says why."""

    def __init__(self, name: str, *, quiet: bool = False) -> None:
        self.name, self.quiet = name, quiet

    @property
    def path(self) -> Path:
        return cache_root() / self.name

    def open(self) -> Path | None:
        """The folder, private to its user, created if needed; None if that is impossible."""
        try:
            return _private_folder(self.path)
        except OSError as error:
            self._warn(error)
            return None

    def read(self, entry: str) -> bytes | None:
        """The content of an entry; None if it is missing, damaged, or not written by this user."""
        try:
            folder = _private_folder(self.path)
            content = _read_regular_file(folder / entry)
            key = _key(folder)
        except OSError:
            return None
        with suppress(OSError):
            os.utime(folder / entry)  # for _remove_oldest
        digest = _digest(key, entry, content[DIGEST_BYTES:])
        return content[DIGEST_BYTES:] if hmac.compare_digest(digest, content[:DIGEST_BYTES]) else None

    def write(self, entry: str, content: bytes) -> None:
        """Write an entry, if possible."""
        try:
            folder = _private_folder(self.path)
            _remove_special_file(folder / entry)
            with files.replacing(folder / entry, durable=False) as file:
                file.write(_digest(_key(folder), entry, content) + content)
            _remove_oldest(folder, Path(entry).suffix)
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not (self.quiet or _warned):
            _warned.add(self.name)
            with suppress(OSError):  # nobody reads it
                sys.stderr.write(
                    f"warning: {self.path}: cannot be used as a cache: {files.os_error_message(error)}; kernels are "
                    "compiled again in each process unless SEQLOOM_CACHE names a folder of your own\n"
                )


_warned: set[str] = set()
"""Folders of which a warning has been printed."""


def _user() -> int:
    return os.getuid() if sys.platform != "win32" else 0


def _private_folder(path: Path) -> Path:
    """Create a folder that only its user can enter; OSError if it exists and belongs to someone else."""
    with suppress(FileExistsError):
        path.parent.mkdir(mode=0o700, parents=True)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.ENOTDIR, "expected a folder, found a link or a file", str(path))
    if sys.platform == "win32":  # folders of a user are private by their access control lists
        return path
    if status.st_uid != _user():
        raise OSError(errno.EPERM, "the folder belongs to another user", str(path))
    if stat.S_IMODE(status.st_mode) != 0o700:
        path.chmod(0o700)
        if status.st_mode & 0o022:  # others could write: with another key, whatever they left counts as missing
            (path / ".key").unlink(missing_ok=True)
    return path


def _key(folder: Path) -> bytes:
    """The key of a folder; a new one if there is none that only its user can read."""
    path = folder / ".key"
    with suppress(OSError):
        status = path.lstat()
        private = sys.platform == "win32" or (status.st_uid == _user() and not status.st_mode & 0o077)
        key = _read_regular_file(path)
        if private and len(key) == KEY_BYTES:
            return key
    with suppress(FileNotFoundError):
        path.unlink()
    with files.replacing(path, mode=0o600) as file:
        file.write(secrets.token_bytes(KEY_BYTES))
    return _read_regular_file(path)


def _read_regular_file(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | files.OPEN_FLAGS), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "expected a regular file", str(path))
        return file.read()


def _remove_special_file(path: Path) -> None:
    """Make room for an entry where there is a link or a pipe."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            path.unlink()


def _digest(key: bytes, entry: str, content: bytes) -> bytes:
    return hmac.digest(key, entry.encode() + b"\0" + content, "sha256")


def _remove_oldest(folder: Path, suffix: str) -> None:
    entries = list(folder.glob(f"*{suffix}"))
    if len(entries) > MAX_FILES:
        entries.sort(key=lambda path: path.stat().st_mtime)
        for entry in entries[: -MAX_FILES // 2]:
            entry.unlink(missing_ok=True)
