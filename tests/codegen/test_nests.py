"""Generated loops at every length around the width of a vector: right results, and nothing touched outside.

The buffers of the second test end where a page begins that may not be touched, so that reading or writing one
byte too far ends the process; it runs in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight

LENGTHS = (1, 2, 3, 5, 7, 8, 9, 15, 17, 31, 33, 40, 64, 100, 127, 260)

PROGRAMS: dict[str, Callable[..., Any]] = {
    "map": lambda x, y: x * y + x,
    "rows": lambda x, y: rushlight.softmax(x, 1) * y,
    "sum": lambda x, y: (x * y).sum(1),
    "columns": lambda x, y: (x * y).sum(0),
    "maximum": lambda x, y: x.amax(1) + y.amin(1),
    "position": lambda x, y: x.argmax(1) - y.argmin(1),
    "two rows": lambda x, y: (x - x.mean(1, keepdim=True)).abs().sum(1),
    "in between": lambda x, y: rushlight.where(x > y, x.amax(1, keepdim=True), y),
}


def eager(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    result: np.ndarray = PROGRAMS[name](rushlight.tensor(x), rushlight.tensor(y)).numpy()
    return result


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_length(name: str, dtype: type) -> None:
    run = rushlight.compile(PROGRAMS[name], fullgraph=True)
    generator = np.random.default_rng(0)
    for length in LENGTHS:
        x, y = (generator.standard_normal((5, length)).astype(dtype) for _ in range(2))
        result = run(rushlight.tensor(x), rushlight.tensor(y)).numpy()
        np.testing.assert_allclose(result, eager(name, x, y), rtol=2e-6, atol=2e-6, err_msg=f"{length}")


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64, np.bool_])
def test_every_length_of_integers(dtype: type) -> None:
    run = rushlight.compile(lambda x, y: ((x ^ y).sum(1), x & y, x.amax(1)), fullgraph=True)
    generator = np.random.default_rng(0)
    for length in LENGTHS:
        x, y = (generator.integers(0, 100, (3, length)).astype(dtype) for _ in range(2))
        total, both, most = (t.numpy() for t in run(rushlight.tensor(x), rushlight.tensor(y)))
        np.testing.assert_array_equal(total, (x ^ y).sum(1))
        np.testing.assert_array_equal(both, x & y)
        np.testing.assert_array_equal(most, x.max(1))


@pytest.mark.parametrize(
    "values",
    [
        [1.0, np.nan, 3.0],
        [np.nan] * 5,
        [-np.inf] * 40,
        [np.inf, -np.inf] * 30,
        [0.0, -0.0] * 20,
        [*[1.0] * 50, np.nan],
        [np.nan, *[2.0] * 70],
    ],
)
def test_extremes_of_special_values(values: list[float]) -> None:
    array = np.array([values, values[::-1]], np.float32)
    run = rushlight.compile(lambda x: (x.amax(1), x.amin(1), x.argmax(1), x.argmin(1)), fullgraph=True)
    most, least, top, bottom = (t.numpy() for t in run(rushlight.tensor(array)))
    np.testing.assert_array_equal(most, array.max(1))
    np.testing.assert_array_equal(least, array.min(1))
    np.testing.assert_array_equal(top, array.argmax(1))
    np.testing.assert_array_equal(bottom, array.argmin(1))


@pytest.mark.parametrize("length", [8, 16, 24, 64])
def test_nan_is_met_in_every_lane(length: int) -> None:
    array = np.random.default_rng(0).standard_normal((length + 1, length)).astype(np.float32)
    array[np.arange(length), np.arange(length)] = np.nan
    run = rushlight.compile(lambda x: (x.amax(1), x.amin(1)), fullgraph=True)
    for result, expected in zip(run(rushlight.tensor(array)), (array.max(1), array.min(1)), strict=True):
        np.testing.assert_array_equal(result.numpy(), expected)
    array = np.zeros((5, length), np.float32)
    array[3, length // 2] = np.nan  # every lane a row of its own: only one is NaN
    np.testing.assert_array_equal(
        rushlight.compile(lambda x: x.amax(0))(rushlight.tensor(array)).numpy(), array.max(0)
    )


IDS = (0, 3, -1, 36, 37, 2**31, -(2**31), 2**32 + 3, -(2**32) + 3, 2**63 - 1, -(2**63))


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_places_compared_with_any_number(op: str) -> None:
    ids, places = np.array(IDS), np.arange(37)

    def masks(ids: Any, x: Any) -> Any:
        places = rushlight.arange(37)
        left, right = (
            rushlight.where(getattr(rushlight, op)(*sides), x, -x)
            for sides in ((ids[:, None], places), (places, ids[:, None]))
        )
        return left, right

    x = np.random.default_rng(0).standard_normal((len(IDS), 37)).astype(np.float32)
    compare = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }[op]
    left, right = rushlight.compile(masks, fullgraph=True)(rushlight.tensor(ids), rushlight.tensor(x))
    np.testing.assert_array_equal(left.numpy(), np.where(compare(ids[:, None], places), x, -x))
    np.testing.assert_array_equal(right.numpy(), np.where(compare(places, ids[:, None]), x, -x))


@pytest.mark.parametrize("length", LENGTHS)
def test_conditions_that_hold_for_whole_rows(length: int) -> None:
    generator = np.random.default_rng(length)
    x, y = (generator.standard_normal((6, length)).astype(np.float32) for _ in range(2))
    row = np.array([0.0, 1.0, -0.0, np.nan, -2.0, np.inf], np.float32)[:, None]
    x[0], y[1] = np.nan, -np.inf  # not chosen, not seen

    def chosen(x: Any, y: Any, row: Any) -> Any:
        both = rushlight.where(rushlight.logical_and(row > 0, x > y), x, y)
        return rushlight.where(row != 0, x, y * 2), rushlight.where(row != row, 0.0, x), both

    given = [rushlight.tensor(a) for a in (x, y, row)]
    first, second, third = (t.numpy() for t in rushlight.compile(chosen, fullgraph=True)(*given))
    np.testing.assert_array_equal(first, np.where(row, x, y * 2))
    np.testing.assert_array_equal(second, np.where(np.isnan(row), np.float32(0), x))
    np.testing.assert_array_equal(third, np.where((row > 0) & (x > y), x, y))


@pytest.mark.parametrize("columns", [1, 7, 16, 48, 100, 128])
def test_rows_that_take_each_step_together(columns: int) -> None:
    run = rushlight.compile(lambda x: (rushlight.softmax(x, -1), rushlight.log_softmax(x, -1)))
    generator = np.random.default_rng(columns)
    for rows in (1, 2, 7, 8, 9, 19):
        x = generator.standard_normal((2, rows, columns)).astype(np.float32)
        x[0, 0], x[1, rows // 2, -1], x[0, rows - 1, 0] = -np.inf, np.nan, np.inf
        wide = x.astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            less = wide - wide.max(-1, keepdims=True)
            total = np.exp(less).sum(-1, keepdims=True)
            expected = np.exp(less) / total, less - np.log(total)
        for result, right in zip(run(rushlight.tensor(x)), expected, strict=True):
            np.testing.assert_allclose(result.numpy(), right, rtol=2e-6, atol=2e-6, err_msg=f"{rows} rows")


@pytest.mark.parametrize(("columns", "together"), [(40, True), (128, True), (5000, False)])
def test_short_rows_take_each_step_together(columns: int, together: bool) -> None:
    text = rushlight.explain(lambda x: rushlight.softmax(x, 1), rushlight.randn(30, columns)).llvm
    assert ("alloca [8 x float]" in text) == together  # the maxima of eight rows
    text = rushlight.explain(lambda x: x - x.mean(1, keepdim=True), rushlight.randn(30, columns)).llvm
    assert "alloca [8 x float]" not in text


def test_an_instruction_that_is_used_often_is_emitted_once() -> None:
    def chain(x: Any) -> Any:
        for _ in range(5):
            x = rushlight.tanh(x + 0.1)
        return x

    run = rushlight.compile(chain, fullgraph=True)
    x = np.linspace(-3, 3, 1000, dtype=np.float32)
    expected = x.astype(np.float64)
    for _ in range(5):
        expected = np.tanh(expected + 0.1)
    # Near 0 the sum with 0.1 cancels, so that the error is one of a number of the size of 0.1.
    np.testing.assert_allclose(run(rushlight.tensor(x)).numpy(), expected, rtol=2e-6, atol=5e-8)
    ((entry,),) = run.specializations.values()
    text = entry.artifact.module.text
    assert sum(line.startswith("define") and '"tanh.' in line for line in text.splitlines()) == 1


GUARDED = """
import ctypes, mmap
import numpy as np
import rushlight

