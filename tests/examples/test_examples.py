"""The packaged examples: complete, usable, and part of the wheel."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from tests.data.builtin.test_datasets import make_small

from seqloom import examples, tasks, workflow
from seqloom.config import parse
from seqloom.data.builtin.datasets import BUILDERS
from seqloom.run_config import Config, load_config

ROOT = Path(__file__).parent.parent.parent


def test_every_task_has_an_example() -> None:
    assert set(tasks.names()) <= set(examples.names())


@pytest.mark.parametrize("name", examples.names())
def test_an_example_is_a_configuration_for_built_in_data(name: str) -> None:
    config = Config.build(parse(examples.text(name), f"{name}.toml"))
    assert config.name == name or name not in tasks.names()
    assert {Path(file).parts[0] for file in (config.task.train, config.task.dev)} < set(BUILDERS)


FURTHER_USES = (
    *("agreement", "dialogues", "match_reports", "misspellings", "names"),
    *("opinions", "parentheses", "phrase_trees", "pronouns", "similarity", "turtle_programs"),
)
"""The examples of docs/uses.md that the documentation does not train."""


@pytest.mark.parametrize("name", FURTHER_USES)
def test_an_example_of_a_further_use_trains(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_small(monkeypatch)
    BUILDERS[name](Path(name))
    config = Config.build(parse(examples.text(name), f"{name}.toml", overrides=["train.updates=1"]))
    run = workflow.train(config, output=tmp_path / "run", plots=False)
    assert load_config(run).task.main_metric in run.best_metrics()


def test_each_data_set_of_the_page_on_further_uses_has_an_example_and_a_row() -> None:
    """The page says that all of them are trained in the same way."""
    page = (ROOT / "docs" / "uses.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`seqloom\s+data\s+(\w+)`", page))
    rows = set(re.findall(r"^\| `(\w+)` \| ", page, re.MULTILINE))
    assert rows == {*FURTHER_USES, "stories", "entailment"}
    assert named <= rows <= set(examples.names())


def test_the_listing_has_a_line_for_each_example() -> None:
    lines = examples.listing().splitlines()
    assert [line.split()[0] for line in lines] == examples.names()
    assert all(line[16:].endswith((".", "…", '"')) for line in lines)


def test_an_unknown_name() -> None:
    with pytest.raises(ValueError, match=r"there is no example 'tga': did you mean 'tag'\? Available: agreement, "):
        examples.text("tga")


def test_the_wheel_contains_the_examples() -> None:
    package_data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for name in examples.names():
        assert any(fnmatch(f"examples/{name}.toml", pattern) for pattern in package_data["seqloom"])
