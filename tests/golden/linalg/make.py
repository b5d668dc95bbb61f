"""Writes values.txt: what NumPy and SciPy compute of some matrices, in f64.

Needs numpy and scipy: python3 make.py > values.txt
A line is the function, the number of the matrix, a second argument or nothing, and the result, with the sizes in front.
The matrix itself stands before its first use.
"""

import numpy as np
import scipy.linalg

SQUARE = {
    "three": [[0.5, -1.25, 2.0], [3.0, 0.75, -0.5], [1.5, 2.5, -1.0]],
    "hilbert": [[1 / (i + j + 1) for j in range(4)] for i in range(4)],
    "five": [[np.sin(1.0 + 3 * i * j + 7 * j * j) for j in range(5)] for i in range(5)],
    "twenty": [[np.cos(2.0 + 5 * i * j + 3 * j * j) for j in range(20)] for i in range(20)],
}
TALL = [[np.sin(2.0 + i * i * (j + 1) + 5 * j) for j in range(3)] for i in range(6)]


def text(x):
    x = np.atleast_1d(np.asarray(x, dtype=float))
    return " ".join([str(len(x.shape)), *map(str, x.shape), *(repr(float(e)) for e in x.ravel())])


matrices = []


def write(name, a, value, other=None):
    if text(a) not in matrices:
        matrices.append(text(a))
        print(f"matrix; {matrices[-1]}")
    number = matrices.index(text(a))
    print(f"{name}; {number}; {'' if other is None else text(other)}; {text(value)}")


def of_square(a):
    n = len(a)
    b = np.array([[np.cos(i + 2 * j) for j in range(2)] for i in range(n)])
    write("solve", a, np.linalg.solve(a, b), b)
    write("inv", a, np.linalg.inv(a))
    write("det", a, np.linalg.det(a))
    write("log of det", a, np.linalg.slogdet(a)[1])
    write("sign of det", a, np.linalg.slogdet(a)[0])
    write("expm", a, scipy.linalg.expm(a))
    write("matrix_power", a, np.linalg.matrix_power(a, 3))
    for order in (None, "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        write(f"cond {order}", a, np.linalg.cond(a, "fro" if order is None else order))
    p, l, u = scipy.linalg.lu(a)
    for name, part in (("p", p), ("l", l), ("u", u)):
        write(f"lu {name}", a, part)


def of_any(a):
    write("svdvals", a, np.linalg.svd(a)[1])
    write("pinv", a, np.linalg.pinv(a))
    b = np.array([np.cos(3.0 * i) for i in range(len(a))])
    write("lstsq", a, np.linalg.lstsq(a, b, rcond=None)[0], b)
    write("matrix_rank", a, np.linalg.matrix_rank(a))
    q, r = np.linalg.qr(a)
    signs = np.sign(np.diag(r))
    write("qr q", a, q * signs)
    write("qr r", a, r * signs[:, None])
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        write(f"matrix_norm {order}", a, np.linalg.norm(a, order))
    for order in (0, 1, 2, 3.5, -1.5, np.inf, -np.inf):
        write(f"vector_norm {order}", a, np.linalg.norm(np.ravel(a), order))
    write("cov", a, np.cov(a))
    write("corrcoef", a, np.corrcoef(a))


def of_positive(a):
    write("cholesky", a, np.linalg.cholesky(a))
    write("eigvalsh", a, np.linalg.eigvalsh(a))
    write("sqrtm", a, scipy.linalg.sqrtm(a))
    write("logm", a, scipy.linalg.logm(a))
    write("fractional_matrix_power", a, scipy.linalg.fractional_matrix_power(a, -0.5))


for matrix in SQUARE.values():
    matrix = np.array(matrix)
    of_square(matrix)
    of_any(matrix)
    of_positive(matrix @ matrix.T + np.eye(len(matrix)))
of_any(np.array(TALL))
of_any(np.array(TALL).T)
two = [[1.0, 2.0], [3.0, 4.0]]
write("kron", two, np.kron(two, TALL), TALL)
write("block_diag", two, scipy.linalg.block_diag(two, TALL), TALL)
write("cross", TALL, np.cross(TALL, np.flip(TALL)), np.flip(TALL))
write("vander", [1.5, -2.0], np.vander([1.5, -2.0], 4))
