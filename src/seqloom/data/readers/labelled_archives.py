"""Archives with a folder for each label, which holds its recordings, images or texts."""

from pathlib import Path, PurePosixPath
from typing import NamedTuple

from seqloom.data.readers import archives, pixels
from seqloom.data.readers.media_lists import SUFFIXES
from seqloom.data.readers.text_files import DataError, pluralize

TEXT_SUFFIX = ".txt"


class PackedFile(NamedTuple):
    """A file in an archive."""

    name: str  # in the archive, or in the folder of it that was named
    label: str | None  # None: it is in no folder

    @property
    def is_text(self) -> bool:
        return self.name.lower().endswith(TEXT_SUFFIX)


def list_archive(source: Path) -> tuple[list[PackedFile], list[str]]:
    """The recordings and images in the folders of an archive, or else the texts; without folders, all recordings.

    All folders of labels may be in one folder, such as one with the name of the archive. Second, the files that are
    not read.
    """
    paths = [PurePosixPath(name) for name in archives.file_names(source)]
    outer = len({path.parts[0] for path in paths}) == 1 and any(len(path.parts) > 2 for path in paths)
    files = [PackedFile(str(path), path.parts[outer] if len(path.parts) > 1 + outer else None) for path in paths]
    media = [file for file in files if Path(file.name).suffix.lower() in SUFFIXES]
    labelled = [file for file in media or files if file.label is not None and (media or file.is_text)]
    if not media and not labelled:
        example = f", for example {source / str(paths[0])}" if paths else ""
        raise DataError(
            str(source),
            f"found an archive of {pluralize(len(paths), 'file')} without recordings, images or texts in a folder for "
            f"each label: unpack it, or name a file in it{example}",
        )
    for path in map(PurePosixPath, (file.name for file in labelled)):
        if len(path.parts) > 2 + outer and path.suffix.lower() in pixels.SUFFIXES:
            raise DataError(
                str(source / path), "a video as a folder of frames cannot be read from an archive: unpack the archive"
            )
    read = labelled or media
    names = {file.name for file in read}
    return read, [file.name for file in files if file.name not in names]
