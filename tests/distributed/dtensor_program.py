"""DTensors against plain tensors: placements, operators and their gradients, modules."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from ranks import run_checks

import rushlight as rl
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    init_device_mesh,
)
from rushlight.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from rushlight.distributed.tensor.placement_types import _StridedShard
from rushlight.nn import functional as F


def mesh() -> Any:
    return init_device_mesh("cpu", (dist.get_world_size(),))


def seeded(*shape: int, seed: int = 0) -> Any:
    return rl.randn(*shape, generator=rl.Generator().manual_seed(seed))


def full(tensor: Any) -> np.ndarray:
    tensor = tensor.detach()
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).numpy()


def same(one: Any, two: Any) -> None:
    assert one.shape == two.shape
    np.testing.assert_allclose(full(one), full(two), rtol=1e-4, atol=1e-5)


def check_redistribution() -> None:
    size, rank, m = dist.get_world_size(), dist.get_rank(), mesh()
    whole = seeded(7, 5, 4)
    every = [Shard(0), Shard(1), Shard(2), Replicate()]
    for old, new in itertools.product(every, every):
        tensor = distribute_tensor(whole, m, [old])
        moved = tensor.redistribute(placements=[new])
        assert moved.placements == (new,)
        assert np.array_equal(full(moved), whole.numpy())
        if isinstance(new, Shard):
            parts = whole.chunk(size, new.dim)
            expected = parts[rank] if rank < len(parts) else whole.narrow(new.dim, 0, 0)
            assert np.array_equal(moved.to_local().numpy(), expected.numpy())
    for new in every:
        partial = DTensor.from_local(rl.full((6, 5, 4), float(rank + 1)), m, [Partial()])
        moved = partial.redistribute(placements=[new])
        assert np.array_equal(full(moved), np.full((6, 5, 4), size * (size + 1) / 2))
    largest = DTensor.from_local(rl.tensor([float(rank)]), m, [Partial("max")])
    assert largest.full_tensor().item() == size - 1


def check_two_dimensions_of_the_mesh() -> None:
    size = dist.get_world_size()
    m = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("a", "b"))
    whole = seeded(6, 5)
    every = [Shard(0), Shard(1), Replicate()]
    strided = [(_StridedShard(dim, split_factor=2), Shard(dim)) for dim in (0, 1)]
    both = [*itertools.product(every, every), *strided]
    for old in both:
        tensor = distribute_tensor(whole, m, old)
        assert np.array_equal(full(tensor), whole.numpy()), old
        for new in both:
            assert np.array_equal(full(tensor.redistribute(placements=new)), whole.numpy()), (old, new)
        same((tensor * 2 + 1).sum(0), (whole * 2 + 1).sum(0))
        same(tensor.t().reshape(30) * 2, whole.t().reshape(30) * 2)
    tensor = distribute_tensor(whole, m, strided[0])
    assert (tensor * 2 + tensor).placements == strided[0]  # nothing is moved
    rows = whole.chunk(2)[dist.get_rank() % 2].chunk(size // 2)
    mine = rows[dist.get_rank() // 2] if dist.get_rank() // 2 < len(rows) else whole[:0]
    assert np.array_equal(tensor.to_local().numpy(), mine.numpy())


PROGRAMS: dict[str, Any] = {
    "pointwise": lambda x, y: (x * y + x.sin() - 2 / (y.exp() + 1)).relu(),
    "broadcast": lambda x, y: x * y[0] + y.sum(1, keepdim=True),
    "matmul": lambda x, y: (x @ y.t()).tanh() @ x,
    "sums": lambda x, y: x.sum(0) * y.mean(1).sum() + y.amax(0),
    "softmax": lambda x, y: x.softmax(1) * y.log_softmax(0),
    "norm": lambda x, y: F.layer_norm(x, (8,), y[0], y[1]) @ y.t(),
    "views": lambda x, y: (x.view(8, 2, 4).transpose(0, 1).reshape(2, 32) + y.reshape(2, 32)).unsqueeze(0),
    "parts": lambda x, y: rl.cat([x[2:5], y[:, :8]], 0) + rl.stack([x, y]).unbind(0)[1].narrow(0, 0, 1),
    "where": lambda x, y: rl.where(x > 0, x, y * 3).clamp(-1, 1).pow(2),
    "no rule": lambda x, y: x.cumsum(0).flip(0) + rl.linalg.matrix_exp(y @ y.t() * 0.01) @ x,
    "vector": lambda x, y: rl.linalg.vector_norm(x) * (y - x).norm(),
    "expand": lambda x, y: x[:1].expand(8, 8) * y.permute(1, 0),
}


def check_operators_and_gradients() -> None:
    m = mesh()
    for name, program in PROGRAMS.items():
        for one, two in itertools.product([Shard(0), Shard(1), Replicate()], repeat=2):
            plain = [seeded(8, 8, seed=i).requires_grad_() for i in range(2)]
            placed = [
                distribute_tensor(p.detach(), m, [at]).requires_grad_()
                for p, at in zip(plain, (one, two), strict=True)
            ]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected, found = program(*plain), program(*placed)
                same(found, expected)
                found.sum().backward()
                expected.sum().backward()
            for given, made in zip(plain, placed, strict=True):
                assert isinstance(made.grad, DTensor), name
                same(made.grad, given.grad)


def losses_of(logits: Any, target: Any, **options: Any) -> tuple[Any, Any]:
    """The loss and the gradient of the logits."""
    logits = logits.detach().requires_grad_()
    with loss_parallel():
        loss = F.cross_entropy(logits, target, **options)
    (loss * loss).sum().backward()
    return loss, logits.grad


def check_losses_of_sharded_classes() -> None:
    """Nothing is gathered: the gradient is placed as the logits are."""
    m, classes = mesh(), 7  # uneven pieces; of 4 processes the last has one class
    for shape in ((6, classes), (classes,), (2, classes, 3), (2, classes, 3, 2)):
        dim = min(1, len(shape) - 1)
        plain = seeded(*shape) * 3
        rows = shape[:dim] + shape[dim + 1 :]
        target = rl.randint(0, classes, rows, generator=rl.Generator().manual_seed(1))
        if target.ndim:
            target.view(-1)[0] = 2
        logits = distribute_tensor(plain, m, [Shard(dim)])
        for how in ("mean", "sum", "none"):
            for options in ({}, {"weight": rl.arange(1.0, 8.0)}, {"ignore_index": 2}):
                expected = losses_of(plain, target, reduction=how, **options)
                found = losses_of(logits, target, reduction=how, **options)
                assert found[0].placements == (Replicate(),) and found[1].placements == (Shard(dim),)
                for one, two in zip(found, expected, strict=True):
                    same(one, two)
    half = distribute_tensor((seeded(6, classes) * 3).bfloat16(), m, [Shard(1)])
    target = rl.tensor([0, 1, 2, 3, 4, 6])
    found = losses_of(half, target)[0]
    exact = F.cross_entropy(half.full_tensor().float(), target)
    assert found.dtype == rl.bfloat16 and abs(found.item() - exact.item()) < 0.02 * exact.item()
    for wrong in (-1, classes):
        with pytest.raises(IndexError):
            losses_of(half, rl.full((6,), wrong))


def check_losses_of_sharded_classes_and_rows() -> None:
    size = dist.get_world_size()
    m = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("rows", "classes"))
    plain, target = seeded(8, 6) * 3, rl.tensor([0, 5, 2, -100, 4, 1, 0, 3])
    logits = distribute_tensor(plain, m, [Shard(0), Shard(1)])
    placed = distribute_tensor(target, m, [Shard(0), Replicate()])
    for how in ("mean", "sum", "none"):
        expected, found = losses_of(plain, target, reduction=how), losses_of(logits, placed, reduction=how)
        assert found[1].placements == (Shard(0), Shard(1))
        for one, two in zip(found, expected, strict=True):
            same(one, two)
    with pytest.raises(RuntimeError, match="as a DTensor"):
        losses_of(logits, target)


def check_compiled_heads_with_parallel_losses() -> None:
    m, vocabulary = mesh(), 12
    rl.manual_seed(2)
    heads = [nn.Linear(8, vocabulary) for _ in range(3)]
    for head in heads[1:]:
        head.load_state_dict(heads[0].state_dict())
        parallelize_module(head, m, ColwiseParallel(use_local_output=False))
    x, target = seeded(10, 8), rl.arange(10)

    def step_of(head: Any) -> Any:
        optimizer = rl.optim.SGD(head.parameters(), lr=0.5)

        def step(x: Any, target: Any) -> Any:
            optimizer.zero_grad()
            with loss_parallel():
                loss = F.cross_entropy(head(x), target)
                loss.backward()
            optimizer.step()
            loss = loss.detach()
            return loss.to_local() if isinstance(loss, DTensor) else loss

        return step

    steps = [step_of(head) for head in heads]
    steps[2] = rl.compile(steps[2], fullgraph=True)
    for _ in range(4):
        expected, *found = [step(x, target) for step in steps]
        for loss in found:
            same(loss, expected)
    for head in heads[1:]:
        assert head.weight.placements == (Shard(0),)
        same(head.weight, heads[0].weight)


def check_new_tensors() -> None:
    m = mesh()
    made = rl.distributed.tensor.full((5, 3), 2.5, device_mesh=m, placements=[Shard(0)])
    assert made.placements == (Shard(0),) and np.array_equal(full(made), np.full((5, 3), 2.5, np.float32))
    made = rl.distributed.tensor.empty((5, 3), dtype=rl.float64, device_mesh=m)
    assert made.to_local().shape == (5, 3) and made.dtype == rl.float64


def check_uneven_pieces() -> None:
    m = mesh()
    for program in (PROGRAMS["pointwise"], PROGRAMS["matmul"], PROGRAMS["sums"], PROGRAMS["softmax"]):
        plain = [seeded(7, 5, seed=i) for i in range(2)]
        placed = [distribute_tensor(p, m, [Shard(i)]) for i, p in enumerate(plain)]
        same(program(*placed), program(*plain))


def check_local_tensors_have_gradients() -> None:
    m, size, rank = mesh(), dist.get_world_size(), dist.get_rank()
    local = rl.full((2, 3), float(rank)).requires_grad_()
    DTensor.from_local(local, m, [Shard(0)]).pow(2).sum().backward()
    np.testing.assert_allclose(local.grad.numpy(), np.full((2, 3), 2.0 * rank))
    local = rl.ones(2).requires_grad_()
    total = DTensor.from_local(local, m, [Partial()]).full_tensor()
    (total * 3).sum().backward()
    assert total[0].item() == size
    np.testing.assert_allclose(local.grad.numpy(), [3.0, 3.0])


def check_in_place_and_optimizers() -> None:
    m = mesh()
    plain = nn.Parameter(seeded(5, 3))
    placed = nn.Parameter(distribute_tensor(plain.detach(), m, [Shard(0)]))
    assert isinstance(placed, nn.Parameter) and isinstance(placed, DTensor)
    for make in (
        lambda p: rl.optim.AdamW([p], lr=0.1),
        lambda p: rl.optim.SGD([p], lr=0.1, momentum=0.9),
        lambda p: rl.optim.Adagrad([p], lr=0.1),
    ):
        both = [make(plain), make(placed)]
        for step in range(3):
            for parameter, optimizer in zip((plain, placed), both, strict=True):
                optimizer.zero_grad()
                ((parameter - step) ** 2).sum().backward()
                nn.utils.clip_grad_norm_([parameter], 1.0)
                optimizer.step()
        same(placed, plain)
    assert placed.to_local().shape[0] < 5
    tensor = distribute_tensor(rl.ones(4, 4), m, [Shard(1)])
    tensor.mul_(2).add_(distribute_tensor(rl.ones(4, 4), m, [Shard(0)])).zero_()
    assert tensor.placements == (Shard(1),) and tensor.sum().item() == 0.0


def check_errors_and_notices() -> None:
    m = mesh()
    tensor = distribute_tensor(rl.ones(4, 4), m, [Shard(0)])
    for error, call in (
        (RuntimeError, lambda: tensor + rl.ones(4, 4)),
        (RuntimeError, lambda: tensor.redistribute(placements=[Partial()])),
        (ValueError, lambda: tensor.redistribute(placements=[Shard(0), Shard(1)])),
        (IndexError, lambda: distribute_tensor(rl.ones(2), m, [Shard(1)])),
        (NotImplementedError, lambda: rl.add(tensor, tensor, out=tensor)),
    ):
        try:
            call()
        except error:
            continue
        raise AssertionError(error)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tensor.trace()
    assert any("no rule of sharding" in str(each.message) for each in told)


def check_embeddings_and_sequence_parallel() -> None:
    m, size, rank = mesh(), dist.get_world_size(), dist.get_rank()
    rl.manual_seed(3)
    table, norm = nn.Embedding(10, 8), nn.LayerNorm(8)
    tokens = rl.randint(0, 10, (2, 4 * size), generator=rl.Generator().manual_seed(1))
    expected = norm(table(tokens))
    (expected**2 * rl.arange(8.0)).sum().backward()
    grads = [p.grad.clone() for p in (*table.parameters(), *norm.parameters())]
    table.zero_grad(), norm.zero_grad()
    parallelize_module(table, m, RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)))
    parallelize_module(norm, m, SequenceParallel())
    found = norm(table(tokens))
    assert found.placements == (Shard(1),)
    same(found, expected)
    scale = rl.arange(8.0)
    local = found.to_local()
    assert local.shape[1] == 4 and rank < size
    (local**2 * scale).sum().backward()
    for parameter, grad in zip((*table.parameters(), *norm.parameters()), grads, strict=True):
        assert parameter.grad.placements == parameter.placements
        same(parameter.grad, grad)


def check_prepared_modules() -> None:
    m, size = mesh(), dist.get_world_size()

    class Whole(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if x.shape[0] == 2 * size else None

    module = Whole()
    parallelize_module(
        module, m, PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate())
    )
    parallelize_module(
        module, m, PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0))
    )
    assert module(rl.ones(2, 3)).shape == (2, 3)
    linear = distribute_module(nn.Linear(3, 3), m)
    assert linear.weight.placements == (Replicate(),)
    assert linear(distribute_tensor(rl.ones(4, 3), m, [Shard(0)])).placements == (Shard(0),)


if __name__ == "__main__":
    run_checks(globals())
