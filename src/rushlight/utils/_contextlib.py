"""Contexts that are decorators as well."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["context_decorator"]


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """`func`, every call of which runs in a context that `ctx()` gives."""
    make = ctx if callable(ctx) else lambda: ctx

    @functools.wraps(func)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return decorated


class _DecoratorContextManager:
    """Derive from this and define `__enter__` and `__exit__`: objects decorate functions, too."""

    def __call__(self, orig_func: Callable[..., Any]) -> Callable[..., Any]:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exception: object) -> Any:
        raise NotImplementedError

    def clone(self) -> Any:
        """Another of the same kind, for one call."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same, as `@kind` without parentheses, too."""

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        return super().__new__(cls) if orig_func is None else cls()(orig_func)
