"""The transcriber: order of its parts, chunks against the whole, padding."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.layers.audio.augment import VTLP
from seqloom.layers.audio.spectrum import Spectrum
from seqloom.layers.convolution import Convolution
from seqloom.layers.time_reduction import TimeReduction
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig
from seqloom.models.signals.feature_extractor import FeatureExtractor
from seqloom.models.signals.frame_encoder import FrameEncoder, TimeReductionConfig, build_frame_encoder
from seqloom.models.signals.spectral_encoder import SpectralEncoderConfig
from seqloom.models.transcription.transcriber import Transcriber

VOCAB_SIZE = 6
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "stride": {"time_reduction": TimeReductionConfig(factor=3)},
    "twice": {
        "time_reduction": TimeReductionConfig(factor=2, times=2),
        "prenet": PrenetConfig(layers=1, size=4, window=3),
    },
    "pyramid": {"time_reduction": TimeReductionConfig(method="pyramid", factor=2, times=2)},
    "transformer": {"recurrence": RecurrenceConfig(cell="transformer", hidden_size=8, layers=2, options={"heads": 2})},
    "spectral": {"spectral_encoder": SpectralEncoderConfig(layers=2, channels=2)},
}


def make(*, bidirectional: bool = False, **overrides: Any) -> Transcriber:
    torch.manual_seed(3)
    recurrence = overrides.pop("recurrence", RecurrenceConfig(cell="gru", hidden_size=5, layers=3))
    recurrence = recurrence.model_copy(update={"bidirectional": bidirectional})
    options: dict[str, Any] = {"prenet": PrenetConfig(), "time_reduction": TimeReductionConfig()} | overrides
    spectral = options.pop("spectral_encoder", SpectralEncoderConfig())
    first = spectral.build(4, blocks=1, causal=not bidirectional)
    encoder = build_frame_encoder(first, size=4, recurrence=recurrence, **options)
    return Transcriber(encoder, vocab_size=VOCAB_SIZE).double().eval()


def masked(lengths: list[int], time: int) -> Tensor:
    return torch.arange(time) < torch.tensor(lengths).unsqueeze(1)


def test_layers_and_reductions() -> None:
    output = make(**CASES["twice"]).frame_encoder.layers
    assert [type(part) for part in output][:3] == [Convolution, TimeReduction, TimeReduction]
    kinds = [type(part) for part in make(**CASES["pyramid"]).frame_encoder.layers]
    assert [kind is TimeReduction for kind in kinds] == [False, True, False, True, False]


@pytest.mark.parametrize("name", CASES)
def test_logits_match_the_parts_in_sequence(name: str) -> None:
    model = make(bidirectional=True, **CASES[name])
    x = torch.randn(1, 11, 4, dtype=torch.float64)
    output, mask, _ = model(x, torch.ones(1, 11, dtype=torch.bool))
    for part in model.frame_encoder.layers:
        x = part(x)[0]
    torch.testing.assert_close(output, model.output(x), atol=1e-12, rtol=0)
    reduction = CASES[name].get("time_reduction", TimeReductionConfig())
    assert mask.shape == (1, reduction.frames(11))
    assert bool(mask.all())


@pytest.mark.parametrize("cuts", [[0, 11], [0, 1, 2, 11], [0, 5, 5, 10, 11], list(range(12))])
@pytest.mark.parametrize("name", CASES)
def test_chunks_match_the_whole(name: str, cuts: list[int]) -> None:
    model = make(**CASES[name])
    lengths = [11, 7, 0]
    x, mask = torch.randn(3, 11, 4, dtype=torch.float64), masked(lengths, 11)
    whole, real, _ = model(x, mask)
    output: list[list[Tensor]] = [[], [], []]
    state = None
    for start, stop in pairwise(cuts):
        y, kept, state = model(x[:, start:stop], mask[:, start:stop], state, more=stop < 11)
        for row in range(3):
            output[row] += list(y[row][kept[row]])
    for row in range(3):
        assert len(output[row]) == int(real[row].sum())
        if output[row]:
            torch.testing.assert_close(torch.stack(output[row]), whole[row][real[row]], atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", CASES)
def test_padding_has_no_effect(name: str) -> None:
    model = make(bidirectional=True, **CASES[name])
    lengths = [9, 4]
    x, mask = torch.randn(2, 13, 4, dtype=torch.float64), masked(lengths, 13)
    output, real, _ = model(torch.where(mask.unsqueeze(-1), x, float("nan")), mask)
    for row, length in enumerate(lengths):
        alone, _, _ = model(x[row : row + 1, :length], masked([length], length))
        torch.testing.assert_close(output[row][real[row]], alone[0], atol=1e-12, rtol=0)


def test_augmentation_is_for_training_only() -> None:
    class Louder(nn.Module):
        def forward(self, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
            return 2 * values, mask

    model = make(features=FeatureExtractor(speed=Louder(), tempo=Louder(), augment=Louder()))
    x, mask = torch.randn(1, 5, 4, dtype=torch.float64), torch.ones(1, 5, dtype=torch.bool)
    quiet = model(x, mask)[0]
    torch.testing.assert_close(model.train()(x, mask)[0], model.eval()(8 * x, mask)[0])
    assert torch.equal(model(x, mask)[0], quiet)


def test_vtlp_is_for_training_only() -> None:
    spectrum = Spectrum(1000, window=0.008, hop=0.004, n_mels=4).double()
    samples, mask = torch.randn(2, 60, dtype=torch.float64), masked([60, 33], 60)
    plain, real, _ = spectrum(samples, mask)
    changed, _, _ = spectrum(samples, mask, warps=torch.full((2,), 1.3))
    model = make(features=FeatureExtractor(spectrum=spectrum, warp=VTLP(1.3, 1.3)))
    later = make()
    torch.testing.assert_close(model(samples, mask)[0], later(plain, real)[0])
    torch.testing.assert_close(model.train()(samples, mask)[0], later(changed, real)[0])
    assert not torch.allclose(plain, changed)


def test_a_pyramid_needs_enough_layers() -> None:
    with pytest.raises(ValueError, match=r"time_reduction.times is 3: .* needs at least 4, found 3"):
        make(time_reduction=TimeReductionConfig(method="pyramid", factor=2, times=3))
    custom = RecurrenceConfig(layers=2, layer_factory=lambda size: nn.Linear(size, 3), custom_layer="mine")
    with pytest.raises(ValueError, match="a custom layer is a single layer"):
        make(recurrence=custom, time_reduction=TimeReductionConfig(method="pyramid", factor=2))
    with pytest.raises(ValueError, match="trained with the custom layer mine"):
        make(recurrence=RecurrenceConfig(custom_layer="mine"))


def test_the_blank_starts_as_probable_as_all_other_tokens() -> None:
    """Otherwise a token may take its role: with two words, one was then predicted everywhere."""
    module = Transcriber(FrameEncoder([], size=5), vocab_size=29)
    logits, _, _ = module(torch.zeros(1, 3, 5), torch.ones(1, 3, dtype=torch.bool))
    odds = logits.softmax(dim=-1)[..., 0]
    torch.testing.assert_close(odds, torch.full((1, 3), 29 / (29 + 28)))
