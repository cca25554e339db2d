"""A structural operator that a program adds, as docs/operators.md says: every stage of it, in one small file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as torch
from rushlight import library


def reference(x: np.ndarray, width: int) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(x, width, axis=-1).sum(-1)


@pytest.fixture(scope="module")
def window_sum() -> Iterator[Any]:
    with library._scoped_library("mine", "FRAGMENT") as lib:
        lib.define("window_sum(Tensor self, int width) -> Tensor")
        op = torch.ops.mine.window_sum.default

        def shape(self: torch.Tensor, width: int) -> torch.Tensor:
            if not 1 <= width <= self.shape[-1]:
                raise ValueError(f"window_sum: width is {width}, but self has {self.shape[-1]} columns")
            return self.new_empty((*self.shape[:-1], self.shape[-1] - width + 1))

        def gradient(grad: torch.Tensor, width: int) -> torch.Tensor:
            return op(torch.nn.functional.pad(grad, (width - 1, width - 1)), width)

        def lowering(self: Any, width: int) -> Any:
            windows = (*self.shape[:-1], self.shape[-1] - width + 1, width)
            taken = self.reindex(windows, lambda index: [*index[:-2], index[-2] + index[-1]])
            return taken.reduce((len(windows) - 1,), library.Combine.SUM, keepdim=False)

        def batched(info: Any, in_dims: Any, self: torch.Tensor, width: int) -> Any:
            return op(self.movedim(in_dims[0], 0), width), 0

        library.register_fake(op, shape, lib=lib)
        lib.impl(op, lambda self, width: torch.from_numpy(reference(self.numpy(), width)), "CPU")
        library.register_derivative(op, self=gradient, result=library.AUTO_LINEAR, lib=lib)
        library.register_vmap(op, batched, lib=lib)
        library.register_lowering(op, lowering, lib=lib)
        yield op


def test_every_stage(window_sum: Any) -> None:
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    np.testing.assert_allclose(window_sum(x, 3).detach().numpy(), reference(x.detach().numpy(), 3))
    torch.autograd.gradcheck(window_sum, (x, 3), check_forward_ad=True, check_batched_grad=True)
    torch.testing.assert_close(torch.vmap(lambda row: window_sum(row, 2))(x), window_sum(x, 2))
    compiled = torch.compile(lambda x: (window_sum(x * 2, 3).exp() + 1).sum(), fullgraph=True)
    torch.testing.assert_close(compiled(x), (window_sum(x * 2, 3).exp() + 1).sum())
    loops = str(torch.explain(lambda x: window_sum(x * 2, 3), x.detach())).partition("== kernels")[2]
    assert "<- sum mul(" in loops and "mine::window_sum" not in loops
    library.opcheck(window_sum, (x, 3))
