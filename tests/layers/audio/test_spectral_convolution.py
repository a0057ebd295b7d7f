import pytest
import torch
from tests.contracts.registry import make_mask, noise, randomize
from torch import Tensor
from torch.nn import functional

from seqloom.layers.audio.spectral_convolution import SpectralConvolution

CAUSAL_AND_CENTRED = pytest.mark.parametrize("causal", [True, False])


def build(*, causal: bool, bands: int = 5, input_channels: int = 2) -> SpectralConvolution:
    layer = SpectralConvolution(bands, input_channels=input_channels, channels=3, causal=causal)
    randomize(layer)
    return layer


def by_hand(layer: SpectralConvolution, row: Tensor) -> Tensor:  # (T, input_channels · bands) → (T, 3 · rows)
    """One frame, band and channel after the other."""
    time, bands = len(row), layer.bands
    image = row.reshape(time, layer.input_channels, bands)
    weight, bias = layer.convolution.weight, layer.convolution.bias
    assert bias is not None
    first = -2 if layer.causal else -1
    output = []
    for step in range(time):
        frame = torch.empty(3, bands, dtype=row.dtype)
        for channel in range(3):
            for band in range(bands):
                total = bias[channel]
                for shift in range(3):
                    for offset in range(3):
                        t, b = step + first + shift, band - 1 + offset
                        if 0 <= t < time and 0 <= b < bands:
                            total = total + (weight[channel, :, shift, offset] * image[t, :, b]).sum()
                frame[channel, band] = total
        frame = frame.clamp(min=0)
        pairs = [frame[:, start : start + 2].max(dim=1).values for start in range(0, bands, 2)]
        output.append(torch.stack(pairs, dim=1).flatten())
    return torch.stack(output)


@CAUSAL_AND_CENTRED
@pytest.mark.parametrize("bands", [1, 4, 5])
def test_equals_sums_written_by_hand(bands: int, causal: bool) -> None:
    layer = build(causal=causal, bands=bands)
    x = noise(2, 4, 2 * bands)
    actual, _ = layer(x)
    assert actual.shape == (2, 4, layer.output_size)
    for row, expected in zip(actual, x, strict=True):
        torch.testing.assert_close(row, by_hand(layer, expected), rtol=0, atol=1e-12)


def test_chunks_of_a_causal_layer_equal_the_whole() -> None:
    layer, x = build(causal=True), noise(3, 9, 10)
    whole, last = layer(x)
    state, parts = None, []
    for chunk in x.split([1, 4, 0, 4], dim=1):
        part, state = layer(chunk, None, state)
        parts.append(part)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=0, atol=1e-13)
    torch.testing.assert_close(state, last)


@pytest.mark.parametrize("channels", [3, 8])
def test_normalisation_is_that_of_torch(channels: int) -> None:
    layer = SpectralConvolution(6, input_channels=2, channels=channels, normalize=True)
    randomize(layer)
    assert layer.norm is not None
    x = noise(3, 5, 12)
    actual, _ = layer(x)
    padded = functional.pad(x, (0, 0, 1, 1)).unflatten(2, (2, 6)).transpose(1, 2)
    expected = functional.group_norm(
        layer.convolution(padded), 4 if channels == 8 else 1, layer.norm.weight, layer.norm.bias, eps=1e-3
    )
    pooled = functional.max_pool2d(expected.relu(), (1, 2)).transpose(1, 2).flatten(2)
    torch.testing.assert_close(actual, pooled)


@pytest.mark.parametrize(("causal", "normalize"), [(True, False), (False, False), (False, True)])
def test_padding_affects_nothing(causal: bool, normalize: bool) -> None:
    layer = SpectralConvolution(5, input_channels=2, channels=3, causal=causal, normalize=normalize)
    randomize(layer)
    lengths = [4, 0, 2]
    mask = make_mask(lengths, 4)
    x = noise(3, 4, 10).masked_fill(~mask.unsqueeze(-1), float("nan"))
    actual, state = layer(x, mask)
    for row, length in enumerate(lengths):
        expected, expected_state = layer(x[row : row + 1, :length])
        torch.testing.assert_close(actual[row : row + 1, :length], expected)
        torch.testing.assert_close(state.past[row : row + 1], expected_state.past)
        assert not actual[row, length:].any()


def test_a_pattern_some_bands_higher_gives_the_same_outputs_some_bands_higher() -> None:
    layer = build(causal=False, bands=20, input_channels=1)
    x = torch.zeros(1, 6, 20, dtype=torch.float64)
    x[..., 4:8] = noise(1, 6, 4)
    low, high = (layer(functional.pad(x, (0, 4))[..., :20].roll(shift, dims=2))[0] for shift in (0, 4))
    moved = low.unflatten(2, (3, 10)).roll(2, dims=3)[..., 2:]  # 4 bands are 2 after the pooling
    torch.testing.assert_close(high.unflatten(2, (3, 10))[..., 2:-1], moved[..., :-1])


def test_wrong_sizes_and_states() -> None:
    with pytest.raises(ValueError, match="expected at least 1 of each, got bands = 0"):
        SpectralConvolution(0)
    with pytest.raises(ValueError, match="normalize needs the whole recording"):
        SpectralConvolution(4, causal=True, normalize=True)
    layer = build(causal=True)
    with pytest.raises(ValueError, match=r"state\.past has shape \(1, 1, 10\), expected \(1, 2, 10\)"):
        layer(noise(1, 4, 10), None, SpectralConvolution.State(noise(1, 1, 10)))
