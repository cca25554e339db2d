"""Window functions, under PyTorch's names.

`sym=True` gives a symmetric window for filter design; `sym=False` a periodic one, which is a symmetric window
of one more point without the last.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .._api.link import API
from ..core.dtypes import DType, get_default_dtype
from ..core.tensor import Tensor

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming",
    "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip

_functions = API.functions[""]


def _checked(name: str, M: int, dtype: DType | None, layout: Any) -> DType:
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and str(layout).rpartition(".")[2] != "strided":
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    dtype = dtype or get_default_dtype()
    if dtype.name not in ("float32", "float64"):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype.name}")
    return dtype


class _Window:
    """Sample points for a window of M points, and its options."""

    def __init__(
        self, name: str, M: int, sym: bool, dtype: DType | None, layout: Any, device: Any, requires_grad: bool
    ) -> None:
        self.M = M
        self.dtype = _checked(name, M, dtype, layout)
        self.span = M - 1 if sym else M  # between the first point and the last of the symmetric window
        self.options = {"dtype": self.dtype, "device": device}
        self.requires_grad = requires_grad

    def points(self, start: float, end: float) -> Tensor:
        return _functions["linspace"](start, end, self.M, **self.options)

    def finish(self, values: Tensor) -> Tensor:
        return values._set_requires_grad() if self.requires_grad else values

    def trivial(self) -> Tensor | None:
        """The window of no point or one."""
        if self.M > 1:
            return None
        return self.finish(_functions["ones"]((self.M,), **self.options))


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|n - center| / tau).

    >>> rl.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    window = _Window("exponential", M, sym, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if (small := window.trivial()) is not None:
        return small
    middle = window.span / 2 if center is None else center
    distance = window.points(-middle / tau, (-middle + M - 1) / tau).abs()
    return window.finish((-distance).exp())


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """sin(pi (n + 1/2) / M).

    >>> rl.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    window = _Window("cosine", M, sym, dtype, layout, device, requires_grad)
    if (small := window.trivial()) is not None:
        return small
    step = math.pi / (window.span + 1)
    return window.finish(window.points(step / 2, step * (M - 0.5)).sin())


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-(n - middle)^2 / (2 std^2)).

    >>> rl.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    window = _Window("gaussian", M, sym, dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if (small := window.trivial()) is not None:
        return small
    scale = 1 / (std * math.sqrt(2))
    start = -window.span / 2
    distance = window.points(start * scale, (start + M - 1) * scale)
    return window.finish((-(distance * distance)).exp())


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """I0(beta sqrt(1 - x^2)) / I0(beta), x from -1 to 1.

    >>> rl.signal.windows.kaiser(3, beta=0.0)
    tensor([1., 1., 1.])
    """
    window = _Window("kaiser", M, sym, dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if (small := window.trivial()) is not None:
        return small
    i0 = API.functions["special"]["i0"]
    x = window.points(-beta, -beta + 2 * beta * (M - 1) / window.span)
    root = (beta * beta - x * x).clamp(min=0).sqrt()
    return window.finish(i0(root) / i0(_functions["full"]((), float(beta), **window.options)))


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """sum over k of (-1)^k a_k cos(2 pi k n / span).

    >>> rl.signal.windows.general_cosine(3, a=[0.5, 0.5]).round(decimals=3)
    tensor([0., 1., 0.])
    """
    window = _Window("general_cosine", M, sym, dtype, layout, device, requires_grad)
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = list(a)
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    if (small := window.trivial()) is not None:
        return small
    angle = window.points(0.0, 2 * math.pi * (M - 1) / window.span)
    total = _functions["zeros"]((M,), **window.options)
    for k, weight in enumerate(weights):
        total = total + (angle * k).cos() * ((-1) ** k * weight)
    return window.finish(total)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi n / span).

    >>> rl.signal.windows.general_hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return general_cosine(
        M,
        a=[alpha, 1.0 - alpha],
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Hamming window.

    >>> rl.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Hann window.

    >>> rl.signal.windows.hann(3)
    tensor([0., 1., 0.])
    """
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Blackman window.

    >>> rl.signal.windows.blackman(5).round(decimals=2)
    tensor([-0.0000, 0.3400, 1.0000, 0.3400, -0.0000])
    """
    return general_cosine(
        M,
        a=[0.42, 0.5, 0.08],
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The minimum four-term window of Nuttall.

    >>> rl.signal.windows.nuttall(3).round(decimals=3)
    tensor([0., 1., 0.])
    """
    return general_cosine(
        M,
        a=[0.3635819, 0.4891775, 0.1365995, 0.0106411],
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """1 - |2 n / span - 1|: a triangle.

    >>> rl.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    window = _Window("bartlett", M, sym, dtype, layout, device, requires_grad)
    if (small := window.trivial()) is not None:
        return small
    place = window.points(-1.0, -1.0 + 2.0 * (M - 1) / window.span)
    return window.finish(1 - place.abs())
