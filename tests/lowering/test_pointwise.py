"""Every pointwise operator has native code for every dtype that it takes; values that OpInfo leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.llvm.emitter import Emitter
from rushlight.codegen.llvm.instructions import element_type
from rushlight.codegen.llvm.types import vector
from rushlight.codegen.llvm.values import Reports, ValueEmitter
from rushlight.core.dtypes import BY_NUMPY, DTYPES
from rushlight.core.index import as_index
from rushlight.core.pointwise import plan_for
from rushlight.core.registry import REGISTRY, Kind, OpDef
from rushlight.core.shapes import Spec
from rushlight.core.tensor import Tensor, meta_tensor
from rushlight.loops.expr import Access, Expr, NotRecordable, Recorder, walk
from rushlight.loops.native import has_native_code
from rushlight.loops.nest import ERRORS, Buffer, MemoryKind
from rushlight.runtime.target import host

NAMES = (
    "float32",
    "float64",
    "int64",
    "int32",
    "uint8",
    "bool",
    "complex64",
    "complex128",
    "bfloat16",
    "float16",
)
LANES = 4
# Arguments without a default that are no operands; numbers are 1, bools False.
PARAMETERS = {"rounding_mode": "floor", "polynomial": "hermite_polynomial_h"}
# (operator, dtype): why the operator stays a library call for that dtype.
NOT_NATIVE: dict[tuple[str, str], str] = {
    (name, "float16"): "complex32, of which there is no arithmetic" for name in ("complex", "polar")
}

POINTWISE = [op for op in REGISTRY if op.kind is Kind.POINTWISE]


def arguments(op: OpDef, dtype: Any) -> list[Any]:
    given: list[Any] = []
    for i, argument in enumerate(op.schema.arguments):
        if i in op.conditions:
            given.append(meta_tensor(Spec((LANES,), DTYPES["bool"])))
        elif argument.type.base == "Tensor":
            given.append(meta_tensor(Spec((LANES,), dtype)))
        elif not argument.is_required and not (i in op.operands and argument.default is None):
            given.append(argument.default)
        else:
            number = False if argument.type.base == "bool" else 1
            given.append(PARAMETERS.get(argument.name, number))
    return given


def recorded(op: OpDef, args: list[Any]) -> list[Expr] | None:
    """The results as expressions; None if the operator refuses such arguments."""
    try:
        plan = plan_for(op, tuple(args), [args[i] for i in op.operands])
        if op.check is not None:
            op.check(tuple(args))
    except (TypeError, RuntimeError, NotImplementedError):
        return None
    ops, full = Recorder(), list(args)
    for i, steps in zip(op.operands, plan.casts, strict=True):
        casts = [BY_NUMPY[step] for step in steps]
        if isinstance(args[i], Tensor):
            buffer = Buffer(f"x{i}", args[i].dtype, as_index(LANES), MemoryKind.INPUT)
            value = ops.load(Access(buffer, as_index(0)), args[i].dtype)
        elif args[i] is None:
            continue
        else:
            value, casts = ops.number(args[i], casts[0]), casts[1:]
        for dtype in casts:
            value = ops.cast(value, dtype)
        full[i] = value
    result = op.body(ops, *full)  # type: ignore[misc]
    results = result if isinstance(result, tuple) else (result,)
    return [ops.cast(results[0], plan.result_dtype), *results[1:]]


def emit(module: Any, name: str, results: list[Expr]) -> None:
    """A function of no use, to see that the code is made and is right for LLVM."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.PointerType()] * 2), name)
    e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), host())
    source, errors = function.args
    values = ValueEmitter(e, {ERRORS: errors}, Reports())
    memo: dict[Expr, Any] = {}
    for result in results:
        for node in walk(result):
            if node.op == "load":
                memo[node] = e.load(source, vector(element_type(e, node.dtype), LANES))
        e.store(values.evaluate(result, memo), source)
    e.builder.ret_void()


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_is_native(name: str) -> None:
    module = ir.Module("pointwise")
    native, refused, missing = 0, 0, []
    for op in POINTWISE:
        try:
            results = recorded(op, arguments(op, DTYPES[name]))
        except NotRecordable as reason:
            missing.append((op.name, str(reason)))
            continue
        if results is None:
            refused += 1
            continue
        wrong = [node for result in results for node in walk(result) if not has_native_code(node)]
        if wrong:
            missing.append((op.name, str(wrong[0])))
            continue
        native += 1
        emit(module, op.name.replace(".", "_"), results)
    assert {op for op, _ in missing} == {op for op, dtype in NOT_NATIVE if dtype == name}, missing
    assert native >= {"bool": 60, "complex64": 60, "complex128": 60}.get(name, 100), (native, refused)
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()


# Compiled and eager code side by side.


