"""README and docs say what is so: their Python blocks run and print what they promise, their commands exist."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seqloom.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def pages() -> list[object]:
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES]


def commands() -> list[str]:
    """Every `seqloom ...` that stands in an indented block or in backquotes, without the comment after it."""
    found = set()
    for page in PAGES:
        text = page.read_text()
        indented = re.findall(r"^ {4}(seqloom .+?)(?:  .*)?$", text, re.MULTILINE)
        quoted = re.findall(r"`(seqloom [a-z][^`]*)`", text)
        found |= {*indented, *quoted}
    return sorted(found)


@pytest.mark.parametrize("page", pages())
def test_python_blocks_run_and_print_what_they_say(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    code = "\n".join(blocks)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(page), "exec"), {"__name__": page.stem})  # noqa: S102
    promised = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert printed.getvalue().splitlines() == promised


def test_readme_examples_are_short() -> None:
    first, second = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(first.splitlines()) <= 10
    assert len(second.splitlines()) <= 22


@pytest.mark.parametrize("command", commands())
def test_documented_commands_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, *words = shlex.split(command)
    if words[0] == "demo":
        words.append("--quick")
    elif words[0] == "bench":
        words.append("--help")
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("page", [*pages(), pytest.param(ROOT / "ARCHITECTURE.md", id="ARCHITECTURE.md")])
def test_named_files_exist(page: Path) -> None:
    text = page.read_text()
    links = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target]
    scripts = re.findall(r"\bscripts/\w+", text)
    for target in [*((page.parent / link) for link in links), *((ROOT / script) for script in scripts)]:
        assert target.exists(), target
