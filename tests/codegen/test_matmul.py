"""Generated matrix products: values, layouts, edges, memory that is not theirs, any number of threads."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rushlight.codegen.llvm.module import emit_module
from rushlight.core.dtypes import from_numpy
from rushlight.core.index import as_index
from rushlight.loops.kernels import Product
from rushlight.loops.nest import Buffer, MemoryKind
from rushlight.loops.product import Matrix, ProductShape, Side, Triangle
from rushlight.plan.passes import plan_program
from rushlight.plan.program import PlannedProgram
from rushlight.runtime.cache import ObjectCache
from rushlight.runtime.engine import Engine
from rushlight.runtime.linking import addresses_of
from rushlight.runtime.target import Target
from rushlight.runtime.threads import ThreadPool, pool
from rushlight.schedule.passes import staged

GUARD = 4096  # elements before and after each operand


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(ObjectCache(None))


class Guarded:
    """A matrix inside of memory full of NaN, which must neither be read (it would show) nor written."""

    def __init__(self, size: int, dtype: Any, offset: int = 0) -> None:
        self.start = GUARD + offset
        self.size = size
        self.memory = np.full(self.start + size + GUARD, np.nan, dtype)
        self.inside = self.memory[self.start : self.start + size]

    @property
    def address(self) -> int:
        return self.inside.__array_interface__["data"][0]

    def check(self) -> None:
        assert np.isnan(self.memory[: self.start]).all()
        assert np.isnan(self.memory[self.start + self.size :]).all()


def strided(matrix: Matrix, guarded: Guarded, batch: int, rows: int, columns: int) -> np.ndarray:
    """The elements of an operand as an array of [batch, rows, columns]."""
    itemsize = guarded.memory.itemsize
    return np.lib.stride_tricks.as_strided(
        guarded.inside[matrix.offset :],
        (batch, rows, columns),
        (matrix.batch * itemsize, matrix.row * itemsize, matrix.column * itemsize),
    )


def extent(matrix: Matrix, batch: int, rows: int, columns: int) -> int:
    last = (batch - 1) * matrix.batch + (rows - 1) * matrix.row + (columns - 1) * matrix.column
    return matrix.offset + last + 1


def run(engine: Engine, product: ProductShape, seed: int = 0, target: Target | None = None) -> None:
    """Compile and run a product on guarded operands; compare with a float64 product."""
    p = product
    dtype = p.dtype.numpy
    rng = np.random.default_rng(seed)
    left = Guarded(extent(p.left, p.batch, p.rows, p.depth), dtype)
    right = Guarded(extent(p.right, p.batch, p.depth, p.columns), dtype)
    out = Guarded(p.size, dtype)
    a = strided(p.left, left, p.batch, p.rows, p.depth)
    b = strided(p.right, right, p.batch, p.depth, p.columns)
    a[...] = rng.standard_normal(a.shape)
    b[...] = rng.standard_normal(b.shape)
    execute(engine, p, [left, right, out], pool(), target)
    for operand in (left, right, out):
        operand.check()
    result = out.inside.reshape(p.batch, p.rows, p.columns)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    error = np.abs(result - exact) / np.maximum(scale, 1e-30)
    assert error.max() <= p.depth * np.finfo(dtype).eps + 1e-30, str(p)


def planned(products: list[Product], target: Target) -> PlannedProgram:
    program = plan_program(staged(products), target)
    program.verify()
    return program


def execute(
    engine: Engine,
    p: ProductShape,
    operands: list[Guarded],
    threads: ThreadPool,
    target: Target | None = None,
) -> PlannedProgram:
    buffers = [
        Buffer(name, p.dtype, as_index(1), memory)
        for name, memory in (
            ("left", MemoryKind.INPUT),
            ("right", MemoryKind.INPUT),
            ("out", MemoryKind.OUTPUT),
        )
    ]
    program = planned([Product("matmul0", p, *buffers)], target or engine.target)
    native = emit_module(program)
    assert native.segments == ["entry0"]
    imports = addresses_of(native.imports, target=program.target)
    library = engine.build(native.text, ["entry0"], imports, use_cache=False)
    block = (ctypes.c_int64 * (1 + len(native.slots)))()
    block[0] = threads.address
    for buffer, operand in zip(buffers, operands, strict=True):
        block[native.slots[buffer]] = operand.address
    scratch = Guarded(-(-program.workspace.size // 4), np.float32)
    for buffer, offset in program.workspace.offsets.items():
        block[native.slots[buffer]] = scratch.address + offset
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.addresses["entry0"])(ctypes.addressof(block))
    scratch.check()
    return program


def layouts(rows: int, columns: int, pad: int = 0) -> dict[str, Matrix]:
    return {
        "n": Matrix(0, rows * (columns + pad), columns + pad, 1),
        "t": Matrix(0, columns * (rows + pad), 1, rows + pad),
    }


def make(
    batch: int, rows: int, depth: int, columns: int, kind: str, dtype: str = "float32", pad: int = 0
) -> ProductShape:
    left, right = layouts(rows, depth, pad)[kind[0]], layouts(depth, columns, pad)[kind[1]]
    return ProductShape(batch, rows, columns, depth, left, right, from_numpy(np.dtype(dtype)))


KINDS = ["nn", "nt", "tn", "tt"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 1),
        (1, 1, 9),
        (3, 2, 1),
        (6, 8, 16),
        (7, 13, 5),
        (13, 17, 33),
        (64, 64, 64),
        (65, 97, 49),
        (5, 129, 100),
    ],
)
def test_layouts(engine: Engine, shape: tuple[int, int, int], dtype: str, kind: str) -> None:
    run(engine, make(1, *shape, kind, dtype))


@pytest.mark.parametrize("seed", range(12))
def test_random_sizes_and_strides(engine: Engine, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, depth, columns = (int(n) for n in rng.integers(1, 71, 3))
    kind = KINDS[seed % 4]
    batch, pad = int(rng.integers(1, 4)), int(rng.integers(0, 4))
    run(engine, make(batch, rows, depth, columns, kind, pad=pad), seed=seed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(257, 257, 257), (130, 1000, 70), (200, 1024, 256)])
def test_packed_and_blocked(engine: Engine, shape: tuple[int, int, int], kind: str) -> None:
    run(engine, make(1, *shape, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "target",
    [
        {"vector_bytes": 16, "has_masked_memory": False, "has_fma": False},
        {"vector_bytes": 32, "vector_registers": 16},
        {"vector_bytes": 64, "vector_registers": 32},
    ],
)
def test_other_targets(engine: Engine, target: dict[str, Any], kind: str) -> None:
    """Tiles of other machines, which this one runs as well, if not as quickly."""
    for dtype in ("float32", "float64"):
        for shape in ((7, 19, 33), (1, 20, 70), (140, 120, 129), (130, 1000, 70)):
            run(engine, make(1, *shape, kind, dtype), target=replace(engine.target, **target))


def test_large_odd(engine: Engine) -> None:
    run(engine, make(1, 1000, 257, 1000, "tn"))


def test_offsets_and_broadcast_batches(engine: Engine) -> None:
    float32 = from_numpy(np.dtype("float32"))
    run(engine, ProductShape(3, 5, 11, 7, Matrix(2, 0, 7, 1), Matrix(5, 77, 11, 1), float32))
    run(engine, ProductShape(3, 5, 11, 7, Matrix(2, 40, 1, 5), Matrix(5, 0, 1, 9), float32))
    run(engine, ProductShape(4, 9, 3, 6, Matrix(0, 500, 40, 3), Matrix(1, 50, 4, 1), float32))
    run(engine, ProductShape(2, 130, 100, 70, Matrix(0, 0, 211, 3), Matrix(1, 0, 101, 1), float32))


@pytest.fixture
def threads() -> Iterator[Any]:
    """Runs with a number of threads, and restores it."""
    before = pool().size

    def with_threads(count: int) -> ThreadPool:
        pool().resize(count)
        return pool()

    yield with_threads
    pool().resize(before)


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_threads_gives_the_same_bits(engine: Engine, threads: Any, kind: str) -> None:
    product = make(2, 150, 300, 170, kind)
    rng = np.random.default_rng(3)
    left, right = Guarded(2 * 150 * 300, np.float32), Guarded(2 * 300 * 170, np.float32)
    left.inside[:], right.inside[:] = rng.standard_normal(left.size), rng.standard_normal(right.size)
    results = []
    for count in (1, 2):
        out = Guarded(product.size, np.float32)
        program = execute(engine, product, [left, right, out], threads(count))
        (_, plan), *_ = program.products_in(program.stages[0])
        assert plan.grid.tasks > 1
        out.check()
        results.append(out.inside.tobytes())
    assert results[0] == results[1]


def test_special_values(engine: Engine) -> None:
    """NaN and infinity go to their own row and column only, also where a row is computed again."""
    p = make(1, 7, 9, 5, "nn")
    left, right, out = Guarded(63, np.float32), Guarded(45, np.float32), Guarded(35, np.float32)
    left.inside[:], right.inside[:] = 1, 1
    left.inside[6 * 9 + 2] = np.inf
    right.inside[4] = np.nan
    execute(engine, p, [left, right, out], pool())
    result = out.inside.reshape(7, 5)
    assert np.isnan(result[:, 4]).all()
    assert np.isposinf(result[6, :4]).all()
    assert (result[:6, :4] == 9).all()


def test_kernels_are_shared(engine: Engine) -> None:
    """Products of different shapes use the same innermost kernels."""
    buffers = [
        Buffer(f"b{i}", from_numpy(np.dtype("float32")), as_index(1), MemoryKind.INPUT) for i in range(6)
    ]
    calls = [
        Product(f"matmul{i}", make(1, 66 * (i + 1), 50 + i, 192 * (i + 1), "nn"), *buffers[3 * i : 3 * i + 3])
        for i in range(2)
    ]
    native = emit_module(planned(calls, engine.target))
    kernels = [name for name in native.imports if ".tile." in name]
    assert len(kernels) == 1
    again = emit_module(planned(calls[:1], engine.target))
    assert set(again.imports) <= set(native.imports)


# Triangles.


def beyond(side: Side, diagonal: int, p: ProductShape) -> tuple[str, np.ndarray]:
    """Whose elements are zero, or not of use, and where."""
    whose = side.name.split("_")[0].lower()
    shape = {"left": (p.rows, p.depth), "right": (p.depth, p.columns), "result": (p.rows, p.columns)}[whose]
    row, column = np.ogrid[: shape[0], : shape[1]]
    upper = side in (Side.LEFT_UPPER, Side.RIGHT_UPPER)
    return whose, (row > column + diagonal) if upper else (column > row + diagonal)


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("sizes", "diagonal"),
    [
        ((3, 128, 128, 32), 0),
        ((2, 32, 128, 128), 0),
        ((1, 77, 77, 77), 0),
        ((2, 50, 61, 40), 3),
        ((1, 5, 7, 3), 0),
        ((1, 130, 130, 129), 20),
        ((2, 40, 2000, 33), 1),
        ((1, 1, 9, 9), 0),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_triangles(
    engine: Engine, side: Side, kind: str, sizes: tuple[int, ...], diagonal: int, dtype: str
) -> None:
    p = replace(make(sizes[0], *sizes[1:], kind, dtype), triangle=Triangle(side, diagonal))
    left = Guarded(extent(p.left, p.batch, p.rows, p.depth), dtype)
    right = Guarded(extent(p.right, p.batch, p.depth, p.columns), dtype)
    out = Guarded(p.size, dtype)
    a = strided(p.left, left, p.batch, p.rows, p.depth)
    b = strided(p.right, right, p.batch, p.depth, p.columns)
    rng = np.random.default_rng(1)
    a[...], b[...] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
    whose, zeros = beyond(side, diagonal, p)
    if whose != "result":
        {"left": a, "right": b}[whose][:, zeros] = 0
    execute(engine, p, [left, right, out], pool())
    for operand in (left, right, out):
        operand.check()
    result = out.inside.reshape(p.batch, p.rows, p.columns)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    if whose == "result":
        wrong = np.where(zeros, (result != 0) & ~np.isclose(result, exact, 1e-4, 1e-4), False)
        assert not wrong.any()
        result, exact = (np.where(zeros, 0, x) for x in (result, exact))
    scale = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert (np.abs(result - exact) <= (p.depth * np.finfo(dtype).eps) * scale).all()


@pytest.mark.parametrize("side", list(Side))
def test_what_is_beyond_a_triangle_is_not_computed(engine: Engine, side: Side) -> None:
    """NaN far from the diagonal does not show, and a result there is zero."""
    p = replace(make(2, 128, 128, 128, "nn"), triangle=Triangle(side, 0))
    left, right, out = (Guarded(2 * 128 * 128, np.float32) for _ in range(3))
    for operand in (left, right):
        operand.inside[:] = 1
    whose, zeros = beyond(side, 0, p)
    far = zeros & (np.abs(np.subtract.outer(np.arange(128), np.arange(128))) > 100)
    if whose != "result":
        {"left": left, "right": right}[whose].inside.reshape(2, 128, 128)[:, far] = np.nan
    execute(engine, p, [left, right, out], pool())
    result = out.inside.reshape(2, 128, 128)
    assert not np.isnan(result).any()
    if whose == "result":
        assert (result[:, far] == 0).all()
