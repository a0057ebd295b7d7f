"""The run folder: created atomically, locked while it is trained, verified when it is opened."""

import errno
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from tests.test_checkpoint import child, contents, equal, manifest, replace_file, snapshot

from seqloom import checkpoint, files, run
from seqloom.migration import FORMAT
from seqloom.run import Run, RunError, Snapshot

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals")
ARTEFACTS = Path(__file__).parent / "artefacts"


def make(path: Path) -> Run:
    return Run.create(path, config='[task]\nname = "tag"\n', learned='{"labels": ["ü"]}', environment={"torch": "2"})


@pytest.fixture
def made(tmp_path: Path) -> Run:
    return make(tmp_path / "run")


# Creating and opening


def test_an_opened_run_is_what_was_created(tmp_path: Path) -> None:
    path = tmp_path / "several" / "folders" / "run"
    make(path)
    opened = Run.open(str(path))
    assert opened.path == path
    assert opened.config == '[task]\nname = "tag"\n'
    assert opened.learned == '{"labels": ["ü"]}'
    assert opened.environment == {"torch": "2"}
    assert {file.name for file in path.iterdir()} == {"config.toml", "learned.json", "env.json", "manifest.json"}
    assert (path / "config.toml").read_text() == opened.config
    assert (path / "learned.json").read_text() == opened.learned
    assert [folder.name for folder in path.parent.iterdir()] == ["run"]


@pytest.mark.parametrize("kind", ["run", "empty folder", "file", "dangling link"])
def test_existing_paths_are_never_overwritten(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run"
    match kind:
        case "run":
            make(path)
        case "empty folder":
            path.mkdir()
        case "file":
            path.write_text("precious")
        case _:
            path.symlink_to(tmp_path / "elsewhere")
    before = contents(tmp_path)
    with pytest.raises(RunError, match="run: already exists"):
        make(path)
    assert contents(tmp_path) == before


def test_of_two_processes_that_create_the_same_run_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    rename = os.rename

    def create_first(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "rename", rename)
        make(path)
        rename(source, target)

    monkeypatch.setattr(os, "rename", create_first)
    with pytest.raises(RunError, match="cannot create the run: Directory not empty"):
        Run.create(path, config="second", learned="", environment={})
    assert Run.open(path).config.startswith("[task]")
    assert [folder.name for folder in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("name", ["mkdir", "open", "write", "fsync", "rename"])
def test_a_run_that_cannot_be_created_leaves_nothing(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = getattr(os, name)
    for failing in range(1, 100):
        calls = 0

        def fail(*arguments: Any, failing: int = failing, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == failing:
                raise OSError(errno.EROFS, "Read-only file system")
            return function(*arguments, **options)

        with monkeypatch.context() as context:
            context.setattr(os, name, fail)
            try:
                make(tmp_path / "runs" / "run")
            except RunError as error:
                message = str(error)
            else:
                assert failing > 1
                return
        assert message.endswith("Read-only file system")
        assert not list(tmp_path.glob("runs/*"))
    pytest.fail("never ended")


def test_files_that_are_too_large_to_be_read_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"config\.toml: larger than 1,048,576 bytes"):
        Run.create(tmp_path / "run", config="#" * (2**20 + 1), learned="", environment={})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["config.toml", "learned.json", "env.json", "manifest.json"])
def test_every_changed_byte_is_detected(made: Run, name: str) -> None:
    file = made.path / name
    data = bytearray(file.read_bytes())
    for index in range(len(data)):
        data[index] ^= 1
        replace_file(file, bytes(data))
        with pytest.raises(RunError, match=re.escape(str(file))):
            Run.open(made.path)
        data[index] ^= 1
    file.unlink()
    with pytest.raises(RunError, match=re.escape(name)):
        Run.open(made.path)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("config.toml", b"#" * (2**20 + 1), "larger than 1,048,576 bytes"),
        ("config.toml", b"\xff", "byte 0 is not UTF-8"),
        ("learned.json", b"\xc3", "byte 0 is not UTF-8"),
        ("env.json", b"[" * 100_000, "too deeply nested"),
        ("env.json", b"3", "expected a JSON object, found int"),
    ],
)
def test_malicious_files_are_refused(made: Run, name: str, data: bytes, message: str) -> None:
    (made.path / name).write_bytes(data)
    (made.path / "manifest.json").unlink()
    checkpoint.write_manifest(made.path, run.FILES)
    with pytest.raises(RunError, match=rf"{re.escape(name)}: {message}"):
        Run.open(made.path)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere", "nowhere: no such run"),
        ("file", "file: not a run but a file"),
        ("empty", "empty: not a run: it has no manifest"),
    ],
)
def test_other_folders_are_refused(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=message):
        Run.open(tmp_path / path)


