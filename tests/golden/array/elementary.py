"""Writes elementary.txt: exact values of the elementary functions at points that are hard or typical.

    python3 elementary.py > elementary.txt

Each line holds a function, the bits of its argument (or two), the bits of the f64 nearest to the exact
value, and the bits of what that leaves out, so that an error can be measured in fractions of a unit
in the last place. Needs mpmath. A number on the command line asks for that many random points each.
"""

import random
import struct
import sys
from mpmath import mp, mpf
import mpmath

mp.prec = 1400  # sine of the largest f64 needs 1024 bits before the first useful one
random.seed(20)


def bits(x):
    return struct.pack(">d", x).hex()


def from_bits(text):
    return struct.unpack(">d", bytes.fromhex(text))[0]


def uniform(low, high):
    return lambda: random.uniform(low, high)


def magnitudes(low, high, signed=True):
    """Numbers whose binary exponent is uniform."""
    return lambda: random.choice([-1.0, 1.0] if signed else [1.0]) * random.uniform(1, 2) * 2.0 ** random.randint(low, high)


def erfinv(x):
    """Newton's iteration on ln erfc, from the asymptotic value."""
    if abs(x) < mpf(2) ** -20:
        return mp.sqrt(mp.pi) / 2 * (x + mp.pi * x**3 / 12 + 7 * mp.pi**2 * x**5 / 480 + 127 * mp.pi**3 * x**7 / 40320)
    small = 1 - abs(x)
    far = small < 0.01
    y = mp.sqrt(-mp.ln(small * mp.sqrt(mp.pi * -mp.ln(1 - x * x)))) if far else abs(mpmath.fp.erfinv(float(x)))
    for _ in range(40):
        value = mp.erfc(y)
        step = mp.ln(value / small) * value / (2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
        y += step
        if abs(step) < mpf(2) ** -150:
            return mp.sign(x) * y
    raise AssertionError(x)


HALF_PI_NEIGHBOURS = [from_bits("3ff921fb54442d18"), from_bits("3ff921fb54442d17"), from_bits("400921fb54442d18"),
                      from_bits("7506ac5b262ca1ff"), from_bits("6ae66cdd32beb2a4"), from_bits("4b2d4d55cf1ad1b4")]
TRIGONOMETRIC = (HALF_PI_NEIGHBOURS + [1e22, 1.7976931348623157e308, 2.0**1023, 33.0, 355.0, 1e5, 1048576.5, 0.7853981633974483,
                                       0.7853981633974484, 2.3561944901923448, 6381956970095103.0 * 2.0**797, 1e-300, 5e-324])
TRIGONOMETRIC_RANDOM = [uniform(-1, 1), uniform(-100, 100), magnitudes(-30, 1023), magnitudes(20, 60)]
NEAR_ONE = [1 - 2.0**-53, 1 + 2.0**-52, 0.9999, 1.0001, 0.99, 1.01, 0.7071067811865476, 0.7071067811865475, 1.4142135623730951]
LOG = NEAR_ONE + [5e-324, 2.2250738585072014e-308, 1e-310, 1.7976931348623157e308, 2.0, 3.0, 10.0, 100.0, 0.5, 1e-5]
UNIT = [1.0, -1.0, 0.5, 0.5000000000000001, -0.5, 1 - 2.0**-53, -1 + 2.0**-53, 0.99, 1e-9, -1e-300, 5e-324]

FUNCTIONS = {
    "exp": (mp.exp, [709.782712893384, 709.7827, -708.4, -744.4400719213812, -745.1332191019411, -745.13, -720.5, 0.3465735902799726,
                     0.34657359027997270, 1.0, -1.0, 1e-17, 88.7, -103.9], [uniform(-1, 1), uniform(-745, 709), magnitudes(-20, 8)]),
    "exp2": (lambda x: mpf(2) ** x, [1023.9999999999999, -1074.0, -1073.5, -1022.5, 0.5, -0.5, 1.5, 1e-17, 3.0], [uniform(-1, 1), uniform(-1074, 1024)]),
    "expm1": (mp.expm1, [709.782712893384, -37.4, -36.0, -1.0, 1e-16, -1e-16, 5e-324, 0.35, -0.35, 1.0397, 0.6931471805599453],
              [uniform(-1, 1), uniform(-40, 709), magnitudes(-60, 5)]),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), [-745.0, -709.0, -40.0, 37.0, 36.7, 1.0, -1.0, 1e-17], [uniform(-2, 2), uniform(-700, 40)]),
    "ln": (mp.ln, LOG, [uniform(0.5, 2), magnitudes(-1060, 1023, False)]),
    "log2": (lambda x: mp.ln(x) / mp.ln(mpf(2)), LOG, [uniform(0.5, 2), magnitudes(-1060, 1023, False)]),
    "log10": (lambda x: mp.ln(x) / mp.ln(mpf(10)), LOG, [uniform(0.5, 2), magnitudes(-1060, 1023, False)]),
    "log1p": (mp.log1p, [-1 + 2.0**-53, -0.5, 1e-16, -1e-16, 5e-324, 1.0, 2.0**53, 2.0**54, 1e300, -0.2928932188134525, 0.4142135623730951],
              [uniform(-1, 1), uniform(-0.999, 100), magnitudes(-60, -2), magnitudes(0, 1000, False)]),
    "softplus": (lambda x: mp.log1p(mp.exp(-abs(x))) + max(x, 0), [-745.0, -720.0, -40.0, 40.0, 0.0, 1.0, -1.0], [uniform(-3, 3), uniform(-740, 60)]),
    "sin": (mp.sin, TRIGONOMETRIC, TRIGONOMETRIC_RANDOM),
    "cos": (mp.cos, TRIGONOMETRIC, TRIGONOMETRIC_RANDOM),
    "tan": (mp.tan, TRIGONOMETRIC, TRIGONOMETRIC_RANDOM),
    "asin": (mp.asin, UNIT, [uniform(-1, 1), uniform(0.45, 0.6), magnitudes(-30, -1)]),
    "acos": (mp.acos, UNIT, [uniform(-1, 1), uniform(-0.6, 0.6), magnitudes(-30, -1)]),
    "atan": (mp.atan, [1.0, 0.4142135623730951, 0.41421356237309515, 2.414213562373095, 1e300, -1e17, 1e-300, 1 - 2.0**-53, 1 + 2.0**-52],
             [uniform(-2, 2), magnitudes(-30, 60)]),
    "sinh": (mp.sinh, [710.4758600739439, -710.4758, 709.8, 1e-300, 1e-8, 0.3, 22.0, 1.0], [uniform(-2, 2), uniform(-710, 710), magnitudes(-30, 5)]),
    "cosh": (mp.cosh, [710.4758600739439, -710.4758, 709.8, 1e-8, 0.3, 22.0, 1.0], [uniform(-2, 2), uniform(-710, 710)]),
    "tanh": (mp.tanh, [19.0, 18.7, 1e-8, 3e-9, 0.3, -0.55, 1.0, 5e-324, 0.17328679513998632], [uniform(-2, 2), uniform(-20, 20), magnitudes(-30, 3)]),
    "asinh": (mp.asinh, [1e308, 4503599627370496.0, 9007199254740992.0, 1e-8, 0.5, 5e-324, 1e154], [uniform(-3, 3), magnitudes(-30, 1000)]),
    "acosh": (mp.acosh, [1.0, 1 + 2.0**-52, 1.0001, 1.5, 2.0, 1e154, 1.7e308, 4503599627370496.0], [uniform(1, 2), magnitudes(0, 1000, False)]),
    "atanh": (mp.atanh, UNIT[2:], [uniform(-1, 1), magnitudes(-30, -2)]),
    "erf": (mp.erf, [1.0, 1.0000000000000002, 0.999, 5.9, 5.8, 3.0, 1e-300, 0.5, 5e-324, 0.84375], [uniform(-1.2, 1.2), uniform(-6, 6), magnitudes(-30, 0)]),
    "erfc": (mp.erfc, [0.5, 0.4999999999999999, -0.5, 1.0, 26.5, 26.6, 27.2, 27.22, 20.0, -1.0, -6.0, 6.0], [uniform(-2, 2), uniform(-6, 27), uniform(0.4, 6)]),
    "erfinv": (erfinv, [0.5, -0.9, 0.99, 0.9987, 0.999, 1 - 2.0**-53, 1 - 2.0**-52, -1 + 2.0**-40, 1 - 2.0**-24, 1e-10, 1e-300, 0.99875, 1 - 3.77e-8, 1 - 3.9e-8],
               [uniform(-1, 1), lambda: 1 - random.uniform(1, 2) * 2.0 ** -random.randint(1, 51), magnitudes(-30, -2)]),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), [2.0, 3.0, 5e-324, 1e308], [magnitudes(-1060, 1020, False)]),
    "cbrt": (mp.cbrt, [2.0, 3.0, 5e-324, 1e-310, 1.7e308, 27.0, 1e-300], [uniform(1, 8), magnitudes(-1060, 1020, False)]),
    "lgamma": (lambda x: mp.re(mp.loggamma(x)), [0.5, 1.5, 1.0000001, 2.0000001, 1.9999999, 8.0, 7.9999, 1e300, 1e-300, -0.5, -1.5, -3.3, -10.1, -1e-5, 3.0],
               [uniform(0, 4), uniform(4, 100), uniform(-1.9, -0.1)]),
    "digamma": (mp.digamma, [0.5, 1.0, 2.0, 1e-300, 1e300, -0.4, -1.4, -3.3, 9.99, 10.0], [uniform(0.01, 1.3), uniform(1.6, 30), magnitudes(-20, -2, False)]),
}


