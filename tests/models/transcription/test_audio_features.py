"""What stands before the layers of a transcriber, and what is learnt for it."""

from typing import Any

import numpy as np
import pytest
import torch

from seqloom.data.readers.recordings import Recording
from seqloom.data.readers.text_files import DataError, Location
from seqloom.layers.audio.augment import VTLP, AdditiveNoise, SpecAugment, SpeedPerturbation
from seqloom.layers.audio.spectrum import Normalise, Spectrum
from seqloom.models.transcription.audio_features import (
    AudioFeatures,
    AudioStatistics,
    AugmentConfig,
    StatisticsCollector,
    build_feature_extractor,
)

SOUND = AudioFeatures(n_mels=6, fmin=50.0)


def recording(values: Any, rate: int = 0) -> Recording:
    return Recording(Location("r", 1), "r.wav", np.asarray(values, np.float32), rate, "a")


def test_the_frames_of_sound_are_measured_all_together() -> None:
    random = np.random.default_rng(1)
    sounds = [random.normal(size=length) for length in (400, 900)]
    ear = StatisticsCollector(SOUND, "global")
    for sound in sounds:
        ear.add(recording(sound, 4000))
    heard = ear.learned()
    spectrum = SOUND.spectrum(4000)
    frames = torch.cat([spectrum(torch.from_numpy(sound).float().unsqueeze(0))[0][0] for sound in sounds]).double()
    assert (heard.rate, heard.size) == (4000, 6)
    np.testing.assert_allclose(heard.mean, frames.mean(dim=0), rtol=1e-6)
    np.testing.assert_allclose(heard.deviation, frames.std(dim=0, correction=0), rtol=1e-5)


def test_nothing_is_measured_where_nothing_is_asked_for() -> None:
    ear = StatisticsCollector(SOUND, "utterance")
    ear.add(recording([[1, 2], [3, 4]]))
    assert ear.learned() == AudioStatistics(rate=0, size=2)
    with pytest.raises(ValueError, match="nothing was heard"):
        StatisticsCollector(SOUND, "global").learned()


def test_parts_are_there_where_they_are_wanted() -> None:
    plain = build_feature_extractor(SOUND, AugmentConfig(), "none", AudioStatistics(rate=0, size=2))
    assert set(plain.values()) == {None}
    change = AugmentConfig(
        freq_masks=1, speed_perturb=(0.9, 1.1), tempo_perturb=(1.2,), noise_snr=(10.0, 40.0), vtlp=(0.8, 1.25)
    )
    whole = build_feature_extractor(
        SOUND, change, "global", AudioStatistics(rate=4000, size=6, mean=(1.0,) * 6, deviation=(2.0,) * 6)
    )
    kinds = {name: type(part) for name, part in whole.items()}
    changes = {
        "speed": SpeedPerturbation,
        "noise": AdditiveNoise,
        "warp": VTLP,
        "tempo": SpeedPerturbation,
        "augment": SpecAugment,
    }
    assert kinds == {"spectrum": Spectrum, "normalise": Normalise} | changes
    frames = build_feature_extractor(SOUND, change, "none", AudioStatistics(rate=0, size=2))
    assert (frames["noise"], frames["warp"]) == (None, None)
    normalise = whole["normalise"]
    assert normalise is not None
    torch.testing.assert_close(normalise(torch.full((1, 1, 6), 5.0))[0], torch.full((1, 1, 6), 2.0), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (recording(np.zeros(500), 8000), "r:1: found 8000 samples in a second; the others have 4000: set"),
        (recording(np.zeros(99), 4000), "r:1: the sound r.wav has 99 samples; a window needs 100"),
        (recording(np.zeros((5, 6))), "r:1: found frames of 6 numbers; the others are sound"),
    ],
)
def test_what_does_not_fit_is_named(found: Recording, message: str) -> None:
    with pytest.raises(DataError, match=message):
        AudioStatistics(rate=4000, size=6).check(found, window=100)


@pytest.mark.parametrize("warp", [(0.9,), (1.1, 0.9), (0.4, 1.0), (1.0, 2.5)])
def test_two_factors_of_a_warp(warp: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"wanted two numbers from 0.5 to 2, the lower first, or none"):
        AugmentConfig(vtlp=warp)
