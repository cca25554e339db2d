"""Linear algebra: batches, singular matrices, and errors that OpInfo's samples do not reach."""

import numpy as np
import pytest
import torch

import rushlight as rl

RNG = np.random.default_rng(0)


def matrices(*shape, kind=float):
    real = RNG.standard_normal(shape)
    return real + 1j * RNG.standard_normal(shape) if kind is complex else real


def same(ours, theirs, tol=1e-10):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.resolve_conj().numpy(), b.resolve_conj().numpy(), rtol=tol, atol=tol)


@pytest.mark.parametrize("kind", [float, complex])
def test_reflections_are_packed_as_lapack_does(kind):
    for m, n in ((5, 3), (3, 5), (4, 4), (1, 3)):
        a = matrices(2, m, n, kind=kind)
        same(rl.geqrf(rl.tensor(a)), torch.geqrf(torch.tensor(a)))
    a, tau = torch.geqrf(torch.tensor(matrices(2, 5, 3, kind=kind)))
    for left, shape in ((True, (2, 5, 4)), (False, (2, 4, 5))):
        c = matrices(*shape, kind=kind)
        for transpose in (False, True):
            ours = rl.ormqr(rl.tensor(a.numpy()), rl.tensor(tau.numpy()), rl.tensor(c), left, transpose)
            same([ours], [torch.ormqr(a, tau, torch.tensor(c), left, transpose)])


def test_geqrf_is_differentiable():
    a = rl.tensor(matrices(4, 3)).requires_grad_()
    assert rl.autograd.gradcheck(rl.geqrf, (a,), check_forward_ad=True)


@pytest.mark.parametrize("function", ["inv", "solve", "cholesky", "lu_factor_ex"])
def test_singular_matrices_raise(function):
    a = np.stack([np.eye(3), np.diag([1.0, 0.0, 1.0])])
    args = (rl.tensor(a), rl.ones(2, 3, 1, dtype=rl.float64)) if function == "solve" else (rl.tensor(a),)
    options = {"check_errors": True} if function == "lu_factor_ex" else {}
    kind = RuntimeError if function == "lu_factor_ex" else rl.linalg.LinAlgError  # as in PyTorch
    with pytest.raises(kind, match="Batch element 1"):
        getattr(rl.linalg, function)(*args, **options)
    assert issubclass(rl.linalg.LinAlgError, RuntimeError)


def test_info_tells_which_matrix_is_singular():
    a = rl.tensor(np.stack([np.eye(3), np.diag([1.0, 0.0, 1.0])]))
    assert rl.linalg.inv_ex(a).info.tolist() == torch.linalg.inv_ex(torch.tensor(a.numpy())).info.tolist()
    assert rl.linalg.cholesky_ex(a).info.tolist() == [0, 2]


def test_determinant_of_a_singular_matrix_has_a_gradient():
    a = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 1.0], [0.0, 0.0, 3.0]])
    matrix = rl.tensor(a, requires_grad=True)
    rl.linalg.det(matrix).backward()
    cofactors = [[12.0, -6.0, 0.0], [-6.0, 3.0, 0.0], [2.0, -1.0, 0.0]]
    np.testing.assert_allclose(matrix.grad.numpy(), cofactors, atol=1e-8)


@pytest.mark.parametrize("pivots", [[0, 1, 2], [1, 2, 9], [-1, 2, 3], [1, 2, -3], [-5, -5, 1]])
def test_pivots_are_checked(pivots):
    matrix, order = rl.eye(3, dtype=rl.float64), rl.tensor(pivots, dtype=rl.int32)
    with pytest.raises(RuntimeError, match="pivots"):
        rl.linalg.ldl_solve(matrix, order, matrix)
    if min(pivots) < 1 or max(pivots) > 3:
        with pytest.raises(RuntimeError, match="pivots"):
            rl.lu_unpack(matrix, order)


def test_ldl():
    a = matrices(2, 4, 4)
    a = a + a.swapaxes(-1, -2)
    b = matrices(2, 4, 3)
    ours = rl.linalg.ldl_factor(rl.tensor(a))
    same(ours, torch.linalg.ldl_factor(torch.tensor(a)))
    np.testing.assert_allclose(
        rl.linalg.ldl_solve(*ours, rl.tensor(b)).numpy(), np.linalg.solve(a, b), rtol=1e-9
    )


