"""`ops.prims`: PyTorch's smaller set of operators, each as the operator of ATen that it is.

Elementwise prims take tensors of one shape and one dtype: they neither broadcast nor promote. They are no
part of the registry, which has what they are made of: calls run and are captured and differentiated through
that. The module is loaded when the namespace is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import dtypes
from ..core.binding import by_name
from ..core.dispatch import run_name
from ..core.dtypes import Category
from ..core.errors import check
from ..core.registry import LIBRARY, Api, Kind, OpDef
from ..core.schema import parse_schema
from ..core.tensor import Tensor

UNARY = {
    "bessel_i0": "i0",
    "bessel_i0e": "special_i0e",
    "bessel_i1": "special_i1",
    "bessel_i1e": "special_i1e",
    "bessel_j0": "special_bessel_j0",
    "bessel_j1": "special_bessel_j1",
    "erf_inv": "erfinv",
    "erfcx": "special_erfcx",
    "ndtri": "special_ndtri",
    "spherical_bessel_j0": "special_spherical_bessel_j0",
} | {
    name: name
    for name in (
        "abs",
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "bitwise_not",
        "ceil",
        "conj_physical",
        "cos",
        "cosh",
        "digamma",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "isfinite",
        "lgamma",
        "log",
        "log10",
        "log1p",
        "log2",
        "neg",
        "reciprocal",
        "round",
        "rsqrt",
        "sign",
        "signbit",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "trunc",
    )
}
BINARY = {
    "add": "add.Tensor",
    "atan2": "atan2",
    "bitwise_and": "bitwise_and.Tensor",
    "bitwise_or": "bitwise_or.Tensor",
    "bitwise_xor": "bitwise_xor.Tensor",
    "eq": "eq.Tensor",
    "fmax": "fmax",
    "fmin": "fmin",
    "fmod": "fmod.Tensor",
    "gcd": "gcd",
    "ge": "ge.Tensor",
    "gt": "gt.Tensor",
    "hypot": "hypot",
    "igamma": "igamma",
    "igammac": "igammac",
    "le": "le.Tensor",
    "lt": "lt.Tensor",
    "maximum": "maximum",
    "minimum": "minimum",
    "mul": "mul.Tensor",
    "ne": "ne.Tensor",
    "nextafter": "nextafter",
    "pow": "pow.Tensor_Tensor",
    "remainder": "remainder.Tensor",
    "shift_left": "bitwise_left_shift.Tensor",
    "shift_right_arithmetic": "bitwise_right_shift.Tensor",
    "sub": "sub.Tensor",
    "zeta": "special_zeta",
}
_ALPHA = ("add", "sub")  # they scale their second operand
# what each prim is named after, for those that are one operator
TWINS = UNARY | BINARY


def prim(schema: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a prim by its body, which names the arguments that it needs."""

    def declare(body: Callable[..., Any]) -> Callable[..., Any]:
        parsed = parse_schema(f"prims::{schema}")
        LIBRARY.add(
            OpDef(
                parsed,
                Kind.COMPOSITE,
                "prims",
                api=Api.NONE,
                body=by_name(body, parsed.argument_names, f"prim {parsed.name}"),
            )
        )
        return body

    return declare


def _alike(*tensors: Tensor) -> None:
    """Refuse operands that would have to be broadcast or promoted; numbers as 0-d tensors are neither."""
    first = next((tensor for tensor in tensors if tensor.ndim), tensors[0])
    for tensor in tensors:
        if tensor.ndim == 0 and first.ndim:
            continue
        check(
            tensor.shape == first.shape,
            f"Shape {list(tensor.shape)} is not the expected shape "
            f"{list(first.shape)}; prims do not broadcast",
        )
        check(
            tensor.dtype is first.dtype,
            f"Tensor with dtype {tensor.dtype.name} is not the expected dtype "
            f"of {first.dtype.name}; prims do not promote",
        )


