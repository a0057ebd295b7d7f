import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.registry import noise

from seqloom.kernels.resample import resample, resampled_length

signal = pytest.importorskip("scipy.signal")


@given(length=st.integers(0, 80), up=st.integers(1, 12), down=st.integers(1, 12))
def test_it_equals_scipy_s_polyphase_filter(length: int, up: int, down: int) -> None:
    samples = noise(2, length)
    actual = resample(samples, up=up, down=down)
    assert actual.shape == (2, resampled_length(length, up, down))
    if length:
        expected = signal.resample_poly(samples.numpy(), up, down, axis=1)
        np.testing.assert_allclose(actual.numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("rate", "new_rate"), [(44100, 16000), (22050, 8000), (8000, 48000), (16001, 16000)])
def test_usual_and_odd_rates(rate: int, new_rate: int) -> None:
    samples = noise(1, 3000)
    actual = resample(samples, up=new_rate, down=rate).numpy()
    common = np.gcd(rate, new_rate)
    reference = signal.resample_poly(samples.numpy(), new_rate // common, rate // common, axis=1)
    np.testing.assert_allclose(
        actual, reference, rtol=0, atol=1e-7
    )  # above 4096 points the filter's sum is extrapolated


def test_a_tone_keeps_its_pitch() -> None:
    time = torch.arange(4000) / 8000
    actual = resample(torch.sin(2 * torch.pi * 440 * time), up=2, down=1)
    truth = torch.sin(2 * torch.pi * 440 * torch.arange(8000) / 16000)
    torch.testing.assert_close(actual[200:-200], truth[200:-200], rtol=0, atol=3e-3)  # ripple of the Kaiser window


def test_the_chunk_size_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = noise(3, 500)
    whole = resample(samples, up=3, down=7)
    monkeypatch.setattr("seqloom.kernels.resample.CHUNK_PRODUCTS", 1000)
    torch.testing.assert_close(resample(samples, up=3, down=7), whole, rtol=0, atol=0)


def test_equal_and_invalid_rates() -> None:
    samples = noise(4)
    assert resample(samples, up=5, down=5) is samples
    with pytest.raises(ValueError, match="up is 0 and down is 2, expected 1 or more"):
        resample(samples, up=0, down=2)
