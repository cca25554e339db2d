"""Regressions: deterministic mode, quasirandom numbers, sparse and nested tensors, linear algebra."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight.core.dtypes import DTYPES

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf", "ignore:Sparse invariant checks")
DTYPE_NAMES = [
    name
    for name in DTYPES
    if hasattr(torch, name) and hasattr(rl, name) and not name.startswith(("q", "bits"))
]


@pytest.fixture
def deterministic() -> Iterator[None]:
    rl.use_deterministic_algorithms(True)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        rl.use_deterministic_algorithms(False)
        torch.use_deterministic_algorithms(False)


def blanks(lib: Any, dtype: Any) -> list[Any]:
    seed = lib.zeros((2, 3), dtype=dtype)
    return [
        lib.empty(4, 3, dtype=dtype),
        lib.empty(2, 2, out=lib.zeros(0, dtype=dtype)),
        lib.empty_like(seed),
        lib.empty_strided((3, 2), (1, 5), dtype=dtype),
        lib.empty_permuted((2, 3), (1, 0), dtype=dtype),
        seed.new_empty((3,)),
        seed.new_empty_strided((2, 2), (1, 2)),
        lib.zeros(2, dtype=dtype).resize_(5),
        lib.zeros(2, dtype=dtype).resize_(2, 3),
    ]


def plain(tensors: list[Any]) -> list[str]:
    return [str(t.tolist()) for t in tensors]


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("name", DTYPE_NAMES)
def test_d24_deterministic_memory_is_filled(name: str) -> None:
    assert plain(blanks(rl, getattr(rl, name))) == plain(blanks(torch, getattr(torch, name)))


@pytest.mark.parametrize("name", ["float32", "complex64", "int16", "uint8", "bool"])
def test_d24_compiled_programs_follow_the_mode(name: str) -> None:
    dtype = getattr(rl, name)

    @rl.compile
    def function(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        return rl.empty(3, dtype=dtype), rl.empty_like(x)

    x = rl.zeros((2, 2), dtype=dtype)
    function(x), function(x)
    rl.use_deterministic_algorithms(True)
    try:
        for _ in range(3):
            assert plain(list(function(x))) == plain([rl.empty(3, dtype=dtype), rl.empty_like(x)])
        rl.utils.deterministic.fill_uninitialized_memory = False
        for _ in range(3):
            assert "nan" not in plain(list(function(x)))[0]
    finally:
        rl.utils.deterministic.fill_uninitialized_memory = True
        rl.use_deterministic_algorithms(False)


ALERTS = {
    "put": lambda lib: lib.zeros(4).put(lib.tensor([1]), lib.tensor([2.0])),
    "put_": lambda lib: lib.zeros(4).put_(lib.tensor([1]), lib.tensor([2.0])),
    "max_unpool1d": lambda lib: lib.nn.functional.max_unpool1d(lib.ones(1, 1, 2), lib.tensor([[[0, 2]]]), 2),
    "max_unpool2d": lambda lib: lib.nn.functional.max_unpool2d(
        lib.ones(1, 1, 1, 1), lib.zeros(1, 1, 1, 1, dtype=lib.int64), 2
    ),
    "max_unpool3d": lambda lib: lib.nn.functional.max_unpool3d(
        lib.ones(1, 1, 1, 1, 1), lib.zeros(1, 1, 1, 1, 1, dtype=lib.int64), 2
    ),
}
QUIET = {
    "put with accumulate": lambda lib: lib.zeros(4).put_(lib.tensor([1]), lib.tensor([2.0]), accumulate=True),
    "take's backward": lambda lib: lib.ones(3, requires_grad=True).take(lib.tensor([0, 0])).sum().backward(),
    "scatter_add": lambda lib: lib.zeros(3).scatter_add(0, lib.tensor([0, 0]), lib.ones(2)),
}


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("name", ALERTS)
def test_d24_alerts(name: str) -> None:
    for lib in (torch, rl):
        with pytest.raises(RuntimeError, match=r"^\S+ does not have a deterministic implementation, but you"):
            ALERTS[name](lib)
        lib.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match=r"^\S+ does not have a deterministic implementation, but you"):
            ALERTS[name](lib)
    rl.use_deterministic_algorithms(True)
    with pytest.raises(RuntimeError, match="deterministic"):
        rl.compile(lambda: ALERTS[name](rl))()


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("name", QUIET)
def test_d24_no_alert(name: str) -> None:
    for lib in (torch, rl):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            QUIET[name](lib)


def test_d24_alert_of_quantized_resize() -> None:
    x = rl.quantize_per_tensor(rl.ones(3), 0.1, 10, rl.quint8)
    rl.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match=r"^quantized_resize_cpu_ does not"):
            x.resize_(5)
    finally:
        rl.use_deterministic_algorithms(False)
    assert x.shape == (3,)


def test_d24_flags() -> None:
    try:
        for mode in (True, False):
            for warn_only in (True, False):
                found = []
                for lib in (torch, rl):
                    lib.use_deterministic_algorithms(mode, warn_only=warn_only)
                    found.append(
                        (
                            lib.are_deterministic_algorithms_enabled(),
                            lib.is_deterministic_algorithms_warn_only_enabled(),
                            lib.get_deterministic_debug_mode(),
                        )
                    )
                assert found[0] == found[1]
        for wrong in (1, "x"):
            with pytest.raises(TypeError, match="must be bool"):
                rl.use_deterministic_algorithms(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            rl.set_deterministic_debug_mode(1.0)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError):
            rl.set_deterministic_debug_mode(3)
        with pytest.raises(RuntimeError, match="expected a bool, but got int"):
            rl.utils.deterministic.fill_uninitialized_memory = 1
    finally:
        for lib in (torch, rl):
            lib.use_deterministic_algorithms(False)


# Quasirandom numbers.


@pytest.mark.parametrize("dimension", [1, 2, 3, 40, 1111, 21201])
def test_d_sobol_points(dimension: int) -> None:
    ours, theirs = (lib.quasirandom.SobolEngine(dimension) for lib in (rl, torch))
    np.testing.assert_array_equal(ours.sobolstate, theirs.sobolstate)
    for n in (1, 3, 4, 1, 5):
        np.testing.assert_array_equal(ours.draw(n), theirs.draw(n))
        np.testing.assert_array_equal(ours.quasi, theirs.quasi)
    for n in (0, 1, 6, 1000):
        np.testing.assert_array_equal(
            ours.fast_forward(n).draw(2, dtype=rl.float64),
            theirs.fast_forward(n).draw(2, dtype=torch.float64),
        )
    assert ours.num_generated == theirs.num_generated
    for engine in (ours, theirs):
        engine.reset().fast_forward(3)
    np.testing.assert_array_equal(ours.draw_base2(0), theirs.draw_base2(0))


def test_d_sobol_scrambling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same random bits scramble the same way; ours come from the generator of the seed."""
    drawn: list[Any] = []

    def remember(*args: Any, **kwargs: Any) -> Any:
        drawn.append(rl.randint(*args, **kwargs))
        return drawn[-1]

    monkeypatch.setattr(rl.quasirandom, "randint", remember)
    ours = rl.quasirandom.SobolEngine(7, scramble=True, seed=3)
    given = iter([torch.tensor(bits.tolist()) for bits in drawn])
    monkeypatch.setattr(torch, "randint", lambda *args, **kwargs: next(given))
    theirs = torch.quasirandom.SobolEngine(7, scramble=True, seed=3)
    np.testing.assert_array_equal(ours.draw(33), theirs.draw(33))
    monkeypatch.undo()
    again = rl.quasirandom.SobolEngine(7, scramble=True, seed=3)
    np.testing.assert_array_equal(again.draw(33), ours.reset().draw(33))
    assert repr(ours) == repr(theirs)


