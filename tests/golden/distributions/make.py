"""Writes values.txt: densities, moments and the like of distributions by SciPy, and divergences by quadrature.

Needs scipy and numpy: python3 make.py > values.txt
"""

import numpy as np
from scipy import integrate, optimize, stats

# Each distribution with parameters as bibun takes them, SciPy's, and arguments of the density.
NUMBERS = [
    ("Normal", (0.3, 1.7), stats.norm(0.3, 1.7), (-4.0, 0.3, 1.0, 12.0)),
    ("LogNormal", (0.3, 0.7), stats.lognorm(0.7, scale=np.exp(0.3)), (0.01, 1.0, 5.0)),
    ("Exponential", (2.5,), stats.expon(scale=1 / 2.5), (0.0, 0.1, 3.0)),
    ("Laplace", (0.5, 1.5), stats.laplace(0.5, 1.5), (-9.0, 0.5, 0.7, 20.0)),
    ("Cauchy", (0.5, 1.5), stats.cauchy(0.5, 1.5), (-900.0, 0.5, 2.0)),
    ("Uniform", (-1.0, 2.5), stats.uniform(-1.0, 3.5), (-1.0, 0.3, 2.5)),
    ("Gumbel", (0.5, 1.5), stats.gumbel_r(0.5, 1.5), (-2.0, 0.5, 9.0)),
    ("Weibull", (1.5, 0.8), stats.weibull_min(0.8, scale=1.5), (0.01, 1.0, 7.0)),
    ("Weibull", (1.5, 2.5), stats.weibull_min(2.5, scale=1.5), (0.01, 1.0, 3.0)),
    ("Gamma", (0.4, 2.0), stats.gamma(0.4, scale=0.5), (1e-6, 0.3, 4.0)),
    ("Gamma", (7.5, 0.5), stats.gamma(7.5, scale=2.0), (1.0, 15.0, 60.0)),
    ("Beta", (0.5, 2.0), stats.beta(0.5, 2.0), (1e-6, 0.3, 0.99)),
    ("Beta", (3.0, 5.5), stats.beta(3.0, 5.5), (0.01, 0.3, 0.9)),
    ("StudentT", (3.5, 0.5, 1.5), stats.t(3.5, 0.5, 1.5), (-30.0, 0.5, 1.0, 3.0)),
    ("VonMises", (0.4, 2.5), stats.vonmises(2.5, loc=0.4), (-2.0, 0.4, 3.0)),
    ("Bernoulli", (0.3,), stats.bernoulli(0.3), (0.0, 1.0)),
    ("Geometric", (0.3,), stats.geom(0.3, loc=-1), (0.0, 1.0, 9.0)),
    ("Binomial", (12.0, 0.3), stats.binom(12, 0.3), (0.0, 4.0, 12.0)),
    ("Poisson", (3.5,), stats.poisson(3.5), (0.0, 3.0, 20.0)),
]
DISCRETE = {"Bernoulli", "Geometric", "Binomial", "Poisson"}


def write(name, parameters, what, arguments, value):
    texts = [" ".join(map(repr, map(float, numbers))) for numbers in (parameters, arguments)]
    print(f"{name} {texts[0]}; {what} {texts[1]}; {float(value)!r}")


def quantile(name, known, p):
    if name == "VonMises":  # SciPy's is not that of its own distribution function to the last digits.
        return optimize.brentq(lambda x: known.cdf(x) - p, -3.0, 3.5, xtol=1e-15, rtol=1e-15)
    return known.ppf(p)


def numbers():
    for name, parameters, known, arguments in NUMBERS:
        discrete = name in DISCRETE
        for x in arguments:
            write(name, parameters, "log_prob", [x], known.logpmf(x) if discrete else known.logpdf(x))
            write(name, parameters, "cdf", [x], known.cdf(x))
        for p in (1e-6, 0.3, 0.5, 0.999, *([1.0] if discrete else [])):
            write(name, parameters, "icdf", [p], quantile(name, known, p))
        if name not in ("Cauchy", "VonMises"):
            write(name, parameters, "mean", [], known.mean())
            write(name, parameters, "variance", [], known.var())
        write(name, parameters, "entropy", [], known.entropy())


def vectors():
    dirichlet = stats.dirichlet([0.5, 2.0, 3.5])
    for x in ([0.2, 0.3, 0.5], [0.01, 0.9, 0.09]):
        write("Dirichlet", [], "log_prob", x, dirichlet.logpdf(x))
    write("Dirichlet", [], "entropy", [], dirichlet.entropy())
    factor = np.array([[1.5, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.3, 0.2, 2.0]])
    normal = stats.multivariate_normal([0.1, -0.2, 0.3], factor @ factor.T)
    for x in ([0.0, 0.0, 0.0], [1.0, -2.0, 3.0]):
        write("MultivariateNormal", [], "log_prob", x, normal.logpdf(x))
    write("MultivariateNormal", [], "entropy", [], normal.entropy())
    multinomial = stats.multinomial(7, [0.2, 0.3, 0.5])
    for x in ([7, 0, 0], [1, 2, 4]):
        write("Multinomial", [], "log_prob", x, multinomial.logpmf(x))
    write("Multinomial", [], "entropy", [], multinomial.entropy())


