"""Writes special.txt: exact values of the special functions at points that are hard or typical.

    python3 special.py > special.txt

Each line holds a function, the bits of its arguments and, behind `=`, the bits of the f64 nearest to the
exact value. Needs mpmath, and some minutes.
"""

import random
import struct
import sys
from mpmath import mp, mpf
import mpmath

mp.dps = 50
random.seed(21)
COUNT = 40


def bits(x):
    return struct.pack(">d", x).hex()


def uniform(low, high):
    return lambda: random.uniform(low, high)


def powers(low, high):
    """Positive numbers whose logarithm is uniform."""
    return lambda: 10.0 ** random.uniform(low, high)


def one_of(*values):
    return lambda: float(random.choice(values))


def erfcx_derivatives(x, n):
    """All up to n, and one more."""
    before, last = mp.exp(x * x) * mp.erfc(x), None
    last = 2 * x * before - 2 / mp.sqrt(mp.pi)
    all = [before, last]
    for k in range(1, n + 1):
        all.append(2 * x * all[-1] + 2 * k * all[-2])
    return all


def erfcx(x, n):
    with mp.workdps(400):
        return erfcx_derivatives(x, int(n))[int(n)]


def log_ndtr(x, n):
    n = int(n)
    with mp.workdps(700):
        if n == 0:
            return mp.ln(mp.erfc(-x / mp.sqrt(2)) / 2)
        z = -x / mp.sqrt(2)
        all = erfcx_derivatives(z, n)
        found = []
        for m in range(1, n + 1):
            value = all[m] / all[0]
            for j in range(1, m):
                value -= mp.binomial(m - 1, j - 1) * found[j - 1] * all[m - j] / all[0]
            found.append(value)
        of_square = {1: -x, 2: mpf(-1)}.get(n, mpf(0))
        return of_square + (-1 / mp.sqrt(2)) ** n * found[-1]


def scaled_k(x, n, k):
    with mp.workdps(80):
        # Derivatives of K are sums of its neighbours, those of the product follow by the rule of Leibniz.
        def derivative(j):
            return sum(mp.binomial(j, i) * mp.besselk(abs(int(n) - j + 2 * i), x) for i in range(j + 1)) / mpf(-2) ** j
        return mp.exp(x) * sum(mp.binomial(int(k), j) * derivative(j) for j in range(int(k) + 1))


def expn(x, n):
    with mp.workdps(120):
        return mp.expint(int(n), x)


def ndtri(p):
    with mp.workdps(60):
        y = mpf(-mp.sqrt(-2 * mp.ln(p))) if p < 0.1 else mpf(0)
        for _ in range(200):
            value = mp.erfc(-y / mp.sqrt(2)) / 2
            slope = mp.exp(-y * y / 2) / mp.sqrt(2 * mp.pi)
            step = mp.ln(value / p) * value / slope
            y -= step
            if abs(step) < mpf(10) ** -45:
                return y
    raise AssertionError(p)


def hurwitz(s, q):
    """The terms left of 1 beside a sum of positive ones, with digits for what cancels and what is small."""
    with mp.workdps(60 + int(s * mp.log10(2 + abs(q)))):
        count = int(max(0, mp.ceil(1 - q)))
        return mp.fsum((q + k) ** -s for k in range(count)) + mp.zeta(s, q + count)


def beta(a, b):
    with mp.workdps(80):
        return mp.beta(a, b)


def betaln(a, b):
    with mp.workdps(80):
        return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def gamma_ratio(a, x):
    """Both functions by the series of positive terms, with digits to spare."""
    with mp.workdps(mp.dps + 120):
        term = total = mp.exp(a * mp.ln(x) - x - mp.loggamma(a + 1))
        n = 1
        while abs(term) > abs(total) * mpf(10) ** -mp.dps or n < x - a:
            term *= x / (a + n)
            total += term
            n += 1
        return total, 1 - total