def test_right_hand_sides():
    a, b = matrices(3, 4, 4), matrices(4)
    same(
        [rl.linalg.solve(rl.tensor(a), rl.tensor(b))], [torch.linalg.solve(torch.tensor(a), torch.tensor(b))]
    )
    c = matrices(5, 1, 2, 4)
    ours = rl.linalg.solve(rl.tensor(a), rl.tensor(c), left=False)
    same([ours], [torch.linalg.solve(torch.tensor(a), torch.tensor(c), left=False)])


def test_solve_under_vmap():
    a, b = rl.tensor(matrices(3, 4, 4)), rl.tensor(matrices(3, 4))
    expected = rl.stack([rl.linalg.solve(x, y) for x, y in zip(a, b, strict=True)])
    same([rl.vmap(rl.linalg.solve)(a, b)], [expected])
    shared = rl.vmap(rl.linalg.solve, in_dims=(None, 0))(a[0], b)
    same([shared], [rl.stack([rl.linalg.solve(a[0], y) for y in b])])
    per_matrix = rl.vmap(rl.linalg.solve, in_dims=(0, None))(a, b[0])
    same([per_matrix], [rl.stack([rl.linalg.solve(x, b[0]) for x in a])])


def test_low_rank():
    a = matrices(8, 3) @ matrices(3, 6)
    for function, matrix in ((rl.svd_lowrank, a), (rl.pca_lowrank, a - a.mean(0))):
        u, s, v = function(rl.tensor(a), q=3)
        np.testing.assert_allclose((u * s @ v.mT).numpy(), matrix, atol=1e-9)
    with pytest.raises(ValueError, match="q"):
        rl.pca_lowrank(rl.tensor(a), q=9)


@pytest.mark.parametrize(
    "call",
    [
        lambda lib: lib.linalg.inv(lib.ones(2, 3)),
        lambda lib: lib.linalg.inv(lib.ones(3)),
        lambda lib: lib.linalg.inv(lib.ones(2, 2, dtype=lib.int64)),
        lambda lib: lib.linalg.inv(lib.ones(2, 2, dtype=lib.bfloat16)),
        lambda lib: lib.linalg.qr(lib.ones(2, 2), mode="x"),
        lambda lib: lib.linalg.matrix_norm(lib.ones(2, 2), 3),
        lambda lib: lib.linalg.solve(lib.ones(2, 2), lib.ones(3)),
        lambda lib: lib.linalg.eigh(lib.ones(2, 2), UPLO="x"),
        lambda lib: lib.linalg.eig(lib.full((2, 2), float("nan"))),
        lambda lib: lib.linalg.cond(lib.ones(2, 3), 1),
        lambda lib: lib.linalg.tensorinv(lib.ones(2, 3), 1),
        lambda lib: lib.linalg.vander(lib.ones(1)),
    ],
)
def test_errors(call):
    with pytest.raises(Exception) as theirs:
        call(torch)
    with pytest.raises(theirs.type):
        call(rl)


@pytest.mark.parametrize(
    ("matrices", "sides"),
    [((1, 3, 3), (2, 3, 3)), ((4, 3, 2), (1, 3, 2)), ((1, 5, 2), (4, 5, 3)), ((1, 1, 4, 2), (3, 2, 4, 1))],
)
@pytest.mark.parametrize("driver", ["gelsy", "gelsd", "gels"])
def test_least_squares_of_matrices_that_serve_several_sides(matrices, sides, driver):
    a, b = (np.random.default_rng(seed).standard_normal(shape) for seed, shape in ((0, matrices), (1, sides)))
    found = rl.linalg.lstsq(rl.from_numpy(a), rl.from_numpy(b), driver=driver)
    expected = torch.linalg.lstsq(torch.from_numpy(a), torch.from_numpy(b), driver=driver)
    for name in ("solution", "rank", "singular_values"):
        np.testing.assert_allclose(getattr(found, name).numpy(), getattr(expected, name).numpy(), rtol=1e-9)


def test_least_squares_wants_as_many_dimensions_on_both_sides():
    for library in (torch, rl):
        with pytest.raises(RuntimeError):
            library.linalg.lstsq(library.ones(3, 3), library.ones(2, 3, 1))
