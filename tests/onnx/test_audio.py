"""Features of sound inside the graph, against the layers of the model."""

from typing import Any

import numpy as np
import pytest
import torch

from seqloom.export_check import relative_difference
from seqloom.layers.audio.spectrum import Normalize, Spectrum
from seqloom.layers.audio.trim import TrimSilence
from seqloom.onnx.audio import emit_normalize, spectrum_input
from seqloom.onnx.exported import open_session
from seqloom.onnx.graph import Graph

LENGTHS = [900, 650, 520, 100]  # the last one is shorter than a window
RATE = 8000


def recordings() -> tuple[torch.Tensor, torch.Tensor]:
    """A loud, a quiet and two short recordings, with NaN in the padding."""
    samples = torch.from_numpy(np.random.default_rng(4).normal(0, [[1.0], [1e-4], [0.1], [0.1]], (4, 900))).float()
    mask = torch.arange(900) < torch.tensor(LENGTHS).unsqueeze(1)
    return samples.masked_fill(~mask, torch.nan), mask


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kind": "mfcc", "n_mfcc": 5, "deltas": 2, "preemphasis": 0.97},
        {"top_db": 30.0, "fmin": 100.0, "fmax": 3000.0, "deltas": 1},
    ],
)
@pytest.mark.parametrize("kind", ["none", "global", "utterance", "level", "streaming"])
def test_spectrum_and_normalisation(options: dict[str, Any], kind: Any) -> None:
    spectrum = Spectrum(RATE, n_mels=10, **options)
    size = spectrum.output_size
    normalize = Normalize(size, kind=kind, mean=[0.5 * i for i in range(size)], deviation=[1 + i for i in range(size)])
    graph = Graph()
    frames, rows = spectrum_input(graph, spectrum)
    graph.output("frames", emit_normalize(normalize, frames, rows), ["batch", "time", size])
    session = open_session(graph.finish("spectrum", {}).SerializeToString())
    samples, mask = recordings()
    (found,) = session.run(None, {"samples": samples.numpy(), "lengths": np.array(LENGTHS)})
    values, real, _ = spectrum(samples, mask)
    expected, _ = normalize(values, real)
    assert found.shape == (4, (900 - 200) // 80 + 1, size)
    # A logarithm of an energy is rounded to 1e-6; the deviation of a few frames, which may be 0.05, divides it.
    assert relative_difference(found, expected.numpy()) <= (1e-4 if kind == "utterance" else 1e-5)


@pytest.mark.parametrize("top_db", [20.0, 60.0])
def test_trimmed_silence(top_db: float) -> None:
    spectrum, trim = Spectrum(RATE, n_mels=10), TrimSilence(RATE, top_db=top_db, shortest=200)
    graph = Graph()
    frames, rows = spectrum_input(graph, spectrum, trim)
    graph.output("frames", frames, ["batch", "time", spectrum.output_size])
    graph.output("counts", rows.lengths, ["batch"])
    session = open_session(graph.finish("spectrum", {}).SerializeToString())
    samples, mask = recordings()
    scale = torch.ones(4, 900)  # silence of 40 dB below the rest
    scale[0, :170], scale[0, 700:], scale[1, 200:] = 0.01, 0.01, 0.01
    samples = samples * scale
    found, counts = session.run(None, {"samples": samples.numpy(), "lengths": np.array(LENGTHS)})
    values, real, _ = spectrum(*trim(samples, mask))
    assert counts.tolist() == real.sum(dim=1).tolist()
    assert counts[0] == (6 if top_db == 20.0 else 9)
    assert relative_difference(found, values.numpy()) <= 1e-5
