"""Options of linear_cross_entropy: how it trades memory for time. They never change what is computed."""

from __future__ import annotations

import dataclasses

from ...core.dtypes import DType, bfloat16, float16, float32, float64
from ...core.errors import check

__all__ = ["LinearCrossEntropyOptions"]


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How the logits are cut into chunks of rows, and in which dtype they are accumulated.

    >>> options = nn.LinearCrossEntropyOptions(batch_chunk_size=2, acc_policy="accurate")
    >>> x, weight, target = rl.ones(4, 3), rl.eye(3), rl.tensor([0, 1, 2, 0])
    >>> F.linear_cross_entropy(x, weight, target, options=options)
    tensor(1.0986)
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: DType | None = None

    def __post_init__(self) -> None:
        check(
            self.acc_policy in ("auto", "accurate", "balanced", "compact"),
            f"invalid acc_policy: {self.acc_policy!r}",
            ValueError,
        )
        if self.chunking_method not in (None, "auto"):
            name, colon, factor = str(self.chunking_method).partition(":")
            valid = name == "aspect_ratio" and (not colon or (factor.isdigit() and int(factor) > 0))
            check(valid, f"invalid chunking_method: {self.chunking_method!r}", ValueError)
        size = self.batch_chunk_size
        check(
            size is None or (isinstance(size, int) and size > 0),
            f"batch_chunk_size must be positive int or None, got {size!r}",
            ValueError,
        )
        check(
            self.acc_dtype in (None, float16, bfloat16, float32, float64),
            f"acc_dtype must be one of None, float16, bfloat16, float32, float64, got {self.acc_dtype!r}",
            ValueError,
        )