def beta_ratio(a, b, x):
    """The series x^a (1 - x)^b / (a B(a, b)) Σ (a + b)_n / (a + 1)_n x^n of positive terms."""
    with mp.workdps(mp.dps + 30):
        if x > (a + 1) / (a + b + 2):
            return 1 - beta_ratio(b, a, 1 - x)
        factor = mp.exp(a * mp.ln(x) + b * mp.log1p(-x) + mp.loggamma(a + b) - mp.loggamma(a + 1) - mp.loggamma(b))
        term = total = factor
        n = 0
        while abs(term) > abs(total) * mpf(10) ** -mp.dps:
            term *= (a + b + n) / (a + 1 + n) * x
            total += term
            n += 1
        return total


def derivative(f, x, order):
    """By central differences with many digits."""
    with mp.workdps(3 * mp.dps):
        h = x * mpf(10) ** -(mp.dps // 4)
        left, right = f(x - h), f(x + h)
        return (right - left) / (2 * h) if order == 1 else (left + right - 2 * f(x)) / (h * h)


def solved(ratio, wanted, rises, low, high):
    """The number between two positive ones at which a positive function that rises or falls has a value, by halving and
    by secants, of logarithms."""
    goal = mp.ln(wanted)
    def excess(u):
        return mp.ln(ratio(mp.exp(u))) - goal
    low, high = mp.ln(low), mp.ln(high)
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if (excess(middle) < 0) == rises else (low, middle)
    last, u = low, high
    before, now = excess(last), excess(u)
    while abs(u - last) > mpf(10) ** -40:
        last, u, before = u, u - now * (u - last) / (now - before), now
        now = excess(u)
    return mp.exp(u)


def gamma_solved(a, lower, upper):
    """With digits for what is left of 1 in the tail."""
    if lower <= 0.5 and (first := mp.exp((mp.ln(lower) + mp.loggamma(a + 1)) / a)) < mpf(10) ** -40:
        return first
    with mp.workdps(420):
        which = int(lower > 0.5)
        most = a + 40 * mp.sqrt(a) + 800
        return solved(lambda x: gamma_ratio(a, x)[which], (lower, upper)[which], which == 0, mpf(10) ** -50, most)


def beta_solved(a, b, p):
    """Through the odds, the first number that two positive ones sum to 1 with."""
    def at(tail):
        return lambda odds: beta_ratio(a, b, odds / (1 + odds)) if tail == 0 else beta_ratio(b, a, 1 / (1 + odds))
    first = mp.exp((mp.ln(p) + mp.ln(a) + betaln(a, b)) / a)
    if first < mpf(10) ** -40:
        return first
    which = int(p > 0.5)
    with mp.workdps(150):
        odds = solved(at(which), (p, 1 - p)[which], which == 0, mpf(10) ** -50, mpf(10) ** 40)
        return odds / (1 + odds)


def near(a, width):
    """A number near the mean of the distribution with the parameter a."""
    return max(a + random.uniform(-width, width) * a**0.5, a * 0.05)


def pair(low, high):
    def one():
        a = 10.0 ** random.uniform(low, high)
        return a, near(a, 6)
    return one


def triple(low, high):
    def one():
        a, b = (10.0 ** random.uniform(low, high) for _ in "ab")
        mean, width = a / (a + b), (a * b / (a + b + 1)) ** 0.5 / (a + b)
        return a, b, min(max(mean + random.uniform(-6, 6) * width, mean * 0.1), 1 - (1 - mean) * 0.1)
    return one


GAMMA = [(1e-8, 0.3), (1e-8, 3.0), (0.5, 1e-10), (1.0, 1.0), (2.0, 30.0), (30.0, 2.0), (3.0, 200.0), (5.0, 5.0), (1e4, 1e4), (0.577, 0.5)]
# Far below the mean, where nothing is left of the ratio beside 1.
LOW = [(12.0, 1e-10), (20.0, 1e-10), (20.0, 1e-13), (20.0, 1e-15), (9.5, 1e-30), (10.5, 1e-28), (300.0, 30.0), (1e3, 600.0)]
PAIRS = [pair(-2, 1), pair(-1, 1), pair(1, 3), lambda: (random.uniform(0.05, 5), random.uniform(0.01, 15))]
BETA = [(1e-5, 2.0, 0.3), (2.0, 1e-5, 0.3), (1.0, 1.0, 0.5), (1.0, 3.0, 0.2), (3.0, 5.0, 1e-10), (2.0, 300.0, 1e-3), (300.0, 2.0, 0.995),
        (5.0, 5.0, 0.5), (1e3, 1e3, 0.5), (7.0, 2.0, 0.99)]
LOW_BETA = [(12.0, 15.0, 1e-10), (20.0, 20.0, 1e-13), (20.0, 20.0, 1e-15), (9.5, 3.0, 1e-30), (300.0, 30.0, 0.1), (25.0, 12.0, 0.999)]
INVERSE = [(1e-8, 0.3), (1e-8, 1 - 1e-9), (0.01, 0.9), (0.1, 1e-10), (0.5, 1 - 2.0**-53), (1.0, 1e-307), (3.0, 1e-300), (30.0, 1e-300),
           (1e3, 1e-20), (1e3, 1 - 1e-12), (1e4, 0.5), (1e4, 0.999), (2.5, 0.5)]
INVERSE_BETA = [(1e-8, 2.0, 0.3), (2.0, 0.05, 0.3), (0.1, 0.2, 1e-12), (0.1, 0.2, 1 - 1e-12), (1.0, 1.0, 0.3), (1.0, 3.0, 1e-300), (5.0, 5.0, 0.5),
                (1e3, 2.0, 1e-20), (2.0, 1e3, 1 - 1e-12), (1e3, 1e3, 1e-5), (30.0, 0.5, 0.999), (0.5, 30.0, 0.999)]
TRIPLES = [triple(-1, 1), triple(-0.5, 1), triple(1, 3), lambda: (random.uniform(0.05, 5), random.uniform(0.05, 5), random.uniform(0.01, 0.99))]

# A function, some points, and generators of the others.
FUNCTIONS = {
    "polygamma": (lambda x, n: -((-1) ** int(n)) * mp.factorial(n) * hurwitz(n + 1, x), [(1e-10, 1), (1e-5, 3), (1.0, 20), (3.0, 60), (-0.5, 1), (-1e-8, 2), (1e8, 1),
                  (-0.5, 100), (1e4, 100), (-0.5, 30), (-0.5, 10), (-15.5, 10), (-15.5, 100), (-3.5000001, 20), (-3.4999999, 3), (-7.7, 60), (50.5, 100),
                  (-100.5, 160), (5e3, 150), (-234.25, 2), (0.1, 90)],
                  [(uniform(0.01, 3), one_of(1, 2, 3, 4)), (uniform(3, 100), one_of(1, 2, 5)), (uniform(-20, 0), one_of(1, 3))]),
    "zeta": (hurwitz, [(1.0000001, 1.0), (2.0, 1e-5), (2.0, 1e8), (50.0, 0.3), (200.0, 60.0), (4.0, -3.25),
              (11.0, -15.5), (31.0, -0.5), (5.0, -2.4999), (2.0, 1e200), (100.0, 900.0), (20.0, -7.9)],
             [(uniform(1.1, 4), uniform(0.01, 3)), (uniform(2, 60), uniform(1, 60)), (one_of(2, 4), uniform(-20, 0))]),
    "beta": (beta, [(1e-10, 1.0), (1e-10, 1e5), (100.0, 100.0), (0.5, 1e6), (-0.5, 2.0), (-2.5, -1.25)],
             [(uniform(0.01, 5), uniform(0.01, 5)), (uniform(0.1, 5), powers(0, 6)), (uniform(5, 60), uniform(5, 60))]),
    "betaln": (betaln, [(1e-10, 1.0), (1e-10, 1e5), (1e8, 1e8), (0.5, 1e15), (1e-300, 3.0), (1.0, 1.0)],
               [(uniform(0.01, 5), uniform(0.01, 5)), (powers(-3, 8), powers(-3, 8)), (uniform(5, 60), uniform(5, 60))]),
    "beta_slope": (lambda a, b: beta(a, b) * (mp.psi(0, a) - mp.psi(0, a + b)), [(1e-10, 1.0), (100.0, 100.0), (0.5, 1e6)],
             [(uniform(0.01, 5), uniform(0.01, 5)), (uniform(0.1, 5), powers(0, 6)), (uniform(5, 60), uniform(5, 60))]),
    "polygamma_difference": (lambda a, b, n: mp.psi(int(n), a) - mp.psi(int(n), a + b), [(1e-10, 1.0, 0), (1e15, 1.0, 0), (0.5, 1e6, 0), (9.0, 1e-8, 0)],
             [(uniform(0.01, 5), uniform(0.01, 5), one_of(0, 1)), (powers(-3, 8), powers(-3, 8), one_of(0))]),
    "gammainc": (lambda a, x: gamma_ratio(a, x)[0], GAMMA + LOW, PAIRS),
    "gammaincc": (lambda a, x: gamma_ratio(a, x)[1], GAMMA + LOW, PAIRS),
    "gammainc_a": (lambda a, x: derivative(lambda a: gamma_ratio(a, x)[0], a, 1), GAMMA + LOW, PAIRS),
    "gammainc_aa": (lambda a, x: derivative(lambda a: gamma_ratio(a, x)[0], a, 2), GAMMA + LOW, PAIRS),
    "gamma_density": (lambda a, x: mp.exp((a - 1) * mp.ln(x) - x - mp.loggamma(a)), GAMMA + LOW, PAIRS),
    "betainc": (beta_ratio, BETA + LOW_BETA, TRIPLES),
    "betainc_a": (lambda a, b, x: derivative(lambda a: beta_ratio(a, b, x), a, 1), BETA + LOW_BETA, TRIPLES),
    "betainc_b": (lambda a, b, x: derivative(lambda b: beta_ratio(a, b, x), b, 1), BETA + LOW_BETA, TRIPLES),
    "betainc_aa": (lambda a, b, x: derivative(lambda a: beta_ratio(a, b, x), a, 2), BETA + LOW_BETA, TRIPLES),
    "betainc_ab": (lambda a, b, x: derivative(lambda a: derivative(lambda b: beta_ratio(a, b, x), b, 1), a, 1), BETA + LOW_BETA, TRIPLES),
    "betainc_bb": (lambda a, b, x: derivative(lambda b: beta_ratio(a, b, x), b, 2), BETA + LOW_BETA, TRIPLES),
    "beta_density": (lambda a, b, x: x ** (a - 1) * (1 - x) ** (b - 1) / mp.beta(a, b), BETA + LOW_BETA, TRIPLES),
    "bessel_i": (lambda x, n: mp.besseli(int(n), x), [(1e-10, 0), (1e-10, 1), (24.99, 0), (25.01, 0), (25.9, 1), (-700.0, 1), (0.5, -2)],
                 [(uniform(0, 30), one_of(0, 1, 2, 3)), (uniform(-300, 300), one_of(0, 1, 2))]),
    "bessel_ie": (lambda x, n, k: mp.diff(lambda x: mp.exp(-abs(x)) * mp.besseli(int(n), x), x, int(k)), [(24.99, 0, 1), (25.01, 0, 1), (1e3, 1, 2)],
                  [(uniform(0.1, 30), one_of(0, 1), one_of(0, 1, 2)), (uniform(-300, -5), one_of(0, 1), one_of(0, 1, 2))]),
    "bessel_j": (lambda x, n: mp.besselj(int(n), x), [(1e-10, 0), (1e-10, 1), (0.999, 1), (1.001, 1), (24.99, 0), (25.01, 0), (2.404825557695773, 0), (1e6, 1), (3.0, -1)],
                 [(uniform(-30, 30), one_of(0, 1, 2, 3)), (powers(1, 8), one_of(0, 1, 2))]),
    "bessel_y": (lambda x, n: mp.bessely(int(n), x), [(1e-10, 0), (1e-10, 1), (0.099, 1), (0.101, 1), (0.099, 0), (0.101, 0), (24.99, 0), (25.01, 0), (25.9, 1), (0.8935769662791675, 0), (1e6, 1), (3.0, -1)],
                 [(uniform(0.05, 30), one_of(0, 1, 2, 3)), (powers(1, 8), one_of(0, 1, 2)), (powers(-3, 1), one_of(0, 1))]),
    "bessel_k": (lambda x, n: mp.besselk(int(n), x), [(1e-300, 0), (1e-300, 1), (1e-10, 2), (600.0, 1), (0.5, -2)],
                 [(uniform(0.01, 30), one_of(0, 1, 2, 3)), (powers(-8, 2), one_of(0, 1, 2))]),
    "bessel_ke": (scaled_k, [(1e-300, 0, 0), (1e5, 0, 0), (1e5, 1, 2), (1e-5, 0, 1)],
                  [(uniform(0.1, 30), one_of(0, 1), one_of(0, 1, 2)), (powers(-3, 4), one_of(0, 1), one_of(0, 1, 2))]),
    "expn": (expn, [(1e-300, 1), (1e-10, 2), (0.999, 1), (1.001, 1), (0.999, 3), (1.001, 3), (500.0, 1), (0.5, 0), (0.5, -3), (0.5, 40), (5.0, 40)],
             [(uniform(0.01, 3), one_of(1, 2, 3)), (powers(-3, 2), one_of(-2, -1, 0, 1, 2, 5, 10))]),
    "expi": (lambda x: mp.ei(x), [(1e-300,), (0.3725074107813666,), (39.9,), (40.1,), (700.0,), (-1e-10,), (-0.999,), (-1.001,)],
             [(uniform(-5, 5),), (uniform(0, 100),), (uniform(-50, 0),)]),
    "erfcx": (erfcx, [(0.0, 0), (0.73, 0), (0.74, 0), (28.9, 0), (29.1, 0), (1e10, 0), (0.49, 1), (0.51, 1), (1e10, 3), (-5.0, 2)],
              [(uniform(-1, 30), one_of(0)), (uniform(-1, 3), one_of(1, 2, 3)), (powers(0, 8), one_of(1, 2, 3, 4))]),
    "log_ndtr": (log_ndtr, [(0.0, 0), (-0.99, 0), (-1.01, 0), (8.0, 0), (30.0, 0), (-1e8, 0), (-0.1, 2), (0.1, 2), (30.0, 1), (-1e8, 2), (-1e3, 3)],
                 [(uniform(-8, 8), one_of(0, 1)), (uniform(-20, 3), one_of(0, 1, 2)), (uniform(-300, -5), one_of(1, 2))]),
    "ndtri": (ndtri, [(0.5,), (0.25,), (0.2499999,), (0.75,), (5e-324,), (1e-300,), (1 - 2.0**-53,)],
              [(uniform(0, 1),), (powers(-300, -1),), (uniform(0.2, 0.8),)]),
    "gammaincinv": (lambda a, p: gamma_solved(a, p, 1 - p),
                    INVERSE, [(powers(-1, 1), uniform(0, 1)), (powers(-1, 3), powers(-20, 0)), (powers(1, 3), uniform(0, 1)), (uniform(0.3, 5), lambda: 1 - 10.0 ** random.uniform(-15, -1))]),
    "gammainccinv": (lambda a, q: gamma_solved(a, 1 - q, q),
                     INVERSE, [(powers(-1, 1), uniform(0, 1)), (powers(-1, 3), powers(-100, 0)), (powers(1, 3), uniform(0, 1)), (uniform(0.3, 5), lambda: 1 - 10.0 ** random.uniform(-15, -1))]),
    "betaincinv": (beta_solved, INVERSE_BETA, [(powers(-1, 1), powers(-1, 1), uniform(0, 1)), (powers(-1, 2), powers(-1, 2), powers(-20, 0)), (powers(1, 3), powers(1, 3), uniform(0, 1)),
                   (uniform(0.3, 5), uniform(0.3, 5), lambda: 1 - 10.0 ** random.uniform(-15, -1))]),
}

def drawn_by(generator):
    """Arguments from a generator for all, or from one for each."""
    return generator() if callable(generator) else tuple(one() for one in generator)


chosen = sys.argv[1:] or FUNCTIONS
for name in chosen:
    function, points, generators = FUNCTIONS[name]
    drawn = [drawn_by(generators[k % len(generators)]) for k in range(COUNT)]
    for arguments in points + drawn:
        arguments = tuple(map(float, arguments))
        value = function(*map(mpf, arguments))
        print(name, *(bits(float(x)) for x in arguments), "=", bits(float(mp.re(value))))
