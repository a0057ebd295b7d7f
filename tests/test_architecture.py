"""The rules of ARCHITECTURE.md, read from the source: who imports whom, what is public, what must not exist."""

import ast
import re
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

import seqloom

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "seqloom"
SOURCES = sorted(PACKAGE.rglob("*.py"))
PACKAGES = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))

MAY_IMPORT: dict[str, set[str]] = {
    "toml_places": set(),
    "wording": {"toml_places"},
    "config": {"toml_places", "wording"},
    "state": set(),
    "kernels": set(),
    "metrics": set(),
    "terminal": set(),
    "interrupt": set(),
    "checkpoint": set(),
    "run": {"checkpoint"},
    "cells": {"state"},
    "layers": {"cells", "kernels", "state"},
    "data": {"config", "state", "kernels"},
    "training": {"config", "state", "data", "checkpoint"},
    "decoding": {"config", "state", "kernels"},
    "models": {"config", "run", "state", "kernels", "data", "cells", "layers", "decoding"},
    "tasks": {"config", "state", "data", "metrics", "layers", "models", "decoding"},
    "insight": {"terminal", "data", "layers", "models", "decoding"},
    "model": {"config", "checkpoint", "run", "data", "training", "models", "decoding", "tasks"},
    "listen": {"data", "model"},
    "explain": {"terminal", "data", "decoding", "models", "tasks", "insight", "model"},
    "pictures": {"run", "tasks", "insight", "model"},
    "workflow": {"checkpoint", "run", "interrupt", "data", "training", "models", "model", "pictures", "seqloom"},
    "options": {"interrupt", "training"},
    "compare": {
        *("config", "metrics", "terminal", "interrupt", "run", "layers", "models", "training", "model", "workflow"),
        *("options", "seqloom"),
    },
    "check": {"terminal", "data", "training", "tasks", "model", "workflow"},
    "lab": {"metrics", "terminal", "layers", "cells", "data", "decoding", "insight", "model", "explain"},
    "demo": {"config", "terminal", "data", "lab", "model", "workflow"},
    "info": {"terminal", "layers", "kernels", "seqloom"},
    "bench": {
        *("terminal", "data", "cells", "layers", "kernels", "models", "decoding", "training", "tasks"),
        *("metrics", "run", "model", "workflow", "compare", "info", "seqloom"),
    },
    "cli": {
        *("options", "config", "terminal", "run", "data", "decoding", "tasks", "training"),
        *("model", "listen", "explain", "workflow", "compare", "check", "demo", "info", "bench", "seqloom"),
    },
    "__main__": {"cli"},
    "__init__": {"layers", "cells", "decoding", "model", "workflow"},
}
"""Lowest first; ``seqloom`` is the package itself, that is, its version."""


def part(path: Path) -> str:
    """The part of the house that a file belongs to: its folder, or the file itself at the top."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            root, _, rest = f"{name}.".partition(".")
            if root == "seqloom":
                top = rest.split(".")[0]
                ours = (PACKAGE / f"{top}.py").is_file() or (PACKAGE / top / "__init__.py").is_file()
                found.add(top if top and ours else "seqloom")
    return found


def sources(*, under: Path = PACKAGE) -> list[object]:
    return [pytest.param(path, id=str(path.relative_to(under))) for path in SOURCES]


@pytest.mark.parametrize("path", sources())
def test_imports_go_down_only(path: Path) -> None:
    own = part(path)
    assert own in MAY_IMPORT, f"{own} is new: say in MAY_IMPORT and in ARCHITECTURE.md what it may import"
    assert imported_parts(path) <= MAY_IMPORT[own] | {own}


def test_rules_are_acyclic_and_about_existing_parts() -> None:
    below: set[str] = {"seqloom"}
    for name, allowed in MAY_IMPORT.items():
        assert (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()
        assert allowed <= below, f"{name} may import only what stands above it in the table"
        below.add(name)


def test_architecture_document_names_every_part() -> None:
    document = (ROOT / "ARCHITECTURE.md").read_text()
    for name in MAY_IMPORT.keys() - {"__main__"}:
        assert re.search(rf"^ +{re.escape(name)}(\.py|/)", document, re.MULTILINE), name


def test_public_names() -> None:
    assert sorted(seqloom.__all__) == dir(seqloom)
    assert all(getattr(seqloom, name) is not None for name in seqloom.__all__)
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen_by_types = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen_by_types == set(seqloom.__all__) - {"__version__"}
    with pytest.raises(AttributeError, match="no attribute 'lstm'"):
        _ = seqloom.lstm


@pytest.mark.parametrize("folder", [pytest.param(path, id=path.name) for path in PACKAGES])
def test_a_package_exports_what_it_imports(folder: Path) -> None:
    tree = ast.parse((folder / "__init__.py").read_text())
    imported = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    module = import_module(f"seqloom.{folder.name}")
    assert imported == set(getattr(module, "__all__", ()))
    assert all(hasattr(module, name) for name in imported)


def test_tests_mirror_the_source() -> None:
    for folder in PACKAGES:
        assert list((ROOT / "tests" / folder.name).rglob("test_*.py")), f"tests/{folder.name} has no tests"
    for path in PACKAGE.glob("[!_]*.py"):
        assert (ROOT / "tests" / f"test_{path.name}").is_file(), f"{path.name} has no tests"


def test_no_drawer_for_everything() -> None:
    for path in [*SOURCES, *(ROOT / "tests").rglob("*.py")]:
        words = re.split(r"[/_.]", str(path.relative_to(ROOT)))
        assert not {"util", "utils", "helper", "helpers", "common", "misc"} & set(words), path


@pytest.mark.parametrize("path", sources())
def test_nothing_runs_code_from_data(path: Path) -> None:
    forbidden_modules = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml"}
    forbidden_calls = {
        "eval",
        "exec",
        "compile",
        "__import__",
        "torch.load",
        "torch.save",
        "torch.jit.load",
        "numpy.load",
    }
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not {alias.name.split(".")[0] for alias in node.names} & forbidden_modules
        elif isinstance(node, ast.ImportFrom):
            assert str(node.module).split(".")[0] not in forbidden_modules
        elif isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in forbidden_calls, f"{path}:{node.lineno}"


def test_no_place_of_one_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
    if listed.returncode:
        pytest.skip("not a git checkout")
    folders = re.compile(r"(?<![\w.])/(root|home|work|opt|Users|mnt|srv)/|[A-Z]:\\Users")
    hosts = re.compile(r"\b(pypi|pythonhosted|download\.pytorch|anaconda)\.(org|com|io)\b")
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if name and path.is_file() and path != Path(__file__) and path.suffix != ".png":
            text = path.read_text()
            assert not folders.search(text), f"{name} names a folder of a machine"
            assert not hosts.search(text), f"{name} names the host of a package index"
