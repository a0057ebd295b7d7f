"""Trimming of silence, against loops over blocks."""

import numpy as np
import pytest
import torch

from seqloom.layers.audio.trim import TrimSilence

RATE = 4000
BLOCK = 80  # samples in 20 ms


def by_hand(samples: np.ndarray, top_db: float) -> np.ndarray:
    levels = [
        10 * np.log10(np.sum(samples[start : start + BLOCK].astype(float) ** 2) + 1e-10)
        for start in range(0, len(samples), BLOCK)
    ]
    loud = [number for number, level in enumerate(levels) if level >= max(levels) - top_db]
    kept = samples[loud[0] * BLOCK : (loud[-1] + 1) * BLOCK]
    return np.asarray(kept)


def word(before: int, length: int, after: int, *, silence: float = 0.001, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    scale = np.concatenate([np.full(before, silence), np.full(length, 0.3), np.full(after, silence)])
    return np.asarray(random.normal(size=len(scale)) * scale, dtype=np.float32)


@pytest.mark.parametrize("top_db", [10.0, 30.0, 90.0])
def test_equals_loops_over_blocks(top_db: float) -> None:
    rows = [word(500, 700, 333), word(0, 81, 900, seed=2), word(1200, 200, 0, seed=3), word(90, 40, 30, silence=0.29)]
    mask = torch.arange(1533) < torch.tensor([len(row) for row in rows]).unsqueeze(1)
    padded = torch.full((4, 1533), torch.nan)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = torch.from_numpy(row)
    samples, real = TrimSilence(RATE, top_db=top_db)(padded, mask)
    for number, row in enumerate(rows):
        expected = by_hand(row, top_db)
        np.testing.assert_array_equal(samples[number][real[number]], expected)
        assert not samples[number, len(expected) :].any()
    assert real.sum(dim=1).max() == samples.shape[1]


def test_a_click_keeps_the_shortest_length() -> None:
    click = np.zeros(400, dtype=np.float32)
    click[330] = 1.0  # its block ends at 400
    trim = TrimSilence(RATE, top_db=30.0, shortest=150)
    samples, real = trim(torch.from_numpy(click).unsqueeze(0))
    np.testing.assert_array_equal(samples[0], click[250:])
    assert real.all()
    short = torch.tensor([[0.0, 0.5]])
    np.testing.assert_array_equal(trim(short)[0], short)


def test_zeros_and_nothing_are_kept() -> None:
    trim = TrimSilence(RATE, top_db=30.0)
    assert trim(torch.zeros(2, 500))[0].shape == (2, 500)
    assert trim(torch.zeros(2, 0))[0].shape == (2, 0)
    with pytest.raises(ValueError, match="top_db must be greater than 0"):
        TrimSilence(RATE, top_db=0)
