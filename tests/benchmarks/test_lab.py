"""docs/lab.md shows the stored results of experiments, judged by the present rules."""

import json
from pathlib import Path

import pytest

from benchmarks import lab as page
from seqloom import lab
from seqloom.lab.runner import Result

ROOT = Path(__file__).parent.parent.parent
STORED = sorted(path.stem for path in (ROOT / page.FOLDER).glob("*.json"))


@pytest.fixture(autouse=True)
def _inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_page_shows_what_is_stored() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.render({name: page.load(name) for name in STORED})


def test_results_belong_to_experiments() -> None:
    assert set(STORED) <= set(lab.names())


@pytest.mark.parametrize("name", STORED)
def test_stored_results_are_thorough_and_judged_by_the_present_rule(name: str) -> None:
    content = page.load(name)
    result = Result.from_json(content)
    assert content["preset"] == "thorough"
    assert result.experiment == lab.find(name)(**lab.find(name).thorough)
    assert json.loads(json.dumps(result.to_json()["verdict"])) == content["verdict"]
    assert content["rule"] == result.experiment.rule
    assert (page.FOLDER / f"{name}.svg").is_file()
    assert (page.FOLDER / f"{name}.md").is_file(), "say what the literature says and why the measurement differs"
