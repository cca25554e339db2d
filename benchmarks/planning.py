"""Predictions of `rushlight plan-parallel` against runs here, in 2 and 4 processes of one thread each.

    python benchmarks/planning.py [--ranks 2] [--ranks 4] [--meshes data shard tensor]

For each number of processes: the network between them is measured, then the steps of the GPT of
examples/parallel_gpt.py are predicted, each with as many processes computing beside it as a node has, and then
they are run. Times are medians. A machine with fewer cores than processes is shared by them in both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "parallel_gpt.py"
THREADS = dict.fromkeys(("RUSHLIGHT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
MESHES = {
    2: {"data": "data=2", "shard": "shard=2", "tensor": "tensor=2"},
    4: {"data": "data=4", "shard": "shard=4", "tensor": "tensor=4", "both": "shard=2,tensor=2"},
}
CALLS = 40


def launched(ranks: int, *command: str) -> str:
    mpiexec = Path(sys.executable).with_name("mpiexec")
    start = [str(mpiexec) if mpiexec.exists() else "mpiexec", "-n", str(ranks), sys.executable, *command]
    done = subprocess.run(start, env={**os.environ, **THREADS}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return done.stdout


def predicted(ranks: int, mesh: str, network: Path) -> dict[str, float]:
    """What is predicted, in a process of its own without process groups."""
    command = [sys.executable, __file__, "--predict", mesh, "--network", str(network)]
    command += ["--processes", str(ranks)]
    done = subprocess.run(command, env={**os.environ, **THREADS}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def predict(options: argparse.Namespace) -> None:
    from rushlight.cli import plan_parallel as command
    from rushlight.planning import Network, plan_parallel

    given = argparse.Namespace(program=str(EXAMPLE), ranks_per_node=options.processes)
    (mesh,) = command.meshes_of(options.predict)
    with command.neighbours(given, mesh):
        build = command.function_of(str(EXAMPLE))
        plan = plan_parallel(build, mesh, Network.load(options.network), calls=CALLS)
    print(json.dumps({"step": plan.step, "compute": plan.compute, "kept": plan.memory.kept}))


def run(mesh_text: str) -> None:
    """In a rank: the median of steps that all processes begin together, the slowest process's."""
    import rushlight as rl
    import rushlight.distributed as dist
    from rushlight.cli import plan_parallel as command
    from rushlight.planning.plan import local_bytes

    dist.init_process_group("mpi")
    (sizes,) = command.meshes_of(mesh_text)
    mesh = dist.init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    model, optimizer, step, inputs = command.function_of(str(EXAMPLE))(mesh)
    compiled = rl.compile(step, fullgraph=True)
    for _ in range(4):
        compiled(*inputs)
    times = []
    for _ in range(CALLS):
        dist.barrier()
        begin = time.perf_counter()
        compiled(*inputs)
        times.append(time.perf_counter() - begin)
    slowest = rl.tensor([statistics.median(times)], dtype=rl.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    tensors = [*model.parameters(), *(p.grad for p in model.parameters() if p.grad is not None)]
    tensors += [v for state in optimizer.state.values() for v in state.values() if isinstance(v, rl.Tensor)]
    if dist.get_rank() == 0:
        print(json.dumps({"step": float(slowest), "kept": sum(map(local_bytes, tensors))}), flush=True)
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, action="append", choices=(2, 4))
    parser.add_argument("--meshes", nargs="+", default=["data", "shard", "tensor", "both"])
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--predict", help=argparse.SUPPRESS)
    parser.add_argument("--network", help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(options.run)
        return 0
    if options.predict:
        predict(options)
        return 0
    print(
        "| mesh | predicted step | measured step | predicted / measured | kept, predicted | kept, measured |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for ranks in options.ranks or (2, 4):
        with tempfile.TemporaryDirectory() as directory:
            network = Path(directory) / "network.json"
            launched(ranks, "-m", "rushlight.planning.calibrate", str(network))
            for name, mesh in MESHES[ranks].items():
                if name not in options.meshes:
                    continue
                plan = predicted(ranks, mesh, network)
                found = json.loads(launched(ranks, __file__, "--run", mesh))
                ratio = plan["step"] / found["step"]
                kept = [f"{each['kept'] / 1e6:.2f} MB" for each in (plan, found)]
                print(
                    f"| {mesh} | {1e3 * plan['step']:.2f} ms | {1e3 * found['step']:.2f} ms | {ratio:.2f} | "
                    f"{kept[0]} | {kept[1]} |",
                    flush=True,
                )
            print(f"network of {ranks}: {network.read_text()}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
