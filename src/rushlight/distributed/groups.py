"""Groups of processes: the world, and parts of it."""

from __future__ import annotations

import atexit
import os
from datetime import timedelta
from typing import Any

from ..comm import group as comm_groups
from ..comm import mpi, pending
from ..comm.group import DEFAULT_TIMEOUT, ProcessGroup, register, registered, unregister
from ..core.steadiness import hold

__all__ = [
    "Backend",
    "GroupMember",
    "ProcessGroup",
    "destroy_process_group",
    "get_backend",
    "get_backend_config",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "split_group",
]

LAUNCH = "start the program with `rushlight launch -n {size} program.py`, or with mpiexec"


class Backend(str):
    """The name of what carries messages."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]  # noqa: RUF012

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return super().__new__(cls, name.lower())


class GroupMember:
    """The group of all processes, once there is one."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = -100


class group(GroupMember):
    """The same, by the name that programs read."""


_made = 0  # groups that were made since the world was: part of their names, the same in every process


def _backend_named(asked: str | None) -> Backend:
    """The backend of tensors on this machine: MPI, also by the name of "gloo", which is for the same tensors."""
    names = dict(part.split(":", 1) for part in (asked or "").split(",") if ":" in part)
    name = Backend(names.get("cpu", asked if not names else "") or "mpi")
    if name == "nccl" or (names and "cpu" not in names):
        raise RuntimeError(
            f"init_process_group: the backend {asked!r} is for GPUs, and tensors are on the CPU: use 'mpi' "
            "(or 'gloo', which is answered with MPI)"
        )
    if name not in ("mpi", "gloo", "fake", "undefined"):
        raise ValueError(f"init_process_group: there is no backend {asked!r}; there are 'mpi' and 'fake'")
    return Backend("mpi") if name == "undefined" else name


def _asked_size(given: int, variable: str) -> int | None:
    if given >= 0:
        return given
    value = os.environ.get(variable, "")
    return int(value) if value.lstrip("-").isdigit() else None


def _check_world(world_size: int, rank: int, size: int, own: int) -> None:
    """That arguments and environment variables, as torchrun sets them, say the same as MPI."""
    asked_size, asked_rank = _asked_size(world_size, "WORLD_SIZE"), _asked_size(rank, "RANK")
    if asked_size is not None and asked_size != size:
        raise ValueError(
            f"init_process_group: WORLD_SIZE is {asked_size}, but MPI has started {size} "
            f"process{'es' if size > 1 else ''}: {LAUNCH.format(size=asked_size)}"
        )
    if asked_rank is not None and asked_rank != own:
        raise ValueError(f"init_process_group: RANK is {asked_rank}, but this is rank {own} of MPI")


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Make the group of all processes that mpiexec (or `rushlight launch`) has started.

    `world_size` and `rank`, or WORLD_SIZE and RANK in the environment, must agree with MPI if they are given.
    Where MPI has not started this process, the group is of one process and needs no MPI.

    The backend "fake" imagines `world_size` processes, of which this is number `rank`: collectives send nothing,
    and what would come from others is what this process has. So the program of one process of many can be
    compiled and timed in one process (`rushlight.planning`).
    """
    if GroupMember.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    name = _backend_named(backend)
    if name == "fake":
        _use_world(_imagined(world_size, rank), timeout)
        return
    started = mpi.launched().get("WORLD_SIZE", 1) > 1 or (backend is not None and backend.lower() == "mpi")
    if started and mpi.is_installed():
        world = mpi.load().COMM_WORLD
        size, own = world.size, world.rank
    elif mpi.launched().get("WORLD_SIZE", 1) > 1:
        raise mpi.DistError(f"mpiexec has started this process, but mpi4py is not installed: {mpi.INSTALL}")
    else:
        size, own, world = 1, 0, None
    _check_world(world_size, rank, size, own)
    if size > 1:
        mpi.abort_on_error()
    made = ProcessGroup("0", list(range(size)), own, world.Dup() if size > 1 else None, backend=name)
    _use_world(made, timeout)


def _imagined(world_size: int, rank: int) -> ProcessGroup:
    size, own = _asked_size(world_size, "WORLD_SIZE") or 1, _asked_size(rank, "RANK") or 0
    if not 0 <= own < size:
        raise ValueError(f"init_process_group: there is no rank {own} in a world of {size} processes")
    return ProcessGroup("0", list(range(size)), own, backend="fake")


def _use_world(made: ProcessGroup, timeout: timedelta | None) -> None:
    global _made
    made.group_desc, made.timeout = "default_pg", timeout or DEFAULT_TIMEOUT
    _made = 1
    GroupMember.WORLD = group.WORLD = register(made)
    if made.size() > 1:
        hold(True)


def destroy_process_group(group: Any = None) -> None:
    """Forget a group, or all of them."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    if group is None or group is world():
        world()
        pending.drain(world().timeout.total_seconds())
        for made in registered():
            unregister(made)
        _forget()
    else:
        unregister(group)


def _forget() -> None:
    if world().size() > 1:
        hold(False)
    GroupMember.WORLD = group.WORLD = None


@atexit.register
def _at_exit() -> None:
    """Others may wait for the next step of what was begun here."""
    if GroupMember.WORLD is not None:
        pending.drain(10.0)


def world() -> ProcessGroup:
    """The group of all processes. ValueError if there is none."""
    if GroupMember.WORLD is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call init_process_group."
        )
    return GroupMember.WORLD


_get_default_group = world


def _resolve_process_group(name: str) -> ProcessGroup:
    return comm_groups.resolve(name)


