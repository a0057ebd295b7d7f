from seqloom.models.signals.spectral_encoder import SpectralEncoderConfig


def test_layers_halve_the_bands_and_double_the_channels() -> None:
    layers = SpectralEncoderConfig(layers=3, channels=4).build(2 * 21, blocks=2, causal=True)
    sizes = [(layer.input_size, layer.output_size, layer.causal) for layer in layers]
    assert sizes == [(2 * 21, 4 * 11, True), (4 * 11, 8 * 6, True), (8 * 6, 16 * 3, True)]
    assert SpectralEncoderConfig().build(21, blocks=1, causal=False) == []
