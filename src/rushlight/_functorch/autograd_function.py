"""Helpers for custom functions inside of transforms."""

from typing import Any

from ..autograd.function_vmap import reductify_leaf
from ..core.errors import check

__all__ = ["CtxWithSavedTensors", "reductify_leaf"]


class CtxWithSavedTensors:
    """A context like `ctx` in everything but `saved_tensors`."""

    _pt_reserved_attrs = ("_pt_inner_ctx", "_pt_new_saved_tensors")

    def __init__(self, ctx: Any, new_saved_tensors: Any) -> None:
        if not isinstance(ctx, CtxWithSavedTensors):
            for name in self._pt_reserved_attrs:
                check(
                    not hasattr(ctx, name),
                    f"{type(self).__name__}: name collision: the context has an attribute {name}",
                )
        self.__dict__.update(_pt_inner_ctx=ctx, _pt_new_saved_tensors=new_saved_tensors)

    @property
    def saved_tensors(self) -> Any:
        return self._pt_new_saved_tensors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pt_inner_ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._pt_inner_ctx, name, value)
