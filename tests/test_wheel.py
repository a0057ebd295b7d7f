"""The wheel holds the package and nothing else, and works from an empty folder."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import seqloom

ROOT = Path(__file__).parent.parent
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """The output of a command that knows nothing of this checkout."""
    known = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    result = subprocess.run(
        command, cwd=cwd, env=known | variables, capture_output=True, encoding="utf-8", check=False, timeout=300
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: setuptools leaves files beside the sources, and packs those of earlier builds."""
    for tool in ("pip", "setuptools"):
        if importlib.util.find_spec(tool) is None:
            pytest.skip(f"{tool} is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", "dist", ".", cwd=folder)
    (built,) = (folder / "dist").iterdir()
    return built


def program(name: str, folder: Path) -> str:
    """A program in a folder, with the suffix that it has on Windows."""
    path = shutil.which(name, path=folder)
    assert path is not None, f"{name} is not in {folder}"
    return path


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"seqloom-{seqloom.__version__}.dist-info/METADATA").decode())


def test_it_is_named_after_the_version(wheel: Path) -> None:
    assert wheel.name == f"seqloom-{seqloom.__version__}-py3-none-any.whl"
    assert metadata(wheel)["Version"] == seqloom.__version__


PACKED = {".py", ".toml", ".json", ".js", ".css", ".html", ".svg"}


def test_it_holds_the_package_and_nothing_else(wheel: Path) -> None:
    source = ROOT / "src"
    package = {
        path.relative_to(source).as_posix()
        for path in (source / "seqloom").rglob("*")
        if path.suffix in PACKED or path.name == "py.typed"
    }
    added = {name for name in names(wheel) if ".dist-info/" not in name}
    assert added == {*package, "seqloom_runtime.py"}
    assert {"seqloom/py.typed", "seqloom/examples/translate.toml"} <= package
    assert f"seqloom-{seqloom.__version__}.dist-info/licenses/LICENSE" in names(wheel)


def test_every_file_of_the_package_is_of_a_kind_that_is_packed() -> None:
    tracked = (path for path in (ROOT / "src" / "seqloom").rglob("*") if path.is_file())
    other = [path for path in tracked if path.suffix not in {*PACKED, ".pyc"} and path.name != "py.typed"]
    assert other == [], "add them to package-data in pyproject.toml, and here"


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of a new environment with the wheel; torch and the like are those of this Python."""
    folder = tmp_path_factory.mktemp("environment")
    try:
        builder = venv.EnvBuilder(symlinks=os.name != "nt")
        builder.create(folder)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"cannot create an environment: {error}")
    paths = sysconfig.get_paths("venv", {"base": str(folder), "platbase": str(folder)})
    run(
        *PIP,
        "--python",
        program("python", Path(paths["scripts"])),
        "install",
        "--no-deps",
        "--no-index",
        wheel,
        cwd=folder,
    )
    # A plain path, not a site folder: its own .pth files, such as that of an editable installation, are not read.
    (Path(paths["purelib"]) / "libraries.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    return Path(paths["scripts"])


def test_its_requirements_are_those_that_are_tested(environment: Path, tmp_path: Path) -> None:
    python = program("python", environment)
    checked = subprocess.run(
        [*PIP, "--python", python, "check"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert [line for line in checked.stdout.splitlines() if line.startswith("seqloom ")] == []


def test_it_works_from_an_empty_folder(environment: Path, tmp_path: Path) -> None:
    ours = program("seqloom", environment)
    where = "import seqloom, pathlib; print(pathlib.Path(seqloom.__file__).parents[1])"
    installed = Path(run(program("python", environment), "-c", where, cwd=tmp_path).strip())
    assert installed.is_relative_to(environment.parent)
    assert run(ours, "--version", cwd=tmp_path) == f"seqloom {seqloom.__version__}\n"
    assert 'name = "tag"' in run(ours, "init", "tag", "--example", cwd=tmp_path)
    printed = run(ours, "demo", "forecast", "--quick", cwd=tmp_path)
    assert "Results on the test data" in printed
    assert (tmp_path / "runs" / "demo-forecast" / "run" / "best").is_dir()
