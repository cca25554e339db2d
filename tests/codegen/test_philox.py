"""Random numbers computed in registers are those of core/generator.py, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rushlight.codegen.llvm.philox import UNIFORM_BITS, Philox, box_muller, uniform_of_bits
from rushlight.core import dtypes, generator

STREAMS = [(0, 0), (67280421310721, 8), (2**64 - 3, 2**40 + 4), (2**31, 2**34 - 16)]
COUNT = 512


def element_by_element(
    kernels: Any, seed: int, emit: Callable[[Philox, Any], Any], output: str, lanes: int
) -> np.ndarray:
    """`emit(stream, index)` for index 0, 1, ...; the seed is a value, as it is in compiled code."""
    index, seeds = np.arange(COUNT), np.full(COUNT, seed, np.uint64).view(np.int64)
    (result,) = kernels.run(
        lambda e, i, s: emit(Philox(e, e.extract(s, 0)), i), [index, seeds], [output], lanes
    )
    return result


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
@pytest.mark.parametrize(("seed", "offset"), STREAMS)
def test_words(kernels: Any, seed: int, offset: int, lanes: int) -> None:
    got = element_by_element(kernels, seed, lambda p, i: p.words(p.e.add(i, offset)), "uint32", lanes)
    np.testing.assert_array_equal(got, generator.philox(seed, offset, COUNT))


@pytest.mark.parametrize("lanes", [1, 4, 8])
@pytest.mark.parametrize("dtype", UNIFORM_BITS)
def test_uniform(kernels: Any, dtype: str, lanes: int) -> None:
    seed, offset = STREAMS[2]
    output = "float64" if dtype == "float64" else "float32"
    got = element_by_element(
        kernels, seed, lambda p, i: p.uniform(p.e.constant(offset, i), i, dtype), output, lanes
    )
    want = generator.rand(seed, offset, COUNT, getattr(dtypes, dtype)).astype(output)
    np.testing.assert_array_equal(got.view(f"u{got.itemsize}"), want.view(f"u{got.itemsize}"))


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("seed", "offset"), STREAMS)
def test_normal(kernels: Any, seed: int, offset: int, dtype: str, lanes: int) -> None:
    got = element_by_element(
        kernels, seed, lambda p, i: p.normal(p.e.constant(offset, i), i, dtype == "float64"), dtype, lanes
    )
    want = generator.randn(seed, offset, COUNT, getattr(dtypes, dtype))
    np.testing.assert_array_equal(got.view(f"u{got.itemsize}"), want.view(f"u{got.itemsize}"))


def test_elements_need_no_order(kernels: Any) -> None:
    """Any permutation of the lanes gives the permuted numbers."""
    order = np.random.default_rng(1).permutation(COUNT)
    (got,) = kernels.run(lambda e, i: Philox(e, 99).normal(e.constant(4, i), i), [order], ["float32"], 8)
    np.testing.assert_array_equal(got, generator.randn(99, 4, COUNT)[order])


@pytest.mark.parametrize("bits", [32, 64])
def test_extreme_sources(kernels: Any, bits: int) -> None:
    """All ones, zeros and single bits: the ends of the interval and every swap and sign."""
    unsigned, real = f"uint{bits}", f"float{bits}"
    ones = 2**bits - 1
    single = [1 << k for k in range(bits)]
    values = np.array([0, ones, *single, *[ones - v for v in single]], unsigned)
    a, b = (v.ravel() for v in np.meshgrid(values, values))
    even, odd = kernels.run(box_muller, [a, b], [real] * 2, 8)
    words = np.stack([a, b], 1).ravel().view("uint32")
    want = generator.normal(words, getattr(dtypes, real))
    np.testing.assert_array_equal(even.view(unsigned), want[0::2].view(unsigned))
    np.testing.assert_array_equal(odd.view(unsigned), want[1::2].view(unsigned))
    (got,) = kernels.run(lambda e, v: uniform_of_bits(e, v, real), [values], [real], 8)
    np.testing.assert_array_equal(got, generator.uniform(values.view("uint32"), getattr(dtypes, real)))