def test_d_sobol_refusals() -> None:
    for lib in (torch, rl):
        for wrong in (0, 21202):
            with pytest.raises(ValueError, match="Supported range of dimensionality"):
                lib.quasirandom.SobolEngine(wrong)
        engine = lib.quasirandom.SobolEngine(2)
        with pytest.raises(NotImplementedError):
            engine.draw(3, dtype=lib.float16)
        with pytest.raises(RuntimeError):
            engine.draw(-1)
        engine.draw(3)
        with pytest.raises(ValueError, match="balance properties"):
            engine.draw_base2(1)
        out = lib.zeros(1)
        assert engine.draw(2, out=out) is out
        assert out.shape == (2, 2)


# Sparse tensors.


def test_d20_a_sparse_tensor_of_a_size_alone() -> None:
    for lib in (torch, rl):
        for made in (lib.sparse_coo_tensor(size=(2, 3)), lib.sparse_coo_tensor((2, 3))):
            assert tuple(made.shape) == (2, 3)
            assert made._nnz() == 0
        with pytest.raises(TypeError):
            lib.sparse_coo_tensor()


def test_d_sparse_factories_write_to_sparse_outputs() -> None:
    for lib in (torch, rl):
        out = lib.sparse_coo_tensor(size=(1,))
        assert lib.zeros((2, 3), out=out) is out
        assert tuple(out.shape) == (2, 3)
        assert out.layout is lib.sparse_coo
        with pytest.raises(RuntimeError, match="memory format option is only supported by strided tensors"):
            lib.empty_like(out, memory_format=lib.contiguous_format)


