"""Functional collectives in ranks of MPI: values, derivatives in both modes, batches, and compiled code."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from collectives_program import combined, data, rank, same, size
from ranks import run_checks

import rushlight as rl
import rushlight.distributed as dist
import rushlight.distributed._functional_collectives as funcol
from rushlight.comm import functional

ops = rl.ops._c10d_functional


def parts(shape: tuple[int, ...], dtype: Any = rl.float32, seed: int = 0) -> list[np.ndarray]:
    return [data(r, shape, dtype, seed) for r in range(size())]


def mine(shape: tuple[int, ...], dtype: Any = rl.float32, seed: int = 0) -> rl.Tensor:
    return rl.from_numpy(data(rank(), shape, dtype, seed))


def programs() -> dict[
    str, tuple[Callable[[rl.Tensor], rl.Tensor], Callable[[list[np.ndarray]], np.ndarray]]
]:
    """Name: the program of a tensor of (4 * size, 3), and its value from everybody's tensors."""
    n = size()
    rows = slice(4 * rank(), 4 * rank() + 4)
    return {
        "all_reduce": (lambda x: funcol.all_reduce(x, "sum", dist.group.WORLD), lambda p: combined(p, "SUM")),
        "average": (lambda x: funcol.all_reduce(x, "avg", dist.group.WORLD), lambda p: combined(p, "AVG")),
        "gather": (lambda x: funcol.all_gather_tensor(x, 0, dist.group.WORLD), np.concatenate),
        "gather_1": (
            lambda x: funcol.all_gather_tensor(x, 1, dist.group.WORLD),
            lambda p: np.concatenate(p, 1),
        ),
        "scatter": (
            lambda x: funcol.reduce_scatter_tensor(x, "sum", 0, dist.group.WORLD),
            lambda p: combined(p, "SUM")[rows],
        ),
        "scatter_avg": (
            lambda x: funcol.reduce_scatter_tensor(x, "avg", 0, dist.group.WORLD),
            lambda p: combined(p, "AVG")[rows],
        ),
        "all_to_all": (
            lambda x: funcol.all_to_all_single(x, None, None, dist.group.WORLD),
            lambda p: np.concatenate([q[rows] for q in p]),
        ),
        "broadcast": (lambda x: funcol.broadcast(x, n - 1, dist.group.WORLD), lambda p: p[n - 1]),
        "permute": (
            lambda x: funcol.permute_tensor(x, [(i + 1) % n for i in range(n)], dist.group.WORLD),
            lambda p: p[(rank() - 1) % n],
        ),
    }


def check_values() -> None:
    shape = (4 * size(), 3)
    for program, value in programs().values():
        for dtype in (rl.float32, rl.bfloat16, rl.int64, rl.complex64):
            if "avg" in str(program) and not dtype.is_floating_point:
                continue
            same(program(mine(shape, dtype)), np.ascontiguousarray(value(parts(shape, dtype))))
        compiled = rl.compile(lambda x, program=program: program(x * 2) + 1, fullgraph=True)
        x = mine(shape)
        same(compiled(x), program(x * 2).add(1).numpy())
        meta = program(rl.empty(shape, device="meta"))
        assert meta.shape == program(x).shape and meta.device.type == "meta"


def check_derivatives() -> None:
    """Of the sum over all processes of the results times weights: reverse and forward mode agree with the matrix
    of the program, and twice differentiated with itself."""
    shape = (4 * size(), 3)
    for name, (program, value) in programs().items():
        for call in (program, rl.compile(program, fullgraph=True)):
            x = mine(shape, rl.float64).requires_grad_()
            y = call(x)
            weight = rl.from_numpy(data(rank(), tuple(y.shape), rl.float64, 5))
            (grad,) = rl.autograd.grad((y * weight).sum(), x)
            tangent = mine(shape, rl.float64, 7)
            if call is program:
                _, jvp = rl.func.jvp(call, (x.detach(),), (tangent,))
                np.testing.assert_allclose(jvp.numpy(), value(parts(shape, rl.float64, 7)))
            # <J t, w> summed over processes is <t, J' w> summed over processes
            forward = call(tangent)
            sides = rl.stack([(forward * weight).sum(), (grad * tangent).sum()])
            dist.all_reduce(sides)
            np.testing.assert_allclose(sides[0].item(), sides[1].item(), rtol=1e-10, err_msg=name)


