"""VTLP of MFCC frames: against the warped spectrum of smooth sounds, and NumPy's cosine series."""

from typing import Any

import numpy as np
import pytest
import torch

from seqloom.layers.audio.cepstral_warp import CepstralWarp
from seqloom.layers.audio.spectrum import Spectrum

RATE = 16000
OPTIONS: dict[str, Any] = {"n_mels": 40, "n_mfcc": 13, "fmin": 130.0, "fmax": 6800.0}


def test_without_a_warp_the_frames_do_not_change() -> None:
    frames = torch.randn(2, 5, 39, dtype=torch.float64)
    warped = CepstralWarp(RATE, **OPTIONS)(frames, torch.ones(2))
    torch.testing.assert_close(warped, frames, rtol=0, atol=1e-9)  # the cosines are orthonormal


def test_the_series_is_read_at_the_warped_frequencies() -> None:
    """Straight from the definition, with mel as in Slaney's toolbox, for a warp below the bend."""
    warp, n_mels, n_mfcc = 0.9, 40, 13
    cepstra = np.random.default_rng(0).normal(size=n_mfcc)
    break_mel, step = 1000 / (200 / 3), np.log(6.4) / 27

    def mel(hertz: np.ndarray) -> np.ndarray:
        return np.where(hertz < 1000, hertz / (200 / 3), break_mel + np.log(np.maximum(hertz, 1) / 1000) / step)

    def hertz(mels: np.ndarray) -> np.ndarray:
        return np.where(mels < break_mel, mels * 200 / 3, 1000 * np.exp((mels - break_mel) * step))

    low, high = mel(np.array([130.0, 6800.0])).tolist()
    mels = np.linspace(low, high, n_mels + 2)[1:-1]
    bend = 0.85 * RATE / 2 * warp
    centres = hertz(mels)
    moved = np.where(
        centres <= bend / warp,
        centres * warp,
        RATE / 2 - (RATE / 2 - bend) / (RATE / 2 - bend / warp) * (RATE / 2 - centres),
    )
    places = np.clip(np.interp(mel(moved), mels, np.arange(n_mels)), 0, n_mels - 1)
    scales = np.full(n_mfcc, np.sqrt(2 / n_mels))
    scales[0] = np.sqrt(1 / n_mels)
    orders = np.arange(n_mfcc)
    logs = np.cos(np.pi / n_mels * np.outer(places + 0.5, orders)) @ (scales * cepstra)
    expected = scales * (logs @ np.cos(np.pi / n_mels * np.outer(np.arange(n_mels) + 0.5, orders)))
    warped = CepstralWarp(RATE, **OPTIONS)(torch.tensor(cepstra).view(1, 1, -1), torch.tensor([warp]))
    np.testing.assert_allclose(warped.flatten().numpy(), expected, atol=1e-6)  # the warp is single precision


@pytest.mark.parametrize("warp", [0.85, 1.18])
def test_it_follows_the_warped_spectrum_of_a_sound(warp: float) -> None:
    """For a smooth spectrum, it does nearly what warping the mel filters of the samples does."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(1, RATE, generator=generator)
    peaks = torch.fft.rfftfreq(RATE, 1 / RATE)
    envelope = sum(torch.exp(-(((peaks - peak) / 700) ** 2)) for peak in (700.0, 2300.0)) + 0.05
    sound = torch.fft.irfft(torch.fft.rfft(noise) * envelope, n=RATE)
    spectrum = Spectrum(RATE, kind="mfcc", **OPTIONS)
    plain = spectrum(sound)[0].mean(dim=1, keepdim=True)
    goal = spectrum(sound, warps=torch.tensor([warp]))[0].mean(dim=1, keepdim=True)
    warped = CepstralWarp(RATE, **OPTIONS)(plain, torch.tensor([warp]))
    shape = slice(1, None)  # without the energy, which also depends on the widths of the filters
    before, after = (goal - plain)[..., shape].norm(), (goal - warped)[..., shape].norm()
    assert after < 0.35 * before  # what is left: 27 of 40 coefficients that the frames lack, and the ends of the axis


def test_impossible_options_are_refused() -> None:
    with pytest.raises(ValueError, match="n_mfcc is 41, expected 1 to n_mels = 40"):
        CepstralWarp(RATE, **{**OPTIONS, "n_mfcc": 41})
    with pytest.raises(ValueError, match="fmin is 7000"):
        CepstralWarp(RATE, **{**OPTIONS, "fmin": 7000})
    with pytest.raises(ValueError, match="a multiple of 13"):
        CepstralWarp(RATE, **OPTIONS)(torch.zeros(1, 2, 14), torch.ones(1))
