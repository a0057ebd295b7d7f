import inspect
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.contracts.registry import make_mask, noise
from torch import Tensor

from seqloom.layers.audio.spectrum import Normalize, Spectrum, cosines, mel_filters

SMALL: dict[str, Any] = {"window": 0.008, "hop": 0.003, "n_mels": 5, "n_mfcc": 4}  # 8 and 3 samples of 1000 Hz
EVERY: list[dict[str, Any]] = [
    {},
    {"kind": "mfcc", "deltas": 1},
    {"preemphasis": 0.97},
    {"kind": "mfcc", "deltas": 2, "preemphasis": 0.9, "fmin": 50.0, "fmax": 400.0},
]
OPTIONS = pytest.mark.parametrize("options", EVERY, ids=str)


def build(**options: Any) -> Spectrum:
    return Spectrum(1000, **(SMALL | options)).double()


def sound(rate: int, *, seconds: float = 0.5) -> NDArray[np.float32]:
    """A fading chord with noise."""
    time = np.arange(int(rate * seconds)) / rate
    chord = np.sum([np.sin(2 * np.pi * pitch * time) / pitch for pitch in (150, 440, 1234)], axis=0)
    loud = np.random.default_rng(0).standard_normal(len(time)) * 0.01
    return np.asarray(100 * chord * np.exp(-4 * time) + loud, dtype=np.float32)


