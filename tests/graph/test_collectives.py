"""Collectives are begun early and waited for late."""

from __future__ import annotations

import rushlight as rl
from rushlight.comm.group import ProcessGroup, register, unregister
from rushlight.distributed._functional_collectives import wait_tensor


def test_begun_early_and_waited_for_late() -> None:
    group = register(ProcessGroup("alone", [0], 0))
    ops = rl.ops._c10d_functional
    try:

        def program(x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
            a, b = x * 2, x @ w
            s = wait_tensor(ops.all_reduce(a, "sum", "alone"))
            t = wait_tensor(ops.all_reduce(b, "sum", "alone"))
            c = (b @ w) @ w
            return s + c + t

        x, w = rl.randn(8, 8), rl.randn(8, 8)
        kernels = str(rl.explain(program, x, w)).split("== kernels", maxsplit=1)[1]
        kinds = ("all_reduce(", "product(", "wait_tensor(", "for ")
        order = [kind for line in kernels.splitlines() for kind in kinds if kind in line]
        assert order == [
            "for ",
            "all_reduce(",
            "product(",
            "all_reduce(",
            "product(",
            "product(",
            "wait_tensor(",
            "wait_tensor(",
            "for ",
        ]
        expected = program(x, w)
        assert rl.allclose(rl.compile(program, fullgraph=True)(x, w), expected, rtol=1e-4, atol=1e-4)
    finally:
        unregister(group)
