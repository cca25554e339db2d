"""`rushlight plan-parallel`: step time and memory of training on meshes of processes that need not exist."""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rushlight.cli.main import UsageError
from rushlight.planning import Network, Plan, compared, plan_parallel, table
from rushlight.planning.plan import CALLS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "program",
        metavar="FILE[:FUNCTION]",
        help="a Python file with a function of a DeviceMesh (default: build) that gives a RankProgram: model, "
        "optimizer, step and inputs of one process",
    )
    parser.add_argument(
        "--mesh",
        action="append",
        required=True,
        metavar="NAME=SIZE,...",
        help="the dimensions of a mesh, as the function names them: data=64, shard=8,tensor=4, or data=8..1024 "
        "for all powers of two in between; several times for several meshes",
    )
    parser.add_argument("--latency", help="of a message: 2us (the default)")
    parser.add_argument("--bandwidth", help="of a process: 100Gbit/s (the default), 12.5GB/s")
    parser.add_argument("--overhead", help="of the processor for each message: 0.5us (the default)")
    parser.add_argument(
        "--shared-memory",
        action="store_true",
        help="the processor moves the bytes, and computes nothing meanwhile",
    )
    parser.add_argument(
        "--network",
        metavar="FILE",
        help="all of these, as `rushlight launch -n N -m rushlight.planning.calibrate FILE` has measured them",
    )
    parser.add_argument(
        "--ranks-per-node",
        type=int,
        default=1,
        metavar="N",
        help="kernels are measured while as many processes compute (default: 1)",
    )
    parser.add_argument("--calls", type=int, default=CALLS, help=f"that are measured (default: {CALLS})")
    parser.add_argument(
        "--details", action="store_true", help="tell the collectives and the memory of each, too"
    )
    parser.add_argument("--busy", action="store_true", help=argparse.SUPPRESS)  # a process that only computes


def run(options: argparse.Namespace) -> int:
    if options.calls < 1 or options.ranks_per_node < 1:
        raise UsageError("--calls and --ranks-per-node are at least 1")
    build = function_of(options.program)
    meshes = [mesh for text in options.mesh for mesh in meshes_of(text)]
    network = _network(options)
    if options.busy:
        return _compute_until_told(build, meshes[0])
    plans: list[Plan] = []
    for mesh in meshes:
        with neighbours(options, mesh):
            plans.append(plan_parallel(build, mesh, network, calls=options.calls))
        if options.details:
            print(plans[-1], end="\n\n", flush=True)
        elif len(meshes) > 1:
            print(f"{len(plans)} of {len(meshes)}: {_line(plans[-1])}", file=sys.stderr, flush=True)
    if not options.details:
        print(f"network: {network}\n\n{table(compared(plans))}")
    return 0


def _line(plan: Plan) -> str:
    mesh = ",".join(f"{name}={size}" for name, size in plan.mesh.items())
    return f"{mesh}: {1e3 * plan.step:.2f} ms a step, {plan.memory.total / 1e6:.0f} MB"


def function_of(text: str) -> Callable[[Any], Any]:
    """The function of a mesh that an argument names."""
    name, _, function = text.partition(":")
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"there is no file {name!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    found = getattr(module, function or "build", None)
    if not callable(found):
        raise UsageError(f"{name} has no function {function or 'build'!r}")
    return found


def meshes_of(text: str) -> list[dict[str, int]]:
    """The meshes that a text means: one, or one for each power of two of a range.

    >>> from rushlight.cli.plan_parallel import meshes_of
    >>> meshes_of("shard=2..8,tensor=4")
    [{'shard': 2, 'tensor': 4}, {'shard': 4, 'tensor': 4}, {'shard': 8, 'tensor': 4}]
    """
    found: list[dict[str, int]] = [{}]
    for part in text.split(","):
        name, _, size = part.partition("=")
        first, _, last = size.partition("..")
        if not name.strip() or not first.isdigit() or not (last or first).isdigit() or int(first) < 1:
            raise UsageError(f"a mesh is NAME=SIZE,... or NAME=FIRST..LAST, not {text!r}")
        begin, end = int(first), int(last or first)
        if end < begin:
            raise UsageError(f"{part!r}: the last size is less than the first")
        sizes = [begin << k for k in range(1 + int(math.log2(end // begin)))]
        found = [{**mesh, name.strip(): size} for mesh in found for size in sizes]
    return found


def _network(options: argparse.Namespace) -> Network:
    given = {name: getattr(options, name) for name in ("latency", "bandwidth", "overhead")}
    try:
        if options.network is None:
            return Network.parse(**given, offload=not options.shared_memory)
        if any(given.values()) or options.shared_memory:
            raise UsageError("--network tells all of the network")
        return Network.load(options.network)
    except (ValueError, OSError, TypeError) as error:
        raise UsageError(str(error)) from error


# Processes that compute beside the one that measures.


@contextmanager
def neighbours(options: argparse.Namespace, mesh: dict[str, int]) -> Iterator[None]:
    """As many processes as a node has besides this one, each of which trains until the block ends."""
    text = ",".join(f"{name}={size}" for name, size in mesh.items())
    command = [sys.executable, "-m", "rushlight", "plan-parallel", options.program, "--mesh", text, "--busy"]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ))
        for _ in range(options.ranks_per_node - 1)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            if process.stdout.readline().strip() != b"computing":
                raise RuntimeError("a process that computes beside this one has failed")
        yield
    finally:
        for process in started:
            process.kill()
            process.communicate()


def _compute_until_told(build: Callable[[Any], Any], mesh: dict[str, int]) -> int:
    """Train, and say when that has begun. Whoever started this process ends it."""
    import rushlight as rl
    from rushlight import distributed as dist

    dist.init_process_group("fake", rank=0, world_size=math.prod(mesh.values()))
    made = dist.init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))
    _, _, step, inputs = build(made)
    compiled = rl.compile(getattr(step, "function", step), fullgraph=True)
    for _ in range(3):
        compiled(*inputs)
    print("computing", flush=True)
    while os.getppid() != 1:
        compiled(*inputs)
    return 0
