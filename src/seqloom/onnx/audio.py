"""Sound as frames: spectrum and normalisation, computed from samples inside the graph."""

import math

import numpy as np
import torch

from seqloom.export_check import ExportError
from seqloom.layers.audio.spectrum import DELTA_REACH, MIN_DEVIATION, MIN_ENERGY, Normalize, Spectrum
from seqloom.layers.audio.trim import SILENCE, TrimSilence
from seqloom.onnx.graph import DOUBLE, FLOAT, INTEGER, Graph, Value
from seqloom.onnx.modules import Rows, array, lowest


def spectrum_input(graph: Graph, spectrum: Spectrum, trim: TrimSilence | None = None) -> tuple[Value, Rows]:
    """Samples at the rate of the model, (B, N), as the frames of a spectrum, (B, T, D)."""
    samples = graph.input("samples", FLOAT, ["batch", "samples"])
    lengths = graph.input("lengths", INTEGER, ["batch"])
    if trim is not None:
        samples, lengths = emit_trim(trim, samples, lengths)
    return emit_spectrum(spectrum, samples, lengths)


def emit_trim(trim: TrimSilence, samples: Value, lengths: Value) -> tuple[Value, Value]:
    """(B, N) samples without the silence at both ends, and their number in each row, (B,)."""
    graph = samples.graph
    real = graph.range(samples.size(1)).unsqueeze(0) < lengths.unsqueeze(1)
    samples = graph.where(real, samples, 0.0)
    filled = graph.concatenate([samples, graph.full(0.0, samples.size(0), trim.block - 1)], axis=1)
    count = (samples.size(1) + (trim.block - 1)) / trim.block
    blocks = filled.part(1, 0, count * trim.block).cast(DOUBLE).reshape(samples.size(0), count, trim.block)
    energies = (blocks * blocks).sum(2) + SILENCE
    numbers = graph.range(count).unsqueeze(0)
    loud = energies.max(1, keep=True) * trim.threshold <= energies
    loud = loud & (numbers * trim.block < lengths.unsqueeze(1))
    shortest, zero = graph.constant(trim.shortest, np.int64), graph.constant(0, np.int64)
    first = graph.call("ReduceMin", graph.where(loud, numbers, count), np.array([1]), keepdims=0) * trim.block
    last = (graph.where(loud, numbers, -1).max(1) + 1) * trim.block
    start = graph.call("Min", first, graph.call("Max", lengths - shortest, zero))
    stop = graph.call("Min", graph.call("Max", last, start + shortest), lengths)
    places = graph.range(samples.size(1)).unsqueeze(0) + start.unsqueeze(1)
    places = graph.call("Min", places, samples.size(1) - 1)
    return graph.call("GatherElements", samples, places, axis=1), stop - start


def emit_spectrum(spectrum: Spectrum, samples: Value, lengths: Value) -> tuple[Value, Rows]:
    """(B, N) samples → (B, T, D), zero in the padding."""
    if spectrum.centre:
        raise ExportError("a centred spectrum cannot be exported to ONNX")
    graph = samples.graph
    real = graph.range(samples.size(1)).unsqueeze(0) < lengths.unsqueeze(1)
    signal = graph.where(real, samples, 0.0)
    if spectrum.preemphasis:
        before = graph.concatenate([graph.full(0.0, samples.size(0), 1), signal.part(1, 0, -1)], axis=1)
        signal = graph.where(real, signal - before * spectrum.preemphasis, 0.0)
    counts = graph.where(lengths < spectrum.window, 0, (lengths - spectrum.window) / spectrum.hop + 1)
    starts = graph.range(graph.call("ReduceMax", counts, np.array([0]), keepdims=0)) * spectrum.hop
    frames = _log_energies(spectrum, signal.take(starts.unsqueeze(1) + np.arange(spectrum.window), axis=1))
    rows = Rows.of(frames, counts)
    if spectrum.top_db:
        loudest = graph.where(rows.mask.unsqueeze(2), frames, lowest(frames))
        loudest = graph.call("ReduceMax", loudest, np.array([1, 2]), keepdims=1)
        frames = graph.call("Max", frames, loudest - spectrum.top_db * math.log(10) / 10)
    if spectrum.kind == "mfcc":
        frames = frames @ array(spectrum.cosines)
    return rows.clear_padding(_with_deltas(spectrum, frames)), rows


