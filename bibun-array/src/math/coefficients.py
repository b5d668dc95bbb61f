"""Writes coefficients.rs: every approximation of bibun_array::math, fitted here from its definition.

    python3 coefficients.py > coefficients.rs && rustfmt coefficients.rs

A polynomial is the interpolant at Chebyshev nodes (Trefethen, "Approximation Theory and Approximation
Practice", chapter 4: within a small factor of the minimax one), computed with 60 digits and rounded once.
Its largest error over the interval, after rounding, is printed beside it. Needs mpmath.
"""

import struct
from mpmath import mp, mpf, cos, pi, sqrt, exp, log, atan, asin, erf, erfc, erfinv, loggamma, sin, bernoulli, floor

mp.dps = 60


def double(x):
    return float(x)


def single(x):
    return struct.unpack("f", struct.pack("f", float(x)))[0]


def literal(x, kind):
    if kind == "f64":
        return repr(x)
    for digits in range(1, 12):  # the shortest decimal that reads back as this single
        text = f"{x:.{digits}g}"
        if single(float(text)) == x:
            return repr(float(text))
    raise AssertionError(x)


def interpolant(function, low, high, degree):
    low, high = mpf(low), mpf(high)
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(pi * (2 * k + 1) / (2 * degree + 2)) for k in range(degree + 1)]
    values = [function(x) for x in nodes]
    divided = list(values)
    for order in range(1, degree + 1):
        for k in range(degree, order - 1, -1):
            divided[k] = (divided[k] - divided[k - 1]) / (nodes[k] - nodes[k - order])
    coefficients = [mpf(0)] * (degree + 1)
    for k in range(degree, -1, -1):  # Newton form to powers of x
        shifted = [mpf(0)] + coefficients[:-1]
        coefficients = [s - nodes[k] * c for s, c in zip(shifted, coefficients)]
        coefficients[0] += divided[k]
    return coefficients


def polynomial(name, comment, function, low, high, degrees):
    for kind, degree in degrees.items():
        rounding = double if kind == "f64" else single
        coefficients = [rounding(c) for c in interpolant(function, low, high, degree)]
        error = max(
            abs(mp.polyval([mpf(c) for c in reversed(coefficients)], x) - function(x))
            for x in (mpf(low) + (mpf(high) - mpf(low)) * (k + mpf(1) / 2) / 200 for k in range(200))
        )
        print(f"/// {comment};\n/// error {mp.nstr(error, 2)}.")
        values = ", ".join(literal(c, kind) for c in coefficients)
        print(f"pub(super) const {name}_{kind.upper()}: &[{kind}] = &[{values}];\n")


def tail(x, first, function):
    """function(x) without the cancellation of its own first terms."""
    return function(x) if abs(x) > mpf(10) ** -20 else first


print("//! Polynomial coefficients and tables, written by `coefficients.py` beside this file.\n")

R = mpf("0.34658")
polynomial("EXP", "`(e^r - 1 - r) / r^2` for `|r| <= ln 2 / 2`",
           lambda r: tail(r, mpf(1) / 2, lambda r: (exp(r) - 1 - r) / r**2), -R, R, {"f64": 10, "f32": 4})
polynomial("EXP_BRIEF", "the same, exact enough for an f32",
           lambda r: tail(r, mpf(1) / 2, lambda r: (exp(r) - 1 - r) / r**2), -R, R, {"f64": 4})
L = log(mpf(2))
polynomial("EXP2", "`(2^r - 1 - r ln 2) / r^2` for `|r| <= 1/2`",
           lambda r: tail(r, L**2 / 2, lambda r: (mpf(2) ** r - 1 - r * L) / r**2), -0.5, 0.5, {"f64": 10, "f32": 5})
Z = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1)) ** 2 * mpf("1.0001")
polynomial("LN", "`(ln((1 + s) / (1 - s)) - 2 s) / s^3` in powers of `s^2` for `|s| <= 0.1716`",
           lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) - 2 * sqrt(z)) / sqrt(z) ** 3, 0, Z, {"f64": 7})
polynomial("LN_REST", "`(ln((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5` in powers of `s^2`",
           lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) - 2 * sqrt(z) - 2 * sqrt(z) ** 3 / 3) / sqrt(z) ** 5, 0, Z,
           {"f64": 7})
F = [sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1]
for name, degrees in ("LN", {"f32": 8}), ("LN_BRIEF", {"f64": 10}):
    polynomial(name, "`(ln(1 + f) - f + f^2 / 2) / f^3` for `sqrt(1/2) <= 1 + f <= sqrt(2)`",
               lambda f: tail(f, mpf(1) / 3, lambda f: (log(1 + f) - f + f**2 / 2) / f**3), *F, degrees)
polynomial("LN_1P", "`(ln(1 + x) - x) / x^2` for `0 <= x <= 1`",
           lambda x: tail(x, -mpf(1) / 2, lambda x: (log(1 + x) - x) / x**2), 0, 1, {"f32": 8})
