"""PyTorch's module of everything: the names of groups, collectives, messages and objects in one place."""

from __future__ import annotations

from ..comm.group import DEFAULT_TIMEOUT
from ..comm.mpi import DistBackendError, DistError, DistNetworkError, DistStoreError
from ..core.missing import missing_class
from . import collectives, groups, objects, point_to_point, reduce_ops
from .collectives import *  # noqa: F403
from .groups import *  # noqa: F403
from .groups import _get_default_group, _resolve_process_group, world  # noqa: F401
from .objects import *  # noqa: F403
from .objects import _object_to_tensor, _tensor_to_object  # noqa: F401
from .point_to_point import *  # noqa: F403
from .reduce_ops import *  # noqa: F403
from .reduce_ops import RedOpType, _make_nccl_premul_sum  # noqa: F401
from .work import Work

__all__ = [
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "HashStore",
    "PrefixStore",
    "Store",
    "TCPStore",
    "Work",
]
__all__ += collectives.__all__
__all__ += groups.__all__
__all__ += objects.__all__
__all__ += point_to_point.__all__
__all__ += reduce_ops.__all__

_STORE = "processes find each other through MPI; broadcast_object_list hands objects around"
Store, TCPStore, FileStore, HashStore, PrefixStore = (
    missing_class("distributed", name, _STORE)
    for name in ("Store", "TCPStore", "FileStore", "HashStore", "PrefixStore")
)
default_pg_timeout = DEFAULT_TIMEOUT
_get_process_group_name = lambda pg: pg.group_name  # noqa: E731
ALONE = "this part of torch.distributed is not built"
