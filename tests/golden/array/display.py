"""Writes display.txt: arrays and what NumPy's str and repr make of them.

Run with NumPy 2.4: python display.py > display.txt
Each record is a line `= dtype sizes...`, a line of elements, the lines of str behind `- str`, and
those of repr behind `- repr`.
"""

import numpy as np


def record(x):
    print("=", x.dtype, *x.shape)
    if x.dtype == bool:
        print(*(str(e).lower() for e in x.ravel().tolist()))
    else:
        print(*(repr(e) for e in x.ravel().tolist()))
    for name, text in [("str", str(x)), ("repr", repr(x))]:
        print("-", name)
        print(text)


rng = np.random.default_rng(1)
floats = [
    [], [0.0], [-0.0], [1.0], [-1.5, 2.25], [1.0, 0.5, 0.25], [1 / 3, 2 / 3], [np.nan],
    [np.inf], [-np.inf], [np.nan, 1.0], [np.inf, 1.0], [-np.inf, 1.5], [np.nan, -np.inf],
    [np.nan, np.inf, -np.inf, -1.25, 100.0], [1e-5, 1.0], [1e-4, 1e-2], [1e8], [99999999.0],
    [1e6], [999999.0], [123456.789], [1.0, 1000.0], [1.0, 1000.5], [1e10, 1.0, np.nan],
    [1e-300, 1e300], [1e100, -1.0], [1e5, 2e5], [1e16], [1e15], [12345678.9], [0.1 + 0.2],
    [2.0**-9, 3 * 2.0**-9], [0.001953125, 1.0], [5e-324, 1.7976931348623157e308],
    [0.000123456789012], [1e-4], [9.9999e-5], [-0.0, 0.0], [1e22, 1e-7, 3.14159],
    [0.99999999999], [9.999999999, 1.0], [9.99999999999e20],
]
with np.errstate(over="ignore"):
    for dtype in [np.float64, np.float32]:
        for x in floats:
            x = np.array(x, dtype)
            record(x)
            if x.size:
                record(np.array(x[0]))
        record(np.arange(24).reshape(2, 3, 4).astype(dtype))
        record((np.arange(6).reshape(2, 3) - 2.5).astype(dtype))
        record(np.linspace(-1, 1, 30).astype(dtype))
        record(np.linspace(-1, 1, 31).reshape(1, 31).astype(dtype))
        record(rng.normal(size=(5, 13)).astype(dtype))
        record(rng.normal(size=(2, 2, 2, 9)).astype(dtype))
        record((rng.normal(size=(40, 40)) * 10).astype(dtype))
        record(np.exp(rng.normal(size=1001) * 6).astype(dtype))
        record(rng.normal(size=(3, 4, 100)).astype(dtype))
        record(rng.normal(size=(7, 11, 15)).astype(dtype))
        record(rng.normal(size=1000).astype(dtype))
        for shape in [(0, 3), (3, 0), (2, 0, 4)]:
            record(np.zeros(shape, dtype))
for x in [[], [0], [-1, 10, 100], [7], [2**63 - 1, -(2**63)], list(range(60))]:
    record(np.array(x, np.int64))
record(np.array(-5, np.int64))
record(np.arange(1001))
record(np.arange(1200).reshape(30, 40) * -7)
record(np.arange(24).reshape(2, 3, 4))
record(np.arange(120).reshape(1, 2, 3, 4, 5))
record(np.zeros((0, 3), np.int64))
for x in [[], [True], [False], [True, False]]:
    record(np.array(x, bool))
record(np.array(True))
record(np.array(False))
record(np.arange(40).reshape(2, 20) % 3 == 0)
record(np.arange(1200).reshape(30, 40) % 3 == 0)
record(np.zeros((0, 3), bool))
