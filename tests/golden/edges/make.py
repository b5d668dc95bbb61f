"""Writes edges.txt: values and derivatives of the elementwise functions where numbers end.

    python3 make.py > edges.txt

A line holds a function, the precision its arguments are numbers of, the arguments, and behind `=` the
value, then all first derivatives, then all second ones (of two arguments: aa, ab, bb), each as the
nearest f64. At infinities these are limits; at the ends of a domain, limits from inside; at kinks, the
documented convention. `?` stands where there is nothing to compare: derivatives outside of a domain,
limits that do not exist. Needs mpmath.
"""

import struct
from mpmath import inf, isnan, mp, mpf, nan

mp.dps = 1200
FAR = mpf(10) ** 2000  # in the place of infinity
NEAR = mpf(10) ** -2000  # how far from a singular zero limits are taken
INSIDE = mpf(10) ** -1000  # and from another end of a domain
UNKNOWN = "?"


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]


MODERATE = [0.5, 1.0, 3.0, 20.0, 100.0]
MAGNITUDES = {
    "f32": [1e-45, 1e-40, 1e-30, *MODERATE, 1e30, 3.4028234663852886e38],
    "f64": [5e-324, 1e-310, 1e-300, 1e-30, *MODERATE, 1e30, 1e300, 1.7976931348623157e308],
}


def numbers(precision, magnitudes):
    magnitudes = [single(x) if precision == "f32" else x for x in magnitudes]
    return [0.0, -0.0] + [s * x for x in magnitudes + [float("inf")] for s in (1, -1)] + [float("nan")]


def text(x):
    """The nearest f64, subnormal ones too."""
    if x is UNKNOWN:
        return UNKNOWN
    x = mpf(x)
    if isnan(x):
        return "NaN"
    if abs(x) >= mpf(2) ** 1024 - mpf(2) ** 970:
        return "inf" if x > 0 else "-inf"
    if abs(x) < mpf(2) ** -1080:
        return "0.0"
    if abs(x) < mpf(2) ** -1021:
        return repr(int(mp.nint(x * mpf(2) ** 1074)) * 5e-324)
    return repr(float(x))


# ----- functions of one argument: derivatives by differences with many digits

def decay(x):
    """e^-|x|, and 0 where that is below 10^-400000."""
    return mp.exp(-abs(x)) if abs(x) < 10**6 else mpf(0)


def sigmoid(x):
    return (1 if x > 0 else decay(x)) / (1 + decay(x))


def softplus(x):
    return max(x, 0) + mp.log1p(decay(x))


def tanh(x):
    return mp.tanh(x) if abs(x) < 10**6 else mp.sign(x)


def erfc(x):
    if abs(x) > 1000:  # beyond 10^-400000
        return mpf(0) if x > 0 else mpf(2)
    return mp.erfc(x)


def normal_distribution(x):
    return erfc(-x / mp.sqrt(2)) / 2


def normal_density(x):
    return decay(x * x / 2) / mp.sqrt(2 * mp.pi)


def gelu(x):
    return x * normal_distribution(x)


def gelu_tanh(x):
    return x * sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mpf(0.044715) * x**3))


SELU = mpf(1.6732632423543772), mpf(1.0507009873554805)


def unit(x):
    return x if x > 0 else mp.expm1(max(x, -(10**6)))


def steps(f):
    """A function whose derivatives are 0 everywhere."""
    return dict(f=f, derivatives=lambda x: (0, 0), linear=True)


def far_erfinv(x):
    with mp.workdps(60):
        y = mp.erfinv(x)
        slope = mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        return slope, 2 * y * slope * slope


def small_erfinv(x):
    with mp.workdps(60):
        if abs(x) < mpf(10) ** -25:
            return mp.sqrt(mp.pi) / 2 * x
        return mp.erfinv(x)


