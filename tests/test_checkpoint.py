"""Damage, death, a full disk and ill will: what is loaded is, bit for bit, what was saved, or it is refused by name."""

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
from seqloom.checkpoint import FILES, BadRun, Snapshot

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


def same(found: Tensor, wanted: Tensor) -> bool:
    """Equal in type, shape and every bit, NaNs included."""
    bits = [tensor.detach().contiguous().reshape(-1).view(torch.uint8) for tensor in (found, wanted)]
    return found.dtype == wanted.dtype and found.shape == wanted.shape and torch.equal(*bits)


def equal(found: Snapshot, wanted: Snapshot) -> bool:
    pairs = [(found.model, wanted.model), (found.training, wanted.training)]
    tensors = all(a.keys() == b.keys() and all(same(a[name], b[name]) for name in a) for a, b in pairs)
    return tensors and found.facts == wanted.facts


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def put(file: Path, data: bytes) -> None:
    """Some file systems wait for the disk when a file is written over, but not for a new one."""
    file.unlink()
    file.write_bytes(data)


def never(message: str) -> None:
    pytest.fail(f"warned: {message}")


def value(folder: Path, *, warn: Callable[[str], object] = lambda _: None) -> int:
    """Which of the snapshots stands there; it has to be that one in every bit."""
    found = checkpoint.load(folder, warn=warn)
    number = int(found.facts["value"])
    assert equal(found, snapshot(number))
    return number


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """Snapshot 2, with snapshot 1 before it."""
    folder = tmp_path / "last"
    checkpoint.save(folder, snapshot(1))
    checkpoint.save(folder, snapshot(2))
    assert value(folder, warn=never) == 2
    return folder


