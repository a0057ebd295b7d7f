"""Probabilities over time against NumPy; the same as text and as pictures."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.insight.spikes import Spikes, draw_spikes, listen, spike_lines, transcript_lines
from seqloom.layers.audio.spectrum import Spectrum
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig
from seqloom.models.transcription.line_images import LineImageConfig
from seqloom.models.transcription.transcriber import TimeReductionConfig, Transcriber, build_transcriber
from seqloom.models.transcription.transcripts import Transcription


def model(symbols: int, *, size: int = 3, factor: int = 2, **listening: Any) -> Transcriber:
    torch.manual_seed(4)
    made = build_transcriber(
        size=size,
        symbols=symbols,
        look=LineImageConfig(),
        front=PrenetConfig(),
        recurrence=RecurrenceConfig(cell="gru", hidden_size=5),
        reduction=TimeReductionConfig(factor=factor),
        **listening,
    )
    made.output.weight.data *= 8
    return made.eval()


def letters() -> Tokenizer:
    return TextConfig(unit="characters").fit(["ab c", "cab"])


def test_probabilities_are_those_of_the_softmax() -> None:
    encoding = letters()
    symbols = encoding.vocabulary.symbols
    module = model(len(symbols))
    values = torch.randn(1, 9, 3)
    mask = torch.ones(1, 9, dtype=torch.bool)
    with torch.no_grad():
        found, seen = listen(module, values, mask, encoding, said=["c", "a", "c"], joined=2)
        logits = module(values, mask)[0][0].double().numpy()
    wanted = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)  # (5, V)
    assert found.said == ["c", "a", "c"]
    assert found.names[:2] == ["c", "a"]
    likely = {symbols[number] for number in range(1, len(symbols)) if wanted[:, number].max() >= 0.1}
    assert set(found.names) == likely | {"c", "a"}
    for name, row in zip(found.names, found.probabilities, strict=True):
        np.testing.assert_allclose(row, wanted[:, symbols.index(name)], rtol=1e-6)
    np.testing.assert_allclose(found.blank, wanted[:, 0], rtol=1e-6)
    assert found.best == ["" if number == 0 else symbols[number] for number in wanted.argmax(axis=1)]
    assert (found.unit, found.seconds, found.kind) == (2, False, "numbers")
    np.testing.assert_array_equal(seen, values[0].double().numpy())


def test_of_sound_the_spectrum_is_seen() -> None:
    encoding = letters()
    spectrum = Spectrum(8000, mels=6)
    module = model(len(encoding.vocabulary.symbols), size=6, factor=3, spectrum=spectrum)
    samples = torch.sin(torch.arange(2000) / 5).unsqueeze(0)
    with torch.no_grad():
        found, seen = listen(module, samples, torch.ones(1, 2000, dtype=torch.bool), encoding, said=[], joined=3)
        wanted = spectrum(samples)[0][0]
    np.testing.assert_array_equal(seen, wanted.double().numpy())
    assert (found.kind, found.seconds) == ("sound", True)
    assert found.unit == pytest.approx(0.03)
    assert len(found.best) == -(-len(seen) // 3)


@pytest.mark.parametrize(
    ("values", "name", "kind"),
    [
        ([[0.5, 0.1, 1.0], [0.2, 0.3, 0.0]], "", "strokes"),
        ([[0.5, 0.1, 0.5], [0.2, 0.3, 0.0]], "", "numbers"),
        ([[0.5, 0.1, 1.0], [0.2, 0.3, 0.0]], "a.PNG", "image"),
    ],
)
def test_what_was_given_is_told_by_its_name_and_its_numbers(values: list[list[float]], name: str, kind: str) -> None:
    encoding = letters()
    module = model(len(encoding.vocabulary.symbols), factor=1)
    with torch.no_grad():
        found, _ = listen(
            module, torch.tensor([values]), torch.ones(1, 2, dtype=torch.bool), encoding, said=[], joined=1, name=name
        )
    assert found.kind == kind


def spikes(best: str, *, joined: int = 1, kind: str = "image", seconds: bool = False) -> Spikes:
    """A point is the blank, all others have a probability of 1."""
    names = sorted(set(best) - {"."})
    return Spikes(
        said=[symbol for symbol in best if symbol != "."],
        names=names,
        probabilities=[[float(symbol == name) for symbol in best] for name in names],
        blank=[float(symbol == ".") for symbol in best],
        best=["" if symbol == "." else symbol for symbol in best],
        unit=0.5 if seconds else joined,
        seconds=seconds,
        joined=joined,
        kind=kind,
    )


def answer(found: Spikes, words: list[str] | None = None) -> Transcription:
    places = [place for place, symbol in enumerate(found.best) if symbol]
    times = [(place * found.unit, (place + 1) * found.unit) for place in places]
    spans = [times[min(number, len(times) - 1)] for number in range(len(words or []))]
    text = "".join(found.said)
    return Transcription(text, -1.0, -1.0, 0.0, found.said, times, words or [text], spans or times[:1], [], "", None)


def test_text_for_a_terminal() -> None:
    found = spikes("..3....4  ..".replace(" ", "."))
    seen = np.zeros((12, 2))
    seen[2], seen[7, 0] = 1, 1
    assert spike_lines(found, seen) == [
        "  █    █",
        "  █",
        "··3····4····",
        "  █    █",
        "╵0        ╵10",
    ]
    assert spike_lines(found, 1 - seen) == spike_lines(found, seen)  # ink may be dark or bright


def test_long_recordings_are_broken_and_words_stand_apart() -> None:
    found = replace(spikes("." * 25, joined=2, kind="sound", seconds=True), best=[""] * 24 + ["aa"])
    lines = spike_lines(found, np.zeros((50, 1)), width=35)
    assert lines[0] == "·  " * 9 + "·"
    assert lines[2] == "╵0.00 s"
    assert lines[-3:] == ["·  ·  ·  ·  aa", "", "╵10.00 s"]
    assert len(lines) == 3 * 3 + 2
    assert spike_lines(spikes(""), np.zeros((0, 4))) == []


def test_high_tones_stand_above_low_ones() -> None:
    seen = np.zeros((3, 16))
    seen[:, :2] = 1  # the lowest
    assert spike_lines(spikes("...", kind="sound"), seen)[:8] == [""] * 7 + ["███"]
    joined = np.repeat([[0.0, 0.0], [100.0, 0.0], [100.0, 1.0]], [2, 2, 1], axis=0)  # the last has one frame only
    assert spike_lines(spikes("...", joined=2, kind="numbers"), joined)[:2] == ["  █", " ██"]


def test_when_symbols_and_words_are_said() -> None:
    found = spikes(".a.b", kind="sound", seconds=True)
    lines = list(transcript_lines(answer(found, ["a", "bee"]), found))
    assert lines == [
        "",
        "When each word begins and ends:",
        "a      bee",
        "0.50 s 1.50 s",
        "1.00 s 2.00 s",
        "",
        "When each symbol begins and ends:",
        "a      b",
        "0.50 s 1.50 s",
        "1.00 s 2.00 s",
    ]
    assert (
        list(transcript_lines(answer(spikes("a.b")), spikes("a.b")))[1]
        == "When each symbol begins and ends, in frames:"
    )
    assert list(transcript_lines(answer(spikes("..")), spikes(".."))) == []


@pytest.mark.parametrize("kind", ["image", "sound", "strokes", "numbers"])
def test_pictures(kind: str, tmp_path: Path) -> None:
    found = spikes(".$..b.b" * 40, joined=2, kind=kind, seconds=kind == "sound")
    seen = np.random.default_rng(1).random((559, 3))
    seen[:, 2] = seen[:, 2] > 0.5
    draw_spikes(found, seen, answer(found, ["a", "b$"]), tmp_path / "new" / "s.png", title="a $ b $")
    assert (tmp_path / "new" / "s.png").read_bytes().startswith(b"\x89PNG")
    draw_spikes(found, seen[:, :1], answer(found), tmp_path / "one.png")
    assert (tmp_path / "one.png").is_file()


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing was heard"):
        draw_spikes(spikes(""), np.zeros((0, 3)), answer(spikes("")), tmp_path / "s.png")
