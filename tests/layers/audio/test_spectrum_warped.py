"""Spectra with warped mel filters (VTLP)."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts.registry import make_mask, noise
from tests.layers.audio.test_spectrum import OPTIONS, build, sound

from seqloom.layers.audio.spectrum import Spectrum


def by_hand(hertz: float, warp: float, half: float) -> float:
    """The warp of Jaitly and Hinton (2013), with 0.85 · half for the highest formant."""
    formant = 0.85 * half * min(warp, 1)
    if hertz <= formant / warp:
        return hertz * warp
    return half - (half - formant) / (half - formant / warp) * (half - hertz)


@pytest.mark.parametrize("warp", [0.5, 0.8, 1.0, 1.25, 2.0])
def test_filters_are_at_the_warped_frequencies(warp: float) -> None:
    layer, samples = Spectrum(8000, n_mels=12, fmin=100.0, fmax=3800.0).double(), sound(8000).astype(np.float64)
    mels = np.linspace(100 / (200 / 3), 15 + np.log(3.8) / (np.log(6.4) / 27), 14)  # 1000 hertz are 15 mels
    plain = [mel * 200 / 3 if mel < 15 else 1000 * np.exp((mel - 15) * np.log(6.4) / 27) for mel in mels]
    edges = [by_hand(hertz, warp, 4000.0) for hertz in plain]
    bins = np.arange(129) * 8000 / 256
    bands = [np.interp(bins, edges[band : band + 3], [0, 2 / (edges[band + 2] - edges[band]), 0]) for band in range(12)]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(200) / 200)
    frames = np.lib.stride_tricks.sliding_window_view(samples, 200)[::80] * window
    energies = np.abs(np.fft.rfft(frames, n=256)) ** 2
    actual, _, _ = layer(torch.from_numpy(samples).unsqueeze(0), warps=torch.tensor([warp]).double())
    expected = np.log(np.maximum(energies @ np.transpose(bands), 1e-10))
    np.testing.assert_allclose(actual[0].numpy(), expected, rtol=0, atol=1e-5)  # tables are float32


def test_a_warp_moves_a_tone_to_another_band() -> None:
    """With filters 1.2 times as high, 1200 hertz fall into the band of 1000 hertz."""
    tones = [torch.sin(2 * torch.pi * pitch * torch.arange(4000) / 8000).unsqueeze(0) for pitch in (1000, 1200)]
    layer = Spectrum(8000, n_mels=30)
    plain, warped = layer(tones[0])[0], layer(tones[1], warps=torch.tensor([1.2]))[0]
    assert torch.equal(plain.mean(dim=1).argmax(), warped.mean(dim=1).argmax())
    assert not torch.equal(plain.mean(dim=1).argmax(), layer(tones[1])[0].mean(dim=1).argmax())


@OPTIONS
def test_warped_rows_are_independent_of_padding_other_rows_and_chunks(options: dict[str, Any]) -> None:
    layer, mask, warps = build(**options), make_mask([40, 23, 0], 40), torch.tensor([0.8, 1.0, 1.3])
    samples = noise(3, 40).masked_fill(~mask, math.nan)
    actual, real, _ = layer(samples, mask, warps=warps)
    for row, length in enumerate((40, 23)):
        alone, _, _ = layer(samples[row : row + 1, :length], warps=warps[row : row + 1])
        torch.testing.assert_close(actual[row, real[row]], alone[0], rtol=0, atol=1e-10)
        first, _, state = layer(samples[row : row + 1, :17], warps=warps[row : row + 1])
        second, _, _ = layer(samples[row : row + 1, 17:length], state=state, warps=warps[row : row + 1])
        torch.testing.assert_close(torch.cat([first, second], dim=1), alone, rtol=0, atol=1e-10)
    plain, _, _ = layer(samples, mask)
    torch.testing.assert_close(
        actual[1], plain[1], rtol=0, atol=1e-5
    )  # a warp of 1 changes nothing; tables are float32
    assert not torch.allclose(actual[0], plain[0], atol=1e-2)


def test_one_warp_per_row_is_needed() -> None:
    with pytest.raises(ValueError, match=r"warps have shape \(1,\), expected \(2,\)"):
        build()(noise(2, 20), warps=torch.ones(1))