def check_derivatives_of_extremes_and_products() -> None:
    """As those of amax, amin and prod over all processes' values, ties and zeros included, eager and compiled."""
    shape = (5, 3)
    values = [data(r, shape, rl.float64, 3) for r in range(size())]
    values[0][0] = 0.0  # one factor is zero
    values[1][2] = values[0][2]  # a tie
    for kind, whole in (
        ("max", lambda x: x.amax(0)),
        ("min", lambda x: x.amin(0)),
        ("product", lambda x: x.prod(0)),
    ):
        stacked = rl.from_numpy(np.stack(values)).requires_grad_()
        weights = rl.from_numpy(np.stack([data(r, shape, rl.float64, 5) for r in range(size())]))
        (whole(stacked) * weights.sum(0)).sum().backward()
        assert stacked.grad is not None

        def program(x: rl.Tensor, kind: str = kind) -> rl.Tensor:
            return funcol.all_reduce(x, kind, dist.group.WORLD)

        for call in (program, rl.compile(program, fullgraph=True)):
            x = rl.from_numpy(values[rank()].copy()).requires_grad_()
            y = call(x)
            np.testing.assert_allclose(y.detach().numpy(), whole(stacked).detach().numpy(), rtol=1e-12)
            (grad,) = rl.autograd.grad((y * weights[rank()]).sum(), x)
            np.testing.assert_allclose(grad.numpy(), stacked.grad[rank()].numpy(), rtol=1e-12)
        tangents = [data(r, shape, rl.float64, 7) for r in range(size())]
        _, expected = rl.func.jvp(whole, (stacked.detach(),), (rl.from_numpy(np.stack(tangents)),))
        _, tangent = rl.func.jvp(program, (x.detach(),), (rl.from_numpy(tangents[rank()]),))
        np.testing.assert_allclose(tangent.numpy(), expected.numpy(), rtol=1e-12)


def check_calls_of_compiled_programs_are_native() -> None:
    """Each collective is a transfer of native code; small reductions are one, unless buckets are switched off."""

    def step(xs: list[rl.Tensor]) -> list[rl.Tensor]:
        reduced = [funcol.all_reduce(x * 3, "sum", "0") for x in xs]
        others = [
            funcol.all_gather_tensor(xs[0], 0, "0"),
            funcol.reduce_scatter_tensor(xs[1], "avg", 0, "0"),
            funcol.broadcast(xs[2], 0, "0"),
        ]
        return [y * 2 for y in (*reduced, *others)]

    compiled = rl.compile(step, fullgraph=True)
    xs = [mine((4 * size(), n), seed=n) for n in (1, 2, 30)]
    for _ in range(2):
        found = compiled(xs)
    for y, z in zip(found, step(xs), strict=True):
        same(y, z.numpy())
    (made,) = next(iter(compiled.specializations.values()))
    executable = made.artifact.executable
    together = 1 if functional.BUCKET else 3
    assert executable.native and len(executable.calls.transfers) == 3 + together
    assert int(os.environ.get("RUSHLIGHT_DISTRIBUTED_BUCKET") or 1 << 20) == functional.BUCKET


