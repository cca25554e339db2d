"""The emitter: every helper, run on scalars and on vectors of several widths, against NumPy."""

from __future__ import annotations

import ctypes
import dataclasses
import math
from fractions import Fraction
from typing import Any

import llvmlite.ir as ir
import ml_dtypes
import numpy as np
import pytest

from rushlight.codegen.llvm.emitter import REDUCTION_FLAGS, Emitter
from rushlight.codegen.llvm.types import mangle, vector

LANES = [1, 4, 8, 16]
FLOATS = ["float32", "float64"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
rng = np.random.default_rng(7)


def floats(dtype: str, count: int = 400) -> np.ndarray:
    special = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, 1.5, 2.5, -2.5, 1e-40, 65504, 65520]
    return np.concatenate([special, rng.normal(size=count) * 10.0 ** rng.uniform(-6, 6, count)]).astype(dtype)


def integers(dtype: str, count: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.concatenate(
        [
            np.array([info.min, info.max, 0, 1], dtype),
            rng.integers(info.min, info.max, count, dtype, endpoint=True),
        ]
    )


def same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal, NaN to NaN, and zeros with their sign."""
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    if want.dtype.kind == "f":
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])


# Constants.


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_constants_are_exact(kernels: Any, dtype: str, lanes: int) -> None:
    values = [0.1, 0.0, -0.0, math.inf, -math.inf, math.nan, 1e-310, 5e-324, 1e300, 16777217.0]
    results = kernels.run(
        lambda e, x: tuple(e.constant(v, x) for v in values),
        [np.ones(3, dtype)],
        [dtype] * len(values),
        lanes,
    )
    with np.errstate(over="ignore"):
        for result, value in zip(results, values, strict=True):
            same(result, np.full(3, np.dtype(dtype).type(value)))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_constants_wrap(kernels: Any, dtype: str) -> None:
    values = (-1, 200, 40000, 2**31, 2**63 + 5, -(2**63))
    ones = np.ones(8, dtype)
    results = kernels.run(lambda e, x: tuple(e.constant(v, x) for v in values), [ones], [dtype] * 6, 8)
    for result, value in zip(results, values, strict=True):
        same(result, np.full(8, np.array(value & (2**64 - 1), np.uint64).astype(dtype)))


@pytest.mark.parametrize("lanes", LANES)
def test_iota_and_lanes(kernels: Any, lanes: int) -> None:
    (result,) = kernels.run(lambda e, x: e.add(x, e.iota(x)), [np.full(16, 5, "int32")], ["int32"], lanes)
    same(result, (5 + np.arange(16) % lanes).astype("int32"))


# Arithmetic.


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_arithmetic(kernels: Any, dtype: str, lanes: int) -> None:
    x, y = floats(dtype), floats(dtype)[::-1].copy()

    def emit(e: Emitter, a: Any, b: Any) -> tuple[Any, ...]:
        return (
            e.add(a, b),
            e.sub(a, b),
            e.mul(a, b),
            e.div(a, b),
            e.copysign(a, b),
            e.neg(a),
            e.abs(a),
            e.round(a),
            e.floor(a),
            e.ceil(a),
            e.trunc(a),
            e.mul(a, 0.5),
            e.sub(1, a),
        )

    with np.errstate(all="ignore"):
        wanted = (
            x + y,
            x - y,
            x * y,
            x / y,
            np.copysign(x, y),
            -x,
            np.abs(x),
            np.rint(x),
            np.floor(x),
            np.ceil(x),
            np.trunc(x),
            x * x.dtype.type(0.5),
            1 - x,
        )
    for got, want in zip(kernels.run(emit, [x, y], [dtype] * len(wanted), lanes), wanted, strict=True):
        same(got, want)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_arithmetic(kernels: Any, dtype: str) -> None:
    x = integers(dtype, 100)
    y = x[::-1].copy()
    signed = x.dtype.kind == "i"

    def emit(e: Emitter, a: Any, b: Any) -> tuple[Any, ...]:
        return (
            e.add(a, b),
            e.sub(a, b),
            e.mul(a, b),
            e.neg(a),
            e.xor(a, b),
            e.and_(a, b),
            e.or_(a, b),
            e.not_(a),
            e.maximum(a, b, signed=signed),
            e.minimum(a, b, signed=signed),
            e.shift_right(a, 3, signed=signed),
        )

    wanted = (x + y, x - y, x * y, -x, x ^ y, x & y, x | y, ~x, np.maximum(x, y), np.minimum(x, y), x >> 3)
    for got, want in zip(kernels.run(emit, [x, y], [dtype] * len(wanted), 8), wanted, strict=True):
        same(got, want)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_with_nan(kernels: Any, dtype: str, lanes: int) -> None:
    values = np.array([1.0, -2.0, math.nan, math.inf, -math.inf, 0.5], dtype)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    names = ("maximum", "minimum", "fmax", "fmin")
    results = kernels.run(
        lambda e, a, b: tuple(getattr(e, n)(a, b) for n in names), [x, y], [dtype] * 4, lanes
    )
    for name, result in zip(names, results, strict=True):
        same(result, getattr(np, name)(x, y))


@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
def test_comparisons(kernels: Any, op: str) -> None:
    reference = {
        "==": np.equal,
        "!=": np.not_equal,
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
    }[op]
    values = np.array([1.0, -2.0, math.nan, math.inf, 0.0, -0.0], "float32")
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    same(kernels.run(lambda e, a, b: e.compare(op, a, b), [x, y], ["bool"], 8)[0], reference(x, y))
    either_nan = np.isnan(x) | np.isnan(y)
    (result,) = kernels.run(lambda e, a, b: e.compare(op, a, b, unordered=True), [x, y], ["bool"], 4)
    same(result, reference(x, y) | either_nan)
    for dtype, signed in (("int16", True), ("uint16", False)):
        info = np.iinfo(dtype)
        a = rng.integers(info.min, info.max, 64, dtype)
        b = np.where(rng.random(64) < 0.3, a, a[::-1])
        (result,) = kernels.run(lambda e, p, q, s=signed: e.compare(op, p, q, signed=s), [a, b], ["bool"], 16)
        same(result, reference(a, b))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("has_fma", [True, False])
def test_fma_rounds_once(kernels: Any, dtype: str, has_fma: bool) -> None:
    """Also where it is emulated: a b - round(a b) is the exact rounding error, far below the last place."""
    target = dataclasses.replace(kernels.target, has_fma=has_fma)
    x, y = (rng.normal(size=500).astype(dtype) for _ in range(2))
    product, error = kernels.run(lambda e, a, b: e.two_product(a, b), [x, y], [dtype, dtype], 8, target)
    exact = [Fraction(a) * Fraction(b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    total = [Fraction(p) + Fraction(q) for p, q in zip(product.tolist(), error.tolist(), strict=True)]
    assert total == exact
    assert np.abs(error).max() > 0


def test_clamp_keeps_nan(kernels: Any) -> None:
    x = np.array([-5.0, 0.5, 5.0, math.nan, math.inf, -math.inf], "float32")
    (result,) = kernels.run(lambda e, a: e.clamp(a, -1.0, 1.0), [x], ["float32"], 4)
    same(result, np.clip(x, np.float32(-1), np.float32(1)))


# Conversions.


@pytest.mark.parametrize("lanes", [1, 8, 16])
@pytest.mark.parametrize("source", ["float32", "float64", "float16"])
def test_float_conversions(kernels: Any, source: str, lanes: int) -> None:
    with np.errstate(over="ignore"):
        x = floats(source)
        targets = {
            "float32": x.astype("float32"),
            "float64": x.astype("float64"),
            "float16": x.astype("float32").astype("float16"),
        }
    kinds = {"float32": "float", "float64": "double", "float16": "half"}
    results = kernels.run(
        lambda e, a: tuple(e.cast(a, getattr(e, kinds[t])) for t in targets), [x], list(targets), lanes
    )
    for target, result in zip(targets, results, strict=True):
        same(result, targets[target])


@pytest.mark.parametrize("hardware", [True, False])
def test_half_by_hardware_and_by_hand(kernels: Any, hardware: bool) -> None:
    features = kernels.target.features if hardware else kernels.target.features.replace("+f16c", "-f16c")
    target = dataclasses.replace(kernels.target, features=features)
    every = np.arange(65536, dtype="uint16").view("float16")
    (wide,) = kernels.run(lambda e, a: e.from_half(a), [every], ["float32"], 8, target)
    same(wide, every.astype("float32"))
    edges = np.float32([65519.9, 65520, 2**-24, 2**-25, 2**-25 * 1.01, 6.1e-5])
    edges = np.concatenate([floats("float32", 5000), edges])
    (narrow,) = kernels.run(lambda e, a: e.to_half(a), [edges], ["float16"], 8, target)
    with np.errstate(over="ignore"):
        same(narrow, edges.astype("float16"))


@pytest.mark.parametrize("lanes", [1, 8])
def test_bfloat16(kernels: Any, lanes: int) -> None:
    every = np.arange(65536, dtype="uint16").view(ml_dtypes.bfloat16)
    (wide,) = kernels.run(lambda e, a: a, [every], ["float32"], lanes)
    same(wide, every.astype("float32"))
    x = np.concatenate([floats("float32", 2000), rng.integers(0, 2**32, 2000, "uint32").view("float32")])
    with np.errstate(all="ignore"):
        want = x.astype(ml_dtypes.bfloat16)
    (narrow,) = kernels.run(lambda e, a: a, [x], ["bfloat16"], lanes)
    number = ~np.isnan(x)
    np.testing.assert_array_equal(narrow.view("uint16")[number], want.view("uint16")[number])
    assert np.isnan(narrow[~number].astype("float32")).all()


@pytest.mark.parametrize("source", [*INTEGERS, "bool"])
def test_integer_conversions(kernels: Any, source: str) -> None:
    x = np.array([True, False, True] * 10) if source == "bool" else integers(source, 60)
    kinds = {
        "float32": "float",
        "float64": "double",
        "bool": "i1",
        "int8": "i8",
        "uint16": "i16",
        "int32": "i32",
        "uint64": "i64",
        "float16": "half",
    }
    signed = x.dtype.kind == "i"

    def emit(e: Emitter, a: Any) -> tuple[Any, ...]:
        return tuple(e.cast(a, getattr(e, kind), signed_from=signed) for kind in kinds.values())

    results = kernels.run(emit, [x], list(kinds), 8)
    for target, result in zip(kinds, results, strict=True):
        with np.errstate(over="ignore"):
            same(result, x.astype("float32").astype("float16") if target == "float16" else x.astype(target))


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", INTEGERS)
def test_float_to_integer(kernels: Any, source: str, target: str) -> None:
    info = np.iinfo(target)
    inside = np.clip(floats(source)[7:], info.min, min(info.max, 2**62))
    inside = np.trunc(inside / 2) * 1.25
    kind = f"i{info.bits}"
    signed = info.min < 0
    outside = np.array([math.nan, 1e30, -1e30, 1.5, -1.5], source)

    def emit(e: Emitter, a: Any) -> tuple[Any, Any]:
        element = getattr(e, kind)
        return e.cast(a, element, signed_to=signed), e.saturating_cast(a, element, signed=signed)

    kernel = kernels.compile({"k": emit}, [source], [target] * 2, 8)["k"]
    same(kernel(inside)[0], inside.astype(target))
    assert kernel(outside)[1].tolist() == [0, info.max, info.min, 1, max(-1, info.min)]


def test_narrow_integers_wrap_as_in_c(kernels: Any) -> None:
    x = np.array([300.0, -1.0, 255.9, 70000.0], "float32")
    (result,) = kernels.run(lambda e, a: e.cast(a, e.i8, signed_to=False), [x], ["uint8"], 4)
    assert result.tolist() == [44, 255, 255, 112]


# Lanes and reductions.


@pytest.mark.parametrize("lanes", [1, 4, 6, 8, 16])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_reductions(kernels: Any, dtype: str, lanes: int) -> None:
    x = rng.integers(-4, 5, 48).astype(dtype)
    groups = x.reshape(-1, lanes)
    ufuncs = {"add": np.add, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
    results = kernels.run(
        lambda e, v: tuple(e.splat(e.reduce(v, getattr(e, n)), lanes) for n in ufuncs),
        [x],
        [dtype] * 4,
        lanes,
    )
    for ufunc, result in zip(ufuncs.values(), results, strict=True):
        np.testing.assert_array_equal(result, np.repeat(ufunc.reduce(groups, 1), lanes))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_reductions_propagate_nan_from_any_lane(kernels: Any, name: str) -> None:
    x = np.tile(np.arange(8, dtype="float32"), 8).reshape(8, 8)
    x[np.arange(8), np.arange(8)] = math.nan
    (result,) = kernels.run(
        lambda e, v: e.splat(e.reduce(v, getattr(e, name)), 8), [x.ravel()], ["float32"], 8
    )
    assert np.isnan(result).all()


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_any_and_all(kernels: Any, lanes: int) -> None:
    x = np.array([True] * 8 + [False] * 8 + [True, False] * 4)
    some, every = kernels.run(
        lambda e, m: (e.splat(e.any(m), lanes), e.splat(e.all(m), lanes)), [x], ["bool"] * 2, lanes
    )
    groups = x.reshape(-1, lanes)
    np.testing.assert_array_equal(some[::lanes], groups.any(1))
    np.testing.assert_array_equal(every[::lanes], groups.all(1))


def test_flags_are_printed_for_reductions_only(kernels: Any) -> None:
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.FloatType(), [ir.FloatType()] * 2), "f")
    e = Emitter(ir.IRBuilder(function.append_basic_block()), kernels.target)
    plain = e.add(*function.args)
    relaxed = e.add(plain, function.args[0], REDUCTION_FLAGS)
    assert "fadd float" in str(plain)
    assert "fadd reassoc nsz contract float" in str(relaxed)


def test_intrinsics_are_declared_once(kernels: Any) -> None:
    module = ir.Module()
    kind = vector(ir.FloatType(), 8)
    function = ir.Function(module, ir.FunctionType(kind, [kind]), "f")
    e = Emitter(ir.IRBuilder(function.append_basic_block()), kernels.target)
    e.builder.ret(e.sqrt(e.sqrt(function.args[0])))
    assert str(module).count("declare") == 1
    assert mangle(kind) == "v8f32"


# Memory. These kernels are called with their own signatures.


def build(kernels: Any, arguments: int, body: Any) -> Any:
    """A function of `arguments` pointers and one i64."""
    module = ir.Module()
    kinds = [ir.PointerType()] * arguments + [ir.IntType(64)]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), "f")
    e = Emitter(ir.IRBuilder(function.append_basic_block()), kernels.target)
    body(e, *function.args)
    e.builder.ret_void()
    library = kernels.engine.build(str(module), ["f"], use_cache=False)
    raw = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments, ctypes.c_int64)(library.addresses["f"])

    def call(*values: Any) -> None:
        raw(*[v.ctypes.data if isinstance(v, np.ndarray) else v for v in values])

    call.library = library
    return call


@pytest.mark.parametrize("lanes", [1, 4, 8])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_masked_memory_stays_inside(kernels: Any, dtype: str, lanes: int) -> None:
    kind = vector({"float32": ir.FloatType(), "int64": ir.IntType(64), "bool": ir.IntType(1)}[dtype], lanes)

    def body(e: Emitter, source: Any, target: Any, count: Any) -> None:
        mask = e.tail_mask(count, lanes)
        e.store_masked(e.load_masked(source, kind, mask), target, mask)

    copy = build(kernels, 2, body)
    x = np.arange(1, lanes + 1).astype(dtype)
    for count in range(lanes + 3):
        y = np.zeros(lanes, dtype)
        copy(x, y, count)
        np.testing.assert_array_equal(y, np.where(np.arange(lanes) < count, x, 0).astype(dtype))


@pytest.mark.parametrize("stride", [-2, -1, 0, 1, 3])
@pytest.mark.parametrize("dynamic", [False, True])
def test_strided_memory(kernels: Any, stride: int, dynamic: bool) -> None:
    kind = vector(ir.FloatType(), 8)

    def body(e: Emitter, source: Any, target: Any, count: Any) -> None:
        x = e.load_strided(source, count if dynamic else stride, kind)
        e.store_strided(x, target, 2)

    copy = build(kernels, 2, body)
    x, y = np.arange(50, dtype="float32"), np.full(16, -1, "float32")
    copy(x[20:], y, stride)
    np.testing.assert_array_equal(y[::2], x[20 + stride * np.arange(8)])
    np.testing.assert_array_equal(y[1::2], -1)


@pytest.mark.parametrize("lanes", [1, 4, 8])
@pytest.mark.parametrize("masked", [False, True])
def test_gather_and_scatter(kernels: Any, lanes: int, masked: bool) -> None:
    def body(e: Emitter, source: Any, indices: Any, target: Any, count: Any) -> None:
        index = e.load(indices, vector(e.i64, lanes))
        mask = e.tail_mask(count, lanes) if masked else None
        x = e.gather(source, index, e.float, mask)
        e.scatter(e.add(x, 100.0), target, index, mask)

    move = build(kernels, 3, body)
    x, index = np.arange(20, dtype="float32"), np.array([7, 3, 11, 19, 0, 5, 2, 13])[:lanes].copy()
    for count in range(lanes + 1) if masked else [lanes]:
        y = np.zeros(20, "float32")
        move(x, index, y, count)
        want = np.zeros(20, "float32")
        want[index[:count]] = x[index[:count]] + 100
        np.testing.assert_array_equal(y, want)


# Control.


def test_loops_count_and_carry(kernels: Any) -> None:
    def body(e: Emitter, target: Any, count: Any) -> None:
        totals = e.fold(0, count, 3, [e.i64(0), e.i64(1)], lambda i, s, p: [e.add(s, i), e.mul(p, 2)])
        for place, total in enumerate(totals):
            e.store(total, e.address(target, place, e.i64))
        with e.loop(0, count) as i:
            with e.loop(i, count, 2) as j:
                cell = e.address(target, 2, e.i64)
                e.store(e.add(e.load(cell, e.i64), e.sub(j, i)), cell)

    run = build(kernels, 1, body)
    for count in (0, 1, 3, 10):
        out = np.zeros(3, "int64")
        run(out, count)
        steps = range(0, count, 3)
        nested = sum(j - i for i in range(count) for j in range(i, count, 2))
        assert out.tolist() == [sum(steps), 2 ** len(steps), nested]


def test_branches_give_values(kernels: Any) -> None:
    def body(e: Emitter, target: Any, count: Any) -> None:
        large = e.compare(">", count, 5)
        a, b = e.branch(large, lambda: [e.mul(count, 2), e.i64(1)], lambda: [e.neg(count), e.i64(0)])
        e.store(a, e.address(target, 0, e.i64))
        e.store(b, e.address(target, 1, e.i64))
        with e.when(large):
            e.store(e.i64(9), e.address(target, 2, e.i64))

        def halve(n: Any, k: Any) -> tuple[Any, list[Any]]:
            return e.compare(">", n, 3), [e.shift_right(n, 1), e.add(k, 1)]

        e.store(e.repeat([count, e.i64(0)], halve)[1], e.address(target, 3, e.i64))

    run = build(kernels, 1, body)
    for count, want in ((4, [-4, 0, 0, 2]), (20, [40, 1, 9, 4])):
        out = np.zeros(4, "int64")
        run(out, count)
        assert out.tolist() == want


def test_helper_functions_and_tables_exist_once(kernels: Any) -> None:
    def body(e: Emitter, target: Any, count: Any) -> None:
        def square(inner: Emitter, x: Any) -> Any:
            table = inner.table("constants", (5).to_bytes(8, "little"))
            return inner.add(inner.mul(x, x), inner.load(table, inner.i64))

        first, second = (e.function("square", e.i64, [e.i64], square) for _ in range(2))
        assert first is second
        e.store(e.call(first, [e.call(second, [count])]), target)

    out = np.zeros(1, "int64")
    build(kernels, 1, body)(out, 3)
    assert out[0] == (9 + 5) ** 2 + 5
