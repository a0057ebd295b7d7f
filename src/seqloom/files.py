"""All writing of files: complete or not at all, and never through a link.

A file is written beside its target and then renamed, so that an error, a full disk or a kill leaves the old one intact.
A target that is a link or a special file is refused: in a folder of untrusted origin it could name any file of the
user.
"""

import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

# Do not follow symbolic links, and do not block on pipes.
OPEN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def os_error_message(error: OSError) -> str:
    """What went wrong, without the file name."""
    return error.strerror or str(error)


def refuse_existing(path: Path) -> None:
    """Raise ValueError if data are to be written to a file that exists: data are never overwritten."""
    if os.path.lexists(path):
        raise ValueError(f"{path}: already exists, and data are never overwritten: choose another name, or remove it")


def write(path: Path, data: str | bytes, *, inside: Path | None = None) -> None:
    """Write a file, creating its folder if needed; see ``replacing``."""
    with replacing(path, inside=inside) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def refuse_input(output: Path, source: str) -> None:
    """Raise ValueError if a file to be written is the one that is read."""
    if source and output.exists() and Path(source).exists() and output.samefile(source):
        raise ValueError(f"{output}: is the file that is read, and would be overwritten: choose another --output")


@contextmanager
def replacing(
    path: Path,
    *,
    inside: Path | None = None,  # no folder between this one and the file may be a link
    durable: bool = True,  # flush to the disk; False for what can be made again
    mode: int = 0o666,  # permissions of a new file, less the umask
) -> Iterator[IO[bytes]]:
    """A file that takes the place of ``path`` after the block; if the block fails, nothing has changed."""
    with replacement(path, inside=inside) as partial, os.fdopen(_create(partial, mode), "wb") as file:
        yield file
        file.flush()
        if durable:
            os.fsync(file.fileno())


@contextmanager
def replacement(path: Path, *, inside: Path | None = None) -> Iterator[Path]:
    """A new path beside ``path`` for a file that takes its place after the block."""
    if inside is not None:
        refuse_linked_folders(path, inside=inside)
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = _replaceable_mode(path)
    partial = path.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        yield partial
        if mode is not None:
            partial.chmod(mode)
        partial.replace(path)
    except BaseException as error:
        with suppress(OSError):  # the first error is reported
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, str(partial)):
            error.filename = str(path)
        raise


def create(path: Path, data: bytes) -> None:
    """Write a file that does not exist yet, and flush it to the disk."""
    descriptor = _create(path)
    try:
        _write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append(path: Path, data: bytes) -> None:
    """Append to a file, or create it; after an error it is as before."""
    descriptor = open_own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        size = os.fstat(descriptor).st_size
        try:
            _write_all(descriptor, data)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def truncate(path: Path, size: int) -> None:
    """Cut a file to its first bytes, and flush it to the disk."""
    descriptor = open_own(path, os.O_RDWR)
    try:
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_own(path: Path, flags: int, mode: int = 0o666) -> int:
    """A descriptor of a regular file that is to be changed in place, and that has no other name."""
    descriptor = os.open(path, flags | OPEN_FLAGS, mode)
    status = os.fstat(descriptor)
    problem = (
        "expected a regular file, found a special file"
        if not stat.S_ISREG(status.st_mode)
        else f"has {status.st_nlink} hard links, and all of them would change: copy the folder with its files"
        if status.st_nlink > 1
        else ""
    )
    if problem:
        os.close(descriptor)
        raise OSError(errno.EMLINK, problem, str(path))
    return descriptor


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    if sys.platform == "win32" and path.is_dir():  # not supported there
        return
    descriptor = os.open(path, os.O_RDWR | OPEN_FLAGS if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _create(path: Path, mode: int = 0o666) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN_FLAGS, mode)


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes; ``os.write`` may write fewer."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _replaceable_mode(path: Path) -> int | None:
    """The permissions of a file that may be replaced, or None if it does not exist."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        kind = "link" if stat.S_ISLNK(status.st_mode) else "folder" if stat.S_ISDIR(status.st_mode) else "special file"
        raise OSError(errno.ELOOP, f"expected a regular file, found a {kind}", str(path))
    if not os.access(path, os.W_OK):  # renaming would replace a write-protected file
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return stat.S_IMODE(status.st_mode) & 0o777


def refuse_linked_folders(path: Path, *, inside: Path) -> None:
    """Raise OSError if a folder between ``inside`` and a file is a link, or leads out of it."""
    folder = inside
    for part in path.relative_to(inside).parts[:-1]:
        folder /= part
        if part == ".." or folder.is_symlink():
            raise OSError(errno.ELOOP, "expected a folder, found a link", str(folder))
