"""Sound as frames: silence trimmed, and the spectrum computed from samples in double precision."""

import math
from fractions import Fraction

import numpy as np
import torch
from llvmlite import ir

from seqloom.kernels.llvm import vector_math
from seqloom.kernels.llvm.ir_builder import Value, integer
from seqloom.layers.audio.spectrum import DELTA_REACH, MIN_ENERGY, Spectrum
from seqloom.layers.audio.trim import SILENCE, TrimSilence
from seqloom.standalone.builder import DOUBLE, FLOAT_BYTES, Count, ModelBuilder, Rows, pointer
from seqloom.standalone.modules import array, highest, unsupported

FLOAT = ir.FloatType()


def read_sound(b: ModelBuilder, samples: Value, spectrum: Spectrum, trim: TrimSilence | None) -> Rows:
    """The frames of all samples of the input, or of those that are not silence at its ends."""
    if spectrum.centre:
        raise unsupported("a centred spectrum")
    length: Value = b.length.value
    if trim is not None:
        start, length = _trimmed(b, trim, samples)
        samples = b.builder.add(samples, b.builder.mul(start, integer(FLOAT_BYTES)))
    return _with_deltas(b, spectrum, _features(b, spectrum, _energies(b, spectrum, samples, length)))


def _trimmed(b: ModelBuilder, trim: TrimSilence, samples: Value) -> tuple[Value, Value]:
    """The first sample that is kept, and the number of those that are."""
    builder, emit, length = b.builder, b.emit, b.length.value
    block = integer(trim.block)
    blocks = builder.udiv(builder.add(length, integer(trim.block - 1)), block)
    energies = b.workspace.reserve(Fraction(8, trim.block), 8)
    with emit.loop_carrying(0, blocks, 1, (DOUBLE(0.0),)) as (number, (loudest,), advance):
        first = builder.mul(number, block)
        end = _least(b, builder.add(first, block), length)
        with emit.loop_carrying(first, end, 1, (DOUBLE(SILENCE),)) as (place, (total,), add):
            sample = builder.fpext(_sample(b, samples, place), DOUBLE)
            energy = add(builder.fadd(total, builder.fmul(sample, sample)))
        b.store_double(energy[0], energies, number)
        is_louder = builder.fcmp_ordered(">", energy[0], loudest)
        top = advance(builder.select(is_louder, energy[0], loudest))
    threshold = builder.fmul(top[0], DOUBLE(trim.threshold))
    with emit.loop_carrying(0, blocks, 1, (blocks, integer(-1))) as (number, (first, last), advance):
        is_loud = builder.fcmp_ordered(">=", b.load_double(energies, number), threshold)
        is_first = builder.and_(is_loud, builder.icmp_signed("==", first, blocks))
        bounds = advance(builder.select(is_first, number, first), builder.select(is_loud, number, last))
    shortest, zero = integer(trim.shortest), integer(0)
    start = _least(b, builder.mul(bounds[0], block), _greatest(b, builder.sub(length, shortest), zero))
    stop = builder.mul(builder.add(bounds[1], integer(1)), block)
    stop = _least(b, _greatest(b, stop, builder.add(start, shortest)), length)
    return start, builder.sub(stop, start)


def _least(b: ModelBuilder, left: Value, right: Value) -> Value:
    return b.builder.select(b.builder.icmp_signed("<", left, right), left, right)


def _greatest(b: ModelBuilder, left: Value, right: Value) -> Value:
    return b.builder.select(b.builder.icmp_signed(">", left, right), left, right)


def _sample(b: ModelBuilder, samples: Value, place: Value) -> Value:
    return b.builder.load(pointer(b.builder, samples, place, FLOAT), align=4, typ=FLOAT)