# Pairs whose divergence is the integral over these limits, or the sum.
REAL, POSITIVE, UNIT = (-np.inf, np.inf), (0.0, np.inf), (0.0, 1.0)


def known(name, *parameters):
    make = {
        "Normal": lambda m, s: stats.norm(m, s),
        "LogNormal": lambda m, s: stats.lognorm(s, scale=np.exp(m)),
        "Exponential": lambda r: stats.expon(scale=1 / r),
        "Laplace": stats.laplace,
        "Cauchy": stats.cauchy,
        "Uniform": lambda a, b: stats.uniform(a, b - a),
        "Gumbel": stats.gumbel_r,
        "Weibull": lambda s, k: stats.weibull_min(k, scale=s),
        "Gamma": lambda a, b: stats.gamma(a, scale=1 / b),
        "Beta": stats.beta,
        "StudentT": stats.t,
        "VonMises": lambda m, k: stats.vonmises(k, loc=m),
        "Bernoulli": stats.bernoulli,
        "Geometric": lambda p: stats.geom(p, loc=-1),
        "Binomial": lambda n, p: stats.binom(int(n), p),
        "Poisson": stats.poisson,
    }
    return make[name](*parameters)


OF = {
    "Normal": (0.3, 0.8), "LogNormal": (0.2, 0.6), "Exponential": (1.7,), "Laplace": (0.4, 0.9),
    "Cauchy": (0.4, 0.9), "Uniform": (-0.5, 1.5), "Gumbel": (0.2, 0.7), "Weibull": (1.3, 1.8),
    "Gamma": (2.3, 1.4), "Beta": (2.2, 3.1), "StudentT": (5.0, 0.3, 0.8), "VonMises": (0.4, 1.8),
    "Bernoulli": (0.3,), "Geometric": (0.3,), "Binomial": (9.0, 0.3), "Poisson": (2.5,),
}
TO = {
    "Normal": (-0.2, 1.3), "LogNormal": (0.5, 0.9), "Exponential": (0.9,), "Laplace": (-0.3, 1.4),
    "Cauchy": (-0.3, 1.6), "Uniform": (-1.0, 2.0), "Gumbel": (-0.1, 1.2), "Weibull": (0.9, 1.2),
    "Gamma": (1.6, 0.8), "Beta": (1.4, 2.3), "VonMises": (-0.5, 0.7),
    "Bernoulli": (0.6,), "Geometric": (0.6,), "Binomial": (9.0, 0.6), "Poisson": (3.5,),
}
# What is uniform on an interval where the other one has a density.
INSIDE = {"Exponential": (0.3, 1.7), "Gamma": (0.3, 1.7), "LogNormal": (0.3, 1.7), "Weibull": (0.0, 1.7), "Beta": (0.2, 0.9)}
LIMITS = {
    "Exponential": POSITIVE, "LogNormal": POSITIVE, "Weibull": POSITIVE, "Gamma": POSITIVE, "Beta": UNIT,
    "VonMises": (-np.pi, np.pi),
}
PAIRS = [(name, name) for name in TO] + [
    (p, q)
    for q, ps in {
        "Normal": "Beta Exponential Gamma Gumbel Laplace LogNormal StudentT Uniform Weibull",
        "Exponential": "Beta Gamma LogNormal Uniform Weibull",
        "Gamma": "Beta Exponential LogNormal Uniform Weibull",
        "LogNormal": "Beta Exponential Gamma Uniform Weibull",
        "Weibull": "Beta Exponential Gamma LogNormal Uniform",
        "Beta": "Uniform",
        "Gumbel": "Exponential Gamma Laplace Normal Uniform",
        "Laplace": "Exponential Normal",
        "Geometric": "Bernoulli",
        "Poisson": "Bernoulli",
    }.items()
    for p in ps.split()
]


def divergences():
    for p_name, q_name in PAIRS:
        of = INSIDE.get(q_name, OF[p_name]) if p_name == "Uniform" else OF[p_name]
        p, q = known(p_name, *of), known(q_name, *TO[q_name])
        if p_name in DISCRETE:
            k = np.arange(2 if p_name == "Bernoulli" else 10 if p_name == "Binomial" else 400)
            mass = p.pmf(k)
            terms = np.where(mass > 0, mass * (p.logpmf(k) - q.logpmf(k)), 0.0)
            value = terms.sum()
        else:
            def term(x):
                return p.pdf(x) * (p.logpdf(x) - q.logpdf(x)) if p.pdf(x) > 0 else 0.0

            low, high = of if p_name == "Uniform" else LIMITS.get(p_name, REAL)
            # In parts, whose ends are where there may be kinks.
            inner = sorted({float(p.median()) if p_name != "VonMises" else 0.4, TO[q_name][0]})
            ends = [low, *(x for x in inner if low < x < high), high]
            value = sum(
                integrate.quad(term, a, b, epsabs=1e-13, epsrel=1e-12, limit=500)[0]
                for a, b in zip(ends, ends[1:])
            )
        write(p_name, of, f"kl {q_name}", TO[q_name], value)


numbers()
vectors()
divergences()
