"""Which generated examples belong to which file: by a part of their content, so that no file shares it with another."""

import zlib


def belongs_to(split: str, content: str) -> bool:
    """Whether examples with this content are in train (80 %), dev (10 %) or test (10 %)."""
    tenth = zlib.crc32(content.encode()) % 10
    return split == ("dev" if tenth == 0 else "test" if tenth == 1 else "train")
