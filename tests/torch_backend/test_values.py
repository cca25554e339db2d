"""Functions of few operators: values, strides, gradients, dtypes and layouts as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from .compare import check


def rand(*shape: int, grad: bool = True, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype).requires_grad_(grad)


CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "pointwise": (lambda x, y: (x * y + 2).tanh() / (1 + y * y), lambda: (rand(3, 5), rand(5))),
    "softmax of a product": (lambda x, w: (x @ w).softmax(1), lambda: (rand(6, 8), rand(8, 4))),
    "log_softmax": (lambda x: x.log_softmax(-1), lambda: (rand(4, 9),)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (8,), w, b), lambda: (rand(4, 8), rand(8), rand(8))),
    "conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        lambda: (rand(2, 3, 7, 7), rand(4, 3, 3, 3), rand(4)),
    ),
    "max_pool": (lambda x: F.max_pool2d(x, 2), lambda: (rand(2, 3, 8, 8),)),
    "avg_pool": (lambda x: F.adaptive_avg_pool2d(x, 1), lambda: (rand(2, 3, 8, 8),)),
    "index": (lambda x, i: x[i, 1:], lambda: (rand(5, 4), torch.tensor([4, 0, 0]))),
    "gather": (lambda x, i: x.gather(1, i), lambda: (rand(3, 4), torch.tensor([[0, 3], [1, 1], [2, 0]]))),
    "scatter_add": (
        lambda x, i, y: x.scatter_add(0, i, y),
        lambda: (rand(4, 3), torch.tensor([[0, 1, 3], [3, 1, 0]]), rand(2, 3)),
    ),
    "cumsum": (lambda x: x.cumsum(1), lambda: (rand(3, 6),)),
    "cat and split": (
        lambda x, y: [t * (i + 1) for i, t in enumerate(torch.cat([x, y], 1).split(2, 1))],
        lambda: (rand(3, 2), rand(3, 4)),
    ),
    "where and comparisons": (lambda x: torch.where(x > 0, x, 0.1 * x).clamp(max=1), lambda: (rand(9),)),
    "sort and topk": (lambda x: (x.sort(1), x.topk(2, 1)), lambda: (rand(3, 5),)),
    "reductions": (lambda x: (x.sum(0), x.mean(), x.amax(1), x.var(1), x.argmax(1)), lambda: (rand(4, 6),)),
    "einsum": (lambda x, y: torch.einsum("bij,bkj->bik", x, y), lambda: (rand(2, 3, 4), rand(2, 5, 4))),
    "cross_entropy": (
        lambda x, t: F.cross_entropy(x, t),
        lambda: (rand(5, 7), torch.tensor([0, 6, 2, -100, 1])),
    ),
    "double": (lambda x: x.exp().log1p().sum(1), lambda: (rand(3, 4, dtype=torch.float64),)),
    "bfloat16": (
        lambda x, y: (x + y).relu(),
        lambda: (rand(4, 4, dtype=torch.bfloat16), rand(4, dtype=torch.bfloat16)),
    ),
    "integers": (
        lambda x: (x // 3, x % 3, x << 1, x.float().sqrt()),
        lambda: (torch.arange(12).reshape(3, 4),),
    ),
    "booleans": (lambda x: ((x > 0) & (x < 1), (x > 0).any(1), ~(x > 0)), lambda: (rand(3, 4, grad=False),)),
    "complex": (lambda x: (x * x.conj() + 1j).abs(), lambda: (rand(3, 4, dtype=torch.complex64),)),
    "empty": (lambda x: (x * 2, x.sum(), x.sum(0), torch.cat([x, x])), lambda: (rand(0, 4),)),
    "one element": (lambda x: x.exp() * 3, lambda: (rand(),)),
    "factories": (
        lambda x: x + torch.arange(4) + torch.ones(4) + torch.full((4,), 2.5) + torch.tensor([1.0, 2, 3, 4]),
        lambda: (rand(3, 4),),
    ),
    "a number as argument": (lambda x, n: x * n + n, lambda: (rand(3), 2.5)),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda: (rand(1, 2, 4, 4),)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_function_computes_what_eager_mode_computes(name: str) -> None:
    function, make = CASES[name]
    check(function, *make())


LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "transposed": lambda: rand(4, 3).t(),
    "sliced": lambda: rand(4, 9, grad=False)[:, 1:7:2],
    "expanded": lambda: rand(4, 1, grad=False).expand(4, 3),
    "with an offset": lambda: rand(30, grad=False)[7:19].reshape(4, 3),
    "channels last": lambda: rand(2, 3, 4, 5, grad=False).to(memory_format=torch.channels_last),
    "conjugate": lambda: rand(4, 3, grad=False, dtype=torch.complex64).conj(),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_inputs_lie_in_memory_as_they_like(name: str) -> None:
    x = LAYOUTS[name]().detach()
    check(lambda x: (x * 2, x.sum(0), x.transpose(0, 1) + 1, x.contiguous()), x)


def test_results_have_the_strides_of_eager_mode() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return (
            x + 1,
            (x @ y).t(),
            x.to(memory_format=torch.contiguous_format),
            (x * 2).unsqueeze(0).permute(2, 0, 1),
        )

    check(function, rand(4, 3).t().detach(), rand(4, 5))


def test_grouped_attention() -> None:
    """Keys and values with fewer heads than queries."""

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    check(function, rand(2, 6, 5, 8), rand(2, 2, 5, 8), rand(2, 2, 5, 8))


def test_autocast() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return (x @ w).float().softmax(1)

    check(function, rand(4, 8), rand(8, 4))


def test_inside_of_autocast() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        check(lambda x, w: (x @ w).softmax(1), rand(4, 8), rand(8, 4))


def test_default_dtype() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        check(lambda x: x + torch.ones(3) + torch.linspace(0, 1, 3), rand(3, dtype=torch.float64))
    finally:
        torch.set_default_dtype(torch.float32)
