"""Every collective against NumPy, in ranks of MPI."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
from ranks import run_checks

import rushlight as rl
import rushlight.distributed as dist
from rushlight.distributed import ReduceOp

DTYPES = [
    rl.float32,
    rl.float64,
    rl.float16,
    rl.bfloat16,
    rl.int8,
    rl.uint8,
    rl.int16,
    rl.int32,
    rl.int64,
    rl.bool,
    rl.complex64,
    rl.complex128,
]
SIZES = [(), (0,), (1,), (7, 3), (300, 257)]  # the last goes in two steps


def data(rank: int, shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """What process `rank` has: every process can make it."""
    random = np.random.default_rng([rank, seed, *shape])
    values = random.integers(-4, 5, shape) if dtype is not rl.bool else random.integers(0, 2, shape)
    if dtype.is_floating_point:
        values = random.standard_normal(shape)
    if dtype.is_complex:
        values = random.standard_normal(shape) + 1j * random.standard_normal(shape)
    return np.asarray(values).astype(dtype.numpy)


def tensor(rank: int, shape: tuple[int, ...], dtype: Any = rl.float32, seed: int = 0) -> rl.Tensor:
    return (
        rl.from_numpy(data(rank, shape, dtype, seed))
        if shape
        else rl.tensor(data(rank, shape, dtype, seed).item(), dtype=dtype)
    )


def size() -> int:
    return dist.get_world_size()


def rank() -> int:
    return dist.get_rank()


def same(value: rl.Tensor, expected: np.ndarray) -> None:
    """Bit by bit."""
    got = value.detach().numpy_array()
    assert got.dtype == expected.dtype and got.shape == expected.shape, (got.dtype, got.shape, expected.shape)
    assert np.ascontiguousarray(got).tobytes() == np.ascontiguousarray(expected).tobytes(), (got, expected)


def combined(parts: list[np.ndarray], kind: str) -> np.ndarray:
    """The combination in the order of ranks; narrow floats in float32, rounded once."""
    function = {
        "SUM": np.add,
        "AVG": np.add,
        "PRODUCT": np.multiply,
        "MIN": np.minimum,
        "MAX": np.maximum,
        "BAND": np.bitwise_and,
        "BOR": np.bitwise_or,
        "BXOR": np.bitwise_xor,
    }[kind]
    dtype = parts[0].dtype
    narrow = dtype in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
    wide = [p.astype(np.float32) for p in parts] if narrow else parts
    total = wide[0]
    with np.errstate(all="ignore"):
        for part in wide[1:]:
            total = function(total, part)
        if kind == "AVG":
            total = (
                np.trunc(total / len(parts)) if dtype.kind in "iu" else total / total.dtype.type(len(parts))
            )
    return np.asarray(total).astype(dtype)


def supported(kind: str, dtype: Any) -> bool:
    if dtype.is_complex:
        return kind in ("SUM", "AVG")
    if kind in ("BAND", "BOR", "BXOR"):
        return not dtype.is_floating_point
    return not (kind == "AVG" and dtype is rl.bool)


KINDS = ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"]


def check_all_reduce() -> None:
    for kind, dtype, shape in product(KINDS, DTYPES, SIZES):
        x = tensor(rank(), shape, dtype)
        if not supported(kind, dtype):
            try:
                dist.all_reduce(x, getattr(ReduceOp, kind))
            except (RuntimeError, ValueError):
                continue
            raise AssertionError((kind, dtype))
        version = x._version
        assert dist.all_reduce(x, getattr(ReduceOp, kind)) is None
        same(x, combined([data(r, shape, dtype) for r in range(size())], kind))
        assert x._version == version + 1


def check_not_contiguous() -> None:
    for shape in [(6, 4), (300, 257)]:
        whole = tensor(rank(), shape)
        x, before = whole.t()[1::2], whole.clone()
        dist.all_reduce(x)
        total = combined([data(r, shape, rl.float32) for r in range(size())], "SUM")
        same(x, total.T[1::2])
        same(whole.t()[::2], before.t()[::2].numpy())  # what lies between is as it was
        y = rl.zeros(shape[::-1]).t()
        dist.broadcast(whole if rank() == 1 else y, 1)
        if rank() != 1:
            expected = data(1, shape, rl.float32).copy()
            expected[:, 1::2] = total[:, 1::2]
            same(y, expected)
        parts = [rl.zeros(shape[::-1]).t() for _ in range(size())]
        dist.all_gather(parts, tensor(rank(), shape, seed=3))
        for r, part in enumerate(parts):
            same(part, data(r, shape, rl.float32, 3))
    z = rl.ones(5, dtype=rl.complex64).mul(1j).conj()
    dist.all_reduce(z)
    assert z.tolist() == [-1j * size()] * 5


def check_reduce_to_one() -> None:
    for dtype, shape, root in product([rl.float32, rl.bfloat16, rl.int64], SIZES, range(size())):
        x = tensor(rank(), shape, dtype)
        dist.reduce(x, root)
        parts = [data(r, shape, dtype) for r in range(size())]
        same(x, combined(parts, "SUM") if rank() == root else parts[rank()])


def check_premultiplied_sum() -> None:
    for shape in SIZES:
        x = tensor(rank(), shape)
        dist.all_reduce(x, dist.distributed_c10d._make_nccl_premul_sum(0.5 + rank()))
        parts = [data(r, shape, rl.float32) * np.float32(0.5 + r) for r in range(size())]
        same(x, combined([np.asarray(p) for p in parts], "SUM"))


def check_broadcast() -> None:
    for dtype, shape in product(DTYPES, SIZES):
        root = size() - 1
        x = tensor(rank(), shape, dtype)
        work = dist.broadcast(x, root, async_op=True)
        assert work.wait() and work.is_completed() and work.is_success()
        same(x, data(root, shape, dtype))


def check_all_gather() -> None:
    for dtype, shape in product(DTYPES, SIZES):
        x = tensor(rank(), shape, dtype)
        parts = [rl.empty(shape, dtype=dtype) for _ in range(size())]
        dist.all_gather(parts, x)
        for r, part in enumerate(parts):
            same(part, data(r, shape, dtype))
        stacked = rl.empty((size(), *shape), dtype=dtype)
        dist.all_gather_into_tensor(stacked, x)
        expected = np.stack([data(r, shape, dtype) for r in range(size())])
        same(stacked, expected)
    uneven = [rl.empty(r + 1, 2) for r in range(size())]
    dist.all_gather(uneven, tensor(rank(), (rank() + 1, 2)))
    for r, part in enumerate(uneven):
        same(part, data(r, (r + 1, 2), rl.float32))


def check_gather_and_scatter() -> None:
    for root, shape in product(range(size()), SIZES):
        x = tensor(rank(), shape)
        parts = [rl.empty(shape) for _ in range(size())] if rank() == root else None
        dist.gather(x, parts, dst=root)
        for r, part in enumerate(parts or []):
            same(part, data(r, shape, rl.float32))
        out = rl.empty(shape)
        dist.scatter(
            out, [tensor(root, shape, seed=r) for r in range(size())] if rank() == root else None, src=root
        )
        same(out, data(root, shape, rl.float32, rank()))


def check_reduce_scatter() -> None:
    for kind, dtype, rows in product(
        ["SUM", "AVG", "MAX"], [rl.float32, rl.bfloat16, rl.int32], [1, 3, 40_000]
    ):
        shape = (rows * size(), 2)
        x, out = tensor(rank(), shape, dtype), rl.empty(rows, 2, dtype=dtype)
        dist.reduce_scatter_tensor(out, x, getattr(ReduceOp, kind))
        total = combined([data(r, shape, dtype) for r in range(size())], kind)
        same(out, total[rank() * rows : (rank() + 1) * rows])
        same(x, data(rank(), shape, dtype))
        whole = tensor(rank(), shape, dtype)
        dist.all_reduce(whole, getattr(ReduceOp, kind))
        same(whole, total)  # the same bits
    out = rl.empty(rank() + 1)
    dist.reduce_scatter(out, [tensor(rank(), (r + 1,)) for r in range(size())])
    same(out, combined([data(r, (rank() + 1,), rl.float32) for r in range(size())], "SUM"))


def check_all_to_all() -> None:
    n = size()
    out = rl.empty(2 * n, 3)
    dist.all_to_all_single(out, tensor(rank(), (2 * n, 3)))
    mine = slice(2 * rank(), 2 * rank() + 2)
    same(out, np.concatenate([data(r, (2 * n, 3), rl.float32)[mine] for r in range(n)]))
    # process a sends a + b rows to process b
    sent, received = [rank() + b for b in range(n)], [a + rank() for a in range(n)]
    out = rl.empty(sum(received), 2, dtype=rl.bfloat16)
    dist.all_to_all_single(out, tensor(rank(), (sum(sent), 2), rl.bfloat16), received, sent)
    rows = []
    for a in range(n):
        counts = [a + b for b in range(n)]
        first = sum(counts[: rank()])
        rows.append(data(a, (sum(counts), 2), rl.bfloat16)[first : first + counts[rank()]])
    same(out, np.concatenate(rows))
    outs = [rl.empty(a + 1) for a in range(n)]
    dist.all_to_all(outs, [tensor(rank(), (rank() + 1,), seed=b) for b in range(n)])
    for a in range(n):
        same(outs[a], data(a, (a + 1,), rl.float32, rank()))


def check_several_at_once() -> None:
    """Collectives under way together, waited for in another order in each process."""
    for count in (10, 100_000):
        xs = [tensor(rank(), (count,), seed=k) for k in range(6)]
        works = [dist.all_reduce(x, async_op=True) for x in xs]
        for k in np.random.default_rng(rank()).permutation(6):
            assert works[k].wait()
            same(xs[k], combined([data(r, (count,), rl.float32, int(k)) for r in range(size())], "SUM"))
    one, two = tensor(rank(), (100_000,)), tensor(rank(), (100_000,), seed=1)
    first = dist.all_reduce(one, async_op=True)
    if rank() == 0:  # waits for a message that is sent after the other has waited for the first
        dist.recv(rl.empty(1), 1)
    elif rank() == 1:
        first.wait()
        dist.send(rl.ones(1), 0)
    dist.all_reduce(two)
    first.wait()
    future = dist.all_reduce(rl.ones(3), async_op=True).get_future()
    assert future.then(lambda f: f.value()[0] * 2).wait().tolist() == [2 * size()] * 3


def check_coalesced() -> None:
    xs = [tensor(rank(), (k + 1, 2), seed=k) for k in range(4)]
    dist.all_reduce_coalesced(xs)
    for k, x in enumerate(xs):
        same(x, combined([data(r, (k + 1, 2), rl.float32, k) for r in range(size())], "SUM"))


def check_messages() -> None:
    n = size()
    right, left = (rank() + 1) % n, (rank() - 1) % n
    for dtype, shape in product([rl.float32, rl.bool, rl.bfloat16], [(3,), (300, 257)]):
        out = rl.empty(shape, dtype=dtype)
        ops = [dist.P2POp(dist.isend, tensor(rank(), shape, dtype), right), dist.P2POp(dist.irecv, out, left)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        same(out, data(left, shape, dtype))
    if rank() == 0:
        seen = {}
        for _ in range(n - 1):
            x = rl.empty(2, 2).t()
            seen[dist.recv(x)] = x  # from anyone
        assert sorted(seen) == list(range(1, n))
        for r, x in seen.items():
            same(x, data(r, (2, 2), rl.float32))
        a, b = rl.empty(1), rl.empty(1)
        dist.recv(b, 1, tag=2)
        dist.recv(a, 1, tag=1)
        assert (a.item(), b.item()) == (1, 2)
    else:
        dist.send(tensor(rank(), (2, 2)), 0)
        if rank() == 1:
            works = [dist.isend(rl.tensor([float(tag)]), 0, tag=tag) for tag in (1, 2)]
            for work in works:
                work.wait()


def check_objects() -> None:
    n = size()
    objects: list[Any] = [None] * n
    dist.all_gather_object(objects, {"rank": rank(), "x": "a" * rank()})
    assert objects == [{"rank": r, "x": "a" * r} for r in range(n)]
    gathered = [None] * n if rank() == 1 else None
    dist.gather_object(rank(), gathered, dst=1)
    assert gathered == (list(range(n)) if rank() == 1 else None)
    shared = ["text", 5, rl.ones(2)] if rank() == 0 else [None] * 3
    dist.broadcast_object_list(shared, 0)
    assert shared[:2] == ["text", 5] and shared[2].tolist() == [1, 1]
    out = [None]
    dist.scatter_object_list(out, [f"for {r}" for r in range(n)] if rank() == 0 else None, 0)
    assert out == [f"for {rank()}"]
    if rank() == 0:
        dist.send_object_list(["a", 1], 1)
    elif rank() == 1:
        got = [None, None]
        assert dist.recv_object_list(got) == 0 and got == ["a", 1]


def check_barriers() -> None:
    dist.barrier()
    dist.barrier(async_op=True).wait()
    dist.monitored_barrier()


if __name__ == "__main__":
    run_checks(globals())
