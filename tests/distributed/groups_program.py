"""Groups, meshes, and what goes wrong, in ranks of MPI; RUSHLIGHT_DISTRIBUTED_DEBUG is DETAIL."""

from __future__ import annotations

import os
import time
from datetime import timedelta

import pytest
from ranks import run_checks

import rushlight as rl
import rushlight.distributed as dist
from rushlight.distributed import DistBackendError, init_device_mesh
from rushlight.distributed._functional_collectives import all_reduce


def size() -> int:
    return dist.get_world_size()


def rank() -> int:
    return dist.get_rank()


def check_groups() -> None:
    evens = dist.new_group(list(range(0, size(), 2)))
    member = rank() % 2 == 0
    assert (dist.get_rank(evens) == rank() // 2) if member else dist.get_rank(evens) == -1
    x = rl.tensor([1.0 + rank()])
    dist.all_reduce(x, group=evens)
    expected = sum(1.0 + r for r in range(0, size(), 2)) if member else 1.0 + rank()
    assert x.item() == expected
    if member:
        assert dist.get_process_group_ranks(evens) == list(range(0, size(), 2))
        assert dist.get_global_rank(evens, 0) == 0 and dist.get_group_rank(evens, rank()) == rank() // 2
        y = rl.tensor([float(rank())])
        dist.broadcast(y, src=size() - 2, group=evens)
        assert y.item() == size() - 2
        with pytest.raises(ValueError, match="not part of group"):
            dist.broadcast(y, src=1, group=evens)
        dist.destroy_process_group(evens)
    for ranks in ([0, 0], [size()], [-1]):
        with pytest.raises(ValueError, match="ranks"):
            dist.new_group(ranks)


def check_split_and_subgroups() -> None:
    half = size() // 2
    part = dist.split_group(split_ranks=[list(range(half)), list(range(half, size()))])
    x = rl.ones(1)
    dist.all_reduce(x, group=part)
    assert x.item() == half == part.size()
    own, groups = dist.new_subgroups(half)
    assert len(groups) == 2 and own.size() == half
    only_first = dist.split_group(split_ranks=[[0]])
    assert (only_first is None) == (rank() != 0)
    with pytest.raises(ValueError, match="separate parts"):
        dist.split_group(split_ranks=[[0], [0, 1]])


def check_meshes() -> None:
    mesh = init_device_mesh("cpu", (size() // 2, 2), mesh_dim_names=("dp", "tp"))
    assert mesh.shape == (size() // 2, 2) and mesh.ndim == 2 and mesh.size() == size() and mesh.size(1) == 2
    assert mesh.get_coordinate() == [rank() // 2, rank() % 2]
    assert mesh.get_local_rank("tp") == rank() % 2 and mesh["dp"].get_local_rank() == rank() // 2
    assert mesh.mesh.tolist() == rl.arange(size()).reshape(-1, 2).tolist()
    x = rl.tensor([float(rank())])
    dist.all_reduce(x, group=mesh.get_group("tp"))
    assert x.item() == 2 * (rank() // 2 * 2) + 1
    y = rl.tensor([1.0])
    dist.all_reduce(y, group=mesh["dp"].get_group())
    assert y.item() == size() // 2
    flat = mesh._flatten("all")
    assert flat.size() == size() and mesh["all"] is flat
    assert mesh == init_device_mesh("cpu", (size() // 2, 2), mesh_dim_names=("dp", "tp"))
    with pytest.raises(KeyError, match="pp"):
        mesh["pp"]
    with pytest.raises(RuntimeError, match="bigger than default world size"):
        init_device_mesh("cpu", (size() + 1,))
    with pytest.raises(ValueError, match="cpu"):
        init_device_mesh("cuda", (size(),))


def check_mismatches_raise_in_all_ranks() -> None:
    assert os.environ["RUSHLIGHT_DISTRIBUTED_DEBUG"] == "DETAIL"
    with pytest.raises(
        RuntimeError, match=r"(?s)mismatch.*rank 0: all_reduce\(float32, \[3\], SUM\)"
    ) as caught:
        dist.all_reduce(rl.ones(3 + rank()))
    assert "[4]" in str(caught.value)
    dtype = rl.float32 if rank() == 0 else rl.float64
    with pytest.raises(RuntimeError, match="mismatch"):
        dist.all_reduce(rl.ones(3, dtype=dtype))
    call = dist.barrier if rank() == 1 else lambda: dist.broadcast(rl.ones(2), 0)
    with pytest.raises(RuntimeError, match=r"rank 1: barrier\(\)"):
        call()
    program = rl.compile(lambda x: all_reduce(x * 2, "sum", "0") + 1, fullgraph=True)
    with pytest.raises(RuntimeError, match=r"(?s)mismatch.*rank 0: all_reduce\(float32\[3\]\)"):
        program(rl.ones(3 + rank()))
    x = rl.ones(2)
    assert program(x).tolist() == [2 * size() + 1] * 2
    dist.all_reduce(x)  # all is well afterwards
    assert x.tolist() == [size()] * 2


def check_bad_arguments_send_nothing() -> None:
    x = rl.ones(3)
    with pytest.raises(TypeError, match=r"torch\.Tensor"):
        dist.all_reduce([1.0])
    with pytest.raises(TypeError, match="List"):
        dist.all_gather(x, x)
    with pytest.raises(ValueError, match="has 1 tensors"):
        dist.all_gather([x], x)
    with pytest.raises(ValueError, match="different dtypes"):
        dist.all_gather([rl.ones(3, dtype=rl.int64) for _ in range(size())], x)
    with pytest.raises(ValueError, match="world_size times"):
        dist.all_gather_into_tensor(rl.empty(5), x)
    with pytest.raises(RuntimeError, match="divide equally"):
        dist.all_to_all_single(rl.empty(2 * size() + 1), rl.empty(2 * size() + 1))
    with pytest.raises(ValueError, match="same as the rank"):
        dist.send(x, rank())
    with pytest.raises(ValueError, match="tag"):
        dist.send(x, (rank() + 1) % size(), tag=-1)
    with pytest.raises(ValueError, match="meta device"):
        dist.all_reduce(rl.empty(3, device="meta"))
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("mpi")
    assert x.tolist() == [1, 1, 1]


def check_time_outs() -> None:
    with pytest.raises(DistBackendError, match="timed out") if rank() == 0 else _nothing():
        if rank() == 0:
            dist.irecv(rl.empty(1), 1, tag=5).wait(timedelta(milliseconds=50))
        else:
            time.sleep(0.2)
    if rank() == 1:
        dist.send(rl.ones(1), 0, tag=5)  # to the receive that is still there
    if rank() == 0:
        began = time.monotonic()
        with pytest.raises(RuntimeError, match=r"Ranks 1.* failed to pass monitoredBarrier in 100 ms"):
            dist.monitored_barrier(timeout=timedelta(milliseconds=100), wait_all_ranks=True)
        assert time.monotonic() - began < 30


class _nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


if __name__ == "__main__":
    run_checks(globals())