def both(function: Callable[..., Any], *args: Any) -> tuple[np.ndarray, np.ndarray]:
    """(eager, compiled), after a look that the program has no library call."""
    compiled = rl.compile(function, fullgraph=True)
    got = compiled(*args)
    ((entry,),) = compiled.specializations.values()
    assert all(isinstance(segment, str) for segment in entry.artifact.module.segments)
    return function(*args).numpy(), got.numpy()


def close(function: Callable[..., Any], *args: Any) -> None:
    eager, compiled = both(function, *args)
    assert eager.dtype == compiled.dtype
    tolerance = 1e-5 if eager.dtype.itemsize <= 4 or eager.dtype == np.complex64 else 1e-12
    np.testing.assert_allclose(compiled, eager, rtol=tolerance, atol=tolerance)


def complexes(dtype: Any, size: int = 37) -> rl.Tensor:
    rng = np.random.default_rng(1)
    parts = rng.normal(size=(2, size))
    return rl.tensor(parts[0] + 1j * parts[1], dtype=dtype)


SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-30, 3e20]


@pytest.mark.parametrize("dtype", [rl.complex64, rl.complex128])
class TestComplex:
    def test_arithmetic(self, dtype: Any) -> None:
        x, y = complexes(dtype), complexes(dtype).flip(0)
        close(lambda x, y: x * y - y / x + (-x).conj() * 2j, x, y)
        close(lambda x, y: rl.where(x.real > 0, x, y) * (1 + 2j), x, y)

    @pytest.mark.parametrize(
        "name",
        [
            "abs",
            "angle",
            "real",
            "imag",
            "exp",
            "log",
            "sqrt",
            "tanh",
            "sin",
            "reciprocal",
            "isfinite",
            "isinf",
            "isnan",
            "neg",
            "sgn",
            "acos",
        ],
    )
    def test_special_values(self, dtype: Any, name: str) -> None:
        real, imag = np.meshgrid(SPECIAL, SPECIAL)
        part = rl.float32 if dtype is rl.complex64 else rl.float64
        x = rl.complex(rl.tensor(real.ravel(), dtype=part), rl.tensor(imag.ravel(), dtype=part))
        eager, compiled = both(lambda x: getattr(rl, name)(x), x)
        finite = np.isfinite(real.ravel()) & np.isfinite(imag.ravel())
        np.testing.assert_allclose(compiled[finite], eager[finite], rtol=1e-5)
        if name in ("abs", "angle", "real", "imag", "isfinite", "isinf", "isnan", "neg"):
            np.testing.assert_allclose(compiled, eager, rtol=1e-5)

    @pytest.mark.parametrize("dim", [0, 1, None])
    def test_reductions(self, dtype: Any, dim: int | None) -> None:
        x = complexes(dtype, 36 * 5).reshape(36, 5)
        kept = {} if dim is None else {"dim": dim}
        close(lambda x: x.sum(**kept), x)
        close(lambda x: x.mean(**kept), x)
        close(lambda x: (x * 0.9).prod(**kept), x)

    def test_casts(self, dtype: Any) -> None:
        x = complexes(dtype)
        close(lambda x: x.to(rl.complex128) + x.to(rl.complex64), x)
        close(lambda x: x.real.to(rl.complex64) * x.to(rl.bool), x)

    def test_views_of_the_parts(self, dtype: Any) -> None:
        x = complexes(dtype, 60).reshape(10, 6)
        part = rl.float32 if dtype is rl.complex64 else rl.float64
        for source in (x, x[1::2, ::3], x.t(), x.conj()):
            close(lambda x: rl.view_as_real(x.resolve_conj()) * 2, source)
            close(lambda x: x.imag - x.real, source)
        close(lambda x: (x * 2).view(part) + 1, x)
        close(lambda x: rl.view_as_complex(x) * 1j, rl.view_as_real(x)[::2])


