"""fully_shard: what lies where and when, dtypes, gradients that add up, errors."""

from __future__ import annotations

import copy
import gc
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from model import GPT, batch, loss_of, optimizer_of, step_of
from ranks import run_checks

import rushlight as rl
import rushlight.distributed as dist
import rushlight.distributed.checkpoint as dcp
from rushlight import nn
from rushlight.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from rushlight.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh
from rushlight.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from rushlight.distributed.tensor.placement_types import _StridedShard
from rushlight.nn.parallel import DistributedDataParallel


def sharded(**options: Any) -> Any:
    rl.manual_seed(0)
    model = GPT()
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def bytes_of(model: Any, optimizer: Any) -> int:
    """Of parameters, gradients and states of the optimizer, in this process."""
    tensors = [*model.parameters(), *(p.grad for p in model.parameters())]
    tensors += [v for state in optimizer.state.values() for v in state.values() if isinstance(v, rl.Tensor)]
    local = [t._local_tensor if isinstance(t, DTensor) else t for t in tensors]
    return sum(t.numel() * t.itemsize for t in local)


def gathered(model: Any) -> list[bool]:
    return [m._fsdp_state.group.gathered is not None for m in model.modules() if isinstance(m, FSDPModule)]


def check_memory_is_divided() -> None:
    model = sharded()
    optimizer = optimizer_of(model)
    step_of(model, optimizer)(batch(0))
    rl.manual_seed(0)
    ddp = DistributedDataParallel(GPT(), gradient_as_bucket_view=True)
    other = optimizer_of(ddp)
    step_of(ddp, other)(batch(0))
    ratio = bytes_of(model, optimizer) / bytes_of(ddp, other)  # whose gradients are in the buckets
    assert ratio <= 1.2 / dist.get_world_size(), ratio
    print(f"memory of fully_shard / DDP: {ratio:.3f} in {dist.get_world_size()} processes")


def check_parameters_are_whole_only_while_they_are_used() -> None:
    model = sharded()
    seen: list[list[bool]] = []
    model.blocks[1].norm1.register_forward_hook(lambda *_: seen.append(gathered(model)))
    loss = loss_of(model, batch(0))
    assert seen == [[True, False, True]]  # the outermost stays; block 0 is done
    assert gathered(model) == [True, False, False]
    assert all(isinstance(p, DTensor) and p.placements == (Shard(0),) for p in model.parameters())
    loss.backward()
    assert gathered(model) == [False, False, False]
    kept = sharded(reshard_after_forward=False)
    loss_of(kept, batch(0))
    assert gathered(kept) == [True, True, True]
    with rl.no_grad():
        loss_of(model, batch(0))
    assert gathered(model) == [True, False, False]
    model.reshard()
    del loss
    gc.collect()


def check_prefetch() -> None:
    model, plain = sharded(), sharded()
    first, second = model.blocks
    first.set_modules_to_forward_prefetch([second])
    second.set_modules_to_backward_prefetch([first])
    losses = []
    for each in (model, plain):
        loss = loss_of(each, batch(0))
        loss.backward()
        losses.append(loss.item())
    assert losses[0] == losses[1]
    for one, two in zip(model.parameters(), plain.parameters(), strict=True):
        assert np.array_equal(one.grad.to_local().numpy(), two.grad.to_local().numpy())


def check_gradients_add_up_without_sync() -> None:
    model, plain = sharded(), sharded()
    model.set_requires_gradient_sync(False)
    loss_of(model, batch(dist.get_rank())).backward()
    assert all(p.grad is None for p in model.parameters())
    model.set_requires_gradient_sync(True)
    loss_of(model, batch(9)).backward()
    loss_of(plain, batch(dist.get_rank())).backward()
    loss_of(plain, batch(9)).backward()
    for one, two in zip(model.parameters(), plain.parameters(), strict=True):
        np.testing.assert_allclose(
            one.grad.to_local().numpy(), two.grad.to_local().numpy(), rtol=1e-4, atol=1e-6
        )


def check_mixed_precision() -> None:
    policy = MixedPrecisionPolicy(param_dtype=rl.bfloat16, reduce_dtype=rl.float32, output_dtype=rl.float32)
    rl.manual_seed(0)
    model = fully_shard(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), mp_policy=policy)
    seen = []
    model[0].register_forward_hook(lambda m, x, y: seen.append((m.weight.dtype, y.dtype)))
    out = model(rl.ones(2, 8))
    out.sum().backward()
    assert seen == [(rl.bfloat16, rl.bfloat16)] and out.dtype is rl.float32
    assert all(p.dtype is p.grad.dtype is rl.float32 for p in model.parameters())