Q = (pi / 4) ** 2 * mpf("1.001")
polynomial("SIN", "`(sin(r) - r) / r^3` in powers of `r^2` for `|r| <= pi / 4`",
           lambda z: (sin(sqrt(z)) - sqrt(z)) / sqrt(z) ** 3, 0, Q, {"f64": 6, "f32": 3})
polynomial("COS", "`(cos(r) - 1 + r^2 / 2) / r^4` in powers of `r^2` for `|r| <= pi / 4`",
           lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, 0, Q, {"f64": 6, "f32": 2})
polynomial("ASIN", "`(asin(s) - s) / s^3` in powers of `s^2` for `|s| <= 1/2`",
           lambda z: (asin(sqrt(z)) - sqrt(z)) / sqrt(z) ** 3, 0, 0.25, {"f64": 12, "f32": 5})
polynomial("ATAN", "`(atan(s) - s) / s^3` in powers of `s^2` for `|s| <= tan(pi / 8)`",
           lambda z: (atan(sqrt(z)) - sqrt(z)) / sqrt(z) ** 3, 0, (sqrt(mpf(2)) - 1) ** 2 * mpf("1.0001"),
           {"f64": 11, "f32": 5})
polynomial("CBRT", "`m^(1/3)` for `sqrt(1/2) <= m <= sqrt(2)`", lambda m: mp.cbrt(m), sqrt(mpf(1) / 2), sqrt(mpf(2)),
           {"f64": 5, "f32": 4})
polynomial("ERF", "`erf(x) / x - 1` in powers of `x^2` for `|x| <= 1`",
           lambda z: erf(sqrt(z)) / sqrt(z) - 1, 0, mpf("1.0001"), {"f64": 11})
polynomial("ERF_CENTRE", "`erf(x) / x - 1` in powers of `x^2 - 1.8125` for `|x| <= 1.65`",
           lambda u: tail(u + mpf("1.8125"), 2 / sqrt(pi) - 1, lambda z: erf(sqrt(z)) / sqrt(z) - 1),
           -mpf("1.8125"), mpf("1.65") ** 2 - mpf("1.8125"), {"f32": 8})
polynomial("ERF_TAIL", "`erf(x) - 1` in powers of `x - 2.75` for `1.65 <= x <= 3.92`",
           lambda u: erf(u + mpf("2.75")) - 1, mpf("1.65") - mpf("2.75"), mpf("3.92") - mpf("2.75"), {"f32": 10})

polynomial("TANH", "`(tanh(x) - x) / x^3` in powers of `x^2` for `|x| <= 5/8`",
           lambda z: (mp.tanh(sqrt(z)) / sqrt(z) - 1) / z, 0, mpf("0.3907"), {"f32": 4})


def quotient(name, comment, function, low, high, degrees):
    """Numerator and denominator of a quotient of polynomials, with weights that make all of its errors alike."""
    count, K = 160, mpf(2)  # Chebyshev nodes of (x - K) / (x + K), which are denser near 0
    low, high = [(mpf(x) - K) / (mpf(x) + K) for x in (low, high)]
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    xs = [K * (1 + t) / (1 - t) for t in nodes]
    values = [function(x) for x in xs]
    above, below = degrees
    divisors, weights, best = [mpf(1)] * count, [mpf(1)] * count, None
    for _ in range(12):
        rows, right = mp.matrix(count, above + 1 + below), mp.matrix(count, 1)
        for i, (x, y) in enumerate(zip(xs, values)):
            scale = weights[i] / (y * divisors[i])
            for j in range(above + 1):
                rows[i, j] = scale * x**j
            for j in range(1, below + 1):
                rows[i, above + j] = -scale * y * x**j
            right[i] = scale * y
        solution, _ = mp.qr_solve(rows, right)
        numerator = [solution[j] for j in range(above + 1)]
        denominator = [mpf(1)] + [solution[above + j] for j in range(1, below + 1)]
        divisors = [mp.polyval(denominator[::-1], x) for x in xs]
        errors = [abs(mp.polyval(numerator[::-1], x) / d / y - 1) for x, y, d in zip(xs, values, divisors)]
        if best is None or max(errors) < best[0]:
            best = max(errors), numerator, denominator
        weights = [w * (mpf("0.2") + e / max(errors)) for w, e in zip(weights, errors)]
    parts = [[single(c) for c in part] for part in best[1:]]
    value = lambda x: mp.polyval(parts[0][::-1], x) / mp.polyval(parts[1][::-1], x)
    error = max(abs(value(x) / y - 1) for x, y in zip(xs, values))
    print(f"/// {comment};\n/// relative error {mp.nstr(error, 2)}.")
    lists = ", ".join("&[" + ", ".join(literal(c, "f32") for c in part) + "]" for part in parts)
    print(f"pub(super) const {name}_F32: (&[f32], &[f32]) = ({lists});\n")


def erfcx(x):
    if x < 15:
        return exp(x * x) * erfc(x)
    return sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(10)) / (x * sqrt(pi))


def scaled_erfc(K):
    def function(t):  # t = (x - K) / (x + K)
        x = K * (1 + t) / (1 - t)
        if x > 400:
            series = sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(8))
            return (x + K) / (x * sqrt(pi)) * series
        return (x + K) * exp(x * x) * erfc(x)
    return function


