"""Groups of processes, and the table of their names."""

from __future__ import annotations

import os
import weakref
from datetime import timedelta
from typing import Any

import numpy as np

from .mpi import load

DEFAULT_TIMEOUT = timedelta(minutes=30)


class ProcessGroup:
    """Processes that take part in collectives. `rank()` is this process's number in it.

    `ranks` are the numbers of its processes in the world. There is no communicator in a group of one process, nor
    in an imagined one (backend "fake"), whose other processes do not exist: nothing is sent there. The messages
    of collectives and of point-to-point calls have a communicator each and cannot be taken for each other.
    """

    def __init__(
        self,
        name: str,
        ranks: list[int],
        rank: int,
        comm: Any = None,
        *,
        backend: str = "mpi",
        desc: str = "",
    ) -> None:
        self.group_name, self.ranks, self._rank, self.backend = name, ranks, rank, backend
        self.group_desc = desc or "undefined"
        self.timeout = DEFAULT_TIMEOUT
        self.comm: Any = comm
        self.messages: Any = None if comm is None else comm.Dup()
        self._sequence = np.zeros(1, np.int64)  # counts collectives that were begun, here or by native code
        self.splits = 0  # how often it was split
        self.destroyed = False
        self.users: weakref.WeakSet[Any] = weakref.WeakSet()  # programs with its collectives

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return len(self.ranks)

    def name(self) -> str:
        return self.backend

    def next_sequence(self) -> int:
        """The number of the next collective. All processes begin them in the same order."""
        self._sequence += 1
        return self.sequence

    @property
    def sequence(self) -> int:
        """The number of the last collective that was begun."""
        return int(self._sequence[0])

    @property
    def sequence_address(self) -> int:
        """Where native code counts it."""
        return int(self._sequence.__array_interface__["data"][0])

    def free(self) -> None:
        """Give the communicators back."""
        for user in list(self.users):
            user.unlink()
        for comm in (self.comm, self.messages):
            if comm is not None and comm != load().COMM_NULL:
                comm.Free()
        self.comm = self.messages = None
        self.destroyed = True

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name}: rank {self._rank} of {self.size()}, {self.backend}>"

    def __reduce__(self) -> Any:
        return resolve, (self.group_name,)

    def __deepcopy__(self, memo: Any) -> ProcessGroup:
        return self


_groups: dict[str, ProcessGroup] = {}  # by name; the same in every process of a group


def register(group: ProcessGroup) -> ProcessGroup:
    _groups[group.group_name] = group
    return group


def unregister(group: ProcessGroup) -> None:
    _groups.pop(group.group_name, None)
    group.free()


def resolve(name: str) -> ProcessGroup:
    """The group of a name. ValueError if there is none."""
    found = _groups.get(name)
    if found is None:
        raise ValueError(f"there is no process group with the name {name!r} in this process")
    return found


def registered() -> list[ProcessGroup]:
    return list(_groups.values())


def debug_level() -> str:
    """OFF, INFO or DETAIL, as the environment says (in Rushlight's variable, or in PyTorch's)."""
    asked = (
        os.environ.get("RUSHLIGHT_DISTRIBUTED_DEBUG") or os.environ.get("TORCH_DISTRIBUTED_DEBUG") or "OFF"
    )
    if asked.upper() not in ("OFF", "INFO", "DETAIL"):
        raise RuntimeError(f"RUSHLIGHT_DISTRIBUTED_DEBUG is OFF, INFO or DETAIL, not {asked!r}")
    return asked.upper()
