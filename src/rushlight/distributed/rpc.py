"""Calls of functions in other processes: not available."""

from ..core.missing import missing_class, missing_function
from .distributed_c10d import ALONE

__all__ = ["RRef", "init_rpc", "remote", "rpc_async", "rpc_sync", "shutdown"]

RRef = missing_class("distributed.rpc", "RRef", ALONE)
init_rpc, remote, rpc_async, rpc_sync, shutdown = (
    missing_function("distributed.rpc", name, ALONE)
    for name in ("init_rpc", "remote", "rpc_async", "rpc_sync", "shutdown")
)


def is_available() -> bool:
    return False
