"""Folders whose manifest detects any damage, and checkpoints: at every instant a complete one is on the disk."""

import hashlib
import io
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from seqloom import files, migration
from seqloom.files import OPEN_FLAGS, os_error_message, sync

MANIFEST = "manifest.json"
FILES = ("model.safetensors", "training.safetensors", "training.json")
"""The files of a checkpoint, beside its manifest."""

INT8_SCALES = ".int8_scales"
"""Ending of the names of the scales of weights that are stored in int8."""

LIMITS = {  # bytes; a file of untrusted origin must not fill the memory
    MANIFEST: 1 << 16,
    "config.toml": 1 << 20,
    "env.json": 1 << 20,
    "training.json": 1 << 24,
    "learned.json": 1 << 26,
    "summary.json": 1 << 26,
    "README.md": 1 << 20,
    "dev.json": 1 << 26,
}


class RunError(ValueError):
    """A run, or one of its files, cannot be used; the message names the file and the problem."""


class NewerFormat(RunError):
    """Written by a later version of Seqloom: not damaged, so that no older checkpoint is used instead."""


class Snapshot(NamedTuple):
    """Everything that is needed to resume training from here."""

    model: dict[str, Tensor]
    training: dict[str, Tensor]  # optimizer and random state
    facts: dict[str, Any]  # JSON values: position in the data, scores