def _log_energies(spectrum: Spectrum, windows: Value) -> Value:  # (B, T, window) → (B, T, n_mels)
    """In double precision up to the energies, as in ``Spectrum``."""
    graph = windows.graph
    hann = array(torch.hann_window(spectrum.window, dtype=torch.float64))
    weighted = (windows.cast(DOUBLE) * hann).unsqueeze(3)
    transformed = graph.call("DFT", weighted, np.array(spectrum.n_fft), onesided=1)  # (B, T, n_fft / 2 + 1, 2)
    energies = (transformed * transformed).sum(3).cast(FLOAT)
    filtered = energies @ array(spectrum.filters)
    return graph.call("Max", filtered, graph.constant(MIN_ENERGY, FLOAT)).apply("Log")


def _with_deltas(spectrum: Spectrum, frames: Value) -> Value:
    """Append the slopes; the first frame is repeated before the start."""
    graph, width = frames.graph, 2 * DELTA_REACH
    parts = [frames]
    slopes = graph.concatenate([frames.part(1, 0, 1)] * (width * spectrum.deltas) + [frames], axis=1)
    for order in range(1, spectrum.deltas + 1):
        slopes = _slope(slopes, frames.size(1) + width * (spectrum.deltas - order))
        parts.append(slopes.part(1, width * (spectrum.deltas - order)))
    return graph.concatenate(parts, axis=2)


def _slope(x: Value, count: Value) -> Value:  # (B, 4 + T, D) → (B, T, D)
    squares = 2 * sum(step * step for step in range(1, DELTA_REACH + 1))
    steps = range(-DELTA_REACH, DELTA_REACH + 1)
    terms = [x.part(1, place, count + place) * (step / squares) for place, step in enumerate(steps) if step]
    total, *others = terms
    for term in others:
        total = total + term
    return total


def emit_normalize(normalize: Normalize, x: Value, rows: Rows) -> Value:
    """Features with mean 0 and deviation 1: of the training data, of the recording, or of the frames so far."""
    if normalize.kind == "none":
        return rows.clear_padding(x)
    graph = x.graph
    difference = rows.clear_padding(x - array(normalize.mean))
    if normalize.kind == "global":
        return difference / array(normalize.deviation.clamp(min=MIN_DEVIATION))
    if normalize.kind in ("utterance", "level"):
        count = graph.call("Max", rows.lengths, graph.constant(1, np.int64)).cast(FLOAT).unsqueeze(1, 2)

        def mean(values: Value) -> Value:
            total = values.sum(1, keep=True) / count
            return total.sum(2, keep=True) / float(normalize.input_size) if normalize.kind == "level" else total

        centred = rows.clear_padding(difference - mean(difference))
        return centred / (mean(centred * centred) + MIN_DEVIATION**2).apply("Sqrt")
    exact = difference.cast(DOUBLE)  # torch sums up in double precision, too
    count = rows.mask.unsqueeze(2).cast(DOUBLE)
    count, total, squares = (graph.call("CumSum", part, np.array(1)) for part in (count, exact, exact * exact))
    count, total, squares = (part.cast(FLOAT) for part in (count, total, squares))
    weight = count + normalize.prior
    centre = total / weight
    prior = array(normalize.prior * normalize.deviation.square())
    variance = (squares + prior) / weight - centre * centre
    variance = graph.call("Max", variance, graph.constant(0.0, FLOAT))
    return rows.clear_padding((difference - centre) / (variance + MIN_DEVIATION**2).apply("Sqrt"))