def check_shared_and_uneven_parameters() -> None:
    rl.manual_seed(0)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = nn.Embedding(7, 5), nn.Linear(5, 7, bias=False)
            self.out.weight = self.table.weight
            self.scale = nn.Parameter(rl.ones(()))
            self.frozen = nn.Parameter(rl.ones(3), requires_grad=False)

        def forward(self, x: Any) -> Any:
            return self.out(self.table(x)) * self.scale * self.frozen.sum()

    plain, model = Tied(), Tied()
    model.load_state_dict(plain.state_dict())
    fully_shard(model)
    assert model.out.weight is model.table.weight
    x = rl.arange(7)
    for each in (plain, model):
        each(x).pow(2).sum().backward()
    for (name, one), two in zip(plain.named_parameters(), model.parameters(), strict=True):
        if name == "frozen":
            assert two.grad is None
        else:
            found = two.grad.full_tensor().reshape(one.shape).numpy()
            np.testing.assert_allclose(found, one.grad.numpy(), rtol=1e-4)


def check_copies_of_shards() -> None:
    """A mesh of two dimensions: copies along the first, pieces along the second."""
    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (2, size // 2))
    model = sharded(mesh=mesh)
    assert next(model.parameters()).placements == (Replicate(), Shard(0))
    loss_of(model, batch(dist.get_rank())).backward()
    rl.manual_seed(0)
    ddp = DistributedDataParallel(GPT())
    loss_of(ddp, batch(dist.get_rank())).backward()
    for one, two in zip(model.parameters(), ddp.parameters(), strict=True):
        np.testing.assert_allclose(one.grad.full_tensor().numpy(), two.grad.numpy(), rtol=1e-3, atol=1e-6)


def check_tensor_parallel_modules() -> None:
    """Pieces of pieces: what tensor parallelism has cut is cut again, gathered in its first form, and saved and
    loaded as the whole that it is."""
    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("pairs", "tensors"))
    rl.manual_seed(0)
    plain = nn.Sequential(nn.Linear(8, 4 * size), nn.GELU(), nn.Linear(4 * size, 6))
    model = copy.deepcopy(plain)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    fully_shard(parallelize_module(model, mesh["tensors"], plan), mesh=mesh["pairs"])
    cut = _StridedShard(0, split_factor=2)
    assert [p.placements for p in model.parameters()] == [
        (cut, Shard(0)), (cut, Shard(0)), (Shard(0), Shard(1)), (Shard(0), Replicate())
    ]  # fmt: skip
    assert sum(p.to_local().numel() for p in (model[0].weight, model[0].bias)) == 4 * 9
    for one, two in zip(plain.parameters(), model.parameters(), strict=True):
        assert np.array_equal(one.detach().numpy(), two.detach().full_tensor().numpy())
    seen = []
    model[0].register_forward_hook(lambda m, x, y: seen.append((type(m.weight), m.weight.placements)))
    x = rl.ones(3, 8) * (1 + mesh["pairs"].get_local_rank())
    model(x).pow(2).sum().backward()
    assert seen == [(DTensor, (Shard(0),))]
    loss = sum(plain(rl.ones(3, 8) * (1 + i)).pow(2).sum() for i in range(size // 2)) / (size // 2)
    loss.backward()
    for one, two in zip(plain.parameters(), model.parameters(), strict=True):
        assert two.grad.placements == two.placements
        np.testing.assert_allclose(two.grad.full_tensor().numpy(), one.grad.numpy(), rtol=1e-4, atol=1e-5)
    place = [tempfile.mkdtemp()]
    dist.broadcast_object_list(place, 0)
    dcp.save({"model": model.state_dict()}, checkpoint_id=Path(place[0]) / "saved")
    other = fully_shard(nn.Sequential(nn.Linear(8, 4 * size), nn.GELU(), nn.Linear(4 * size, 6)))
    state = {"model": other.state_dict()}
    dcp.load(state, checkpoint_id=Path(place[0]) / "saved")
    for one, two in zip(plain.parameters(), other.parameters(), strict=True):
        assert np.array_equal(one.detach().numpy(), two.detach().full_tensor().numpy())
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(place[0])


def check_errors() -> None:
    elsewhere = parallelize_module(
        nn.Linear(4, 4), init_device_mesh("cpu", (dist.get_world_size(),)), ColwiseParallel()
    )
    for error, call in (
        (ValueError, lambda: fully_shard(elsewhere)),
        (NotImplementedError, lambda: fully_shard([nn.Linear(2, 2)])),
        (NotImplementedError, lambda: fully_shard(nn.Linear(2, 2), shard_placement_fn=lambda p: None)),
        (NotImplementedError, lambda: fully_shard(nn.Linear(2, 2), reshard_after_forward=2)),
        (AssertionError, lambda: fully_shard(fully_shard(nn.Linear(2, 2)))),
    ):
        try:
            call()
        except error:
            continue
        raise AssertionError(error)


if __name__ == "__main__":
    run_checks(globals())
