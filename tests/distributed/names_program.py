"""Names of `torch.distributed` that programs import beside its collectives: `nn.functional`, hooks, wrappers."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from ranks import run_checks

import rushlight as rl
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed import ReduceOp
from rushlight.distributed.algorithms._checkpoint import checkpoint_wrapper as wrappers
from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks
from rushlight.distributed.elastic.multiprocessing.errors import record
from rushlight.distributed.nn import functional
from rushlight.nn.parallel import DistributedDataParallel


def rank() -> int:
    return dist.get_rank()


def size() -> int:
    return dist.get_world_size()


def of_rank(r: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(r).standard_normal(shape)


def mine(*shape: int) -> rl.Tensor:
    return rl.tensor(of_rank(rank(), *shape), requires_grad=True)


def everybody(*shape: int) -> np.ndarray:
    return np.stack([of_rank(r, *shape) for r in range(size())])


def weights(r: int, *shape: int) -> np.ndarray:
    """What process `r` multiplies its result by, before all are added up."""
    return np.random.default_rng(100 + r).standard_normal(shape)


def check(result: Any, expected: np.ndarray, leaf: rl.Tensor, gradient: np.ndarray) -> None:
    """The value of a result, and the gradient of the sum of everybody's results by this process's tensor."""
    result = rl.stack(result) if isinstance(result, tuple) else result
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-12)
    (result * rl.tensor(weights(rank(), *expected.shape))).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), gradient, rtol=1e-12, atol=1e-12)


def all_weights(*shape: int) -> np.ndarray:
    return np.stack([weights(r, *shape) for r in range(size())])


def check_broadcast_and_reduce() -> None:
    src, x = size() - 1, mine(2, 3)
    total = all_weights(2, 3).sum(0)
    check(functional.broadcast(x, src), everybody(2, 3)[src], x, total * (rank() == src))
    x = mine(2, 3)
    check(functional.all_reduce(x), everybody(2, 3).sum(0), x, total)
    for op, scale in ((ReduceOp.SUM, 1), (ReduceOp.AVG, 1 / size())):
        x = mine(2, 3)
        whole = everybody(2, 3)
        expected = whole.sum(0) * scale if rank() == src else whole[rank()]
        check(functional.reduce(x, src, op), expected, x, weights(src, 2, 3) * scale)


def check_gather_and_scatter() -> None:
    n, dst, x = size(), size() - 1, mine(3)
    check(functional.all_gather(x), everybody(3), x, all_weights(n, 3).sum(0)[rank()])
    x = mine(3)
    expected = everybody(3) if rank() == dst else np.zeros((n, 3))
    check(functional.gather(x, dst), expected, x, weights(dst, n, 3)[rank()])
    x = mine(n, 3)
    mine_of_src = all_weights(3) if rank() == dst else np.zeros((n, 3))
    check(functional.scatter(x.unbind(0), dst), everybody(n, 3)[dst, rank()], x, mine_of_src)
    x = mine(n, 3)
    part = functional.reduce_scatter(rl.empty(3, dtype=rl.float64), x.unbind(0))
    check(part, everybody(n, 3).sum(0)[rank()], x, all_weights(3))
    x = mine(2, 3)
    base = functional._all_gather_base(rl.empty(2 * n, 3, dtype=rl.float64), x)
    check(
        base, everybody(2, 3).reshape(2 * n, 3), x, all_weights(2 * n, 3).sum(0)[2 * rank() : 2 * rank() + 2]
    )


def check_all_to_all() -> None:
    n = size()
    x = mine(n, 3)
    empty = [rl.empty(3, dtype=rl.float64) for _ in range(n)]
    expected, back = everybody(n, 3)[:, rank()], all_weights(n, 3)[:, rank()]
    check(functional.all_to_all(empty, x.unbind(0)), expected, x, back)
    x = mine(n, 3)
    check(functional.all_to_all_single(rl.empty(n, 3, dtype=rl.float64), x), expected, x, back)
    x = mine(n * (n + 1) // 2, 2)  # process i gets i + 1 rows of everybody
    got = functional.all_to_all_single(
        rl.empty(n * (rank() + 1), 2, dtype=rl.float64), x, [rank() + 1] * n, list(range(1, n + 1))
    )
    first = rank() * (rank() + 1) // 2
    rows = everybody(n * (n + 1) // 2, 2)[:, first : first + rank() + 1].reshape(-1, 2)
    np.testing.assert_allclose(got.detach().numpy(), rows)


def check_second_derivatives() -> None:
    """Of cubes: six times the value where a process's tensor arrives, for each process that has the gradient."""
    for function in (
        lambda x: functional.reduce(x, 0),
        lambda x: rl.stack(functional.gather(x, 0)),
        lambda x: functional.scatter(list(x.unbind(0)), 0),
    ):
        x = mine(size(), 3)
        result = function(x)
        (first,) = rl.autograd.grad((result**3).sum(), x, create_graph=True)
        (second,) = rl.autograd.grad(first.sum(), x)
        total = everybody(size(), 3)
        arrived = {0: size() * total.sum(0), 1: total[rank()], 2: total[0] * (rank() == 0)}
        kind = 0 if result.shape == x.shape else 1 if result.dim() == 3 else 2
        np.testing.assert_allclose(second.numpy(), 6 * arrived[kind], rtol=1e-12)


