"""Names of binary file formats, by the first bytes of a file: what was given instead of text."""

import re

FORMATS = (
    (b"%PDF", "a PDF document; export its text"),
    (b"version https://git-lfs", "a pointer of Git LFS instead of the file; fetch it with git lfs pull"),
    (b"PK\x03\x04", "a zip archive or an Office document"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow or Feather file; save it as Parquet or CSV"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document (.xls, .doc); save it as .xlsx, .csv or text"),
    (b"SQLite format 3\0", "an SQLite database; export the table as CSV"),
    (b"\x89HDF\r\n", "an HDF5 file; export the table as CSV, or the arrays as .npz"),
    (b"\x93NUMPY", "a NumPy array (.npy)"),
    (b"MATLAB 5.0", "a MATLAB file; export the table as CSV, or the arrays as .npz"),
    (b"BZh", "a bzip2 file; decompress it, or compress it with gzip"),
    (b"\xfd7zXZ\0", "an xz file; decompress it, or compress it with gzip"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file; decompress it, or compress it with gzip"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive; unpack it"),
    (b"Rar!\x1a", "a RAR archive; unpack it"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"MThd", "a MIDI file"),
    (b"RIFF", "a WAV file or another RIFF file"),
    (b"fLaC", "a FLAC file"),
    (b"OggS", "an Ogg file"),
    (b"ID3", "an MP3 file"),
)
TEXT = (b"%PDF", b"version https://git-lfs")
"""Formats that may begin with nothing but text."""
PICKLE = re.compile(rb"\x80[\x02-\x05]")
CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f\x80-\xff]")  # what a text file in ASCII has not


def binary_format(start: bytes) -> str:
    """The format of a file that begins with these bytes, with a way to use it; empty: probably text."""
    if PICKLE.match(start):
        return "a Python pickle, which may contain code and is never loaded; save the table as CSV or Parquet"
    if start[257:262] == b"ustar":
        return "a tar archive; name the file in it: archive.tar/file"
    for magic, name in FORMATS:
        if start.startswith(magic) and (magic in TEXT or CONTROL.search(start)):
            return name
    return ""
