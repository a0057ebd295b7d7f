"""The modules before the layers of a transcriber, and the statistics they need."""

from typing import Any

import numpy as np
import pytest
import torch

from seqloom.data.readers.media import Signal
from seqloom.data.readers.text_files import DataError, Location
from seqloom.layers.audio.augment import (
    VTLP,
    AdditiveNoise,
    RandomCrop,
    RandomFilter,
    RandomOffset,
    SpecAugment,
    SpeedPerturbation,
)
from seqloom.layers.audio.cepstral_warp import CepstralWarp
from seqloom.layers.audio.spectrum import Normalize, Spectrum
from seqloom.models.signals.audio_features import AudioFeatures, AugmentConfig, build_feature_extractor
from seqloom.models.signals.statistics import LocatedSignal, SignalStatistics, StatisticsCollector

AUDIO = AudioFeatures(n_mels=6, fmin=50.0)


def recording(values: Any, rate: int = 0) -> LocatedSignal:
    return LocatedSignal(Location("r", 1), Signal(np.asarray(values, np.float32), rate), "r.wav")


def test_statistics_of_all_frames() -> None:
    random = np.random.default_rng(1)
    signals = [random.normal(size=length) for length in (400, 900)]
    collector = StatisticsCollector(AUDIO.spectrum, needs_moments=True)
    for signal in signals:
        collector.add(recording(signal, 4000))
    statistics = collector.finish()
    spectrum = AUDIO.spectrum(4000)
    frames = torch.cat([spectrum(torch.from_numpy(signal).float().unsqueeze(0))[0][0] for signal in signals]).double()
    assert (statistics.rate, statistics.size) == (4000, 6)
    np.testing.assert_allclose(statistics.mean, frames.mean(dim=0), rtol=1e-6)
    np.testing.assert_allclose(statistics.deviation, frames.std(dim=0, correction=0), rtol=1e-5)


def test_statistics_are_computed_only_if_needed() -> None:
    collector = StatisticsCollector(AUDIO.spectrum, needs_moments=False)
    collector.add(recording([[1, 2], [3, 4]]))
    assert collector.finish() == SignalStatistics(kind="vectors", size=2)
    with pytest.raises(ValueError, match="there are no signals"):
        StatisticsCollector(AUDIO.spectrum, needs_moments=True).finish()


def test_modules_follow_the_configuration() -> None:
    plain = build_feature_extractor(AUDIO, AugmentConfig(), "none", SignalStatistics(kind="vectors", size=2))
    assert not list(plain.children())
    augment = AugmentConfig(
        freq_masks=1,
        speed_perturb=(0.9, 1.1),
        tempo_perturb=(1.2,),
        crop=0.01,
        offset=0.5,
        filter_db=3.0,
        noise_snr=(10.0, 40.0),
        vtlp=(0.8, 1.25),
    )
    whole = build_feature_extractor(
        AUDIO,
        augment,
        "global",
        SignalStatistics(kind="sound", rate=4000, size=6, mean=(1.0,) * 6, deviation=(2.0,) * 6),
    )
    kinds = {name: type(part) for name, part in whole.named_children()}
    changes = {
        "speed": SpeedPerturbation,
        "crop": RandomCrop,
        "offset": RandomOffset,
        "random_filter": RandomFilter,
        "noise": AdditiveNoise,
        "warp": VTLP,
        "tempo": SpeedPerturbation,
        "augment": SpecAugment,
    }
    assert kinds == {"spectrum": Spectrum, "normalise": Normalize} | changes
    assert isinstance(whole.crop, RandomCrop)
    assert whole.crop.longest == 40
    normalise = whole.normalise
    assert normalise is not None
    torch.testing.assert_close(normalise(torch.full((1, 1, 6), 5.0))[0], torch.full((1, 1, 6), 2.0), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (
            recording(np.zeros(500), 8000),
            "r:1: expected a sampling rate of 4000 Hz as in the other recordings, found 8000 Hz: set",
        ),
        (recording(np.zeros(99), 4000), "r:1: the audio r.wav has 99 samples, but a window needs 100"),
        (recording(np.zeros((5, 6))), "r:1: expected audio as in the other examples, found frames of 6 features"),
        (
            recording(np.zeros((5, 6)))._replace(name="r.PNG"),
            "r:1: expected audio as in the other examples, found an image",
        ),
    ],
)
def test_mismatching_recordings_are_reported(example: LocatedSignal, message: str) -> None:
    with pytest.raises(DataError, match=message):
        SignalStatistics(kind="sound", rate=4000, size=6).check(example, window=100)


@pytest.mark.parametrize("factors", [(0.9,), (1.1, 0.9), (0.4, 1.0), (1.0, 2.5)])
def test_vtlp_needs_two_factors(factors: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"expected two numbers between 0.5 and 2 in ascending order or none, found"):
        AugmentConfig(vtlp=factors)


@pytest.mark.parametrize("key", ["freq_masks", "time_masks"])
def test_masks_without_number_are_refused(key: str) -> None:
    """Their places are sampled at once, in memory that a run from elsewhere could choose."""
    with pytest.raises(ValueError, match=rf"{key}\n.*less than or equal to 100"):
        AugmentConfig.model_validate({key: 2**40})


def test_the_most_frequent_sampling_rate_of_the_first_recordings() -> None:
    audio, note = AudioFeatures().with_rate([44100, 16000, 16000])
    assert audio.sample_rate == 16000
    assert note == (
        "recordings have sampling rates of 16000 and 44100 Hz, all are resampled to 16000 Hz (task.audio.sample_rate)"
    )
    same, note = AudioFeatures().with_rate([8000, 8000])
    assert (same.sample_rate, note) == (8000, "")
    chosen = AudioFeatures(sample_rate=4000)
    assert chosen.with_rate([8000, 16000]) == (chosen, "")
    assert AudioFeatures().with_rate([0, 0]) == (AudioFeatures(), "")  # no sound


def test_mfcc_frames_are_warped_in_training_only() -> None:
    audio = AudioFeatures(features="mfcc", sample_rate=16000, n_mfcc=13, fmin=130, fmax=6800)
    statistics = SignalStatistics(kind="vectors", size=13)
    extractor = build_feature_extractor(audio, AugmentConfig(vtlp=(0.8, 0.8)), "none", statistics)
    frames, mask = torch.randn(2, 4, 13), torch.ones(2, 4, dtype=torch.bool)
    warped, *_ = extractor(frames, mask)
    expected = CepstralWarp(16000, n_mels=40, n_mfcc=13, fmin=130, fmax=6800)(frames, torch.full((2,), 0.8))
    torch.testing.assert_close(warped, expected)
    same, *_ = extractor.eval()(frames, mask)
    torch.testing.assert_close(same, frames, rtol=0, atol=0)


def test_augmentation_that_needs_sound_is_refused_for_frames() -> None:
    statistics = SignalStatistics(kind="vectors", size=13)
    with pytest.raises(
        ValueError, match=r"vtlp needs sound, or MFCC frames .* features = \"log_mel\", sample_rate = 0"
    ):
        build_feature_extractor(AUDIO, AugmentConfig(vtlp=(0.8, 1.2)), "none", statistics)
    for key, augment in (
        ("noise_snr", AugmentConfig(noise_snr=(10, 40))),
        ("filter_db", AugmentConfig(filter_db=3)),
        ("crop", AugmentConfig(crop=0.1)),
    ):
        with pytest.raises(ValueError, match=f"task.augment.{key} needs sound"):
            build_feature_extractor(AUDIO, augment, "none", statistics)