def _energies(b: ModelBuilder, spectrum: Spectrum, samples: Value, length: Value) -> Rows:
    """The power spectrum of each frame."""
    builder, emit = b.builder, b.emit
    window, hop, size = spectrum.window, spectrum.hop, spectrum.n_fft
    frames = builder.add(builder.sdiv(builder.sub(length, integer(window)), integer(hop)), integer(1))
    frames = builder.select(builder.icmp_signed("<", length, integer(window)), integer(0), frames)
    out = b.allocate(Count(frames, Fraction(1, hop), 1), size // 2 + 1)
    bits = size.bit_length() - 1
    reversed_order = [int(f"{index:0{bits}b}"[::-1] or "0", 2) for index in range(size)]
    order = b.constant(reversed_order, np.int64)
    hann = b.constant(torch.hann_window(window, dtype=torch.float64).numpy(), np.float64)
    real, imaginary = (b.workspace.reserve(0, 8 * size) for _ in range(2))
    with emit.loop(0, frames) as frame:
        start = builder.mul(frame, integer(hop))
        with emit.loop(0, size) as index:
            for table in (real, imaginary):
                b.store_double(DOUBLE(0.0), table, index)
        with emit.loop(0, window) as index:
            sample = builder.fpext(_emphasised(b, spectrum, samples, builder.add(start, index)), DOUBLE)
            weighted = builder.fmul(sample, b.load_double(hann, index))
            b.store_double(weighted, real, emit.load_integer(order, index))
        _transform(b, real, imaginary, size)
        with emit.loop(0, size // 2 + 1) as index:
            squares = [builder.fmul(part, part) for part in (b.load_double(t, index) for t in (real, imaginary))]
            energy = builder.fptrunc(builder.fadd(*squares), FLOAT)
            builder.store(energy, emit.address(b.row_address(out, frame), index), align=4)
    return out


def _emphasised(b: ModelBuilder, spectrum: Spectrum, samples: Value, place: Value) -> Value:
    """A sample, less a share of the one before it."""
    builder = b.builder
    sample = _sample(b, samples, place)
    if not spectrum.preemphasis:
        return sample
    is_first = builder.icmp_signed("==", place, integer(0))
    earlier = builder.select(is_first, integer(0), builder.sub(place, integer(1)))
    before = builder.select(is_first, FLOAT(0.0), _sample(b, samples, earlier))
    return builder.fsub(sample, builder.fmul(before, FLOAT(spectrum.preemphasis)))


def _transform(b: ModelBuilder, real: Value, imaginary: Value, size: int) -> None:
    """The discrete Fourier transform of complex numbers in bit-reversed order, in place (Cooley & Tukey 1965)."""
    builder, emit = b.builder, b.emit
    angles = -2 * np.pi * np.arange(size // 2) / size
    cosines, sines = (b.constant(function(angles), np.float64) for function in (np.cos, np.sin))
    half = 1
    while half < size:
        step = integer(size // (2 * half))
        with emit.loop(0, size, 2 * half) as block, emit.loop(0, half) as index:
            angle = builder.mul(index, step)
            low = builder.add(block, index)
            high = builder.add(low, integer(half))
            cosine, sine = (b.load_double(table, angle) for table in (cosines, sines))
            x, y = (b.load_double(table, high) for table in (real, imaginary))
            turned = (
                builder.fsub(builder.fmul(cosine, x), builder.fmul(sine, y)),
                builder.fadd(builder.fmul(cosine, y), builder.fmul(sine, x)),
            )
            for table, change in zip((real, imaginary), turned, strict=True):
                value = b.load_double(table, low)
                b.store_double(builder.fsub(value, change), table, high)
                b.store_double(builder.fadd(value, change), table, low)
        half *= 2


def _features(b: ModelBuilder, spectrum: Spectrum, energies: Rows) -> Rows:
    """The logarithms of the energies in each filter, or their cepstrum."""
    emit, builder = b.emit, b.builder
    least = emit.splat(MIN_ENERGY)

    def logarithm(value: Value) -> Value:
        return vector_math.log(emit, vector_math.maximum(emit, value, least))

    frames = b.linear(energies, array(spectrum.filters).T, None, logarithm)
    if spectrum.top_db:
        largest = b.reduce(lambda so_far, value, _row: vector_math.maximum(emit, so_far, value), frames, -math.inf)
        top = highest(b, largest.address, integer(largest.size))
        lowest = builder.fsub(top, emit.splat(spectrum.top_db * math.log(10) / 10))
        frames = b.map(lambda value: vector_math.maximum(emit, value, lowest), frames)
    return frames if spectrum.kind == "log_mel" else b.linear(frames, array(spectrum.cosines).T, None)


def _with_deltas(b: ModelBuilder, spectrum: Spectrum, frames: Rows) -> Rows:
    """Append the slopes; the first frame is repeated before the start."""
    if not spectrum.deltas:
        return frames
    width = 2 * DELTA_REACH
    before = width * spectrum.deltas
    slopes = b.allocate(_more(b, frames.count, before), frames.size)
    repeated = Count(integer(before), 0, before)
    b.copy(Rows(frames.address, repeated, frames.size, 0), Rows(slopes.address, repeated, frames.size, slopes.stride))
    b.copy(frames, Rows(b.row_address(slopes, before), frames.count, frames.size, slopes.stride))
    parts = [frames]
    for order in range(1, spectrum.deltas + 1):
        rest = width * (spectrum.deltas - order)
        slopes = _slope(b, slopes, _more(b, frames.count, rest))
        parts.append(Rows(b.row_address(slopes, rest), frames.count, frames.size, slopes.stride))
    return b.concatenate(parts)


def _more(b: ModelBuilder, count: Count, rows: int) -> Count:
    return Count(b.builder.add(count.value, integer(rows)), count.per_element, count.constant + rows)


def _slope(b: ModelBuilder, x: Rows, count: Count) -> Rows:
    """Σ step · frame / squares over the neighbours of each frame."""
    builder, emit = b.builder, b.emit
    squares = 2 * sum(step * step for step in range(1, DELTA_REACH + 1))
    steps = [step for step in range(-DELTA_REACH, DELTA_REACH + 1) if step]
    inputs = [Rows(b.row_address(x, step + DELTA_REACH), count, x.size, x.stride) for step in steps]

    def line(*values: Value) -> Value:
        terms = [builder.fmul(value, emit.splat(step / squares)) for value, step in zip(values, steps, strict=True)]
        total, *others = terms
        for term in others:
            total = builder.fadd(total, term)
        return total

    return b.map(line, *inputs)
