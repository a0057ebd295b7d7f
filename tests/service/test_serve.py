"""The command as a process: it serves, answers the commands of its page, and ends as it should."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.contracts.tiny import RECURRENCE, _transcribe_sound, save_random
from tests.service.running import KEPT
from typer.testing import CliRunner

from seqloom.cli.main import app

PAGE = Path(__file__).parent.parent.parent / "docs" / "serve.md"


def start(*arguments: object, folder: Path) -> tuple[subprocess.Popen[str], str]:
    """A running service, and its address."""
    command = [sys.executable, "-m", "seqloom", "serve", *map(str, arguments), "--port", "0"]
    # Tests may run in the background, where a shell ignores SIGINT for all that it starts.
    process = subprocess.Popen(
        command,
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    assert process.stderr is not None
    printed = ""
    for line in process.stderr:
        printed += line
        if match := re.search(r"serving at (http://\S+);", line):
            return process, match[1]
    raise AssertionError(printed)


def stop(process: subprocess.Popen[str], number: int) -> tuple[int, str]:
    """The exit code after a signal, and what the process printed."""
    process.send_signal(number)
    _, printed = process.communicate(timeout=60)
    return process.returncode, printed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("serve"))


def make_folder(folder: Path) -> Path:
    """A folder with the runs and the recording that the page names."""
    for name in ("tag", "language_model"):
        shutil.copytree(KEPT / name, folder / "runs" / name)
    case = _transcribe_sound(encoder={**RECURRENCE, "bidirectional": False}, normalize="streaming")
    (folder / "sound").mkdir()
    shutil.move(save_random(case, folder / "sound"), folder / "runs" / "stream")
    (folder / "sounds" / "clips").mkdir(parents=True)
    with wave.open(str(folder / "sounds" / "clips" / "test-0.wav"), "wb") as file:
        file.setparams((1, 2, 4000, 0, "NONE", ""))
        file.writeframes((8000 * np.sin(np.arange(2000) / 3)).astype("<i2").tobytes())
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    process, address = start("runs/tag", "runs/language_model", "runs/stream", folder=folder)
    yield address
    code, printed = stop(process, signal.SIGTERM)
    assert code == 0
    entries = [json.loads(line) for line in printed.splitlines()]
    assert {"time", "level", "message", "method", "path", "status", "milliseconds", "client"} <= set(entries[0])


def page_commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [line for line in "".join(blocks).splitlines() if line.startswith("curl ")]


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
@pytest.mark.parametrize("command", page_commands())
def test_commands_of_the_page_are_answered(command: str, address: str, folder: Path) -> None:
    words = shlex.split(command.replace("http://127.0.0.1:8000", address))
    result = subprocess.run(
        [*words, "--silent", "--show-error", "--fail-with-body"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    if "stream" in command and "completions" in command:
        assert result.stdout.endswith("data: [DONE]\n\n")
    elif "srt" not in command:
        assert json.loads(result.stdout)["model" if "text" not in json.loads(result.stdout) else "text"] is not None


def test_ctrl_c_ends_with_its_own_code(folder: Path) -> None:
    process, _ = start("runs/tag", folder=folder)
    assert stop(process, signal.SIGINT)[0] == 130


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runs/none"], "runs/none: no such run"),
        (["runs/tag", "--host", "0.0.0.0"], "can be reached from other machines: set a token"),  # noqa: S104
        (["runs/tag", "--token", "short"], "at least 16"),
        (["runs/tag", "runs/tag"], "two runs have the name"),
        (["runs/tag", "--search", "greedy"], "search"),
    ],
)
def test_what_cannot_be_served_is_refused(
    arguments: list[str], message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, ["serve", "--port", "0", *arguments])
    assert result.exit_code == 1
    assert message in result.output


def test_an_address_that_is_taken_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(app, ["serve", "runs/tag", "--port", port])
    assert result.exit_code == 1
    assert result.output == f"seqloom: 127.0.0.1:{port}: {os.strerror(98)}\n"