def by_numpy(samples: NDArray[np.float64], layer: Spectrum) -> NDArray[np.float64]:
    """Frame by frame, by the definition of the Fourier transform: (T, size)."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(layer.window) / layer.window)
    angles = np.outer(np.arange(layer.n_fft // 2 + 1), np.arange(layer.window)) * 2 * np.pi / layer.n_fft
    frames = []
    for start in range(0, len(samples) - layer.window + 1, layer.hop):
        windowed = window * samples[start : start + layer.window]
        energy = (np.cos(angles) @ windowed) ** 2 + (np.sin(angles) @ windowed) ** 2
        frames.append(np.log(np.maximum(energy @ layer.filters.numpy(), 1e-10)))
    return np.array(frames).reshape(-1, layer.filters.shape[1])


@pytest.mark.parametrize("length", [0, 1, 7, 8, 10, 11, 50])
def test_frames_equal_their_definition(length: int) -> None:
    layer, samples = build(), noise(1, length)
    actual, mask, _ = layer(samples)
    np.testing.assert_allclose(
        actual[0].numpy(), by_numpy(samples[0].numpy(), layer), rtol=0, atol=1e-5
    )  # tables are float32
    assert mask.shape == (1, layer.length(length))
    assert mask.all()


@pytest.fixture(scope="module")
def librosa() -> Any:
    """librosa without its compiled loops: they are not used here, and take a quarter of a minute to compile."""
    module, numba = pytest.importorskip("librosa"), pytest.importorskip("numba")

    def uncompiled(*arguments: Any, **_: Any) -> Any:
        return arguments[0] if arguments and inspect.isfunction(arguments[0]) else lambda function: function

    with pytest.MonkeyPatch.context() as patch:
        for decorator in ("jit", "stencil", "vectorize", "guvectorize"):
            patch.setattr(numba, decorator, uncompiled)
        _ = module.feature.melspectrogram, module.feature.delta, module.effects.preemphasis, module.filters.mel
    return module


@pytest.mark.parametrize("rate", [8000, 16000, 22050])
@pytest.mark.parametrize("centre", [False, True])
def test_log_mel_and_mfcc_equal_librosa(rate: int, centre: bool, librosa: Any) -> None:
    samples = sound(rate)
    layer = Spectrum(rate, centre=centre, fmin=20.0, fmax=3800.0)
    assert (layer.window, layer.hop) == (round(rate * 0.025), round(rate * 0.01))
    margin = (layer.n_fft - layer.window) // 2  # librosa centres the window in the transform
    whole = samples if centre else np.pad(samples, (margin, layer.n_fft - layer.window - margin))
    energies = librosa.feature.melspectrogram(
        y=whole,
        sr=rate,
        n_fft=layer.n_fft,
        win_length=layer.window,
        hop_length=layer.hop,
        center=centre,
        n_mels=40,
        fmin=20.0,
        fmax=3800.0,
    )
    expected = np.log(np.maximum(energies, 1e-10))
    actual, _, _ = layer(torch.from_numpy(samples).unsqueeze(0))
    np.testing.assert_allclose(actual[0].T.numpy(), expected, rtol=0, atol=1e-4)
    cepstra, _, _ = Spectrum(rate, kind="mfcc", centre=centre, fmin=20.0, fmax=3800.0)(
        torch.from_numpy(samples).unsqueeze(0)
    )
    reference = librosa.feature.mfcc(S=expected, n_mfcc=13)
    np.testing.assert_allclose(cepstra[0].T.numpy(), reference, rtol=0, atol=1e-4)


def test_quiet_bands_beside_a_loud_hum() -> None:
    """The errors of a Fourier transform in single precision would be 5e-3 here."""
    hum = torch.sin(2 * torch.pi * 50 * torch.arange(8000, dtype=torch.float64) / 8000)
    samples = (hum + 1e-4 * noise(8000)).float().unsqueeze(0)
    layer = Spectrum(8000)
    actual, _, _ = layer(samples)
    np.testing.assert_allclose(actual[0].numpy(), by_numpy(samples[0].double().numpy(), layer), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("rate", "points", "mels"), [(16000, 512, 80), (8000, 256, 23)])
def test_filters_and_cosines_equal_librosa_and_scipy(rate: int, points: int, mels: int, librosa: Any) -> None:
    filters = mel_filters(rate, points, n_mels=mels, fmin=10.0, fmax=rate / 2).numpy()
    expected = librosa.filters.mel(sr=rate, n_fft=points, n_mels=mels, fmin=10.0, fmax=rate / 2, dtype=np.float64)
    np.testing.assert_allclose(filters.T, expected, rtol=0, atol=1e-14)
    fft = pytest.importorskip("scipy.fft")
    np.testing.assert_allclose(cosines(mels).numpy(), fft.dct(np.eye(mels), norm="ortho"), rtol=0, atol=1e-13)


def test_preemphasis_and_deltas_equal_librosa(librosa: Any) -> None:
    samples = sound(8000).astype(np.float64)
    emphasised = librosa.effects.preemphasis(samples, coef=0.97, zi=np.zeros(1))
    signal, plain = (torch.from_numpy(array).unsqueeze(0) for array in (samples, emphasised))
    layer = Spectrum(8000, preemphasis=0.97, deltas=2).double()
    actual = layer(signal)[0][0].T.numpy()
    expected = Spectrum(8000).double()(plain)[0][0].T.numpy()
    np.testing.assert_allclose(actual[:40], expected, rtol=0, atol=1e-9)
    slopes = librosa.feature.delta(expected, width=5)
    np.testing.assert_allclose(
        actual[40:80, 4:], slopes[:, 2:-2], rtol=0, atol=1e-9
    )  # librosa looks ahead, Spectrum back
    again = librosa.feature.delta(slopes[:, 2:-2], width=5)
    np.testing.assert_allclose(actual[80:, 8:], again[:, 2:-2], rtol=0, atol=1e-9)
    np.testing.assert_allclose(actual[40:, 0], 0, rtol=0, atol=1e-12)  # the first frame is repeated before the start


@OPTIONS
@settings(max_examples=30)
@given(cuts=st.lists(st.integers(0, 60), max_size=6).map(sorted))
def test_chunks_equal_the_whole(options: dict[str, Any], cuts: list[int]) -> None:
    layer, lengths = build(**options), [60, 0, 33, 9, 5]
    samples, mask = noise(5, 60), make_mask(lengths, 60)
    whole, real, last = layer(samples, mask)
    rows: list[list[Tensor]] = [[] for _ in lengths]
    state = None
    for start, stop in zip([0, *cuts], [*cuts, 60], strict=True):
        frames, kept, state = layer(samples[:, start:stop], mask[:, start:stop], state)
        for row, chunks in enumerate(rows):
            chunks.append(frames[row][kept[row]])
    for row, chunks in enumerate(rows):
        torch.testing.assert_close(torch.cat(chunks), whole[row][real[row]], rtol=0, atol=1e-11)
    assert state is not None
    for left, right in zip(state, last, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-11)


@OPTIONS
@pytest.mark.parametrize("centre", [False, True])
def test_each_row_is_independent_of_padding_and_other_rows(options: dict[str, Any], centre: bool) -> None:
    layer, lengths = build(**options, centre=centre), [40, 0, 1, 7, 8, 23]
    mask = make_mask(lengths, 50)
    samples = noise(6, 50).masked_fill(~mask, float("nan")).requires_grad_()
    frames, real, _ = layer(samples, mask)
    assert real.sum(dim=1).tolist() == [layer.length(length) for length in lengths]
    assert frames.shape == (6, layer.length(40), layer.output_size)
    for row, length in enumerate(lengths):
        alone, _, _ = layer(samples[row : row + 1, :length])
        count = alone.shape[1]
        torch.testing.assert_close(frames[row, :count], alone[0], rtol=0, atol=1e-11)
        assert not frames[row, count:].any()
    (slopes,) = torch.autograd.grad(frames.sum(), samples)
    assert torch.isfinite(slopes).all()
    assert not slopes[~mask].any()


def test_gradients_equal_finite_differences() -> None:
    layer, mask = build(kind="mfcc", deltas=1, preemphasis=0.5), make_mask([20, 11], 20)
    samples = noise(2, 20).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: layer(x, mask)[0], (samples,))


def test_nan_in_one_row_stays_there() -> None:
    samples = noise(2, 30)
    samples[0, 12] = float("nan")
    frames, _, _ = build()(samples)
    assert torch.isfinite(frames[1]).all()
    assert torch.isnan(frames[0]).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "mel"}, "kind is 'mel', expected log_mel or mfcc"),
        ({"hop": 0.02}, "hop is 0.02 and window 0.008"),
        ({"hop": 0.0}, "hop is 0.0 and window 0.008"),
        ({"n_mels": 0}, "n_mels must be at least 1, got 0"),
        ({"kind": "mfcc", "n_mfcc": 6}, r"n_mfcc is 6, expected 1 to 5 \(n_mels\)"),
        ({"fmax": 600.0}, "fmin is 0.0 and fmax 600.0: expected 0 ≤ fmin < fmax ≤ 500"),
        ({"deltas": 3}, "deltas is 3, expected 0, 1 or 2"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**options)


def test_invalid_arguments_are_refused() -> None:
    layer, samples = build(), noise(2, 30)
    with pytest.raises(ValueError, match=r"samples have shape \(2, 30, 1\), expected \(batch, samples\)"):
        layer(samples.unsqueeze(2))
    with pytest.raises(TypeError, match=r"x has dtype torch\.float32, expected torch\.float64"):
        layer(samples.float())
    with pytest.raises(TypeError, match=r"state is int, expected Spectrum\.State"):
        layer(samples, None, 3)
    with pytest.raises(ValueError, match=r"state.pending has shape \(1, 7\), expected \(2, 7\)"):
        layer(samples, None, layer(samples[:1])[2])
    with pytest.raises(ValueError, match="a centred spectrum needs the whole sequence at once"):
        build(centre=True)(samples, None, layer(samples)[2])


MEAN, DEVIATION = [1.0, -2.0, 0.5], [2.0, 0.5, 1.0]
KINDS = pytest.mark.parametrize("kind", ["none", "global", "utterance", "level", "streaming"])


def normalizer(kind: str, **options: Any) -> Normalize:
    return Normalize(3, kind=kind, mean=MEAN, deviation=DEVIATION, **options).double()  # type: ignore[arg-type]


@KINDS
def test_normalization_equals_its_definition_whatever_the_padding(kind: str) -> None:
    layer, lengths = normalizer(kind, prior=4.0), [9, 0, 1, 5]
    mask = make_mask(lengths, 9)
    x = (3 * noise(4, 9, 3) + 7).masked_fill(~mask.unsqueeze(-1), float("nan"))
    actual, _ = layer(x, mask)
    mean, deviation = np.array(MEAN), np.array(DEVIATION)
    for row, length in enumerate(lengths):
        frames = x[row, :length].numpy()
        if kind == "global":
            expected = (frames - mean) / deviation
        elif kind == "utterance" and length > 1:
            expected = (frames - frames.mean(axis=0)) / frames.std(axis=0)
        elif kind == "level" and length:
            differences = frames - mean
            expected = (differences - differences.mean()) / differences.std()
        elif kind == "utterance":
            expected = np.zeros_like(frames)
        elif kind == "streaming":
            expected = np.array([_so_far(frames[: last + 1], mean, deviation) for last in range(length)]).reshape(-1, 3)
        else:
            expected = frames
        np.testing.assert_allclose(
            actual[row, :length].numpy(), expected, rtol=1e-9, atol=0
        )  # 1e-10 is added to variances
        assert not actual[row, length:].any()


def _so_far(frames: NDArray[np.float64], mean: NDArray[np.float64], deviation: NDArray[np.float64]) -> Any:
    """The last frame, normalised by the moments of all frames and four of the given mean and deviation."""
    total = (frames.sum(axis=0) + 4 * mean) / (len(frames) + 4)
    squares = ((frames**2).sum(axis=0) + 4 * (deviation**2 + mean**2)) / (len(frames) + 4)
    return (frames[-1] - total) / np.sqrt(squares - total**2)


@pytest.mark.parametrize("kind", ["none", "global", "streaming"])
@given(cuts=st.lists(st.integers(0, 8), max_size=4).map(sorted))
def test_normalized_chunks_equal_the_whole(kind: str, cuts: list[int]) -> None:
    layer, x, mask = normalizer(kind), noise(3, 8, 3), make_mask([8, 0, 5], 8)
    whole, last = layer(x, mask)
    state, chunks = None, []
    for start, stop in zip([0, *cuts], [*cuts, 8], strict=True):
        chunk, state = layer(x[:, start:stop], mask[:, start:stop], state)
        chunks.append(chunk)
    torch.testing.assert_close(torch.cat(chunks, dim=1), whole, rtol=0, atol=1e-13)
    assert state is not None
    for left, right in zip(state, last, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-13)
    torch.testing.assert_close(layer(x, mask, layer.start(3))[0], whole, rtol=0, atol=0)


@KINDS
def test_gradients_of_normalised_frames(kind: str) -> None:
    layer, mask = normalizer(kind), make_mask([4, 2], 4)
    assert torch.autograd.gradcheck(lambda x: layer(x, mask)[0], (noise(2, 4, 3).requires_grad_(),))


@KINDS
def test_a_constant_feature_stays_finite(kind: str) -> None:
    x = torch.full((2, 5, 3), 4.0, dtype=torch.float64)
    assert torch.isfinite(Normalize(3, kind=kind, deviation=[0.0] * 3).double()(x)[0]).all()  # type: ignore[arg-type]


def test_invalid_arguments_of_normalize_are_refused() -> None:
    with pytest.raises(ValueError, match="kind is 'mean', expected none, global, utterance, level or streaming"):
        Normalize(3, kind="mean")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mean has 2 values, expected 3"):
        Normalize(3, mean=[0.0, 1.0])
    with pytest.raises(ValueError, match="prior must be greater than 0, got 0"):
        Normalize(3, prior=0)
    layer, x = normalizer("streaming"), noise(2, 4, 3)
    with pytest.raises(ValueError, match=r"state.frames has shape \(1, 1\), expected \(2, 1\)"):
        layer(x, None, layer(x[:1])[1])
    with pytest.raises(TypeError, match=r"state is int, expected Normalize\.State"):
        layer(x, None, 1)


@pytest.mark.parametrize("kind", ["log_mel", "mfcc"])
def test_top_db_equals_librosa(kind: Any, librosa: Any) -> None:
    torch.manual_seed(2)
    samples = torch.randn(3, 1600) * torch.logspace(0, -6, 1600)  # ever quieter
    mask = torch.arange(1600) < torch.tensor([[1600], [900], [450]])
    samples = torch.where(mask, samples, math.nan)
    plain, limited = (Spectrum(8000, kind="log_mel", n_mels=20, top_db=top_db) for top_db in (0.0, 30.0))
    frames, real, _ = plain(samples, mask)
    actual = Spectrum(8000, kind=kind, n_mels=20, top_db=30.0)(samples, mask)[0]
    for row, count in enumerate(real.sum(dim=1).tolist()):
        energies = frames[row, :count].double().exp().numpy()
        expected = librosa.power_to_db(energies, ref=1.0, amin=1e-12, top_db=30.0) * math.log(10) / 10
        expected = torch.from_numpy(expected).float()
        if kind == "mfcc":
            expected = expected @ limited.cosines[:, :13]
        torch.testing.assert_close(actual[row, :count], expected, atol=1e-4, rtol=0)  # as guaranteed
    with pytest.raises(ValueError, match="top_db needs the whole sequence at once"):
        limited(samples[:1, :400], None, plain(samples[:1, :400])[2])
