"""Elementary functions on vectors by polynomials; NaN propagates.

exp x = 2ⁿ exp r with n = round(x / ln 2) and |r| ≤ ½ ln 2, where the Taylor series is short.
"""

import math

from llvmlite import ir

from seqloom.kernels.llvm.ir_builder import Emitter, Value

LOG_2_REST = 2.3190468138462996e-17
"""ln 2 minus the double nearest to it."""


def _limits(emit: Emitter) -> tuple[float, float]:
    """The range in which exp is a normal number."""
    return (-87.0, 88.0) if emit.bits == 32 else (-708.0, 709.0)


def at_most(emit: Emitter, x: Value, bound: Value) -> Value:
    return emit.builder.select(emit.builder.fcmp_unordered("<", x, bound), x, bound)


def at_least(emit: Emitter, x: Value, bound: Value) -> Value:
    return emit.builder.select(emit.builder.fcmp_unordered(">", x, bound), x, bound)


def maximum(emit: Emitter, x: Value, y: Value) -> Value:
    return emit.intrinsic("maximum", x, y)


def minimum(emit: Emitter, x: Value, y: Value) -> Value:
    return emit.intrinsic("minimum", x, y)


def _clamp(emit: Emitter, x: Value, low: float, high: float) -> Value:
    return at_least(emit, at_most(emit, x, emit.splat(high)), emit.splat(low))


def _reduce(emit: Emitter, x: Value) -> tuple[Value, Value]:
    """exp r − 1 and n, for a clamped x."""
    builder = emit.builder
    single = emit.bits == 32
    # Adding this constant rounds to an integer and leaves n in the low bits.
    shift = emit.splat(1.5 * 2.0 ** (23 if single else 52))
    shifted = emit.intrinsic("fma", x, emit.splat(1 / math.log(2)), shift)
    n = builder.fsub(shifted, shift)
    # ln 2 in two parts (Cody-Waite); the first has so few bits that its product with n is exact.
    high = math.ldexp(round(math.ldexp(math.log(2), 15 if single else 32)), -15 if single else -32)
    low = math.log(2) - high + (0.0 if single else LOG_2_REST)
    r = emit.intrinsic("fma", n, emit.splat(-high), x)
    r = emit.intrinsic("fma", n, emit.splat(-low), r)
    degree = 7 if single else 13
    series = emit.splat(1 / math.factorial(degree))
    for power in range(degree - 1, 0, -1):
        series = emit.intrinsic("fma", series, r, emit.splat(1 / math.factorial(power)))
    whole = ir.VectorType(ir.IntType(emit.bits), emit.lanes)
    bits = builder.bitcast(shifted, whole)
    return builder.fmul(series, r), builder.sub(bits, builder.bitcast(shift, whole))


def _power(emit: Emitter, n: Value) -> Value:
    """2ⁿ for integers n, written into the exponent bits."""
    single = emit.bits == 32
    bias = ir.Constant(n.type, [127 if single else 1023] * emit.lanes)
    mantissa_bits = ir.Constant(n.type, [23 if single else 52] * emit.lanes)
    return emit.builder.bitcast(emit.builder.shl(emit.builder.add(n, bias), mantissa_bits), emit.vector)


def exp(emit: Emitter, x: Value) -> Value:
    """2ⁿ exp r, with 2ⁿ as two factors, so that it overflows to infinity and underflows gradually to zero."""
    builder = emit.builder
    low, high = (-104.0, 89.0) if emit.bits == 32 else (-746.0, 710.0)
    small, n = _reduce(emit, _clamp(emit, x, low, high))
    half = builder.ashr(n, ir.Constant(n.type, [1] * emit.lanes))
    value = builder.fmul(builder.fadd(small, emit.splat(1.0)), _power(emit, half))
    return builder.fmul(value, _power(emit, builder.sub(n, half)))


def expm1(emit: Emitter, x: Value) -> Value:
    builder = emit.builder
    one = emit.splat(1.0)
    small, n = _reduce(emit, _clamp(emit, x, _limits(emit)[0], 2.0))
    scale = _power(emit, n)
    near = emit.intrinsic("fma", small, scale, builder.fsub(scale, one))
    far = builder.fsub(exp(emit, x), one)
    return builder.select(builder.fcmp_ordered(">", x, one), far, near)


