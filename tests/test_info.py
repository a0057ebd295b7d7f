"""What ``seqloom info`` collects."""

from pathlib import Path

import pytest
import torch

from seqloom.info import collect


def test_collect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    found = collect()
    assert found.versions["torch"] == torch.__version__
    assert found.threads == 1
    assert found.vector_bits in (128, 256, 512)
    assert set(found.cells) >= {"elman", "lstm", "peephole", "coupled", "gru", "layer_norm_lstm", "layer_norm_gru"}
    assert Path(found.cache_folder).is_relative_to(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert (found.cache_files, found.cache_bytes) == (len(files), sum(path.stat().st_size for path in files))
