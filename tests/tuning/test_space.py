"""Search spaces: what ``[sweep]`` may say, and errors with file, line and the nearest key."""

import pytest

from seqloom import tasks
from seqloom.config import ConfigError, parse
from seqloom.config.schema import Sections
from seqloom.training.config import TrainConfig
from seqloom.tuning.space import Choice, Domain, NumberRange, SweepConfig, assign, parse_sweep, with_space

HEAD = '[task]\nname = "tag"\ntrain = "x"\n[sweep]\n'
SECTIONS: Sections = {"task": tasks.find("tag"), "train": TrainConfig}


def parsed(text: str, *overrides: str) -> tuple[SweepConfig, dict[str, Domain]]:
    return parse_sweep(parse(HEAD + text, "a.toml", overrides=overrides), SECTIONS)


def problem(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parsed(text, *overrides)
    return str(caught.value)


def test_lists_ranges_logarithmic_ranges_and_integers() -> None:
    settings, space = parsed(
        """
trials = 3
train.learning_rate = { min = 1e-4, max = 1, log = true }
train.batch_size = { min = 16, max = 64, step = 16 }
task.encoder.dropout = { min = 0, max = 0.5 }
task.encoder.cell = ["lstm", ["gru", "lstm"]]
[sweep.task.encoder.options]
activation = ["relu", "tanh"]
"""
    )
    assert (settings.trials, settings.sampler) == (3, "tpe")
    assert space == {
        "train.learning_rate": NumberRange(1e-4, 1.0, log=True),
        "train.batch_size": NumberRange(16, 64, step=16, integer=True),
        "task.encoder.dropout": NumberRange(0.0, 0.5),
        "task.encoder.cell": Choice(("lstm", ["gru", "lstm"])),
        "task.encoder.options.activation": Choice(("relu", "tanh")),
    }


def test_values_to_try_can_be_given_as_overrides() -> None:
    _, space = parsed(
        "trials = 3", "sweep.train.learning_rate={min=1e-3,max=1e-2}", 'sweep.train.optimizer=["adam","sgd"]'
    )
    assert space == {"train.learning_rate": NumberRange(1e-3, 1e-2), "train.optimizer": Choice(("adam", "sgd"))}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train.lr = [1, 2]", 'unknown key "sweep.train.lr"; did you mean "sweep.train.learning_rate"?'),
        ("learning_rate = [1, 2]", 'unknown key "sweep.learning_rate"; did you mean "sweep.train.learning_rate"?'),
        ("trails = 3", 'unknown key "sweep.trails"; did you mean "sweep.trials"?'),
        (
            'sampler = "tpee"',
            (
                'sweep.sampler: expected one of: "tpe", "gp", "cmaes", "qmc", "random", "grid"; got "tpee"; '
                'did you mean "tpe"?'
            ),
        ),
        (
            "train.epochs = 5",
            (
                "sweep.train.epochs: expected a list of values or a range { min = …, max = … }, got 5; "
                "a fixed value is written as train.epochs = 5"
            ),
        ),
        (
            "train.epochs = [5]",
            "sweep.train.epochs: expected at least two values, got [5]; a fixed value is written as train.epochs = 5",
        ),
        ("train.epochs = [5, 5]", "sweep.train.epochs: 5 is listed twice"),
        ("train.epochs = { min = 1, high = 3 }", 'unknown key "sweep.train.epochs.high"; did you mean "max"?'),
        (
            "train.epochs = { min = 1 }",
            "sweep.train.epochs: a range needs max: { min = …, max = … }, or give a list of values",
        ),
        ("train.epochs = { min = 0.5, max = 3 }", "sweep.train.epochs.min: expected an integer, got 0.5"),
        ("train.momentum = { min = 0.5, max = 2 }", "train.momentum: expected a number less than 1, got 2.0"),
        (
            'train.optimizer = ["adam", "adan"]',
            'train.optimizer: expected one of: "adam", "adamw", "sgd"; got "adan"; did you mean "adam"?',
        ),
        (
            "task.model = { min = 1, max = 2 }",
            'sweep.task.model: a range needs a key with numbers; give a list of values, one of: "neural", "hmm"',
        ),
        (
            "train.warmup = { min = 0, max = 9, log = true }",
            "sweep.train.warmup.min: a logarithmic range needs a min greater than 0, got 0",
        ),
        ("train.warmup = { min = 1, max = 9, log = 1 }", "sweep.train.warmup.log: expected true or false, got 1"),
        ("train.warmup = { min = 9, max = 1 }", "sweep.train.warmup: min must be less than max, got 9 and 1"),
        (
            "train.warmup = { min = 1, max = 9, step = 2, log = true }",
            "sweep.train.warmup.step: a logarithmic range has no step: remove log or step",
        ),
        (
            "train.warmup = { min = 1, max = 9, step = 10 }",
            "sweep.train.warmup.step: expected a number between 0 and max − min, got 10",
        ),
        ("task.encoder = 3", "sweep.task.encoder: expected a table, got 3"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_the_nearest_key(line: str, message: str) -> None:
    assert problem(f"# a comment\n{line}") == f"a.toml:6: {message}"


def test_all_mistakes_are_reported_in_order() -> None:
    lines = problem("train.lr = [1, 2]\ntrails = 3\ntrain.optimizer = [\n  'adam',\n  'adan',\n]").splitlines()
    assert [line.split(" ")[0] for line in lines] == ["a.toml:5:", "a.toml:6:", "a.toml:9:"]
    assert problem("trials = 2", "sweep.train.lr=[1,2]").startswith("command line: unknown key")


def test_a_sweep_needs_values_to_try() -> None:
    expected = "a.toml:4: no values to try: add keys such as sweep.train.learning_rate = [0.001, 0.01]"
    assert problem("trials = 2") == expected
    with pytest.raises(ConfigError, match=r"^a.toml:1: missing table \[sweep\]: list the values to try, such as"):
        parse_sweep(parse('[task]\nname = "tag"\ntrain = "x"', "a.toml"), SECTIONS)


def test_a_grid_needs_a_finite_number_of_values() -> None:
    expected = 'a.toml:6: sweep.train.learning_rate: sampler "grid" needs a list of values or a step'
    assert problem('sampler = "grid"\ntrain.learning_rate = { min = 1, max = 2 }') == expected
    _, space = parsed('sampler = "grid"\ntrain.learning_rate = { min = 0.1, max = 0.3, step = 0.1 }')
    assert space["train.learning_rate"].grid() == pytest.approx([0.1, 0.2, 0.3])


def test_domains_know_their_values() -> None:
    assert list(NumberRange(2, 9, step=3, integer=True).grid()) == [2, 5, 8]
    assert NumberRange(2, 9, step=3, integer=True).contains(5)
    assert not NumberRange(2, 9, step=3, integer=True).contains(6)
    assert not NumberRange(0.0, 1.0).contains(True)
    assert NumberRange(0.0, 1.0).grid() == ()
    assert Choice((1, [1, 2])).contains([1, 2])
    assert not Choice((1, 2)).contains(True)


def test_assigned_values_replace_those_of_the_file_and_errors_name_the_sweep() -> None:
    document = parse(f"{HEAD}train.epochs = [1, 2]\n[train]\nepochs = 7\n", "a.toml")
    assigned = assign(document, {"train.epochs": 2})
    assert assigned.values == {"task": {"name": "tag", "train": "x"}, "train": {"epochs": 2}}
    assert assigned.location("train.epochs") == "a.toml:5"
    assert document.values["train"] == {"epochs": 7}


def test_values_to_try_from_python() -> None:
    document = with_space(parse('[task]\nname = "tag"\ntrain = "x"', "a.toml"), {"train.epochs": (1, 2)})
    assert parse_sweep(document, SECTIONS)[1] == {"train.epochs": Choice((1, 2))}
    with pytest.raises(ConfigError, match=r"^command line: unknown key \"sweep.train.epoch\""):
        parse_sweep(with_space(document, {"train.epoch": [1, 2]}), SECTIONS)
