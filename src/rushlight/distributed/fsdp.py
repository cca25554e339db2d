"""Training with parameters spread over processes: not available. No module is a `FullyShardedDataParallel`."""

from ..core.missing import missing_class, missing_function
from .distributed_c10d import ALONE

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "MixedPrecision",
    "ShardingStrategy",
    "StateDictType",
    "fully_shard",
]

FullyShardedDataParallel, MixedPrecision, CPUOffload, FullStateDictConfig = (
    missing_class("distributed.fsdp", name, ALONE)
    for name in ("FullyShardedDataParallel", "MixedPrecision", "CPUOffload", "FullStateDictConfig")
)
BackwardPrefetch, ShardingStrategy, StateDictType = (
    missing_class("distributed.fsdp", name, ALONE)
    for name in ("BackwardPrefetch", "ShardingStrategy", "StateDictType")
)
fully_shard = missing_function("distributed.fsdp", "fully_shard", ALONE)