def t_of(x, K):
    return (mpf(x) - K) / (mpf(x) + K)


K = mpf(3)
comment = "`(x + {0}) e^(x^2) erfc(x)` in powers of `t = (x - {0}) / (x + {0})` for `{1} <= x <= {2}`"
polynomial("ERFC", comment.format(3, 0.74, 29), scaled_erfc(K), t_of("0.74", K), t_of(29, K), {"f64": 20})
K = mpf(2)
polynomial("ERFC", comment.format(2, 0, 10.1), scaled_erfc(K), t_of(0, K), t_of("10.1", K), {"f32": 10})
quotient("NORMAL_TAIL", "`e^(x^2 / 2)` times the normal distribution of `-x` for `0 <= x <= 14.5`, as a quotient",
         lambda x: erfcx(x / sqrt(mpf(2))) / 2, 0, "14.5", (4, 5))


def erfinv_of_w(w):  # erfinv(x) / x where w = -ln(1 - x^2)
    if w < mpf(10) ** -30:
        return sqrt(pi) / 2
    x = sqrt(-mp.expm1(-w))
    small = exp(-w) / (1 + x)  # 1 - x without cancellation
    y = mpf(erfinv(float(x))) if small > mpf(10) ** -9 else sqrt(-log(small * sqrt(pi * w)))
    for _ in range(60):  # Newton on ln erfc, which is close to a parabola
        value = erfc(y)
        step = log(value / small) * value / (2 / sqrt(pi) * exp(-y * y))
        y += step
        if abs(step) < mpf(10) ** -50:
            break
    return y / x


polynomial("ERFINV_CENTRE", "`erfinv(x) / x` in powers of `w - 3`, `w = -ln(1 - x^2) <= 6.1`",
           lambda u: erfinv_of_w(u + 3), mpf(-3), mpf("3.1"), {"f64": 23, "f32": 11})
polynomial("ERFINV_MIDDLE", "`erfinv(x) / x` in powers of `sqrt(w) - 3.25`, `2.44 <= sqrt(w) <= 4.1`",
           lambda u: erfinv_of_w((u + mpf("3.25")) ** 2), mpf("-0.81"), mpf("0.85"), {"f64": 19, "f32": 9})
polynomial("ERFINV_TAIL", "`erfinv(x) / x` in powers of `sqrt(w) - 5`, `4 <= sqrt(w) <= 6.1`",
           lambda u: erfinv_of_w((u + 5) ** 2), mpf("-1.01"), mpf("1.1"), {"f64": 18})


def lgamma_quotient(t):
    if t in (0, 1):
        raise AssertionError
    return loggamma(1 + t) / (t * (t - 1))


polynomial("LGAMMA", "`ln gamma(1.5 + u) / (u^2 - 1/4)` for `|u| <= 1/2`",
           lambda u: lgamma_quotient(u + mpf(1) / 2), mpf(-1) / 2, mpf(1) / 2, {"f64": 21})

stirling = [bernoulli(2 * k) / (2 * k * (2 * k - 1)) for k in range(1, 11)]
print("/// Stirling's series of `ln gamma`: `B(2k) / (2k (2k - 1))`.")
print(f"pub(super) const STIRLING: &[f64] = &[{', '.join(repr(double(c)) for c in stirling)}];\n")
asymptotic = [bernoulli(2 * k) / (2 * k) for k in range(1, 11)]
print("/// The asymptotic series of digamma: `B(2k) / (2k)`.")
print(f"pub(super) const DIGAMMA: &[f64] = &[{', '.join(repr(double(c)) for c in asymptotic)}];\n")

mp.dps = 500
rest, parts = 2 / pi, []
for _ in range(3):
    parts.append(double(rest))
    rest -= mpf(parts[-1])
print("/// `2 / pi` as a sum of three.")
first, *others = parts
assert first == 0.6366197723675814
print(f"pub(super) const FRAC_2_PI: [f64; 3] = [std::f64::consts::FRAC_2_PI, {others[0]}, {others[1]}];\n")

fraction = int(mp.nint(mpf(2) ** 1216 * 2 / pi))
limbs = [0] + [(fraction >> (1216 - 64 * k)) & (2**64 - 1) for k in range(1, 20)]
print("/// 64 zeros, and the bits of `2 / pi` behind its binary point.")
print(f"pub(super) const FRAC_2_PI_BITS: [u64; 20] = [{', '.join(map(hex, limbs))}];\n")

rows = []
for band in range(4):
    value = mpf(2) ** (26 * band) * 2 / pi
    value -= 4 * mp.nint(value / 4)
    high = mp.nint(value * 2**27) / 2**27
    middle = mp.nint((value - high) * 2**56) / 2**56
    rows.append((double(high), double(middle), double(value - high - middle)))
print("/// `2^(26 k) 2 / pi` modulo 4 for `k` in 0..4: a multiple of `2^-27`, one of `2^-56` and the rest.")
print(f"pub(super) const FRAC_2_PI_ROWS: [(f64, f64, f64); 4] = [{', '.join(map(repr, rows))}];")
