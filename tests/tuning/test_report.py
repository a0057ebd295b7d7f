"""Tables, notes and files of a sweep."""

import json
from pathlib import Path

import pytest

from seqloom.run import Run
from seqloom.tuning.journal import Journal, Trial
from seqloom.tuning.report import Sweep, short_names, summarize, write_results
from seqloom.tuning.space import Choice, Domain, NumberRange, SweepConfig

SPACE: dict[str, Domain] = {
    "train.learning_rate": NumberRange(0.001, 1.0, log=True),
    "task.encoder.cell": Choice(("a", "b|c")),
}


def trial(number: int, state: str, value: float | None = None, rate: float = 0.1, **rest: object) -> Trial:
    values = {"train.learning_rate": rate, "task.encoder.cell": "b|c"}
    fields = {"evaluations": (), "minutes": None, "error": ""} | rest
    return Trial(number=number, state=state, value=value, values=values, identifier=number, **fields)  # type: ignore[arg-type]


TRIALS = [
    trial(0, "failed", error="too bad"),
    trial(1, "finished", 0.5, minutes=1.25),
    trial(2, "pruned", 0.9, evaluations=(0.1, 0.9)),
    trial(3, "finished", 0.75, rate=0.123456, minutes=1.0),
    trial(4, "running"),
]


@pytest.mark.parametrize(("higher", "order"), [(True, ["3", "1", "2", "0", "4"]), (False, ["1", "3", "2", "0", "4"])])
def test_the_best_trial_comes_first_and_unfinished_ones_last(higher: bool, order: list[str]) -> None:
    sweep = Sweep(Path("runs/sweep"), "accuracy", higher, TRIALS, TRIALS[3], {}, SPACE)
    columns, rows = sweep.table()
    assert columns == ["trial", "accuracy", "learning_rate", "cell", "minutes", "state"]
    assert [row[0] for row in rows] == order
    assert ["3", "0.75", "0.1235", "b|c", "1.00", "finished"] in rows
    assert ["2", "0.9", "0.1", "b|c", "", "pruned after 2"] in rows
    assert str(sweep).splitlines()[0].split() == columns
    assert sweep.notes() == [
        "trial 0 failed: too bad",
        "The importance of each key needs at least 4 finished trials with different scores.",
    ]
    assert sweep.best_run == Path("runs/sweep/trials/3")


def test_names_are_as_short_as_they_can_be() -> None:
    names = ["task.encoder.hidden_size", "task.decoder.hidden_size", "train.seed", "task.search.seed", "train.epochs"]
    assert list(short_names(names).values()) == [
        *("encoder.hidden_size", "decoder.hidden_size", "train.seed", "search.seed", "epochs")
    ]
    assert short_names(["task.size", "task.text.size"]) == {"task.size": "task.size", "task.text.size": "text.size"}


def test_without_a_finished_trial_there_is_no_best(tmp_path: Path) -> None:
    journal = Journal(tmp_path, SweepConfig(), SPACE, higher_is_better=True)
    result = summarize(journal, "accuracy")
    write_results(result, "tag")
    assert result.best is None
    assert not result.best_config.exists()
    with pytest.raises(ValueError, match="no trial has finished"):
        _ = result.best_run
    assert json.loads((tmp_path / "sweep.json").read_text())["trials"] == []


def test_files_hold_the_table_and_the_best_configuration(tmp_path: Path) -> None:
    config = '[task]\nname = "tag"\n'
    Run.create(tmp_path / "trials" / "3", config=config, learned="{}", environment={})
    importance = {"train.learning_rate": 0.876, "task.encoder.cell": 0.124}
    write_results(Sweep(tmp_path, "accuracy", True, TRIALS, TRIALS[3], importance, SPACE), "tag")
    heading, rest = (tmp_path / "best.toml").read_text().split("\n", 1)
    assert heading == (
        f'# Trial 3 of {tmp_path.name}: accuracy 0.75 with train.learning_rate = 0.123456, task.encoder.cell = "b|c"'
    )
    assert rest == config
    page = (tmp_path / "sweep.md").read_text()
    assert "|3|0.75|0.1235|b\\|c|1.00|finished|" in page
    assert "|train.learning_rate|88 %|" in page
    assert "- trial 0 failed: too bad" in page
    stored = json.loads((tmp_path / "sweep.json").read_text())
    assert (stored["best"], stored["importance"]) == (3, importance)
    assert stored["trials"][3]["values"]["train.learning_rate"] == 0.123456
