"""Damaged files, killed processes, full disks, malicious files: a load is bit-identical to the save, or is refused."""

import errno
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from seqloom import checkpoint
from seqloom.checkpoint import FILES, RunError, Snapshot
from seqloom.migration import FORMAT

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals")


def snapshot(value: int) -> Snapshot:
    return Snapshot(
        {"weight": torch.arange(40.0) + value, "bias": torch.full((3,), float(value))},
        {
            "momentum": torch.full((2, 5), value / 7, dtype=torch.float64),
            "random": torch.tensor([value % 256] * 9).byte(),
        },
        {"value": value, "rows": [value, None], "score": value / 3},
    )


def same(actual: Tensor, expected: Tensor) -> bool:
    """Equal in type, shape and every bit, NaNs included."""
    bits = [tensor.detach().contiguous().reshape(-1).view(torch.uint8) for tensor in (actual, expected)]
    return actual.dtype == expected.dtype and actual.shape == expected.shape and torch.equal(*bits)


def equal(actual: Snapshot, expected: Snapshot) -> bool:
    pairs = [(actual.model, expected.model), (actual.training, expected.training)]
    tensors = all(a.keys() == b.keys() and all(same(a[name], b[name]) for name in a) for a, b in pairs)
    return tensors and actual.facts == expected.facts


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def replace_file(file: Path, data: bytes) -> None:
    """Write a new file: some file systems flush to the disk when an existing one is overwritten."""
    file.unlink()
    file.write_bytes(data)


def fail_on_warning(message: str) -> None:
    pytest.fail(f"warned: {message}")


def value(folder: Path, *, warn: Callable[[str], object] = lambda _: None) -> int:
    """The number of the snapshot in a folder, which has to be bit-identical to it."""
    loaded = checkpoint.load(folder, warn=warn)
    number = int(loaded.facts["value"])
    assert equal(loaded, snapshot(number))
    return number


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """Snapshot 2, with snapshot 1 as the previous one."""
    folder = tmp_path / "last"
    checkpoint.save(folder, snapshot(1))
    checkpoint.save(folder, snapshot(2))
    assert value(folder, warn=fail_on_warning) == 2
    return folder


# Round trip


