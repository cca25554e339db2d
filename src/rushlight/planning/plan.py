"""Step time and memory of one process of a mesh."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, NamedTuple

from .. import distributed as dist
from ..core.tensor import Tensor
from ..runtime.peaks import peaks
from .network import Network
from .simulate import Compute, Item, simulate
from .timeline import Collective, Timeline, share_times, timeline_of

CALLS = 15


class RankProgram(NamedTuple):
    """What `build(mesh)` gives: the model and the optimizer as one process has them, the step, which is a
    function that trains on `inputs` and gives the loss without history, and what it is called with.

    >>> from rushlight.planning import RankProgram
    >>> model = nn.Linear(2, 2)
    >>> optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
    >>> RankProgram(model, optimizer, lambda x: model(x).sum().detach(), (rl.ones(1, 2),))._fields
    ('model', 'optimizer', 'step', 'inputs')
    """

    model: Any
    optimizer: Any
    step: Callable[..., Any]
    inputs: tuple[Any, ...]


@dataclass(frozen=True)
class Memory:
    """Bytes in one process, after a step: `workspace` are activations and all else that lives only inside the
    compiled step, `messages` what collectives hold while they are under way.

    >>> from rushlight.planning import Memory
    >>> memory = Memory(parameters=4, gradients=4, states=8, buffers=0, workspace=100, messages=4)
    >>> memory.kept, memory.total
    (16, 120)
    """

    parameters: int
    gradients: int
    states: int
    buffers: int
    workspace: int
    messages: int

    @property
    def total(self) -> int:
        return sum(astuple(self))

    @property
    def kept(self) -> int:
        """Parameters, gradients and states of the optimizer."""
        return self.parameters + self.gradients + self.states


@dataclass(frozen=True)
class Plan:
    """What is predicted for one process of a mesh. Times are in seconds of one step.

    `step` is the whole; `compute` are kernels and what a call takes besides the compiled program; `communication`
    are collectives, if nothing were computed meanwhile, and `exposed` what is left of them if it is.

    >>> from rushlight.planning import Network, Plan, RankProgram, plan_parallel
    >>> def build(mesh):
    ...     model = nn.Linear(2, 2)
    ...     optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
    ...     return RankProgram(model, optimizer, lambda x: model(x).sum().detach(), (rl.ones(1, 2),))
    >>> plan = plan_parallel(build, {"data": 2}, Network(), calls=1)
    >>> isinstance(plan, Plan), plan.ranks, plan.exposed, plan.step == plan.compute
    (True, 2, 0.0, True)
    """

    mesh: dict[str, int]
    network: Network
    step: float
    compute: float
    communication: float
    memory: Memory
    collectives: list[Collective]
    timeline: Timeline = field(repr=False)
    bandwidth_of_memory: float = field(repr=False, default=0.0)

    @property
    def ranks(self) -> int:
        return math.prod(self.mesh.values())

    @property
    def exposed(self) -> float:
        """Communication that nothing is computed during."""
        return self.step - self.compute

    @property
    def sent(self) -> int:
        """Bytes that a process sends in a step."""
        return sum(each.cost.bytes for each in self.collectives)

    def on(self, network: Network) -> Plan:
        """The same program on another network; nothing is measured again."""
        return planned(self.mesh, network, self.timeline, self.memory, self.bandwidth_of_memory)

    def __str__(self) -> str:
        lines = [table([self]), f"network: {self.network}", "collectives:"]
        kinds: dict[tuple[str, int], list[tuple[Collective, float]]] = {}
        for each, window in zip(self.collectives, self.timeline.windows(), strict=True):
            kinds.setdefault((each.name, each.ranks), []).append((each, window))
        for (name, ranks), found in kinds.items():
            messages, sent = (sum(getattr(c.cost, what) for c, _ in found) for what in ("messages", "bytes"))
            lines.append(
                f"  {len(found):4} {name} of {ranks} ranks: {sum(c.size for c, _ in found):,} bytes of results, "
                f"{messages:,} messages, {sent:,} bytes sent, "
                f"{1e3 * sum(window for _, window in found):.2f} ms of computation meanwhile"
            )
        kept = self.memory
        lines.append(
            f"memory: parameters {_size(kept.parameters)}, gradients {_size(kept.gradients)}, states "
            f"{_size(kept.states)}, buffers {_size(kept.buffers)}, workspace {_size(kept.workspace)}, messages "
            f"{_size(kept.messages)}"
        )
        return "\n".join(lines)


def plan_parallel(
    build: Callable[[Any], RankProgram],
    mesh: Mapping[str, int],
    network: Network | None = None,
    *,
    calls: int = CALLS,
) -> Plan:
    """Predict the step time and the memory of one process of a mesh that need not exist.

    `build(mesh)` is given a DeviceMesh with the sizes of `mesh` and makes what a process of it has, as the
    training program does. Its collectives do nothing while the kernels of its compiled step are measured, here
    and now, with as many threads as this process has; then they are put on the `network`. There must be no
    process group, since an imagined one is made.

    >>> from rushlight.planning import Network, RankProgram, plan_parallel
    >>> def build(mesh):
    ...     model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64), device_mesh=mesh)
    ...     optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
    ...     def step(x):
    ...         optimizer.zero_grad()
    ...         loss = model(x).square().mean()
    ...         loss.backward()
    ...         optimizer.step()
    ...         return loss.detach()
    ...     return RankProgram(model, optimizer, step, (rl.ones(8, 64),))
    >>> plan = plan_parallel(build, {"data": 1024}, Network(latency=2e-6, bandwidth=12.5e9))
    >>> plan.memory.parameters, [(c.name, c.ranks, c.size) for c in plan.collectives]
    (16640, [('all_reduce', 1024, 16640)])
    """
    if dist.is_initialized():
        raise RuntimeError("plan_parallel: there is a process group; plan in a process that has none")
    sizes = {str(name): int(size) for name, size in mesh.items()}
    if not sizes or min(sizes.values()) < 1:
        raise ValueError(f"plan_parallel: a mesh has dimensions of at least one process, not {dict(mesh)}")
    dist.init_process_group("fake", rank=0, world_size=math.prod(sizes.values()))
    try:
        made = dist.init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
        program = RankProgram(*build(made))
        timeline = timeline_of(program.step, program.inputs, calls)
        memory = memory_of(program.model, program.optimizer, timeline)
    finally:
        dist.destroy_process_group()
    return planned(sizes, network or Network(), timeline, memory, peaks().memory_of_one)


def planned(
    mesh: Mapping[str, int], network: Network, timeline: Timeline, memory: Memory, rate: float
) -> Plan:
    """What a timeline comes to on a network, if a thread reads and writes `rate` bytes of memory a second."""
    alone: list[Item] = [item for item in timeline.items if not isinstance(item, Compute)]
    return Plan(
        dict(mesh),
        network,
        simulate(timeline.items, network, rate) + timeline.outside,
        timeline.compute + timeline.outside,
        simulate(alone, network, rate),
        memory,
        timeline.collectives,
        timeline,
        rate,
    )


def compared(plans: Sequence[Plan]) -> list[Plan]:
    """The plans, where kernels that do the same work take the same time: the median of what was measured.

    >>> from rushlight.planning import compared
    >>> compared([])
    []
    """
    timelines = share_times([plan.timeline for plan in plans])
    return [
        planned(plan.mesh, plan.network, timeline, plan.memory, plan.bandwidth_of_memory)
        for plan, timeline in zip(plans, timelines, strict=True)
    ]


def memory_of(model: Any, optimizer: Any, timeline: Timeline) -> Memory:
    """What this process holds."""
    parameters = list(model.parameters())
    states = [v for state in optimizer.state.values() for v in state.values() if isinstance(v, Tensor)]
    return Memory(
        sum(map(local_bytes, parameters)),
        sum(local_bytes(p.grad) for p in parameters if p.grad is not None),
        sum(map(local_bytes, states)),
        sum(map(local_bytes, model.buffers())),
        timeline.workspace,
        sum(each.cost.scratch for each in timeline.collectives),
    )


def local_bytes(tensor: Any) -> int:
    """Of a tensor, or of the piece of a distributed one that is here."""
    local = getattr(tensor, "_local_tensor", tensor)
    return int(local.numel() * local.dtype.itemsize)


_HEAD = (
    "mesh",
    "ranks",
    "step",
    "compute",
    "communication",
    "exposed",
    "sent",
    "kept",
    "workspace",
    "in all",
)


def table(plans: Sequence[Plan]) -> str:
    """Plans, one a line, as a table of Markdown. `kept` are parameters, gradients and states of one process.

    >>> from rushlight.planning import table
    >>> table([]).splitlines()[0][:24]
    '| mesh | ranks | step | '
    """
    rows: list[tuple[str, ...]] = [_HEAD]
    for plan in plans:
        memory = plan.memory
        times = (plan.step, plan.compute, plan.communication, plan.exposed)
        sizes = (plan.sent, memory.kept, memory.workspace, memory.total)
        mesh = " x ".join(f"{name}={size}" for name, size in plan.mesh.items())
        rows.append((mesh, str(plan.ranks), *(f"{1e3 * t:.2f} ms" for t in times), *map(_size, sizes)))
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(lines)


def _size(count: float) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.2f} MB"
