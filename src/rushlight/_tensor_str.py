"""How tensors are printed, under the names that programs read."""

from __future__ import annotations

from typing import Any

from .core.printing import get_printoptions, set_printoptions
from .core.tensor import Tensor

__all__ = ["PRINT_OPTS", "set_printoptions"]


class _Options:
    """What `set_printoptions` has set last."""

    def __getattr__(self, name: str) -> Any:
        options = get_printoptions()
        if name not in options:
            raise AttributeError(f"there is no print option {name!r}; those are {', '.join(options)}")
        return options[name]

    def __setattr__(self, name: str, value: Any) -> None:
        getattr(self, name)
        set_printoptions(**{name: value})


PRINT_OPTS = _Options()


def _str(self: Tensor, *, tensor_contents: str | None = None) -> str:
    return repr(self)


def _tensor_str(self: Tensor, indent: int) -> str:
    """The elements of a tensor, without the name of its class."""
    return repr(self.detach()).removeprefix("tensor(").rpartition(")")[0]
