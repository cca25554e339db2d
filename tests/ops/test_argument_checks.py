"""Arguments that PyTorch refuses, warns of, or takes although they look wrong: the same here."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

UPSAMPLE = {
    "upsample_nearest1d": (1, ()),
    "upsample_nearest2d": (2, ()),
    "upsample_nearest3d": (3, ()),
    "upsample_linear1d": (1, (False,)),
    "upsample_bilinear2d": (2, (False,)),
    "upsample_bicubic2d": (2, (False,)),
    "upsample_trilinear3d": (3, (False,)),
    "_upsample_nearest_exact2d": (2, ()),
    "_upsample_bilinear2d_aa": (2, (False,)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UPSAMPLE)
def test_outputs_of_upsampling_have_its_dtype(same: Any, name: str, dtype: str) -> None:
    rank, rest = UPSAMPLE[name]

    def scenario(m: Any) -> Any:
        out = m.empty((1, 1) + (4,) * rank, dtype=getattr(m, dtype))
        return getattr(m._C._nn, name)(m.ones((1, 1) + (2,) * rank), (4,) * rank, *rest, out=out)

    same(scenario)


@pytest.mark.parametrize("name", ["normal_", "uniform_", "exponential_", "cauchy_", "log_normal_"])
@pytest.mark.parametrize("size", [0, 1])
def test_continuous_numbers_for_integers_are_refused(same: Any, name: str, size: int) -> None:
    same(lambda m: getattr(m.empty(size, dtype=m.int32), name)())


@pytest.mark.parametrize("name", ["rand", "randn"])
@pytest.mark.parametrize("size", [0, 1])
def test_random_factories_of_integers(same: Any, name: str, size: int) -> None:
    same(lambda m: getattr(m, name)((size, 2), dtype=m.int32))
    same(lambda m: getattr(m, f"{name}_like")(m.empty(size, 2, dtype=m.bool)))


@pytest.mark.parametrize("arguments", ["tensors", "mean", "std", "numbers"])
def test_outputs_of_normal_that_do_not_fit(same: Any, arguments: str) -> None:
    def scenario(m: Any) -> Any:
        given = {
            "tensors": (m.ones(2, 3), m.zeros(3)),
            "mean": (m.ones(2, 3), 0.0),
            "std": (1.0, m.zeros(2, 3)),
            "numbers": (1.0, 0.0, (2, 3)),
        }[arguments]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = m.normal(*given, out=m.ones(1, 3))
        return result, ["was resized" in str(w.message) for w in caught]

    if arguments == "mean":
        pytest.skip("PyTorch raises the error of an addition inside of it")
    same(scenario)


@pytest.mark.parametrize("dtype", ["bool", "int64", "float32", "complex64"])
def test_complex_numbers_fill_complex_tensors_alone(same: Any, dtype: str) -> None:
    same(lambda m: m.ones(2, dtype=getattr(m, dtype)).index_fill_(0, m.tensor([0]), 1 + 1j))


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_new_takes_tensors_of_its_own_dtype(same: Any, dtype: str) -> None:
    same(lambda m: m.ones(2).new(m.ones(3, dtype=getattr(m, dtype))))


@pytest.mark.parametrize("dims", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (-3, -2, -1), (-3, -1, -2)])
def test_whether_a_permuted_sparse_tensor_is_coalesced(same: Any, dims: tuple[int, ...]) -> None:
    def scenario(m: Any) -> Any:
        x = m.eye(3).reshape(3, 3, 1).expand(3, 3, 2).to_sparse()
        swapped = x.transpose(dims[1], dims[2])
        return x.permute(dims).is_coalesced(), x.permute(dims).to_dense(), swapped.is_coalesced()

    same(scenario)
