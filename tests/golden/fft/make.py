"""Writes values.txt: Fourier transforms by NumPy, SciPy and PyTorch, and gradients by PyTorch.

Needs numpy, scipy and torch: python3 make.py > values.txt

A line has the name, the parameters, and numbers: of the input, of the result, and where it is known of the gradient of
the sum of the result's parts times fixed weights. Complex numbers are two of them.
"""

import numpy as np
import torch
from scipy import signal

torch.set_default_dtype(torch.float64)
ROUND = np.random.default_rng(7)


def numbers(x):
    x = x.detach().resolve_conj().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)
    if np.iscomplexobj(x):
        x = np.stack([x.real, x.imag], -1)
    return " ".join(repr(float(v)) for v in x.ravel())


def weights(y):
    """cos(0), cos(1), ... as the weights of the parts of a result."""
    parts = torch.view_as_real(y.resolve_conj()) if y.is_complex() else y
    return (parts * torch.cos(torch.arange(parts.numel(), dtype=torch.float64)).reshape(parts.shape)).sum()


def write(name, parameters, shape, x, y, gradient):
    print(f"{name} {' '.join(map(str, parameters))}; {' '.join(map(str, shape))}; {numbers(x)}; {numbers(y)}; {numbers(gradient)}")


def draw(shape, complex_):
    x = ROUND.normal(size=shape)
    return x + 1j * ROUND.normal(size=shape) if complex_ else x


def one():
    for m, n in [(1, 1), (2, 2), (3, 3), (7, 7), (8, 8), (13, 13), (6, 4), (4, 9), (5, 1), (1, 4), (12, 12), (31, 31)]:
        for norm in ["backward", "ortho", "forward"]:
            for name in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]:
                x = draw((m,), name not in ["rfft", "ihfft"])
                y = getattr(np.fft, name)(x, n, norm=norm)
                leaf = torch.tensor(x, requires_grad=True)
                weights(getattr(torch.fft, name)(leaf, n, norm=norm)).backward()
                write(name, [n, norm], (m,), x, y, leaf.grad)


def many():
    for shape, sizes in [((3, 4), (3, 4)), ((4, 5), (3, 7)), ((2, 6), (5, 4))]:
        for name in ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]:
            x = draw(shape, not name.startswith("rfft"))
            y = getattr(np.fft, name)(x, sizes)
            leaf = torch.tensor(x, requires_grad=True)
            weights(getattr(torch.fft, name)(leaf, sizes)).backward()
            write(name, sizes, shape, x, y, leaf.grad)


def pieces():
    for size, hop, width, center, normalized in [(8, 2, 8, True, False), (7, 3, 5, True, True), (8, 4, 8, False, False)]:
        x = draw((2, 24), False)
        window = torch.hann_window(width) + 0.1
        options = dict(n_fft=size, hop_length=hop, win_length=width, window=window, center=center, normalized=normalized)
        leaf = torch.tensor(x, requires_grad=True)
        y = torch.stft(leaf, return_complex=True, **options)
        weights(y).backward()
        parameters = [size, hop, width, int(center), int(normalized)]
        write("stft", parameters, (2, 24), x, y.detach(), leaf.grad)
        z = draw(tuple(y.shape), True)
        leaf = torch.tensor(z, requires_grad=True)
        back = torch.istft(leaf, **options)
        weights(back).backward()
        write("istft", parameters, tuple(y.shape), z, back.detach(), leaf.grad)


def rest():
    a, b = draw((9,), False), draw((4,), False)
    leaf = torch.tensor(a, requires_grad=True)
    full = torch.nn.functional.conv1d(leaf.reshape(1, 1, -1), torch.tensor(b[::-1].copy()).reshape(1, 1, -1), padding=3)
    weights(full.reshape(-1)).backward()
    write("fft_convolve", [repr(float(v)) for v in b], (9,), a, signal.fftconvolve(a, b), leaf.grad)
    for n in [1, 2, 5, 8]:
        for name in ["fftfreq", "rfftfreq"]:
            write(name, [n], (1,), [0.3], getattr(np.fft, name)(n, 0.3), [])
        for name in ["fftshift", "ifftshift"]:
            x = draw((n,), False)
            write(name, [n], (n,), x, getattr(np.fft, name)(x), [])


one()
many()
pieces()
rest()
