"""The packaged examples: complete, usable, and part of the wheel."""

import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from seqloom import examples, tasks
from seqloom.config import parse
from seqloom.data.builtin.datasets import BUILDERS
from seqloom.run_config import Config

ROOT = Path(__file__).parent.parent.parent


def test_every_task_has_an_example() -> None:
    assert set(tasks.names()) <= set(examples.names())


@pytest.mark.parametrize("name", examples.names())
def test_an_example_is_a_configuration_for_built_in_data(name: str) -> None:
    config = Config.build(parse(examples.text(name), f"{name}.toml"))
    assert config.name == name or name not in tasks.names()
    assert {Path(file).parts[0] for file in (config.task.train, config.task.dev)} < set(BUILDERS)


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
