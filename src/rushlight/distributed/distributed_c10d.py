"""A process group of one process, and what is said to a program that wants more.

There is no communication between processes. A group of one needs none: its collectives give each process,
which is the
only one, what it put in. `init_process_group` with a world of more than one process raises an error.
"""

from __future__ import annotations

import os
import pickle
from enum import Enum
from typing import Any

import numpy as np

from ..core.construct import from_numpy, tensor
from ..core.missing import missing_class, missing_function
from ..core.tensor import Tensor

__all__ = [
    "Backend",
    "FileStore",
    "GroupMember",
    "HashStore",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "ReduceOp",
    "Store",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_node_local_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "recv",
    "reduce",
    "reduce_op",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "send",
]

ALONE = "processes do not communicate; there is a group of one process"


class ReduceOp(Enum):
    """How values of several processes become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


reduce_op = ReduceOp
RedOpType = ReduceOp


class Backend(str):
    """The name of what carries messages."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """One process."""

    def rank(self) -> int:
        return 0

    def size(self) -> int:
        return 1

    def name(self) -> str:
        return _backend


class Work:
    """A collective that is done."""

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True


class GroupMember:
    """The group of all processes, once there is one."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = -100


class group(GroupMember):
    """The same, by the name that programs read."""


_backend = "undefined"


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Make the group of all processes, of which there is one."""
    global _backend
    if GroupMember.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice!")
    size = world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", "1"))
    if size != 1:
        raise NotImplementedError(
            f"torch.distributed.init_process_group: a group of {size} processes is not available: "
            f"{ALONE}. Run the "
            "program in one process (WORLD_SIZE=1)"
        )
    if rank not in (-1, 0):
        raise ValueError(f"init_process_group: rank {rank} of a group of one process")
    _backend = Backend(backend or "gloo")
    GroupMember.WORLD = group.WORLD = ProcessGroup()


def destroy_process_group(group: Any = None) -> None:
    world()
    if group is None or group is GroupMember.WORLD:
        _forget()


def _forget() -> None:
    global _backend
    GroupMember.WORLD = group.WORLD = None
    _backend = "undefined"


def world() -> ProcessGroup:
    """The group of all processes. ValueError if there is none."""
    if GroupMember.WORLD is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call init_process_group."
        )
    return GroupMember.WORLD


_get_default_group = world


def is_initialized() -> bool:
    return GroupMember.WORLD is not None


def is_available() -> bool:
    """Whether several processes can work together: they cannot."""
    return False


def is_nccl_available() -> bool:
    return False


def is_gloo_available() -> bool:
    return False


def is_mpi_available() -> bool:
    return False


def is_ucc_available() -> bool:
    return False


def is_xccl_available() -> bool:
    return False


def is_backend_available(backend: str) -> bool:
    return False


def is_torchelastic_launched() -> bool:
    """Whether torchrun has started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_rank(group: Any = None) -> int:
    return world().rank()


def get_world_size(group: Any = None) -> int:
    return world().size()


def get_backend(group: Any = None) -> str:
    return world().name()


def get_process_group_ranks(group: Any) -> list[int]:
    world()
    return [0]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work"
    )


def new_group(ranks: list[int] | None = None, *args: Any, **kwargs: Any) -> ProcessGroup:
    if ranks not in (None, [0]):
        raise NotImplementedError(f"torch.distributed.new_group: the ranks {ranks}: {ALONE}")
    return world()


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    return _done(async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    world()


def _done(async_op: bool) -> Work | None:
    """What a collective returns once there is a group."""
    world()
    return Work() if async_op else None


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Of one process: `tensor` stays as it is."""
    return _done(async_op)


def reduce(
    tensor: Tensor, dst: int = 0, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    return _done(async_op)


def broadcast(tensor: Tensor, src: int = 0, group: Any = None, async_op: bool = False) -> Any:
    return _done(async_op)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Any:
    done = _done(async_op)
    (target,) = tensor_list
    target.copy_(tensor)
    return done


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Any:
    done = _done(async_op)
    output_tensor.copy_(input_tensor.reshape(output_tensor.shape))
    return done


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int = 0,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    return all_gather(gather_list or [tensor], tensor, group, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int = 0,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    return all_gather([tensor], (scatter_list or [tensor])[0], group, async_op)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    return all_gather([output], input_list[0], group, async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    return all_gather_into_tensor(output, input, group, async_op)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Any:
    return all_gather(output_tensor_list, input_tensor_list[0], group, async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    world()
    object_list[0] = pickle.loads(pickle.dumps(obj))  # a copy, as of several processes


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: Any = None
) -> None:
    all_gather_object(object_gather_list if object_gather_list is not None else [None], obj)


def broadcast_object_list(
    object_list: list[Any], src: int = 0, group: Any = None, device: Any = None
) -> None:
    world()


def _object_to_tensor(obj: Any, device: Any = None, group: Any = None) -> tuple[Tensor, Tensor]:
    data = np.frombuffer(pickle.dumps(obj), np.uint8).copy()
    return from_numpy(data), tensor([data.size])


_NOBODY = "there is no other process to talk to"
send, recv, isend, irecv, batch_isend_irecv = (
    missing_function("distributed", name, _NOBODY)
    for name in ("send", "recv", "isend", "irecv", "batch_isend_irecv")
)
P2POp, Store, TCPStore, FileStore, HashStore, PrefixStore = (
    missing_class("distributed", name, ALONE)
    for name in ("P2POp", "Store", "TCPStore", "FileStore", "HashStore", "PrefixStore")
)