# What is said of a function beside its values: `linear`, its derivatives are constant in pieces (and
# may be so at NaN); `domain`; `singular`, ends and poles where derivatives are limits; `at`, values or
# conventions.
ROOT = {-inf: (inf, UNKNOWN, UNKNOWN)}  # as C99 has it for exponents that are not odd integers
UNARY = {
    "exp": dict(f=lambda x: decay(x) if x < 0 else mp.exp(x)),
    "exp2": dict(f=lambda x: decay(x * mp.ln(2)) if x < 0 else mp.exp(x * mp.ln(2))),
    "expm1": dict(f=lambda x: unit(x) if x < 0 else mp.expm1(x)),
    "log": dict(f=mp.ln, domain=(0, inf), singular=[0.0], values={0.0: -inf, inf: inf}),
    "log2": dict(f=lambda x: mp.ln(x) / mp.ln(2), domain=(0, inf), singular=[0.0], values={0.0: -inf, inf: inf}),
    "log10": dict(f=lambda x: mp.ln(x) / mp.ln(10), domain=(0, inf), singular=[0.0], values={0.0: -inf, inf: inf}),
    "log1p": dict(f=mp.log1p, domain=(-1, inf), singular=[-1.0], values={-1.0: -inf, inf: inf}),
    "sinh": dict(f=mp.sinh),
    "cosh": dict(f=mp.cosh),
    "tanh": dict(f=tanh),
    "asinh": dict(f=mp.asinh, values={inf: inf, -inf: -inf}),
    "acosh": dict(f=mp.acosh, domain=(1, inf), singular=[1.0], values={1.0: 0, inf: inf}),
    "atanh": dict(f=mp.atanh, domain=(-1, 1), singular=[1.0, -1.0], values={1.0: inf, -1.0: -inf}),
    "sin": dict(f=mp.sin, at={inf: (nan,) * 3, -inf: (nan,) * 3}),
    "cos": dict(f=mp.cos, at={inf: (nan,) * 3, -inf: (nan,) * 3}),
    "tan": dict(f=mp.tan, at={inf: (nan,) * 3, -inf: (nan,) * 3}),
    "asin": dict(f=mp.asin, domain=(-1, 1), singular=[1.0, -1.0], values={1.0: mp.pi / 2, -1.0: -mp.pi / 2}),
    "acos": dict(f=mp.acos, domain=(-1, 1), singular=[1.0, -1.0], values={1.0: 0, -1.0: mp.pi}),
    "atan": dict(f=mp.atan),
    "sinc": dict(f=mp.sincpi),
    "degrees": dict(f=lambda x: x * 180 / mp.pi, linear=True),
    "radians": dict(f=lambda x: x * mp.pi / 180, linear=True),
    "sqrt": dict(f=mp.sqrt, domain=(0, inf), singular=[0.0]),
    "rsqrt": dict(f=lambda x: 1 / mp.sqrt(x), domain=(0, inf), singular=[0.0]),
    "cbrt": dict(f=lambda x: mp.sign(x) * mp.cbrt(abs(x)), singular=[0.0]),
    "reciprocal": dict(f=lambda x: 1 / x, singular=[0.0]),
    "square": dict(f=lambda x: x * x, at={nan: (nan, nan, UNKNOWN)}),
    "pow_0": dict(f=lambda x: mpf(1), linear=True, at={nan: (1, 0, 0)}),
    "pow_1": dict(f=lambda x: x, linear=True),
    "pow_2": dict(f=lambda x: x * x, linear=True),
    "pow_3": dict(f=lambda x: x**3),
    "pow_5": dict(f=lambda x: x**5),
    "pow_-1": dict(f=lambda x: 1 / x, singular=[0.0]),
    "pow_-3": dict(f=lambda x: x**-3, singular=[0.0]),
    "pow_0.5": dict(f=mp.sqrt, domain=(0, inf), singular=[0.0], at=ROOT),
    "pow_1.75": dict(f=lambda x: x ** mpf(1.75), domain=(0, inf), singular=[0.0], at=ROOT),
    "erf": dict(f=lambda x: mp.erf(x) if abs(x) < 1000 else mp.sign(x)),
    "erfc": dict(f=erfc),
    "erfinv": dict(f=small_erfinv, domain=(-1, 1), derivatives=far_erfinv,
                   at={1.0: (inf, inf, inf), -1.0: (-inf, inf, -inf)}),
    "floor": steps(mp.floor),
    "ceil": steps(mp.ceil),
    "round": steps(mp.nint),
    "trunc": steps(lambda x: mp.floor(x) if x > 0 else mp.ceil(x)),
    "sign": steps(mp.sign),
    "abs": dict(f=abs, linear=True, at={0.0: (0, 0, 0)}),
    "negative": dict(f=lambda x: -x, linear=True),
    "clip": dict(f=lambda x: min(max(x, mpf(-0.75)), mpf(0.875)), linear=True),
    "sigmoid": dict(f=sigmoid),
    "log_sigmoid": dict(f=lambda x: -softplus(-x)),
    "silu": dict(f=lambda x: x * sigmoid(x)),
    "hardsigmoid": dict(f=lambda x: min(max(x / 6 + 0.5, 0), 1), linear=True, at={3.0: (1, 0, 0), -3.0: (0, 0, 0)}),
    "hardtanh": dict(f=lambda x: min(max(x, -1), 1), linear=True, at={1.0: (1, 1, 0), -1.0: (-1, 1, 0)}),
    "hardswish": dict(f=lambda x: x * min(max(x + 3, 0), 6) / 6, linear=True,
                       at={3.0: (3, 1, 0), -3.0: (0, 0, 0)}),
    "softsign": dict(f=lambda x: x / (1 + abs(x)), at={0.0: (0, 1, 0)}),
    "relu": dict(f=lambda x: max(x, 0), linear=True, at={0.0: (0, 0, 0)}),
    "relu6": dict(f=lambda x: min(max(x, 0), 6), linear=True, at={0.0: (0, 0, 0)}),
    "clipped_relu": dict(f=lambda x: min(max(x, 0), mpf(0.75)), linear=True, at={0.0: (0, 0, 0)}),
    "leaky_relu": dict(f=lambda x: x if x > 0 else x / 4, linear=True, at={0.0: (0, mpf(0.25), 0)}),
    "elu": dict(f=lambda x: x if x > 0 else mpf(0.75) * unit(x), at={0.0: (0, mpf(0.75), mpf(0.75))}, linear=True),
    "selu": dict(f=lambda x: SELU[1] * (x if x > 0 else SELU[0] * unit(x)),
                 at={0.0: (0, SELU[0] * SELU[1], SELU[0] * SELU[1])}, linear=True),
    "celu": dict(f=lambda x: x if x > 0 else mpf(0.75) * unit(x / mpf(0.75)), at={0.0: (0, 1, 1 / mpf(0.75))}, linear=True),
    "softplus": dict(f=lambda x: softplus(mpf(1.5) * x) / mpf(1.5)),
    "mish": dict(f=lambda x: x * tanh(softplus(x))),
    "gelu": dict(f=gelu),
    "gelu_tanh": dict(f=gelu_tanh),
    "tanhshrink": dict(f=lambda x: x - tanh(x)),
    "softshrink": dict(f=lambda x: x - min(max(x, mpf(-0.75)), mpf(0.75)), linear=True),
    "hardshrink": dict(f=lambda x: x if abs(x) > 0.75 else mpf(0), linear=True),
    "threshold": dict(f=lambda x: x if x > 0.75 else mpf(3), linear=True),
    "huber": dict(f=lambda x: x * x / 2 if abs(x) <= 0.75 else mpf(0.75) * (abs(x) - mpf(0.375)), linear=True),
    "ndtr": dict(f=normal_distribution),
    "normal_density": dict(f=normal_density, at={
        sign: (normal_density(mpf(1)), -sign * normal_density(mpf(1)), 0) for sign in (1.0, -1.0)}),
    "exp_of_negative": dict(f=decay, at={0.0: (1, 0, 0)}),
    "logistic_density": dict(f=lambda x: sigmoid(x) * sigmoid(-x)),
    "one_minus_square": dict(f=lambda x: 1 - x * x, at={nan: (nan, nan, UNKNOWN)}),
}


