import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.registry import make_mask, noise
from torch import Tensor

from seqloom.kernels.resample import resample
from seqloom.layers.audio.augment import (
    VTLP,
    AdditiveNoise,
    RandomCrop,
    RandomFilter,
    RandomOffset,
    SpecAugment,
    SpeedPerturbation,
    change_speed,
)

LENGTHS = st.lists(st.integers(0, 30), min_size=1, max_size=4)


def masked(row: Tensor) -> tuple[set[int], set[int]]:
    """Indices of the frames and of the features that are zero."""
    zeros = (row == 0).numpy()
    return set(np.flatnonzero(zeros.all(axis=1)).tolist()), set(np.flatnonzero(zeros.all(axis=0)).tolist())


def runs(indices: set[int]) -> list[int]:
    """Lengths of the runs of consecutive indices."""
    lengths: list[int] = []
    for index in sorted(indices):
        lengths = [*lengths[:-1], lengths[-1] + 1] if index - 1 in indices else [*lengths, 1]
    return lengths


@given(seed=st.integers(0, 1000), lengths=LENGTHS)
def test_only_spans_of_the_allowed_size_are_masked(seed: int, lengths: list[int]) -> None:
    torch.manual_seed(seed)
    mask = make_mask(lengths, 32)
    x = (noise(len(lengths), 32, 10).abs() + 1).masked_fill(~mask.unsqueeze(-1), float("nan"))
    layer = SpecAugment(freq_masks=2, freq_mask_width=2, time_masks=2, time_mask_width=5, time_mask_fraction=0.25)
    actual, kept = layer(x, mask)
    assert torch.equal(kept, mask)
    for row, length in enumerate(lengths):
        assert not actual[row, length:].any()
        frames, features = masked(actual[row, :length])
        if length:
            assert sum(runs(features)) <= 4
            assert sum(runs(frames)) <= 2 * min(5, length // 4)
            rest = np.ix_(sorted(set(range(length)) - frames), sorted(set(range(10)) - features))
            assert np.array_equal(actual[row].numpy()[rest], x[row].numpy()[rest])


def test_spans_are_uniform() -> None:
    torch.manual_seed(0)
    layer = SpecAugment(freq_masks=1, freq_mask_width=3, time_masks=1, time_mask_width=2, time_mask_fraction=1.0)
    actual, _ = layer(torch.ones(20000, 4, 6))
    features = (actual == 0).all(dim=1).float()  # (B, 6); two masked frames cannot be all frames
    widths = features.sum(dim=1).long().bincount(minlength=4) / 20000
    torch.testing.assert_close(widths, torch.full((4,), 0.25), rtol=0, atol=0.015)  # 4 deviations of the mean
    ones = features[features.sum(dim=1) == 1].mean(dim=0)
    torch.testing.assert_close(ones, torch.full((6,), 1 / 6), rtol=0, atol=0.022)
    frames = (actual == 0).all(dim=2).float()
    lengths = frames[frames.sum(dim=1) < 3].sum(dim=1).long().bincount(minlength=3)[:3] / 20000
    torch.testing.assert_close(lengths, torch.full((3,), 1 / 3), rtol=0, atol=0.014)


def test_rows_differ_and_are_reproducible() -> None:
    layer, x = SpecAugment(), torch.ones(4, 200, 20)
    actual = []
    for _ in range(2):
        torch.manual_seed(3)
        actual.append(layer(x)[0])
    assert torch.equal(*actual)
    assert len({tuple(row.flatten().tolist()) for row in actual[0]}) == 4


def test_eval_mode_changes_nothing() -> None:
    x, mask = noise(2, 5, 3), make_mask([5, 2], 5)
    frames, kept = SpecAugment().eval()(x, mask)
    assert torch.equal(frames, x.masked_fill(~mask.unsqueeze(-1), 0))
    assert torch.equal(kept, mask)
    samples, _ = SpeedPerturbation().eval()(x[:, :, 0])
    assert torch.equal(samples, x[:, :, 0])


@given(seed=st.integers(0, 100), lengths=LENGTHS)
def test_each_row_has_one_of_the_speeds(seed: int, lengths: list[int]) -> None:
    torch.manual_seed(seed)
    mask = make_mask(lengths, 31)
    x = noise(len(lengths), 31).masked_fill(~mask, float("nan"))
    actual, real = SpeedPerturbation((0.5, 1.0, 1.25))(x, mask)
    for row, length in enumerate(lengths):
        candidates = [resample(x[row, :length], up=up, down=down) for up, down in ((2, 1), (1, 1), (4, 5))]
        played = actual[row, : int(real[row].sum())]
        assert any(len(row) == len(played) and torch.allclose(row, played, rtol=0, atol=1e-14) for row in candidates)
        assert not actual[row, len(played) :].any()


@pytest.mark.parametrize("speed", ["9/10", "1", "11/10", "1/2", "3"])
@pytest.mark.parametrize("length", [1, 2, 7, 20])
def test_frames_are_interpolated_as_in_numpy(speed: str, length: int) -> None:
    frames, ratio = noise(length, 3), Fraction(speed)
    actual = change_speed(frames, ratio).numpy()
    assert len(actual) == -(-length // ratio)
    positions = np.arange(len(actual)) * float(ratio)
    for column in range(3):
        expected = np.interp(positions, np.arange(length), frames[:, column].numpy())
        np.testing.assert_allclose(actual[:, column], expected, rtol=0, atol=1e-12)


def test_frames_and_empty_rows() -> None:
    torch.manual_seed(1)
    x, mask = noise(3, 6, 2), make_mask([6, 0, 3], 6)
    actual, real = SpeedPerturbation((0.5,))(x, mask)
    assert real.sum(dim=1).tolist() == [12, 0, 6]
    assert actual.shape == (3, 12, 2)
    assert SpeedPerturbation()(noise(0, 6))[0].shape == (0, 6)
    assert SpeedPerturbation()(noise(2, 0))[0].shape == (2, 0)
    assert SpecAugment()(noise(2, 0, 3))[0].shape == (2, 0, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpecAugment(freq_masks=-1), "freq_masks must be at least 0, got -1"),
        (lambda: SpecAugment(time_mask_fraction=1.5), "time_mask_fraction must be between 0 and 1, got 1.5"),
        (lambda: RandomFilter(-1), "filter_db must be at least 0, got -1"),
        (lambda: SpeedPerturbation(()), r"speeds are \[\], expected one or more between 0.1 and 10"),
        (lambda: SpeedPerturbation((0.0,)), r"speeds are \[0.0\], expected one or more"),
        (lambda: SpecAugment()(noise(2, 3)), r"values have shape \(2, 3\), expected \(batch, time, size\)"),
        (lambda: SpeedPerturbation()(noise(2)), r"values have shape \(2,\), expected \(batch, samples\)"),
        (lambda: SpeedPerturbation()(noise(2, 3), make_mask([1, 1], 2)), r"mask has shape \(2, 2\), expected \(2, 3\)"),
    ],
)
def test_invalid_options_and_arguments_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=message):
        make()


