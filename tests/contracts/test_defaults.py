"""Defaults are the same however a task is configured, and no choice is made impossible by one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.contracts.tiny import CASES, write

from seqloom import tasks
from seqloom.config import ConfigError, Document, parse, read
from seqloom.config.schema import choices, fields, nested
from seqloom.config.toml import literal
from seqloom.run_config import Config, config_template
from seqloom.run_document import read_document

NEEDS: dict[tuple[str, str, str], dict[str, Any]] = {
    ("transcribe", "task.search.name", "greedy"): {"task.model": "attention"},
    ("transcribe", "task.search.name", "beam"): {"task.model": "joint"},
    ("transcribe", "task.spelling", "lexicon"): {"task.lexicon": "words.txt"},
    ("transcribe", "task.metric", "per"): {"task.spelling": "phones"},
    ("transcribe", "task.metric", "cer"): {"task.text.unit": "characters"},
}
"""Choices that need another key, as their description says."""
REFUSED = {
    ("forecast", "task.encoder.bidirectional", "True"),
    ("language_model", "task.decoder.bidirectional", "True"),
    ("language_model", "task.encoder.bidirectional", "False"),
    *((name, "task.pretrained.replace_embeddings", "True") for name in tasks.names()),  # without pretrained vectors
}
"""Choices that a task refuses with a reason."""


@pytest.fixture(params=tasks.names())
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A task and the name of its training file in the current folder."""
    monkeypatch.chdir(tmp_path)
    name: str = request.param
    write(CASES[name], tmp_path)
    return name, CASES[name].file


def test_every_way_gives_the_same_configuration(case: tuple[str, str]) -> None:
    name, file = case
    Path("short.toml").write_text(f'[task]\nname = "{name}"\ntrain = "{file}"\n')
    files = [f"path/to/{example}" for example in tasks.find(name).example_files]
    plain = config_template(name).replace(f'"{files[0]}"', f'"{file}"', 1).replace(f'"{files[1]}"', '""', 1)
    configurations = {
        "--task and --data": Config.build(read_document("", task=name, data=file)),
        "a short file": Config.build(read(Path("short.toml"))),
        "init --data": Config.build(parse(config_template(name, data=file), "init.toml")),
        "init": Config.build(parse(plain, "init.toml")),
        "Python": Config.build(Document.empty(values={"task.name": name, "task.train": file})),
    }
    texts = {way: config.text() for way, config in configurations.items()}
    assert set(texts.values()) == {texts["a short file"]}, texts


def test_a_run_is_built_from_its_own_configuration_alone(case: tuple[str, str]) -> None:
    name, file = case
    text = Config.build(read_document("", task=name, data=file)).text()
    assert Config.build(parse(text, "config.toml"), defaults=False).text() == text
    assert Config.build(parse(text, "config.toml")).text() == text


def test_what_the_user_writes_stands_above_defaults(case: tuple[str, str]) -> None:
    name, file = case
    document = Document.empty(
        ["train.epochs=3", "train.schedule=constant", "train.warmup=7"],
        values={"task.name": name, "task.train": file},
    )
    train = Config.build(document).train
    assert (train.epochs, train.schedule, train.warmup) == (3, "constant", 7)


def test_every_choice_can_be_built(case: tuple[str, str]) -> None:
    name, file = case
    problems = []
    for key, choice in _choices(tasks.find(name), "task"):
        if (name, key, str(choice)) in REFUSED:
            continue
        needed = NEEDS.get((name, key, str(choice)), {})
        if name == "language_model" and key.startswith("task.encoder."):
            needed = {"task.objective": "masked"}  # whose layers these are
        values = {"task.name": name, "task.train": file, key: choice, **needed}
        try:
            Config.build(Document.empty(values=values))
        except ConfigError as error:
            problems.append(f"{key} = {literal(choice)}: {error}")
    assert not problems, "\n".join(problems)


def _choices(section: type[BaseModel], path: str) -> Iterator[tuple[str, Any]]:
    """Every allowed value of every field that has several."""
    for name, field in fields(section).items():
        allowed = [True, False] if field.annotation is bool else choices(field.annotation)
        if name == "cell" and field.annotation is not str:
            allowed = ["gru", "transformer", ["gru", "transformer", "lstm"]]
        if len(allowed) > 1:
            yield from ((f"{path}.{name}", choice) for choice in allowed)
        sections = nested(field.annotation)
        for inner in sections if len(sections) == 1 else ():
            yield from _choices(inner, f"{path}.{name}")
        if len(sections) > 1:
            yield from ((f"{path}.{name}.name", inner.model_fields["name"].default) for inner in sections)
