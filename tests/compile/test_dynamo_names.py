"""`torch._dynamo`, `torch._inductor` and `torch._prims_common`: the names that have a meaning here."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo
import torch._prims_common

import rushlight as rl
from rushlight._dynamo.testing import rand_strided
from rushlight._inductor.compile_fx import compile_fx, compile_fx_inner
from rushlight.core.marks import marks_of
from rushlight.fx.experimental.proxy_tensor import make_fx


def test_optimize_compiles() -> None:
    for backend in ("inductor", compile_fx, "eager"):
        function = rl._dynamo.optimize(backend)(lambda x: x.sin() + 1)
        x = rl.randn(3)
        rl.testing.assert_close(function(x), x.sin() + 1)


def test_optimize_assert_wants_one_graph() -> None:
    function = rl._dynamo.optimize_assert("inductor")(lambda x: x + 1 if x.sum() > 0 else x)
    with pytest.raises(rl._dynamo.exc.Unsupported, match="reads a value"):
        function(rl.ones(2))


def test_guard_fail_fn_is_told_why() -> None:
    told = []
    function = rl._dynamo.optimize(guard_fail_fn=told.append)(lambda x: x + 1)
    function(rl.ones(2))
    assert not told
    function(rl.ones(2, dtype=rl.float64))
    assert len(told) == 1
    assert "float64" in told[0].reason


def test_graph_break() -> None:
    def program(x):
        y = x + 1
        rl._dynamo.graph_break()
        return y * 2

    assert rl.compile(program)(rl.ones(2)).tolist() == [4.0, 4.0]
    with pytest.raises(rl._dynamo.exc.Unsupported, match="graph_break"):
        rl.compile(program, fullgraph=True)(rl.ones(2))
    assert program(rl.ones(2)).tolist() == [4.0, 4.0]


def test_reset_forgets() -> None:
    function = rl.compile(lambda x: x + 1)
    function(rl.ones(2))
    rl._dynamo.reset_code_caches()
    assert not function.specializations


def test_marks() -> None:
    x = rl.ones(2, 3, 4)
    rl._dynamo.mark_dynamic(x, 0)
    rl._dynamo.maybe_mark_dynamic(x, 1)
    rl._dynamo.mark_static(x, 2)
    marks = marks_of(x)
    assert marks is not None
    assert (marks.dynamic, marks.must_be, marks.static) == ({0, 1}, {0}, {2})


@pytest.mark.parametrize("dtype", [rl.float32, rl.float8_e4m3fn, rl.int64, rl.complex64])
def test_rand_strided(dtype) -> None:
    made = rand_strided((2, 3), (1, 4), dtype, extra_size=2)
    assert (made.shape, made.stride(), made.dtype) == ((2, 3), (1, 4), dtype)
    assert made.untyped_storage().size() == 12 * dtype.itemsize


def test_graphs_compile() -> None:
    module = make_fx(lambda x, y: (x @ y, x.sum()))(rl.ones(2, 2), rl.ones(2, 2))
    given = [rl.randn(2, 2), rl.randn(2, 2)]
    expected = module(*given)
    rl.testing.assert_close(compile_fx(module, given)(*given), expected)
    rl.testing.assert_close(compile_fx_inner(module, given)(given), expected)


def test_kernels_are_counted() -> None:
    rl._inductor.metrics.reset()
    assert rl._inductor.metrics.generated_kernel_count == 0
    function = rl.compile(lambda x: x.softmax(0) * 3.25)
    function(rl.ones(7))
    assert rl._inductor.metrics.generated_kernel_count == 1


def test_facts_about_dtypes() -> None:
    mine, theirs = rl._prims_common, torch._prims_common
    for name in (
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex32",
        "complex64",
        "int8",
        "int64",
        "bool",
    ):
        ours, other = getattr(rl, name), getattr(torch, name)
        for predicate in ("is_boolean_dtype", "is_integer_dtype", "is_float_dtype", "is_complex_dtype"):
            assert getattr(mine, predicate)(ours) == getattr(theirs, predicate)(other), (predicate, name)
        assert mine.is_low_precision_dtype(ours) == theirs.is_low_precision_dtype(other)
        assert mine.get_computation_dtype(ours).name == str(theirs.get_computation_dtype(other))[6:]
        assert mine.dtype_to_type(ours) is theirs.dtype_to_type(other)