# What goes in comes out


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
def test_every_bit_of_every_type_comes_back(tmp_path: Path, dtype: torch.dtype) -> None:
    noise = torch.randint(256, (6, 5, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    tensors = {
        "plain": noise.view(dtype),  # random bytes: NaNs with payload, denormals, −0
        "scalar": noise.view(dtype)[0, 0, 0],
        "turned": noise.view(dtype).transpose(0, 2),
        "strided": noise.view(dtype)[::2, 1:, ::2],
        "repeated": noise.view(dtype)[:1].expand(4, -1, -1),
        "empty": torch.zeros(0, 3, dtype=dtype),
        "nothing": torch.zeros(0, dtype=dtype),
    }
    checkpoint.save(tmp_path / "last", Snapshot(tensors, {}, {}))
    found = checkpoint.load(tmp_path / "last", warn=never)
    assert equal(found, Snapshot(tensors, {}, {}))
    peer = load_file(tmp_path / "last" / "model.safetensors")
    assert all(same(peer[name], found.model[name]) for name in peer)


def test_booleans_random_state_and_conjugates_come_back(tmp_path: Path) -> None:
    z = torch.complex(torch.arange(3.0), torch.ones(3))
    tensors = {
        "mask": torch.tensor([True, False, True]),
        "random": torch.get_rng_state(),
        "complex": z,
        "conjugate": z.conj(),
        "imaginary": z.conj().imag,
        "turned": z.outer(z).T.conj(),
        "turned back": z.outer(z + 1).T.conj(),
        "parameter": nn.Parameter(torch.ones(2)),
    }
    checkpoint.save(tmp_path / "last", Snapshot({}, tensors, {}))
    found = checkpoint.load(tmp_path / "last", warn=never)
    for name, tensor in tensors.items():
        assert torch.equal(found.training[name], tensor), name
        assert not found.training[name].requires_grad


def test_facts_come_back(tmp_path: Path) -> None:
    facts: dict[str, Any] = {
        "best": float("-inf"),
        "rate": 0.1 + 0.2,
        "big": 2**80,
        "none": None,
        "text": "ü\n\0\ud800",
        "list": [[], {}],
    }
    checkpoint.save(tmp_path / "last", Snapshot({}, {}, facts))
    assert checkpoint.load(tmp_path / "last", warn=never) == Snapshot({}, {}, facts)


def test_a_tensor_of_several_names_is_written_once(tmp_path: Path) -> None:
    embedding, output = nn.Embedding(1000, 8), nn.Linear(8, 1000, bias=False)
    output.weight = embedding.weight
    model = nn.ModuleDict({"embedding": embedding, "output": output})
    checkpoint.save(tmp_path / "last", Snapshot(model.state_dict(), {}, {}))
    found = checkpoint.load(tmp_path / "last", warn=never).model
    assert found.keys() == {"embedding.weight", "output.weight"}
    assert found["embedding.weight"] is found["output.weight"]
    assert same(found["output.weight"], output.weight)
    assert (tmp_path / "last" / "model.safetensors").stat().st_size < 1000 * 8 * 4 + 300


def test_views_of_one_memory_come_back_apart(tmp_path: Path) -> None:
    whole = torch.arange(12.0)
    views = {
        "whole": whole,
        "part": whole[3:7],
        "square": whole.view(3, 4),
        "turned": whole.view(3, 4).T,
        "bits": whole.view(torch.int32),
    }
    checkpoint.save(tmp_path / "last", Snapshot(views, {}, {}))
    found = checkpoint.load(tmp_path / "last", warn=never)
    assert equal(found, Snapshot(views, {}, {}))


@pytest.mark.parametrize(
    "tensors",
    [{"a": torch.zeros(2, dtype=torch.complex128)}, {"a": torch.eye(3).to_sparse()}, {"__metadata__": torch.zeros(1)}],
)
def test_tensors_that_cannot_be_held_are_refused_and_nothing_is_lost(
    tmp_path: Path, tensors: dict[str, Tensor]
) -> None:
    checkpoint.save(tmp_path / "last", snapshot(1))
    before = contents(tmp_path)
    with pytest.raises(BadRun, match="last"):
        checkpoint.save(tmp_path / "last", Snapshot(tensors, {}, {}))
    assert contents(tmp_path) == before


def test_facts_that_json_cannot_hold_are_refused_before_anything_happens(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        checkpoint.save(tmp_path / "last", Snapshot({}, {}, {"a": torch.zeros(1)}))
    with pytest.raises(BadRun, match=r"training\.json: more than"):
        checkpoint.save(tmp_path / "last", Snapshot({}, {}, {"a": "x" * checkpoint.LIMITS["training.json"]}))
    assert not list(tmp_path.iterdir())
    assert not checkpoint.places(tmp_path / "last")


@posix
def test_files_are_as_readable_as_others(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "last", snapshot(1))
    (tmp_path / "plain").touch()
    modes = {path.stat().st_mode for path in [tmp_path / "plain", *(tmp_path / "last").iterdir()]}
    assert len(modes) == 1


def test_all_is_on_the_disk_before_it_takes_its_place(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    events: list[object] = []
    fsync, rename = os.fsync, os.rename

    def note_fsync(descriptor: int) -> None:
        events.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def note_rename(source: Path, target: Path) -> None:
        events.append((source.name, target.name))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "rename", note_rename)
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
def test_damage_is_named_and_the_one_before_is_used(
    pair: Path, damage: Callable[[bytes, random.Random], bytes], times: int
) -> None:
    chance = random.Random(times)  # noqa: S311
    previous = pair.with_name("last.previous")
    for _ in range(times):
        name = chance.choice([*FILES, "manifest.json"])
        file, older = pair / name, previous / name
        good, good_older = file.read_bytes(), older.read_bytes()
        put(file, damage(good, chance))
        damaged = contents(pair.parent)
        told: list[str] = []
        assert value(pair, warn=told.append) == 1
        assert len(told) == 1
        assert str(file) in told[0]
        assert str(previous) in told[0]

        put(older, damage(good_older, chance))
        with pytest.raises(BadRun) as both:
            checkpoint.load(pair, warn=never)
        assert str(file) in str(both.value)
        assert str(older) in str(both.value)

        put(older, good_older)
        assert contents(pair.parent) == damaged, "something was deleted or changed"
        put(file, good)
    assert value(pair, warn=never) == 2


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_missing_and_longer_files_are_named(pair: Path, name: str) -> None:
    file = pair / name
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(BadRun, match=name):
        checkpoint.check(pair)
    file.unlink()
    told: list[str] = []
    assert value(pair, warn=told.append) == 1
    assert str(file) in told[0]


def test_a_checkpoint_that_never_was(tmp_path: Path) -> None:
    with pytest.raises(BadRun, match=r"last: no checkpoint has been saved"):
        checkpoint.load(tmp_path / "last", warn=never)


# Death


class Death(BaseException):
    """Stands for kill -9: nothing comes after it."""


Fault = Callable[[int, str], object]  # the number of an operation, and its name


@contextmanager
def watched(fault: Fault, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have ``fault`` called before each operation that changes the disk, and half-way through writes."""
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
    """Folders to begin in, and the snapshots of which one has to be there after a failed save of snapshot 9."""
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
def test_death_at_every_operation_leaves_a_whole_checkpoint(
    tmp_path: Path, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    template, before = starts(tmp_path)[start]
    folder = tmp_path / "here" / "last"
    for deadly in range(1, 1000):

        def die(number: int, _: str, deadly: int = deadly) -> None:
            if number >= deadly:
                raise Death

        shutil.rmtree(folder.parent, ignore_errors=True)
        shutil.copytree(template, folder.parent)
        try:
            with watched(die, monkeypatch):
                checkpoint.save(folder, snapshot(9))
        except Death:
            if before or checkpoint.places(folder):
                assert value(folder) in before | {9}
            # … and a death in the first save after that, at the same place
            again = {value(folder)} if checkpoint.places(folder) else set()
            with suppress(Death), watched(die, monkeypatch):
                checkpoint.save(folder, snapshot(10))
            if again:
                assert value(folder) in again | {10}
            checkpoint.save(folder, snapshot(11))
            assert value(folder, warn=never) == 11
            left = {path.name for path in folder.parent.iterdir()}
            assert left <= {"last", "last.previous"}
        else:
            assert deadly > 25, "the faults were not seen"
            assert value(folder, warn=never) == 9
            return
    pytest.fail("never ended")


GROWING = ("mkdir", "write", "fsync", "save_file")


@pytest.mark.parametrize("start", ["nothing", "one", "two", "three"])
@pytest.mark.parametrize("lasting", [False, True])
def test_an_error_at_every_operation_changes_nothing(
    tmp_path: Path, start: str, lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any operation fails once, or all that need room fail from there on."""
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
            with watched(fail, monkeypatch):
                checkpoint.save(folder, snapshot(9))
        except BadRun as error:
            refused += 1
            message = str(error)
            assert "No space left on device" in message
            assert contents(folder.parent) == before
            assert {path.name for path in folder.parent.iterdir()} == {path.name for path in template.iterdir()}
        else:
            assert value(folder, warn=never) == 9
            if not failed:
                assert refused > 25, "the faults were not seen"
                return
    pytest.fail("never ended")


@contextmanager
def child(work: Callable[[int], None]) -> Iterator[tuple[int, int]]:
    """A process that does ``work``, given the end of a pipe to write to; its number and the pipe's end to read from."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads: the child does little
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
    """Kill a process that saves in a loop, at random moments; what it left, by the names of the folders."""
    chance = random.Random(seed)  # noqa: S311
    last, seen = 0, set()
    for _ in range(times):

        def work(writer: int, last: int = last) -> None:
            tell = os.write
            with watched(lambda _, __: bool(tell(writer, b".")), pytest.MonkeyPatch()):
                for number in range(last + 1, last + 1000):
                    checkpoint.save(folder, snapshot(number))
                    tell(writer, b"!")

        finished = 0
        with child(work) as (_, reader):
            for _ in range(chance.randrange(1, 150)):
                byte = os.read(reader, 1)
                assert byte, "it ended by itself"
                finished += byte == b"!"
        seen.add(" ".join(sorted(path.name for path in folder.parent.iterdir())))
        if last or finished or checkpoint.places(folder):
            found = value(folder)
            assert found >= last + finished, "a finished checkpoint was lost"
            last = found
    return seen


@posix
def test_kill_in_the_middle_of_a_save(tmp_path: Path) -> None:
    """The child does not wait to be killed, so that the places differ from run to run."""
    seen = kill_while_saving(tmp_path / "last", times=30)
    assert any("last.partial" in names for names in seen), "no kill hit a save"
    checkpoint.save(tmp_path / "last", snapshot(1))
    assert {path.name for path in tmp_path.iterdir()} == {"last", "last.previous"}


@posix
def test_a_real_limit_of_the_file_size(pair: Path) -> None:
    import resource

    def work(writer: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
        try:
            checkpoint.save(pair, Snapshot({"weight": torch.zeros(2000)}, {}, {}))
        except BadRun as error:
            os.write(writer, str(error).encode())

    before = contents(pair.parent)
    with child(work) as (_, reader):
        message = os.read(reader, 1000).decode()
    assert message.startswith(f"{pair}: not saved: ")
    assert "File too large" in message
    assert contents(pair.parent) == before


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="nothing is read-only for the superuser")
def test_a_read_only_folder(pair: Path) -> None:
    pair.parent.chmod(0o555)
    try:
        with pytest.raises(BadRun, match="last: not saved: Permission denied"):
            checkpoint.save(pair, snapshot(3))
        assert value(pair, warn=never) == 2
    finally:
        pair.parent.chmod(0o755)


# Ill will


def raw(header: object, data: bytes = b"", *, length: int | None = None) -> bytes:
    """A safetensors file by its definition: length of the header, header, data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(shape: list[int], *offsets: int, dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def archive() -> bytes:
    """What a renamed .pt file is, with a way out of its folder."""
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
    "all at one place": raw({"a": entry([2], 0, 8), "b": entry([2], 0, 8)}, bytes(8)),
    "hole": raw({"a": entry([1], 0, 4), "b": entry([1], 8, 12)}, bytes(12)),
    "offsets turned round": raw({"a": entry([1], 4, 0)}, bytes(4)),
    "offsets beyond the end": raw({"a": entry([1000], 0, 4000)}, bytes(4)),
    "shape larger than its bytes": raw({"a": entry([1000], 0, 4)}, bytes(4)),
    "more bytes than tensors": raw({"a": entry([1], 0, 4)}, bytes(8)),
    "objects": raw({"a": entry([1], 0, 8, dtype="OBJECT")}, bytes(8)),
    "type that torch does not have": raw({"a": entry([4], 0, 3, dtype="F6_E2M3")}, bytes(3)),
    "half bytes": raw({"a": entry([2], 0, 1, dtype="F4")}, bytes(1)),
    "metadata of another type": raw({"__metadata__": {"a": 5}}),
    "name for what is not there": raw({"__metadata__": {"a": "b"}}),
}


@pytest.mark.parametrize("file", ["model.safetensors", "training.safetensors"])
@pytest.mark.parametrize("case", TENSORS)
def test_ill_meant_tensors_are_refused(tmp_path: Path, file: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "last"
    checkpoint.save(folder, snapshot(1))
    (folder / file).write_bytes(TENSORS[case])
    (folder / "manifest.json").unlink()
    checkpoint.seal(folder, FILES)
    before = contents(tmp_path)
    with pytest.raises(BadRun, match=file):
        checkpoint.load(folder, warn=never)
    assert contents(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} == {"last"}


def closed(content: dict[str, Any]) -> bytes:
    """A manifest with a sha256 that fits, told anew: the way a manifest is closed must never change."""
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return (json.dumps({**content, "sha256": digest}, indent=2) + "\n").encode()


def listing(**changes: object) -> dict[str, Any]:
    return {name: {"size": 0, "sha256": ""} for name in FILES} | changes


MANIFESTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not JSON"),
    "not JSON": (b"{", "not JSON"),
    "not UTF-8": (b'{"\xff": 1}', "byte 2 is not UTF-8"),
    "a list": (b"[]", "list, wanted a JSON object"),
    "deep": (b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}", "too deeply nested"),
    "deep enough to read": (b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", "too deeply nested|differ"),
    "huge": (b" " * 10**6, "more than 65536 bytes"),
    "huge number": (b'{"format": ' + b"9" * 10_000 + b"}", "not JSON"),
    "not closed": (b'{"format": 1, "files": {}}', "its content and its sha256 differ"),
    "no format": (closed({"files": listing()}), "format is None, wanted a number"),
    "format of another type": (closed({"format": "1", "files": listing()}), "format is '1'"),
    "no files": (closed({"format": 1}), "does not list just these files"),
    "a list of files": (closed({"format": 1, "files": list(FILES)}), "does not list just these files"),
    "too few files": (closed({"format": 1, "files": {}}), "does not list just these files"),
    "a way out": (closed({"format": 1, "files": listing(**{"../../secret": {}})}), "does not list just these files"),
    "an absolute path": (
        closed({"format": 1, "files": listing(**{"/etc/passwd": {}})}),
        "does not list just these files",
    ),
    "no entry": (
        closed({"format": 1, "files": listing(**{"training.json": None})}),
        "training.json needs a size and a sha256",
    ),
    "size of another type": (
        closed({"format": 1, "files": listing(**{"training.json": {"size": "2", "sha256": ""}})}),
        "training.json needs a size and a sha256",
    ),
    "negative size": (
        closed({"format": 1, "files": listing(**{"model.safetensors": {"size": -1, "sha256": ""}})}),
        "model.safetensors: damaged: .* bytes, the manifest says -1",
    ),
    "newer": (closed({"format": 2, "seal": "new"}), "format 2 is newer than 1, the newest known here: upgrade"),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_ill_meant_manifests_are_refused(tmp_path: Path, case: str) -> None:
    data, message = MANIFESTS[case]
    checkpoint.save(tmp_path / "last", snapshot(1))
    (tmp_path / "last" / "manifest.json").write_bytes(data)
    before = contents(tmp_path)
    with pytest.raises(BadRun, match=rf"last.(manifest\.json: )?.*({message})"):
        checkpoint.load(tmp_path / "last", warn=never)
    assert contents(tmp_path) == before


def test_a_newer_format_is_not_taken_for_damage(pair: Path) -> None:
    """The one before could be read, but is not what the user means."""
    (pair / "manifest.json").write_bytes(closed({"format": 2}))
    with pytest.raises(BadRun, match="upgrade"):
        checkpoint.load(pair, warn=never)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (b"[" * 100_000, "too deeply nested"),
        (b"[]", "list, wanted a JSON object"),
        (b"\xff", "byte 0 is not UTF-8"),
        (b"", "not JSON"),
        (b" " * (checkpoint.LIMITS["training.json"] + 1), "more than 16777216 bytes"),
    ],
)
def test_ill_meant_facts_are_refused(tmp_path: Path, facts: bytes, message: str) -> None:
    folder = tmp_path / "last"
    checkpoint.save(folder, snapshot(1))
    (folder / "training.json").write_bytes(facts)
    (folder / "manifest.json").unlink()
    checkpoint.seal(folder, FILES)
    with pytest.raises(BadRun, match=rf"training\.json: {message}"):
        checkpoint.load(folder, warn=never)


def link_file(folder: Path, secret: Path) -> Path:
    """The link leads to the very bytes that the manifest wants."""
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


def nest(folder: Path, secret: Path) -> Path:
    (folder / "training.json").unlink()
    (folder / "training.json").mkdir()
    return folder / "training.json"


@posix
@pytest.mark.parametrize("change", [link_file, link_manifest, link_folder, link_beside, pipe, nest])
def test_links_and_special_files_are_refused(tmp_path: Path, change: Callable[[Path, Path], Path]) -> None:
    checkpoint.save(tmp_path / "last", snapshot(1))
    named = change(tmp_path / "last", tmp_path / "secret")
    with pytest.raises(BadRun) as refused:
        checkpoint.load(tmp_path / "last", warn=never)
    assert str(refused.value).startswith(f"{named}: a ")


@posix
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_opening_follows_no_link_and_waits_for_no_pipe(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "training.json")
    with pytest.raises(BadRun, match=r"training\.json"):
        checkpoint.read_text(tmp_path / "training.json")


@posix
def test_a_link_in_the_place_of_a_temporary_folder_leads_nowhere(pair: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    pair.with_name("last.partial").symlink_to(tmp_path / "precious")
    with pytest.raises(BadRun, match="last: not saved"):
        checkpoint.save(pair, snapshot(3))
    assert (tmp_path / "precious" / "file").exists()
    assert value(pair, warn=never) == 2
