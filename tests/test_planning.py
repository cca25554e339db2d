"""Predictions for processes that do not exist: messages, memory and times of a program on a network."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.distributed as dist
from rushlight import nn
from rushlight.cli.main import main
from rushlight.cli.plan_parallel import UsageError, meshes_of
from rushlight.comm import rounds
from rushlight.comm.exchange import SMALL
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.planning import Network, RankProgram, compared, plan_parallel, table
from rushlight.planning.costs import Cost, Round, all_gather_rounds, broadcast_rounds, cost_of
from rushlight.planning.network import bytes_per_second, seconds
from rushlight.planning.simulate import Begin, Compute, Copy, Progress, Wait, simulate
from rushlight.planning.timeline import Timeline, share_times

WIDTH, ROWS = 96, 8
PARAMETERS = 2 * (WIDTH * WIDTH + WIDTH)  # of the model below
NETWORK = Network(latency=1e-3, bandwidth=1e6, overhead=0.0)
MEMORY = 1e12  # so fast that copies take no time


@pytest.fixture(autouse=True)
def no_group() -> Any:
    assert not dist.is_initialized()
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def mlp() -> Any:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))


def program_of(model: Any) -> RankProgram:
    optimizer = rl.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return RankProgram(model, optimizer, step, (rl.ones(ROWS, WIDTH),))


def data_parallel(mesh: Any) -> RankProgram:
    return program_of(DistributedDataParallel(mlp(), device_mesh=mesh))


def sharded(mesh: Any) -> RankProgram:
    return program_of(fully_shard(mlp(), mesh=mesh))


def tensor_parallel(mesh: Any) -> RankProgram:
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return program_of(parallelize_module(mlp(), mesh, plan))


# Programs of one process.


@pytest.mark.parametrize("ranks", [2, 3, 8, 1024])
def test_messages_of_data_parallel_steps(ranks: int) -> None:
    plan = plan_parallel(data_parallel, {"data": ranks}, calls=2)
    (only,) = plan.collectives
    size = 4 * PARAMETERS
    assert (only.name, only.ranks, only.size) == ("all_reduce", ranks, size)
    assert size * ranks > SMALL  # in two rounds: everybody's share to everybody
    share = size // 4 // ranks * 4  # of rank 0, which has the least
    assert only.cost.bytes == (size - share) + max(size - share, (ranks - 1) * share)
    assert only.cost.messages == 4 * (ranks - 1)
    assert plan.memory.parameters == plan.memory.gradients == size
    assert plan.memory.states == 2 * size + 4 * 4  # and the number of steps, for each parameter
    assert plan.memory.messages == only.cost.scratch >= ranks * share
    assert plan.memory.workspace > 0 and plan.memory.total > 5 * size
    assert plan.step >= plan.compute > 0 and plan.communication > 0
    assert plan.ranks == ranks and str(ranks) in table([plan])


@pytest.mark.parametrize("ranks", [2, 4, 32])
def test_memory_and_messages_of_sharded_steps(ranks: int) -> None:
    """All sizes are divisible: each process has exactly its share."""
    plan = plan_parallel(sharded, {"shard": ranks}, calls=2)
    size = 4 * PARAMETERS
    assert plan.memory.parameters * ranks == plan.memory.gradients * ranks == size
    assert plan.memory.states == 2 * size // ranks + 4 * 4
    kinds = [(each.name, each.size, each.cost.bytes) for each in plan.collectives]
    moved = size - size // ranks
    assert kinds == [
        ("all_gather_into_tensor", size, moved), ("reduce_scatter_tensor", size // ranks, moved),
    ]  # fmt: skip


def test_tensor_parallel_steps_have_their_own_kernels() -> None:
    whole, half = (plan_parallel(tensor_parallel, {"tensor": n}, calls=2) for n in (1, 2))
    biases = WIDTH // 2 + WIDTH  # of the first layer a half, of the second the whole
    assert half.memory.parameters == 4 * (WIDTH * WIDTH + biases)
    assert whole.memory.parameters == 4 * PARAMETERS and not whole.collectives
    assert [(c.name, c.size) for c in half.collectives] == [("all_reduce", 4 * ROWS * WIDTH)]
    assert whole.step == whole.compute and half.step > half.compute


def test_meshes_of_two_dimensions() -> None:
    def build(mesh: Any) -> RankProgram:
        assert mesh.shape == (4, 2) and mesh.mesh_dim_names == ("shard", "tensor")
        plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        model = parallelize_module(mlp(), mesh["tensor"], plan)
        return program_of(fully_shard(model, mesh=mesh["shard"]))

    plan = plan_parallel(build, {"shard": 4, "tensor": 2}, calls=2)
    assert plan.memory.parameters == 4 * (WIDTH * WIDTH + WIDTH // 2 + WIDTH) // 4
    assert {(c.name, c.ranks) for c in plan.collectives} == {
        ("all_gather_into_tensor", 4), ("reduce_scatter_tensor", 4), ("all_reduce", 2),
    }  # fmt: skip


def test_a_plan_on_other_networks() -> None:
    plan = plan_parallel(data_parallel, {"data": 64}, Network(), calls=2)
    slow = plan.on(Network(latency=1e-3, bandwidth=1e6))
    assert slow.step > plan.step and slow.compute == plan.compute
    times = [plan.on(Network(bandwidth=10.0**k)).step for k in range(6, 12)]
    assert times == sorted(times, reverse=True)
    times = [plan.on(Network(latency=10.0**-k)).step for k in range(2, 8)]
    assert times == sorted(times, reverse=True)
    times = [plan.on(Network(overhead=10.0**-k)).step for k in range(3, 8)]
    assert times == sorted(times, reverse=True)
    assert plan.on(Network(offload=False)).step >= plan.step
    assert "all_reduce of 64 ranks" in str(plan)


def test_more_processes_send_no_less() -> None:
    plans = [plan_parallel(data_parallel, {"data": n}, NETWORK, calls=2) for n in (2, 8, 64)]
    assert [p.sent for p in plans] == sorted(p.sent for p in plans)
    assert [p.communication for p in plans] == sorted(p.communication for p in plans)


def test_kernels_that_are_compared_take_the_same_time() -> None:
    plans = [plan_parallel(data_parallel, {"data": n}, NETWORK, calls=2) for n in (2, 8, 64)]
    plans.append(plan_parallel(tensor_parallel, {"tensor": 2}, NETWORK, calls=2))
    found = compared(plans)
    times = [plan.timeline.compute for plan in plans]
    assert len({plan.timeline.compute for plan in found[:3]}) == 1  # the same kernels
    assert min(times[:3]) <= found[0].timeline.compute <= max(times[:3])
    for before, after in zip(plans, found, strict=True):
        assert (before.mesh, before.memory, before.sent) == (after.mesh, after.memory, after.sent)
        assert len(before.timeline.items) == len(after.timeline.items)
        assert after.step >= after.compute >= after.timeline.compute > 0
    assert found[3].timeline.compute != found[0].timeline.compute  # half of each product


def test_launches_of_the_same_work_are_counted() -> None:
    """The second launch of a kind is compared with the second one of the other program."""
    one, other = ((1, 10),), ((2, 20),)
    first = Timeline([Compute(1.0, one), Compute(2.0, other), Compute(3.0, one)], [], 0.5, 0)
    second = Timeline(
        [Compute(3.0, one), Progress(), Compute(7.0, one), Compute(9.0, ((3, 30),))], [], 0.1, 0
    )
    found = share_times([first, second])
    assert found[0].items == [Compute(2.0, one), Compute(2.0, other), Compute(5.0, one)]
    assert found[1].items == [Compute(2.0, one), Progress(), Compute(5.0, one), Compute(9.0, ((3, 30),))]
    assert [each.outside for each in found] == [0.5, 0.1]


def test_what_cannot_be_planned() -> None:
    with pytest.raises(ValueError, match="at least one process"):
        plan_parallel(data_parallel, {"data": 0})
    with pytest.raises(ValueError, match="at least one process"):
        plan_parallel(data_parallel, {})

    def broken(mesh: Any) -> RankProgram:
        program = data_parallel(mesh)

        def step(x: rl.Tensor) -> rl.Tensor:
            print(program.step(x).item())
            return x

        return program._replace(step=step)

    with pytest.raises(rl._dynamo.exc.Unsupported):
        plan_parallel(broken, {"data": 2}, calls=1)

    def with_history(mesh: Any) -> RankProgram:
        program = data_parallel(mesh)
        return program._replace(step=lambda x: program.model(x).sum())

    with pytest.raises(RuntimeError, match="requires grad"):
        plan_parallel(with_history, {"data": 2}, calls=1)
    assert not dist.is_initialized()  # whatever happened
    dist.init_process_group("fake", rank=0, world_size=2)
    with pytest.raises(RuntimeError, match="there is a process group"):
        plan_parallel(data_parallel, {"data": 2})


# Costs.


def test_all_reduce_as_comm_sends_it() -> None:
    def cost(size: int, elements: int) -> Cost:
        values = rounds.Values(elements, 4, 1)
        return cost_of(rounds.all_reduce(size, 0, values, rounds.Place(1)), size, 4)

    large = cost(4, 1 << 20)
    assert large.rounds == (
        Round(
            6, 3 << 20, 5 << 20
        ),  # three quarters are sent; four parts of a quarter are read, one is written
        Round(6, 3 << 20, 0),
    )
    small = cost(4, 1024)  # everybody gets everything, by doubling
    assert [each.bytes for each in small.rounds] == [0, 4096, 8192]
    assert small.rounds[-1].touched == 5 * 4096


def test_algorithms_of_mpi() -> None:
    """What is received in all is what was to be received."""
    for size in (2, 3, 4, 7, 8, 100, 1024):
        for part in (1, 1000, 1_000_000):
            found = all_gather_rounds(size, part)
            assert sum(each.bytes for each in found) == (size - 1) * part
            assert len(found) in ((size - 1).bit_length(), size - 1)
    assert len(all_gather_rounds(1024, 1)) == 10 and len(all_gather_rounds(1024, 1_000_000)) == 1023
    assert broadcast_rounds(1, 5) == [] and broadcast_rounds(5, 100) == [Round(2, 100)] * 3
    large = broadcast_rounds(64, 1 << 20)
    assert sum(each.bytes for each in large) < 2.1 * (1 << 20) < 6 * (1 << 20)


# Time.


def cost(*rounds: Round) -> Cost:
    return Cost(rounds, 0)


def test_what_is_computed_meanwhile_is_free() -> None:
    sent = cost(Round(2, 1000))  # 1 ms of latency and 1 ms on the wire
    for computed, expected in ((0.0, 2e-3), (1e-3, 2e-3), (5e-3, 5e-3)):
        items = [Begin(sent), Compute(computed), Wait(0)]
        assert simulate(items, NETWORK, MEMORY) == pytest.approx(expected)
    assert simulate([Begin(sent), Wait(0), Compute(5e-3)], NETWORK, MEMORY) == pytest.approx(7e-3)


def test_the_processor_moves_bytes_where_memory_is_shared() -> None:
    sent = cost(Round(2, 1000))
    network = Network(latency=1e-3, bandwidth=1e6, overhead=0.0, offload=False)
    assert simulate([Begin(sent), Compute(5e-3), Wait(0)], network, MEMORY) == pytest.approx(6e-3)


def test_rounds_go_on_when_mpi_is_called() -> None:
    sent = cost(Round(2, 0), Round(2, 0))  # two times 1 ms
    asleep = [Begin(sent), Compute(4e-3), Wait(0)]  # the second round begins when the program waits
    awake = [Begin(sent), Compute(2e-3), Progress(), Compute(2e-3), Wait(0)]
    assert simulate(asleep, NETWORK, MEMORY) == pytest.approx(5e-3)
    assert simulate(awake, NETWORK, MEMORY) == pytest.approx(4e-3)


def test_collectives_share_the_link() -> None:
    sent = cost(Round(2, 1000))
    both = [Begin(sent), Begin(sent), Wait(1), Wait(0)]
    assert simulate(both, NETWORK, MEMORY) == pytest.approx(3e-3)  # two on the wire, and one latency


def test_messages_and_copies_take_the_processor() -> None:
    network = Network(latency=0.0, bandwidth=1e12, overhead=1e-3)
    assert simulate([Begin(cost(Round(4, 0))), Wait(0)], network, MEMORY) == pytest.approx(4e-3)
    assert simulate([Copy(3000)], network, 1e6) == pytest.approx(3e-3)
    assert simulate([Begin(cost(Round(0, 0, 2000))), Wait(0)], network, 1e6) == pytest.approx(2e-3)


# Networks, and the command.


def test_units() -> None:
    assert seconds("2us") == pytest.approx(2e-6) and seconds("0.5 ms") == pytest.approx(5e-4)
    assert seconds("1e-6") == 1e-6 and seconds("3s") == 3.0
    assert bytes_per_second("100Gbit/s") == 12.5e9 and bytes_per_second("12.5GB/s") == 12.5e9
    assert bytes_per_second("1e9") == 1e9
    for wrong in ("fast", "2 miles", ""):
        with pytest.raises(ValueError, match="is no"):
            seconds(wrong)
        with pytest.raises(ValueError, match="is no"):
            bytes_per_second(wrong)
    with pytest.raises(ValueError, match="bandwidth is positive"):
        Network(bandwidth=0.0)


def test_networks_are_saved(tmp_path: Path) -> None:
    network = Network(1e-5, 1e9, 2e-7, offload=False)
    network.save(tmp_path / "network.json")
    assert Network.load(tmp_path / "network.json") == network


def test_meshes_of_the_command() -> None:
    assert meshes_of("data=8") == [{"data": 8}]
    assert meshes_of("data=8..40") == [{"data": 8}, {"data": 16}, {"data": 32}]
    assert meshes_of("shard=2..4,tensor=3") == [{"shard": 2, "tensor": 3}, {"shard": 4, "tensor": 3}]
    for wrong in ("data", "data=", "=3", "data=0", "data=8..4", "data=x..y"):
        with pytest.raises(UsageError):
            meshes_of(wrong)


BUILD = """
import rushlight as rl
from rushlight import nn
from rushlight.planning import RankProgram

