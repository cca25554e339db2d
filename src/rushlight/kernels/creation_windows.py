"""Window functions (bartlett, blackman, hamming, hann, kaiser): eager kernels on NumPy arrays.

All are computed in double and rounded once.
"""

from __future__ import annotations

import numpy as np

from ..core.lazy import LazyModule
from ..core.registry import kernel

special = LazyModule("scipy.special")


def phase(window_length: int, periodic: bool = True) -> np.ndarray:
    """Places from 0 to 1; a periodic window stops one place short, so that it continues when repeated."""
    return np.arange(window_length) / max(window_length if periodic else window_length - 1, 1)


def cosines(places: np.ndarray, *weights: float) -> np.ndarray:
    """The sum of weight i times cos(2 pi i place)."""
    return sum(
        (weight * np.cos(2 * np.pi * i * places) for i, weight in enumerate(weights)), np.zeros(places.shape)
    )


def single(window_length: int, values: np.ndarray) -> np.ndarray:
    """A window of one place is 1, whatever its shape."""
    return np.ones(1) if window_length == 1 else values


def hamming(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46) -> np.ndarray:
    return single(window_length, cosines(phase(window_length, periodic), alpha, -beta))


def hann(window_length: int, periodic: bool = True) -> np.ndarray:
    return hamming(window_length, periodic, 0.5, 0.5)


def blackman(window_length: int, periodic: bool = True) -> np.ndarray:
    return single(window_length, cosines(phase(window_length, periodic), 0.42, -0.5, 0.08))


def bartlett(window_length: int, periodic: bool = True) -> np.ndarray:
    return single(window_length, 1 - np.abs(2 * phase(window_length, periodic) - 1))


def kaiser(window_length: int, periodic: bool = True, beta: float = 12.0) -> np.ndarray:
    inside = np.clip(1 - (2 * phase(window_length, periodic) - 1) ** 2, 0, None)
    return single(window_length, special.i0(beta * np.sqrt(inside)) / special.i0(beta))


kernel("bartlett_window", lambda window_length: bartlett(window_length))
kernel("bartlett_window.periodic", bartlett)
kernel("blackman_window", lambda window_length: blackman(window_length))
kernel("blackman_window.periodic", blackman)
kernel("hann_window", lambda window_length: hann(window_length))
kernel("hann_window.periodic", hann)
kernel("hamming_window", lambda window_length: hamming(window_length))
kernel("hamming_window.periodic", lambda window_length, periodic: hamming(window_length, periodic))
kernel(
    "hamming_window.periodic_alpha",
    lambda window_length, periodic, alpha: hamming(window_length, periodic, alpha),
)
kernel("hamming_window.periodic_alpha_beta", hamming)
kernel("kaiser_window", lambda window_length: kaiser(window_length))
kernel("kaiser_window.periodic", lambda window_length, periodic: kaiser(window_length, periodic))
kernel("kaiser_window.beta", kaiser)
