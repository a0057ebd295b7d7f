"""What ``seqloom info`` collects."""

from pathlib import Path

import pytest
import torch
from tests.contracts.tiny import CASES, build

from seqloom import workflow
from seqloom.info import describe_run, machine_info
from seqloom.layers.bfloat16_products import unsupported
from seqloom.run import Run


def test_machine_info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    info = machine_info()
    assert info.versions["torch"] == torch.__version__
    assert info.threads == 1
    assert info.vector_bits in (128, 256, 512)
    reason = unsupported()
    assert info.bfloat16 in (reason, "AVX512_BF16 (train.precision)", "AMX (train.precision)")
    assert info.int8 in ("vpdpbusd", "sdot", "pmaddwd", "portable")
    assert set(info.cells) >= {"elman", "lstm", "peephole", "coupled", "gru", "layer_norm_lstm", "layer_norm_gru"}
    assert Path(info.cache_folder).is_relative_to(tmp_path)
    files = list(tmp_path.rglob("*.o"))  # beside the key of the cache
    assert (info.cache_files, info.cache_bytes) == (len(files), sum(path.stat().st_size for path in files))


def test_a_run_is_described_with_its_best_metrics(tmp_path: Path) -> None:
    path = workflow.train(build(CASES["language_model"], tmp_path, updates=2), output=tmp_path / "run").path
    summary = describe_run(path)
    assert summary["task"] == "language_model"
    assert summary["perplexity"] == Run.open(path).best_metrics()["perplexity"]
    assert summary["best update"] <= 2
    assert summary["parameters"] > 0
    assert summary["generation"] == "compiled"
    assert (summary["precision"], summary["precision of training"]) == ("float32", "float32")


def test_a_run_says_why_its_steps_are_not_compiled(tmp_path: Path) -> None:
    case = CASES["translate"]._replace(fields=CASES["translate"].fields | {"attention.score": "single_layer"})
    config = build(case, tmp_path, updates=1)
    summary = describe_run(workflow.train(config, output=tmp_path / "run").path)
    assert summary["generation"] == "layers"
    assert summary["note"].endswith("the score SingleLayer is no dot product of the query and prepared keys")