# ----- special functions: value and derivatives by their formulas


def is_pole(x):
    return x <= 0 and x == mp.floor(x)


def of_order(n):
    """The derivatives of lgamma, from order n on: lgamma itself is order 0."""
    def function(x):
        if x != x:
            return nan, nan, nan
        if x == float("inf"):
            return tuple(inf if k < 2 else 0 for k in range(n, n + 3))
        if x == -float("inf"):
            return inf if n == 0 else nan, UNKNOWN, UNKNOWN
        if x == 0:  # poles, which have another sign on the left if their order is odd
            sign = -1 if str(x) == "-0.0" else 1
            return tuple(inf if k == 0 or k % 2 == 0 else -inf * sign for k in range(n, n + 3))
        if is_pole(mpf(x)):
            return inf if n % 2 == 0 else nan, UNKNOWN, UNKNOWN
        with mp.workdps(400):
            return tuple(mp.re(mp.loggamma(mpf(x))) if k == 0 else mp.psi(k - 1, mpf(x)) for k in range(n, n + 3))
    return function


def zeta(q):
    s = mpf(2.5)
    if q != q:
        return nan, nan, nan
    if q == float("inf"):
        return 0, 0, 0
    if q <= 0:
        return (inf if is_pole(q) and q > -float("inf") else nan), UNKNOWN, UNKNOWN
    q = mpf(q)

    def value(s):
        if q > 10**20:  # Euler and Maclaurin
            return q ** (1 - s) / (s - 1) + q**-s / 2
        return q**-s + mp.zeta(s, 1 + q) if q < 1 else mp.zeta(s, q)
    with mp.workdps(60):
        return value(s), -s * value(s + 1), s * (s + 1) * value(s + 2)


def entr(x):
    if x != x:
        return nan, nan, nan
    if x <= 0:
        return (0, inf, UNKNOWN) if x == 0 else (-inf, UNKNOWN, UNKNOWN)
    if x == float("inf"):
        return -inf, -inf, 0
    x = mpf(x)
    return -x * mp.ln(x), -mp.ln(x) - 1, -1 / x


def ndtri(p):
    if p == 0 or p == 1:
        return (-inf, inf, -inf) if p == 0 else (inf, inf, inf)
    if p == 0.5:
        return 0, mp.sqrt(2 * mp.pi), 0
    if not 0 < p < 1:
        return nan, nan if p != p else UNKNOWN, nan if p != p else UNKNOWN
    with mp.workdps(60):
        p, y = mpf(p), -mp.sqrt(-2 * mp.ln(min(p, mpf(1) / 3)))
        for _ in range(100):
            value = mp.erfc(-y / mp.sqrt(2)) / 2
            y -= mp.ln(value / p) * value * mp.sqrt(2 * mp.pi) * mp.exp(y * y / 2)
        slope = mp.sqrt(2 * mp.pi) * mp.exp(y * y / 2)
        return y, slope, y * slope * slope


def erfcx(x):
    if x != x:
        return nan, nan, nan
    if abs(x) > 100:
        if x < 0:
            return inf, -inf, inf
        x = mpf(x) if x < float("inf") else FAR
        factor = 1 / mp.sqrt(mp.pi)
        terms = [(-1) ** k * mp.fac2(2 * k - 1) / mpf(2) ** k for k in range(20)]
        return tuple(factor * sum(c * sign * mp.rf(2 * k + 1, n) * x ** (-2 * k - 1 - n) for k, c in enumerate(terms))
                     for n, sign in ((0, 1), (1, -1), (2, 1)))
    x = mpf(x)
    y = mp.exp(x * x) * mp.erfc(x)
    slope = 2 * x * y - 2 / mp.sqrt(mp.pi)
    return y, slope, 2 * y + 2 * x * slope


def log_ndtr(x):
    if x != x:
        return nan, nan, nan
    if x > 1000:
        return 0, 0, 0
    if x < -1000:
        x = FAR * -1 if x == -float("inf") else mpf(x)
        # The distribution function is the density times the series of Mills's quotient.
        return (-x * x / 2 - mp.ln(-x * mp.sqrt(2 * mp.pi)) + mp.log1p(-1 / x**2 + 3 / x**4),
                -x - 1 / x + 2 / x**3, -1 + 1 / x**2 - 6 / x**4)
    x = mpf(x)
    value = mp.erfc(-x / mp.sqrt(2)) / 2
    slope = mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) / value
    return mp.ln(value), slope, -slope * (x + slope)


