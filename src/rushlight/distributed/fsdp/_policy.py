"""What `fully_shard` is told about dtypes and places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["CPUOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """`param_dtype`: of parameters where they are gathered and used; `reduce_dtype`: in which gradients are
    averaged;
    `output_dtype`: of what the module returns; `cast_forward_inputs`: floating inputs become `param_dtype`.
    Sharded parameters, gradients and states of optimizers keep the dtype of the module."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Nothing is moved elsewhere."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Not available: parameters are in the memory of the processor as it is."""

    pin_memory: bool = True

    def __post_init__(self) -> None:
        raise NotImplementedError(
            "torch.distributed.fsdp.CPUOffloadPolicy is not available: parameters are in the processor's "
            "memory already"
        )
