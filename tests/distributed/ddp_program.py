"""DistributedDataParallel: buckets, unused parameters, no_sync, buffers, hooks and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from ranks import run_checks

import rushlight as rl
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.utils.data import DistributedSampler


def rank() -> int:
    return dist.get_rank()


def size() -> int:
    return dist.get_world_size()


class Branches(nn.Module):
    """One of two layers is used; the third never is."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.idle = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any, use_second: bool) -> Any:
        return (self.second if use_second else self.first)(x)


def average(value: Any) -> np.ndarray:
    """The average over processes, by another way."""
    found: list[Any] = [None] * size()
    dist.all_gather_object(found, np.array(value))
    return np.mean(found, axis=0)


def raises(error: type[Exception], text: str, function: Any) -> None:
    try:
        function()
    except error as raised:
        said = str(raised)
    else:
        said = f"{error.__name__} was not raised"
    assert text in said, said


def check_parameters_begin_as_in_the_first_process() -> None:
    rl.manual_seed(rank())
    ddp = DistributedDataParallel(nn.Linear(3, 3))
    weight = ddp.module.weight.detach().numpy()
    assert np.array_equal(weight, average(weight))
    assert list(ddp.state_dict()) == ["module.weight", "module.bias"]


def check_gradients_are_averages() -> None:
    rl.manual_seed(rank())
    for views in (False, True):
        ddp = DistributedDataParallel(nn.Linear(3, 2), gradient_as_bucket_view=views)
        for _ in range(3):
            ddp.zero_grad()
            x = rl.randn(5, 3)
            ddp(x).sum().backward()
            expected = average(x.sum(0).expand(2, 3).numpy())
            np.testing.assert_allclose(ddp.module.weight.grad.numpy(), expected, rtol=1e-5)
        bucket = ddp.reducer.buckets[0].buffer
        shares = ddp.module.weight.grad.untyped_storage().data_ptr() == bucket.untyped_storage().data_ptr()
        assert shares is views


def check_buckets_follow_the_order_of_arrival() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 64))
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.01)
    assert ddp.reducer.buckets[0].positions == [5, 4]
    ddp(rl.randn(2, 64)).sum().backward()
    order = [position for bucket in ddp.reducer.buckets for position in bucket.positions]
    assert sorted(order) == list(range(6)) and len(ddp.reducer.buckets) == 3
    assert set(order[:2]) == {4, 5} and set(order[-2:]) == {0, 1}
    big = DistributedDataParallel(nn.Linear(1024, 1024))  # the first bucket is small
    assert len(big.reducer.buckets) == 1
    two = DistributedDataParallel(nn.Sequential(nn.Linear(600, 600), nn.Linear(600, 600)))
    assert len(two.reducer.buckets) == 2


def check_no_sync_adds_up() -> None:
    ddp = DistributedDataParallel(nn.Linear(3, 2, bias=False))
    xs = [rl.full((1, 3), float(rank() + i)) for i in range(3)]
    with ddp.no_sync():
        for x in xs[:2]:
            ddp(x).sum().backward()
    local = ddp.module.weight.grad.clone()
    np.testing.assert_allclose(local.numpy(), np.full((2, 3), 2.0 * rank() + 1))
    ddp(xs[2]).sum().backward()
    expected = average(np.full((2, 3), 3.0 * rank() + 3))
    np.testing.assert_allclose(ddp.module.weight.grad.numpy(), expected)


def check_unused_parameters() -> None:
    ddp = DistributedDataParallel(Branches(), find_unused_parameters=True, bucket_cap_mb=0.0001)
    for step in range(3):
        ddp.zero_grad()
        ddp(rl.ones(1, 4), rank() > 0).sum().backward()
        module = ddp.module
        assert module.idle.weight.grad is None, step
        np.testing.assert_allclose(module.first.weight.grad.numpy(), np.full((4, 4), 1 / size()))
        np.testing.assert_allclose(module.second.weight.grad.numpy(), np.full((4, 4), 1 - 1 / size()))


def check_unused_parameters_are_an_error_otherwise() -> None:
    ddp = DistributedDataParallel(Branches())
    ddp(rl.ones(1, 4), False).sum().backward()
    raises(
        RuntimeError,
        "Expected to have finished reduction in the prior iteration",
        lambda: ddp(rl.ones(1, 4), False),
    )


def check_static_graph() -> None:
    ddp = DistributedDataParallel(Branches(), static_graph=True)
    for _ in range(3):
        ddp.zero_grad()
        ddp(rl.full((1, 4), float(rank())), True).sum().backward()
        np.testing.assert_allclose(ddp.module.second.weight.grad.numpy(), np.full((4, 4), (size() - 1) / 2))
        assert ddp.module.first.weight.grad is None


def check_buffers_are_those_of_the_first_process() -> None:
    ddp = DistributedDataParallel(nn.BatchNorm1d(3))
    ddp(rl.full((4, 3), float(rank()))).sum().backward()
    ddp(rl.full((4, 3), float(rank())))  # gets the running mean of the first process before it adds its own
    found = ddp.module.running_mean.numpy()
    np.testing.assert_allclose(found, np.full(3, 0.1 * rank()), rtol=1e-5)
    other = DistributedDataParallel(nn.BatchNorm1d(3), broadcast_buffers=False)
    for _ in range(2):
        other(rl.full((4, 3), float(rank()))).sum().backward()
    np.testing.assert_allclose(other.module.running_mean.numpy(), np.full(3, 0.19 * rank()), rtol=1e-5)