def _declare_elementwise() -> None:
    for name, twin in UNARY.items():
        prim(f"{name}(Tensor self) -> Tensor")(_unary(twin))
    for name, twin in BINARY.items():
        prim(f"{name}(Tensor self, Tensor other) -> Tensor")(_binary(twin, name in _ALPHA))


def _unary(twin: str) -> Callable[..., Any]:
    if twin == "round":
        return lambda self: run_name("round", self)
    return lambda self: run_name(twin, self)


def _binary(twin: str, alpha: bool) -> Callable[..., Any]:
    def body(self, other):  # type: ignore[no-untyped-def]
        _alike(self, other)
        return run_name(twin, self, other, 1) if alpha else run_name(twin, self, other)

    return body


_declare_elementwise()


@prim("div(Tensor self, Tensor other) -> Tensor")
def div(self: Tensor, other: Tensor) -> Any:
    _alike(self, other)
    if self.dtype.category <= Category.INTEGRAL:
        return run_name("div.Tensor_mode", self, other, "trunc")
    return run_name("div.Tensor", self, other)


@prim("fma(Tensor a, Tensor b, Tensor c) -> Tensor")
def fma(a: Tensor, b: Tensor, c: Tensor) -> Any:
    _alike(a, b, c)
    return run_name("addcmul", c, a, b, 1)


@prim("where(Tensor pred, Tensor a, Tensor b) -> Tensor")
def where(pred: Tensor, a: Tensor, b: Tensor) -> Any:
    _alike(a, b)
    return run_name("where.self", pred, a, b)


prim("frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)")(lambda self: run_name("frexp.Tensor", self))
prim("fill(Tensor self, Scalar value) -> Tensor")(lambda self, value: run_name("fill.Scalar", self, value))
prim("convert_element_type(Tensor a, ScalarType dtype) -> Tensor")(
    lambda a, dtype: run_name("_to_copy", a, dtype, None, None, None, False, None)
)
prim("device_put(Tensor a, Device device, bool non_blocking=False) -> Tensor")(
    lambda a, device, non_blocking: run_name("_to_copy", a, None, None, device, None, non_blocking, None)
)
prim("item(Tensor a) -> Scalar")(lambda a: a.item())

# Shapes.

prim("view_of(Tensor(a) a) -> Tensor(a)")(lambda a: run_name("alias", a))
prim("view_of_dtype(Tensor(a) a, ScalarType dtype) -> Tensor(a)")(
    lambda a, dtype: run_name("view.dtype", a, dtype)
)
prim("conj(Tensor(a) a) -> Tensor(a)")(lambda a: run_name("_conj", a))
prim("real(Tensor(a) self) -> Tensor(a)")(lambda self: run_name("real", self))
prim("imag(Tensor(a) self) -> Tensor(a)")(lambda self: run_name("imag", self))
prim("rev(Tensor a, int[] dims) -> Tensor")(lambda a, dims: run_name("flip", a, dims))
prim("reshape(Tensor a, SymInt[] shape) -> Tensor")(
    lambda a, shape: run_name("clone", run_name("reshape", a, shape), None)
)
prim("transpose(Tensor(a) a, int[] permutation) -> Tensor(a)")(
    lambda a, permutation: run_name("permute", a, permutation)
)
prim("squeeze(Tensor(a) a, int[] dimensions) -> Tensor(a)")(
    lambda a, dimensions: run_name("squeeze.dims", a, dimensions)
)
prim("as_strided(Tensor(a!) a, SymInt[] size, SymInt[] stride, SymInt storage_offset) -> Tensor(a!)")(
    lambda a, size, stride, storage_offset: run_name("as_strided", a, size, stride, storage_offset)
)
prim(
    "as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt storage_offset) -> "
    "Tensor"
)(
    lambda self, src, size, stride, storage_offset: run_name(
        "as_strided_scatter", self, src, size, stride, storage_offset
    )
)
prim("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor")(
    lambda self, memory_format: run_name("clone", self, memory_format)
)
prim("cat(Tensor[] tensors, int dim) -> Tensor")(lambda tensors, dim: run_name("cat", tensors, dim))
prim("copy_to(Tensor(a!) a, Tensor b) -> Tensor(a!)")(lambda a, b: a.copy_(b))


