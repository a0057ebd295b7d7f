"""What stands around the code is true: the version, the workflows, the container, the citation and the templates."""

import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import seqloom

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
YAML_FILES = sorted([*(ROOT / ".github").rglob("*.yml"), ROOT / "CITATION.cff"])
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = [path for path in YAML_FILES if path.parent.name == "ISSUE_TEMPLATE" and path.stem != "config"]


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in load(workflow)["jobs"].values() for step in job["steps"]]


def identify(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", YAML_FILES, ids=identify)
def test_yaml_is_valid(path: Path) -> None:
    assert isinstance(load(path), dict)


def test_versions_agree() -> None:
    changes = re.findall(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert changes[0] == load(ROOT / "CITATION.cff")["version"] == seqloom.__version__
    runtime = tomllib.loads((ROOT / "runtime" / "pyproject.toml").read_text())["project"]
    assert runtime["version"] == seqloom.__version__
    assert set(runtime["dependencies"]) <= {*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["export"]}


def test_the_citation_has_what_its_format_requires() -> None:
    citation = load(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["cff-version"] == "1.2.0"
    assert citation["license"] == PROJECT["license"]
    assert citation["type"] == "software"
    assert all("name" in author or "family-names" in author for author in citation["authors"])


def test_workflows_test_every_system_and_python() -> None:
    matrix = load(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == PYTHONS == ["3.11", "3.12", "3.13", "3.14"]
    assert all(version in SpecifierSet(PROJECT["requires-python"]) for version in PYTHONS)
    assert [name.partition("-")[0] for name in matrix["os"]] == ["ubuntu", "macos", "windows"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=identify)
def test_workflows_ask_for_little(workflow: Path) -> None:
    content = load(workflow)
    assert content["permissions"] == {"contents": "read"}
    assert content["defaults"]["run"]["shell"] == "bash"  # our scripts, on Windows, too
    assert all("timeout-minutes" in job for job in content["jobs"].values())
    # "on" is True in YAML 1.1. This event would run the code of a stranger's pull request with a token that may write.
    assert "pull_request_target" not in content[True]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=identify)
def test_workflows_use_known_actions(workflow: Path) -> None:
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            assert re.fullmatch(r"actions/(checkout|setup-python|upload-artifact)@v\d+", step["uses"])
        if step.get("uses", "").startswith("actions/checkout"):
            assert step["with"]["persist-credentials"] is False
        for file in step.get("with", {}).get("cache-dependency-path", "").split():
            assert (ROOT / file).is_file()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=identify)
def test_workflows_run_scripts_that_exist(workflow: Path) -> None:
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    assert {shlex.split(command)[0] for command in commands} <= {f"scripts/{path.name}" for path in scripts()}
    for command in commands:
        script, *options = shlex.split(command)
        assert all(option in (ROOT / script).read_text() for option in options)


def scripts() -> list[Path]:
    return sorted((ROOT / "scripts").iterdir())


@pytest.mark.parametrize("script", scripts(), ids=identify)
def test_scripts_run_under_bash_everywhere(script: Path) -> None:
    text = script.read_bytes()
    assert text.startswith(b"#!/usr/bin/env bash\n# ")
    assert b"\nset -euo pipefail\n" in text
    assert b"\r" not in text
    assert os.name == "nt" or os.access(script, os.X_OK)
    # bash 3.2, which macOS has, knows none of these.
    assert not re.search(rb"declare -A|mapfile|readarray|\$\{\w+(,,|\^\^|@Q)\}|&>>|\|&", text)
    called = re.findall(r"(?<![\w.])scripts/(\w+)", text.decode())
    assert [name for name in called if not (ROOT / "scripts" / name).is_file()] == []


def test_scripts_are_executable_and_line_ends_fixed_in_git() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--stage", "scripts"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode or not listed.stdout:
        pytest.skip("not a git checkout")
    assert {line.split()[0] for line in listed.stdout.splitlines()} == {"100755"}
    assert "* text=auto eol=lf" in (ROOT / ".gitattributes").read_text().splitlines()


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile: name and arguments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", "", text).splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]


def ignored(name: str) -> bool:
    """Whether .dockerignore, which lists what it keeps, leaves a file out of the build."""
    return f"!{name}" not in (ROOT / ".dockerignore").read_text().splitlines()


def test_the_container_copies_files_that_exist() -> None:
    copies = [arguments for name, arguments in instructions() if name == "COPY" and "--from" not in arguments]
    names = [name for arguments in copies for name in arguments.split()[:-1]]
    assert set(names) >= {"pyproject.toml", "constraints.txt", "README.md", "LICENSE", "src"}
    assert [name for name in names if not (ROOT / name).exists() or ignored(name)] == []


def test_the_container_runs_our_command_as_an_ordinary_user() -> None:
    names = [name for name, _ in instructions()]
    last = dict(instructions()[len(names) - names[::-1].index("FROM") :])
    assert last["USER"] not in {"root", "0"}
    assert names.index("USER") > max(index for index, name in enumerate(names) if name == "RUN")
    assert last["ENTRYPOINT"] == f'["{next(iter(PROJECT["scripts"]))}"]'
    bases = [arguments.split()[0] for name, arguments in instructions() if name == "FROM"]
    assert {re.fullmatch(r"python:(3\.\d+)-slim", base)[1] for base in bases} <= set(PYTHONS)  # type: ignore[index]


def test_the_container_installs_extras_that_exist() -> None:
    (program,) = (arguments for name, arguments in instructions() if name == "RUN" and "tomllib" in arguments)
    extras = re.findall(r"extras\['(\w+)'\]", program)
    assert extras
    assert set(extras) <= PROJECT["optional-dependencies"].keys()


@pytest.mark.parametrize("form", FORMS, ids=identify)
def test_issue_forms_are_complete(form: Path) -> None:
    content = load(form)
    assert {"name", "description", "body"} <= content.keys()
    fields = [field for field in content["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def installed(group: str) -> list[Requirement]:
    """The requirements of an extra, with those of the extras that it names."""
    requirements = [Requirement(line) for line in PROJECT["optional-dependencies"][group]]
    own = [extra for requirement in requirements if requirement.name == PROJECT["name"] for extra in requirement.extras]
    others = [requirement for requirement in requirements if requirement.name != PROJECT["name"]]
    return [*others, *(requirement for extra in own for requirement in installed(extra))]


def test_what_our_scripts_install_is_pinned() -> None:
    pins = [Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if line[0] != "#"]
    pinned = {pin.name.lower().replace("_", "-"): pin.specifier for pin in pins}
    needed = [Requirement(line) for line in PROJECT["dependencies"]]
    needed += [requirement for group in ("dev", "docs", "oracles") for requirement in installed(group)]
    for requirement in needed:
        (version,) = pinned[requirement.name.lower().replace("_", "-")]
        assert version.operator == "==", requirement
        assert version.version in requirement.specifier, requirement