DTYPES = [
    *(
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.complex64,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    ),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_is_loaded_bit_for_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    noise = torch.randint(256, (6, 5, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    tensors = {
        "plain": noise.view(dtype),  # random bytes: NaNs with payload, denormals, −0
        "scalar": noise.view(dtype)[0, 0, 0],
        "transposed": noise.view(dtype).transpose(0, 2),
        "strided": noise.view(dtype)[::2, 1:, ::2],
        "repeated": noise.view(dtype)[:1].expand(4, -1, -1),
        "empty": torch.zeros(0, 3, dtype=dtype),
        "empty vector": torch.zeros(0, dtype=dtype),
    }
    checkpoint.save(tmp_path / "last", Snapshot(tensors, {}, {}))
    loaded = checkpoint.load(tmp_path / "last", warn=fail_on_warning)
    assert equal(loaded, Snapshot(tensors, {}, {}))
    peer = load_file(tmp_path / "last" / "model.safetensors")
    assert all(same(peer[name], loaded.model[name]) for name in peer)


def test_booleans_random_state_and_conjugates_are_loaded(tmp_path: Path) -> None:
    z = torch.complex(torch.arange(3.0), torch.ones(3))
    tensors = {
        "mask": torch.tensor([True, False, True]),
        "random": torch.get_rng_state(),
        "complex": z,
        "conjugate": z.conj(),
        "imaginary": z.conj().imag,
        "transposed": z.outer(z).T.conj(),
        "another transposed": z.outer(z + 1).T.conj(),
        "parameter": nn.Parameter(torch.ones(2)),
    }
    checkpoint.save(tmp_path / "last", Snapshot({}, tensors, {}))
    loaded = checkpoint.load(tmp_path / "last", warn=fail_on_warning)
    for name, tensor in tensors.items():
        assert torch.equal(loaded.training[name], tensor), name
        assert not loaded.training[name].requires_grad


def test_facts_are_loaded(tmp_path: Path) -> None:
    facts: dict[str, Any] = {
        "best": float("-inf"),
        "float": 0.1 + 0.2,
        "big": 2**80,
        "none": None,
        "text": "ü\n\0\ud800",
        "list": [[], {}],
    }
    checkpoint.save(tmp_path / "last", Snapshot({}, {}, facts))
    assert checkpoint.load(tmp_path / "last", warn=fail_on_warning) == Snapshot({}, {}, facts)


def test_a_tensor_with_several_names_is_written_once(tmp_path: Path) -> None:
    embedding, output = nn.Embedding(1000, 8), nn.Linear(8, 1000, bias=False)
    output.weight = embedding.weight
    model = nn.ModuleDict({"embedding": embedding, "output": output})
    checkpoint.save(tmp_path / "last", Snapshot(model.state_dict(), {}, {}))
    loaded = checkpoint.load(tmp_path / "last", warn=fail_on_warning).model
    assert loaded.keys() == {"embedding.weight", "output.weight"}
    assert loaded["embedding.weight"] is loaded["output.weight"]
    assert same(loaded["output.weight"], output.weight)
    assert (tmp_path / "last" / "model.safetensors").stat().st_size < 1000 * 8 * 4 + 300


def test_views_of_the_same_memory_are_loaded_separately(tmp_path: Path) -> None:
    whole = torch.arange(12.0)
    views = {
        "whole": whole,
        "part": whole[3:7],
        "square": whole.view(3, 4),
        "transposed": whole.view(3, 4).T,
        "bits": whole.view(torch.int32),
    }
    checkpoint.save(tmp_path / "last", Snapshot(views, {}, {}))
    loaded = checkpoint.load(tmp_path / "last", warn=fail_on_warning)
    assert equal(loaded, Snapshot(views, {}, {}))


@pytest.mark.parametrize(
    "tensors",
    [{"a": torch.zeros(2, dtype=torch.complex128)}, {"a": torch.eye(3).to_sparse()}, {"__metadata__": torch.zeros(1)}],
)
def test_unsupported_tensors_are_refused_and_nothing_is_lost(tmp_path: Path, tensors: dict[str, Tensor]) -> None:
    checkpoint.save(tmp_path / "last", snapshot(1))
    before = contents(tmp_path)
    with pytest.raises(RunError, match="last"):
        checkpoint.save(tmp_path / "last", Snapshot(tensors, {}, {}))
    assert contents(tmp_path) == before


def test_facts_that_are_not_json_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        checkpoint.save(tmp_path / "last", Snapshot({}, {}, {"a": torch.zeros(1)}))
    with pytest.raises(RunError, match=r"training\.json: larger than"):
        checkpoint.save(tmp_path / "last", Snapshot({}, {}, {"a": "x" * checkpoint.LIMITS["training.json"]}))
    assert not list(tmp_path.iterdir())
    assert not checkpoint.candidates(tmp_path / "last")


@posix
def test_files_have_the_usual_permissions(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "last", snapshot(1))
    (tmp_path / "plain").touch()
    modes = {path.stat().st_mode for path in [tmp_path / "plain", *(tmp_path / "last").iterdir()]}
    assert len(modes) == 1


def test_files_are_flushed_before_they_are_renamed(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    events: list[object] = []
    fsync, rename = os.fsync, os.rename

    def record_fsync(descriptor: int) -> None:
        events.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def record_rename(source: Path, target: Path) -> None:
        events.append((source.name, target.name))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "rename", record_rename)
    checkpoint.save(pair, snapshot(3))
    files = {path.stat().st_ino for path in pair.iterdir()}
    manifest, folder, parent = (path.stat().st_ino for path in (pair / "manifest.json", pair, pair.parent))
    renames = [("last.previous", "last.oldest"), ("last", "last.previous"), ("last.partial", "last")]
    assert len(files) == 4
    assert set(events[:3]) == files - {manifest}
    assert events[3:] == [manifest, folder, *renames, parent]


# Damage


def truncate(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


@pytest.mark.parametrize(("damage", "times"), [(truncate, 200), (flip, 300)])
def test_damage_is_reported_and_the_previous_checkpoint_is_used(
    pair: Path, damage: Callable[[bytes, random.Random], bytes], times: int
) -> None:
    chance = random.Random(times)  # noqa: S311
    previous = pair.with_name("last.previous")
    for _ in range(times):
        name = chance.choice([*FILES, "manifest.json"])
        file, older = pair / name, previous / name
        good, good_older = file.read_bytes(), older.read_bytes()
        replace_file(file, damage(good, chance))
        damaged = contents(pair.parent)
        messages: list[str] = []
        assert value(pair, warn=messages.append) == 1
        assert len(messages) == 1
        assert str(file) in messages[0]
        assert str(previous) in messages[0]

        replace_file(older, damage(good_older, chance))
        with pytest.raises(RunError) as both:
            checkpoint.load(pair, warn=fail_on_warning)
        assert str(file) in str(both.value)
        assert str(older) in str(both.value)

        replace_file(older, good_older)
        assert contents(pair.parent) == damaged, "something was deleted or changed"
        replace_file(file, good)
    assert value(pair, warn=fail_on_warning) == 2


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_missing_and_longer_files_are_reported(pair: Path, name: str) -> None:
    file = pair / name
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(RunError, match=name):
        checkpoint.verify_checkpoint(pair)
    file.unlink()
    messages: list[str] = []
    assert value(pair, warn=messages.append) == 1
    assert str(file) in messages[0]


def test_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"last: no checkpoint has been saved"):
        checkpoint.load(tmp_path / "last", warn=fail_on_warning)


# Killed processes


class Killed(BaseException):
    """Simulates kill -9: no handler catches it."""


Fault = Callable[[int, str], object]  # the number of an operation, and its name


@contextmanager
def inject(fault: Fault, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Call ``fault`` before each operation that changes the disk, and half-way through writes."""
    count = 0

    def tick(kind: str) -> None:
        nonlocal count
        count += 1
        fault(count, kind)

    def before(name: str) -> Callable[..., Any]:
        function = getattr(os, name)

        def operation(*arguments: Any, **options: Any) -> Any:
            tick(name)
            return function(*arguments, **options)

        return operation

    os_write = os.write

    def write(descriptor: int, data: memoryview) -> int:
        tick("write")
        half = os_write(descriptor, data[: len(data) // 2])
        tick("write")
        return half + os_write(descriptor, data[len(data) // 2 :])

    def save(tensors: dict[str, Tensor], path: Path, **options: Any) -> None:
        tick("save_file")
        path.write_bytes(b"\x10")
        tick("save_file")
        save_file(tensors, path, **options)

    with patch.context() as context:
        for name in ("open", "mkdir", "rename", "unlink", "rmdir", "chmod"):
            context.setattr(os, name, before(name))
        context.setattr(os, "fsync", lambda _: tick("fsync"))
        context.setattr(os, "write", write)
        context.setattr(checkpoint, "save_file", save)
        yield


def starts(tmp_path: Path) -> dict[str, tuple[Path, set[int]]]:
    """Folders to start from, and the snapshots one of which has to remain after a failed save of snapshot 9."""
    empty, one, two, three, damaged = (tmp_path / name for name in ("empty", "one", "two", "three", "damaged"))
    empty.mkdir()
    one.mkdir()
    checkpoint.save(one / "last", snapshot(1))
    shutil.copytree(one, two)
    checkpoint.save(two / "last", snapshot(2))
    shutil.copytree(two, damaged)
    (damaged / "last" / "model.safetensors").write_bytes(b"")
    shutil.copytree(two, three)
    checkpoint.save(three / "last", snapshot(3))
    return {
        "nothing": (empty, set()),
        "one": (one, {1}),
        "two": (two, {2}),
        "three": (three, {3}),
        "damaged": (damaged, {1}),
    }


@pytest.mark.parametrize("start", ["nothing", "one", "two", "three", "damaged"])
def test_a_kill_at_any_operation_leaves_a_complete_checkpoint(
    tmp_path: Path, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    template, before = starts(tmp_path)[start]
    folder = tmp_path / "here" / "last"
    for fatal in range(1, 1000):

        def die(number: int, _: str, fatal: int = fatal) -> None:
            if number >= fatal:
                raise Killed

        shutil.rmtree(folder.parent, ignore_errors=True)
        shutil.copytree(template, folder.parent)
        try:
            with inject(die, monkeypatch):
                checkpoint.save(folder, snapshot(9))
        except Killed:
            if before or checkpoint.candidates(folder):
                assert value(folder) in before | {9}
            # … and another kill at the same operation of the next save
            again = {value(folder)} if checkpoint.candidates(folder) else set()
            with suppress(Killed), inject(die, monkeypatch):
                checkpoint.save(folder, snapshot(10))
            if again:
                assert value(folder) in again | {10}
            checkpoint.save(folder, snapshot(11))
            assert value(folder, warn=fail_on_warning) == 11
            left = {path.name for path in folder.parent.iterdir()}
            assert left <= {"last", "last.previous"}
        else:
            assert fatal > 25, "no fault was injected"
            assert value(folder, warn=fail_on_warning) == 9
            return
    pytest.fail("never ended")


GROWING = ("mkdir", "write", "fsync", "save_file")


@pytest.mark.parametrize("start", ["nothing", "one", "two", "three"])
@pytest.mark.parametrize("lasting", [False, True])
def test_an_error_at_every_operation_changes_nothing(
    tmp_path: Path, start: str, lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One operation fails, or from there on all that need disk space."""
    template, _ = starts(tmp_path)[start]
    before = contents(template)
    folder = tmp_path / "here" / "last"
    refused = 0
    for failing in range(1, 1000):
        failed = False

        def fail(number: int, kind: str, failing: int = failing) -> None:
            nonlocal failed
            if number == failing or (lasting and number > failing and kind in GROWING):
                failed = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        shutil.rmtree(folder.parent, ignore_errors=True)
        shutil.copytree(template, folder.parent)
        try:
            with inject(fail, monkeypatch):
                checkpoint.save(folder, snapshot(9))
        except RunError as error:
            refused += 1
            message = str(error)
            assert "No space left on device" in message
            assert contents(folder.parent) == before
            assert {path.name for path in folder.parent.iterdir()} == {path.name for path in template.iterdir()}
        else:
            assert value(folder, warn=fail_on_warning) == 9
            if not failed:
                assert refused > 25, "no fault was injected"
                return
    pytest.fail("never ended")


@contextmanager
def child(work: Callable[[int], None]) -> Iterator[tuple[int, int]]:
    """A forked process that runs ``work`` with the write end of a pipe; yields its id and the read end."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
        process = os.fork()
    if not process:
        try:
            os.close(reader)
            work(writer)
        finally:
            os._exit(0)
    os.close(writer)
    try:
        yield process, reader
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(reader)


def kill_while_saving(folder: Path, *, times: int, seed: int = 1) -> set[str]:
    """Kill a process that saves in a loop, at random moments; the sets of folder names that it left."""
    chance = random.Random(seed)  # noqa: S311
    last, seen = 0, set()
    for _ in range(times):

        def work(writer: int, last: int = last) -> None:
            send = os.write
            with inject(lambda _, __: bool(send(writer, b".")), pytest.MonkeyPatch()):
                for number in range(last + 1, last + 1000):
                    checkpoint.save(folder, snapshot(number))
                    send(writer, b"!")

        finished = 0
        with child(work) as (_, reader):
            for _ in range(chance.randrange(1, 150)):
                byte = os.read(reader, 1)
                assert byte, "it ended by itself"
                finished += byte == b"!"
        seen.add(" ".join(sorted(path.name for path in folder.parent.iterdir())))
        if last or finished or checkpoint.candidates(folder):
            number = value(folder)
            assert number >= last + finished, "a finished checkpoint was lost"
            last = number
    return seen


@posix
def test_kill_during_a_save(tmp_path: Path) -> None:
    """The child does not wait to be killed, so that the operations differ from run to run."""
    seen = kill_while_saving(tmp_path / "last", times=30)
    assert any("last.partial" in names for names in seen), "no kill hit a save"
    checkpoint.save(tmp_path / "last", snapshot(1))
    assert {path.name for path in tmp_path.iterdir()} == {"last", "last.previous"}


@posix
def test_the_file_size_limit_of_the_system(pair: Path) -> None:
    import resource

    def work(writer: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
        try:
            checkpoint.save(pair, Snapshot({"weight": torch.zeros(2000)}, {}, {}))
        except RunError as error:
            os.write(writer, str(error).encode())

    before = contents(pair.parent)
    with child(work) as (_, reader):
        message = os.read(reader, 1000).decode()
    assert message.startswith(f"{pair}: cannot save: ")
    assert "File too large" in message
    assert contents(pair.parent) == before


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="nothing is read-only for the superuser")
def test_a_read_only_folder(pair: Path) -> None:
    pair.parent.chmod(0o555)
    try:
        with pytest.raises(RunError, match="last: cannot save: Permission denied"):
            checkpoint.save(pair, snapshot(3))
        assert value(pair, warn=fail_on_warning) == 2
    finally:
        pair.parent.chmod(0o755)


# Malicious files


def raw(header: object, data: bytes = b"", *, length: int | None = None) -> bytes:
    """A safetensors file: length of the header, header, data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(shape: list[int], *offsets: int, dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def archive() -> bytes:
    """A renamed .pt file, with a path outside its folder."""
    import io

    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("archive/data.pkl", PICKLE)
        file.writestr("../../escaped", b"")
    return data.getvalue()


PICKLE = b"cos\nsystem\n(S'touch escaped'\ntR."
TENSORS = {
    "pickle": PICKLE,
    "new pickle": b"\x80\x04\x95" + struct.pack("<Q", len(PICKLE)) + PICKLE,
    "zip": archive(),
    "empty": b"",
    "short": b"\1\0",
    "header of 2^62": raw(b"{}", length=2**62),
    "header of 2^64 - 1": raw(b"{}", length=2**64 - 1),
    "header beyond the end": raw(b"{}", length=3),
    "not JSON": raw(b"{]"),
    "not UTF-8": raw(b'{"\xff":1}'),
    "a list": raw([1]),
    "deep": raw(b'{"a":' + b"[" * 100_000),
    "overflowing bytes": raw({"a": entry([2**62, 4], 0, 0)}),
    "overflowing product": raw({"a": entry([2**32, 2**32], 0, 0)}),
    "beyond 64 bits": raw({"a": entry([2**70], 0, 0)}),
    "negative shape": raw({"a": entry([-1], 0, 4)}, b"1234"),
    "overlap": raw({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, bytes(12)),
    "same offsets": raw({"a": entry([2], 0, 8), "b": entry([2], 0, 8)}, bytes(8)),
    "gap": raw({"a": entry([1], 0, 4), "b": entry([1], 8, 12)}, bytes(12)),
    "reversed offsets": raw({"a": entry([1], 4, 0)}, bytes(4)),
    "offsets beyond the end": raw({"a": entry([1000], 0, 4000)}, bytes(4)),
    "shape larger than its bytes": raw({"a": entry([1000], 0, 4)}, bytes(4)),
    "more bytes than tensors": raw({"a": entry([1], 0, 4)}, bytes(8)),
    "objects": raw({"a": entry([1], 0, 8, dtype="OBJECT")}, bytes(8)),
    "dtype unknown to torch": raw({"a": entry([4], 0, 3, dtype="F6_E2M3")}, bytes(3)),
    "half bytes": raw({"a": entry([2], 0, 1, dtype="F4")}, bytes(1)),
    "metadata that are not strings": raw({"__metadata__": {"a": 5}}),
    "alias of a missing tensor": raw({"__metadata__": {"a": "b"}}),
}


@pytest.mark.parametrize("file", ["model.safetensors", "training.safetensors"])
@pytest.mark.parametrize("case", TENSORS)
def test_malicious_tensor_files_are_refused(
    tmp_path: Path, file: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "last"
    checkpoint.save(folder, snapshot(1))
    (folder / file).write_bytes(TENSORS[case])
    (folder / "manifest.json").unlink()
    checkpoint.write_manifest(folder, FILES)
    before = contents(tmp_path)
    with pytest.raises(RunError, match=file):
        checkpoint.load(folder, warn=fail_on_warning)
    assert contents(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} == {"last"}


def manifest(content: dict[str, Any]) -> bytes:
    """A manifest with its SHA-256, written independently: its format must never change."""
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return (json.dumps({**content, "sha256": digest}, indent=2) + "\n").encode()


def listing(**changes: object) -> dict[str, Any]:
    return {name: {"size": 0, "sha256": ""} for name in FILES} | changes


MANIFESTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not valid JSON"),
    "not JSON": (b"{", "not valid JSON"),
    "not UTF-8": (b'{"\xff": 1}', "byte 2 is not UTF-8"),
    "a list": (b"[]", "expected a JSON object, found list"),
    "deep": (b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}", "too deeply nested"),
    "deep enough to read": (b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", "too deeply nested|does not match"),
    "huge": (b" " * 10**6, "larger than 65,536 bytes"),
    "huge number": (b'{"format": ' + b"9" * 10_000 + b"}", "not valid JSON"),
    "no checksum": (b'{"format": 1, "files": {}}', "its content does not match its SHA-256"),
    "no format": (manifest({"files": listing()}), "format: expected an integer, found None"),
    "format of another type": (manifest({"format": "1", "files": listing()}), "format: expected an integer, found '1'"),
    "no files": (manifest({"format": 1}), "files: expected exactly"),
    "a list of files": (manifest({"format": 1, "files": list(FILES)}), "files: expected exactly"),
    "too few files": (manifest({"format": 1, "files": {}}), "files: expected exactly"),
    "a path outside": (manifest({"format": 1, "files": listing(**{"../../secret": {}})}), "files: expected exactly"),
    "an absolute path": (
        manifest({"format": 1, "files": listing(**{"/etc/passwd": {}})}),
        "files: expected exactly",
    ),
    "no entry": (
        manifest({"format": 1, "files": listing(**{"training.json": None})}),
        "training.json: expected a size and a sha256",
    ),
    "size of another type": (
        manifest({"format": 1, "files": listing(**{"training.json": {"size": "2", "sha256": ""}})}),
        "training.json: expected a size and a sha256",
    ),
    "negative size": (
        manifest({"format": 1, "files": listing(**{"model.safetensors": {"size": -1, "sha256": ""}})}),
        "model.safetensors: damaged: expected -1 bytes, found",
    ),
    "newer": (
        manifest({"format": FORMAT + 1, "seal": "new"}),
        f"format {FORMAT + 1} is newer than {FORMAT}, which this Seqloom supports: upgrade it",
    ),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_malicious_manifests_are_refused(tmp_path: Path, case: str) -> None:
    data, message = MANIFESTS[case]
    checkpoint.save(tmp_path / "last", snapshot(1))
    (tmp_path / "last" / "manifest.json").write_bytes(data)
    before = contents(tmp_path)
    with pytest.raises(RunError, match=rf"last.(manifest\.json: )?.*({message})"):
        checkpoint.load(tmp_path / "last", warn=fail_on_warning)
    assert contents(tmp_path) == before


def test_a_newer_format_is_not_treated_as_damage(pair: Path) -> None:
    """The previous checkpoint could be loaded, but is not the one that the user means."""
    (pair / "manifest.json").write_bytes(manifest({"format": FORMAT + 1}))
    with pytest.raises(RunError, match="upgrade"):
        checkpoint.load(pair, warn=fail_on_warning)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (b"[" * 100_000, "too deeply nested"),
        (b"[]", "expected a JSON object, found list"),
        (b"\xff", "byte 0 is not UTF-8"),
        (b"", "not valid JSON"),
        (b" " * (checkpoint.LIMITS["training.json"] + 1), "larger than 16,777,216 bytes"),
    ],
)
def test_malicious_facts_are_refused(tmp_path: Path, facts: bytes, message: str) -> None:
    folder = tmp_path / "last"
    checkpoint.save(folder, snapshot(1))
    (folder / "training.json").write_bytes(facts)
    (folder / "manifest.json").unlink()
    checkpoint.write_manifest(folder, FILES)
    with pytest.raises(RunError, match=rf"training\.json: {message}"):
        checkpoint.load(folder, warn=fail_on_warning)


def link_file(folder: Path, secret: Path) -> Path:
    """A link to a file with the same content."""
    file = folder / "model.safetensors"
    secret.write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(secret)
    return file


def link_manifest(folder: Path, secret: Path) -> Path:
    file = folder / "manifest.json"
    secret.write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(secret)
    return file


def link_folder(folder: Path, secret: Path) -> Path:
    folder.rename(secret)
    folder.symlink_to(secret)
    return folder


def link_beside(folder: Path, secret: Path) -> Path:
    (folder / "notes").symlink_to(secret)
    return folder / "notes"


def pipe(folder: Path, secret: Path) -> Path:
    (folder / "training.json").unlink()
    os.mkfifo(folder / "training.json")
    return folder / "training.json"


def make_folder(folder: Path, secret: Path) -> Path:
    (folder / "training.json").unlink()
    (folder / "training.json").mkdir()
    return folder / "training.json"


@posix
@pytest.mark.parametrize("change", [link_file, link_manifest, link_folder, link_beside, pipe, make_folder])
def test_links_and_special_files_are_refused(tmp_path: Path, change: Callable[[Path, Path], Path]) -> None:
    checkpoint.save(tmp_path / "last", snapshot(1))
    path = change(tmp_path / "last", tmp_path / "secret")
    with pytest.raises(RunError) as error:
        checkpoint.load(tmp_path / "last", warn=fail_on_warning)
    assert str(error.value).startswith(f"{path}: expected a ")


@posix
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_links_are_not_followed_and_pipes_do_not_block(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "training.json")
    with pytest.raises(RunError, match=r"training\.json"):
        checkpoint.read_text(tmp_path / "training.json")


@posix
def test_a_link_instead_of_the_temporary_folder_is_not_followed(pair: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    pair.with_name("last.partial").symlink_to(tmp_path / "precious")
    with pytest.raises(RunError, match="last: cannot save"):
        checkpoint.save(pair, snapshot(3))
    assert (tmp_path / "precious" / "file").exists()
    assert value(pair, warn=fail_on_warning) == 2
