"""What a checkpointed part did in each of its runs, for `checkpoint(debug=True)`.

A log is a mode that writes down every operator with the shapes of its tensors; `explained` puts the logs of both
runs beside the error that says that they differ.
"""

from __future__ import annotations

from typing import Any

from ..core import pytree
from ..core.tensor import Tensor
from ._python_dispatch import TorchDispatchMode


class OperatorLog(TorchDispatchMode):
    """Writes down the operators that run inside."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.lines.append(f"{func}({', '.join(map(_named, pytree.flatten((args, kwargs))[0]))})")
        return func(*args, **kwargs)


def _named(value: Any) -> str:
    return f"{value.dtype.name}{list(value.shape)}" if isinstance(value, Tensor) else repr(value)


def explained(error: str, forward: OperatorLog, again: OperatorLog) -> str:
    """The text of an error with the operators of both runs."""

    def listed(title: str, log: OperatorLog) -> str:
        return "\n".join([f"{title}:", *(f"  {i + 1}. {line}" for i, line in enumerate(log.lines))])

    return (
        f"{error}\n\nYou are seeing this error because you passed `debug=True` to checkpoint: these operators "
        "ran, and the first that differs tells where.\n"
        f"{listed('In the forward pass', forward)}\n{listed('In the recomputation', again)}"
    )
