"""Compiled programs beside eager ones, for the tests of this folder."""

from __future__ import annotations

from typing import Any

import numpy as np

import rushlight as rl


def tensor(*shape: int, seed: int = 0, dtype: str = "float32") -> rl.Tensor:
    """Random values that fit the dtype, with some that are equal."""
    values = np.random.default_rng(seed).standard_normal(shape) * 3
    if dtype == "bool":
        return rl.tensor(values > 0)
    return rl.tensor(values.round(1).astype(np.float64)).to(getattr(rl, dtype))


def same(actual: Any, expected: Any, rtol: float = 1e-6) -> None:
    actual, expected = (x if isinstance(x, tuple | list) else (x,) for x in (actual, expected))
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        assert a.shape == b.shape
        assert a.dtype is b.dtype
        x, y = (t.to(rl.float64).numpy() if t.dtype.is_floating_point else t.numpy() for t in (a, b))
        if a.dtype.is_floating_point:
            precise = a.dtype.itemsize >= 4
            np.testing.assert_allclose(x, y, rtol=rtol if precise else 2e-2, atol=rtol if precise else 2e-2)
        else:
            np.testing.assert_array_equal(x, y)


def loops(f: Any, *args: Any) -> str:
    """The kernels of the compiled function, which calls no library routine."""
    text = rl.explain(f, *args).loops
    assert "= extern(" not in text, text
    return text


def check(f: Any, *args: Any, rtol: float = 1e-6) -> str:
    """The compiled function gives what the eager one gives, in native code alone; its kernels as text."""
    same(rl.compile(f, fullgraph=True)(*args), f(*args), rtol)
    return loops(f, *args)


def raised(f: Any, *args: Any) -> type[BaseException] | None:
    try:
        f(*args)
    except Exception as error:
        return type(error)
    return None


def check_raises(f: Any, *args: Any) -> None:
    """The compiled function raises what the eager one raises."""
    expected = raised(f, *args)
    assert expected is not None
    assert raised(rl.compile(f, fullgraph=True), *args) is expected