def check_communication_hooks() -> None:
    seen = []

    def hook(state: Any, bucket: Any) -> Any:
        seen.append((bucket.index(), bucket.is_last(), len(bucket.parameters())))
        buffer = bucket.buffer()
        dist.all_reduce(buffer)
        future = rl.futures.Future()
        future.set_result(buffer * state)
        return future

    ddp = DistributedDataParallel(nn.Linear(2, 2))
    ddp.register_comm_hook(10.0, hook)
    ddp(rl.ones(1, 2)).sum().backward()
    np.testing.assert_allclose(ddp.module.weight.grad.numpy(), np.full((2, 2), 10.0 * size()))
    assert seen == [(0, True, 2)]
    raises(RuntimeError, "can only be called once", lambda: ddp.register_comm_hook(None, hook))


def check_errors() -> None:
    raises(RuntimeError, "doesn't have any parameter", lambda: DistributedDataParallel(nn.ReLU()))
    uneven = nn.Linear(3, 2 + (rank() == size() - 1))
    raises(RuntimeError, "same model across all ranks", lambda: DistributedDataParallel(uneven))
    raises(ValueError, "device_ids", lambda: DistributedDataParallel(nn.Linear(2, 2), device_ids=[0]))
    raises(
        NotImplementedError,
        "mixed_precision",
        lambda: DistributedDataParallel(nn.Linear(2, 2), mixed_precision=object()),
    )


# Processes with different numbers of inputs.


def inputs_of(process: int) -> list[Any]:
    return [rl.full((2, 3), 1.0 + process + 0.5 * i) for i in range(2 * process + 1)]


def train(model: Any, inputs: list[Any], optimizer: Any, weight: float = 1.0) -> None:
    for x in inputs:
        optimizer.zero_grad()
        (weight * model(x).pow(2).sum()).backward()
        optimizer.step()


def expected_of_joined(by_all: bool) -> Any:
    """The same training in one process: in each step all that have inputs left add their gradients."""
    rl.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = rl.optim.SGD(model.parameters(), lr=0.01)
    for i in range(2 * size() - 1):
        left = [inputs_of(r)[i] for r in range(size()) if i < len(inputs_of(r))]
        optimizer.zero_grad()
        (sum(model(x).pow(2).sum() for x in left) / (size() if by_all else len(left))).backward()
        optimizer.step()
    return model


def check_join() -> None:
    for by_all, unused in ((True, False), (False, False), (True, True)):
        rl.manual_seed(0)
        ddp = DistributedDataParallel(nn.Linear(3, 2), find_unused_parameters=unused, bucket_cap_mb=1e-5)
        optimizer = rl.optim.SGD(ddp.parameters(), lr=0.01)
        with ddp.join(divide_by_initial_world_size=by_all):
            train(ddp, inputs_of(rank()), optimizer)
        for one, two in zip(ddp.parameters(), expected_of_joined(by_all).parameters(), strict=True):
            np.testing.assert_allclose(one.detach().numpy(), two.detach().numpy(), rtol=1e-5)
            assert np.array_equal(one.detach().numpy(), average(one.detach().numpy()))
        train(ddp, [rl.ones(2, 3)] * 2, optimizer)  # as before


def check_join_of_steps_without_sync_and_of_buffers() -> None:
    rl.manual_seed(0)
    ddp = DistributedDataParallel(nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)))
    seen = []
    ddp.module[0].register_forward_pre_hook(lambda m, x: seen.append(m.running_mean.clone().numpy()))
    with ddp.join():
        for x in inputs_of(rank()):
            with ddp.no_sync():
                ddp(x).sum().backward()
            ddp(x).sum().backward()
    assert len(seen) == 2 * len(inputs_of(rank()))
    for state in ddp.state_dict().values():
        assert np.array_equal(state.numpy(), average(state.numpy()).astype(state.numpy().dtype))


def check_join_that_throws() -> None:
    ddp = DistributedDataParallel(nn.Linear(3, 2))
    optimizer = rl.optim.SGD(ddp.parameters(), lr=0.01)

    def run() -> None:
        with ddp.join(throw_on_early_termination=True):
            train(ddp, inputs_of(rank()), optimizer)

    raises(RuntimeError, "exhausted", run)
    dist.barrier()


class Counter(Joinable):
    """Counts inputs over all processes, as in PyTorch's tutorial."""

    def __init__(self) -> None:
        self.total = rl.zeros(1)
        self.most = -1.0

    def count(self) -> None:
        Join.notify_join_context(self)
        one = rl.ones(1)
        dist.all_reduce(one)
        self.total += one

    def join_hook(self, **kwargs: Any) -> JoinHook:
        counter = self

        class Hook(JoinHook):
            def main_hook(self) -> None:
                dist.all_reduce(rl.zeros(1))

            def post_hook(self, is_last_joiner: bool) -> None:
                last = rl.tensor([float(rank() if is_last_joiner else -1)])
                dist.all_reduce(last, dist.ReduceOp.MAX)
                dist.broadcast(counter.total, int(last.item()))
                counter.most = counter.total.item()

        return Hook()

    join_device = rl.device("cpu")

    @property
    def join_process_group(self) -> Any:
        return dist.group.WORLD


def check_join_of_something_else() -> None:
    counter = Counter()
    with Join([counter]):
        for _ in inputs_of(rank()):
            counter.count()
    assert counter.most == sum(2 * r + 1 for r in range(size()))
    raises(ValueError, "at least one joinable", lambda: Join([]))
    with Join([counter], enable=False):
        assert Join.notify_join_context(counter) is None


def check_sampler_asks_the_group() -> None:
    sampler = DistributedSampler(range(10), shuffle=False)
    assert list(sampler)[:2] == [rank(), rank() + size()]


if __name__ == "__main__":
    run_checks(globals())