class TestIntegers:
    LIMITS = [-(2**63), -(2**63) + 1, -7, -1, 0, 1, 6, 2**63 - 1]

    @pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
    def test_division_does_not_trap(self, name: str) -> None:
        x = rl.tensor(self.LIMITS).repeat(4)
        y = rl.tensor([-1, 3, -3, 2**62]).repeat_interleave(8)
        with np.errstate(all="ignore"):
            eager, compiled = both(getattr(rl, name), x, y)
        np.testing.assert_array_equal(compiled, eager)

    @pytest.mark.parametrize("dtype", [rl.int8, rl.uint8, rl.int16, rl.int32, rl.int64])
    def test_narrow_division(self, dtype: Any) -> None:
        rng = np.random.default_rng(2)
        x = rl.tensor(rng.integers(0, 100, 301) - (0 if dtype is rl.uint8 else 50)).to(dtype)
        y = rl.tensor(rng.integers(1, 9, 301)).to(dtype)
        for function in (
            lambda x, y: x // y + x % y,
            lambda x, y: rl.fmod(x, y),
            lambda x, y: x // 3,
            lambda x, y: rl.div(x, y, rounding_mode="trunc"),
            lambda x, y: x**y,
            lambda x, y: (x << y) + (x >> y),
        ):
            eager, compiled = both(function, x, y)
            np.testing.assert_array_equal(compiled, eager)

    @pytest.mark.parametrize(
        "function",
        [lambda x, y: x // y, lambda x, y: x % y, rl.fmod, lambda x, y: rl.div(x, y, rounding_mode="trunc")],
    )
    def test_division_by_zero_raises(self, function: Callable[..., Any]) -> None:
        x, y = rl.arange(100), rl.ones(100, dtype=rl.int64)
        compiled = rl.compile(function, fullgraph=True)
        compiled(x, y)
        y[77] = 0
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(x, y)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            compiled(x, y)
        y[77] = 2
        np.testing.assert_array_equal(compiled(x, y).numpy(), function(x, y).numpy())

    def test_negative_powers(self) -> None:
        base = rl.tensor([-3, -2, -1, 0, 1, 2, 3] * 3)
        exponent = rl.tensor([-3, -2, -1] * 7)
        eager, compiled = both(lambda x, y: x**y, base, exponent)
        np.testing.assert_array_equal(compiled, eager)


class TestLoops:
    """Bodies with a number of steps that is data."""

    @pytest.mark.parametrize(
        "name",
        ["hermite_polynomial_h", "laguerre_polynomial_l", "legendre_polynomial_p", "chebyshev_polynomial_t"],
    )
    def test_polynomials(self, name: str) -> None:
        x = rl.linspace(-1.5, 1.5, 45, dtype=rl.float64)
        n = rl.arange(45) % 13 - 1
        close(lambda x, n: getattr(rl.special, name)(x, n), x, n)

    def test_several_states(self) -> None:
        """Both results of a loop are used."""
        a = rl.linspace(0.3, 9, 40, dtype=rl.float64)
        x = rl.linspace(0.1, 12, 40, dtype=rl.float64).requires_grad_()

        def slope(a: Any, x: Any) -> Any:
            a = a.detach().requires_grad_()
            return rl.autograd.grad(rl.special.gammainc(a, x.detach()).sum(), a)[0]

        eager, compiled = slope(a, x).numpy(), rl.compile(slope, fullgraph=True)(a, x).numpy()
        np.testing.assert_allclose(compiled, eager, rtol=1e-9, atol=1e-12)

    def test_inside_larger_programs(self) -> None:
        x, n = rl.rand(8, 16), rl.randint(0, 9, (16,))
        close(lambda x, n: rl.special.hermite_polynomial_he(x.t()[:, 1:], n[:, None]).sum(1), x, n)


class TestHalf:
    @pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
    def test_one_rounding_an_operator(self, dtype: Any) -> None:
        x, y = (rl.tensor(np.random.default_rng(s).normal(size=999)).to(dtype) for s in (3, 4))
        for function in (
            lambda x, y: (x * y + 0.1) * y - x / 3,
            lambda x, y: rl.maximum(x, y) * 1.1,
            lambda x, y: rl.nextafter(x, y),
        ):
            eager, compiled = both(lambda x, y, f=function: f(x, y).float(), x, y)
            np.testing.assert_array_equal(compiled, eager)

    @pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
    def test_reductions(self, dtype: Any) -> None:
        x = rl.tensor(np.random.default_rng(5).normal(size=(33, 70))).to(dtype)
        for function in (
            lambda x: x.sum(1),
            lambda x: x.mean(0),
            lambda x: x.amax(1),
            lambda x: x.var(1),
            lambda x: x.argmax(0),
            lambda x: x.softmax(1),
            lambda x: x.prod(1),
        ):
            eager, compiled = both(lambda x, f=function: f(x).float(), x)
            np.testing.assert_allclose(compiled, eager, rtol=2 * float(rl.finfo(dtype).eps), atol=1e-6)


class TestBits:
    @pytest.mark.parametrize(
        "dtype", [rl.int32, rl.int16, rl.uint8, rl.float16, rl.bfloat16, rl.int64, rl.float64, rl.complex64]
    )
    def test_views_of_another_dtype(self, dtype: Any) -> None:
        x = rl.tensor(np.random.default_rng(6).normal(size=(6, 8)).astype("float32"))
        for function in (
            lambda x: x.view(dtype).clone(),
            lambda x: (x * 2).view(dtype).clone(),
            lambda x: x[2:].view(dtype).view(rl.float32) + 1,
        ):
            eager, compiled = both(function, x)
            assert eager.dtype == compiled.dtype
            assert eager.tobytes() == compiled.tobytes()

    def test_layouts(self) -> None:
        x = rl.tensor(np.random.default_rng(7).normal(size=(6, 8)).astype("float32"))
        for source in (x[::2, ::3], x.t(), x[1:, 4]):
            eager, compiled = both(lambda x: x.view(rl.int32) >> 3, source)
            np.testing.assert_array_equal(compiled, eager)
