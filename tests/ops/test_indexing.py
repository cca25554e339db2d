"""Indexing, gathering, scattering and masks against PyTorch where OpInfo does not look."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch

NAMES = {
    "x": "lib.arange(12.).reshape(3, 4)",
    "L": "lib.arange(12).reshape(3, 4)",
    "s0": "T(5.)",
    "i": "T([[0, 1], [2, 0]])",
    "i1": "T([0, 2])",
    "i0": "T(0)",
    "e": "lib.zeros(0, dtype=int64)",
    "m": "T([True, False, True, False])",
    "y": "lib.arange(120).reshape(2, 3, 4, 5)",
    "j": "T([0, 1, 1])",
    "k": "T([True, False, True])",
    "z": "lib.zeros(3, 0, 4)",
    "f": "lib.zeros(3, 4)",
}

GETS = """
y[:, j]
y[:, :, j]
y[j, :, j]
y[:, j, :, j]
y[..., j]
y.permute(3, 2, 1, 0)[j]
y.permute(3, 2, 1, 0)[:, j]
y.permute(1, 3, 0, 2)[:, j, :, j]
y[:, j, j]
y[:, k]
y[:, k, j[:2]]
y[k]
y[T([[False, True, False], [True, False, True]])]
y[T([[False, True], [True, False]])]
y[T([1, 0], dtype=lib.uint8)]
y[j.short()]
y[j.char()]
y[j.int()]
y[j.float()]
y[j[:2], j]
y[j + 5]
y[j - 2]
y[j - 7]
y[j[:, None], :, j]
y[T(1)]
y[T(True)]
y[T(False)]
y[:, lib.zeros(2, 0, dtype=int64)]
y[e]
y[j, j, j, j, j]
y[[0, 1]]
y[[True, False]]
y[:, [[0, 1], [2, 0]]]
y[1, j]
y[j, 1]
y[:, 1, j]
y[j, 1, :, j]
y[None, j]
y[j, None]
y[j, None, j]
y[..., None, j, None]
y[:, None, j, ..., None]
y[1:, j, ::2]
z[:, T([0])]
z[T([5])]
z[T([0, 2])]
x[x > 5]
x[x > 50]
s0[T(True)]
s0[None, T([0, 0])]
s0[T([0])]
x[lib.zeros(3, 4, dtype=bool_)]
x[i1, i1]
"""

PUTS = """
f.index_put((j,), lib.ones(4))
f.index_put((j,), lib.ones(4, dtype=float64))
f.index_put((j,), lib.ones(3))
f.index_put((j,), lib.ones(1, 1, 1, 4))
f.index_put((j,), lib.ones(2, 3, 4))
f.index_put((j,), T(1.), accumulate=True)
f.index_put((j, j), lib.ones(3), True)
f.index_put((j[:, None], j), lib.arange(3.), True)
f.index_put((k,), lib.ones(2, 4))
f.index_put((k,), lib.ones(3, 4))
f.index_put((k, T([0, 3])), lib.ones(2))
f.t().index_put((j,), lib.arange(3.))
f.t().index_put((j,), lib.arange(3.), accumulate=True)
f.index_put((j + 5,), T(1.))
f.index_put((j - 3,), T(1.))
f.index_put((j.short(),), lib.ones(4))
f.index_put((j,), T(1))
f.index_put((j, j, j), T(1.))
f.bool().index_put((j,), T(True), accumulate=True)
f.long().index_put((j,), T(2), accumulate=True)
f.to(bfloat16).index_put((j,), T(1., dtype=bfloat16), accumulate=True)
f.to(complex64).index_put((j,), T(1j), accumulate=True)
f.index_put((e,), T(1.))
f.index_put((e,), T(1.), accumulate=True)
f.index_put_((j,), lib.ones(4))
y.index_put((j[:2], j), T(1))
f.nonzero()
x.nonzero()
T(1).nonzero()
T(0).nonzero()
lib.zeros(0, 3).nonzero()
lib.ones(3, 2, 4).nonzero()
T([[nan, 0.], [-0., 1j]]).nonzero()
x.nonzero(as_tuple=True)
lib.nonzero(T(1), as_tuple=True)
lib.nonzero(x, out=lib.zeros(0, dtype=int64)).shape
lib.nonzero(x, out=lib.zeros(0))
lib.nonzero_static(lib.eye(3), size=2)
lib.nonzero_static(lib.eye(3), size=5)
lib.nonzero_static(lib.eye(3), size=5, fill_value=-7)
lib.nonzero_static(lib.eye(3), size=-1)
lib.nonzero_static(T(1.), size=4)
lib.argwhere(lib.eye(2))
lib.argwhere(T(1))
f.to("meta").nonzero()
lib._unsafe_masked_index(x, T([[True], [False]]), [i1[:, None], i1 + 50], 7)
lib._unsafe_masked_index(lib.zeros(0, 4), T([[True], [False]]), [i1[:, None], i1], 7)
lib._unsafe_masked_index_put_accumulate(x, T([[True], [False]]), [i1[:, None], i1 - 50], lib.ones(2, 2))
"""

ALONG = """
lib.gather(x, 0, i)
lib.gather(x, 0, i.int())
lib.gather(x, 0, i.short())
lib.gather(x, 0, i.float())
lib.gather(x, 0, i1)
lib.gather(x, 0, i+5)
lib.gather(x, 0, i-1)
lib.gather(x, 2, i)
lib.gather(x, 0, lib.zeros(2, 5, dtype=lib.long))
lib.gather(x, 0, lib.zeros(5, 2, dtype=lib.long))
lib.gather(s0, 0, i0)
lib.gather(s0, 0, lib.zeros(3, dtype=lib.long))
lib.gather(x[0], 0, i0)
lib.gather(x, 0, e)
lib.gather(x, 0, e.float())
lib.gather(x, 0, lib.zeros(0, 7, dtype=lib.long))
lib.gather(x.t(), 0, i.t())
lib.scatter(x, 0, i, x)
lib.scatter(x, 0, i, L)
lib.scatter(x, 0, i, 1)
lib.scatter(L, 0, i, 1.7)
lib.scatter(L, 0, i, 1j)
lib.scatter(x, 0, i, 1j)
lib.scatter(x, 0, i, i1.float())
lib.scatter(x, 0, i, x[:1])
lib.scatter(x, 0, i.int(), x)
lib.scatter(x, 0, i.short(), x)
lib.scatter(x, 0, e, x)
lib.scatter(x, 0, e, 1)
lib.scatter(x, 0, i1, 1)
lib.scatter(x, 0, i+5, x)
lib.scatter(x, 0, i, x, reduce="add")
lib.scatter(x, 0, i, x, reduce="multiply")
lib.scatter(x, 0, i, x, reduce="sum")
lib.scatter(x, 0, i, 2, reduce="add")
lib.scatter(x.bool(), 0, i, x.bool(), reduce="add")
lib.scatter(s0, 0, i0, 1)
lib.scatter(x.t(), 0, i, 1)
lib.scatter(x, 0, i-1, 1)
lib.scatter(x, 0, lib.zeros(2, 5, dtype=lib.long), 1)
lib.scatter(x, 3, i, 1)
lib.scatter(x, 0, i, T(3.))
lib.scatter(x, 0, i, T(3))
lib.scatter(L.to(lib.uint8), 0, i, 300)
lib.scatter_add(x, 0, i, x)
lib.scatter_add(x, 0, i, L)
lib.scatter_add(x.bool(), 0, i, x.bool())
lib.scatter_add(x, 0, e, x)
lib.scatter_add(x, 0, i+5, x)
lib.scatter_add(x, 0, i1, x)
lib.scatter_add(x, 0, i, x[0])
lib.scatter_add(x, 0, i.int(), x)
lib.scatter_add(x.t(), 0, i, x)
lib.scatter_add(s0, 0, i0, s0)
lib.scatter_reduce(x, 0, i, x, "mean")
lib.scatter_reduce(L, 0, i, L, "mean")
lib.scatter_reduce(-L, 0, i*0, -L, "mean")
lib.scatter_reduce(x, 0, i, x, "foo")
lib.scatter_reduce(x, 0, i, x, "sum", include_self=False)
lib.scatter_reduce(x.bool(), 0, i, x.bool(), "mean")
lib.scatter_reduce(x.bool(), 0, i, x.bool(), "prod")
lib.scatter_reduce(x.bool(), 0, i, x.bool(), "amax")
lib.scatter_reduce(x.to(complex64), 0, i, x.to(complex64), "amax")
lib.scatter_reduce(x.to(complex64), 0, i, x.to(complex64), "mean")
lib.scatter_reduce(x, 0, i, x, reduce="sum")
lib.scatter_reduce(x, 0, i+9, x, reduce="amax")
lib.scatter_reduce(x, 0, e, x, reduce="amax")
lib.scatter_reduce(x, 0, i.int(), x, reduce="amax")
lib.scatter_reduce(x, 0, i, L, reduce="amax")
lib.index_select(x, 0, i1)
lib.index_select(x, 0, i1.int())
lib.index_select(x, 0, i1.short())
lib.index_select(x, 0, i)
lib.index_select(x, 0, i0)
lib.index_select(s0, 0, i0)
lib.index_select(s0, 0, i1)
lib.index_select(s0, 0, i1[:1])
lib.index_select(x, 0, i1+5)
lib.index_select(x, 0, i1-1)
lib.index_select(x, 2, i1)
lib.index_select(x, 0, e)
lib.index_select(x.t(), 0, i1)
lib.index_select(lib.zeros(0, 3), 0, i1)
lib.index_select(x, 0, i1.float())
lib.index_select(s0, 0, e)
lib.index_select(s0, 0, i0+1)
lib.index_add(x, 0, i1, x[:2])
lib.index_add(x, 0, i1, x[:2], alpha=2)
lib.index_add(L, 0, i1, L[:2], alpha=2.5)
lib.index_add(x, 0, i1, x[:2], alpha=2j)
lib.index_add(x, 0, i1, L[:2])
lib.index_add(x, 0, i1, x)
lib.index_add(x, 0, i1, x[:2, :3])
lib.index_add(x, 0, i, x)
lib.index_add(x, 0, i1+5, x[:2])
lib.index_add(x, 0, i1-1, x[:2])
lib.index_add(x, 0, i1.short(), x[:2])
lib.index_add(x, 0, i1.float(), x[:2])
lib.index_add(x, 0, i0, x[:1])
lib.index_add(x, 0, i0, x[0])
lib.index_add(s0, 0, i0, s0)
lib.index_add(s0, 0, i1[:1], s0)
lib.index_add(s0, 0, i1, s0)
lib.index_add(x, 0, e, x[:0])
lib.index_add(x, 2, i1, x[:2])
lib.index_add(x.bool(), 0, i1, x[:2].bool())
lib.index_add(x[0], 0, i0, s0)
lib.index_add(x[0], 0, i1[:1], s0)
lib.index_add(x.t(), 0, i1, x.t()[:2])
lib.index_copy(x, 0, i1, x[:2])
lib.index_copy(x, 0, i1, L[:2])
lib.index_copy(x, 0, i1, x)
lib.index_copy(x, 0, i1, x[:2, :3])
lib.index_copy(x, 0, i, x)
lib.index_copy(x, 0, i1+5, x[:2])
lib.index_copy(x, 0, i1-1, x[:2])
lib.index_copy(x, 0, i1.int(), x[:2])
lib.index_copy(x, 0, i0, x[:1])
lib.index_copy(x, 0, i0, x[0])
lib.index_copy(s0, 0, i0, s0)
lib.index_copy(s0, 0, i1, s0)
lib.index_copy(x, 0, i1, s0)
lib.index_copy(x, 0, i0, s0)
lib.index_copy(x[0], 0, i1, s0)
lib.index_copy(x[0], 0, i0, s0)
lib.index_copy(x, 0, e, x[:0])
lib.index_copy(x.t(), 0, i1, x.t()[:2])
lib.index_fill(x, 0, i1, 1)
lib.index_fill(L, 0, i1, 1.7)
lib.index_fill(x, 0, i1, 1j)
lib.index_fill(x, 0, i1, s0)
lib.index_fill(x, 0, i1, x[0])
lib.index_fill(L, 0, i1, s0)
lib.index_fill(x, 0, i1+5, 1)
lib.index_fill(x, 0, i1-1, 1)
lib.index_fill(x, 0, i1.int(), 1)
lib.index_fill(x, 0, i, 1)
lib.index_fill(x, 0, i0, 1)
lib.index_fill(s0, 0, i0, 1)
lib.index_fill(s0, 0, i1*0, 1)
lib.index_fill(x, 3, i1, 1)
lib.index_fill(L.to(lib.uint8), 0, i1, 300)
lib.index_reduce(x, 0, i1, x[:2], "prod")
lib.index_reduce(x, 0, i1, x[:2], "mean")
lib.index_reduce(L, 0, i1, L[:2], "mean")
lib.index_reduce(-L, 0, i1*0, -L[:2], "mean")
lib.index_reduce(x, 0, i1, x[:2], "sum")
lib.index_reduce(x, 0, i1, x[:2], "amax", include_self=False)
lib.index_reduce(x, 0, i1+5, x[:2], "prod")
lib.index_reduce(x, 0, i1.int(), x[:2], "prod")
lib.index_reduce(x.bool(), 0, i1, x[:2].bool(), "prod")
lib.index_reduce(x.to(complex64), 0, i1, x[:2].to(complex64), "prod")
lib.index_reduce(x, 0, i, x, "prod")
lib.index_reduce(x, 0, i1, L[:2], "prod")
"""

MASKS = """
lib.masked_fill(x, m, 1)
lib.masked_fill(L, m, 1.7)
lib.masked_fill(L, m, s0)
lib.masked_fill(x, m, 1j)
lib.masked_fill(x, m, T(1j))
lib.masked_fill(x, m.byte(), 1)
lib.masked_fill(x, m.long(), 1)
lib.masked_fill(x, m, x[0])
lib.masked_fill(x[0], m.expand(3, 4), 1)
lib.masked_fill(x, m[:3], 1)
lib.masked_fill(L.to(lib.uint8), m, 300)
lib.masked_fill(x.t(), m[:, None], 1)
lib.masked_fill(s0, m, 1)
lib.masked_fill(x, m, x[0, 0])
lib.masked_fill(L, m, T(True))
lib.masked_fill(L, m, True)
lib.masked_fill(L>0, m, 1)
lib.masked_fill(L>0, m, T(1))
lib.masked_select(x, m)
lib.masked_select(x, m.byte())
lib.masked_select(x, m.long())
lib.masked_select(x[0], m.expand(2, 4))
lib.masked_select(s0, T(True))
lib.masked_select(x, T(True))
lib.masked_scatter(x, m, lib.ones(6))
lib.masked_scatter(x, m, lib.ones(5))
lib.masked_scatter(x, m, L)
lib.masked_scatter(x, m.byte(), x)
lib.masked_scatter(x, m.long(), x)
lib.masked_scatter(x[0], m.expand(2, 4), x)
lib.masked_scatter(x.t(), m[:, None], x)
"""

FLAT = """
lib.take(x, i)
lib.take(x, i.int())
lib.take(x, i-3)
lib.take(x, i+20)
lib.take(x, i.float())
lib.take(x, e)
lib.take(lib.zeros(0), i)
lib.take(lib.zeros(0), e)
lib.take(s0, i*0)
lib.put(x, i, x[:2, :2])
lib.put(x, i, x)
lib.put(x, i, x[0])
lib.put(x, i, L[0])
lib.put(x, i+20, x[0])
lib.put(x, i-3, x[0])
lib.put(x, i.int(), x[0])
lib.put(x, i*0, x[0], accumulate=True)
lib.put(lib.zeros(0), i, x[0])
lib.put(lib.zeros(0), e, e.float())
lib.put(x.t(), i, x[0])
lib.take_along_dim(x, i, 0)
lib.take_along_dim(x, i.int(), 0)
lib.take_along_dim(x, i1[None], 0)
lib.take_along_dim(x, i1)
lib.take_along_dim(x, i1, 0)
lib.take_along_dim(x, i-3)
lib.take_along_dim(x, i, 5)
lib.take_along_dim(x, lib.zeros(3, 1, dtype=lib.long), 1)
lib.take_along_dim(x, lib.zeros(3, 3, dtype=lib.long), 0)
"""


def table(*texts: str) -> list[str]:
    return [line for text in texts for line in text.strip().splitlines()]


@pytest.fixture(scope="module", autouse=True)
def _warned_once() -> None:
    """PyTorch warns at the first call of some functions only; have that behind us."""
    x, index = torch.zeros(1), torch.zeros(1, dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x.scatter(0, index, x, reduce="add")
        x.index_reduce(0, index, x, "prod")


def bound(expression: str) -> str:
    """`expression` with the names of the table."""
    return f"(lambda {', '.join(NAMES)}: {expression})({', '.join(NAMES.values())})"


@pytest.mark.parametrize("expression", table(GETS, PUTS, ALONG, MASKS, FLAT))
def test_like_pytorch(like_pytorch: Callable[[str], None], expression: str) -> None:
    like_pytorch(bound(expression))
