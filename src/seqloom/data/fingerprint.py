"""Hashes of the files that training reads: of every byte, and remembered so that a large file is hashed once."""

import hashlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

from seqloom.cache import CacheFolder
from seqloom.data.readers.text_files import enclosing_archive, expand, resolve

CACHED_BYTES = 1 << 18
"""Smaller files are hashed faster than they are looked up."""
CACHE_ENTRIES = 50_000
ENTRY = "files.json"
SETTLED_SECONDS = 2.0
"""A file changed just now may change again within one tick of the clock of its folder, and is not remembered."""


def fingerprint(text: str) -> str:
    """A hash of the files, or of the folder of files, that a text names; it changes when their content does."""
    digest = hashlib.sha256()
    for path in expand(resolve(text)):
        whole = enclosing_archive(path) or path
        files = [file for file in sorted(whole.rglob("*")) if file.is_file()] if whole.is_dir() else [whole]
        names = [file.relative_to(whole).as_posix() if whole.is_dir() else "" for file in files]
        for name, content in zip(names, hash_files(files), strict=True):
            digest.update(f"{name} {content} ".encode())
    return digest.hexdigest()


def fingerprint_files(files: Iterable[Path]) -> str:
    """A hash of the content of listed files, in their order."""
    return hashlib.sha256(" ".join(hash_files(files)).encode()).hexdigest()


def hash_files(files: Iterable[Path]) -> list[str]:
    """The SHA-256 of each file; that of a large file is taken from the cache while its times and size are the same."""
    cache = _read_cache()
    hashes, known = [], len(cache)
    for file in files:
        status = file.stat()
        # The time of the last change of any kind cannot be set back, as rsync and touch set back the other one.
        state = f"{status.st_mtime_ns} {status.st_ctime_ns} {status.st_size} {status.st_ino}"
        key = os.path.abspath(file)  # noqa: PTH100  links are not resolved: their files have times of their own
        before, _, value = cache.get(key, "").rpartition(" ")
        if before != state:
            value = _hash(file)
            if status.st_size >= CACHED_BYTES and time.time() - status.st_mtime > SETTLED_SECONDS:
                cache.pop(key, None)
                cache[key] = f"{state} {value}"
                known = -1
        hashes.append(value)
    if known != len(cache):
        _write_cache(dict(list(cache.items())[-CACHE_ENTRIES:]))
    return hashes


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read_cache() -> dict[str, str]:
    """The remembered hashes; none if they are missing or damaged."""
    entries = json.loads(_folder.read(ENTRY) or b"{}")
    return entries if isinstance(entries, dict) else {}


def _write_cache(entries: dict[str, str]) -> None:
    _folder.write(ENTRY, json.dumps(entries).encode())


_folder = CacheFolder("hashes", quiet=True)  # without a cache, files are hashed again
