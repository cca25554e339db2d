"""Steps of training in several processes equal those of one: data parallel, sharded, tensor parallel."""

from __future__ import annotations

from typing import Any

import numpy as np
from model import GPT, batch, optimizer_of, step_of
from ranks import run_checks

import rushlight as rl
import rushlight.distributed as dist
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor import DTensor, Replicate, init_device_mesh
from rushlight.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from rushlight.nn.parallel import DistributedDataParallel

STEPS = 10
_expected: dict[float | None, Any] = {}


def model() -> GPT:
    rl.manual_seed(0)
    return GPT()


def expected(clip: float | None) -> Any:
    """The parameters after all steps in one process, and the losses."""
    if clip not in _expected:
        alone = model()
        step = step_of(alone, optimizer_of(alone), clip)
        losses = [float(step(batch(i))) for i in range(STEPS)]
        _expected[clip] = [p.detach() for p in alone.parameters()], losses
    return _expected[clip]


def whole(parameter: Any) -> Any:
    parameter = parameter.detach()
    return parameter.full_tensor() if isinstance(parameter, DTensor) else parameter


def compare(trained: Any, losses: list[float], clip: float | None) -> None:
    """Parameters as in one process, and the same to the bit in all processes."""
    parameters, alone = expected(clip)
    mine = [whole(p) for p in trained.parameters()]
    for one, two in zip(mine, parameters, strict=True):
        np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(losses, alone, rtol=1e-4)
    bits = [p.numpy().tobytes() for p in mine]
    everywhere: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, bits)
    assert all(theirs == bits for theirs in everywhere)


def train(trained: Any, *, divided: bool, compiled: bool, clip: float | None = None, mesh: Any = None) -> Any:
    """Train on batches, of which each process (of `mesh`) has a part if they are `divided`, and compare."""
    size = dist.get_world_size() if mesh is None else mesh.size()
    rank = dist.get_rank() if mesh is None else mesh.get_local_rank()
    step = step_of(trained, optimizer_of(trained), clip)
    step = rl.compile(step) if compiled else step
    losses = []
    for i in range(STEPS):
        tokens = batch(i)
        loss = step(tokens.chunk(size)[rank].contiguous() if divided else tokens)
        if divided:
            loss = loss.clone()
            dist.all_reduce(loss, dist.ReduceOp.AVG)
        losses.append(float(loss))
    compare(trained, losses, clip)
    if compiled:
        assert not step.eager, step.eager  # the whole step is one graph
    return step


def sharded(made: Any = None, mesh: Any = None) -> Any:
    made = model() if made is None else made
    for block in made.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(made, mesh=mesh)


def tensor_parallel(mesh: Any = None) -> Any:
    plan: dict[str, Any] = {
        "tokens": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Replicate()),
    }
    for name in ("query", "key", "value", "up"):
        plan[f"blocks.*.{name}"] = ColwiseParallel()
    for name in ("out", "down"):
        plan[f"blocks.*.{name}"] = RowwiseParallel()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),)) if mesh is None else mesh
    return parallelize_module(model(), mesh, plan)


def both_ways() -> tuple[Any, Any]:
    """Tensor parallel in pairs of processes, and sharded over the pairs; and the mesh of the latter."""
    names = ("pairs", "tensors")
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=names)
    return sharded(tensor_parallel(mesh["tensors"]), mesh["pairs"]), mesh["pairs"]


def check_data_parallel() -> None:
    train(DistributedDataParallel(model(), bucket_cap_mb=0.02), divided=True, compiled=False)


def check_data_parallel_views_and_clipping() -> None:
    ddp = DistributedDataParallel(model(), bucket_cap_mb=0.02, gradient_as_bucket_view=True)
    train(ddp, divided=True, compiled=False, clip=0.5)


def check_data_parallel_compiled() -> None:
    step = train(DistributedDataParallel(model(), bucket_cap_mb=0.02), divided=True, compiled=True)
    ((found,),) = step.specializations.values()
    assert not found.native_call.writes  # all parameters and states are updated in place
    assert not found.native_call.gradients  # which native code sets


def check_data_parallel_compiled_forward() -> None:
    ddp = DistributedDataParallel(model(), bucket_cap_mb=0.02)
    train(rl.compile(ddp), divided=True, compiled=False)


def check_fully_sharded() -> None:
    train(sharded(), divided=True, compiled=False, clip=0.5)


def check_fully_sharded_compiled() -> None:
    train(sharded(), divided=True, compiled=True)


def check_tensor_parallel() -> None:
    train(tensor_parallel(), divided=False, compiled=False, clip=0.5)


def check_tensor_parallel_compiled() -> None:
    train(tensor_parallel(), divided=False, compiled=True)


def check_sharded_and_tensor_parallel() -> None:
    trained, mesh = both_ways()
    train(trained, divided=True, compiled=False, mesh=mesh, clip=0.5)


def check_sharded_and_tensor_parallel_compiled() -> None:
    trained, mesh = both_ways()
    train(trained, divided=True, compiled=True, mesh=mesh)


if __name__ == "__main__":
    run_checks(globals())
