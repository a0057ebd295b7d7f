"""Samplers and pruners by name, and trials that depend on their place only."""

import math
from typing import Any, get_args

import optuna
import pytest

from seqloom.tuning.sampler import CONTINUES, SeededSampler, decode, distribution, encode, grid, make_pruner
from seqloom.tuning.space import Choice, Domain, NumberRange, Pruner, Sampler, SweepConfig

SPACE: dict[str, Domain] = {
    "rate": NumberRange(1e-4, 1e-1, log=True),
    "size": NumberRange(4, 32, step=4, integer=True),
    "share": NumberRange(0.0, 1.0),
    "cell": Choice(("lstm", ["gru", "lstm"], "gru")),
}


def study(sampler: str, seed: int = 1) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    config = SweepConfig(sampler=sampler, seed=seed)  # type: ignore[arg-type]
    return optuna.create_study(sampler=SeededSampler(config), pruner=make_pruner(config))


def extend(study: optuna.Study, count: int) -> list[dict[str, Any]]:
    """Run trials whose value depends on what was drawn; what was drawn."""
    for _ in range(count):
        trial = study.ask({name: distribution(domain) for name, domain in SPACE.items()})
        study.tell(trial, math.log10(trial.params["rate"]) ** 2 + trial.params["share"])
    return [trial.params for trial in study.trials]


@pytest.mark.parametrize("name", get_args(Sampler))
def test_every_sampler_draws_from_the_space(name: str) -> None:
    for params in extend(study(name), 12):
        assert all(SPACE[key].contains(decode(SPACE[key], value)) for key, value in params.items())
        assert params.keys() == SPACE.keys()


@pytest.mark.parametrize("name", ["tpe", "random"])
def test_the_same_seed_draws_the_same_and_no_two_trials_are_alike(name: str) -> None:
    first = extend(study(name), 14)
    assert first == extend(study(name), 14)
    assert first != extend(study(name, seed=2), 14)
    assert len({params["rate"] for params in first}) == 14


def test_what_is_drawn_does_not_depend_on_interruptions() -> None:
    expected = extend(study("tpe"), 14)
    interrupted = study("tpe")
    extend(interrupted, 4)
    trial = interrupted.ask({name: distribution(domain) for name, domain in SPACE.items()})
    interrupted.tell(trial, state=optuna.trial.TrialState.FAIL)
    interrupted.enqueue_trial(trial.params, user_attrs={CONTINUES: trial.number})
    actual = extend(interrupted, 10)
    assert actual[:5] + actual[6:] == expected


def test_lists_are_stored_as_text_and_read_back() -> None:
    cell = SPACE["cell"]
    assert isinstance(cell, Choice)
    assert [encode(value) for value in cell.values] == ["lstm", '["gru", "lstm"]', "gru"]
    assert [decode(cell, encode(value)) for value in cell.values] == list(cell.values)


def test_a_grid_has_every_combination() -> None:
    space: dict[str, Domain] = {"a": Choice((1, 2)), "b": NumberRange(0.5, 1.0, step=0.25)}
    assert list(grid(space)) == [{"a": a, "b": b} for a in (1, 2) for b in (0.5, 0.75, 1.0)]


@pytest.mark.parametrize("name", get_args(Pruner))
def test_every_pruner_can_be_made(name: str) -> None:
    """A trial that is far worse at each evaluation is pruned, unless there is no pruner."""
    config = SweepConfig(pruner=name, prune_after_trials=2)  # type: ignore[arg-type]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=SeededSampler(config), pruner=make_pruner(config))
    pruned = False
    for value in [1.0] * 12 + [9.0] * 12:
        trial = study.ask({"rate": distribution(SPACE["rate"])})
        for step in range(1, 28):
            trial.report(value, step)
            if trial.should_prune():
                pruned = pruned or value == 9.0
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            study.tell(trial, value)
    assert pruned is (name != "none")