def member(group: Any) -> ProcessGroup | None:
    """The group that an argument `group` means: the world for None. None in a process that is not in it."""
    default = world()
    if group is None:
        return default
    if isinstance(group, ProcessGroup):
        if group.destroyed:
            raise ValueError(f"Invalid process group specified: {group} has been destroyed")
        return group
    if isinstance(group, str):
        return comm_groups.resolve(group)
    if group == GroupMember.NON_GROUP_MEMBER:
        return None
    raise TypeError(f"a process group is what new_group gives, not {type(group).__name__}")


def is_initialized() -> bool:
    return GroupMember.WORLD is not None


def is_available() -> bool:
    """Whether several processes can work together: mpi4py is installed."""
    return mpi.is_installed()


def is_mpi_available() -> bool:
    return mpi.is_installed()


def is_gloo_available() -> bool:
    """Whether `init_process_group("gloo")` works for several processes; MPI answers it."""
    return mpi.is_installed()


def is_nccl_available() -> bool:
    return False


def is_ucc_available() -> bool:
    return False


def is_xccl_available() -> bool:
    return False


def is_backend_available(backend: str) -> bool:
    return backend.lower() == "fake" or (backend.lower() in ("mpi", "gloo") and mpi.is_installed())


def is_torchelastic_launched() -> bool:
    """Whether torchrun has started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_rank(group: Any = None) -> int:
    """This process's number in `group`, -1 if it is not in it."""
    found = member(group)
    return -1 if found is None else found.rank()


def get_world_size(group: Any = None) -> int:
    found = member(group)
    return -1 if found is None else found.size()


def get_backend(group: Any = None) -> Backend:
    found = member(group)
    if found is None:
        raise ValueError("Invalid process group specified")
    return Backend(found.backend)


def get_backend_config(group: Any = None) -> str:
    return f"cpu:{get_backend(group)}"


def get_default_backend_for_device(device: Any) -> str:
    return "mpi"


def get_pg_count() -> int:
    """The number of groups that this process is in."""
    return len(registered())


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The numbers in the world of the processes of `group`."""
    found = member(group)
    if found is None:
        raise ValueError("this process is not in the group")
    return list(found.ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    ranks = get_process_group_ranks(group)
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    ranks = get_process_group_ranks(group)
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if "LOCAL_RANK" in mpi.launched():
        return mpi.launched()["LOCAL_RANK"]
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work"
    )


def new_group(
    ranks: list[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of the processes `ranks` of the world (all of them, if None). Every process of the world calls
    this; those that are not in the group get `GroupMember.NON_GROUP_MEMBER`."""
    global _made
    whole = world()
    name = whole.backend if backend is None else _backend_named(backend)
    ranks = list(range(whole.size())) if ranks is None else sorted(ranks)
    if len(set(ranks)) != len(ranks):
        raise ValueError(f"new_group: the ranks {ranks} have one of them twice")
    if any(not 0 <= rank < whole.size() for rank in ranks):
        raise ValueError(f"new_group: the ranks {ranks} are not all in a world of {whole.size()} processes")
    label = str(_made)
    _made += 1
    if whole.rank() not in ranks:
        return GroupMember.NON_GROUP_MEMBER
    return _part(whole, ranks, label, timeout, name, group_desc)


def _part(
    parent: ProcessGroup,
    ranks: list[int],
    name: str,
    timeout: timedelta | None,
    backend: str,
    desc: str | None,
) -> ProcessGroup:
    """The group of the processes `ranks` of `parent`, this one among them; only they take part. `name` ends
    in the number of the group among those of its parent."""
    comm = None
    if len(ranks) > 1 and parent.comm is not None:
        chosen = parent.comm.Get_group().Incl(ranks)
        comm = parent.comm.Create_group(chosen, int(name.rpartition("/")[2]) % 32_000)
        chosen.Free()
    numbers = [parent.ranks[rank] for rank in ranks]
    made = ProcessGroup(name, numbers, ranks.index(parent.rank()), comm, backend=backend, desc=desc or "")
    made.timeout = timeout or parent.timeout
    return register(made)


def split_group(
    parent_pg: Any = None,
    split_ranks: list[list[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> Any:
    """The part of `parent_pg` that this process is in: `split_ranks` are lists of ranks of the parent. None in a
    process that is in none of them."""
    parent = member(parent_pg)
    if not split_ranks or not all(split_ranks):
        raise ValueError("split_ranks cannot be None or empty")
    if parent is None:
        raise ValueError("split_group: this process is not in the parent group")
    listed = [rank for part in split_ranks for rank in part]
    if len(set(listed)) != len(listed) or any(not 0 <= rank < parent.size() for rank in listed):
        raise ValueError(f"split_group: {split_ranks} are not separate parts of {parent.size()} ranks")
    own = next((part for part in split_ranks if parent.rank() in part), None)
    parent.splits += 1
    if own is None:
        return None
    name = f"{parent.group_name}/{parent.splits}"
    return _part(parent, own, name, timeout, parent.backend, group_desc)


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """The world in groups of `group_size` neighbours (the processes of one machine, if None)."""
    size = get_world_size()
    group_size = mpi.launched().get("LOCAL_WORLD_SIZE", size) if group_size is None else group_size
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})")
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by 'group_size={group_size}'")
    parts = [list(range(first, first + group_size)) for first in range(0, size, group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: list[list[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """A group of each list of ranks: the one that this process is in (or None), and all of them."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    listed = [rank for part in ranks_per_subgroup_list for rank in part]
    if len(set(listed)) != len(listed):
        raise ValueError(f"new_subgroups_by_enumeration: {ranks_per_subgroup_list} have a rank twice")
    groups = [
        new_group(part, timeout, backend, pg_options, False, group_desc) for part in ranks_per_subgroup_list
    ]
    own = next((made for made in groups if isinstance(made, ProcessGroup)), None)
    return own, groups
