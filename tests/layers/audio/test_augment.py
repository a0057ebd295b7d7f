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
from seqloom.layers.audio.augment import VTLP, AdditiveNoise, SpecAugment, SpeedPerturbation, length_at_speed

LENGTHS = st.lists(st.integers(0, 30), min_size=1, max_size=4)


def hidden(row: Tensor) -> tuple[set[int], set[int]]:
    """Frames that are zero, and numbers that are."""
    zeros = (row == 0).numpy()
    return set(np.flatnonzero(zeros.all(axis=1)).tolist()), set(np.flatnonzero(zeros.all(axis=0)).tolist())


def runs(places: set[int]) -> list[int]:
    """How long the stretches of neighbours are."""
    actual: list[int] = []
    for place in sorted(places):
        actual = [*actual[:-1], actual[-1] + 1] if place - 1 in places else [*actual, 1]
    return actual


@given(seed=st.integers(0, 1000), lengths=LENGTHS)
def test_nothing_but_spans_of_the_allowed_size_is_hidden(seed: int, lengths: list[int]) -> None:
    torch.manual_seed(seed)
    mask = make_mask(lengths, 32)
    x = (noise(len(lengths), 32, 10).abs() + 1).masked_fill(~mask.unsqueeze(-1), float("nan"))
    layer = SpecAugment(bands=2, band=2, stretches=2, stretch=5, share=0.25)
    actual, kept = layer(x, mask)
    assert torch.equal(kept, mask)
    for row, length in enumerate(lengths):
        assert not actual[row, length:].any()
        frames, numbers = hidden(actual[row, :length])
        if length:
            assert sum(runs(numbers)) <= 4
            assert sum(runs(frames)) <= 2 * min(5, length // 4)
            rest = np.ix_(sorted(set(range(length)) - frames), sorted(set(range(10)) - numbers))
            assert np.array_equal(actual[row].numpy()[rest], x[row].numpy()[rest])


def test_spans_are_spread_evenly() -> None:
    torch.manual_seed(0)
    layer = SpecAugment(bands=1, band=3, stretches=1, stretch=2, share=1.0)
    actual, _ = layer(torch.ones(20000, 4, 6))
    numbers = (actual == 0).all(dim=1).float()  # (B, 6), but where all frames are hidden, which two cannot
    widths = numbers.sum(dim=1).long().bincount(minlength=4) / 20000
    torch.testing.assert_close(widths, torch.full((4,), 0.25), rtol=0, atol=0.015)  # 4 deviations of the mean
    ones = numbers[numbers.sum(dim=1) == 1].mean(dim=0)
    torch.testing.assert_close(ones, torch.full((6,), 1 / 6), rtol=0, atol=0.022)
    frames = (actual == 0).all(dim=2).float()
    lengths = frames[frames.sum(dim=1) < 3].sum(dim=1).long().bincount(minlength=3)[:3] / 20000
    torch.testing.assert_close(lengths, torch.full((3,), 1 / 3), rtol=0, atol=0.014)


def test_rows_differ_and_the_seed_decides() -> None:
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
def test_each_row_is_played_at_one_of_the_speeds(seed: int, lengths: list[int]) -> None:
    torch.manual_seed(seed)
    mask = make_mask(lengths, 31)
    x = noise(len(lengths), 31).masked_fill(~mask, float("nan"))
    actual, real = SpeedPerturbation((0.5, 1.0, 1.25))(x, mask)
    for row, length in enumerate(lengths):
        ways = [resample(x[row, :length], up=up, down=down) for up, down in ((2, 1), (1, 1), (4, 5))]
        heard = actual[row, : int(real[row].sum())]
        assert any(len(way) == len(heard) and torch.allclose(way, heard, rtol=0, atol=1e-14) for way in ways)
        assert not actual[row, len(heard) :].any()


@pytest.mark.parametrize("speed", ["9/10", "1", "11/10", "1/2", "3"])
@pytest.mark.parametrize("length", [1, 2, 7, 20])
def test_frames_are_interpolated_as_numpy_does(speed: str, length: int) -> None:
    frames, ratio = noise(length, 3), Fraction(speed)
    actual = length_at_speed(frames, ratio).numpy()
    assert len(actual) == -(-length // ratio)
    places = np.arange(len(actual)) * float(ratio)
    for column in range(3):
        expected = np.interp(places, np.arange(length), frames[:, column].numpy())
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
        (lambda: SpecAugment(bands=-1), "bands is -1, expected 0 or more"),
        (lambda: SpecAugment(share=1.5), "share is 1.5, expected 0 to 1"),
        (lambda: SpeedPerturbation(()), r"speeds are \[\], expected one or more from 0.1 to 10"),
        (lambda: SpeedPerturbation((0.0,)), r"speeds are \[0.0\], expected one or more"),
        (lambda: SpecAugment()(noise(2, 3)), r"values have shape \(2, 3\), expected \(batch, time, size\)"),
        (lambda: SpeedPerturbation()(noise(2)), r"values have shape \(2,\), expected \(batch, samples\)"),
        (lambda: SpeedPerturbation()(noise(2, 3), make_mask([1, 1], 2)), r"mask has shape \(2, 2\), expected \(2, 3\)"),
    ],
)
def test_bad_options_and_arguments_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=message):
        make()


def test_noise_is_as_loud_as_it_is_said_to_be() -> None:
    torch.manual_seed(1)
    lengths = torch.tensor([40_000, 25_000, 0])
    mask = torch.arange(40_000) < lengths.unsqueeze(1)
    samples = torch.where(mask, torch.randn(3, 40_000) * torch.tensor([[1.0], [0.01], [1.0]]), math.nan)
    added_noise = AdditiveNoise(10, 30)
    heard, real = added_noise(samples, mask)
    assert torch.equal(real, mask)
    assert (heard[~mask] == 0).all()
    for row in (0, 1):
        clean = samples[row, mask[row]]
        added = heard[row, mask[row]] - clean
        below = -10 * math.log10(float(added.square().mean() / clean.square().mean()))
        assert 9.9 <= below <= 30.1  # as drawn, up to chance in the energy of 25,000 samples
        assert abs(float((added[1:] * added[:-1]).mean() / added.square().mean())) < 0.03  # white
    assert torch.equal(added_noise.eval()(samples, mask)[0], samples.masked_fill(~mask, 0))


@pytest.mark.parametrize("levels", [(-1, 3), (20, 10)])
def test_levels_of_noise(levels: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="expected the lower number first"):
        AdditiveNoise(*levels)


def test_warps_are_drawn_for_each_row_and_the_seed_decides() -> None:
    warp, actual = VTLP(0.8, 1.25), []
    for _ in range(2):
        torch.manual_seed(5)
        actual.append(warp(20_000))
    assert torch.equal(*actual)
    logs = actual[0].log() / math.log(1.25)  # even between -1 and 1
    assert logs.abs().max() <= 1 + 1e-6
    counts, _ = np.histogram(logs.numpy(), bins=4, range=(-1.0, 1.0))
    np.testing.assert_allclose(counts / 20_000, 0.25, rtol=0, atol=0.013)  # 4 deviations
    assert torch.equal(warp.eval()(3), torch.ones(3))


@pytest.mark.parametrize("factors", [(0.4, 1.0), (1.2, 0.9), (1.0, 2.1), (math.nan, 1.0)])
def test_factors_of_a_warp(factors: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"expected 0.5 to 2, the lower number first"):
        VTLP(*factors)