def test_a_missing_run_has_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "tag").mkdir()
    (tmp_path / "tga").touch()
    with pytest.raises(RunError) as error:
        Run.open(tmp_path / "tagg")
    assert str(error.value) == f"{tmp_path / 'tagg'}: no such run; did you mean {tmp_path / 'tag'}?"
    with pytest.raises(RunError, match=r"a.b: no such run$"):
        Run.open(tmp_path / "a" / "b")


def test_a_newer_format_asks_for_an_upgrade(made: Run) -> None:
    (made.path / "manifest.json").write_bytes(manifest({"format": FORMAT + 1}))
    with pytest.raises(RunError, match=f"format {FORMAT + 1} is newer than {FORMAT}, which this Seqloom"):
        Run.open(made.path)


@posix
@pytest.mark.parametrize(
    "name", ["config.toml", "manifest.json", "best", "metrics.jsonl", "train.log", ".lock", "notes.txt"]
)
@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
def test_links_and_pipes_inside_are_refused(made: Run, tmp_path: Path, name: str, kind: str) -> None:
    file = made.path / name
    if file.exists():
        file.rename(tmp_path / "secret")
    elif kind == "link":
        (tmp_path / "secret").touch()
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(tmp_path / "secret" if kind == "link" else tmp_path / "nowhere")
    with pytest.raises(RunError, match=rf"{re.escape(name)}: expected a regular file, found a (link|special file)"):
        Run.open(made.path)