process = ctypes.CDLL(None, use_errno=True)
process.mmap.restype = ctypes.c_void_p
process.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
PAGE = mmap.PAGESIZE

def before_the_end(array):
    '''A copy of `array` whose last byte is the last one of a page, before one that may not be touched.'''
    pages = -(-array.nbytes // PAGE)
    start = process.mmap(None, (pages + 1) * PAGE, 3, 0x22, -1, 0)
    assert process.mprotect(ctypes.c_void_p(start + pages * PAGE), PAGE, 0) == 0
    memory = (ctypes.c_char * array.nbytes).from_address(start + pages * PAGE - array.nbytes)
    copy = np.frombuffer(memory, array.dtype).reshape(array.shape)
    copy[...] = array
    return copy

programs = [
    lambda x, y: x * y + x, lambda x, y: rushlight.softmax(x, 1) * y, lambda x, y: (x * y).sum(1),
    lambda x, y: (x * y).sum(0), lambda x, y: x.argmax(1) - y.argmin(1), lambda x, y: x.t().contiguous() + 1,
    lambda x, y: (x + y).sum(),
]
generator = np.random.default_rng(0)
for dtype in (np.float32, np.float64, np.int8):
    for program in programs:
        run = rushlight.compile(program, fullgraph=True)
        for shape in ((3, 1), (3, 7), (2, 9), (3, 33), (17, 100), (40, 41), (9, 130)):
            if dtype is np.int8 and program is programs[1]:
                continue
            numbers = np.rint(generator.standard_normal((2, *shape)) * 5).astype(dtype)
            given = [rushlight.from_numpy(before_the_end(array)) for array in numbers]
            expected = program(*given).numpy()
            np.testing.assert_allclose(run(*given).numpy(), expected, rtol=1e-5, atol=1e-5)
print("untouched")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made by Linux system calls")
def test_nothing_is_read_beyond_the_end_of_a_buffer() -> None:
    done = subprocess.run([sys.executable, "-c", GUARDED], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "untouched", f"status {done.returncode}: {done.stderr[-2000:]}"


def test_exponentials_of_what_is_below_its_maximum_take_the_short_way() -> None:
    x = rushlight.randn(6, 40)
    assert "exp_nonpositive" in rushlight.explain(lambda x: rushlight.softmax(x, 1), x).loops
    assert "exp_nonpositive" in rushlight.explain(lambda x: rushlight.log_softmax(x * 2, 1), x).loops

    def of_others(x: Any, y: Any) -> Any:
        return rushlight.exp(x - y.amax(1, keepdim=True)) + rushlight.exp(x - x.amin(1, keepdim=True))

    assert "exp_nonpositive" not in rushlight.explain(of_others, x, x + 1).loops
    for row in ([0.0, np.nan], [np.inf, 0.0], [-np.inf, 1.0], [-np.inf, -np.inf], [-1e30, 90.0]):
        given = rushlight.tensor([row * 20])
        got = rushlight.compile(lambda x: rushlight.softmax(x, 1))(given)
        np.testing.assert_allclose(got.numpy(), rushlight.softmax(given, 1).numpy(), rtol=1e-6)


@pytest.mark.parametrize("columns", [7, 64, 5000])  # one vector, whole vectors, more than the first cache
def test_rows_are_fetched_before_they_are_written(columns: int) -> None:
    x = rushlight.randn(9, columns)
    fetched = "llvm.prefetch" in rushlight.explain(lambda x: rushlight.softmax(x, 1), x).llvm
    assert fetched == (columns < 4096)
    got = rushlight.compile(lambda x: rushlight.softmax(x, 1))(x)
    np.testing.assert_allclose(got.numpy(), rushlight.softmax(x, 1).numpy(), rtol=1e-5)