def power_point():
    x = random.choice([random.uniform(0.5, 2), random.uniform(0, 100), random.uniform(1, 2) * 2.0 ** random.randint(-1000, 1000)])
    return x, random.choice([random.uniform(-700, 700) / (abs(float(mpmath.fp.log(x))) + 1e-3), random.uniform(-3, 3), float(random.randint(-9, 9))])


def plane(low, high):
    return lambda: (magnitudes(low, high)(), magnitudes(low, high)())


BINARY = {
    "powf": (lambda x, y: x**y, [(2.0, 0.5), (1.0000000000000002, 3e18), (0.9999999999999999, 6e18), (1.4142135623730950, 2040.0),
                                             (0.7071067811865476, -2040.0), (10.0, 308.0), (10.0, -320.0), (5e-324, 0.5), (1.7e308, -0.99),
                                             (3.0, 2.0), (2.0, -1074.0), (1e-310, 1.03)], [power_point]),
    "atan2": (mp.atan2, [(1.0, 1.0), (1e308, 1e308), (1.7e308, -1.6e308), (5e-324, 5e-324), (5e-324, -1.0), (1.0, 5e-324), (-1.0, 1e-17),
                                                      (1e-310, 3.0), (-3.0, -3.0000000000000004), (1e-200, 1e200)],
              [plane(-2, 2), plane(-500, 500), lambda: (random.uniform(-1, 1), random.uniform(-1, 1))]),
    "hypot": (lambda x, y: mp.sqrt(x * x + y * y), [(3.0, 4.0), (1e308, 1e308), (3e-324, 4e-324), (1e-310, 2e-310), (1e160, 1e150), (1e-160, 1e-150), (1e200, 1e-200)],
              [plane(-2, 2), plane(-1000, 1000), lambda: (lambda e: (random.uniform(1, 2) * 2.0**e, random.uniform(1, 2) * 2.0**e))(random.randint(-1070, 1020))]),
}


def nearest(x):
    """The f64 nearest to x (subnormal ones too) and the rest as an f64."""
    if abs(x) >= mpf(2) ** 1024:
        return None
    high = float(x) if abs(x) > mpf(2) ** -1021 else float(int(mp.nint(x * mpf(2) ** 1074))) * 5e-324
    return high, float(x - mpf(high)) if abs(x) > mpf(2) ** -900 else float((x - mpf(high)) * mpf(2) ** 600) * 2.0**-600


count = int(sys.argv[1]) if len(sys.argv) > 1 else 24
for name, (function, points, generators) in {**FUNCTIONS, **BINARY}.items():
    mp.prec = 1400 if name in ("sin", "cos", "tan") else 260
    if name in ("lgamma", "atan2", "powf", "softplus", "asinh"):
        mp.prec = 400
    for arguments in points + [generators[k % len(generators)]() for k in range(count)]:
        arguments = arguments if isinstance(arguments, tuple) else (arguments,)
        if not all(abs(x) < float("inf") for x in arguments):
            continue
        value = function(*map(mpf, arguments))
        result = nearest(mpf(value))
        if result:
            print(name, *(bits(x) for x in arguments), bits(result[0]), bits(result[1]))