@prim("broadcast_in_dim(Tensor(a) a, SymInt[] shape, int[] broadcast_dimensions) -> Tensor(a)")
def broadcast_in_dim(a: Tensor, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
    """Dimension i of `a` becomes dimension broadcast_dimensions[i] of the result."""
    check(
        len(broadcast_dimensions) == a.ndim,
        f"broadcast_in_dim: {len(broadcast_dimensions)} dimensions were named for a tensor of {a.ndim}",
        AssertionError,
    )
    sizes = [1] * len(shape)
    for i, dim in enumerate(broadcast_dimensions):
        check(
            a.shape[i] in (1, shape[dim]),
            f"broadcast_in_dim: dimension {i} is {a.shape[i]}, which does not become {shape[dim]}",
            AssertionError,
        )
        sizes[dim] = a.shape[i]
    for dim in range(len(shape)):
        if dim not in broadcast_dimensions:
            a = run_name("unsqueeze", a, dim)
    return run_name("expand", a, shape, False)


def _collapsed(a: Tensor, start: int, end: int) -> tuple[int, ...]:
    length = 1
    for size in a.shape[start : end + 1]:
        length *= size
    return (*a.shape[:start], length, *a.shape[end + 1 :])


prim("collapse_view(Tensor(a) a, int start, int end) -> Tensor(a)")(
    lambda a, start, end: run_name("view", a, _collapsed(a, start, end))
)
prim("collapse(Tensor a, int start, int end) -> Tensor")(
    lambda a, start, end: run_name("clone", run_name("reshape", a, _collapsed(a, start, end)), None)
)


@prim("split_dim(Tensor(a) a, int dim, SymInt outer_length) -> Tensor(a)")
def split_dim(a: Tensor, dim: int, outer_length: int) -> Any:
    inner, rest = divmod(a.shape[dim], outer_length)
    check(rest == 0, f"split_dim: {a.shape[dim]} elements are not {outer_length} equal parts", ValueError)
    return run_name("view", a, (*a.shape[:dim], outer_length, inner, *a.shape[dim + 1 :]))


@prim("copy_strided(Tensor a, SymInt[] stride) -> Tensor")
def copy_strided(a: Tensor, stride: tuple[int, ...]) -> Any:
    made = run_name("empty_strided", tuple(a.shape), stride, a.dtype, None, a.device, None)
    return made.copy_(a)


# Reductions.

_REDUCED = "(Tensor inp, int[]? dims, *, ScalarType? output_dtype=None) -> Tensor"


def _every(inp: Tensor, dims: tuple[int, ...] | None) -> tuple[int, ...]:
    return tuple(range(inp.ndim)) if dims is None else dims


def _cast(tensor: Any, output_dtype: Any) -> Any:
    return tensor if output_dtype is None else tensor.to(output_dtype)


prim(f"sum{_REDUCED}")(
    lambda inp, dims, output_dtype: run_name("sum.dim_IntList", inp, _every(inp, dims), False, output_dtype)
)
prim(f"amax{_REDUCED}")(
    lambda inp, dims, output_dtype: _cast(run_name("amax", inp, _every(inp, dims), False), output_dtype)
)
prim(f"amin{_REDUCED}")(
    lambda inp, dims, output_dtype: _cast(run_name("amin", inp, _every(inp, dims), False), output_dtype)
)
prim("var(Tensor inp, int[]? dims, float? correction=1, *, ScalarType? output_dtype=None) -> Tensor")(
    lambda inp, dims, correction, output_dtype: _cast(
        run_name("var.correction", inp, dims, correction, False), output_dtype
    )
)


@prim(f"prod{_REDUCED}")
def prod(inp: Tensor, dims: tuple[int, ...] | None, output_dtype: Any) -> Any:
    for dim in sorted(_every(inp, dims), reverse=True):
        inp = run_name("prod.dim_int", inp, dim, False, output_dtype)
    return _cast(inp, output_dtype)


# New tensors.

_MADE = "ScalarType dtype, Device device, bool requires_grad"


def _asked(tensor: Any, requires_grad: bool) -> Any:
    return tensor.requires_grad_() if requires_grad else tensor


prim(f"iota(SymInt length, *, SymInt start, SymInt step, {_MADE}) -> Tensor")(
    lambda length, start, step, dtype, device, requires_grad: _asked(
        run_name("arange.start_step", start, start + length * step, step, dtype, None, device, None),
        requires_grad,
    )
)
prim(f"full(SymInt[] shape, Scalar fill_value, *, {_MADE}) -> Tensor")(
    lambda shape, fill_value, dtype, device, requires_grad: _asked(
        run_name("full", shape, fill_value, dtype, None, device, None), requires_grad
    )
)
prim(f"full_like(Tensor a, Scalar fill_value, *, {_MADE}) -> Tensor")(
    lambda a, fill_value, dtype, device, requires_grad: _asked(
        run_name("full_like", a, fill_value, dtype, None, device, None, None), requires_grad
    )
)
prim(f"empty(SymInt[] shape, *, {_MADE}) -> Tensor")(
    lambda shape, dtype, device, requires_grad: _asked(
        run_name("empty.memory_format", shape, dtype, None, device, None, None), requires_grad
    )
)
prim(f"empty_strided(SymInt[] shape, SymInt[] strides, *, {_MADE}) -> Tensor")(
    lambda shape, strides, dtype, device, requires_grad: _asked(
        run_name("empty_strided", shape, strides, dtype, None, device, None), requires_grad
    )
)
prim(f"empty_permuted(SymInt[] shape, int[] physical_layout, *, {_MADE}) -> Tensor")(
    lambda shape, physical_layout, dtype, device, requires_grad: _asked(
        run_name("empty_permuted", shape, physical_layout, dtype, None, device, None), requires_grad
    )
)
prim("scalar_tensor(Scalar s, *, ScalarType? dtype=None, Device? device=None) -> Tensor")(
    lambda s, dtype, device: run_name("scalar_tensor", s, dtype, None, device, None)
)
prim("maximum_value(ScalarType dtype) -> Scalar")(lambda dtype: _extreme(dtype, "max"))
prim("minimum_value(ScalarType dtype) -> Scalar")(lambda dtype: _extreme(dtype, "min"))


def _extreme(dtype: Any, which: str) -> Any:
    if dtype is dtypes.bool_:
        return which == "max"
    info: Any = dtypes.finfo(dtype) if dtype.is_floating_point else dtypes.iinfo(dtype)
    return getattr(info, which)


# Transforms and factorizations.

prim("fft_c2c(Tensor self, *, int[] dim, bool forward) -> Tensor")(
    lambda self, dim, forward: run_name("_fft_c2c", self, dim, 0, forward)
)
prim("fft_r2c(Tensor self, *, int[] dim, bool onesided) -> Tensor")(
    lambda self, dim, onesided: run_name("_fft_r2c", self, dim, 0, onesided)
)
prim("fft_c2r(Tensor self, *, int[] dim, SymInt last_dim_size) -> Tensor")(
    lambda self, dim, last_dim_size: run_name("_fft_c2r", self, dim, 0, last_dim_size)
)
prim("svd(Tensor A, *, bool full_matrices) -> (Tensor U, Tensor S, Tensor Vh)")(
    lambda A, full_matrices: run_name("linalg_svd", A, full_matrices, None)
)
