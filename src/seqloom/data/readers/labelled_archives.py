"""Archives with a folder for each label, which holds its recordings, images or texts."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from seqloom.data.readers import archives, pixels
from seqloom.data.readers.labelled_formats import check_label_folders
from seqloom.data.readers.media_lists import SUFFIXES
from seqloom.data.readers.text_files import DataError, pluralize

TEXT_SUFFIX = ".txt"


class PackedFile(NamedTuple):
    """A file in an archive."""

    path: PurePosixPath  # in the archive, or in the folder of it that was named
    folder: PurePosixPath | None  # with the files of its label; None: it is in no folder

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def label(self) -> str | None:
        return None if self.folder is None else self.folder.name

    @property
    def is_text(self) -> bool:
        return self.name.lower().endswith(TEXT_SUFFIX)


def list_archive(source: Path) -> tuple[list[PackedFile], list[str]]:
    """The recordings and images in folders of labels, or else the texts; without folders, all recordings and images.

    The folders of labels may be in another one, such as one with the name of the archive, beside which notes may lie.
    Second, the files that are not read.
    """
    paths = [PurePosixPath(name) for name in archives.file_names(source)]
    media = [path for path in paths if path.suffix.lower() in SUFFIXES]
    texts = [path for path in paths if path.suffix.lower() == TEXT_SUFFIX]
    labelled = [_in_label_folders(media), _in_label_folders(texts)]
    several = [files for files in labelled if len({file.folder for file in files}) > 1]  # not a picture beside texts
    files = next(filter(None, (*several, *labelled)), [PackedFile(path, None) for path in media])
    if not files:
        example = f", for example {source / str(paths[0])}" if paths else ""
        raise DataError(
            str(source),
            f"found an archive of {pluralize(len(paths), 'file')} without recordings, images or texts in a folder for "
            f"each label: unpack it, or name a file in it{example}",
        )
    folders = {file.folder for file in files if file.folder is not None}
    for outer in {folder.parent for folder in folders}:
        check_label_folders(source / outer, [folder.name for folder in folders])
    for path, folder in files:
        if folder not in (None, path.parent) and path.suffix.lower() in pixels.SUFFIXES:
            raise DataError(
                str(source / path), "a video as a folder of frames cannot be read from an archive: unpack the archive"
            )
    names = {file.name for file in files}
    return files, [str(path) for path in paths if str(path) not in names]


def _in_label_folders(paths: Sequence[PurePosixPath]) -> list[PackedFile]:
    """The files that are in folders of labels; others lie beside these."""
    outer = _outer_folders(paths)
    inner = (path for path in paths if len(path.parts) > 1 + outer)
    return [PackedFile(path, PurePosixPath(*path.parts[: 1 + outer])) for path in inner]


def _outer_folders(paths: Sequence[PurePosixPath]) -> int:
    """How many folders are around those of the labels: each of them is the only one with files, and holds others."""
    outer = 0
    while True:
        inner = [path.parts for path in paths if len(path.parts) > 1 + outer]
        if len({parts[outer] for parts in inner}) != 1 or max(map(len, inner)) == 2 + outer:
            return outer
        outer += 1
