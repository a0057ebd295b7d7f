"""Configurations of runs: reading, building, loading."""

import sys
from pathlib import Path

import pytest
from tests.contracts.tiny import CASES, build

from seqloom import config, tasks
from seqloom.cells.gru import GRU
from seqloom.checkpoint import RunError
from seqloom.config import ConfigError
from seqloom.run import Run
from seqloom.run_config import Config, find_layer, load_config

NAMES = ", ".join(f'"{name}"' for name in tasks.names())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f'c.toml:1: missing key "task.name"; expected one of: {NAMES}'),
        ("[task]\n", f'c.toml:1: missing key "task.name"; expected one of: {NAMES}'),
        (
            '[task]\nname = "clasify"\n',
            f'c.toml:2: task.name: unknown task "clasify"; did you mean "classify"? Expected one of: {NAMES}',
        ),
        ("[task]\nname = 3\n", f"c.toml:2: task.name: unknown task 3; expected one of: {NAMES}"),
    ],
)
def test_a_task_has_a_name(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.build(config.parse(text, "c.toml"))
    assert str(caught.value) == message


def test_a_layer_is_found_by_its_name() -> None:
    assert find_layer("seqloom.cells.gru:GRU") is GRU
    assert find_layer("") is None
    for wrong in ("seqloom.cells.gru:GUR", "no_such_module:X", "seqloom"):
        with pytest.raises(ValueError, match=f"--layer is '{wrong}', expected module:name"):
            find_layer(wrong)
    with pytest.raises(ValueError, match=r"expected module:name of a cell or a layer, such as --layer mine:MyCell$"):
        find_layer("mine.py")
    with pytest.raises(TypeError, match="expected module:name of a cell or a layer, found str"):
        find_layer("seqloom:__version__")


def test_an_error_in_the_module_of_a_layer_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "failing_layers.py").write_text("x = 1\nx.y = 2 / 0\n")
    before = list(sys.path)
    message = r"failing_layers cannot be imported: ZeroDivisionError: division by zero \(failing_layers.py:2\)$"
    with pytest.raises(ValueError, match=message):
        find_layer("failing_layers:Layer")
    assert sys.path == before


def test_a_custom_layer_needs_recurrent_layers_to_replace(tmp_path: Path) -> None:
    for name in ("tag, hmm", "language_model, ngram", "embed"):
        chosen = build(CASES[name], tmp_path)
        assert chosen.with_layer(None) == chosen
        with pytest.raises(ValueError, match=f"this {chosen.name} model has no recurrent layers that a custom layer"):
            chosen.with_layer(GRU)


def test_a_run_with_invalid_learned_values_is_refused(tmp_path: Path) -> None:
    chosen = build(CASES["classify"], tmp_path)
    strange = Run.create(tmp_path / "run", config=chosen.text(), learned='{"x": 1}', environment={})
    with pytest.raises(RunError, match=r"learned\.json: does not fit the task classify"):
        load_config(strange)
