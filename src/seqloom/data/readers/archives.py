"""Archives as data: whether a path names several packed files, and which ones."""

import os.path
from pathlib import Path, PurePosixPath

from seqloom.data.readers.text_files import enclosing_archive, is_zip, open_archive

TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
ZIP_SUFFIX = ".zip"


def is_packed_folder(path: Path) -> bool:
    """Whether a path names an archive of several files, or a folder in an archive."""
    if not os.path.isfile(path):  # noqa: PTH113  accepts names of any length
        return _is_inner_folder(path)
    if path.suffix.lower() != ZIP_SUFFIX:
        return path.name.lower().endswith(TAR_SUFFIXES)
    if not is_zip(path):
        return False
    with open_archive(path) as members:
        return sum(1 for _ in members) != 1  # a single file is read as if it were not in an archive


def _is_inner_folder(path: Path) -> bool:
    archive = enclosing_archive(path)
    if archive is None:
        return False
    name = path.relative_to(archive).as_posix()
    with open_archive(archive) as members:  # only as far as needed: a compressed tar archive is slow to read
        files = (member.name for member in members if member.is_file)
        first = next((file for file in files if file == name or file.startswith(f"{name}/")), name)
    return first != name


def file_names(folder: Path) -> list[str]:
    """The files in an archive, or in a folder of one, relative to it and in order, without hidden ones."""
    archive = folder if folder.is_file() else enclosing_archive(folder)
    if archive is None:
        return []
    prefix = "" if archive == folder else f"{folder.relative_to(archive).as_posix()}/"
    with open_archive(archive) as members:
        names = [member.name for member in members if member.is_file and member.name.startswith(prefix)]
    paths = [PurePosixPath(name.removeprefix(prefix)) for name in names]
    visible = (path for path in paths if not any(part.startswith(".") for part in path.parts))
    return [str(path) for path in sorted(visible)]
