"""A first look at training data: their first examples and how many there are, without reading all of them."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from seqloom.data.readers import archives
from seqloom.data.readers.text_files import Source, expand, open_binary

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
    if file == str(source) and not source.is_dir() and not archives.is_packed_folder(source):
        lines = _count_lines(source)
        return round(len(head) * lines / line) if lines >= line else None
    files = [getattr(example, "name", "") or example.location.file for example in head]
    if len(set(files)) == len(files) > 1 and (source.is_dir() or archives.is_packed_folder(source)):  # a file for each
        return len(_file_names(source, tuple({Path(file).suffix for file in files}))) or None
    if file == str(source):
        return len(_file_names(source, (Path(files[-1]).suffix,))) or None
    if source.is_dir() and Path(file).parent.is_dir():  # a file for each label, an example on each line
        return sum(_count_lines(source / name) for name in _file_names(source, (Path(file).suffix,))) or None
    return None


def _count_lines(path: Path) -> int:
    """The number of lines of a text file; that of a binary file means nothing."""
    with open_binary(path, str(path)) as stream:
        count, last = 0, b"\n"
        for block in iter(lambda: stream.read(BLOCK), b""):
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n")


def _file_names(folder: Path, suffixes: tuple[str, ...]) -> list[str]:
    """The files with these suffixes in a folder, an archive, or a folder in one, without hidden ones.

    None of them if one suffix is empty: it may be that of a folder, such as one with the frames of a video.
    """
    if not all(suffixes):
        return []
    if not folder.is_dir():
        return [name for name in archives.file_names(folder) if name.endswith(suffixes)]
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.name.endswith(suffixes))
    return [str(path) for path in paths if not any(part.startswith(".") for part in path.parts)]
