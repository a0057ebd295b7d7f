"""The JSON Schema of every task accepts its template, its examples and a search space."""

import tomllib

import jsonschema
import pytest

from seqloom import examples, tasks
from seqloom.run_config import config_template
from seqloom.tuning.schema import config_schema

VALIDATORS = {name: jsonschema.Draft7Validator(config_schema(name)) for name in tasks.names()}


@pytest.mark.parametrize("name", tasks.names())
def test_the_template_is_accepted_and_mistakes_are_not(name: str) -> None:
    validator = VALIDATORS[name]
    validator.check_schema(validator.schema)
    values = tomllib.loads(config_template(name))
    validator.validate(values)
    assert not validator.is_valid(values | {"trian": {}})
    assert not validator.is_valid({"task": values["task"], "train": {"lr": 1.0}})
    assert not validator.is_valid({"task": values["task"], "train": {"schedule": "cosin"}})
    assert not validator.is_valid({"task": {"train": "x"}})  # without a name
    validator.validate({"task": {"name": name, "train": "x"}})


@pytest.mark.parametrize("name", examples.names())
def test_examples_are_accepted(name: str) -> None:
    values = tomllib.loads(examples.text(name))
    assert list(VALIDATORS[values["task"]["name"]].iter_errors(values)) == []


def test_a_search_space_mirrors_the_configuration() -> None:
    validator = VALIDATORS["tag"]
    base = '[task]\nname = "tag"\ntrain = "x"\n[sweep]\ntrials = 3\n'

    def is_valid(line: str) -> bool:
        return bool(validator.is_valid(tomllib.loads(base + line)))

    assert is_valid("train.learning_rate = { min = 1e-4, max = 1e-2, log = true }")
    assert is_valid('task.encoder.cell = ["lstm", "gru"]\ntask.encoder.hidden_size = { min = 8, max = 64, step = 8 }')
    assert not is_valid("train.learning_rate = { low = 1e-4, max = 1e-2 }")
    assert not is_valid("train.lr = [1, 2]")
    assert not is_valid("train.epochs = 3")
    assert not is_valid("task.encoder.cel = ['lstm', 'gru']")
    assert not is_valid("trails = 3")
