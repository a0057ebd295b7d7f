"""Encoders of frames: normalisation, reductions of the frame rate, layers."""

from fractions import Fraction
from typing import Any

import numpy as np

from seqloom.kernels.llvm import vector_math
from seqloom.kernels.llvm.ir_builder import integer
from seqloom.layers.audio.spectrum import MIN_DEVIATION, Normalize, Spectrum
from seqloom.layers.audio.trim import TrimSilence
from seqloom.layers.time_reduction import TimeReduction
from seqloom.models.signals.feature_extractor import FeatureExtractor
from seqloom.models.signals.frame_encoder import FrameEncoder
from seqloom.standalone.builder import DOUBLE, Addresses, Count, ModelBuilder, Rows
from seqloom.standalone.interface import Frames, Port
from seqloom.standalone.modules import array, emit_layer, total, unsupported
from seqloom.standalone.sound import read_sound


def embed_sound(b: ModelBuilder, inputs: Addresses, *, features: FeatureExtractor) -> Rows:
    """The frames of a sound."""
    spectrum, trim = features.spectrum, features.trim
    if not isinstance(spectrum, Spectrum) or not isinstance(trim, TrimSilence | None):
        raise unsupported("a model of images or videos")
    return read_sound(b, inputs["samples"], spectrum, trim)


def embed_spectrum(b: ModelBuilder, inputs: Addresses, *, spectrum: Spectrum, scale: tuple[Any, Any]) -> Rows:
    """The frames of a sound, in deviations from their means."""
    frames = read_sound(b, inputs["samples"], spectrum, None)
    means, deviations = (b.constant_rows(part, frames.count) for part in scale)
    return b.map(b.builder.fdiv, b.map(b.builder.fsub, frames, means), deviations)


def sound_ports(features: FeatureExtractor) -> tuple[Port, Frames]:
    """What a model of sound reads, and how many frames that gives."""
    spectrum: Any = features.spectrum
    return spectrum_ports(spectrum)


def spectrum_ports(spectrum: Spectrum) -> tuple[Port, Frames]:
    """The same for a spectrum."""
    described = f"sound of one channel at {spectrum.sample_rate} samples per second, from -1 to 1"
    return Port("samples", "float", ("length",), described), Frames(spectrum.window, spectrum.hop)


def encode_frames(b: ModelBuilder, encoder: FrameEncoder, frames: Rows) -> Rows:
    """The outputs of the layers, one for each frame that is left."""
    normalise: Any = encoder.features.normalise
    values = frames if normalise is None else _normalized(b, normalise, frames)
    for part in encoder.layers:
        values = _reduced(b, part, values) if isinstance(part, TimeReduction) else emit_layer(b, part, values)[0]
    return values


def _normalized(b: ModelBuilder, normalize: Normalize, x: Rows) -> Rows:
    """Features with mean 0 and deviation 1: of the training data, of the recording, or of the frames so far."""
    if normalize.kind == "none":
        return x
    builder, emit = b.builder, b.emit
    difference = b.map(builder.fsub, x, b.constant_rows(array(normalize.mean), x.count))
    if normalize.kind == "global":
        deviation = array(normalize.deviation.clamp(min=MIN_DEVIATION))
        return b.map(builder.fdiv, difference, b.constant_rows(deviation, x.count))
    if normalize.kind == "streaming":
        return _normalized_so_far(b, normalize, difference)
    count = emit.splat(builder.sitofp(x.count.value, emit.scalar))
    count = vector_math.at_least(emit, count, emit.splat(1.0))

    def mean(rows: Rows) -> Rows:
        """The mean of each feature, or of all of them, at each position."""
        sums = b.reduce(lambda so_far, value, _row: builder.fadd(so_far, value), rows, 0.0)
        average = b.map(lambda value: builder.fdiv(value, count), sums)
        if normalize.kind == "level":
            size, overall = emit.splat(float(x.size)), total(b, average)
            average = b.map(lambda _value: builder.fdiv(overall, size), average)
        return Rows(average.address, x.count, x.size, 0)

    centred = b.map(builder.fsub, difference, mean(difference))
    variance = mean(b.map(builder.fmul, centred, centred))
    small = emit.splat(MIN_DEVIATION**2)
    return b.map(
        lambda value, square: builder.fdiv(value, emit.intrinsic("sqrt", builder.fadd(square, small))),
        centred,
        variance,
    )