def sigmoid(emit: Emitter, x: Value) -> Value:
    """1 / (1 + exp −x)."""
    low, high = _limits(emit)
    one = emit.splat(1.0)
    small, n = _reduce(emit, _clamp(emit, emit.builder.fneg(x), low, high))
    scale = _power(emit, n)
    return emit.builder.fdiv(one, emit.builder.fadd(one, emit.intrinsic("fma", small, scale, scale)))


def tanh(emit: Emitter, x: Value) -> Value:
    """t / (t + 2) with t = exp 2x − 1, accurate near zero, too."""
    builder = emit.builder
    bound = 20.0 if emit.bits == 32 else 40.0
    small, n = _reduce(emit, _clamp(emit, builder.fadd(x, x), -bound, bound))
    scale = _power(emit, n)
    t = emit.intrinsic("fma", small, scale, builder.fsub(scale, emit.splat(1.0)))
    return builder.fdiv(t, builder.fadd(t, emit.splat(2.0)))


def log(emit: Emitter, x: Value) -> Value:
    """log x = n ln 2 + 2 artanh((m − 1) / (m + 1)) with x = 2ⁿ m and √½ ≤ m < √2."""
    builder = emit.builder
    single = emit.bits == 32
    mantissa = 23 if single else 52
    whole = ir.VectorType(ir.IntType(emit.bits), emit.lanes)

    def constant(value: int) -> ir.Constant:
        return ir.Constant(whole, [value] * emit.lanes)

    half = 0x3F3504F3 if single else 0x3FE6A09E667F3BCD  # bits of √½
    bits = builder.bitcast(x, whole)
    n = builder.ashr(builder.sub(bits, constant(half)), constant(mantissa))
    rest = builder.sub(bits, builder.shl(n, constant(mantissa)))
    m = builder.bitcast(rest, emit.vector)
    s = builder.fdiv(builder.fsub(m, emit.splat(1.0)), builder.fadd(m, emit.splat(1.0)))
    square = builder.fmul(s, s)
    terms = 5 if single else 11
    series = emit.splat(2.0 / (2 * terms - 1))
    for index in range(terms - 2, -1, -1):
        series = emit.intrinsic("fma", series, square, emit.splat(2.0 / (2 * index + 1)))
    exponent = builder.sitofp(n, emit.vector)
    value = emit.intrinsic("fma", exponent, emit.splat(math.log(2)), builder.fmul(s, series))
    value = builder.select(builder.fcmp_ordered("==", x, emit.splat(0.0)), emit.splat(-math.inf), value)
    value = builder.select(builder.fcmp_ordered("==", x, emit.splat(math.inf)), emit.splat(math.inf), value)
    invalid = builder.fcmp_unordered("<", x, emit.splat(0.0))
    return builder.select(invalid, emit.splat(math.nan), value)


def sin(emit: Emitter, x: Value) -> Value:
    return _wave(emit, x, 0)


def cos(emit: Emitter, x: Value) -> Value:
    """sin(x + π/2)."""
    return _wave(emit, x, 1)