def bessel(kind, order):
    """The value and two derivatives, from the functions of neighbouring orders."""
    sign = -1 if kind == "j" else 1

    def hankel(n, x):
        terms = [mpf(1)]
        for k in range(1, 40):
            terms.append(terms[-1] * (4 * n * n - (2 * k - 1) ** 2) / (8 * k * x))
        return terms

    def value(n, x):
        if n < 0:
            return sign**n * value(-n, x)
        if abs(x) < 1000:
            return mp.besselj(n, x) if kind == "j" else mp.besseli(n, x)
        parity = -1 if x < 0 and n % 2 else 1
        x = abs(x)
        even = sum((-1) ** (k // 2) * t for k, t in enumerate(hankel(n, x)) if k % 2 == 0)
        odd = sum((-1) ** (k // 2) * t for k, t in enumerate(hankel(n, x)) if k % 2)
        angle = x - n * mp.pi / 2 - mp.pi / 4
        return parity * mp.sqrt(2 / (mp.pi * x)) * (even * mp.cos(angle) - odd * mp.sin(angle))

    def derivatives(n, x):
        first = (value(n - 1, x) + sign * value(n + 1, x)) / 2
        return value(n, x), first, (value(n - 2, x) + sign * 2 * value(n, x) + value(n + 2, x)) / 4

    def function(x):
        if x != x:
            return nan, nan, nan
        if abs(x) == float("inf"):
            if kind != "i":
                return 0, 0, 0
            return tuple(-inf if x < 0 and (order + k) % 2 else inf for k in range(3))
        x = mpf(x)
        s = mp.sign(x)
        if kind == "i" and abs(x) > 1000:
            return tuple(inf * s ** (order + k) for k in range(3))
        if kind != "ie":
            return derivatives(order, x)
        if abs(x) > 1000:  # the exponential is taken out of the series
            x = abs(x)
            terms = [(-1) ** k * t / mp.sqrt(2 * mp.pi * x) for k, t in enumerate(hankel(order, x))]
            first = sum(-(k + mpf(1) / 2) * t / x for k, t in enumerate(terms))
            second = sum((k + mpf(1) / 2) * (k + mpf(3) / 2) * t / x**2 for k, t in enumerate(terms))
            return s**order * sum(terms), s ** (order + 1) * first, s**order * second
        y, first, second = derivatives(order, x)
        if x == 0:
            return y, first, UNKNOWN
        factor = mp.exp(-abs(x))
        return factor * y, factor * (first - s * y), factor * (second - 2 * s * first + y)
    return function


def second_bessel(kind, order):
    """Y, K or the scaled K, from the functions of neighbouring orders, whose differences may overflow near zero."""
    def value(n, x):
        n = abs(n)
        if x < 1e4:
            with mp.workdps(60):
                return mp.bessely(n, x) if kind == "y" else mp.besselk(n, x) * (mp.exp(x) if kind == "ke" else 1)
        terms = [mpf(1)]
        for k in range(1, 40):
            terms.append(terms[-1] * (4 * n * n - (2 * k - 1) ** 2) / (8 * k * x))
        if kind != "y":
            return mp.sqrt(mp.pi / (2 * x)) * sum(terms) * (mp.exp(-x) if kind == "k" else 1)
        even, odd = (sum((-1) ** (k // 2) * t for k, t in enumerate(terms) if k % 2 == rest) for rest in (0, 1))
        angle = x - n * mp.pi / 2 - mp.pi / 4
        return mp.sqrt(2 / (mp.pi * x)) * (even * mp.sin(angle) + odd * mp.cos(angle))

    def function(x):
        if x != x:
            return nan, nan, nan
        if x < 0:
            return nan, UNKNOWN, UNKNOWN
        if x == 0:
            return -inf if kind == "y" else inf, UNKNOWN, UNKNOWN
        if x == float("inf"):
            return 0, 0, 0
        x, n = mpf(x), order
        sign = lambda k: (-1) ** k if kind == "y" and k < 0 else 1
        y = {k: sign(k) * value(k, x) for k in range(n - 2, n + 3)}
        if kind == "y":
            first, second = (y[n - 1] - y[n + 1]) / 2, (y[n - 2] - 2 * y[n] + y[n + 2]) / 4
        else:
            first, second = -(y[n - 1] + y[n + 1]) / 2, (y[n - 2] + 2 * y[n] + y[n + 2]) / 4
        if kind == "ke":
            with mp.workdps(60):
                first, second = y[n] + first, y[n] + 2 * first + second
        if kind == "ke" and x > 1e4:  # the exponential is taken out of the series
            terms = [mp.sqrt(mp.pi / (2 * x))]
            for k in range(1, 40):
                terms.append(terms[-1] * (4 * n * n - (2 * k - 1) ** 2) / (8 * k * x))
            first = sum(-(k + mpf(1) / 2) * t / x for k, t in enumerate(terms))
            second = sum((k + mpf(1) / 2) * (k + mpf(3) / 2) * t / x**2 for k, t in enumerate(terms))
        return y[n], first, UNKNOWN if kind == "y" and x < 1e-6 else second
    return function


def exponential_integral(n):
    def function(x):
        if x != x:
            return nan, nan, nan
        if x < 0:
            return nan, UNKNOWN, UNKNOWN
        if x == 0:
            return inf if n == 1 else 1 / mpf(n - 1), UNKNOWN, UNKNOWN
        if x > 1e4:
            return 0, 0, 0
        with mp.workdps(400):
            x = mpf(x)
            zero = mp.exp(-x) / x
            below = zero * (1 + 1 / x)
            return (mp.e1(x), -zero, below) if n == 1 else (mp.expint(2, x), -mp.e1(x), zero)
    return function


def expi(x):
    if x != x:
        return nan, nan, nan
    if x == 0:
        return -inf, UNKNOWN, UNKNOWN
    if x < -1e4:
        return 0, 0, 0
    if x > 1e4:
        return inf, UNKNOWN, UNKNOWN
    x = mpf(x)
    slope = mp.exp(x) / x
    known = abs(x) > 1e-6 and x < 80  # both terms of the second overflow elsewhere
    return mp.ei(x), slope, slope - slope / x if known else UNKNOWN


def logit(x):
    if x != x:
        return nan, nan, nan
    if x == 0 or x == 1:
        known = str(x) != "-0.0"
        return (-inf, inf if known else UNKNOWN, -inf if known else UNKNOWN) if x == 0 else (inf, inf, inf)
    if not 0 < x < 1:
        return nan, UNKNOWN, UNKNOWN
    x = mpf(x)
    return mp.ln(x / (1 - x)), 1 / (x * (1 - x)), (2 * x - 1) / (x * (1 - x)) ** 2


def log1mexp(x):
    if x != x:
        return nan, nan, nan
    if x < 0:
        return nan, UNKNOWN, UNKNOWN
    if x == 0:
        known = str(x) != "-0.0"
        return -inf, inf if known else UNKNOWN, -inf if known else UNKNOWN
    if x > 2000:
        return 0, 0, 0
    u = mp.expm1(mpf(x))
    return mp.log(-mp.expm1(-mpf(x))), 1 / u, -(u + 1) / u**2


def frac(x):
    if x != x or abs(x) == float("inf"):
        return nan, UNKNOWN, UNKNOWN
    x = mpf(x)
    return x - (mp.floor(x) if x > 0 else mp.ceil(x)), 1, 0


def replaced(nan, above, below):
    def function(x):
        if x != x:
            return nan, 0, 0
        if abs(x) == float("inf"):
            return above if x > 0 else below, 0, 0
        return x, 1, 0
    return function


UNARY.update({
    "logit": dict(everything=logit),
    "log1mexp": dict(everything=log1mexp),
    "frac": dict(everything=frac),
    "nan_to_num": dict(everything=replaced(0, UNKNOWN, UNKNOWN)),
    "nan_to_num_with": dict(everything=replaced(1, 2, 3)),
    "i0": dict(everything=bessel("i", 0)),
    "i1": dict(everything=bessel("i", 1)),
    "i0e": dict(everything=bessel("ie", 0)),
    "i1e": dict(everything=bessel("ie", 1)),
    "j0": dict(everything=bessel("j", 0)),
    "j1": dict(everything=bessel("j", 1)),
    "y0": dict(everything=second_bessel("y", 0)),
    "y1": dict(everything=second_bessel("y", 1)),
    "k0": dict(everything=second_bessel("k", 0)),
    "k1": dict(everything=second_bessel("k", 1)),
    "k0e": dict(everything=second_bessel("ke", 0)),
    "k1e": dict(everything=second_bessel("ke", 1)),
    "exp1": dict(everything=exponential_integral(1)),
    "expi": dict(everything=expi),
    "expn": dict(everything=exponential_integral(2)),
    "lgamma": dict(everything=of_order(0)),
    "digamma": dict(everything=of_order(1)),
    "polygamma": dict(everything=of_order(2)),
    "zeta": dict(everything=zeta),
    "entr": dict(everything=entr),
    "ndtri": dict(everything=ndtri),
    "erfcx": dict(everything=erfcx),
    "log_ndtr": dict(everything=log_ndtr),
})


def by_differences(f, x, step):
    left, middle, right = f(x - step), f(x), f(x + step)
    return (right - left) / (2 * step), (right - 2 * middle + left) / (step * step)


def unary(x, f=None, derivatives=None, everything=None, linear=False, domain=(-inf, inf), singular=(), values={}, at={}):
    """Value, first and second derivative."""
    if everything:
        return everything(x)
    if x != x:
        known = at.get(nan)
        return known or (nan, UNKNOWN if linear else nan, UNKNOWN if linear else nan)
    if x in at:
        return at[x]
    low, high = domain
    if x < low or x > high:
        return nan, UNKNOWN, UNKNOWN
    negative_zero = x == 0 and str(x) == "-0.0"
    point = FAR * mp.sign(x) if abs(x) == float("inf") else mpf(x)
    step = point and abs(point) * mpf(10) ** -40 if abs(point) < 1 or abs(point) > mpf(10) ** 400 else mpf(10) ** -40
    if x == 0:
        step = mpf(10) ** -400
    if x in singular:
        if x == 0:
            if negative_zero and low == 0:
                return UNKNOWN, UNKNOWN, UNKNOWN
            point, step = (-NEAR if negative_zero else NEAR), NEAR * mpf(10) ** -40
        else:
            point = mpf(x) + (INSIDE if x == low else -INSIDE)
            step = INSIDE * mpf(10) ** -40
            with mp.workdps(4000):
                value = values[x] if x in values else f(point)
                return value, *by_differences(f, point, step)
    value = values[x] if x in values else f(point)
    return value, *(derivatives(point) if derivatives else by_differences(f, point, step))


# ----- functions of two arguments: value, a, b, aa, ab, bb


def hypot(a, b):
    h = mp.sqrt(a * a + b * b)
    if h == 0:
        return 0, 0, 0, UNKNOWN, UNKNOWN, UNKNOWN
    return h, a / h, b / h, b * b / h**3, -a * b / h**3, a * a / h**3


def direction(a, b):
    h = mp.sqrt(a * a + b * b)
    if h == 0:
        return 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN
    # Its second derivatives are third ones of hypot.
    return a / h, b * b / h**3, -a * b / h**3, UNKNOWN, UNKNOWN, UNKNOWN


def inversion(a, b):
    r = a * a + b * b
    if r == 0:
        return 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN
    # Its second derivatives are third ones of atan2.
    return a / r, (b * b - a * a) / r**2, -2 * a * b / r**2, UNKNOWN, UNKNOWN, UNKNOWN


def atan2(a, b):
    r = a * a + b * b
    if r == 0:
        return UNKNOWN, 0, 0, UNKNOWN, UNKNOWN, UNKNOWN
    return (UNKNOWN if a == 0 else mp.atan2(a, b), b / r, -a / r,
            -2 * a * b / r**2, (a * a - b * b) / r**2, 2 * a * b / r**2)


def logaddexp(a, b):
    p = sigmoid(a - b) * sigmoid(b - a)
    return max(a, b) + softplus(-abs(a - b)), sigmoid(a - b), sigmoid(b - a), p, -p, p


def swish(x, beta):
    u = beta * x
    p = sigmoid(u) * sigmoid(-u)
    slope = -p * tanh(u / 2)
    cubic = UNKNOWN if beta == 0 and x * x > mpf(10) ** 38 else x**3 * slope  # ∞ · 0 in f32
    return x * sigmoid(u), sigmoid(u) + u * p, x * x * p, beta * (2 * p + u * slope), x * (2 * p + u * slope), cubic


def power(a, b):
    if a == 0:  # see the tests of pow
        return (UNKNOWN,) * 6
    integer = b == mp.floor(b)
    if a < 0 and not integer:
        return (nan,) + (UNKNOWN,) * 5
    if abs(b) == FAR and a < 0:
        return (UNKNOWN,) * 6
    y = a**b if abs(b) < mpf(10) ** 20 or abs(a) == 1 else mp.sign(a) ** int(b) * mp.exp(b * mp.ln(abs(a)))
    by_a = b * y / a, b * (b - 1) * y / (a * a)
    if abs(b) > mpf(10) ** 15 or abs(b) < mpf(10) ** -15:
        # b - 1 is rounded to b or -1 there, and b (b - 1) may leave the range: not promised.
        return (y,) + (UNKNOWN,) * 5
    if a < 0:
        return y, by_a[0], UNKNOWN, by_a[1], UNKNOWN, UNKNOWN
    log = mp.ln(a)
    return y, by_a[0], y * log, by_a[1], y / a * (1 + b * log), y * log * log


def remainder(quotient):
    def function(a, b):
        if b == 0 or abs(a) == FAR:
            return (nan,) + (UNKNOWN,) * 5
        if abs(b) == FAR:  # then the remainder is a, or has no limit
            return (a if quotient(a / b) == 0 else UNKNOWN), 1, UNKNOWN, 0, 0, UNKNOWN
        n = quotient(a / b)
        return a - b * n, 1, -n, 0, 0, 0
    return function


def extreme(sign):
    def function(a, b):
        if a == b:
            return a, mpf(0.5), mpf(0.5), 0, 0, 0
        of_a = (a - b) * sign > 0
        return (a if of_a else b), int(of_a), int(not of_a), 0, 0, 0
    return function


def sigmoid_cross_entropy(x, t):
    t = abs(t) % 2 if abs(t) < FAR else t
    p = sigmoid(x) * sigmoid(-x)
    loss = abs(x) * (1 - t if x > 0 else t) + softplus(-abs(x))
    return loss, sigmoid(x) * (1 - t) - sigmoid(-x) * t, -x, p, -1, 0


def copysign(a, b):
    if b != b:
        return (UNKNOWN,) * 6
    sign = -1 if b < 0 else 1
    return abs(a) * sign, UNKNOWN if a != a else mp.sign(a) * sign, 0, 0, 0, 0


def heaviside(a, b):
    if a != a or a == 0:
        return (nan,) + (UNKNOWN,) * 5 if a != a else (b, 0, 1, 0, 0, 0)
    return int(a > 0), 0, 0, 0, 0, 0


def extreme_number(sign):
    def function(a, b):
        of_a = b != b or (a == a and (a - b) * sign >= 0)
        return a if of_a else b, int(of_a), int(not of_a), 0, 0, 0
    return function


def logaddexp2(a, b):
    u = (a - b) * mp.ln(2)
    p = sigmoid(u) * sigmoid(-u) * mp.ln(2)
    return max(a, b) + softplus(-abs(u)) / mp.ln(2), sigmoid(u), sigmoid(-u), p, -p, p


def xlogy(shift):
    def function(a, b):
        c = b + shift
        if c < 0 or c == 0 and a != 0:  # the logarithm
            return (nan if c < 0 and a != 0 else 0 if a == 0 else -inf * mp.sign(a),) + (UNKNOWN,) * 5
        if c == 0:
            return 0, 0, 0, UNKNOWN, UNKNOWN, UNKNOWN
        if b == FAR:
            return (UNKNOWN,) * 6
        logarithm = mp.ln(c) if shift == 0 else mp.log1p(b)
        return (UNKNOWN if abs(a) == FAR and logarithm == 0 else a * logarithm, logarithm, a / c, 0, 1 / c, -a / c**2)
    return function


def rel_entr(a, b):
    if a < 0 or b < 0:
        return (inf,) + (UNKNOWN,) * 5
    if a == 0:
        return (0,) + (UNKNOWN,) * 5
    if b == 0:
        return (inf,) + (UNKNOWN,) * 5
    if FAR in (a, b):
        return (UNKNOWN,) * 6
    return a * mp.ln(a / b), mp.ln(a / b) + 1, -a / b, 1 / a, -1 / b, a / b**2


def beta_parts(a, b):
    if min(a, b) <= 0 or FAR in (a, b) or a + b > mpf(2) ** 1024:
        return None
    y = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)
    by_a, by_b = (mp.psi(0, x) - mp.psi(0, a + b) for x in (a, b))
    mixed = -mp.psi(1, a + b)
    return y, by_a, by_b, mp.psi(1, a) + mixed, mixed, mp.psi(1, b) + mixed


def betaln(a, b):
    return beta_parts(a, b) or (UNKNOWN,) * 6


def beta(a, b):
    parts = beta_parts(a, b)
    if not parts:
        return (UNKNOWN,) * 6
    y, by_a, by_b, aa, ab, bb = parts
    if y < -10**6:  # below the range, and no second derivatives of products beyond it
        return (0,) + (UNKNOWN,) * 5
    y = mp.exp(y)
    if max(abs(by_a), abs(by_b)) > mpf(10) ** 18:
        return (y,) + (UNKNOWN,) * 5
    return y, y * by_a, y * by_b, y * (by_a**2 + aa), y * (by_a * by_b + ab), y * (by_b**2 + bb)


def series(f, x, order):
    """A derivative by central differences."""
    h = x * mpf(10) ** -60
    left, right = f(x - h), f(x + h)
    return (right - left) / (2 * h) if order == 1 else (left + right - 2 * f(x)) / (h * h)


def gammainc(upper):
    def ratio(a, x):
        """The series of positive terms."""
        term = total = mp.exp(a * mp.ln(x) - x - mp.loggamma(a + 1))
        n = 1
        while term > total * mpf(10) ** -mp.dps:
            term *= x / (a + n)
            total += term
            n += 1
        return total

    def function(a, x):
        if a < 0 or x < 0 or a == 0 and x == 0:
            return (nan,) + (UNKNOWN,) * 5
        if min(a, x) > 10**5:
            return (UNKNOWN,) * 6
        if a == 0 or x > 10**5:
            return (1 - upper,) + (UNKNOWN,) * 5
        if x == 0 or a > 10**5:
            return (upper,) + (UNKNOWN,) * 5
        with mp.workdps(700):
            y = ratio(a, x)
            by_a, by_aa = (series(lambda a: ratio(a, x), a, order) for order in (1, 2))
            density = mp.exp((a - 1) * mp.ln(x) - x - mp.loggamma(a))
            results = by_a, density, by_aa, density * (mp.ln(x) - mp.psi(0, a)), density * ((a - 1) / x - 1)
            # Products of numbers beyond the range are not promised.
            far = abs(results[4]) > mpf(10) ** 38 or min(a, x) < mpf(10) ** -20
            results = results[:2] + (UNKNOWN,) * 3 if far else results
            return (1 - y, *(r if r is UNKNOWN else -r for r in results)) if upper else (y, *results)
    return function


def root(ratio, wanted, low, high):
    """Where an increasing function of positive numbers has a value, by halving and by secants of its logarithm."""
    def excess(u):
        return mp.ln(ratio(mp.exp(u)) / wanted)
    low, high = mp.ln(low), mp.ln(high)
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    last, u = low, high
    before, now = excess(last), excess(u)
    while abs(u - last) > mpf(10) ** -40:
        last, u, before = u, u - now * (u - last) / (now - before), now
        now = excess(u)
    return mp.exp(u)


def gammaincinv(upper):
    """By implicit derivatives of those of gammainc; with few digits in p or far out they are not promised."""
    def function(a, p):
        if a < 0 or p < 0 or p > 1:
            return (nan,) + (UNKNOWN,) * 5
        if p == 0:
            return (inf if upper else 0,) + (UNKNOWN,) * 5
        if a < mpf(10) ** -20:
            return (UNKNOWN if upper and 0 < a and p < mpf(10) ** -20 else 0,) + (UNKNOWN,) * 5
        if a > 10**5 or p < mpf(2) ** -1022:
            return (UNKNOWN,) * 6
        with mp.workdps(700):
            x = root(lambda x: gammainc(0)(a, x)[0], 1 - p if upper else p, mpf(10) ** -420, a + 40 * mp.sqrt(a) + 1000)
            _, by_a, f, aa, f_a, f_x = gammainc(0)(a, x)
            if p < mpf(10) ** -20 or UNKNOWN in (aa, f_a, f_x):
                return (x,) + (UNKNOWN,) * 5
            sign = -1 if upper else 1
            x_a, x_p = -by_a / f, sign / f
            mixed = -x_p * (f_a + f_x * x_a) / f
            return x, x_a, x_p, -(aa + 2 * f_a * x_a + f_x * x_a**2) / f, mixed, -f_x * x_p**2 / f
    return function


def betaincinv(a, b, p):
    """As gammaincinv, through the odds."""
    if p != p or p < 0 or p > 1:
        return (nan,) + (UNKNOWN,) * 9
    if p == 0 or p == 1:
        return (p,) + (UNKNOWN,) * 9
    a, b, p = mpf(a), mpf(b), mpf(p)
    with mp.workdps(200):
        def ratio(odds):
            # The series of what is nearer to 0.
            return betainc_ratio(a, b, odds / (1 + odds)) if odds < 1 else 1 - betainc_ratio(b, a, 1 / (1 + odds))

        odds = root(ratio, p, mpf(10) ** -70, mpf(10) ** 10)
        x = odds / (1 + odds)
        if p < mpf(10) ** -20 or x > 0.97:  # where the series have too many terms
            return (x,) + (UNKNOWN,) * 9
        _, by_a, by_b, f, aa, ab, f_a, bb, f_b, f_x = betainc_parts(a, b, x)
        x_a, x_b, x_p = -by_a / f, -by_b / f, 1 / f
        results = (x, x_a, x_b, x_p, -(aa + 2 * f_a * x_a + f_x * x_a**2) / f,
                   -(ab + f_a * x_b + f_b * x_a + f_x * x_a * x_b) / f, -x_p * (f_a + f_x * x_a) / f,
                   -(bb + 2 * f_b * x_b + f_x * x_b**2) / f, -x_p * (f_b + f_x * x_b) / f, -f_x * x_p**2 / f)
        # Zeros by symmetry.
        return tuple(UNKNOWN if abs(y) < mpf(10) ** -50 else y for y in results)


def betainc_ratio(a, b, x):
    """The series of positive terms."""
    term = total = mp.exp(a * mp.ln(x) + b * mp.log1p(-x) + mp.loggamma(a + b) - mp.loggamma(a + 1) - mp.loggamma(b))
    n = 0
    while term > total * mpf(10) ** -mp.dps:
        term *= (a + b + n) / (a + 1 + n) * x
        total += term
        n += 1
    return total


def betainc_parts(a, b, x):
    """The value and its derivatives."""
    of_a = [series(lambda a: betainc_ratio(a, b, x), a, order) for order in (1, 2)]
    of_b = [series(lambda b: betainc_ratio(a, b, x), b, order) for order in (1, 2)]
    mixed = series(lambda a: series(lambda b: betainc_ratio(a, b, x), b, 1), a, 1)
    density = x ** (a - 1) * (1 - x) ** (b - 1) / mp.beta(a, b)
    slopes = mp.ln(x) - mp.psi(0, a) + mp.psi(0, a + b), mp.log1p(-x) - mp.psi(0, b) + mp.psi(0, a + b)
    return (betainc_ratio(a, b, x), of_a[0], of_b[0], density, of_a[1], mixed, density * slopes[0], of_b[1],
            density * slopes[1], density * ((a - 1) / x - (b - 1) / (1 - x)))


def betainc(a, b, x):
    if x != x or x < 0 or x > 1:
        return (nan,) + (UNKNOWN,) * 9
    if x == 0 or x == 1:
        return (x,) + (UNKNOWN,) * 9
    with mp.workdps(200):
        results = betainc_parts(mpf(a), mpf(b), mpf(x))
        # Zeros by symmetry.
        return tuple(UNKNOWN if abs(y) < mpf(10) ** -50 and x >= 0.25 else y for y in results)


BINARY = {
    "add": lambda a, b: (a + b, 1, 1, 0, 0, 0),
    "subtract": lambda a, b: (a - b, 1, -1, 0, 0, 0),
    "multiply": lambda a, b: (a * b, b, a, 0, 1, 0),
    "divide": lambda a, b: (a / b, 1 / b, -a / b**2, 0, -1 / b**2, 2 * a / b**3) if b else (UNKNOWN,) * 6,
    "logaddexp": logaddexp,
    "atan2": atan2,
    "hypot": hypot,
    "direction": direction,
    "inversion": inversion,
    "pow": power,
    "swish": swish,
    "fmod": remainder(lambda q: mp.floor(q) if q > 0 else mp.ceil(q)),
    "remainder": remainder(mp.floor),
    "maximum": extreme(1),
    "minimum": extreme(-1),
    "squared_error": lambda a, b: ((a - b) ** 2, 2 * (a - b), 2 * (b - a), 2, -2, 2),
    "copysign": copysign,
    "heaviside": heaviside,
    "fmax": extreme_number(1),
    "fmin": extreme_number(-1),
    "logaddexp2": logaddexp2,
    "xlogy": xlogy(0),
    "xlog1py": xlogy(1),
    "rel_entr": rel_entr,
    "beta": beta,
    "betaln": betaln,
    "gammainc": gammainc(0),
    "gammaincc": gammainc(1),
    "gammaincinv": gammaincinv(0),
    "gammainccinv": gammaincinv(1),
    "absolute_error": lambda a, b: (abs(a - b), mp.sign(a - b), mp.sign(b - a), 0, 0, 0),
}
# With values where an argument is NaN.
NOT_ALWAYS_NAN = [BINARY[name] for name in ("copysign", "heaviside", "fmax", "fmin")]
INDEFINITE = [BINARY["multiply"], BINARY["divide"], swish]
PAIRED = {
    "f32": [1e-45, 1e-30, 0.5, 3.0, 20.0, 1e30, 3.4028234663852886e38],
    "f64": [5e-324, 1e-200, 0.5, 3.0, 20.0, 1e200, 1.7976931348623157e308],
}


def binary(f, a, b):
    if (a != a or b != b) and f not in NOT_ALWAYS_NAN:
        return (nan,) + (UNKNOWN,) * 5
    infinite = [abs(x) == float("inf") for x in (a, b)]
    if all(infinite) or any(infinite) and (0 in (a, b) and f in INDEFINITE or f is power):
        return None  # no limit, or one that a large number is not near; tested beside pow
    point = [FAR * mp.sign(x) if abs(x) == float("inf") else mpf(x) for x in (a, b)]
    return f(*point)


def line(name, precision, arguments, results):
    print(name, precision, *(repr(x) if x == x else "NaN" for x in arguments), "=", *map(text, results))


for name, known in UNARY.items():
    for precision, magnitudes in MAGNITUDES.items():
        for x in numbers(precision, magnitudes):
            results = unary(x, **known)
            if results[0] is not UNKNOWN:
                line(name, precision, [x], results)

for name, function in BINARY.items():
    for precision, magnitudes in PAIRED.items():
        points = [x for x in numbers(precision, magnitudes) if str(x) != "-0.0"]
        # Each number with every third of the others, and in the next row with their neighbours.
        for i, a in enumerate(points):
            for b in points[i % 3 :: 3]:
                results = binary(function, a, b)
                if results and (name != "pow" or b == b) and any(x is not UNKNOWN for x in results):
                    line(name, precision, [a, b], results)

# Three arguments: value, a, b, x, and the second derivatives in the same order.
for precision in PAIRED:
    for a in [0.5, 3.0, 20.0]:
        for b in [0.5, 3.0, 20.0]:
            for x in [0.0, 1e-30, 0.25, 0.5, 0.875, 1.0, -0.5, 2.0, float("nan")]:
                x = single(x) if precision == "f32" else x
                line("betainc", precision, [a, b, x], betainc(a, b, x))
                line("betaincinv", precision, [a, b, x], betaincinv(a, b, x))

# Answers, and a probability.
for precision, magnitudes in PAIRED.items():
    for x in numbers(precision, magnitudes):
        for t in [0.0, 1.0, 0.25]:
            if abs(x) == float("inf") or x == x:
                line("sigmoid_cross_entropy", precision, [x, t], binary(sigmoid_cross_entropy, x, t))

# The powers that are numbers although an argument is not.
for precision in PAIRED:
    for a, b in [(float("nan"), 0.0), (float("nan"), -0.0), (1.0, float("nan"))]:
        line("pow", precision, [a, b], (1, 0 if b == 0 else UNKNOWN) + (UNKNOWN,) * 4)
