"""Training with parameters, gradients and states of optimizers spread over processes: `fully_shard`. The class
FullyShardedDataParallel of older programs is not available, and no module is one."""

from ...core.missing import missing_class
from ._fully_shard import FSDPModule, fully_shard, register_fsdp_forward_method
from ._policy import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "CPUOffloadPolicy",
    "FSDPModule",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "MixedPrecision",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "ShardingStrategy",
    "StateDictType",
    "fully_shard",
    "register_fsdp_forward_method",
]

_WHY = "modules are sharded by fully_shard"
FullyShardedDataParallel, MixedPrecision, CPUOffload, FullStateDictConfig = (
    missing_class("distributed.fsdp", name, _WHY)
    for name in ("FullyShardedDataParallel", "MixedPrecision", "CPUOffload", "FullStateDictConfig")
)
BackwardPrefetch, ShardingStrategy, StateDictType = (
    missing_class("distributed.fsdp", name, _WHY)
    for name in ("BackwardPrefetch", "ShardingStrategy", "StateDictType")
)
