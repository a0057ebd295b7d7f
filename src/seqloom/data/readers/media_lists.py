"""Lists and folders of sound, images and videos."""

import os.path
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from seqloom.data.readers import file_lists, media, pixels, tables, videos
from seqloom.data.readers.media import MediaDecoder, Signal
from seqloom.data.readers.text_files import Location, pluralize

SUFFIXES = tuple(suffix for suffix in media.SUFFIXES if suffix != ".npz")  # which may hold many sequences
HEAD = 20  # names that show whether a column lists files


@dataclass(frozen=True)
class MediaFiles:
    """Loads the files that a list names."""

    decoder: MediaDecoder = field(default_factory=MediaDecoder)
    folder: str = ""  # folder, archive, or folder in one; empty: the folder of the list
    key: str = "folder"  # configuration key of that folder

    def load(self, names: Sequence[tuple[Location, str]], folder: Path) -> Iterator[Signal]:
        """The content of each file, in the order of the list."""
        return file_lists.load(
            names,
            self.decoder.decode,
            folder=folder,
            files=self.folder,
            key=self.key,
            suffixes=SUFFIXES,
            read_folder=self.decoder.read_folder,
        )

    def locate(self, names: Sequence[tuple[Location, str]], folder: Path) -> list[Path]:
        """The files that ``load`` opens."""
        return file_lists.existing_files(file_lists.locate(names, folder=folder, files=self.folder, suffixes=SUFFIXES))


def is_media(path: Path) -> bool:
    """Whether a file holds sound, an image, a video or frames, or a folder the frames of a video."""
    if path.suffix.lower() in SUFFIXES:
        return True
    return os.path.isdir(path) and bool(videos.frame_files(path))  # noqa: PTH112  accepts names of any length


def items(folder: Path) -> Iterator[Path]:
    """The files of a folder and its subfolders, in order; a subfolder of images is one item, a video."""
    for path in sorted(path for path in folder.iterdir() if not path.name.startswith(".")):
        if path.is_dir() and not is_media(path):
            yield from items(path)
        else:
            yield path


def file_column(table: tables.Table, folder: Path) -> int | None:
    """The first column whose values name sound, images or videos; None: there is none."""
    for index in range(table.width):
        names = [str(value).strip() for value in table.column(index)[:HEAD]]
        if names and all(name and is_media(folder / name) for name in names):
            return index
    return None


def describe_items(paths: Sequence[Path]) -> str:
    """What the items of a folder are, such as "60 videos, one per folder of frames"."""
    if paths[0].is_dir():
        return f"{pluralize(len(paths), 'video')}, one per folder of frames"
    suffixes = {path.suffix.lower() for path in paths}
    kinds = (("image", pixels.SUFFIXES), ("video", videos.SUFFIXES))
    noun = next((noun for noun, known in kinds if suffixes <= set(known)), "recording")
    return f"{pluralize(len(paths), noun)}, one per file"