def _normalized_so_far(b: ModelBuilder, normalize: Normalize, difference: Rows) -> Rows:
    """With mean and deviation of the frames so far, which are summed up in double precision."""
    builder, emit, size = b.builder, b.emit, difference.size
    out = b.allocate(difference.count, size)
    sums = [b.workspace.reserve(0, 8 * size) for _ in range(2)]
    prior = b.constant(normalize.prior * array(normalize.deviation).astype(np.float64) ** 2, np.float64)
    with emit.loop(0, size) as column:
        for table in sums:
            b.store_double(DOUBLE(0.0), table, column)
    with emit.loop(0, difference.count.value) as row:
        frames = builder.sitofp(builder.add(row, integer(1)), DOUBLE)
        weight = builder.fadd(frames, DOUBLE(normalize.prior))
        with emit.loop(0, size) as column:
            value = emit.load_scalar(emit.address(b.row_address(difference, row), column))
            exact = builder.fpext(value, DOUBLE)
            added = builder.fadd(b.load_double(sums[0], column), exact)
            squares = builder.fadd(b.load_double(sums[1], column), builder.fmul(exact, exact))
            b.store_double(added, sums[0], column)
            b.store_double(squares, sums[1], column)
            centre = builder.fdiv(added, weight)
            variance = builder.fdiv(builder.fadd(squares, b.load_double(prior, column)), weight)
            variance = builder.fsub(variance, builder.fmul(centre, centre))
            is_positive = builder.fcmp_ordered(">", variance, DOUBLE(0.0))
            variance = builder.fadd(builder.select(is_positive, variance, DOUBLE(0.0)), DOUBLE(MIN_DEVIATION**2))
            shifted = builder.fptrunc(builder.fsub(exact, centre), emit.scalar)
            root = emit.intrinsic("sqrt", emit.splat(builder.fptrunc(variance, emit.scalar)))
            result = builder.fdiv(emit.splat(shifted), root)
            builder.store(
                builder.extract_element(result, integer(0)), emit.address(b.row_address(out, row), column), align=4
            )
    return out


def _reduced(b: ModelBuilder, reduction: TimeReduction, x: Rows) -> Rows:
    """Every ``factor`` elements as one; zeros fill up the last group, which a maximum ignores."""
    factor, size = reduction.factor, reduction.input_size
    builder = b.builder
    steps = builder.udiv(builder.add(x.count.value, integer(factor - 1)), integer(factor))
    count = Count(steps, Fraction(x.count.per_element) / factor, x.count.constant)
    room = Count(builder.mul(steps, integer(factor)), x.count.per_element, x.count.constant + factor)
    padded = b.allocate(room, size, compact=True)
    b.copy(x, Rows(padded.address, x.count, size, size))
    missing = Count(builder.sub(room.value, x.count.value), 0, factor)
    filled = -float("inf") if reduction.method == "max" else 0.0
    b.fill(Rows(b.row_address(padded, x.count.value), missing, size, size), filled)
    groups = Rows(padded.address, count, factor * size, factor * size)
    if reduction.linear is not None:
        linear = reduction.linear
        zero = b.emit.splat(0.0)
        return b.linear(
            groups, array(linear.weight), array(linear.bias), lambda value: vector_math.at_least(b.emit, value, zero)
        )
    if reduction.method == "pyramid":
        return groups
    best = b.columns(groups, 0, size)
    for index in range(1, factor):
        other = b.columns(groups, index * size, size)
        best = b.map(lambda left, right: vector_math.maximum(b.emit, left, right), best, other)
    return best
