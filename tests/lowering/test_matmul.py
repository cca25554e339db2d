"""Matrix products of compiled functions: values of eager code, operands read in place, epilogues fused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.loops.kernels import Extern, Product
from rushlight.runtime.redzones import guarding


def tensor(*shape: int, seed: int = 0, dtype: Any = np.float32) -> rl.Tensor:
    return rl.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def compiled(f: Any, *args: Any) -> tuple[Any, list[Any]]:
    """The result of the compiled function, and the steps of its schedule."""
    function = rl.compile(f, fullgraph=True)
    result = function(*args)
    (entry,) = next(iter(function.specializations.values()))
    return result, entry.artifact.schedule.steps


def same(a: rl.Tensor, b: rl.Tensor, tolerance: float = 1e-5) -> None:
    assert a.shape == b.shape
    assert a.dtype is b.dtype
    x, y = (t.to(rl.float64).numpy() if t.dtype.is_floating_point else t.numpy() for t in (a, b))
    scale = max(1.0, float(np.abs(y).max(initial=0)))
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * scale)


def check(f: Any, *args: Any, tolerance: float = 1e-5) -> list[Any]:
    result, steps = compiled(f, *args)
    same(result, f(*args), tolerance)
    return steps


def products(steps: list[Any]) -> list[Product]:
    return [step for step in steps if isinstance(step, Product)]


@pytest.mark.parametrize("size", [1, 2, 7, 31, 70])
def test_operators(size: int) -> None:
    a, b, c = tensor(size, 13), tensor(13, 9, seed=1), tensor(size, 9, seed=2)
    batch, other = tensor(3, size, 5), tensor(3, 5, 6, seed=1)
    bias, vector, column = tensor(9), tensor(13), tensor(size)
    for f, *args in (
        (lambda a, b: a @ b, a, b),
        (lambda a, b: b.t() @ a.t(), a, b),
        (lambda c, a, b: c.addmm(a, b), c, a, b),
        (lambda bias, a, b: bias.addmm(a, b, beta=0.5, alpha=2), bias, a, b),
        (lambda a, v: a.mv(v), a, vector),
        (lambda a, v: (a.t() + 0).t().mv(v), a, vector),
        (lambda x, a, v: x.addmv(a, v, beta=3, alpha=0.25), column, a, vector),
        (lambda x, v: x.dot(v), vector, vector),
        (lambda x, y: x.bmm(y), batch, other),
        (lambda x, y: x.baddbmm(y, y.transpose(1, 2), beta=2), tensor(3, size, size), batch),
    ):
        steps = check(f, *args)
        assert not any(isinstance(step, Extern) for step in steps)


def test_composites() -> None:
    check(lambda a, b: a @ b, tensor(2, 3, 4, 5), tensor(5, 6))
    check(lambda a, b: a @ b, tensor(2, 1, 4, 5), tensor(3, 5, 6))
    check(lambda a, b: a @ b, tensor(5), tensor(3, 5, 6))
    check(lambda a, b: rl.einsum("bij,bkj->bik", a, b), tensor(3, 4, 5), tensor(3, 6, 5))
    check(lambda a, b: rl.tensordot(a, b, 2), tensor(3, 4, 5), tensor(4, 5, 2))


def test_views_are_read_where_they_lie() -> None:
    steps = check(lambda a, b: a.t()[2:, 1:7] @ b[::2].t(), tensor(9, 12), tensor(8, 6))
    assert len(steps) == 1
    product = steps[0].shape
    assert (product.left.row, product.left.column, product.left.offset) == (1, 12, 14)
    assert (product.right.row, product.right.column) == (1, 12)


def test_a_batch_with_one_matrix_is_one_product() -> None:
    steps = check(lambda a, b: a.bmm(b.unsqueeze(0).expand(6, 4, 5)), tensor(6, 3, 4), tensor(4, 5))
    assert steps[0].shape.batch == 1
    assert steps[0].shape.rows == 18


def test_broadcast_operands() -> None:
    check(lambda a, b: a.expand(5, 4) @ b.expand(4, 6), tensor(1, 4), tensor(1, 6))
    check(lambda a, b: a @ b.expand(4, 6), tensor(3, 4), tensor(4, 1))


@pytest.mark.parametrize("beta", [0, 0.5])
def test_empty(beta: float) -> None:
    check(lambda a, b: a @ b, tensor(3, 0), tensor(0, 4))
    check(lambda a, b: a @ b, tensor(0, 3), tensor(3, 4))
    check(lambda a, b: a.bmm(b), tensor(0, 2, 3), tensor(0, 3, 4))
    check(lambda c, a, b: c.addmm(a, b, beta=beta), tensor(3, 4), tensor(3, 0), tensor(0, 4))
    check(lambda a, b: a.mv(b), tensor(3, 0), tensor(0))
    check(lambda a, b: a.dot(b), tensor(0), tensor(0))


def test_addend_is_not_read_without_beta() -> None:
    c = rl.from_numpy(np.full((4, 5), np.nan, np.float32))
    result, _ = compiled(lambda c, a, b: c.addmm(a, b, beta=0), c, tensor(4, 3), tensor(3, 5))
    assert not np.isnan(result.numpy()).any()


@pytest.mark.parametrize("dtype", [rl.float64, rl.bfloat16, rl.float16])
def test_other_floats(dtype: Any) -> None:
    """Narrow floats are summed in float32 and rounded once: as close as one rounding allows."""
    a, b = tensor(33, 65).to(dtype), tensor(65, 41, seed=1).to(dtype)
    result, steps = compiled(lambda a, b: (a @ b).relu(), a, b)
    assert len(products(steps)) == 1
    exact = np.maximum(a.to(rl.float64).numpy() @ b.to(rl.float64).numpy(), 0)
    bound = {rl.float64: 1e-14, rl.bfloat16: 2.0**-8, rl.float16: 2.0**-10}[dtype]
    around = 1e-13 if dtype is rl.float64 else 1e-4
    np.testing.assert_allclose(result.to(rl.float64).numpy(), exact, rtol=bound, atol=around)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16, np.int8, np.uint8])
def test_integers_are_exact(dtype: Any) -> None:
    """Also where they wrap around."""
    rng = np.random.default_rng(0)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    a, b, c = (
        rl.from_numpy(rng.integers(low, high, shape, dtype=dtype)) for shape in ((9, 13), (13, 21), (21,))
    )
    for f, *args in (
        (lambda a, b: a @ b, a, b),
        (lambda c, a, b: c.addmm(a, b, beta=3, alpha=2), c, a, b),
        (lambda a, b: b.t().mv(a[0]), a, b),
        (lambda a: a[0].dot(a[1]), a),
    ):
        result, steps = compiled(f, *args)
        assert not any(isinstance(step, Extern) for step in steps)
        assert result.dtype is args[0].dtype
        assert (result.numpy() == f(*args).numpy()).all()


def test_other_dtypes_stay_calls() -> None:
    numbers = rl.from_numpy((np.arange(12) * (1 + 2j)).reshape(3, 4))
    result, _ = compiled(lambda a: a @ a.t(), numbers)
    assert np.allclose(result.numpy(), (numbers @ numbers.t()).numpy())


# Epilogues.


@pytest.mark.parametrize("shape", [(4, 6, 8), (64, 100, 70), (200, 33, 90), (70, 1500, 40), (1, 40, 100)])
@pytest.mark.parametrize("transposed", [False, True])
def test_epilogue_is_one_kernel(shape: tuple[int, int, int], transposed: bool) -> None:
    rows, depth, columns = shape
    x, residual, bias = tensor(rows, depth), tensor(rows, columns, seed=2), tensor(columns, seed=3)
    w = tensor(columns, depth, seed=1) if transposed else tensor(depth, columns, seed=1)

    def f(x, w, bias, residual):
        return (bias.addmm(x, w.t() if transposed else w) / 8).tanh() * 2 + residual

    steps = check(f, x, w, bias, residual)
    assert len(steps) == 1
    assert steps[0].epilogue is not None


FINISHED: dict[str, Any] = {
    "addrow": lambda x, w, bias, one, two: x @ w + bias,
    "addmatrix": lambda x, w, bias, one, two: one + x @ w,
    "mulmatrix": lambda x, w, bias, one, two: (x @ w) * one,
    "addrow-addmatrix": lambda x, w, bias, one, two: one + bias.addmm(x, w),
    "mulrow-mulmatrix-addmatrix": lambda x, w, bias, one, two: (x @ w) * bias * one + two,
    "addmatrix-addmatrix": lambda x, w, bias, one, two: (x @ w + one) + one,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(64, 48, 64), (61, 40, 128), (200, 33, 90), (70, 1500, 72), (4, 9, 200)])
@pytest.mark.parametrize("steps", FINISHED)
def test_sums_and_products_are_finished_in_registers(
    steps: str, shape: tuple[int, int, int], dtype: Any
) -> None:
    """Tiles that are not whole, and all but the last block of the depth, are not; nothing beside the row or
    the matrices is read."""
    rows, depth, columns = shape
    sizes = (rows, depth), (depth, columns), (columns,), (rows, columns), (rows, columns)
    args = [tensor(*size, seed=seed, dtype=dtype) for seed, size in enumerate(sizes)]
    function = rl.compile(FINISHED[steps], fullgraph=True)
    assert f".{steps}" in rl.explain(function, *args).llvm
    exact = FINISHED[steps](*[arg.double() for arg in args])
    with guarding():
        guarded = function(*args)
    tolerance = 1e-5 if dtype is np.float32 else 1e-13
    for result in (guarded, function(*args)):
        same(result.double(), exact, tolerance)


def test_what_changes_places_is_not_finished_in_registers() -> None:
    """Rows that are read backwards, numbers of another dtype, products of products: epilogues as before."""
    x, w, bias = tensor(40, 20), tensor(20, 64), tensor(64)
    for f in (
        lambda x, w, b: x @ w + b.flip(0),
        lambda x, w, b: (x @ w) * (x @ w) + b,
        lambda x, w, b: x @ w + b.double(),
        lambda x, w, b: b - x @ w,
    ):
        check(f, x, w, bias)
        kernels = re.findall(r"\.tile\.\w+\.\d+\.\d+\.\d+\.([\w-]+)", rl.explain(f, x, w, bias).llvm)
        assert set(kernels) == {"nothing"}


def test_epilogue_of_batches_and_reshaped_results() -> None:
    batches = tensor(3, 20, 7), tensor(3, 7, 18), tensor(20, 1)
    assert len(check(lambda a, b, c: (a.bmm(b) + c).sigmoid(), *batches)) == 1
    linear = check(lambda x, w, b: (x @ w + b).relu(), tensor(2, 5, 7), tensor(7, 18), tensor(18))
    assert len(linear) == 1
    assert len(check(lambda a, v: a.mv(v).exp(), tensor(50, 30), tensor(30) / 10)) == 1


def test_product_that_is_also_read_elsewhere_is_stored() -> None:
    def f(a, b):
        p = a @ b
        return p, p.relu(), (p * 2).exp().sum(0)

    function = rl.compile(f, fullgraph=True)
    a, b = tensor(40, 5), tensor(5, 30)
    for x, y in zip(function(a, b), f(a, b), strict=True):
        same(x, y)


def test_several_results_of_one_epilogue() -> None:
    def f(a, b, c):
        p = a @ b
        return p.tanh(), p * c, p.relu().exp()

    function = rl.compile(f, fullgraph=True)
    args = tensor(40, 20) / 8, tensor(20, 33), tensor(33)
    for x, y in zip(function(*args), f(*args), strict=True):
        same(x, y)
    (entry,) = next(iter(function.specializations.values()))
    assert len(entry.artifact.schedule.steps) == 1


def test_copy_of_a_product_is_the_product() -> None:
    steps = check(lambda a, b: (a @ b).view(4, 5, 30), tensor(20, 5), tensor(5, 30))
    assert len(steps) == 1
    assert steps[0].epilogue is None


def test_reads_at_other_elements_stay_apart() -> None:
    def f(a, b):
        p = a @ b
        return p.t() + p, p.flip(0) * 2

    function = rl.compile(f, fullgraph=True)
    a, b = tensor(20, 8), tensor(8, 20)
    for x, y in zip(function(a, b), f(a, b), strict=True):
        same(x, y)


def test_whole_layers_in_one_entry() -> None:
    """Linear layers with activations, forward and backward, need no call of a library."""

    def f(x, w1, b1, w2, b2):
        hidden = (x @ w1.t() + b1).relu()
        loss = ((hidden @ w2.t() + b2) ** 2).mean()
        return rl.autograd.grad(loss, (w1, b1, w2, b2))

    shapes = (64, 50), (40, 50), (40,), (10, 40), (10,)
    args = [tensor(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    for parameter in args[1:]:
        parameter.requires_grad_()
    function = rl.compile(f, fullgraph=True)
    for x, y in zip(function(*args), f(*args), strict=True):
        same(x, y)
    (entry,) = next(iter(function.specializations.values()))
    assert len(entry.artifact.module.segments) == 1


def test_notes_tell_what_was_fused() -> None:
    function = rl.compile(lambda a, b: (a @ b).relu(), fullgraph=True)
    function(tensor(8, 8), tensor(8, 8))
    (entry,) = next(iter(function.specializations.values()))
    assert any("runs on the tiles of matmul" in note for note in entry.artifact.schedule.notes)


def test_parts_of_transposed_products_are_copied_as_they_lie() -> None:
    def f(a, b, c):
        return rl.cat([(a.transpose(1, 2) @ b).transpose(1, 2), c * 2], 2)

    (call,) = products(check(f, tensor(3, 40, 16), tensor(3, 40, 50), tensor(3, 50, 9)))
    assert (call.shape.rows, call.shape.columns) == (50, 16)
    # what somebody else reads as it is stays
    (call,) = products(
        check(
            lambda a, b, c: rl.cat([f(a, b, c), (a.transpose(1, 2) @ b).sum(1)[..., None]], 2),
            tensor(3, 40, 16),
            tensor(3, 40, 50),
            tensor(3, 50, 9),
        )
    )
    assert call.shape.rows == 16