def test_noise_has_the_requested_level() -> None:
    torch.manual_seed(1)
    lengths = torch.tensor([40_000, 25_000, 0])
    mask = torch.arange(40_000) < lengths.unsqueeze(1)
    samples = torch.where(mask, torch.randn(3, 40_000) * torch.tensor([[1.0], [0.01], [1.0]]), math.nan)
    added_noise = AdditiveNoise(10, 30)
    noisy, real = added_noise(samples, mask)
    assert torch.equal(real, mask)
    assert (noisy[~mask] == 0).all()
    for row in (0, 1):
        clean = samples[row, mask[row]]
        added = noisy[row, mask[row]] - clean
        snr = -10 * math.log10(float(added.square().mean() / clean.square().mean()))
        assert 9.999 <= snr <= 30.001  # up to rounding
        power = np.abs(np.fft.rfft(added.numpy())) ** 2
        bands = [10 * math.log10(band.mean()) for band in np.array_split(power, 200)]
        assert np.abs(np.diff(bands)).max() < 3  # smooth, up to chance in 62 bins
        assert np.ptp(bands) > 3  # not white
    assert torch.equal(added_noise.eval()(samples, mask)[0], samples.masked_fill(~mask, 0))


def test_filters_have_smooth_responses_of_the_requested_deviation() -> None:
    torch.manual_seed(2)
    rows, length = 4000, 255
    impulses = torch.zeros(rows, length, dtype=torch.float64)
    impulses[:, length // 2] = 1
    layer = RandomFilter(3.0)
    actual, _ = layer(impulses)
    decibels = 20 * np.log10(np.abs(np.fft.rfft(actual.numpy(), axis=1)))
    frequencies = np.linspace(0, np.pi, decibels.shape[1] + 1)[:-1] * (length + 1) / length
    cosines = np.cos(np.outer(np.arange(1, 5), frequencies))
    heights, *_ = np.linalg.lstsq(cosines.T, decibels.T, rcond=None)  # (4, rows)
    np.testing.assert_allclose(heights.T @ cosines, decibels, rtol=0, atol=0.01)  # the impulse response is cut off
    np.testing.assert_allclose(heights.std(axis=1), 3 / np.arange(1, 5), rtol=4 / math.sqrt(2 * rows))


def test_filtering_ignores_the_padding_and_rests_in_evaluation() -> None:
    mask = make_mask([200, 0, 120], 200)
    samples = torch.randn(3, 200).masked_fill(~mask, math.nan)
    layer, results = RandomFilter(6.0), []
    for filled in (samples, samples.masked_fill(~mask, 1e6)):
        torch.manual_seed(3)
        actual, real = layer(filled, mask)
        assert torch.equal(real, mask)
        assert not actual[~mask].any()
        results.append(actual)
    assert torch.equal(*results)
    assert torch.equal(layer.eval()(samples, mask)[0], samples.masked_fill(~mask, 0))
    assert layer.train()(torch.zeros(2, 0))[0].shape == (2, 0)


@pytest.mark.parametrize("smooth", [True, False])
def test_offsets_are_constant_over_time_and_vary_as_requested(smooth: bool) -> None:
    torch.manual_seed(2)
    rows, mask = 20_000, make_mask([3, 2], 3).repeat(10_000, 1)
    frames = noise(rows, 3, 12).float().masked_fill(~mask.unsqueeze(-1), math.nan)
    actual, real = RandomOffset(0.5, size=10, smooth=smooth)(frames, mask)
    assert torch.equal(real, mask)
    assert not actual[~mask].any()
    differences = actual - frames
    torch.testing.assert_close(differences[:, 1], differences[:, 0], rtol=0, atol=1e-6)
    offsets = differences[:, 0].numpy()
    assert not offsets[:, 10:].any()  # differences of the features do not change
    covariance = np.cov(offsets[:, :10], rowvar=False)
    if smooth:
        bands = (np.arange(10) + 0.5) * np.pi / 10
        basis = np.stack([np.cos(ripple * bands) / ripple for ripple in range(1, 5)])
        scale = 0.25 / np.mean((basis**2).sum(axis=0))
        expected = basis.T @ basis * scale
    else:
        expected = 0.25 * np.eye(10)
    np.testing.assert_allclose(covariance, expected, rtol=0, atol=4 * expected.max() * math.sqrt(2 / rows))
    assert abs(covariance.trace() / 10 - 0.25) < 0.02  # the requested deviation, on average over the features


def test_cropping_ignores_the_padding_and_rests_in_evaluation() -> None:
    torch.manual_seed(3)
    mask = make_mask([50, 0, 30], 50)
    samples = torch.randn(3, 50).masked_fill(~mask, math.nan)
    layer = RandomCrop(10)
    actual, kept = layer(samples, mask)
    assert not actual[~kept].any()
    assert torch.isfinite(actual).all()
    assert torch.equal(layer.eval()(samples, mask)[0], samples.masked_fill(~mask, 0))


def test_crops_are_parts_of_uniform_length() -> None:
    torch.manual_seed(4)
    lengths = torch.tensor([40, 100]).repeat(10_000)
    samples = torch.arange(1.0, 101.0).expand(20_000, -1)
    actual, kept = RandomCrop(15)(samples, torch.arange(100) < lengths.unsqueeze(1))
    starts, counts = actual[:, 0].long() - 1, kept.sum(dim=1)
    ends = lengths - starts - counts
    expected = torch.where(kept, samples + starts.unsqueeze(1), 0)
    assert torch.equal(actual, expected)
    for row, longest in ((0, 10), (1, 15)):  # a quarter of 40, and the maximum
        for cut in (starts[row::2], ends[row::2]):
            shares = cut.bincount(minlength=longest + 1) / 10_000
            torch.testing.assert_close(shares, torch.full((longest + 1,), 1 / (longest + 1)), rtol=0, atol=0.013)


@pytest.mark.parametrize("levels", [(-1, 3), (20, 10)])
def test_invalid_noise_levels_are_refused(levels: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="expected 0 or more in ascending order"):
        AdditiveNoise(*levels)


def test_warps_are_sampled_for_each_row_and_reproducible() -> None:
    warp, actual = VTLP(0.8, 1.25), []
    for _ in range(2):
        torch.manual_seed(5)
        actual.append(warp(20_000))
    assert torch.equal(*actual)
    logs = actual[0].log() / math.log(1.25)  # uniform between -1 and 1
    assert logs.abs().max() <= 1 + 1e-6
    counts, _ = np.histogram(logs.numpy(), bins=4, range=(-1.0, 1.0))
    np.testing.assert_allclose(counts / 20_000, 0.25, rtol=0, atol=0.013)  # 4 deviations
    assert torch.equal(warp.eval()(3), torch.ones(3))


@pytest.mark.parametrize("factors", [(0.4, 1.0), (1.2, 0.9), (1.0, 2.1), (math.nan, 1.0)])
def test_invalid_warps_are_refused(factors: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"expected numbers between 0.5 and 2 in ascending order"):
        VTLP(*factors)
