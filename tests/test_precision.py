"""Training with train.precision = "bfloat16": what changes, what stays float32, and where it is refused."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.contracts.test_tasks import contents
from tests.contracts.tiny import CASES, build

from seqloom import load, workflow
from seqloom.check import check_data
from seqloom.evaluation import split_details
from seqloom.info import describe_run
from seqloom.kernels.llvm import jit_cache
from seqloom.layers.bfloat16_products import active_products, unsupported
from seqloom.learning_rate_finder import find_learning_rate
from seqloom.run import Run

supported = pytest.mark.skipif(unsupported() is not None, reason="no bfloat16 instructions")


def train(tmp_path: Path, name: str, **settings: Any) -> Run:
    settings = {"updates": 4, "evaluate_every": 2, "precision": "bfloat16"} | settings
    number = len(list(tmp_path.glob("run*")))
    return workflow.train(build(CASES[name], tmp_path, **settings), output=tmp_path / f"run{number}")


@supported
@pytest.mark.parametrize("name", ["tag", "language_model", "translate"])
def test_the_same_seed_gives_the_same_run_and_float32_another(name: str, tmp_path: Path) -> None:
    first, second = (contents(train(tmp_path, name)) for _ in range(2))
    assert first == second
    assert contents(train(tmp_path, name, precision="float32"))[0] != first[0]


@supported
@pytest.mark.parametrize("name", ["tag", "language_model", "translate"])
def test_checkpoints_and_predictions_are_float32(name: str, tmp_path: Path) -> None:
    run = train(tmp_path, name)
    for tensors in (load_file(run.path / "best" / "model.safetensors"), run.load("last").training):
        kinds = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
        assert kinds == {torch.float32}
    # Weights have more digits than bfloat16 has: what was rounded for a product was not stored.
    weights = [tensor for tensor in load_file(run.path / "best" / "model.safetensors").values() if tensor.dim() == 2]
    assert not all(torch.equal(weight, weight.bfloat16().float()) for weight in weights)
    model = load(run.path)
    scores, _ = split_details(model.evaluate(model.task.dev))
    assert scores == run.best_metrics()  # of the training, which evaluates in float32


@supported
def test_information_about_a_run_names_the_precision(tmp_path: Path) -> None:
    run = train(tmp_path, "tag")
    assert describe_run(run.path)["settings"]["train.precision"] == "bfloat16"
    assert describe_run(run.path)["precision"] == "float32"  # of the weights
    assert "`train.precision`: `bfloat16`" in (run.path / "README.md").read_text()


@supported
def test_check_and_the_learning_rate_test_compute_in_bfloat16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = build(CASES["tag"], tmp_path, precision="bfloat16")
    computed = []
    loss = type(config.task).loss

    def watched(*arguments: Any) -> Any:
        computed.append(active_products() is not None)
        return loss(*arguments)

    monkeypatch.setattr(type(config.task), "loss", watched)
    assert not check_data(config).problems
    find_learning_rate(config, updates=3)
    assert len(computed) == 4
    assert all(computed)


def check_refused(tmp_path: Path, name: str, reason: str, **settings: Any) -> None:
    config = build(CASES[name], tmp_path, precision="bfloat16", **settings)
    message = f'train.precision: expected "float32", got "bfloat16": {reason}'
    with pytest.raises(ValueError, match=re.escape(message)):
        workflow.train(config, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert any(problem.startswith(message) for problem in check_data(config).problems)


def test_a_processor_without_bfloat16_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_cache, "has_cpu_feature", lambda _: False)
    check_refused(tmp_path, "tag", "this processor has no instructions for bfloat16 products (AVX512_BF16)")


def test_other_devices_are_refused(tmp_path: Path) -> None:
    check_refused(tmp_path, "tag", 'train.device is "meta", and bfloat16 products run on the CPU', device="meta")


@pytest.mark.parametrize("name", ["embed", "language_model, ngram", "tag, hmm"])
def test_models_without_gradients_are_refused(name: str, tmp_path: Path) -> None:
    check_refused(tmp_path, name, f"this {CASES[name].name} model is not trained by gradient descent")


@supported
def test_a_run_is_loaded_and_exported_where_there_is_no_bfloat16(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train(tmp_path, "tag")
    with monkeypatch.context() as other:
        other.setattr(jit_cache, "has_cpu_feature", lambda _: False)
        model = load(run.path)
        assert split_details(model.evaluate(model.task.dev))[0] == run.best_metrics()
        pytest.importorskip("onnxruntime")
        model.export(tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").is_file()
