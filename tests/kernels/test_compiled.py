"""The cache of compiled loops."""

from pathlib import Path

import numpy as np
import pytest

from seqloom.kernels import compiled, machine
from seqloom.kernels.pruning import log_add


def test_each_version_of_the_kernels_has_a_folder_and_old_ones_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    versions = []
    for number in range(compiled.KEPT + 3):
        monkeypatch.setattr(machine, "generator", lambda number=number: bytes([number]) * 32)
        versions.append(compiled.folder())
        (versions[-1] / "code").write_text("x")
    assert len(set(versions)) == len(versions)
    assert compiled.folder() == versions[-1]
    assert (versions[-1] / "code").exists()
    assert len(list(versions[0].parent.iterdir())) == compiled.KEPT


def test_sums_of_logarithms() -> None:
    random = np.random.default_rng(1)
    pairs = random.uniform(-40, 40, size=(2000, 2))
    found = [log_add(x, y) for x, y in pairs]
    assert np.abs(found - np.logaddexp(*pairs.T)).max() < 2e-11  # of the cubic pieces
    assert log_add(-np.inf, -np.inf) == -np.inf
    assert log_add(-np.inf, 3.0) == log_add(3.0, -np.inf) == 3.0