def check_hooks_average_gradients() -> None:
    for hook, exact in (
        (default_hooks.allreduce_hook, True),
        (default_hooks.fp16_compress_hook, False),
        (default_hooks.bf16_compress_hook, False),
        (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), False),
        (default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook), False),
    ):
        rl.manual_seed(0)
        model = nn.Linear(4, 3)
        ddp = DistributedDataParallel(model)
        ddp.register_comm_hook(None, hook)
        ddp(rl.tensor(of_rank(rank(), 5, 4), dtype=rl.float32)).sum().backward()
        expected = np.tile(everybody(5, 4).sum(1).mean(0), (3, 1))
        assert model.weight.grad.dtype == rl.float32
        np.testing.assert_allclose(
            model.weight.grad.numpy(), expected, rtol=1e-5 if exact else 2e-2, atol=2e-2
        )


def check_errors_are_recorded() -> None:
    @record
    def main(number: int) -> int:
        return 6 // number

    assert main(3) == 2 and main.__name__ == "main"
    with tempfile.TemporaryDirectory() as directory:
        path = os.environ["TORCHELASTIC_ERROR_FILE"] = str(Path(directory, "new", "error.json"))
        try:
            main(0)
        except ZeroDivisionError:
            written = json.loads(Path(path).read_text())["message"]
        finally:
            del os.environ["TORCHELASTIC_ERROR_FILE"]
    assert written["message"].startswith("ZeroDivisionError: ")
    assert "6 // number" in written["extraInfo"]["py_callstack"]


def check_wrapped_modules_are_checkpointed() -> None:
    for kind in wrappers.CheckpointImpl:
        rl.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
        x = rl.tensor(of_rank(rank(), 2, 4), dtype=rl.float32, requires_grad=True)
        model(x).sum().backward()
        expected = [p.grad.clone() for p in model.parameters()]
        names = [name for name, _ in model.named_parameters()]
        model.zero_grad()
        calls = []
        model[2].register_forward_pre_hook(lambda *_, calls=calls: calls.append(1))
        wrappers.apply_activation_checkpointing(
            model,
            lambda m, kind=kind: wrappers.checkpoint_wrapper(m, kind),
            lambda m: isinstance(m, nn.Linear),
        )
        assert isinstance(model[2], wrappers.CheckpointWrapper) and not isinstance(
            model[1], wrappers.CheckpointWrapper
        )
        assert list(model.state_dict()) == names and model[2].out_features == 4
        assert [name for name, _ in model[2].named_parameters()] == ["weight", "bias"]
        model.load_state_dict(model.state_dict())
        model(x).sum().backward()
        assert len(calls) == 2  # once more in backward
        for p, grad in zip(model.parameters(), expected, strict=True):
            assert rl.equal(p.grad, grad)
        assert rl.equal(model[2](input=x), model[2](x))


if __name__ == "__main__":
    run_checks(globals())
