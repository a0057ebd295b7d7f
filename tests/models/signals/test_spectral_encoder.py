import pytest
import torch

from seqloom.config import Document
from seqloom.models.signals.frame_encoder import FrameEncoder
from seqloom.models.signals.spectral_encoder import SpectralEncoderConfig, normalization_default


def test_layers_halve_the_bands_and_double_the_channels() -> None:
    layers = SpectralEncoderConfig(layers=3, channels=4).build(2 * 21, blocks=2, causal=True)
    sizes = [(layer.input_size, layer.output_size, layer.causal) for layer in layers]
    assert sizes == [(2 * 21, 4 * 11, True), (4 * 11, 8 * 6, True), (8 * 6, 16 * 3, True)]
    assert SpectralEncoderConfig().build(21, blocks=1, causal=False) == []


def test_normalised_layers_need_both_directions() -> None:
    config = SpectralEncoderConfig(layers=1, normalize=True)
    assert config.build(8, blocks=1, causal=False)[0].norm is not None
    config.check(bidirectional=True)
    with pytest.raises(ValueError, match="normalize needs the whole recording: set it to false, or encoder"):
        config.check(bidirectional=False)


def test_there_is_no_dropout_between_convolutions() -> None:
    layers = SpectralEncoderConfig(layers=2, channels=4, normalize=True).build(8, blocks=1, causal=False)
    encoder = FrameEncoder(layers, size=layers[-1].output_size, dropout=0.75).train()
    values, mask = torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)
    expected, _ = layers[1](layers[0](values, mask)[0], mask)
    actual = encoder(values, mask).values
    torch.testing.assert_close(actual[actual > 0], 4 * expected[actual > 0])  # dropped after the last one
    assert 0 < (actual > 0).sum() < 0.5 * (expected > 0).sum()


def test_layers_are_normalised_by_default_unless_the_model_can_stream() -> None:
    key, layers = "task.spectral_encoder.normalize", {"task.spectral_encoder.layers": 2}
    assert normalization_default(Document.empty()) == {}
    assert normalization_default(Document.empty(values=layers)) == {key: True}
    stream = layers | {"task.encoder.bidirectional": False}
    assert normalization_default(Document.empty(values=stream)) == {key: False}
