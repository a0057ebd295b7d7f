"""The benchmark of training in bfloat16 on tiny models: what it compares, not how fast it is."""

import pytest
from tests.benchmarks.test_translate import SMALL, interleave_once

from benchmarks import bfloat16
from seqloom.layers.bfloat16_products import unsupported

pytestmark = pytest.mark.skipif(unsupported() is not None, reason=unsupported() or "")


def test_translation_is_compared_with_float32_and_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bfloat16, "SIZES", SMALL)
    monkeypatch.setattr(bfloat16, "interleave", interleave_once)
    results = list(bfloat16.translation("transformer", 1, repetitions=1))
    assert [(result.peer_name, result.ratio, result.goal) for result in results] == [
        ("our float32", 3 / 2, 1.5),
        ("plain PyTorch, autocast to bfloat16", 4 / 2, 1.3),
    ]
