"""How values of several processes become one."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ..comm.reductions import Reduction
from ..core.tensor import Tensor

__all__ = ["ReduceOp", "reduce_op"]


class RedOpType(Enum):
    """The kinds of reductions."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class ReduceOp:
    """A kind of reduction; of PREMUL_SUM, with the factor that each process multiplies its values by."""

    SUM: ReduceOp
    AVG: ReduceOp
    PRODUCT: ReduceOp
    MIN: ReduceOp
    MAX: ReduceOp
    BAND: ReduceOp
    BOR: ReduceOp
    BXOR: ReduceOp
    PREMUL_SUM: ReduceOp

    def __init__(self, op: RedOpType, factor: Any = None) -> None:
        self.op, self.factor = op, factor

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def value(self) -> int:
        return int(self.op.value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ReduceOp):
            return self.op is other.op
        return self.op is other if isinstance(other, RedOpType) else NotImplemented

    def __hash__(self) -> int:
        return self.op.value

    def __int__(self) -> int:
        return int(self.op.value)

    def __repr__(self) -> str:
        return f"<RedOpType.{self.op.name}: {self.op.value}>"

    def __reduce__(self) -> Any:
        return ReduceOp, (self.op, self.factor)

    def __deepcopy__(self, memo: Any) -> ReduceOp:
        return self


for _name, _value in [("RedOpType", RedOpType), *((kind.name, ReduceOp(kind)) for kind in RedOpType)]:
    setattr(ReduceOp, _name, _value)

reduce_op = ReduceOp  # the name that it had


def _make_nccl_premul_sum(factor: Any) -> ReduceOp:
    """The sum of values that each process has multiplied by its `factor`, a number or a tensor of one."""
    return ReduceOp(RedOpType.PREMUL_SUM, factor)


def reduction_of(op: Any) -> Reduction:
    """What `op`, a `ReduceOp` or its name as functional collectives have it ("sum"), asks for."""
    if isinstance(op, str):
        kind = op.upper()
        if kind not in RedOpType.__members__:
            raise ValueError(f"Unrecognized reduce_op: {op}")
        return Reduction(kind)
    if isinstance(op, RedOpType):
        return Reduction(op.name)
    if not isinstance(op, ReduceOp):
        raise TypeError(f"a reduction is a ReduceOp, not {type(op).__name__}")
    if op.op is RedOpType.PREMUL_SUM and op.factor is None:
        raise ValueError("PREMUL_SUM needs a factor: _make_nccl_premul_sum(factor)")
    factor = op.factor.detach().numpy_array() if isinstance(op.factor, Tensor) else op.factor
    return Reduction(op.name, factor)
