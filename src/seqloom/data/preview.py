"""A first look at training data: their first examples and how many there are, without reading all of them."""

import os
import tarfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from seqloom.data.readers.text_files import Source, enclosing_archive, expand, open_binary

HEAD = 1000  # examples that are read
BLOCK = 1 << 20  # bytes


class DataPreview(NamedTuple):
    """The first examples, and the number of all."""

    head: tuple[Any, ...]
    examples: int  # estimated from the size of the file where there are more than in ``head``

    @property
    def mean_length(self) -> float:
        """The mean length of the first examples."""
        return sum(map(len, self.head)) / max(len(self.head), 1)


def preview(read: Callable[[], Iterator[Any]], source: Source, *, limit: int = HEAD) -> DataPreview:
    """The first ``limit`` examples of a source and an estimate of their number; ``read`` reads it from the start."""
    examples = read()
    head = tuple(islice(examples, limit))
    if len(head) < limit:
        return DataPreview(head, len(head))
    estimate = _estimate(head, source) if isinstance(source, Path) else None
    return DataPreview(head, estimate or len(head) + sum(1 for _ in examples))


def _estimate(head: tuple[Any, ...], source: Path) -> int | None:
    """The number of examples as the lines or the files of a source show; None: they have to be counted."""
    file, line = head[-1].location
    source = expand(source)[0]
    if file == str(source) and not source.is_dir() and not _is_archive(source):
        lines = _count_lines(source)
        return round(len(head) * lines / line) if lines >= line else None
    suffix = Path(getattr(head[-1], "name", "") or file).suffix
    if file == str(source):
        return _count_files(source, suffix) or None
    if source.is_dir() and Path(file).parent.is_dir():  # a file for each label, an example on each line
        return sum(map(_count_lines, source.rglob(f"*{suffix}"))) or None
    return None


def _is_archive(path: Path) -> bool:
    return os.path.isfile(path) and tarfile.is_tarfile(path)  # noqa: PTH113  accepts names of any length


def _count_lines(path: Path) -> int:
    """The number of lines of a text file; that of a binary file means nothing."""
    with open_binary(path, str(path)) as stream:
        count, last = 0, b"\n"
        for block in iter(lambda: stream.read(BLOCK), b""):
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n")


def _count_files(folder: Path, suffix: str) -> int:
    """The number of files with this suffix in a folder, an archive, or a folder in one."""
    if folder.is_dir():
        return sum(1 for _ in folder.rglob(f"*{suffix}"))
    archive = folder if folder.is_file() else enclosing_archive(folder)
    if archive is None:
        return 0
    with tarfile.open(archive) as tar:
        return sum(name.endswith(suffix) for name in tar.getnames())
