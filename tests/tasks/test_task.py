"""Prediction options of tasks: a validated copy, or a refusal that names the option and the task."""

from pathlib import Path
from typing import Any

import pytest
from tests.contracts.tiny import CASES, build

from seqloom import tasks
from seqloom.config import ConfigError
from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.decoding.tokens.beam import Beam
from seqloom.models.transcription.search_guide import LanguageModelConfig
from seqloom.tasks.task import PredictionOptions


def fitted(name: str, folder: Path) -> Any:
    task = build(CASES[name], folder).task
    return task.fit(task.read(Path(task.train)))


def test_options_change_a_copy_that_keeps_the_fitted_state(tmp_path: Path) -> None:
    task = fitted("translate", tmp_path)
    changed = task.with_options(search=Beam(size=3), constrain="answers.txt", encoding="latin-1")
    assert (changed.search, changed.constrain, changed.encoding) == (Beam(size=3), "answers.txt", "latin-1")
    assert changed.learned is task.learned
    assert (task.search, task.constrain, task.encoding) == (Beam(), "", "utf-8")
    fields = {"search", "constrain", "encoding"}
    assert changed.model_dump(exclude=fields) == task.model_dump(exclude=fields)
    assert task.with_options() is task


def test_a_lexicon_or_a_language_model_needs_prefix_beam(tmp_path: Path) -> None:
    task = fitted("transcribe", tmp_path)
    assert isinstance(task.search, BestPath)
    for options in ({"lexicon": "words.txt"}, {"lm": LanguageModelConfig(weight=2.0)}):
        assert task.with_options(**options).search == PrefixBeam()
        assert task.with_options(**options, search=PrefixBeam(size=7)).search == PrefixBeam(size=7)
    narrow = task.with_options(search=PrefixBeam(size=7))
    assert narrow.with_options(lexicon="words.txt").search == PrefixBeam(size=7)
    with pytest.raises(ConfigError, match=r'^command line: \[task\]: search "best_path" cannot use a lex'):
        task.with_options(lexicon="words.txt", search=BestPath())


def test_only_fields_that_are_set_change_the_language_model(tmp_path: Path) -> None:
    task = fitted("transcribe", tmp_path)
    guided = task.with_options(lm=LanguageModelConfig(model="a.arpa", weight=0.5, word_score=1.0))
    changed = guided.with_options(lm=LanguageModelConfig(weight=2.0))
    assert changed.lm == LanguageModelConfig(model="a.arpa", weight=2.0, word_score=1.0)
    changed = guided.with_options(lm=LanguageModelConfig(model="b.arpa"))
    assert changed.lm == LanguageModelConfig(model="b.arpa", weight=0.5, word_score=1.0)


def test_invalid_values_are_named(tmp_path: Path) -> None:
    task = fitted("translate", tmp_path)
    with pytest.raises(
        ConfigError, match=r'task\.format: expected one of: .*; got "column"; did you mean "columns"\?$'
    ):
        task.with_options(format="column")
    with pytest.raises(
        ConfigError, match=r'task\.search\.name: expected one of: "greedy", "beam", "sample"; got "best_path"'
    ):
        task.with_options(search=BestPath())


@pytest.mark.parametrize("name", tasks.names())
def test_options_are_fields_and_others_are_refused(name: str, tmp_path: Path) -> None:
    task = build(CASES[name], tmp_path).task
    options = PredictionOptions.__annotations__.keys()
    assert task.option_fields.keys() <= options
    assert set(task.option_fields.values()) <= type(task).model_fields.keys()
    for option in options - task.option_fields.keys():
        with pytest.raises(ValueError, match=f"^the task {name} has no option '{option}' "):
            task.with_options(**{option: "x"})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted({*tasks.names()} - {"embed"}))
def test_a_custom_layer_replaces_a_recurrence(name: str, tmp_path: Path) -> None:
    task = build(CASES[name], tmp_path).task
    recurrence = getattr(task.with_layer(dict), task.custom_layer_field)  # type: ignore[arg-type]
    assert (recurrence.layer_factory, recurrence.custom_layer) == (dict, "dict")