@posix
def test_a_run_may_be_reached_by_a_link(made: Run, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(made.path)
    latest = Run.open(tmp_path / "latest")
    with latest.lock():
        latest.save("last", snapshot(1))
        latest.record({"step": 1})
    assert equal(made.load("last"), snapshot(1))
    assert made.rows() == [{"step": 1}]


@pytest.mark.parametrize("path", sorted(ARTEFACTS.glob("run_*")), ids=lambda path: str(path.name))
def test_runs_of_all_formats_open(path: Path) -> None:
    opened = Run.open(path)
    assert opened.config == 'name = "kept"\n'
    assert opened.learned == '{"labels": ["a", "b"]}'
    expected = Snapshot(
        {"weight": torch.tensor([[2.0, 0.5], [8.0, 32.0]]), "tied": torch.tensor([[2.0, 0.5], [8.0, 32.0]])},
        {"random": torch.tensor([1, 2, 3], dtype=torch.uint8)},
        {"step": 3, "score": 0.25},
    )
    assert equal(opened.load("best"), expected)
    assert opened.rows() == [{"step": 1, "loss": 0.5}]


# Checkpoints


def test_best_and_last_are_independent_and_the_previous_one_is_used(
    made: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not made.saved("last")
    for number in (1, 2, 3):
        made.save("last", snapshot(number))
    made.save("best", snapshot(7))
    assert equal(made.load("best"), snapshot(7))
    assert equal(made.load("last"), snapshot(3))
    made.verify("last")
    assert made.saved("last")
    assert capsys.readouterr() == ("", "")

    damaged = made.path / "last" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert equal(made.load("last"), snapshot(2))
    message = capsys.readouterr().err
    assert message.startswith(f"warning: {damaged}: damaged: ")
    assert message.endswith(f"; using {made.path / 'last.previous'} instead\n")
    with pytest.raises(RunError, match=r"model\.safetensors: damaged"):
        made.verify("last")
    (made.path / "best" / "training.json").unlink()
    with pytest.raises(RunError, match=r"best.training\.json: No such file"):
        made.load("best")


@pytest.mark.parametrize("name", ["best", "last"])
def test_a_save_removes_the_leftovers_of_killed_saves(made: Run, name: Literal["best", "last"]) -> None:
    for number in (1, 2):
        made.save("best", snapshot(number))
        made.save("last", snapshot(number))
    before = {path.name for path in made.path.iterdir()}
    for leftover in ("best.partial", "last.partial", "best.oldest", "last.oldest"):
        shutil.copytree(made.path / "best", made.path / leftover)
    made.save(name, snapshot(3))
    assert {path.name for path in made.path.iterdir()} == before


def test_other_checkpoint_names_are_refused(made: Run) -> None:
    name: Any = "../last"
    with pytest.raises(ValueError, match=r"checkpoint: expected best or last, got '../last'"):
        made.load(name)


def test_metrics_and_log_are_flushed_before_a_checkpoint(made: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made.record({"step": 1})
    made.log("a line")
    flushed: list[str] = []
    monkeypatch.setattr(files, "sync", lambda path: flushed.append(path.name))
    made.save("last", snapshot(1))
    assert flushed[:2] == ["metrics.jsonl", "train.log"]


# Locking


def hold(made: Run, *, worker: bool = False) -> Callable[[int], None]:
    """Lock the run and write 0, or the id of a forked worker that outlives its parent, to the pipe."""

    def work(writer: int) -> None:
        with made.lock():
            if worker and not (process := os.fork()):
                signal.pause()
            os.write(writer, str(process if worker else 0).encode())
            signal.pause()

    return work


@posix
def test_a_second_process_is_refused_until_the_first_is_killed(made: Run) -> None:
    with child(hold(made)) as (process, reader):
        os.read(reader, 1)
        with pytest.raises(RunError, match=f"run: in use by process {process}, which is training"), made.lock():
            pytest.fail("locked twice")
    with made.lock():
        pass


@posix
def test_a_worker_does_not_keep_the_lock_of_a_killed_parent(made: Run) -> None:
    with child(hold(made, worker=True)) as (_, reader):
        worker = int(os.read(reader, 20))
    try:
        with made.lock(), pytest.raises(RunError, match=f"in use by process {os.getpid()}"), Run.open(made.path).lock():
            pytest.fail("locked twice")
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_second_lock_in_the_same_process_is_refused(made: Run) -> None:
    other = Run.open(made.path)
    with made.lock():
        for _ in range(2):  # a refusal does not release it
            with pytest.raises(RunError, match=f"in use by process {os.getpid()}, which is training"), other.lock():
                pytest.fail("locked twice")
    with other.lock():
        pass


def test_the_lock_is_released_by_an_error(made: Run) -> None:
    with pytest.raises(KeyboardInterrupt), made.lock():
        raise KeyboardInterrupt
    with made.lock():
        pass


@posix
def test_a_lock_that_is_a_link_is_not_written_to(made: Run, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (made.path / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(RunError, match="run: cannot lock"), made.lock():
        pytest.fail("locked")
    assert (tmp_path / "precious").read_text() == "precious"


# Metrics and log


def test_log_lines_have_a_time_stamp(made: Run) -> None:
    made.log("step 1")
    made.log("façade \udcff")
    lines = (made.path / "train.log").read_text(encoding="utf-8").splitlines()
    assert [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4} ", "", line) for line in lines] == [
        "step 1",
        "façade \\udcff",
    ]


def test_rows_are_read_without_an_incomplete_last_line(made: Run) -> None:
    assert made.rows() == []
    expected = [{"step": step, "loss": step / 3, "label": "ü\n", "detail": {"a": [None]}} for step in range(5)]
    for row in expected:
        made.record(row)
    assert made.rows() == expected
    with (made.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9')
    assert made.rows() == expected


@pytest.mark.parametrize("rows", range(5))
@pytest.mark.parametrize("rest", ["", '{"step": 9', "{]\n"])
def test_truncating_keeps_the_first_rows_and_nothing_else(made: Run, rows: int, rest: str) -> None:
    for step in range(4):
        made.record({"step": step})
    lines = (made.path / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    with (made.path / "metrics.jsonl").open("a") as file:
        file.write(rest)
    made.truncate_rows(rows)
    assert (made.path / "metrics.jsonl").read_bytes() == b"".join(lines[:rows])
    made.record({"step": -1})
    assert [row["step"] for row in made.rows()] == [*range(rows), -1]
    assert {file.name for file in made.path.iterdir()} - {*run.FILES} == {"manifest.json", "metrics.jsonl"}


def test_truncating_beyond_the_end_is_refused(made: Run) -> None:
    made.truncate_rows(0)
    assert not (made.path / "metrics.jsonl").exists()
    made.record({})
    with pytest.raises(RunError, match=r"metrics\.jsonl: expected 2 complete lines, found 1"):
        made.truncate_rows(2)


def test_a_damaged_or_long_row_does_not_block_truncation(made: Run) -> None:
    rows = [b'{"a": 1}\n', b"{]\n", b'"' + b"x" * 3_000_000 + b'"\n', b"{}\n", b"rest"]
    (made.path / "metrics.jsonl").write_bytes(b"".join(rows))
    made.truncate_rows(3)
    assert (made.path / "metrics.jsonl").read_bytes() == b"".join(rows[:3])


def test_no_row_is_written_that_cannot_be_read(made: Run) -> None:
    made.record({"a": "x" * (run.MAX_LINE_BYTES - 11)})
    with pytest.raises(ValueError, match=r"a row of .*metrics\.jsonl is limited to 1,048,576 bytes, got 1,048,576"):
        made.record({"a": "x" * (run.MAX_LINE_BYTES - 10)})
    assert len(made.rows()) == 1


def test_details_are_replaced_at_once(made: Run) -> None:
    assert made.details() == {}
    for number in range(2):
        made.write_details({"per_label": {"ü": {"f1": number}}})
        assert made.details() == {"per_label": {"ü": {"f1": number}}}
    assert [file.name for file in (made.path / "details").iterdir()] == ["dev.json"]


def test_details_of_any_size_can_be_read(made: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(checkpoint.LIMITS, "dev.json", 1 << 16)
    made.write_details({"confusions": [{"count": number} for number in range(100_000)], "per_label": {}})
    assert made.details() == {"confusions": [{"count": number} for number in range(1000)], "per_label": {}}


@posix
def test_details_are_not_written_through_a_link(made: Run, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (made.path / "details").symlink_to(tmp_path / "precious")
    with pytest.raises(RunError, match="details: expected a folder, found a link"):
        made.write_details({})
    assert not list((tmp_path / "precious").iterdir())


def test_a_row_is_written_completely_or_not_at_all(made: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made.record({"step": 1})
    write = os.write

    def fill(descriptor: int, data: memoryview) -> int:
        if len(data) < 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[:3])

    with monkeypatch.context() as context:
        context.setattr(os, "write", fill)
        with pytest.raises(RunError, match=r"metrics\.jsonl: No space left on device"):
            made.record({"step": 2})
    assert (made.path / "metrics.jsonl").read_text() == '{"step": 1}\n'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a": 1}\n{]\n{}\n', ":2: not valid JSON"),
        (b"[]\n", ":1: expected a JSON object, found list"),
        (b"{}\n\xff\n", ":2: not valid JSON"),
        (b'{"a":' + b"[" * 100_000 + b"\n", ":1: too deeply nested"),
        (b" " * 2**20 + b"{}\n", ": a line is longer than 1,048,576 bytes"),
    ],
)
def test_malicious_rows_are_refused(made: Run, data: bytes, message: str) -> None:
    (made.path / "metrics.jsonl").write_bytes(data)
    with pytest.raises(RunError, match=rf"metrics\.jsonl{message}"):
        made.rows()


@posix
def test_a_huge_metrics_file_is_refused(made: Run) -> None:
    (made.path / "metrics.jsonl").touch()
    os.truncate(made.path / "metrics.jsonl", 2**40)  # sparse
    with pytest.raises(RunError, match=r"metrics\.jsonl: larger than 1,073,741,824 bytes"):
        made.rows()


@posix
@pytest.mark.parametrize("name", ["train.log", "metrics.jsonl"])
def test_links_are_not_written_through(made: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "precious").write_text('{"precious": true}\n')
    (made.path / name).symlink_to(tmp_path / "precious")
    actions: dict[str, list[Callable[[], object]]] = {
        "train.log": [lambda: made.log("x"), lambda: made.save("last", snapshot(1))],
        "metrics.jsonl": [lambda: made.record({}), lambda: made.truncate_rows(0), made.rows],
    }
    for action in actions[name]:
        with pytest.raises(RunError, match=re.escape(name)):
            action()
    assert json.loads((tmp_path / "precious").read_text()) == {"precious": True}


def test_a_run_shows_its_scores_and_not_its_files(made: Run) -> None:
    assert repr(made) == f"<Run {made.path}: tag>"
    assert "not evaluated yet" in made._repr_html_()
    metrics = {"accuracy": 0.75, "accuracy_interval": [0.5, 0.9], "examples": 1200, "per_label": {}}
    made.save("best", Snapshot({"weight": torch.zeros(2)}, {}, {"metrics": metrics}))
    for loss in (2.0, 1.0):
        made.record({"update": 1, "epoch": 1, "loss": loss})
    made.write_summary({"baseline_scores": {"accuracy": 0.5}, "finished": "2 epochs done"})
    assert repr(made) == f"<Run {made.path}: tag, accuracy 0.75 [0.5, 0.9], examples 1,200>"
    page = made._repr_html_()
    for part in ("0.75 [0.5, 0.9]", "baseline", "0.5", "2 epochs done", "training loss: 2 → 1"):
        assert part in page


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"run\\udcff': the name is not valid UTF-8"):
        run.refuse_existing(tmp_path / "run\udcff")