@contextmanager
def open_regular_file(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file for reading; raises RunError if that fails, or if it is a link or a special file."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | OPEN_FLAGS), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise RunError(f"{path}: expected a regular file, found a special file")
            yield file
    except OSError as error:
        raise RunError(f"{path}: {os_error_message(error)}") from error


def read_text(path: Path) -> str:
    with open_regular_file(path) as file:
        data = file.read(LIMITS[path.name] + 1)
    _check_size(path, len(data))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RunError(f"{path}: byte {error.start} is not UTF-8") from error


def parse_json(text: str | bytes, location: object) -> dict[str, Any]:
    """The JSON object in a text; ``location`` is named in errors."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise RunError(f"{location}: too deeply nested") from error
    except ValueError as error:
        raise RunError(f"{location}: not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise RunError(f"{location}: expected a JSON object, found {type(value).__name__}")
    return value


def write_text(path: Path, text: str) -> None:
    """Write a file that does not exist yet."""
    data = text.encode()
    _check_size(path, len(data))
    files.create(path, data)


def rename_all(renames: Sequence[tuple[Path, Path]]) -> None:
    """Rename within a folder, in order, and flush it to the disk; undo all renames if one fails."""
    done: list[tuple[Path, Path]] = []
    try:
        for source, target in renames:
            source.rename(target)
            done.append((source, target))
        sync(renames[-1][1].parent)
    except BaseException:
        for source, target in reversed(done):
            target.rename(source)
        raise


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file. A tensor with several names is written once; the metadata map the other names to it."""
    try:
        unique, aliases = _split_aliases(tensors)
        save_file(unique, path, metadata=aliases or None)  # a file without tensors is unreadable with empty metadata
        with safe_open(path, framework="pt", backend="pread") as file:
            file.keys()  # a file that cannot be read must not replace one that can
    except (LookupError, RuntimeError, ValueError) as error:
        raise RunError(f"{path}: safetensors cannot store these tensors: {error}") from error
    path.chmod(path.parent.stat().st_mode & 0o666)  # save_file makes it readable for its owner only
    sync(path)


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt", backend="pread") as file:
            tensors: dict[str, Tensor] = file.get_tensors()
            for alias, name in (file.metadata() or {}).items():
                tensors[alias] = tensors[name]
    except (SafetensorError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise RunError(f"{path}: not a readable safetensors file: {error}") from error
    except OSError as error:
        raise RunError(f"{path}: {os_error_message(error)}") from error
    return tensors


def _read_weights(path: Path) -> dict[str, Tensor]:
    """The weights of a model; integers that are stored with scales (int8) as the floats that they stand for."""
    tensors = read_tensors(path)
    floats: dict[int, Tensor] = {}  # by the identity of the integers: a shared weight has several names
    weights = {}
    for name, tensor in tensors.items():
        if name.endswith(INT8_SCALES):
            continue
        scales = tensors.get(name + INT8_SCALES)
        if scales is None:
            weights[name] = tensor
            continue
        is_pair = (tensor.dtype, scales.dtype) == (torch.int8, torch.float32)
        if not is_pair or scales.dim() != 1 or scales.shape != tensor.shape[:1]:
            raise RunError(f"{path}: {name}: expected int8 weights with a float32 scale for each row")
        if id(tensor) not in floats:
            floats[id(tensor)] = tensor.float() * scales.view(-1, *[1] * (tensor.dim() - 1))
        weights[name] = floats[id(tensor)]
    return weights


def write_manifest(folder: Path, names: Iterable[str]) -> None:
    """Write the manifest: size and checksum of each file, which readers verify."""
    entries = {}
    for name in names:
        with open_regular_file(folder / name) as file:
            size = os.fstat(file.fileno()).st_size
            entries[name] = {"size": size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    write_text(folder / MANIFEST, _manifest_text({"format": migration.FORMAT, "files": entries}))
    sync(folder)


def verify_files(folder: Path, names: Iterable[str]) -> int:
    """The format; a RunError names the file unless every file exists and is byte for byte as in the manifest."""
    version, files = _read_manifest(folder, set(names))
    for name, (size, digest) in files.items():
        path = folder / name
        with open_regular_file(path) as file:
            actual_size = os.fstat(file.fileno()).st_size
            if actual_size != size:
                raise RunError(f"{path}: damaged: expected {size} bytes, found {actual_size}")
            _check_size(path, size)
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise RunError(f"{path}: damaged: its SHA-256 differs from the manifest")
    return version


def refuse_special_files(folder: Path, *, allow_folders: bool) -> None:
    """Raise RunError if a folder contains links or special files, or folders where they are not allowed."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if not (entry.is_file(follow_symlinks=False) or (allow_folders and is_folder)):
                    kind = "a link" if entry.is_symlink() else "a folder" if is_folder else "a special file"
                    raise RunError(f"{folder / entry.name}: expected a regular file, found {kind}")
    except OSError as error:
        raise RunError(f"{folder}: {os_error_message(error)}") from error


def save(folder: Path, snapshot: Snapshot) -> None:
    """Write a checkpoint; the existing one is kept as ``<folder>.previous``.

    If the process is killed, ``load`` still finds a complete checkpoint; after an error nothing has changed.
    """
    facts = json.dumps(snapshot.facts)
    partial = _sibling(folder, "partial")
    try:
        remove_leftovers(folder)
        partial.mkdir()
        try:
            write_tensors(partial / "model.safetensors", snapshot.model)
            write_tensors(partial / "training.safetensors", snapshot.training)
            write_text(partial / "training.json", facts)
            write_manifest(partial, FILES)
            _rotate(folder, partial)
        finally:
            with suppress(OSError):  # an earlier error must be reported; the next save removes the leftovers
                remove_leftovers(folder)
    except OSError as error:
        raise RunError(f"{folder}: cannot save: {os_error_message(error)}") from error
    except SafetensorError as error:  # such as a full disk
        raise RunError(f"{folder}: cannot save: {error}") from error


def load(folder: Path, *, warn: Callable[[str], object]) -> Snapshot:
    """The newest complete checkpoint; ``warn`` is called with a message if the last one is damaged."""
    problems = []
    for candidate in candidates(folder):
        try:
            version = verify_checkpoint(candidate)
            snapshot = Snapshot(
                migration.migrate_weights(_read_weights(candidate / "model.safetensors"), version),
                read_tensors(candidate / "training.safetensors"),
                parse_json(read_text(candidate / "training.json"), candidate / "training.json"),
            )
        except NewerFormat:
            raise
        except RunError as error:
            problems.append(str(error))
            continue
        if problems:
            warn(f"{'; '.join(problems)}; using {candidate} instead")
        return snapshot
    raise RunError("; ".join(problems) or f"{folder}: no checkpoint has been saved")


def candidates(folder: Path) -> list[Path]:
    """Folders that ``load`` tries, newest first; the first one is missing if a save was killed between two renames."""
    siblings = [_sibling(folder, suffix) for suffix in ("previous", "oldest")]
    older = [sibling for sibling in siblings if os.path.lexists(sibling)]
    return [folder, *older] if older or os.path.lexists(folder) else []


def remove_leftovers(folder: Path) -> None:
    """Remove the incomplete checkpoint of a killed save, and the oldest one if there are two newer ones."""
    partial, previous, oldest = (_sibling(folder, suffix) for suffix in ("partial", "previous", "oldest"))
    if os.path.lexists(partial):
        shutil.rmtree(partial)
    if all(map(os.path.lexists, (folder, previous, oldest))):
        shutil.rmtree(oldest)


def verify_checkpoint(folder: Path) -> int:
    """The format of a checkpoint; RunError if it is incomplete or damaged."""
    if folder.is_symlink():
        raise RunError(f"{folder}: expected a folder, found a link")
    refuse_special_files(folder, allow_folders=False)
    return verify_files(folder, FILES)


def _split_aliases(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Contiguous tensors that share no memory, and aliases: further names of the same tensor, and its first name."""
    unique: dict[str, Tensor] = {}
    first_names: dict[object, str] = {}
    aliases: dict[str, str] = {}
    storages: set[int] = set()
    for name, original in tensors.items():
        flags = (original.dtype, original.is_conj(), original.is_neg())
        view = (original.device, original.data_ptr(), original.shape, original.stride(), flags)
        if original.numel() and first_names.setdefault(view, name) != name:
            aliases[name] = first_names[view]
            continue
        tensor = original.detach().resolve_conj().resolve_neg()
        storage = tensor.untyped_storage().data_ptr()
        unique[name] = tensor.clone().contiguous() if storage in storages else tensor.contiguous()
        storages.add(storage)
    return unique, aliases


def _rotate(folder: Path, partial: Path) -> None:
    """Rename partial → folder → previous → oldest.

    Both older checkpoints are kept until the new one is in place, because one of them may be damaged.
    """
    previous, oldest = _sibling(folder, "previous"), _sibling(folder, "oldest")
    renames = [(partial, folder)]
    if os.path.lexists(folder):
        renames.insert(0, (folder, previous))
        if os.path.lexists(previous):
            renames.insert(0, (previous, oldest))
    rename_all(renames)


def _sibling(folder: Path, suffix: str) -> Path:
    return folder.with_name(f"{folder.name}.{suffix}")


def _check_size(path: Path, size: int) -> None:
    if size > LIMITS.get(path.name, size):
        raise RunError(f"{path}: larger than {LIMITS[path.name]:,} bytes")


def _manifest_text(content: Mapping[str, Any]) -> str:
    """The text of a manifest: its content, and the SHA-256 of the content, which reveals any change."""
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return json.dumps({**content, "sha256": digest}, indent=2) + "\n"


def _read_manifest(folder: Path, names: set[str]) -> tuple[int, dict[str, tuple[int, str]]]:
    """The format, and size and SHA-256 of each file; the manifest has to list exactly these names.

    The checksum of a manifest is computed alike in all formats.
    """
    path = folder / MANIFEST
    text = read_text(path)
    content = parse_json(text, path)
    content.pop("sha256", None)
    try:
        intact = text == _manifest_text(content)
    except RecursionError as error:
        raise RunError(f"{path}: too deeply nested") from error
    if not intact:
        raise RunError(f"{path}: damaged: its content does not match its SHA-256")
    version, listed = content.get("format"), content.get("files")
    if type(version) is not int:
        raise RunError(f"{path}: format: expected an integer, found {version!r}")
    if version > migration.FORMAT:
        supported = f"{migration.FORMAT}, which this Seqloom supports"
        raise NewerFormat(f"{path}: format {version} is newer than {supported}: upgrade it")
    if version not in (*migration.MIGRATIONS, migration.FORMAT):
        raise RunError(f"{path}: format {version} is not supported")
    if not isinstance(listed, dict) or listed.keys() != names:
        raise RunError(f"{path}: files: expected exactly {', '.join(sorted(names))}")
    entries = {}
    for name, entry in listed.items():
        match entry:
            case {"size": int(size), "sha256": str(digest)}:
                entries[name] = (size, digest)
            case _:
                raise RunError(f"{path}: {name}: expected a size and a sha256")
    return version, entries