def test_d_sparse_numbers_multiply() -> None:
    for lib in (torch, rl):
        matrix, number = lib.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse(), lib.tensor(4.0).to_sparse()
        assert (matrix * number).to_dense().tolist() == [[0, 8], [12, 0]]
        assert (number * matrix).to_dense().tolist() == [[0, 8], [12, 0]]


def test_d_sparse_permuted_stay_coalesced_along_the_first_dimension() -> None:
    dense = np.random.default_rng(0).standard_normal((2, 3, 4)) * (np.arange(24).reshape(2, 3, 4) % 3 > 0)
    for order in ((0, 2, 1), (0, 1, 2), (1, 0, 2), (2, 1, 0)):
        found = [lib.tensor(dense).to_sparse().permute(order) for lib in (torch, rl)]
        assert found[0].is_coalesced() == found[1].is_coalesced()
        np.testing.assert_array_equal(found[0].to_dense(), found[1].to_dense())
        places = found[1].coalesce().indices().numpy()
        assert (np.lexsort(places[::-1]) == np.arange(places.shape[1])).all()


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_d_products_with_packed_weights(name: str) -> None:
    generator = np.random.default_rng(0)
    left, scales = generator.random((4, 64)), generator.random((2, 32, 2))
    weight, bytes_ = generator.integers(0, 16, (32, 64)), generator.integers(-128, 128, (5, 64))
    found = []
    for lib in (torch, rl):
        dtype = getattr(lib, name)
        packed = lib._convert_weight_to_int4pack_for_cpu(lib.tensor(weight, dtype=lib.int32), 2)
        a, s = lib.tensor(left, dtype=dtype), lib.tensor(scales, dtype=dtype)
        four = lib._weight_int4pack_mm_for_cpu(a, packed, 32, s)
        eight = lib._weight_int8pack_mm(a, lib.tensor(bytes_, dtype=lib.int8), s[0, :5, 0].contiguous())
        found.append([np.array(r.float().tolist()) for r in (four, eight)])
        for wrong in (
            lambda: lib._convert_weight_to_int4pack_for_cpu(lib.zeros(16, 4, dtype=lib.int64), 2),
            lambda: lib._convert_weight_to_int4pack_for_cpu(lib.zeros(17, 4, dtype=lib.int32), 2),
            lambda: lib._weight_int4pack_mm_for_cpu(a, packed, 33, s),
            lambda: lib._weight_int4pack_mm_for_cpu(a.double(), packed, 32, s),
        ):
            with pytest.raises(RuntimeError):
                wrong()
    tolerance = 1e-5 if name == "float32" else 2e-2
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * 10)


# Linear algebra of hard inputs.

NAN, INF = float("nan"), float("inf")
HARD = {
    "nan": [[NAN, NAN], [NAN, NAN]],
    "one nan": [[1.0, 2.0], [2.0, NAN]],
    "inf": [[INF, INF], [INF, INF]],
    "singular": [[1.0, 1.0], [1.0, 1.0]],
    "fine": [[2.0, 1.0], [1.0, 3.0]],
    "zero": [[0.0, 0.0], [0.0, 0.0]],
    "batch": [[[2.0, 0.0], [0.0, 2.0]], [[1.0, 1.0], [1.0, 1.0]]],
}
FUNCTIONS: dict[str, Any] = {
    "cholesky": lambda lib, a: lib.linalg.cholesky(a).diagonal(0, -2, -1),
    "upper cholesky": lambda lib, a: lib.linalg.cholesky(a, upper=True),
    "cholesky_ex": lambda lib, a: lib.linalg.cholesky_ex(a).info,
    "lu_factor": lambda lib, a: lib.linalg.lu_factor(a)[1],
    "lu_factor_ex": lambda lib, a: lib.linalg.lu_factor_ex(a, check_errors=True)[2],
    "slogdet": lambda lib, a: lib.linalg.slogdet(a)[0],
}


@pytest.mark.parametrize("kind", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("matrix", HARD)
def test_d_linalg_of_hard_inputs(matrix: str, name: str, kind: str) -> None:
    def run(lib: Any) -> Any:
        try:
            return np.array(FUNCTIONS[name](lib, lib.tensor(HARD[matrix], dtype=getattr(lib, kind))).tolist())
        except RuntimeError as error:
            return type(error).__name__.lstrip("_"), str(error).split(" ")[0].removesuffix("_ex:").strip(":")

    expected, found = run(torch), run(rl)
    if isinstance(expected, tuple):
        assert found == expected
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_d_linalg_least_squares_of_nan_is_a_runtime_error() -> None:
    for lib in (torch, rl):
        with pytest.raises(RuntimeError):
            lib.linalg.lstsq(lib.full((2, 2), NAN), lib.ones(2, 2))
