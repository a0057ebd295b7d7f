"""Clients of other projects, as the page shows them: the package of OpenAI, and one of the Open Inference Protocol.

They are run by this Python, or by another one that has them: SEQLOOM_CLIENTS=ENVIRONMENT/bin/python.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.service.running import Client, serving
from tests.service.test_serve import PAGE, make_folder

PYTHON = os.environ.get("SEQLOOM_CLIENTS", sys.executable)


def snippets() -> dict[str, str]:
    """The Python programs of the page by the package that they need."""
    blocks = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return {
        name: block
        for name in ("openai", "tritonclient")
        for block in blocks
        if re.search(rf"^(from|import) {name}\b", block, re.MULTILINE)
    }


def is_installed(name: str) -> bool:
    if sys.executable == PYTHON:
        return find_spec(name) is not None
    return subprocess.run([PYTHON, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("clients"))


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    with serving(sorted((folder / "runs").iterdir())) as running:
        yield running


@pytest.mark.parametrize("name", ["openai", "tritonclient"])
def test_clients_of_the_page_get_their_answers(name: str, request: pytest.FixtureRequest) -> None:
    program = snippets()[name]
    if not is_installed(name):
        pytest.skip(f"{name} is not installed; SEQLOOM_CLIENTS names a Python that has it")
    folder, client = request.getfixturevalue("folder"), request.getfixturevalue("client")
    program = program.replace("127.0.0.1:8000", f"127.0.0.1:{client.port}")
    result = subprocess.run([PYTHON, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()