def small(mesh):
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8), device_mesh=mesh)
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()
    return RankProgram(model, optimizer, step, (rl.ones(2, 8),))
"""


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program_to_plan.py"
    path.write_text(BUILD)
    Network(1e-5, 1e9).save(tmp_path / "network.json")
    network = str(tmp_path / "network.json")
    assert (
        main(["plan-parallel", f"{path}:small", "--mesh", "data=2..4", "--calls", "1", "--network", network])
        == 0
    )
    said = capsys.readouterr().out
    assert "latency 10.00 us, 1.00 GB/s" in said and "| data=2 " in said and "| data=4 " in said
    for wrong in (
        [str(path), "--mesh", "data=2"],
        [f"{path}:large", "--mesh", "data=2"],
        [str(tmp_path / "nowhere.py"), "--mesh", "data=2"],
        [f"{path}:small", "--mesh", "data=2", "--latency", "soon"],
        [f"{path}:small", "--mesh", "data=2", "--network", network, "--latency", "1us"],
    ):
        assert main(["plan-parallel", *wrong]) == 2
        assert capsys.readouterr().err.startswith("rushlight plan-parallel: ")


def test_neighbours_compute_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "program_to_plan.py"
    path.write_text(BUILD)
    command = [sys.executable, "-m", "rushlight", "plan-parallel", f"{path}:small", "--mesh", "data=2"]
    run = subprocess.run(
        [*command, "--ranks-per-node", "2", "--calls", "2", "--details"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "1 all_reduce of 2 ranks" in run.stdout


# Groups of processes that are imagined.


def test_imagined_processes_have_what_this_one_has() -> None:
    dist.init_process_group("fake", rank=1, world_size=3)
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (1, 3, "fake")
    x = rl.arange(6.0)
    dist.all_reduce(x)
    assert x.tolist() == list(range(6))
    parts = [rl.zeros(6) for _ in range(3)]
    dist.all_gather(parts, x)
    assert all(part.tolist() == x.tolist() for part in parts)
    out = rl.zeros(2)
    dist.reduce_scatter_tensor(out, x)
    assert out.tolist() == [2.0, 3.0]
    out = rl.zeros(6)
    dist.all_to_all_single(out, x)
    assert out.tolist() == x.tolist()
    dist.all_to_all_single(rl.zeros(5), x, [1, 2, 2], [2, 2, 2])
    scattered = rl.zeros(2)
    dist.scatter(scattered, None, src=0)
    assert scattered.tolist() == [0.0, 0.0]
    objects: list[Any] = [None] * 3
    dist.all_gather_object(objects, "mine")
    assert objects == ["mine"] * 3
    said = ["own"]
    dist.broadcast_object_list(said, src=0)
    assert said == ["own"]
    with pytest.raises(RuntimeError, match="imagined"):
        dist.recv_object_list([None], src=0)
    dist.send(x, 0)
    dist.barrier()
    dist.monitored_barrier()
    part = dist.new_group([0, 1])
    assert part.size() == 2 and part.comm is None
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="there is no rank"):
        dist.init_process_group("fake", rank=3, world_size=3)


def test_groups_that_were_destroyed_are_refused() -> None:
    dist.init_process_group("fake", rank=0, world_size=4)
    part = dist.new_group([0, 1])
    dist.destroy_process_group(part)
    with pytest.raises(ValueError, match="destroyed"):
        dist.all_reduce(rl.ones(2), group=part)


def test_the_example_plans_and_trains(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(__file__).parents[1] / "examples" / "parallel_gpt.py"
    spec = importlib.util.spec_from_file_location("parallel_gpt", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "parallel_gpt", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SIZES", {"small": module.Config(1, 2, 16, 8, 2, 32)})
    sizes = [{"data": 2}, {"shard": 2}, {"tensor": 2}, {"data": 2, "shard": 2}, {"shard": 2, "tensor": 2}]
    plans = [plan_parallel(module.build, mesh, calls=1) for mesh in sizes]
    kept = [plan.memory.kept for plan in plans]
    assert kept[1] < 0.6 * kept[0] and kept[3] == kept[1] and kept[4] < 0.7 * kept[1]
    monkeypatch.setattr(sys, "argv", ["parallel_gpt.py", "--steps", "5"])
    module.main()
    loss = float(capsys.readouterr().out.split()[-1])
    assert np.isfinite(loss) and loss < 5
