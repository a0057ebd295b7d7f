"""Token probabilities over time against NumPy, as text and as plots."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.insight.ctc_plot import FrameProbabilities, ctc_lines, draw_ctc, frame_probabilities, timing_lines
from seqloom.layers.audio.spectrum import Spectrum
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig
from seqloom.models.signals.feature_extractor import FeatureExtractor
from seqloom.models.signals.frame_encoder import TimeReductionConfig, build_frame_encoder
from seqloom.models.transcription.transcriber import Transcriber
from seqloom.models.transcription.transcripts import Transcription


def model(symbols: int, *, size: int = 3, factor: int = 2, **features: Any) -> Transcriber:
    torch.manual_seed(4)
    encoder = build_frame_encoder(
        [],
        size=size,
        prenet=PrenetConfig(),
        recurrence=RecurrenceConfig(cell="gru", hidden_size=5),
        time_reduction=TimeReductionConfig(factor=factor),
        features=FeatureExtractor(**features),
    )
    transcriber = Transcriber(encoder, vocab_size=symbols)
    transcriber.output.weight.data *= 8
    return transcriber.eval()


def letters() -> Tokenizer:
    return TextConfig(unit="characters").fit(["ab c", "cab"])


def test_probabilities_are_those_of_the_softmax() -> None:
    encoding = letters()
    symbols = encoding.vocabulary.tokens
    module = model(len(symbols))
    values = torch.randn(1, 9, 3)
    mask = torch.ones(1, 9, dtype=torch.bool)
    with torch.no_grad():
        result, seen = frame_probabilities(module, values, mask, encoding, transcript=["c", "a", "c"], reduction=2)
        logits = module(values, mask)[0][0].double().numpy()
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)  # (5, V)
    assert result.transcript == ["c", "a", "c"]
    assert result.tokens[:2] == ["c", "a"]
    likely = {symbols[number] for number in range(1, len(symbols)) if expected[:, number].max() >= 0.1}
    assert set(result.tokens) == likely | {"c", "a"}
    for name, row in zip(result.tokens, result.probabilities, strict=True):
        np.testing.assert_allclose(row, expected[:, symbols.index(name)], rtol=1e-6)
    np.testing.assert_allclose(result.blank, expected[:, 0], rtol=1e-6)
    assert result.most_probable == ["" if number == 0 else symbols[number] for number in expected.argmax(axis=1)]
    assert (result.frame_length, result.in_seconds, result.input_kind) == (2, False, "numbers")
    np.testing.assert_array_equal(seen, values[0].double().numpy())


def test_the_input_of_sound_is_its_spectrogram() -> None:
    encoding = letters()
    spectrum = Spectrum(8000, n_mels=6)
    module = model(len(encoding.vocabulary.tokens), size=6, factor=3, spectrum=spectrum)
    samples = torch.sin(torch.arange(2000) / 5).unsqueeze(0)
    with torch.no_grad():
        result, seen = frame_probabilities(
            module, samples, torch.ones(1, 2000, dtype=torch.bool), encoding, transcript=[], reduction=3
        )
        expected = spectrum(samples)[0][0]
    np.testing.assert_array_equal(seen, expected.double().numpy())
    assert (result.input_kind, result.in_seconds) == ("sound", True)
    assert result.frame_length == pytest.approx(0.03)
    assert len(result.most_probable) == -(-len(seen) // 3)


@pytest.mark.parametrize(
    ("values", "name", "kind"),
    [
        ([[0.5, 0.1, 1.0], [0.2, 0.3, 0.0]], "", "strokes"),
        ([[0.5, 0.1, 0.5], [0.2, 0.3, 0.0]], "", "numbers"),
        ([[0.5, 0.1, 1.0], [0.2, 0.3, 0.0]], "a.PNG", "image"),
    ],
)
def test_the_kind_of_input(values: list[list[float]], name: str, kind: str) -> None:
    encoding = letters()
    module = model(len(encoding.vocabulary.tokens), factor=1)
    with torch.no_grad():
        result, _ = frame_probabilities(
            module,
            torch.tensor([values]),
            torch.ones(1, 2, dtype=torch.bool),
            encoding,
            transcript=[],
            reduction=1,
            file_name=name,
        )
    assert result.input_kind == kind


def frames(best: str, *, reduction: int = 1, kind: str = "image", seconds: bool = False) -> FrameProbabilities:
    """A point is the blank, all others have a probability of 1."""
    names = sorted(set(best) - {"."})
    return FrameProbabilities(
        transcript=[symbol for symbol in best if symbol != "."],
        tokens=names,
        probabilities=[[float(symbol == name) for symbol in best] for name in names],
        blank=[float(symbol == ".") for symbol in best],
        most_probable=["" if symbol == "." else symbol for symbol in best],
        frame_length=0.5 if seconds else reduction,
        in_seconds=seconds,
        reduction=reduction,
        input_kind=kind,
    )


def prediction(frames: FrameProbabilities, words: list[str] | None = None) -> Transcription:
    indices = [index for index, symbol in enumerate(frames.most_probable) if symbol]
    times = [(index * frames.frame_length, (index + 1) * frames.frame_length) for index in indices]
    spans = [times[min(number, len(times) - 1)] for number in range(len(words or []))]
    text = "".join(frames.transcript)
    return Transcription(
        text, -1.0, -1.0, 0.0, frames.transcript, times, words or [text], spans or times[:1], [], "", None
    )


def test_text_for_a_terminal() -> None:
    result = frames("..3....4  ..".replace(" ", "."))
    seen = np.zeros((12, 2))
    seen[2], seen[7, 0] = 1, 1
    assert ctc_lines(result, seen) == [
        "  █    █",
        "  █",
        "··3····4····",
        "  █    █",
        "╵0        ╵10",
    ]
    assert ctc_lines(result, 1 - seen) == ctc_lines(result, seen)  # ink may be dark or bright


def test_long_recordings_are_wrapped_and_words_are_separated() -> None:
    result = replace(frames("." * 25, reduction=2, kind="sound", seconds=True), most_probable=[""] * 24 + ["aa"])
    lines = ctc_lines(result, np.zeros((50, 1)), width=35)
    assert lines[0] == "·  " * 9 + "·"
    assert lines[2] == "╵0.00 s"
    assert lines[-3:] == ["·  ·  ·  ·  aa", "", "╵10.00 s"]
    assert len(lines) == 3 * 3 + 2
    assert ctc_lines(frames(""), np.zeros((0, 4))) == []


def test_high_frequencies_are_above_low_ones() -> None:
    seen = np.zeros((3, 16))
    seen[:, :2] = 1  # the lowest
    assert ctc_lines(frames("...", kind="sound"), seen)[:8] == [""] * 7 + ["███"]
    joined = np.repeat([[0.0, 0.0], [100.0, 0.0], [100.0, 1.0]], [2, 2, 1], axis=0)  # the last has one frame only
    assert ctc_lines(frames("...", reduction=2, kind="numbers"), joined)[:2] == ["  █", " ██"]


def test_timings_of_words_and_tokens() -> None:
    result = frames(".a.b", kind="sound", seconds=True)
    lines = list(timing_lines(prediction(result, ["a", "bee"]), result))
    assert lines == [
        "",
        "Word timings, start and end:",
        "a      bee",
        "0.50 s 1.50 s",
        "1.00 s 2.00 s",
        "",
        "Token timings, start and end:",
        "a      b",
        "0.50 s 1.50 s",
        "1.00 s 2.00 s",
    ]
    assert list(timing_lines(prediction(frames("a.b")), frames("a.b")))[1] == "Token timings, start and end in frames:"
    assert list(timing_lines(prediction(frames("..")), frames(".."))) == []


@pytest.mark.parametrize("kind", ["image", "sound", "strokes", "numbers"])
def test_plots(kind: str, tmp_path: Path) -> None:
    result = frames(".$..b.b" * 40, reduction=2, kind=kind, seconds=kind == "sound")
    seen = np.random.default_rng(1).random((559, 3))
    seen[:, 2] = seen[:, 2] > 0.5
    draw_ctc(result, seen, prediction(result, ["a", "b$"]), tmp_path / "new" / "s.png", title="a $ b $")
    assert (tmp_path / "new" / "s.png").read_bytes().startswith(b"\x89PNG")
    draw_ctc(result, seen[:, :1], prediction(result), tmp_path / "one.png")
    assert (tmp_path / "one.png").is_file()


def test_an_empty_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the input has no frames"):
        draw_ctc(frames(""), np.zeros((0, 3)), prediction(frames("")), tmp_path / "s.png")


def test_the_path_of_the_pen_has_the_colours_of_its_tokens(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    from seqloom.insight.ctc_plot import _draw_pen
    from seqloom.insight.plotting import COLOURS

    strokes = np.array([[1.0, 0.5, 0], [1, -0.5, 0], [1, 0, 1], [1, 0.5, 0], [1, 0.5, 0], [1, 0, 0]])
    frames = FrameProbabilities(
        transcript=["a", "b"],
        tokens=["a", "b"],
        probabilities=[[0.9, 0.1, 0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1, 0.9, 0.1]],
        blank=[0.0] * 6,
        most_probable=["a", "", "", "", "b", ""],
        frame_length=1.0,
        in_seconds=False,
        reduction=1,
        input_kind="strokes",
    )
    prediction = Transcription("ab", 0.0, 0.0, 0.0, ["a", "b"], [(0, 1), (4, 5)], [], [], [], "", None)
    axes = Figure().add_subplot()
    _draw_pen(axes, frames, strokes, prediction)
    first, second = axes.lines
    assert (first.get_color(), second.get_color()) == COLOURS[:2]
    assert np.asarray(first.get_xdata()).tolist() == [1, 2, 3, 4]  # up to the first point of the next token
    assert np.isnan(np.asarray(first.get_ydata(), dtype=float)[2])  # the pen is lifted
    assert np.asarray(second.get_xdata()).tolist() == [4, 5, 6]
    draw_ctc(frames, strokes, prediction, tmp_path / "pen.png", title="pen")
    assert (tmp_path / "pen.png").stat().st_size > 5000