def _wave(emit: Emitter, x: Value, quarter: int) -> Value:
    """sin(x + quarter · π/2) = ± sin r or ± cos r with n = round(x / (π/2)) and |r| ≤ π/4, by their Taylor series.

    Accurate to rounding for |x| < 10⁵; the error grows beyond, the value stays in [−1, 1].
    """
    builder = emit.builder
    single = emit.bits == 32
    bound = 2.0 ** (22 if single else 50)
    limited = _clamp(emit, x, -bound, bound)
    # Adding this constant rounds to an integer and leaves n in the low bits.
    shift = emit.splat(1.5 * 2.0 ** (23 if single else 52))
    shifted = emit.intrinsic("fma", limited, emit.splat(2 / math.pi), shift)
    n = builder.fsub(shifted, shift)
    r = limited
    for part in HALF_PI[emit.bits]:
        r = emit.intrinsic("fma", n, emit.splat(-part), r)
    square = builder.fmul(r, r)
    degree = 9 if single else 17
    sine, cosine = (
        _even_series(
            emit, square, [(-1) ** index / math.factorial(2 * index + odd) for index in range(degree // 2 + 1)]
        )
        for odd in (1, 0)
    )
    whole = ir.VectorType(ir.IntType(emit.bits), emit.lanes)

    def constant(value: int) -> ir.Constant:
        return ir.Constant(whole, [value] * emit.lanes)

    turns = builder.add(builder.bitcast(shifted, whole), constant(quarter))
    is_odd = builder.icmp_signed("!=", builder.and_(turns, constant(1)), constant(0))
    is_negative = builder.icmp_signed("!=", builder.and_(turns, constant(2)), constant(0))
    value = builder.select(is_odd, cosine, builder.fmul(sine, r))
    value = _clamp(emit, builder.select(is_negative, builder.fneg(value), value), -1.0, 1.0)
    # Infinity, which was limited, has no sine.
    return builder.select(
        builder.fcmp_ordered("==", emit.intrinsic("fabs", x), emit.splat(math.inf)), emit.splat(math.nan), value
    )


def _even_series(emit: Emitter, square: Value, coefficients: list[float]) -> Value:
    """Σ coefficient · squareᵏ by Horner's rule."""
    *lower, highest = coefficients
    series = emit.splat(highest)
    for coefficient in reversed(lower):
        series = emit.intrinsic("fma", series, square, emit.splat(coefficient))
    return series


HALF_PI = {
    32: (1.5703125, 4.837512969970703e-04, 7.549789954891882e-08),
    64: (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21),
}
"""π/2 in three parts (Cody-Waite); the first two have so few bits that their products with n are exact."""


def erf(emit: Emitter, x: Value) -> Value:
    """The power series for |x| < ½, else 1 − erfc |x| with the sign of x."""
    builder = emit.builder
    square = builder.fmul(x, x)
    count = 8 if emit.bits == 32 else 14
    coefficients = [
        2 / math.sqrt(math.pi) * (-1) ** index / (math.factorial(index) * (2 * index + 1)) for index in range(count)
    ]
    near = builder.fmul(x, _even_series(emit, square, coefficients))
    size = emit.intrinsic("fabs", x)
    far = builder.fsub(emit.splat(1.0), erfc(emit, size))
    far = builder.select(builder.fcmp_ordered("<", x, emit.splat(0.0)), builder.fneg(far), far)
    return builder.select(builder.fcmp_unordered("<", size, emit.splat(0.5)), near, far)


def erfc(emit: Emitter, x: Value) -> Value:
    """1 − erf x of x ≥ 0, as exp −x² · p(t) / (1 + 2x) with t = (x − k) / (x + k) (Shepherd & Laframboise 1981)."""
    builder = emit.builder
    x = at_most(emit, x, emit.splat(10.5 if emit.bits == 32 else 27.5))  # erfc underflows beyond
    k = emit.splat(_CENTRE)
    t = builder.fdiv(builder.fsub(x, k), builder.fadd(x, k))
    twice = builder.fadd(t, t)
    following, value = emit.splat(0.0), emit.splat(0.0)
    first, *others = _chebyshev(12 if emit.bits == 32 else 26)
    for coefficient in reversed(others):  # Clenshaw's recurrence
        step = emit.intrinsic("fma", twice, value, builder.fsub(emit.splat(coefficient), following))
        following, value = value, step
    series = emit.intrinsic("fma", t, value, builder.fsub(emit.splat(first), following))
    square = builder.fmul(x, x)
    rest = emit.intrinsic("fma", x, x, builder.fneg(square))  # rounding error of the square
    gaussian = exp(emit, builder.fneg(square))
    gaussian = emit.intrinsic("fma", gaussian, builder.fneg(rest), gaussian)
    return builder.fdiv(builder.fmul(gaussian, series), builder.fadd(emit.splat(1.0), builder.fadd(x, x)))


_CENTRE = 3.75


def _chebyshev(count: int) -> list[float]:
    """Coefficients of exp x² · erfc x · (1 + 2x) in Chebyshev polynomials of t."""
    nodes = 64
    angles = [math.pi * (node + 0.5) / nodes for node in range(nodes)]
    values = [_scaled_erfc(_CENTRE * (1 + math.cos(angle)) / (1 - math.cos(angle))) for angle in angles]
    coefficients = [
        2 / nodes * math.fsum(value * math.cos(order * angle) for value, angle in zip(values, angles, strict=True))
        for order in range(count)
    ]
    return [coefficients[0] / 2, *coefficients[1:]]


def _scaled_erfc(x: float) -> float:
    """exp x² · erfc x · (1 + 2x); by Laplace's continued fraction for large x."""
    if x < 2:
        return math.exp(x * x) * math.erfc(x) * (1 + 2 * x)
    fraction = x
    for level in range(300, 0, -1):
        fraction = x + level / 2 / fraction
    return (1 + 2 * x) / math.sqrt(math.pi) / fraction
