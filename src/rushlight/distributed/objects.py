"""Collectives of Python objects, which travel pickled: unpickle only what processes of your own have sent."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from ..comm import exchange
from ..comm.debug import check_same
from ..comm.group import ProcessGroup
from ..comm.pending import Pending, Steps
from ..core.construct import from_numpy, tensor
from ..core.tensor import Tensor
from .collectives import _root
from .groups import member
from .point_to_point import _peer

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _pickled(obj: Any) -> np.ndarray:
    return np.frombuffer(bytearray(pickle.dumps(obj)), np.uint8)


def _unpickled(data: np.ndarray) -> Any:
    return pickle.loads(data.tobytes())


def _run(group: ProcessGroup, name: str, steps: Steps) -> None:
    Pending(f"{name} of group {group.group_name}", steps, group.timeout.total_seconds()).wait()


def _check_arrives(group: ProcessGroup, name: str) -> None:
    if group.comm is None and group.size() > 1:
        raise RuntimeError(f"{name}: no object comes from a process that is imagined (backend 'fake')")


def _sizes(group: ProcessGroup, name: str, data: np.ndarray) -> list[int]:
    """The number of bytes that each process sends."""
    sizes = np.empty(group.size(), np.int64)
    _run(
        group,
        name,
        exchange.all_gather(group, np.array([data.size]), [sizes[i : i + 1] for i in range(sizes.size)]),
    )
    return [int(n) for n in sizes]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """`object_list[i]` becomes the object of process i."""
    if (pg := member(group)) is None:
        return
    if len(object_list) < pg.size():
        raise ValueError(f"object_list has {len(object_list)} places for {pg.size()} processes")
    check_same(pg, "all_gather_object")
    data = _pickled(obj)
    parts = [np.empty(n, np.uint8) for n in _sizes(pg, "all_gather_object", data)]
    _run(pg, "all_gather_object", exchange.all_gather(pg, data, parts))
    for i, part in enumerate(parts):
        object_list[i] = _unpickled(part)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """`object_gather_list[i]` of process `dst` becomes the object of process i."""
    if (pg := member(group)) is None:
        return
    root = _root(pg, dst, group_dst)
    if (pg.rank() == root) != bool(object_gather_list):
        raise ValueError(
            "Argument ``object_gather_list`` must be specified on the destination rank, and only there."
        )
    check_same(pg, "gather_object", f"to {root}")
    data = _pickled(obj)
    sizes = _sizes(pg, "gather_object", data)
    parts = [np.empty(n, np.uint8) for n in sizes] if pg.rank() == root else []
    _run(pg, "gather_object", exchange.gather(pg, data, parts, root))
    for i, part in enumerate(parts):
        assert object_gather_list is not None
        object_gather_list[i] = _unpickled(part)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """The objects of the list become those of process `src`."""
    if (pg := member(group)) is None:
        return
    root = _root(pg, src, group_src)
    check_same(pg, "broadcast_object_list", len(object_list), f"from {root}")
    data = _pickled(list(object_list)) if pg.rank() == root else np.empty(0, np.uint8)
    size = np.array([data.size])
    _run(pg, "broadcast_object_list", exchange.broadcast(pg, size, root))
    data = data if pg.rank() == root else np.empty(int(size[0]), np.uint8)
    _run(pg, "broadcast_object_list", exchange.broadcast(pg, data, root))
    if pg.rank() != root and pg.comm is not None:
        object_list[:] = _unpickled(data)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """The first object of the output list becomes the i-th of the input list of process `src`, in process i."""
    if (pg := member(group)) is None:
        return
    root = _root(pg, src, group_src)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    parts: list[np.ndarray] = []
    if pg.rank() == root:
        if scatter_object_input_list is None or len(scatter_object_input_list) != pg.size():
            raise ValueError(
                "source rank must provide non-None scatter_object_input_list, one object per process"
            )
        parts = [_pickled(obj) for obj in scatter_object_input_list]
    check_same(pg, "scatter_object_list", f"from {root}")
    if pg.rank() != root:
        _check_arrives(pg, "scatter_object_list")
    size = np.empty(1, np.int64)
    _run(pg, "scatter_object_list", exchange.scatter(pg, [np.array([p.size]) for p in parts], size, root))
    own = np.empty(int(size[0]), np.uint8)
    _run(pg, "scatter_object_list", exchange.scatter(pg, parts, own, root))
    scatter_object_output_list[0] = _unpickled(own)


_OBJECTS = 32_766  # the tag of messages that are objects


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send the objects of the list to process `dst`."""
    if (pg := member(group)) is None:
        return
    peer = _peer(pg, dst, group_dst, "destination")
    if peer is None:
        raise ValueError("Must specify either a rank of the world or one of the group")
    data = _pickled(list(object_list))
    for part in (np.array([data.size]), data):
        _run(pg, "send_object_list", exchange.send(pg, part, peer, _OBJECTS))


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """The objects of the list become those that process `src` (or anyone) sends; returns who sent them."""
    if (pg := member(group)) is None:
        return -1
    size, came_from = np.empty(1, np.int64), [0]
    peer = _peer(pg, src, group_src, "source")
    _check_arrives(pg, "recv_object_list")
    _run(pg, "recv_object_list", exchange.receive(pg, size, peer, _OBJECTS, came_from))
    data = np.empty(int(size[0]), np.uint8)
    _run(pg, "recv_object_list", exchange.receive(pg, data, came_from[0], _OBJECTS, came_from))
    object_list[:] = _unpickled(data)
    return pg.ranks[came_from[0]]


def _object_to_tensor(obj: Any, device: Any = None, group: Any = None) -> tuple[Tensor, Tensor]:
    data = _pickled(obj)
    return from_numpy(data), tensor([data.size])


def _tensor_to_object(data: Tensor, size: Any, group: Any = None) -> Any:
    return _unpickled(data.numpy_array()[: int(size)])
