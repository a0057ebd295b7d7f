"""The files in tar and zip archives, in their order."""

import os.path
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from seqloom.data.readers.expansion import ExpansionError, check_expansion, limit_expansion
from seqloom.data.readers.text_files import DataError, describe_damage, enclosing_archive, is_zip, zip_members

TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
ZIP_SUFFIX = ".zip"


class Member(NamedTuple):
    """A file or a folder in an archive."""

    name: str
    is_file: bool
    open: Callable[[], IO[bytes]]
    """To be called before the next member is read."""


def members(archive: Path) -> Iterator[Member]:
    """What an archive holds; its errors have to be reported by ``reporting_damage``."""
    if is_zip(archive):
        with zipfile.ZipFile(archive) as zipped:
            for name in zip_members(zipped):
                yield Member(name, is_file=True, open=partial(_open_zipped, zipped, name))
        return
    with tarfile.open(archive) as tar:
        for entry in tar:
            opened = partial(_open_tarred, tar, entry, archive)
            yield Member(entry.name.removeprefix("./"), is_file=entry.isreg(), open=opened)


def _open_zipped(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    return limit_expansion(archive.open(name), compressed=archive.getinfo(name).compress_size)


def _open_tarred(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> IO[bytes]:
    check_expansion(path.stat().st_size, entry.size)
    stream = archive.extractfile(entry)
    assert stream is not None  # noqa: S101  it is a regular file
    return stream


@contextmanager
def reporting_damage(archive: Path) -> Iterator[None]:
    """In this context, an archive that cannot be read is a DataError."""
    try:
        yield
    except ExpansionError as error:
        raise DataError(str(archive), str(error)) from None
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DataError(str(archive), f"not a tar or zip archive, or damaged ({describe_damage(error)})") from None
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise DataError(str(archive), f"the zip archive is damaged, encrypted or unsupported ({error})") from None


def holds_folder(path: Path) -> bool:
    """Whether a path names an archive of several files, or a folder in an archive."""
    if not os.path.isfile(path):  # noqa: PTH113  accepts names of any length
        return not path.suffix and bool(file_names(path))
    if path.suffix.lower() == ZIP_SUFFIX:
        with reporting_damage(path):
            if not is_zip(path):
                return False
            with zipfile.ZipFile(path) as zipped:
                return len(zip_members(zipped)) != 1  # a single file is read as if it were not in an archive
    return path.name.lower().endswith(TAR_SUFFIXES)


def file_names(folder: Path) -> list[str]:
    """The files in an archive, or in a folder of one, relative to it and in order, without hidden ones."""
    archive = folder if folder.is_file() else enclosing_archive(folder)
    if archive is None:
        return []
    prefix = "" if archive == folder else f"{folder.relative_to(archive).as_posix()}/"
    with reporting_damage(archive):
        names = [member.name for member in members(archive) if member.is_file and member.name.startswith(prefix)]
    paths = [PurePosixPath(name.removeprefix(prefix)) for name in names]
    visible = (path for path in paths if not any(part.startswith(".") for part in path.parts))
    return [str(path) for path in sorted(visible)]
