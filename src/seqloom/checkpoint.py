"""Folders that vouch for each of their bytes, and checkpoints: such folders, of which one is whole at every instant."""

import hashlib
import io
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

FORMAT = 1
"""Of all files of a run. A manifest of a higher number is refused; how a manifest is closed stays the same for ever."""

MANIFEST = "manifest.json"
FILES = ("model.safetensors", "training.safetensors", "training.json")
"""What a checkpoint consists of, beside its manifest."""

LIMITS = {  # bytes; a folder from somewhere must not fill the memory with text
    MANIFEST: 1 << 16,
    "config.toml": 1 << 20,
    "env.json": 1 << 20,
    "training.json": 1 << 24,
    "learned.json": 1 << 26,
}

# A link is never followed, and a pipe never waited for.
PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class RunError(ValueError):
    """A run, or a file of one, that cannot be used; the message names the file and says what is wrong with it."""


class NewerFormat(RunError):
    """Written by a later version: not damaged, so that nothing older is used in its place."""


class Snapshot(NamedTuple):
    """All that has to be known to go on from here."""

    model: dict[str, Tensor]
    training: dict[str, Tensor]  # optimiser, random state
    facts: dict[str, Any]  # whatever JSON can hold: position in the data, best score


def reason(error: OSError) -> str:
    return error.strerror or str(error)


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """A plain file to read from; whatever goes wrong with it is a RunError."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | PLAIN), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise RunError(f"{path}: a special file, wanted a plain one")
            yield file
    except OSError as error:
        raise RunError(f"{path}: {reason(error)}") from error


def read_text(path: Path) -> str:
    with opened(path) as file:
        data = file.read(LIMITS[path.name] + 1)
    _limit(path, len(data))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RunError(f"{path}: byte {error.start} is not UTF-8") from error


def parse(text: str | bytes, place: object) -> dict[str, Any]:
    """The JSON object that a text holds."""
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise RunError(f"{place}: too deeply nested") from error
    except ValueError as error:
        raise RunError(f"{place}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RunError(f"{place}: {type(found).__name__}, wanted a JSON object")
    return found


def write_text(path: Path, text: str) -> None:
    data = text.encode()
    _limit(path, len(data))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN, 0o666)
    try:
        write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write(descriptor: int, data: bytes) -> None:
    """All of it: the system may take less at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync(path: Path) -> None:
    """What was written to a file, or the names in a folder, are on the disk when this returns."""
    if sys.platform == "win32" and path.is_dir():  # no such thing there
        return
    descriptor = os.open(path, os.O_RDWR | PLAIN if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def move(moves: Sequence[tuple[Path, Path]]) -> None:
    """Rename within a folder, one after the other, for good; where that fails, undo it, last first."""
    done: list[tuple[Path, Path]] = []
    try:
        for source, target in moves:
            source.rename(target)
            done.append((source, target))
        sync(moves[-1][1].parent)
    except BaseException:
        for source, target in reversed(done):
            target.rename(source)
        raise


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """As safetensors. A tensor that goes by several names is written once; the header says which names are the same."""
    try:
        kept, same = _unshared(tensors)
        save_file(kept, path, metadata=same or None)  # with empty metadata, a file of no tensors cannot be read
        with safe_open(path, framework="pt", backend="pread") as file:
            file.keys()  # what cannot be read must not take the place of what can
    except (LookupError, RuntimeError, ValueError) as error:
        raise RunError(f"{path}: tensors that safetensors cannot hold: {error}") from error
    path.chmod(path.parent.stat().st_mode & 0o666)  # save_file makes it readable by its owner only
    sync(path)


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt", backend="pread") as file:
            tensors: dict[str, Tensor] = file.get_tensors()
            for name, other in (file.metadata() or {}).items():
                tensors[name] = tensors[other]
    except (SafetensorError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise RunError(f"{path}: not a file of tensors that can be read: {error}") from error
    except OSError as error:
        raise RunError(f"{path}: {reason(error)}") from error
    return tensors


def seal(folder: Path, names: Iterable[str]) -> None:
    """Write the manifest: what stands in the folder now is what a reader will insist on."""
    files = {}
    for name in names:
        with opened(folder / name) as file:
            size = os.fstat(file.fileno()).st_size
            files[name] = {"size": size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    write_text(folder / MANIFEST, _close({"format": FORMAT, "files": files}))
    sync(folder)


def verify(folder: Path, names: Iterable[str]) -> None:
    """Raise a RunError that names the file unless every file is there, plain, and byte for byte as in the manifest."""
    files = _listed(folder, set(names))
    for name, (size, digest) in files.items():
        path = folder / name
        with opened(path) as file:
            found = os.fstat(file.fileno()).st_size
            if found != size:
                raise RunError(f"{path}: damaged: {found} bytes, the manifest says {size}")
            _limit(path, size)
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise RunError(f"{path}: damaged: its sha256 is not the one in the manifest")


def refuse_links(folder: Path, *, folders: bool) -> None:
    """Refuse a folder that holds anything but plain files, and folders where they are expected."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                plain = entry.is_file(follow_symlinks=False) or (folders and entry.is_dir(follow_symlinks=False))
                if not plain:
                    kind = "a link" if entry.is_symlink() else "a folder" if entry.is_dir() else "a special file"
                    raise RunError(f"{folder / entry.name}: {kind}, wanted a plain file")
    except OSError as error:
        raise RunError(f"{folder}: {reason(error)}") from error


def save(folder: Path, snapshot: Snapshot) -> None:
    """Write a checkpoint; the one that was there is kept as ``<folder>.previous``.

    Killed at any instant, one that is whole remains for ``load``; after an error all is as it was before.
    """
    facts = json.dumps(snapshot.facts)
    partial = _beside(folder, "partial")
    try:
        sweep(folder)
        partial.mkdir()
        try:
            write_tensors(partial / "model.safetensors", snapshot.model)
            write_tensors(partial / "training.safetensors", snapshot.training)
            write_text(partial / "training.json", facts)
            seal(partial, FILES)
            _rotate(folder, partial)
        finally:
            with suppress(OSError):  # what went wrong before has to be told; what is left is swept the next time
                sweep(folder)
    except OSError as error:
        raise RunError(f"{folder}: not saved: {reason(error)}") from error
    except SafetensorError as error:  # carries the system's words for a full disk, too
        raise RunError(f"{folder}: not saved: {error}") from error


def load(folder: Path, *, warn: Callable[[str], object]) -> Snapshot:
    """The newest checkpoint that is whole; ``warn`` is told if that is not the last one."""
    problems = []
    for place in places(folder):
        try:
            check(place)
            snapshot = Snapshot(
                read_tensors(place / "model.safetensors"),
                read_tensors(place / "training.safetensors"),
                parse(read_text(place / "training.json"), place / "training.json"),
            )
        except NewerFormat:
            raise
        except RunError as error:
            problems.append(str(error))
            continue
        if problems:
            warn(f"{'; '.join(problems)}; {place} is used instead")
        return snapshot
    raise RunError("; ".join(problems) or f"{folder}: no checkpoint has been saved")


def places(folder: Path) -> list[Path]:
    """Where ``load`` looks, newest first. The folder itself is missing after a death between two renames."""
    older = [place for place in (_beside(folder, "previous"), _beside(folder, "oldest")) if os.path.lexists(place)]
    return [folder, *older] if older or os.path.lexists(folder) else []


def sweep(folder: Path) -> None:
    """Remove what a save left behind that was killed, and what nobody needs after one that was not."""
    partial, previous, oldest = (_beside(folder, word) for word in ("partial", "previous", "oldest"))
    if os.path.lexists(partial):
        shutil.rmtree(partial)
    if all(map(os.path.lexists, (folder, previous, oldest))):
        shutil.rmtree(oldest)


def check(folder: Path) -> None:
    """Raise RunError if this checkpoint is not whole."""
    if folder.is_symlink():
        raise RunError(f"{folder}: a link, wanted a folder")
    refuse_links(folder, folders=False)
    verify(folder, FILES)


def _unshared(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors that share no memory, and for each name that was left out the name that stands for it."""
    kept: dict[str, Tensor] = {}
    names: dict[object, str] = {}
    same: dict[str, str] = {}
    storages: set[int] = set()
    for name, given in tensors.items():
        flags = (given.dtype, given.is_conj(), given.is_neg())
        view = (given.device, given.data_ptr(), given.shape, given.stride(), flags)
        if given.numel() and names.setdefault(view, name) != name:
            same[name] = names[view]
            continue
        tensor = given.detach().resolve_conj().resolve_neg()
        storage = tensor.untyped_storage().data_ptr()
        kept[name] = tensor.clone().contiguous() if storage in storages else tensor.contiguous()
        storages.add(storage)
    return kept, same


def _rotate(folder: Path, partial: Path) -> None:
    """partial → folder → previous.

    Until the new one stands in its place, neither of the two before it is removed: one of them may be damaged.
    """
    previous, oldest = _beside(folder, "previous"), _beside(folder, "oldest")
    moves = [(partial, folder)]
    if os.path.lexists(folder):
        moves.insert(0, (folder, previous))
        if os.path.lexists(previous):
            moves.insert(0, (previous, oldest))
    move(moves)


def _beside(folder: Path, word: str) -> Path:
    return folder.with_name(f"{folder.name}.{word}")


def _limit(path: Path, size: int) -> None:
    if size > LIMITS.get(path.name, size):
        raise RunError(f"{path}: more than {LIMITS[path.name]} bytes")


def _close(content: Mapping[str, Any]) -> str:
    """A manifest's text: the content, and the sha256 of the content. No bit of it can change unnoticed."""
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return json.dumps({**content, "sha256": digest}, indent=2) + "\n"


def _listed(folder: Path, names: set[str]) -> dict[str, tuple[int, str]]:
    """Size and sha256 of each file as the manifest has them, which has to list just these names."""
    path = folder / MANIFEST
    text = read_text(path)
    content = parse(text, path)
    content.pop("sha256", None)
    try:
        whole = text == _close(content)
    except RecursionError as error:
        raise RunError(f"{path}: too deeply nested") from error
    if not whole:
        raise RunError(f"{path}: damaged: its content and its sha256 differ")
    number, files = content.get("format"), content.get("files")
    if type(number) is not int:
        raise RunError(f"{path}: format is {number!r}, wanted a number")
    if number > FORMAT:
        raise NewerFormat(f"{path}: format {number} is newer than {FORMAT}, the newest known here: upgrade Seqloom")
    if not isinstance(files, dict) or files.keys() != names:
        raise RunError(f"{path}: does not list just these files: {', '.join(sorted(names))}")
    listed = {}
    for name, entry in files.items():
        match entry:
            case {"size": int(size), "sha256": str(digest)}:
                listed[name] = (size, digest)
            case _:
                raise RunError(f"{path}: {name} needs a size and a sha256")
    return listed
