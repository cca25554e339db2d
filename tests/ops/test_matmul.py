"""Matrix products: special values, dtypes, layouts and errors that PyTorch's samples leave out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rushlight
from rushlight.core.dispatch import call, run_name
from rushlight.core.registry import REGISTRY

from .products import check, sample, to_torch

INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
nan, inf = float("nan"), float("inf")


# --- matmul -------------------------------------------------------------------------------------------

SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((6, 5, 2, 3), (1, 5, 3, 4)),
    ((2, 0), (0, 4)),
    ((0, 3), (3, 4)),
    ((5, 2, 0), (0,)),
    ((5, 2, 0), (5, 0, 4)),
    ((0, 2, 3), (0, 3, 4)),
    ((5, 0, 3), (3, 4)),
    ((0,), (0,)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "int64", "complex128", "bfloat16"])
def test_matmul_of_every_pair_of_ranks(left, right, dtype):
    check(lambda m, a, b: a @ b, sample(*left, dtype=dtype), sample(*right, dtype=dtype, seed=1), exact=True)


def test_matmul_of_views():
    a, b = sample(4, 5, 6), sample(6, 5, 4, seed=1)
    for x, y in [
        (a.transpose(0, 2), b.transpose(1, 2)),
        (a[:, :, ::3], b[:4, ::3]),
        (a[0].t(), b[:, 0].t()[:, :5].t()),
        (a.permute(1, 0, 2), b.permute(1, 0, 2)),
        (a[:1, :1].expand(3, 5, 6), b[:, 0]),
    ]:
        result = rushlight.matmul(x, y)
        np.testing.assert_array_equal(result.numpy(), np.matmul(x.numpy(), y.numpy()))
        assert result.is_contiguous()


def test_matmul_of_conjugate_views():
    a, b = sample(3, 4, dtype="complex64"), sample(4, 5, dtype="complex64", seed=1)
    np.testing.assert_array_equal((a.conj() @ b).numpy(), a.numpy().conj() @ b.numpy())
    np.testing.assert_array_equal((a @ b.conj()).numpy(), a.numpy() @ b.numpy().conj())
    np.testing.assert_array_equal((b.mH @ a.mH).numpy(), (a.numpy() @ b.numpy()).conj().T)
    v, w = a[0], b[:, 0]
    assert v.vdot(w).item() == np.vdot(v.numpy(), w.numpy())
    assert v.conj().vdot(w).item() == v.dot(w).item()


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([[nan, 1.0]], [[0.0], [1.0]], [[nan]]),
        ([[inf, 1.0]], [[0.0], [1.0]], [[nan]]),
        ([[inf, 1.0]], [[1.0], [1.0]], [[inf]]),
        ([[inf, -inf]], [[1.0], [1.0]], [[nan]]),
        ([[1e38, 1e38]], [[10.0], [10.0]], [[inf]]),
    ],
)
def test_special_values_in_a_product(a, b, expected):
    result = rushlight.tensor(a) @ rushlight.tensor(b)
    np.testing.assert_array_equal(result.numpy(), np.array(expected, np.float32))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("size", [4, 60])
def test_integer_products_wrap_around(dtype, size):
    info = np.iinfo(dtype)
    random = np.random.default_rng(7)
    a, b = random.integers(info.min, info.max, (2, size, size), np.dtype(dtype), endpoint=True)
    x, y = rushlight.from_numpy(a), rushlight.from_numpy(b)
    np.testing.assert_array_equal((x @ y).numpy(), a @ b)
    np.testing.assert_array_equal(rushlight.addmm(x, x, y, beta=3, alpha=2).numpy(), 3 * a + 2 * (a @ b))
    assert x[0].dot(y[0]).item() == (a[0] * b[0]).sum(dtype=dtype)


def test_large_integers_are_exact():
    big = 2**53 + 1
    a = rushlight.full((40, 40), big, dtype=rushlight.int64)
    eye = rushlight.eye(40, dtype=rushlight.int64)
    assert (a @ eye).eq(big).all().item()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_products_accumulate_in_float32(dtype):
    """4096 ones: a sum in bfloat16 would stop at 256, one in float16 at 2048."""
    ones = rushlight.ones(1, 4096, dtype=getattr(rushlight, dtype))
    assert (ones @ ones.t()).item() == 4096
    assert ones[0].dot(ones[0]).item() == 4096
    assert rushlight.baddbmm(ones[:, :1, None], ones[None], ones.t()[None]).item() == 4096  # 4097, rounded


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_addmm_rounds_once(dtype):
    """1 + 2**-9 needs the product and the sum unrounded: rounded separately the small term would be lost."""
    kind = getattr(rushlight, dtype)
    bits = {"float16": 10, "bfloat16": 7}[dtype]
    a = rushlight.tensor([[1.0, 2.0 ** -(bits + 1)]], dtype=kind)
    b = rushlight.tensor([[1.0], [1.0]], dtype=kind)
    c = rushlight.tensor([[2.0 ** -(bits + 1)]], dtype=kind)
    assert rushlight.addmm(c, a, b).item() == 1 + 2.0**-bits


@pytest.mark.parametrize(
    "function",
    [
        lambda m, a, b: m.dot(a[0], b[0]),
        lambda m, a, b: m.outer(a[0], b[1]),
        lambda m, a, b: m.ger(a[0], b[1]),
        lambda m, a, b: m.inner(a, b),
        lambda m, a, b: m.inner(a, b[0, 0]),
        lambda m, a, b: m.kron(a, b[0]),
        lambda m, a, b: m.kron(a, b[0, 0]),
        lambda m, a, b: m.mv(a, b[0]),
        lambda m, a, b: m.tensordot(a, b, dims=2),
        lambda m, a, b: m.tensordot(a, b, dims=0),
        lambda m, a, b: m.tensordot(a, b, dims=([0], [0])),
        lambda m, a, b: m.tensordot(a, b, dims=([1, 0], [1, 0])),
        lambda m, a, b: m.tensordot(a, b[:1], dims=([0], [0])),
        lambda m, a, b: m.tensordot(a[:1], b, dims=([0], [0])),
        lambda m, a, b: m.tensordot(a, b, dims=m.tensor([[1], [1]])),
        lambda m, a, b: m.tensordot(a, b, m.tensor(2)),
        lambda m, a, b: m.chain_matmul(a, b.t(), a),
        lambda m, a, b: m.chain_matmul(a),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64"])
def test_other_products(function, dtype):
    check(function, sample(2, 3, dtype=dtype), sample(2, 3, dtype=dtype, seed=1), exact=True)


def test_kron_promotes():
    check(lambda m, a, b: m.kron(a, b), sample(2, 3, dtype="int64"), sample(3, dtype="float32"), exact=True)
    check(lambda m, a, b: m.kron(a, b), sample(2, dtype="float32"), sample(2, 0, 1), exact=True)


# --- beta * self + alpha * product --------------------------------------------------------------------


def plus(name):
    return {
        "addmm": ((2, 4), (2, 3), (3, 4)),
        "addmv": ((2,), (2, 3), (3,)),
        "addr": ((2, 3), (2,), (3,)),
        "addbmm": ((2, 4), (5, 2, 3), (5, 3, 4)),
        "baddbmm": ((5, 2, 4), (5, 2, 3), (5, 3, 4)),
    }[name]


PLUS = ["addmm", "addmv", "addr", "addbmm", "baddbmm"]


@pytest.mark.parametrize("name", PLUS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "complex64", "bfloat16"])
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (2, 3), (0, 1), (1, 0), (0, 0)])
def test_scaled_sums(name, dtype, beta, alpha):
    tensors = [sample(*shape, dtype=dtype, seed=i) for i, shape in enumerate(plus(name))]
    check(lambda m, *t: getattr(m, name)(*t, beta=beta, alpha=alpha), *tensors)
    for shape in [(), (1,), plus(name)[0][-1:]]:
        check(
            lambda m, *t: getattr(m, name)(*t, beta=beta, alpha=alpha),
            sample(*shape, dtype=dtype),
            *tensors[1:],
        )


@pytest.mark.parametrize("name", PLUS)
def test_beta_zero_ignores_nan(name):
    tensors = [sample(*shape, seed=i) for i, shape in enumerate(plus(name))]
    tensors[0] = rushlight.full(plus(name)[0], nan)
    assert not check(lambda m, *t: getattr(m, name)(*t, beta=0), *tensors).isnan().any().item()
    assert check(lambda m, *t: getattr(m, name)(*t, beta=0.5), *tensors).isnan().all().item()


@pytest.mark.parametrize("name", ["addmm", "addmv"])
def test_alpha_zero_ignores_the_product_as_blas_does(name):
    tensors = [sample(*shape, seed=i) for i, shape in enumerate(plus(name))]
    tensors[1] = tensors[1] * nan
    check(lambda m, *t: getattr(m, name)(*t, alpha=0), *tensors, exact=True)


@pytest.mark.parametrize("name", ["addmm", "addmv", "baddbmm", "addbmm"])
def test_integer_scalars_are_truncated(name):
    tensors = [sample(*shape, dtype="int64", seed=i) for i, shape in enumerate(plus(name))]
    check(lambda m, *t: getattr(m, name)(*t, beta=1.7, alpha=2.9), *tensors, exact=True)


def test_addr_promotes_and_takes_bool():
    check(lambda m, *t: m.addr(*t), sample(2, 3, dtype="int64"), sample(2), sample(3, dtype="float64"))
    true = rushlight.tensor([True, False, True])
    for beta, alpha in [(True, True), (True, False), (False, True), (2, 1)]:
        check(lambda m, *t: m.addr(*t, beta=beta, alpha=alpha), true.expand(3, 3), true, true, exact=True)


def test_in_place_forms():
    a, b = sample(2, 2), sample(2, 2, seed=1)
    target = a.clone()
    assert target.addmm_(a, b, beta=2) is target
    np.testing.assert_array_equal(target.numpy(), 2 * a.numpy() + a.numpy() @ b.numpy())
    target.addmm_(target, target)
    expected = 2 * a.numpy() + a.numpy() @ b.numpy()
    np.testing.assert_array_equal(target.numpy(), expected + expected @ expected)
    with pytest.raises(RuntimeError):
        a.clone()[0].addmm_(a, b)
    out = rushlight.empty(2, 2, dtype=rushlight.float64)
    with pytest.raises(RuntimeError, match="dtype"):
        rushlight.mm(a, b, out=out)


def test_wide_results_of_half_products():
    a = sample(4, 4, dtype="bfloat16")
    assert rushlight.mm(a, a, out_dtype=rushlight.float32).dtype is rushlight.float32
    thirds = rushlight.tensor([[1 / 3]], dtype=rushlight.bfloat16)
    exact = thirds.float().item() ** 2
    assert rushlight.mm(thirds, thirds, out_dtype=rushlight.float32).item() == np.float32(exact)
    assert rushlight.bmm(thirds[None], thirds[None], out_dtype=rushlight.float32).item() == np.float32(exact)
    assert rushlight.addmm(thirds.float(), thirds, thirds, rushlight.float32).dtype is rushlight.float32
    with pytest.raises(RuntimeError, match="out_dtype"):
        rushlight.mm(a, a, out_dtype=rushlight.float64)


def test_int_mm():
    a, b = sample(32, 16, dtype="int8"), sample(16, 8, dtype="int8", seed=1)
    check(lambda m, x, y: m._int_mm(x, y), a, b, exact=True)
    assert rushlight._int_mm(a.to(rushlight.uint8), b).dtype is rushlight.int32
    with pytest.raises(RuntimeError, match="int8"):
        rushlight._int_mm(a, b.int())


LINEAR = [
    ((2, 3), (4, 3), None),
    ((2, 3), (4, 3), (4,)),
    ((3,), (4, 3), (4,)),
    ((3,), (4, 3), None),
    ((3,), (3,), None),
    ((5, 2, 3), (4, 3), (4,)),
    ((5, 2, 3), (4, 3), None),
    ((2, 3), (3,), None),
    ((5, 2, 3), (3,), None),
    ((6, 5, 2, 3), (4, 3), (4,)),
    ((0, 3), (4, 3), (4,)),
    ((5, 2, 0), (4, 0), (4,)),
    ((2, 3), (4, 3), (2, 4)),
    ((5, 2, 3), (4, 3), (2, 4)),
    ((2, 3), (4, 3), ()),
    ((5, 2, 3), (4, 3), (1,)),
]


@pytest.mark.parametrize(("input", "weight", "bias"), LINEAR)
@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64", "bfloat16"])
def test_linear(input, weight, bias, dtype):
    args = [
        sample(*shape, dtype=dtype, seed=i) if shape is not None else None
        for i, shape in enumerate((input, weight, bias))
    ]
    actual = run_name("linear", *args)
    expected = torch.nn.functional.linear(*map(to_torch, args))
    torch.testing.assert_close(to_torch(actual), expected, rtol=0, atol=0)


def test_addmm_activation():
    check(
        lambda m, *t: m._addmm_activation(*t, beta=2, alpha=3),
        sample(2, 2),
        sample(2, 3),
        sample(3, 2),
        exact=True,
    )


# --- errors -------------------------------------------------------------------------------------------

BAD_CALLS = {
    "mm(x, v)": RuntimeError,
    "mm(x, w)": RuntimeError,
    "mm(x, d)": RuntimeError,
    "mm(t, t)": NotImplementedError,
    "bmm(x, x)": RuntimeError,
    "bmm(b, c)": RuntimeError,
    "mv(x, x)": RuntimeError,
    "mv(x, v[:1])": RuntimeError,
    "dot(x, v)": RuntimeError,
    "dot(v, v[:1])": RuntimeError,
    "dot(v, d[0])": RuntimeError,
    "matmul(v, v[0])": RuntimeError,
    "matmul(b, c)": RuntimeError,
    "matmul(v, v[:1])": RuntimeError,
    "addmm(x, w, x)": RuntimeError,
    "addmm(b, x, x)": RuntimeError,
    "addmm(d, x, x)": RuntimeError,
    "addmm(w, x, x)": RuntimeError,
    "addmm(x, x, x, alpha=1j)": RuntimeError,
    "addmm(x, x, x, alpha=x)": TypeError,
    "addmv(x, x, v)": RuntimeError,
    "addmv(v, x, w)": RuntimeError,
    "baddbmm(c, b, b)": RuntimeError,
    "addbmm(b, b, b)": RuntimeError,
    "addr(x, x, v)": RuntimeError,
    "addr(i, i[0], i[0], alpha=0.5)": RuntimeError,
    "outer(x, v)": RuntimeError,
    "inner(x, w.t())": RuntimeError,
    "inner(x, d)": RuntimeError,
    "tensordot(x, w, dims=([0], [0]))": RuntimeError,
    "tensordot(x, x, dims=-1)": RuntimeError,
    "tensordot(x, x, dims=3)": RuntimeError,
    "tensordot(x, x, dims=([5], [0]))": IndexError,
    "tensordot(x, x, dims=(0, 0))": TypeError,
    "tensordot(x, x, dims=1.5)": RuntimeError,
    "tensordot(x, x, dims=([0, 1], [0]))": RuntimeError,
    "chain_matmul(v)": RuntimeError,
    "chain_matmul()": RuntimeError,
    "cross(x, x)": RuntimeError,
    "cross(x, x, dim=0)": RuntimeError,
    "cdist(v, x)": RuntimeError,
    "cdist(x, w.t())": RuntimeError,
    "cdist(x, x, p=-1)": RuntimeError,
    "cdist(x, x, compute_mode='fast')": ValueError,
    "cdist(i, i)": RuntimeError,
    "cdist(x, d)": RuntimeError,
    "pdist(v)": RuntimeError,
    "pdist(x, p=-1)": RuntimeError,
    "pdist(i)": RuntimeError,
    "cosine_similarity(i, i)": RuntimeError,
    "cosine_similarity(x, x, eps=-1)": RuntimeError,
    "cosine_similarity(v, v)": IndexError,
    "bilinear(x, x, b[0])": IndexError,
    "bilinear(x, v, b)": RuntimeError,
    "matrix_power(w, 2)": RuntimeError,
    "matrix_power(v, 2)": RuntimeError,
    "bilinear(x, d, b)": RuntimeError,
}


@pytest.mark.parametrize("text", BAD_CALLS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_errors_have_the_type_of_torchs(text):
    for module in (torch, rushlight):
        scope = {name: getattr(module, name) for name in dir(module) if name.isidentifier()}
        scope |= {
            "x": module.ones(2, 2),
            "v": module.ones(2),
            "w": module.ones(3, 2),
            "b": module.ones(2, 2, 2),
            "c": module.ones(3, 2, 2),
            "d": module.ones(2, 2, dtype=module.float64),
            "i": module.ones(2, 2, dtype=module.int64),
            "t": module.ones(2, 2, dtype=module.bool),
        }
        with pytest.raises(BAD_CALLS[text]):
            eval(text, scope)


def test_messages_name_the_operator_the_shapes_and_the_rule():
    with pytest.raises(RuntimeError) as info:
        rushlight.addmm(sample(4, 2), sample(4, 3), sample(5, 2))
    assert str(info.value) == (
        "addmm: mat1 and mat2 cannot be multiplied: mat1 is (4, 3), mat2 is (5, 2); "
        "mat1.shape[1] must equal mat2.shape[0]"
    )


# --- decompositions -----------------------------------------------------------------------------------

DECOMPOSED = {
    "addmm": ((2, 4), (2, 3), (3, 4), 2, 3),
    "addmv": ((2,), (2, 3), (3,), 2, 3),
    "addr": ((2, 3), (2,), (3,), 2, 3),
    "addbmm": ((2, 4), (5, 2, 3), (5, 3, 4), 2, 3),
    "baddbmm": ((5, 2, 4), (5, 2, 3), (5, 3, 4), 0, 3),
    "mv": ((2, 3), (3,)),
    "dot": ((3,), (3,)),
    "vdot": ((3,), (3,)),
    "linalg_cross": ((4, 3), (1, 3), -1),
    "_cdist_forward": ((4, 3), (5, 3), 1.0, None),
    "_euclidean_dist": ((4, 3), (5, 3)),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name in DECOMPOSED
        for dtype in ("float64", "int64", "bfloat16", "complex128")
        if dtype == "float64" or "dist" not in name
    ],
)
def test_decomposition_equals_kernel(name, dtype):
    op = REGISTRY[name]
    args = tuple(
        sample(*a, dtype=dtype, seed=i) if isinstance(a, tuple) else a for i, a in enumerate(DECOMPOSED[name])
    )
    kernel = call(op, args)
    torch.testing.assert_close(to_torch(op.decomposition(args)), to_torch(kernel), rtol=1e-14, atol=1e-14)
