"""Collectives are begun early and waited for late."""

from __future__ import annotations

import re
from typing import Any

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


def test_results_of_earlier_collectives_are_used_while_the_last_one_travels() -> None:
    group = register(ProcessGroup("alone", [0], 0))
    ops = rl.ops._c10d_functional
    try:

        def program(x: rl.Tensor, w: rl.Tensor) -> tuple[rl.Tensor, ...]:
            begun = [ops.all_reduce(x * k, "sum", "alone") for k in range(2, 5)]
            s, t, u = (wait_tensor(each) for each in begun)
            return u @ w, t @ (s @ w), (s + u) @ w, x @ w  # as an optimizer: the last one first

        x, w = rl.randn(8, 8), rl.randn(8, 8)
        order = _order(program, x, w)
        behind = order[len(order) - order[::-1].index("all") :]
        assert behind == ["product", "wait", "product", "wait", "product", "wait", "product", "product"]
        expected = program(x, w)
        for found, wanted in zip(rl.compile(program, fullgraph=True)(x, w), expected, strict=True):
            assert rl.allclose(found, wanted, rtol=1e-4, atol=1e-4)
    finally:
        unregister(group)


def test_inputs_are_updated_in_place_when_all_has_been_waited_for() -> None:
    """A collective that fails leaves the memory of the caller as it was, so that nothing is written before."""
    group = register(ProcessGroup("alone", [0], 0))
    ops = rl.ops._c10d_functional
    try:

        def program(x: rl.Tensor, *weights: rl.Tensor) -> rl.Tensor:
            begun = [ops.all_reduce(x[: len(w)] * 2, "sum", "alone") for w in weights]
            sums = [wait_tensor(each) for each in begun]
            for weight, found in zip(weights, sums, strict=True):
                weight.mul_(0.5).sub_(found)
            return sums[2] @ x

        x, *weights = (rl.randn(n, 8) for n in (8, 3, 5, 8))
        notes = rl.explain(program, x, *weights).fusion
        assert sum("is written in place of arg" in note for note in notes) == 3, notes
        again = [weight.clone() for weight in weights]
        expected = program(x, *again)
        assert rl.allclose(rl.compile(program, fullgraph=True)(x, *weights), expected, rtol=1e-4, atol=1e-4)
        for found, wanted in zip(weights, again, strict=True):
            assert rl.allclose(found, wanted, rtol=1e-5, atol=1e-6)
    finally:
        unregister(group)


def test_a_bucket_is_reduced_in_its_own_memory() -> None:
    group = register(ProcessGroup("alone", [0], 0))
    ops = rl.ops._c10d_functional
    try:

        def program(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
            bucket = rl.cat([x.sin().view(-1), (y @ y).view(-1), (x * 2).view(-1)])
            return wait_tensor(ops.all_reduce(bucket, "sum", "alone")) * 3

        x, y = rl.randn(16, 16), rl.randn(16, 16)
        stages = rl.explain(program, x, y).after("reuse memory")
        (line,) = [line for line in str(stages).splitlines() if "all_reduce(" in line]
        target, operand = re.search(r"call (\w+) = extern\((\w+);", line).groups()  # type: ignore[union-attr]
        assert target == operand, line
        assert rl.allclose(rl.compile(program, fullgraph=True)(x, y), program(x, y), rtol=1e-4, atol=1e-4)
    finally:
        unregister(group)


def _order(program: Any, *args: rl.Tensor) -> list[str]:
    """Collectives and products of a program, in order."""
    kernels = str(rl.explain(program, *args)).split("== kernels", maxsplit=1)[1]
    kinds = ("all_reduce(", "reduce_scatter_tensor(", "all_gather_into_tensor(", "product(", "wait_tensor(")
    found = [kind for line in kernels.splitlines() for kind in kinds if kind in line]
    return [kind.split("_")[0].rstrip("(") + ("_gather" if "gather" in kind else "") for kind in found]


def test_parameters_are_gathered_ahead() -> None:
    group = register(ProcessGroup("alone", [0], 0))
    ops = rl.ops._c10d_functional
    try:

        def program(x: rl.Tensor, *pieces: rl.Tensor) -> rl.Tensor:
            for piece in pieces:
                flat = rl.cat([piece.reshape(-1), piece.new_zeros(8)])
                whole = wait_tensor(ops.all_gather_into_tensor(flat, 1, "alone"))
                x = x @ whole[:64].view(8, 8)
            return x

        x, pieces = rl.randn(8, 8), [rl.randn(8, 8) for _ in range(3)]
        assert _order(program, x, *pieces) == [
            "all_gather", "all_gather", "wait", "product", "all_gather", "wait", "product", "wait", "product",
        ]  # fmt: skip
        expected = program(x, *pieces)
        found = rl.compile(program, fullgraph=True)(x, *pieces)
        assert rl.allclose(found, expected, rtol=1e-4, atol=1e-4)
    finally:
        unregister(group)


def test_what_is_computed_is_not_gathered_before_it_is_there() -> None:
    group = register(ProcessGroup("alone", [0], 0))
    ops = rl.ops._c10d_functional
    try:

        def program(x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
            y = x @ w
            z = wait_tensor(ops.all_gather_into_tensor(y, 1, "alone"))
            return z @ w

        x, w = rl.randn(8, 8), rl.randn(8, 8)
        assert _order(program, x, w) == ["product", "all_gather", "wait", "product"]
        assert rl.allclose(rl.compile(program)(x, w), program(x, w), rtol=1e-4, atol=1e-4)
    finally:
        unregister(group)


def test_a_reduction_of_a_result_is_begun_with_the_next() -> None:
    """Pieces that are reduced among few processes, and then among their copies: the first is not waited for
    while there is something to compute."""
    groups = [register(ProcessGroup(name, [0], 0)) for name in ("pieces", "copies")]
    ops = rl.ops._c10d_functional
    try:

        def program(x: rl.Tensor, w: rl.Tensor) -> list[rl.Tensor]:
            found = []
            for _ in range(2):
                x = x @ w
                piece = wait_tensor(ops.reduce_scatter_tensor(x, "sum", 1, "pieces"))
                found.append(wait_tensor(ops.all_reduce(piece, "sum", "copies")).clone())
            return [y * 2 for y in found]

        x, w = rl.randn(8, 8), rl.randn(8, 8)
        assert _order(program, x, w) == [
            "product", "reduce", "product", "reduce", "wait", "all", "wait", "all", "wait", "wait",
        ]  # fmt: skip
        for one, two in zip(rl.compile(program)(x, w), program(x, w), strict=True):
            assert rl.allclose(one, two, rtol=1e-4, atol=1e-4)
    finally:
        for group in groups:
            unregister(group)
