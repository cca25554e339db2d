"""The functions of `rushlight.fft`: sizes, dimensions and normalization resolved, then one transform.

A signal is cropped or padded with zeros to the size asked for. `norm` names the direction that is scaled by
the size ("backward", the default, or "forward"), or "ortho" for both by its root.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import DType, get_default_dtype
from ..core.errors import check
from ..core.registry import FUNCTION, OUT, composite
from ..core.shapes import Shape, wrap_dim, wrap_dims
from ..core.tensor import Tensor

_SCALES = {None: (0, 2), "backward": (0, 2), "forward": (2, 0), "ortho": (1, 1)}


def scale(norm: str | None, forward: bool) -> int:
    check(norm in _SCALES, f'Invalid normalization mode: "{norm}"; choose "backward", "forward" or "ortho"')
    return _SCALES[norm][0 if forward else 1]


# Operands.


def as_real(x: Tensor, name: str) -> Tensor:
    check(not x.is_complex(), f"{name} expects a real input tensor, but got {x.dtype.name}")
    dtype: DType = x.dtype if x.is_floating_point() else get_default_dtype()
    check(dtype.opmath is dtype, f"{name}: {dtype.name} is not supported; convert to float32 first")
    return x if dtype is x.dtype else x.to(dtype)


def as_complex(x: Tensor, name: str) -> Tensor:
    if x.is_complex():
        return x
    real = as_real(x, name)
    return real.to(real.dtype.to_complex())


def resized(x: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """`x` with these sizes: cropped, or padded with zeros at the end."""
    padding = [0] * (2 * x.ndim)
    for dim, size in zip(dims, sizes, strict=True):
        check(size >= 1, f"Invalid number of data points ({size}) specified; a transform needs at least one")
        padding[2 * (x.ndim - 1 - dim) + 1] = size - x.shape[dim]
    return run_name("constant_pad_nd", x, tuple(padding), 0) if any(padding) else x


def sizes_and_dims(x: Tensor, s: Sequence[int] | None, dim: Sequence[int] | None) -> tuple[list[int], Shape]:
    """The dimensions to transform and the sizes they shall have."""
    if dim is not None:
        dims = tuple(wrap_dim(d, x.ndim, name="fft") for d in dim)
        check(len(set(dims)) == len(dims), "FFT dims must be unique")
        check(
            s is None or len(s) == len(dims),
            "When given, dim and shape arguments must have the same length: "
            f"dim has {len(dims)}, shape {0 if s is None else len(s)}",
        )
    elif s is not None:
        check(
            len(s) <= x.ndim, f"Got shape with {len(s)} values but input tensor only has {x.ndim} dimensions."
        )
        dims = tuple(range(x.ndim - len(s), x.ndim))
    else:
        dims = tuple(range(x.ndim))
    sizes = [x.shape[d] for d in dims]
    for i, size in enumerate(s or ()):
        sizes[i] = sizes[i] if size == -1 else size
    return sizes, dims


# One to many dimensions, by what comes in and goes out.


def complex_transform(
    x: Tensor,
    s: Sequence[int] | None,
    dim: Sequence[int] | None,
    norm: str | None,
    *,
    forward: bool,
    name: str,
) -> Tensor:
    sizes, dims = sizes_and_dims(x, s, dim)
    ready = resized(as_complex(x, name), dims, sizes)
    return run_name("_fft_c2c", ready, dims, scale(norm, forward), forward)


def real_transform(
    x: Tensor,
    s: Sequence[int] | None,
    dim: Sequence[int] | None,
    norm: str | None,
    *,
    forward: bool,
    name: str,
) -> Tensor:
    """rfft and ihfft: the half spectrum of a real signal."""
    x = as_real(x, name)
    sizes, dims = sizes_and_dims(x, s, dim)
    check(len(dims) > 0, f"{name} must transform at least one axis")
    ready = resized(x, dims, sizes)
    if forward:
        return run_name("_fft_r2c", ready, dims, scale(norm, True), True)
    half = run_name("_fft_r2c", ready, dims[-1:], scale(norm, False), True).conj().resolve_conj()
    return run_name("_fft_c2c", half, dims[:-1], scale(norm, False), False) if len(dims) > 1 else half


def to_real_transform(
    x: Tensor,
    s: Sequence[int] | None,
    dim: Sequence[int] | None,
    norm: str | None,
    *,
    forward: bool,
    name: str,
) -> Tensor:
    """irfft and hfft: the real signal of a half spectrum, of even length unless a size is given."""
    sizes, dims = sizes_and_dims(x, s, dim)
    check(len(dims) > 0, f"{name} must transform at least one axis")
    last = sizes[-1] if s is not None and s[-1] != -1 else 2 * (sizes[-1] - 1)
    check(last >= 1, f"Invalid number of data points ({last}) specified; give n or s")
    ready = resized(as_complex(x, name), dims, [*sizes[:-1], last // 2 + 1])
    if not forward:
        return run_name("_fft_c2r", ready, dims, scale(norm, False), last)
    if len(dims) > 1:
        ready = run_name("_fft_c2c", ready, dims[:-1], scale(norm, True), True)
    return run_name("_fft_c2r", ready.conj().resolve_conj(), dims[-1:], scale(norm, True), last)


# The public functions, each in one, two and any number of dimensions.

_ONE = "fft_{0}(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"
_TWO = "fft_{0}2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"
_MANY = "fft_{0}n(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"


def _declare(name: str, transform: Callable[..., Tensor], forward: bool) -> None:
    def one(self: Tensor, n: int | None, dim: int, norm: str | None) -> Tensor:
        return transform(self, None if n is None else (n,), (dim,), norm, forward=forward, name=name)

    def many(self: Tensor, s: Sequence[int] | None, dim: Sequence[int] | None, norm: str | None) -> Tensor:
        return transform(self, s, dim, norm, forward=forward, name=name)

    for template, suffix, body in ((_ONE, "", one), (_TWO, "2", many), (_MANY, "n", many)):
        composite(template.format(name), api=FUNCTION | OUT, namespace="fft", public_name=name + suffix)(body)


for _name, _transform, _forward in (
    ("fft", complex_transform, True),
    ("ifft", complex_transform, False),
    ("rfft", real_transform, True),
    ("ihfft", real_transform, False),
    ("irfft", to_real_transform, False),
    ("hfft", to_real_transform, True),
):
    _declare(_name, _transform, _forward)


def shifted(self: Tensor, dim: Sequence[int] | None, towards_centre: bool) -> Tensor:
    dims = tuple(range(self.ndim)) if dim is None else wrap_dims(dim, self.ndim, name="fftshift")
    shifts = tuple(self.shape[d] // 2 if towards_centre else (self.shape[d] + 1) // 2 for d in dims)
    return run_name("roll", self, shifts, dims)


@composite(
    "fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor",
    api=FUNCTION,
    namespace="fft",
    public_name="fftshift",
)
def fftshift(self: Tensor, dim: Sequence[int] | None) -> Tensor:
    return shifted(self, dim, True)


@composite(
    "fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor",
    api=FUNCTION,
    namespace="fft",
    public_name="ifftshift",
)
def ifftshift(self: Tensor, dim: Sequence[int] | None) -> Tensor:
    return shifted(self, dim, False)


def frequencies(first: int, count: int, n: int, d: float, dtype: DType | None, device: Any) -> Tensor:
    place = run_name("arange.start", first, first + count, dtype or get_default_dtype(), None, device, None)
    return place * (1.0 / (n * d))


@composite(
    "fft_fftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "bool? pin_memory=None) -> Tensor",
    api=FUNCTION | OUT,
    namespace="fft",
    public_name="fftfreq",
)
def fftfreq(n: int, d: float, dtype: DType | None, device: Any) -> Tensor:
    negative = n // 2
    return shifted(frequencies(-negative, n, n, d, dtype, device), None, False)


@composite(
    "fft_rfftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "bool? pin_memory=None) -> Tensor",
    api=FUNCTION | OUT,
    namespace="fft",
    public_name="rfftfreq",
)
def rfftfreq(n: int, d: float, dtype: DType | None, device: Any) -> Tensor:
    return frequencies(0, n // 2 + 1, n, d, dtype, device)
