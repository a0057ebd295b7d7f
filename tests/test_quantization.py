"""Runs in int8: their size, their quality, what they refuse, and that they hold what the layers compute."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.contracts.tiny import CASES, build

from seqloom import checkpoint
from seqloom.checkpoint import INT8_SCALES, RunError
from seqloom.info import describe_run
from seqloom.layers.quantization import rounded_weights
from seqloom.model import load
from seqloom.quantization import quantize_run
from seqloom.run import Run
from seqloom.workflow import resume, train


def trained(name: str, folder: Path, **options: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return train(build(CASES[name], folder, epochs=1, **options), output=folder / "run", plots=False).path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tagger in float32, and in int8."""
    folder = tmp_path_factory.mktemp("runs")
    run = trained("tag, crf", folder)
    result = quantize_run(run, folder / "int8", tolerance=1)
    assert result.metric == "span_f1"
    assert 0 <= result.scores[1] <= 1
    assert result.interval is not None
    return run, folder / "int8"


def test_a_run_in_int8_is_the_same_as_the_run_loaded_in_int8(runs: tuple[Path, Path]) -> None:
    run, new = runs
    expected, actual, in_float = load(run, precision="int8"), load(new), load(new, precision="float32")
    assert (expected.precision, actual.precision, in_float.precision) == ("int8", "int8", "float32")
    weights = expected.module.state_dict()
    for name, value in actual.module.state_dict().items():
        assert torch.equal(value, weights[name])
        assert torch.equal(value, in_float.module.state_dict()[name])
    questions = list(CASES["tag, crf"].questions)
    assert list(actual.predict(questions)) == list(expected.predict(questions))
    assert Run.open(run).load_best().facts["metrics"].keys() == Run.open(new).load_best().facts["metrics"].keys()


def test_the_weights_of_a_network_are_stored_as_integers(runs: tuple[Path, Path]) -> None:
    run, new = runs
    stored = load_file(new / "best" / "model.safetensors")
    rounded = rounded_weights(load(run).module)
    assert len(rounded) > 3
    floats = [name for name, value in stored.items() if value.dtype != torch.int8 and not name.endswith(INT8_SCALES)]
    assert not rounded.keys() & set(floats)
    assert {f"{name}{INT8_SCALES}" for name in rounded} <= stored.keys()
    assert not (new / "last").exists()
    assert describe_run(new)["precision"] == "int8"
    assert describe_run(run)["precision"] == "float32"
    assert f"Its weights are those of `{Run.open(run).name}` in int8." in Run.open(new).card()


def test_a_shared_weight_is_stored_once(tmp_path: Path) -> None:
    run = trained("language_model", tmp_path)
    new = tmp_path / "int8"
    result = quantize_run(run, new, tolerance=1)
    assert result.scores[0] > 1  # perplexity
    module = load(new).module
    state = module.state_dict()
    shared = [name for name, value in state.items() if torch.equal(value, module.get_parameter("embed.weight"))]
    assert len(shared) == 2
    assert len({state[name].data_ptr() for name in shared}) == 1
    stored = load_file(new / "best" / "model.safetensors")
    assert sum(name in stored for name in shared) == 1


def test_int8_weights_are_not_trained(runs: tuple[Path, Path], tmp_path: Path) -> None:
    run, new = runs
    with pytest.raises(RunError, match=r"int8: holds int8 weights, which cannot be resumed: use the run .* \("):
        resume(new)
    config = build(CASES["tag, crf"], tmp_path, epochs=1)
    with pytest.raises(RunError, match="cannot be trained further"):
        train(config, output=tmp_path / "next", start_from=new, plots=False)
    with pytest.raises(RunError, match="holds int8 weights already"):
        quantize_run(new, tmp_path / "again")
    with pytest.raises(ValueError, match="an exported file holds a float32 model"):
        load(run, precision="int8").export(tmp_path / "model.onnx")
    with pytest.raises(ValueError, match='expected "float32" or "int8", got \'int4\''):
        load(run, precision="int4")  # type: ignore[arg-type]


def test_a_worse_model_is_not_written(runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(module: torch.nn.Module) -> None:
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.zero_()

    monkeypatch.setattr("seqloom.quantization.round_weights", forget)
    run = trained("language_model", tmp_path)
    with pytest.raises(
        RunError, match=r"in int8, perplexity is .* worse by more than 0.01 of it, so nothing was written"
    ):
        quantize_run(run, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir() if "new" in path.name or path.name.startswith(".")) == []
    with pytest.raises(RunError, match="already exists"):
        quantize_run(run, runs[1])


def test_models_without_layers_and_runs_without_data_are_refused(tmp_path: Path) -> None:
    run = trained("language_model, ngram", tmp_path)
    with pytest.raises(RunError, match="no weights to quantize: the model has no linear maps"):
        quantize_run(run, tmp_path / "new")
    with pytest.raises(RunError, match="no weights to quantize"):
        load(run, precision="int8")
    run = trained("classify", tmp_path / "other")
    for path in (tmp_path / "other").iterdir():
        if path.is_file():
            path.unlink()
    with pytest.raises(RunError, match=r"name other labelled data \(--check FILE\)"):
        quantize_run(run, tmp_path / "new")


def test_damaged_scales_are_refused(runs: tuple[Path, Path], tmp_path: Path) -> None:
    stored = load_file(runs[1] / "best" / "model.safetensors")
    name = next(name for name in stored if name.endswith(INT8_SCALES))
    stored[name] = stored[name][:-1].contiguous()
    folder = tmp_path / "best"
    folder.mkdir()
    save_file(stored, folder / "model.safetensors")
    for file in ("training.safetensors", "training.json"):
        (folder / file).write_bytes((runs[1] / "best" / file).read_bytes())
    checkpoint.write_manifest(folder, checkpoint.FILES)
    with pytest.raises(RunError, match="expected int8 weights with a float32 scale for each row"):
        checkpoint.load(folder, warn=lambda _: None)
