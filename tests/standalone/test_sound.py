"""Spectra of compiled models equal those of the layer."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.export_check import TOLERANCE, relative_difference
from seqloom.kernels.llvm.target import PORTABLE, native
from seqloom.layers.audio.spectrum import Spectrum
from seqloom.layers.audio.trim import TrimSilence
from seqloom.standalone.builder import SHORT, ModelBuilder, Rows
from seqloom.standalone.compiled import CompiledModel, compile_for
from seqloom.standalone.interface import Frames, Port, StandaloneModel, assemble
from seqloom.standalone.sound import read_sound

RATE = 8000


def unused(_examples: Any) -> Any:
    raise NotImplementedError


def spectrum_model(spectrum: Spectrum, trim: TrimSilence | None) -> StandaloneModel:
    """Samples to frames, and the number of frames."""

    def emit(b: ModelBuilder, arguments: Mapping[str, Any]) -> None:
        frames = read_sound(b, arguments["samples"], spectrum, trim)
        b.copy(frames, Rows(arguments["frames"], frames.count, frames.size, frames.size))
        count = b.builder.trunc(frames.count.value, SHORT)
        b.builder.store(count, b.pointer(arguments["count"], 0, SHORT), align=4)

    rate = Frames(spectrum.window, spectrum.hop)
    return StandaloneModel(
        (Port("samples", "float", ("length",), ""),),
        (
            Port("frames", "float", ("length", spectrum.output_size), "", frames=rate),
            Port("count", "int32_t", (1,), ""),
        ),
        emit,
        unused,
        unused,
    )


@pytest.mark.parametrize("target", ["x86-64", pytest.param("native", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    ("options", "trims"),
    [
        pytest.param({}, False, marks=pytest.mark.exhaustive),
        ({"kind": "mfcc", "deltas": 2, "preemphasis": 0.97}, True),
        ({"deltas": 1, "top_db": 30.0, "n_mels": 13, "window": 0.02, "hop": 0.007}, True),
        pytest.param({"kind": "mfcc", "n_mfcc": 7, "top_db": 20.0}, False, marks=pytest.mark.exhaustive),
    ],
)
def test_spectrum(options: dict[str, Any], trims: bool, target: str) -> None:
    spectrum = Spectrum(RATE, **options)
    trim = TrimSilence(RATE, top_db=25.0, shortest=spectrum.window) if trims else None
    model = spectrum_model(spectrum, trim)
    chosen = {**PORTABLE, "native": native()}[target]
    assembly = assemble(model, "model", chosen)
    function = CompiledModel.load(model, assembly, compile_for(assembly, chosen), chosen)
    draw = np.random.default_rng(5)
    for length in (0, 100, spectrum.window, 1000, 5003):
        time = np.arange(length)
        loudness = np.exp(-(((time - length / 2) / (length / 8 + 1)) ** 2))  # silence at both ends
        noise = draw.standard_normal(length)
        samples = (loudness * (np.sin(time * 0.3) + 0.1 * noise) + 1e-4 * noise).astype(np.float32)
        answer = function.predict({"samples": samples}, length)
        x, mask = torch.from_numpy(samples).unsqueeze(0), torch.ones(1, length, dtype=torch.bool)
        x, mask = (x, mask) if trim is None else trim(x, mask)
        expected = spectrum(x, mask)[0][0].numpy()
        assert answer["count"][0] == len(expected)
        assert relative_difference(answer["frames"][: len(expected)], expected) <= TOLERANCE
