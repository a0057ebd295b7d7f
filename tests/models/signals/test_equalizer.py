"""The equaliser: gains of sine waves, mean spectra by hand, and which recordings count together."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from scipy.signal import lfilter

from seqloom.data.readers.audio_files import Audio
from seqloom.data.readers.media import Signal
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Location
from seqloom.layers.audio.spectrum import Spectrum
from seqloom.models.signals.equalizer import BANDS, HOP, Equalizer, EqualizerConfig, MeanSpectrum, SpectrumMeter
from seqloom.models.signals.statistics import LocatedSignal
from seqloom.tasks.classify import Classify
from seqloom.tasks.transcribe import Transcribe

RATE = 8000
DECIBEL = np.log(10) / 10
FOLDER = "([^/]+)/[^/]+$"


def speech(seed: int, seconds: float = 0.5) -> np.ndarray:
    """Noise whose colour varies within the recording, with silence before it."""
    random = np.random.default_rng(seed)
    parts = [
        lfilter([1], [1, -random.uniform(-0.8, 0.9)], random.standard_normal(int(RATE * seconds / 5))) for _ in range(5)
    ]
    return np.concatenate([np.zeros(800), *parts]).astype(np.float32) * 0.1


def located(name: str, samples: np.ndarray, rate: int = RATE) -> LocatedSignal:
    return LocatedSignal(Location("list.tsv", 1), Signal(samples, rate), name)


def read_list(source: Path | Sequence[Any]) -> Iterator[LocatedSignal]:
    """A reader of examples in a list."""
    assert not isinstance(source, Path)
    return iter(source)


def equalizer(config: EqualizerConfig) -> Equalizer[LocatedSignal]:
    return Equalizer(
        config,
        lambda example: example,
        lambda example, samples, share: example._replace(signal=Signal(samples, RATE), channel_names=(f"{share:.6f}",)),
    )


def equalized(config: EqualizerConfig, examples: Sequence[LocatedSignal]) -> list[LocatedSignal]:
    return list(equalizer(config).read(read_list, examples))


def total(examples: Sequence[LocatedSignal]) -> MeanSpectrum:
    first, *rest = [SpectrumMeter(RATE).measure(example.signal.values) for example in examples]
    return sum(rest, first)


def test_a_sine_wave_gets_the_gain_of_its_band() -> None:
    meter, time = SpectrumMeter(RATE), np.arange(RATE) / RATE
    gains = np.random.default_rng(1).uniform(-9, 9, BANDS)  # decibels
    for band in (2, 9, 20):
        wave = np.sin(2 * np.pi * meter.centres[band] * time).astype(np.float32)
        ratio = meter.filter(wave, gains * DECIBEL)[2000:6000].std() / wave[2000:6000].std()
        assert 20 * np.log10(ratio) == pytest.approx(
            gains[band], abs=0.2
        )  # the window smears the sharp edges of the gains
    loud = meter.filter(wave, np.full(BANDS, 90 * DECIBEL))
    assert 20 * np.log10(loud.std() / wave.std()) == pytest.approx(20, abs=0.01)  # at most


def test_no_gain_changes_nothing() -> None:
    samples = speech(1)
    np.testing.assert_allclose(SpectrumMeter(RATE).filter(samples, np.zeros(BANDS)), samples, atol=1e-7)  # one rounding


def test_the_mean_is_that_of_loud_frames() -> None:
    samples = speech(2)
    spectrum = Spectrum(RATE, n_mels=BANDS, window=0.032, hop=0.016)
    frames = spectrum(torch.from_numpy(samples).unsqueeze(0))[0][0].double().numpy()
    energies = np.exp(frames).sum(axis=1)
    loud = frames[energies >= energies.max() / 1000]  # 30 dB
    measured = SpectrumMeter(RATE).measure(samples)
    assert measured.frames == len(loud) < len(frames)
    assert measured.seconds == pytest.approx(len(loud) * HOP)
    np.testing.assert_allclose(measured.shape, loud.mean(axis=0) - loud.mean(), atol=1e-9)
    assert SpectrumMeter(RATE).measure(np.zeros(4000, np.float32)).frames == 0


def test_two_microphones_become_alike() -> None:
    """The same words, recorded by a dull and by a bright microphone; half of them are the training data."""
    clips = [speech(seed) for seed in range(20)]
    dull = [
        located(f"a/{number}.wav", lfilter([1, 0.5], [1], clip).astype(np.float32)) for number, clip in enumerate(clips)
    ]
    bright = [
        located(f"b/{number}.wav", lfilter([1, -0.5], [1], clip).astype(np.float32))
        for number, clip in enumerate(clips)
    ]
    config, note = equalizer(EqualizerConfig(speaker_pattern=FOLDER, prior=0)).fit(read_list, [*dull, *bright])
    assert note == "2 speakers by task.equalizer.speaker_pattern: a, b"
    mean = (total(dull).shape + total(bright).shape) / 2
    np.testing.assert_allclose(config.spectrum, mean, atol=1e-9)
    answers = equalized(config, [*dull, *bright])
    before, after = (
        np.abs(total(each[:20]).shape - total(each[20:]).shape).max() / DECIBEL for each in ([*dull, *bright], answers)
    )
    assert before > 8
    assert after < 0.7  # decibels; gains are linear between the centres of bands


def test_only_recordings_of_the_same_speaker_count() -> None:
    mine = [located(f"a/{seed}.wav", speech(seed)) for seed in range(3)]
    others = [located(f"b/{seed}.wav", speech(seed)) for seed in range(3, 9)]
    config = EqualizerConfig(speaker_pattern=FOLDER, spectrum=tuple(np.linspace(1, -1, BANDS)))
    alone, together = equalized(config, mine), equalized(config, [*others, *mine])[6:]
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one.signal.values, other.signal.values)
    (single,) = equalized(config, mine[:1])
    assert not np.array_equal(single.signal.values, alone[0].signal.values)


@pytest.mark.parametrize("prior", [0.0, 2.0])
def test_little_speech_is_equalised_little(prior: float) -> None:
    example = located("a/1.wav", speech(1))
    config = EqualizerConfig(speaker_pattern=FOLDER, prior=prior, spectrum=tuple(np.linspace(1, -1, BANDS)))
    (answer,) = equalized(config, [example])
    mean = total([example])
    share = mean.seconds / (mean.seconds + prior)
    assert float(answer.channel_names[0]) == pytest.approx(share, abs=1e-6)
    expected = SpectrumMeter(RATE).filter(example.signal.values, share * (np.array(config.spectrum) - mean.shape))
    np.testing.assert_array_equal(answer.signal.values, expected)
    assert bool(config.warning(share)) is (share < 0.5)


def test_without_a_speaker_and_in_a_stream_recordings_are_alone() -> None:
    named = [located(f"a/{seed}.wav", speech(seed)) for seed in range(3)]
    unnamed = [located("", example.signal.values) for example in named]
    config = EqualizerConfig(speaker_pattern=FOLDER, spectrum=tuple(np.linspace(1, -1, BANDS)))
    alone = [equalized(config, [example])[0] for example in named]
    streamed: Iterator[LocatedSignal] = iter(named)
    stream = list(equalizer(config).read(lambda _: streamed, STANDARD_INPUT))
    for answers in (equalized(config, unnamed), stream):
        for answer, expected in zip(answers, alone, strict=True):
            np.testing.assert_array_equal(answer.signal.values, expected.signal.values)


def test_silence_stays_silent() -> None:
    config = EqualizerConfig(speaker_pattern=FOLDER, spectrum=tuple(np.linspace(1, -1, BANDS)))
    (answer,) = equalized(config, [located("a/1.wav", np.zeros(4000, np.float32))])
    assert not answer.signal.values.any()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"speaker_pattern": "("}, "expected a regular expression"),
        ({"speaker_pattern": "[a-z]+"}, "expected a group in parentheses"),
        ({"speaker_pattern": FOLDER, "spectrum": (1.0,)}, f"expected {BANDS} numbers or none, found 1"),
    ],
)
def test_wrong_settings(fields: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        EqualizerConfig.model_validate(fields)


def test_training_needs_speakers_and_sound() -> None:
    config = EqualizerConfig(speaker_pattern="_([a-z]+)_")
    with pytest.raises(
        DataError, match=r"list\.tsv:1: task\.equalizer\.speaker_pattern finds no speaker in the name 'a/1\.wav'"
    ):
        equalizer(config).fit(read_list, [located("a/1.wav", speech(1))])
    with pytest.raises(DataError, match=r"found vectors; task\.equalizer works with sound only"):
        equalizer(config).fit(read_list, [located("1_a_1", np.zeros((4, 3), np.float32), rate=0)])


def write_list(folder: Path, *, header: str) -> Path:
    """A list of three short recordings of each of two speakers."""
    from scipy.io import wavfile

    rows = []
    for speaker in ("ada", "bob"):
        (folder / speaker).mkdir()
        for number in range(3):
            name = f"{speaker}/{number}.wav"
            wavfile.write(folder / name, RATE, (speech(number) * 3e4).astype(np.int16))
            rows.append(f"{name}\t{'yes' if number else 'no'}")
    path = folder / "train.tsv"
    path.write_text("\n".join([header, *rows, ""]))
    return path


@pytest.mark.parametrize(("kind", "header"), [(Classify, "file\tlabel"), (Transcribe, "file\ttext")])
def test_tasks_store_the_spectrum_and_equalise_what_they_read(tmp_path: Path, kind: Any, header: str) -> None:
    path = write_list(tmp_path, header=header)
    task = kind(train=str(path), equalizer=EqualizerConfig(speaker_pattern=FOLDER))
    plain = list(task.read(path))
    resolved, notes = task.resolve(path)
    assert any("2 speakers by task.equalizer.speaker_pattern: ada, bob" in note for note in notes)
    assert len(resolved.equalizer.spectrum) == BANDS
    again = kind.model_validate(resolved.model_dump())
    fitted = again.fit(again.read(path))
    examples = list(fitted.read_inputs(path))
    batch = fitted.collate(examples)
    before = task.model_copy(update={"audio": resolved.audio}).fit(plain).collate(plain)
    assert not torch.equal(batch.inputs.values, before.inputs.values)
    assert fitted.input_warning(examples[0]).startswith("too little sound of the speaker") is (
        examples[0].equalized < 0.5
    )
    with pytest.raises(ValueError, match="an exported model cannot equalise sound by speaker"):
        fitted.onnx_model(fitted.build_model())
    other = fitted.model_copy(update={"equalizer": EqualizerConfig()})
    assert fitted.ensemble_conflict(other) == "are equalised differently (task.equalizer)"
    assert not fitted.ensemble_conflict(fitted)
    (alone,) = fitted.read_inputs([Audio(speech(1), RATE)])
    assert fitted.input_warning(alone)
    assert alone.equalized < examples[0].equalized


def test_texts_cannot_be_equalised() -> None:
    task = Classify(train="-", equalizer=EqualizerConfig(speaker_pattern=FOLDER))
    with pytest.raises(DataError, match=r"found a text; task\.equalizer works with sound only"):
        task.resolve([("good", "a"), ("bad", "b")])
