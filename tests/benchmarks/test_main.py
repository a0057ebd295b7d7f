"""The command: it lists the benchmarks, runs one, or measures all of them; the documentation names existing ones."""

import json
import re
import subprocess
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks import page
from benchmarks.__main__ import BENCHMARKS, OTHERS, main, measure_all

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "scripts").iterdir()]


def test_without_a_name_it_lists_the_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    out = capsys.readouterr().out
    for name, description in BENCHMARKS.items():
        assert re.search(rf"^  {name} +{re.escape(description)}$", out, re.MULTILINE)
    assert re.search(r"^  all ", out, re.MULTILINE)
    assert re.search(r"^  defaults ", out, re.MULTILINE)


@pytest.mark.parametrize("arguments", [["recurent"], ["all", "--json"], ["recurrent", "tag_ewt"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_a_module_and_a_title(name: str) -> None:
    assert callable(import_module(f"benchmarks.{name}").measure)
    assert name in page.TITLES


def test_all_benchmarks_are_measured_and_the_page_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "FOLDER", tmp_path / "benchmarks")
    monkeypatch.setattr(page, "PAGE", tmp_path / "benchmarks.md")
    monkeypatch.delenv("SEQLOOM_DATA", raising=False)
    results = (page.DOCS / "benchmarks" / "training.json").read_bytes()
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        commands.append(command[1:])
        return subprocess.CompletedProcess(command, 0, stdout=results)

    monkeypatch.setattr(subprocess, "run", run)
    measure_all(quick=True)
    names = [name for name in BENCHMARKS if name != "embed"]  # it needs the data sets
    assert commands == [["-m", "benchmarks", name, "--json", "--quick"] for name in names]
    assert [json.loads((tmp_path / f"benchmarks/{name}.json").read_text()) for name in names] == [
        json.loads(results)
    ] * len(names)
    assert (tmp_path / "benchmarks.md").read_text() == page.render(tmp_path / "benchmarks")


def test_a_failed_benchmark_leaves_its_old_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "FOLDER", tmp_path)
    (tmp_path / "recurrent.json").write_text("[]\n")

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(subprocess.CalledProcessError):
        measure_all(quick=False)
    assert (tmp_path / "recurrent.json").read_text() == "[]\n"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_documented_benchmarks_exist(path: Path) -> None:
    text = path.read_text()
    assert set(re.findall(r"\bscripts/benchmarks ([a-z]\w*)", text)) <= {*BENCHMARKS, *OTHERS}
    for module in re.findall(r"\bpython -m (benchmarks[\w.]*)", text):
        assert find_spec(module) is not None, module
