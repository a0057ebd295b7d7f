"""The benchmark of long inputs compares blocks that compute what their names say."""

import pytest
import torch

from benchmarks import attention, child_process


def test_time_and_memory_of_each_variant_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "run", lambda _, kind, *__: {"full attention": 30.0}.get(kind, 10.0))
    results = list(attention.compare(16, causal=True, repetitions=1))
    assert [result.unit for result in results] == ["ms", "MB", "ms", "MB"]
    assert results[1].ratio == 3
    assert results[0].peer == results[2].peer
    assert "window of 128, causal, T=16" in results[0].case


def test_a_window_wider_than_the_input_is_full_attention() -> None:
    full, window, linear = (attention.training_step(kind, 20, causal=False)() for kind in attention.KINDS)
    for one, other in zip(full, window, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(full[0], linear[0])
