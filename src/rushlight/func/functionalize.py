"""`functionalize`: a function without writes, and without views if that is asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core import pytree
from ..core.errors import check
from ..core.functionalize import Functionalize, FunctionalTensor
from ..core.tensor import Tensor
from ..core.transforms import opened

_REMOVED = ("mutations", "mutations_and_views")


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """`func` run by operators that write to nothing.

    In-place and out= operators become functional ones; what `func` writes to an argument is written to the
    caller's tensor once, at the end. With remove="mutations_and_views", operators that return a view become
    those that return a copy, so that no result shares memory with an argument. Whatever runs the operators, such
    as a dispatch mode around the call, sees only these; of one that copies it sees the view and the copy of it.

    >>> rl.func.functionalize(lambda x: x.clone().add_(1))(rl.ones(2))
    tensor([2., 2.])
    """
    check(
        remove in _REMOVED,
        "functionalize(f, remove='mutations'): received invalid argument for "
        f"remove={remove}. Valid options are remove='mutations', which replaces in-place and out= operators, and "
        "remove='mutations_and_views', which replaces operators that return views, too",
    )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.flatten((args, kwargs))
        with Functionalize(copies=remove == "mutations_and_views") as level, opened(level):
            inputs = [level.wrap(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            memories = [given._memory if isinstance(given, FunctionalTensor) else None for given in inputs]
            level.given = [memory for memory in memories if memory is not None]
            positional, named = spec.unflatten(inputs)
            outputs = pytree.tree_map(level.value_of, func(*positional, **named))
        for leaf, memory in zip(leaves, memories, strict=True):
            if memory is not None and memory.writes:
                leaf.copy_(memory.value)
        return outputs

    return wrapped
