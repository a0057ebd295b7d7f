"""Convolutions over time and frequency: one product for each frame, with a row for each band."""

import numpy as np

from seqloom.kernels.llvm import vector_math
from seqloom.kernels.llvm.ir_builder import Value, integer
from seqloom.layers.audio.spectral_convolution import EPSILON, WINDOW, RecordingNorm, SpectralConvolution
from seqloom.standalone.builder import Count, ModelBuilder, Rows
from seqloom.standalone.modules import State, array, compiles_layer, total
from seqloom.standalone.recurrent import with_neighbours


@compiles_layer(SpectralConvolution)
def emit_spectral_convolution(b: ModelBuilder, layer: SpectralConvolution, x: Rows, state: State) -> tuple[Rows, State]:
    padded, last = with_neighbours(b, x, state, reach=WINDOW - 1, causal=layer.causal)
    y = b.allocate(x.count, layer.channels * layer.bands)
    with b.emit.loop(0, x.count.value) as frame, b.workspace.temporary():
        _convolve(b, layer, padded, y, frame)
    if layer.norm is not None:
        y = _normalized(b, layer.norm, y, layer.bands)
    return _pooled(b, layer, y), (last,)


def _convolve(b: ModelBuilder, layer: SpectralConvolution, padded: Rows, y: Rows, frame: Value) -> None:
    """One frame: the windows of its bands overlap in memory, in the order band, frame, channel."""
    emit, builder = b.emit, b.builder
    channels, bands = layer.input_channels, layer.bands
    size = WINDOW * channels  # of all values of a band
    around = Count(integer(bands + 2), 0, bands + 2)
    gathered = b.allocate(around, size, compact=True)
    b.fill(gathered, 0.0)
    with emit.loop(0, WINDOW) as step, emit.loop(0, channels) as channel:
        source = b.row_address(padded, builder.add(frame, step))
        source = emit.advance(source, builder.mul(channel, integer(bands)))
        place = builder.add(builder.mul(step, integer(channels)), channel)
        with emit.loop(0, bands) as band:
            value = emit.load_scalar(emit.address(source, band))
            target = b.row_address(gathered, builder.add(band, integer(1)))
            builder.store(value, emit.address(target, place), align=4)
    windows = Rows(gathered.address, Count(integer(bands), 0, bands), WINDOW * size, size)
    weight = array(layer.convolution.weight).transpose(0, 3, 2, 1).reshape(layer.channels, -1)
    bias = layer.convolution.bias
    product = b.linear(windows, np.ascontiguousarray(weight), None if bias is None else array(bias))
    with emit.loop(0, bands) as band, emit.loop(0, layer.channels) as channel:
        value = emit.load_scalar(emit.address(b.row_address(product, band), channel))
        place = builder.add(builder.mul(channel, integer(bands)), band)
        builder.store(value, emit.address(b.row_address(y, frame), place), align=4)


def _normalized(b: ModelBuilder, norm: RecordingNorm, y: Rows, bands: int) -> Rows:
    """Group normalisation over the frames of the recording."""
    builder, emit = b.builder, b.emit
    size = y.size // norm.groups
    frames = emit.splat(builder.sitofp(y.count.value, emit.scalar))
    frames = vector_math.at_least(emit, frames, emit.splat(1.0))
    count = builder.fmul(frames, emit.splat(float(size)))

    def mean(rows: Rows) -> Rows:
        """The mean of each group, for each of its values."""
        sums = b.reduce(lambda so_far, value, _row: builder.fadd(so_far, value), rows, 0.0)
        parts = []
        for group in range(norm.groups):
            part = b.columns(sums, group * size, size)
            average = builder.fdiv(total(b, part), count)
            parts.append(b.map(lambda _value, average=average: average, part))
        whole = b.concatenate(parts)
        return Rows(whole.address, y.count, y.size, 0)

    centred = b.map(builder.fsub, y, mean(y))
    variance = mean(b.map(builder.fmul, centred, centred))
    weight, bias = (b.constant_rows(np.repeat(array(part), bands), y.count) for part in (norm.weight, norm.bias))
    small = emit.splat(EPSILON)

    def scaled(value: Value, square: Value, factor: Value, shift: Value) -> Value:
        root = emit.intrinsic("sqrt", builder.fadd(square, small))
        return emit.intrinsic("fma", builder.fdiv(value, root), factor, shift)

    return b.map(scaled, centred, variance, weight, bias)


def _pooled(b: ModelBuilder, layer: SpectralConvolution, y: Rows) -> Rows:
    """relu and the maximum of pairs of bands; an odd last band is a pair of its own."""
    emit, builder = b.emit, b.builder
    bands, halves = layer.bands, layer.output_bands
    out = b.allocate(y.count, layer.output_size)
    zero = emit.scalar(0.0)
    with emit.loop(0, y.count.value) as row, emit.loop(0, layer.channels) as channel, emit.loop(0, halves) as half:
        source = emit.advance(b.row_address(y, row), builder.mul(channel, integer(bands)))
        low = builder.mul(half, integer(2))
        high = builder.add(low, integer(1))
        high = builder.select(builder.icmp_signed("<", high, integer(bands)), high, low)
        best = zero
        for place in (low, high):
            value = emit.load_scalar(emit.address(source, place))
            best = builder.select(builder.fcmp_ordered(">", value, best), value, best)
        target = builder.add(builder.mul(channel, integer(halves)), half)
        builder.store(best, emit.address(b.row_address(out, row), target), align=4)
    return out
