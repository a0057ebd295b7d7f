"""Files inside of a tar archive, named as if the archive were a folder: ``train.tar.gz/train/ady_train.tsv``."""

import os.path
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import IO


def archive(path: Path) -> Path | None:
    """The file that a path goes through, as if it were a folder; nothing where there is none."""
    return next((parent for parent in path.parents if os.path.isfile(parent)), None)  # noqa: PTH113  no name is too long for it


@contextmanager
def member(path: Path, outside: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file in the archive ``outside``; FileNotFoundError with the nearest name where it is not there."""
    name = path.relative_to(outside).as_posix()
    with tarfile.open(outside) as found:
        names = {entry.name.removeprefix("./"): entry for entry in found if entry.isreg()}
        if name not in names:
            near = "".join(f"; did you mean {outside / other}?" for other in get_close_matches(name, names, n=1))
            raise FileNotFoundError(f"there is no such file in the archive{near}")
        stream = found.extractfile(names[name])
        assert stream is not None  # noqa: S101  it is a regular file
        with stream:
            yield stream
