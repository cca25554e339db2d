"""Random numbers in compiled code are those of eager code, bit for bit, whatever is done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.registry import REGISTRY
from rushlight.lowering.declare import LibraryCall

FLOATS = [rl.float32, rl.float64, rl.bfloat16, rl.float16]
SHAPE = (13, 7)


def same(function: Callable[..., Any], *args: Any, native: bool = True) -> None:
    """Eager and compiled runs of one seed agree, call after call."""
    compiled = rl.compile(function, fullgraph=True)
    for seed in (5, 2**64 - 9):
        rl.manual_seed(seed)
        eager = [function(*args).numpy() for _ in range(2)]
        rl.manual_seed(seed)
        got = [compiled(*args).numpy() for _ in range(2)]
        for x, y in zip(eager, got, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)
        assert not (eager[0] == eager[1]).all()
    ((entry,),) = compiled.specializations.values()
    assert all(isinstance(segment, str) for segment in entry.artifact.module.segments) == native


def zeros(dtype: Any = rl.float32) -> rl.Tensor:
    return rl.zeros(SHAPE, dtype=dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, rl.complex64, rl.complex128])
@pytest.mark.parametrize("name", ["rand", "randn"])
def test_factories(name: str, dtype: Any) -> None:
    same(lambda: getattr(rl, name)(SHAPE, dtype=dtype))
    same(lambda x: getattr(rl, f"{name}_like")(x.t()), zeros(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_samplers_in_place(dtype: Any) -> None:
    exact = dtype is not rl.float64  # the last bit of log and tan of doubles is the library's
    same(lambda x: x.clone().uniform_(-3, 5), zeros(dtype))
    same(lambda x: x.clone().normal_(1, 2), zeros(dtype))
    same(lambda x: x.clone().exponential_(3), zeros(dtype), native=exact)
    same(lambda x: x.clone().cauchy_(1, 3), zeros(dtype), native=exact)
    same(lambda x: x.clone().geometric_(0.3), zeros(dtype))
    same(lambda x: x.clone().random_(), zeros(dtype))
    same(lambda x: x.clone().log_normal_(0.3), zeros(dtype), native=False)


@pytest.mark.parametrize("span", [(0, 1000), (-3, 99), (0, 2**40), (-(2**63), 2**63 - 1), (5, 2**32 + 5)])
def test_integers(span: tuple[int, int]) -> None:
    same(lambda: rl.randint(*span, SHAPE))
    same(lambda x: x.clone().random_(*span), zeros(rl.int64))


@pytest.mark.parametrize("dtype", [rl.uint8, rl.int8, rl.int16, rl.int32, rl.int64])
def test_integers_of_a_dtype(dtype: Any) -> None:
    same(lambda x: x.clone().random_(), zeros(dtype))
    same(lambda x: rl.randint_like(x, 3, 90), zeros(dtype))


def test_choices() -> None:
    p = rl.linspace(0, 1, 91).reshape(SHAPE)
    same(rl.bernoulli, p)
    same(lambda p: rl.bernoulli(p.double()), p)
    same(lambda x: x.clone().bernoulli_(0.3), p)
    same(lambda x: rl.nn.functional.dropout(x + 1, 0.3), p)
    same(lambda x: rl.normal(x, x + 1) + rl.normal(2.0, x + 1) + rl.normal(x, 2.0), p)


@pytest.mark.parametrize(
    ("function", "message"),
    [(lambda x: rl.bernoulli(x), r"in \[0, 1\]"), (lambda x: rl.normal(x, -x), "std >= 0")],
)
def test_values_that_are_not_allowed(function: Callable[..., Any], message: str) -> None:
    compiled = rl.compile(function, fullgraph=True)
    compiled(zeros())
    bad = zeros()
    bad[12, 6] = 2
    for run in (function, compiled):
        with pytest.raises(RuntimeError, match=message):
            run(bad)


def test_order_of_loops_does_not_matter() -> None:
    """An element is a function of its index: through views, fused or not."""
    same(lambda x: rl.rand_like(x).t()[2:, ::3] * 2, zeros())
    same(lambda x: rl.rand(SHAPE).t() + rl.rand(7, 13), zeros())
    same(lambda: rl.rand(3, 64)[rl.tensor([2, 0])])

    def summed(x: rl.Tensor) -> rl.Tensor:
        return (rl.rand_like(x) > 0.5).sum(1)  # exact in any order

    same(summed, zeros())


def test_several_draws_and_generators() -> None:
    generator = rl.Generator().manual_seed(3)

    def program() -> rl.Tensor:
        return rl.rand(5) + rl.randn(5) * rl.rand(5, generator=generator)

    compiled = rl.compile(program, fullgraph=True)
    results = []
    for run in (program, compiled):
        rl.manual_seed(1)
        generator.manual_seed(3)
        results.append(np.stack([run().numpy() for _ in range(3)]))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)


@pytest.mark.parametrize(
    "function", [lambda x: rl.poisson(x + 2), lambda x: rl.randperm(91), lambda x: rl.multinomial(x + 1, 3)]
)
def test_library_calls_agree(function: Callable[..., Any]) -> None:
    same(function, zeros(), native=False)


def test_every_random_operator_is_native_or_says_why() -> None:
    random = [op for op in REGISTRY if op.random and op.decomposition is None]
    assert len(random) > 20
    for op in random:
        assert callable(op.lowering) or isinstance(op.lowering, LibraryCall), op.name
