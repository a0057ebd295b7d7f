"""The cache of loops compiled by numba."""

from pathlib import Path

import pytest

from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.runtime import numba_jit


def test_each_version_of_the_kernels_has_a_folder_and_old_ones_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    versions = []
    for number in range(numba_jit.MAX_VERSIONS + 3):
        monkeypatch.setattr(jit_cache, "source_digest", lambda number=number: bytes([number]) * 32)
        versions.append(numba_jit.version_folder())
        (versions[-1] / "code").write_text("x")
    assert len(set(versions)) == len(versions)
    assert numba_jit.version_folder() == versions[-1]
    assert (versions[-1] / "code").exists()
    assert len(list(versions[0].parent.iterdir())) == numba_jit.MAX_VERSIONS
