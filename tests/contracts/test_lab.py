"""What every experiment has to do, on whatever is in lab/: a quick run that is judged, printed, stored and drawn."""

import json
import re
from dataclasses import FrozenInstanceError, asdict, fields, is_dataclass
from pathlib import Path

import pytest
import torch

from seqloom import lab
from seqloom.config import schema
from seqloom.lab import runner
from seqloom.lab.estimate import STATUSES
from seqloom.lab.experiment import TOPICS, Preset
from seqloom.lab.runner import Result

EXPERIMENTS = lab.names()


@pytest.fixture(scope="module", params=EXPERIMENTS)
def result(request: pytest.FixtureRequest) -> Result:
    """A quick run, shared by the tests of an experiment."""
    return runner.run(request.param, runner.configure(request.param, preset="quick"), preset="quick")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_says_what_it_is_about(name: str) -> None:
    kind = lab.find(name)
    assert kind.topic in TOPICS
    assert kind.question.endswith("?")
    assert all(text.endswith(".") for text in (kind.claim, kind.rule))
    assert re.search(r"\d{4}|lectures on", kind.source), "name a paper with its year"
    assert "holds" in kind.rule


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_options_are_described_and_presets_are_valid(name: str) -> None:
    kind = lab.find(name)
    for option, field in schema.fields(kind).items():
        assert re.fullmatch(r"[A-Z].*\.", field.description or ""), f"{option} has no description"
    assert kind.quick
    assert kind.thorough
    presets: tuple[Preset, ...] = ("quick", "thorough")
    for preset in presets:
        experiment = runner.configure(name, preset=preset)
        assert experiment != runner.configure(name)
        assert experiment.trials()


def test_rows_are_frozen(result: Result) -> None:
    assert is_dataclass(result.experiment.row)
    with pytest.raises(FrozenInstanceError):
        setattr(result.rows[0], fields(result.rows[0])[0].name, None)


def test_the_verdict_is_computed_and_has_numbers(result: Result) -> None:
    assert result.verdict.status in STATUSES
    assert result.verdict.sentence.endswith(".")
    assert re.search(r"\d", result.verdict.sentence)
    assert result.verdict.estimates


@pytest.mark.sampled(6)
def test_the_same_seed_gives_the_same_rows_whatever_the_threads(result: Result) -> None:
    threads, random = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(2)
    torch.rand(3)
    try:
        again = runner.run(result.name, result.experiment)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(random)
    # As text, in which a value that is not a number equals itself.
    assert [repr(row) for row in again.rows] == [repr(row) for row in result.rows]


def test_results_are_stored_and_read_again(result: Result) -> None:
    content = json.loads(runner.dump(result))
    assert content == result.to_json()
    again = Result.from_json(content)
    assert again.experiment == result.experiment
    assert [repr(asdict(row)) for row in again.rows] == [repr(asdict(row)) for row in result.rows]
    assert again.verdict == result.verdict


def test_the_table_has_a_cell_for_each_column(result: Result) -> None:
    columns, rows = result.experiment.table(result.rows)
    assert rows
    assert {len(row) for row in rows} == {len(columns)}
    assert all(isinstance(cell, str) for row in rows for cell in row)


@pytest.mark.sampled(6)
def test_the_figure_is_drawn(result: Result, tmp_path: Path) -> None:
    runner.draw(result, [tmp_path / "figure.png", tmp_path / "figure.svg"])
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "figure.svg").read_text()


def test_rows_hold_plain_values(result: Result) -> None:
    plain = (str, int, float, bool, type(None), tuple)
    assert all(isinstance(getattr(row, field.name), plain) for row in result.rows for field in fields(row))
    assert all(isinstance(row, result.experiment.row) for row in result.rows)