def check_memory_of_operands() -> None:
    """Random programs: an operand's memory may be used for something else while its reduction waits for others
    to be joined with, or is under way."""
    for seed in range(8):
        chosen = np.random.default_rng(seed)
        kinds = chosen.integers(0, 5, 24).tolist()
        pairs = chosen.integers(0, 1 << 20, (24, 2)).tolist()
        reductions = chosen.choice(["sum", "sum", "sum", "max"], 24).tolist()

        def program(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
            values, waiting = [x, y], []
            for kind, (i, j), name in zip(kinds, pairs, reductions, strict=True):
                a, b = values[i % len(values)], values[j % len(values)]
                if kind < 2:
                    waiting += [ops.all_reduce(a, name, "0"), ops.all_reduce(a, "sum", "0")]
                    if kind and len(waiting) > 2:
                        values.append(ops.wait_tensor(waiting.pop(i % len(waiting))) / size())
                else:
                    values.append((a.sin(), a @ b.mT / 8, a * 0.5 + b.cumsum(0) / 8)[kind - 2])
            values += [ops.wait_tensor(one) / size() for one in waiting]
            return rl.stack(values).sin().sum(0)

        given = [mine((8, 8), rl.float64, seed=seed + k) for k in range(2)]
        compiled = rl.compile(program, fullgraph=True)
        for _ in range(2):
            np.testing.assert_allclose(
                compiled(*given).numpy(), program(*given).numpy(), rtol=1e-9, atol=1e-9
            )


def check_a_group_that_is_gone() -> None:
    """A compiled program asks for its group by name when it runs next."""
    group = dist.new_group(list(range(size())))
    program = rl.compile(lambda x: funcol.all_reduce(x, "sum", group.group_name) + 1, fullgraph=True)
    for _ in range(2):
        same(program(mine((4,))), combined(parts((4,)), "SUM") + 1)
    dist.destroy_process_group(group)
    with pytest.raises(ValueError, match="no process group with the name"):
        program(mine((4,)))


def check_batches() -> None:
    shape = (4 * size(), 3)
    batch = rl.stack([mine(shape, seed=k) for k in range(3)], 1)
    for program, _ in programs().values():
        together = rl.vmap(program, in_dims=1)(batch)
        for k in range(3):
            same(together[k], program(batch[:, k]).contiguous().numpy())


def every_operator() -> dict[str, tuple[Callable[[rl.Tensor], Any], list[np.ndarray]]]:
    """Each of PyTorch's operators: a function of a tensor of (2 * size, 3) that calls it, and what it gives."""
    n, group, shape = size(), dist.group.WORLD.group_name, (2 * size(), 3)
    everybody = parts(shape)
    own, total, joined = everybody[rank()], combined(everybody, "SUM"), np.concatenate(everybody)
    piece, rows = total[2 * rank() : 2 * rank() + 2], slice(2 * rank(), 2 * rank() + 2)
    twice = combined([p * np.float32(2) for p in everybody], "SUM")
    right, left = (rank() + 1) % n, (rank() - 1) % n
    wait = ops.wait_tensor

    def written(call: Callable[[rl.Tensor], Any], *shape: int) -> Callable[[rl.Tensor], Any]:
        """What a call has written to a tensor of `shape`, or to a copy of its argument."""

        def run(x: rl.Tensor) -> list[rl.Tensor]:
            target = rl.zeros(*shape) if shape else x.clone()
            call(x, target) if shape else call(target)  # type: ignore[call-arg]
            return [target]

        return run

    def coalesced_in_place(x: rl.Tensor) -> list[rl.Tensor]:
        both = [x.clone(), x * 2]
        ops.all_reduce_coalesced_(both, "sum", group)
        return both

    def messages(x: rl.Tensor) -> list[rl.Tensor]:
        sent = ops.isend(x, right, 5, group)
        received = ops.irecv(rl.zeros(2 * n, 3), left, 5, group)
        return [wait(received), wait(sent)]

    def batch(x: rl.Tensor) -> list[rl.Tensor]:
        kinds, peers = ["isend", "irecv"], [right, left]
        sent, received = ops.batch_p2p_ops(kinds, peers, [3, 3], [x, rl.zeros(2 * n, 3)], group)
        return [wait(received), wait(sent)]

    return {
        "all_reduce": (lambda x: [wait(ops.all_reduce(x, "sum", group))], [total]),
        "all_reduce_": (written(lambda x: ops.all_reduce_(x, "sum", group)), [total]),
        "all_reduce_coalesced": (
            lambda x: [wait(y) for y in ops.all_reduce_coalesced([x, x * 2], "sum", group)],
            [total, twice],
        ),
        "all_reduce_coalesced_": (coalesced_in_place, [total, twice]),
        "all_gather_into_tensor": (lambda x: [wait(ops.all_gather_into_tensor(x, n, group))], [joined]),
        "all_gather_into_tensor_coalesced": (
            lambda x: [wait(y) for y in ops.all_gather_into_tensor_coalesced([x, x[:1]], n, group)],
            [joined, np.concatenate([p[:1] for p in everybody])],
        ),
        "all_gather_into_tensor_out": (
            written(lambda x, out: ops.all_gather_into_tensor_out(x, n, group, out=out), 2 * n * n, 3),
            [joined],
        ),
        "reduce_scatter_tensor": (lambda x: [wait(ops.reduce_scatter_tensor(x, "sum", n, group))], [piece]),
        "reduce_scatter_tensor_coalesced": (
            lambda x: [wait(y) for y in ops.reduce_scatter_tensor_coalesced([x, x * 2], "sum", n, group)],
            [piece, twice[rows]],
        ),
        "reduce_scatter_tensor_out": (
            written(lambda x, out: ops.reduce_scatter_tensor_out(x, "sum", n, group, out=out), 2, 3),
            [piece],
        ),
        "all_to_all_single": (
            lambda x: [wait(ops.all_to_all_single(x, [2] * n, [2] * n, group))],
            [np.concatenate([p[rows] for p in everybody])],
        ),
        "broadcast": (lambda x: [wait(ops.broadcast(x, 1, group))], [everybody[1]]),
        "broadcast_": (written(lambda x: ops.broadcast_(x, 1, group)), [everybody[1]]),
        "isend": (messages, [everybody[left], own]),
        "irecv": (messages, [everybody[left], own]),
        "batch_p2p_ops": (batch, [everybody[left], own]),
        "wait_tensor": (lambda x: [wait(x * 2)], [own * np.float32(2)]),  # of what nobody has begun
    }


def check_every_operator() -> None:
    """Eager and compiled, and nothing else is written."""
    for name, (call, expected) in every_operator().items():
        for run in (call, rl.compile(call, fullgraph=True)):
            for _ in range(2):
                x = mine((2 * size(), 3))
                found = run(x)
                assert len(found) == len(expected), name
                for value, wanted in zip(found, expected, strict=True):
                    same(value, np.ascontiguousarray(wanted))
                same(x, data(rank(), (2 * size(), 3), rl.float32))


def check_compiled_step() -> None:
    """Many reductions in one program, small ones joined and large ones alone: the bits of eager calls."""
    shapes = [(7,), (300, 300), (5, 5), (600, 700), (1,), (2, 3)]

    def step(xs: list[rl.Tensor]) -> list[rl.Tensor]:
        begun = [ops.all_reduce(x.sin(), "avg" if k == 2 else "sum", "0") for k, x in enumerate(xs)]
        return [ops.wait_tensor(y) * 2 + x.cos() for x, y in zip(xs, begun, strict=True)]

    xs = [mine(shape, seed=k) for k, shape in enumerate(shapes)]
    compiled = rl.compile(step, fullgraph=True)
    first = [y.clone() for y in compiled(xs)]
    for again in range(3):
        for y, z in zip(compiled(xs), first, strict=True):
            same(y, z.numpy())
    single = rl.compile(lambda s, x: s * 2 + x.cos(), fullgraph=True)
    sine = rl.compile(lambda x: x.sin(), fullgraph=True)
    for k, (x, y) in enumerate(zip(xs, first, strict=True)):
        kind = "avg" if k == 2 else "sum"
        eager = ops.wait_tensor(ops.all_reduce(sine(x), kind, "0"))
        same(y, single(eager, x).numpy())
        sines = [np.sin(p) for p in parts(shapes[k], seed=k)]
        np.testing.assert_allclose(eager.numpy(), combined(sines, kind.upper()), rtol=1e-5, atol=1e-6)


def check_unread_results_are_sent() -> None:
    """Only one process reads the result: the others take part all the same."""

    def program(x: rl.Tensor) -> rl.Tensor:
        y = funcol.all_reduce(x, "sum", "0")
        return y if rank() == 0 else x + 1

    for _ in range(2):
        z = rl.compile(program, fullgraph=True)(mine((9,)))
    if rank() == 0:
        same(z, combined(parts((9,)), "SUM"))


if __name__ == "__main__":
    run_checks(globals())
