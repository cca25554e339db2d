"""Factories, casts and copies against PyTorch where OpInfo does not look."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch

import rushlight

X = "lib.arange(120.).reshape(2, 3, 4, 5)"

FILLED = """
lib.full((2,), 300, dtype=lib.uint8)
lib.full((2,), -1, dtype=lib.uint8)
lib.full((2,), -256, dtype=lib.uint8)
lib.full((2,), nan, dtype=int64)
lib.full((2,), 1j, dtype=float32)
lib.full((2,), 1 + 0j, dtype=float32)
lib.full((2,), 1e300)
lib.full((2,), inf)
lib.full((2,), nan, dtype=float16)
lib.full((2,), 1.7, dtype=int32)
lib.full((2,), 2**40, dtype=int32)
lib.full((2,), 65536., dtype=float16)
lib.full((2,), 2**63)
lib.full((2,), 2**63, dtype=lib.uint64)
lib.full((2,), 5, dtype=bool_)
lib.full((2,), True)
lib.full((2,), 1j)
lib.full((2,), T(3))
lib.full((2,), T(3., dtype=float64))
lib.full((2,), T([3.]))
lib.full(2, 1)
lib.full((-2,), 1)
lib.full((), 2.5)
lib.full((0, 3), 1)
lib.full((3,), 2.5, out=lib.zeros(3, dtype=int64))
lib.full((3,), 2.5, dtype=float32, out=lib.zeros(3, dtype=int64))
lib.zeros(2, out=lib.ones(2, dtype=int64))
lib.ones(2, 2, out=lib.zeros(0))
lib.zeros(2., )
lib.zeros("a")
lib.zeros(None)
lib.zeros(2, [3])
lib.zeros(T(3))
lib.zeros(lib.Size([1, 2]))
lib.zeros([])
lib.zeros(-1)
lib.zeros(2, dtype=int64, requires_grad=True)
lib.zeros(2, requires_grad=True).requires_grad
lib.zeros_like(T([1.]), requires_grad=True).requires_grad
lib.ones(2, layout=lib.strided, pin_memory=False, device="cpu")
T([1, 2]).new_full((2,), 3.7)
T([1, 2], dtype=lib.uint8).new_full((2,), 300)
T([1.5]).new_zeros(2, 3)
T([1, 2]).new([1.7, 2])
T([1, 2]).new()
T([1, 2]).new(2, 3).shape == (2, 3)
T([1, 2]).new(lib.Size([2, 3])).shape == (2, 3)
T([1]).new_ones((2,), dtype=float64)
lib.full_like(T([1, 2]), 3.7)
lib.full_like(T([1, 2]), nan)
lib.fill(T([1, 2]), 3.7)
lib.fill(T([1, 2]), T(1.5))
lib.fill(T([1., 2]), T([1.]))
lib.fill(T([1, 2], dtype=lib.uint8), 300)
T([1., 2]).fill_(True)
lib.zero_(T([1., 2]))
T([1., 2]).zero_()
lib.scalar_tensor(1)
lib.scalar_tensor(True)
lib.scalar_tensor(1j)
lib.scalar_tensor(1j, dtype=float32)
lib.scalar_tensor(3.7, dtype=int64)
lib.eye(3)
lib.eye(2, 3, dtype=int64)
lib.eye(3, 0)
lib.eye(-1)
lib.eye(2, -1)
lib.eye(2, dtype=bool_)
lib.eye(2, out=lib.zeros(0))
"""

SEQUENCES = """
lib.arange(5)
lib.arange(5.)
lib.arange(True)
lib.arange(1, 5, 2.)
lib.arange(0, 1, 0.1)
lib.arange(0, 1, 0.1, dtype=float64)
lib.arange(1, 0, -0.3)
lib.arange(0, 5, -1)
lib.arange(0, 5, 0)
lib.arange(0, 5, 0.5, dtype=int64)
lib.arange(1.5, 7.9, dtype=int64)
lib.arange(1.5, 7.9, 1.5, dtype=int64)
lib.arange(1.5, 7.9, 1.5, dtype=int32)
lib.arange(0, 5, dtype=bool_)
lib.arange(0, 5, dtype=complex64)
lib.arange(3, dtype=lib.uint16)
lib.arange(0, inf)
lib.arange(0, nan)
lib.arange(2j)
lib.arange(T(3))
lib.arange(T(3., dtype=float64))
lib.arange(300, dtype=lib.uint8)
lib.arange(2**53, 2**53 + 3)
lib.arange(2**62, 2**62 + 10**15, 10**14)
lib.arange(-5)
lib.arange(0)
lib.arange(3, 0, -1)
lib.arange(start=1, end=4)
lib.arange(end=4)
lib.arange(4, step=2)
lib.arange(3, out=lib.zeros(3))
lib.arange(10, dtype=float16)
lib.arange(10, dtype=bfloat16)
lib.range(0, 3)
lib.range(0, 1, 0.1)
lib.range(0, 3, dtype=int64)
lib.range(3, 0)
lib.range(0, 3, 0)
lib.linspace(0, 1, 5)
lib.linspace(0, 1, 0)
lib.linspace(0, 1, 1)
lib.linspace(0, 1, -1)
lib.linspace(0, 1)
lib.linspace(0, 10, 4, dtype=int64)
lib.linspace(-10.7, 10.7, 4, dtype=int32)
lib.linspace(0, 10j, 4)
lib.linspace(0, 10j, 4, dtype=float32)
lib.linspace(T(0), T(10), 4)
lib.linspace(T(0., dtype=float64), 10, 4)
lib.linspace(0, T(10.), 4)
lib.linspace(T([0.]), 10, 4)
lib.linspace(0, 1, 3, dtype=bool_)
lib.linspace(0, 1, 3, dtype=bfloat16)
lib.linspace(-1, 1, 1001)
lib.linspace(0, 1, 7, out=lib.zeros(7, dtype=float64))
lib.logspace(0, 3, 4)
lib.logspace(0, 3, 4, base=2, dtype=int64)
lib.logspace(0, 3, 4, base=-2)
lib.logspace(0, 1j, 4)
lib.logspace(0, 3, 1)
lib.logspace(T(0), T(3), 4)
lib.logspace(T([0]), T(3), 4)
lib.bartlett_window(5)
lib.bartlett_window(1)
lib.blackman_window(6, False)
lib.hann_window(0)
lib.hann_window(2, periodic=False)
lib.hann_window(5, dtype=int64)
lib.hann_window(-1)
lib.hamming_window(5, True, 0.3)
lib.hamming_window(5, True, 0.3, 0.2)
lib.hamming_window(1, True, 0.3, 0.2)
lib.kaiser_window(7)
lib.kaiser_window(7, False)
lib.kaiser_window(7, False, 3., dtype=float64)
lib.kaiser_window(1)
"""

LAYOUTS = f"""
lib.empty_strided((2, 3), (1, 2)).stride()
lib.empty_strided((2, 3), (1,))
lib.empty_strided((2, 3), (-1, 2))
lib.empty_strided((0, 3), (7, 2)).stride()
lib.empty_strided((2, 3), (0, 1)).stride()
T([1.]).new_empty_strided((2, 3), (1, 2), dtype=int64).stride()
lib.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
lib.empty_permuted((2, 3, 4), (0, 2))
lib.empty_permuted((2, 3, 4), (0, 2, 2))
lib.empty_permuted((2, 3, 4), (0, 2, 3))
lib.empty_permuted((2, 3, 4), (0, 2, -1))
lib.empty((2, 3), memory_format=lib.channels_last)
lib.empty((2, 3, 4, 5), memory_format=lib.channels_last).stride()
lib.empty((2, 3, 4, 5), memory_format=lib.preserve_format)
lib.empty((2, 3, 4, 5, 6), memory_format=lib.channels_last_3d).stride()
lib.empty_like({X}.permute(3, 2, 1, 0)).stride()
lib.zeros_like({X}[:, ::2].permute(3, 2, 1, 0))
lib.ones_like({X}[:, :1].expand(2, 3, 4, 5).permute(3, 2, 1, 0))
lib.zeros_like({X}[:, :1].expand(2, 3, 4, 5), memory_format=lib.contiguous_format)
lib.zeros_like({X}, memory_format=lib.channels_last)
lib.zeros_like({X}[0], memory_format=lib.channels_last)
lib.zeros_like({X}.contiguous(memory_format=lib.channels_last), dtype=int64)
{X}[:, ::2].permute(3, 2, 1, 0).clone()
{X}[:, ::2].permute(3, 2, 1, 0).to(float64)
{X}.contiguous(memory_format=lib.channels_last)[:, :, :, ::2].to(float64)
{X}.contiguous(memory_format=lib.channels_last)[:, :, :, ::2].clone()
{X}.permute(3, 2, 1, 0).to(float64)
{X}.permute(3, 2, 1, 0).to(float64, memory_format=lib.contiguous_format)
{X}.permute(3, 2, 1, 0).contiguous()
{X}.contiguous(memory_format=lib.preserve_format).stride()
{X}.contiguous(memory_format=lib.channels_last)
{X}[0].contiguous(memory_format=lib.channels_last)
{X}.clone(memory_format=lib.channels_last)
{X}.to(memory_format=lib.channels_last)
{X}.permute(3, 2, 1, 0).fill_(2)
lib.fill({X}.permute(3, 2, 1, 0), 2)
"""

CASTS = """
T([300.7, -1.5]).to(int32)
T([-1.5]).to(lib.int8)
T([300]).to(lib.uint8)
T([-1]).to(lib.uint8)
T([nan, 0., 2.]).to(bool_)
T([1j, 0]).to(bool_)
T([70000.]).to(float16)
T([1e39], dtype=float64).to(float32)
T([0.1, 448., 449., 464., 465., 1e9, inf, -inf]).to(lib.float8_e4m3fn).float()
T([0.1, 57344., 61439., 61440., 1e9, inf]).to(lib.float8_e5m2).float()
T([2**53 + 1, 2**60 + 1]).to(float32)
T([1., 2.]).to(T([1]))
T([1., 2.]).to("cpu", int32)
T([1., 2.]).to(float)
T([1., 2.]).to(int)
T([1., 2.]).to(complex)
T([1., 2.]).to("foo")
T([1., 2.]).type_as(T([1], dtype=lib.int8))
T([1., 2.]).copy_(T([3, 4]))
T([[1., 2.], [3., 4.]]).copy_(T([5, 6]))
T([1., 2.]).copy_(3)
T([1., 2.]).copy_(T([1., 2., 3.]))
T([1., 2.]).copy_([1, 2])
T([1., 2.]).copy_(lib.zeros(2, device="meta"))
lib.zeros(1).expand(3).copy_(lib.ones(3))
lib.zeros(3, device="meta").to("cpu")
lib.zeros_like(lib.zeros(3, device="meta"), device="cpu")
lib.zeros(2, 3, device="meta").copy_(lib.ones(3)).shape
"""

RESIZES = """
lib.arange(4).resize_(2, 2)
lib.arange(4).resize_((3,))
lib.arange(4).resize_(lib.Size([2, 2]))
lib.arange(4).resize_(-1)
lib.arange(4).resize_("a")
lib.arange(4).resize_(2.5)
lib.arange(4).resize_()
lib.arange(4.).requires_grad_().resize_(2)
lib.arange(4).reshape(2, 2).t().resize_(2, 2)
lib.arange(4).reshape(2, 2).t().resize_(4)
lib.arange(8).reshape(2, 4)[1:, 1:].resize_(3)
lib.arange(4).resize_(1, 4, 1, 1, memory_format=lib.channels_last)
lib.arange(4).resize_(4, memory_format=lib.channels_last)
lib.arange(4).resize_(4, memory_format=lib.preserve_format)
lib.zeros(2, 3, device="meta").resize_(4).shape
lib.arange(4).resize_as_(lib.zeros(2, 2).t())
lib.arange(4).resize_as_(lib.zeros(2, 2).t(), memory_format=lib.preserve_format)
lib.resize_as_(lib.arange(4), lib.zeros(2, 2))
lib.arange(4).set_(lib.arange(6))
lib.arange(4).set_(lib.arange(6.))
lib.arange(4).set_(lib.arange(6).untyped_storage(), 0, (2,), (1,))
lib.arange(4).set_(lib.arange(6), 1, (2,), (2,))
lib.arange(4).set_(lib.arange(6), 1, (9,), (1,)).shape
lib.zeros(3).item()
T([3]).item()
T(2.5, dtype=bfloat16).item()
lib.zeros(1, device="meta").item()
lib.zeros(2, device="meta").tolist()
lib.is_tensor(lib.zeros(1)), lib.is_tensor(1), lib.is_storage(1)
lib.is_floating_point(T(1)), lib.is_complex(T(1j)), lib.is_signed(T(1, dtype=lib.uint8)), lib.numel(T([1, 2]))
lib.is_floating_point(1)
lib.is_nonzero(T(1)), lib.is_nonzero(T([0.]))
lib.is_nonzero(lib.zeros(2))
lib.zeros(2).is_set_to(lib.zeros(2)), lib.zeros(2).is_shared(), lib.zeros(2).is_pinned()
"""


def table(*texts: str) -> list[str]:
    return [line for text in texts for line in text.strip().splitlines()]


@pytest.mark.parametrize("expression", table(FILLED, SEQUENCES, LAYOUTS, CASTS, RESIZES))
def test_like_pytorch(like_pytorch: Callable[[str], None], expression: str) -> None:
    if "lib.range(" in expression:  # deprecated there; here it is just old
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = _result(expression, torch)
            actual = _result(expression, rushlight)
        assert actual == expected
        return
    like_pytorch(expression)


def _result(expression: str, lib: object) -> object:
    try:
        result = eval(expression, {"lib": lib, "int64": lib.int64})
    except Exception as error:
        return type(error)
    return str(result.dtype).rpartition(".")[2], result.tolist()


FACTORIES = [
    "empty((2, 3))",
    "zeros((2, 3))",
    "ones((2, 3))",
    "full((2, 3), 1.5)",
    "arange(6)",
    "arange(0., 1, .3)",
    "linspace(0, 1, 4)",
    "logspace(0, 1, 4)",
    "eye(3)",
    "eye(2, 4)",
    "scalar_tensor(3)",
    "empty_strided((2, 3), (1, 2))",
    "empty_permuted((2, 3), (1, 0))",
    "hann_window(5)",
    "kaiser_window(5)",
    "zeros_like(lib.ones(2, 3).t())",
    "full_like(lib.ones(2, 3), 2)",
    "ones(2, 3).t().clone()",
    "ones(2, 3).new_zeros((4,))",
    "ones(2, 3).to(lib.int64)",
]


@pytest.mark.parametrize("call", FACTORIES)
def test_the_meta_device_gives_the_same_description(call: str) -> None:
    real = eval(f"lib.{call}", {"lib": rushlight})
    if "ones(2, 3)" in call:
        meta = eval(
            f"lib.{call.replace('ones(2, 3)', 'ones(2, 3, device=meta)')}", {"lib": rushlight, "meta": "meta"}
        )
    else:
        meta = eval(f"lib.{call[:-1]}, device='meta')", {"lib": rushlight})
    assert meta.is_meta
    assert (meta.shape, meta.dtype, meta.stride()) == (real.shape, real.dtype, real.stride())


def test_the_default_dtype_is_what_factories_use() -> None:
    rushlight.set_default_dtype(rushlight.float64)
    try:
        for result in (
            rushlight.zeros(1),
            rushlight.full((1,), 2.5),
            rushlight.arange(0, 1, 0.5),
            rushlight.eye(1),
            rushlight.linspace(0, 1, 2),
            rushlight.hann_window(3),
            rushlight.scalar_tensor(1),
        ):
            assert result.dtype is rushlight.float64
        assert rushlight.full((1,), 1j).dtype is rushlight.complex128
    finally:
        rushlight.set_default_dtype(rushlight.float32)


def test_copies_own_their_memory() -> None:
    x = rushlight.arange(6.0).reshape(2, 3)
    for copy in (x.clone(), x.to(rushlight.float32, copy=True), x.t().contiguous(), rushlight.zeros_like(x)):
        copy.fill_(9)
        assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert x.contiguous() is x
    assert x.to(rushlight.float32) is x


def test_copy_drops_the_imaginary_part_silently() -> None:
    assert rushlight.zeros(2).copy_(rushlight.tensor([1 + 2j, 3])).tolist() == [1.0, 3.0]
    assert rushlight.tensor([1 + 2j]).to(rushlight.float32).tolist() == [1.0]


@pytest.mark.parametrize("n", [2, 3, 10, 1000, 1001])
def test_linspace_is_symmetric_and_ends_exactly(n: int) -> None:
    x = rushlight.linspace(-3.3, 3.3, n).numpy()
    assert x[0] == np.float32(-3.3)
    assert x[-1] == np.float32(3.3)
    np.testing.assert_array_equal(x, -x[::-1])


def test_a_fresh_tensor_has_version_zero_and_writes_count() -> None:
    x = rushlight.zeros(2)
    assert x._version == 0
    x.fill_(1).zero_()
    assert x._version == 2
