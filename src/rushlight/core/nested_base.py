"""What nested tensors of both layouts share: they wrap an ordinary tensor of values, which autograd knows.

The jagged layout (core/nested.py) packs rows that differ in one dimension; the strided one
(core/nested_strided.py) has rows of any sizes, each with strides of its own, in a flat buffer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import check
from .tensor import Tensor, refuse_overrides


class NestedBase(Tensor):
    """A batch of tensors of different sizes. Autograd is that of the values."""

    __torch_function__ = staticmethod(refuse_overrides)
    _values: Tensor  # type: ignore[assignment]

    is_nested = property(lambda self: True)

    def like(self, values: Tensor) -> NestedBase:
        """A nested tensor of other values in the same rows."""
        raise NotImplementedError

    def maker(self) -> Callable[[Tensor], NestedBase]:
        """What makes a nested tensor of values in the same rows; it does not keep the values of this one."""
        raise NotImplementedError

    def values_of(self, other: Any, name: str) -> Tensor:
        """The values of a nested tensor with the same rows, laid out as those of this one."""
        raise NotImplementedError

    def values(self) -> Tensor:
        """All rows in one tensor."""
        return self._values

    def storage_offset(self) -> int:
        return self._values.storage_offset()

    def untyped_storage(self) -> Any:
        return self._values.untyped_storage()

    def data_ptr(self) -> int:
        return self._values.data_ptr()

    @property
    def requires_grad(self) -> bool:
        return self._values.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._values.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> NestedBase:
        self._values.requires_grad_(requires_grad)
        return self

    def _set_requires_grad(self, requires_grad: bool = True) -> NestedBase:
        self._values._set_requires_grad(requires_grad)
        return self

    def _get_grad(self) -> Any:
        grad = self._values.grad
        return None if grad is None else self.like(grad)

    def _set_grad(self, value: Any) -> None:
        check(
            value is None or isinstance(value, NestedBase),
            f"the gradient of a nested tensor is a nested tensor, not {type(value).__name__}",
            TypeError,
        )
        self._values.grad = None if value is None else self.values_of(value, "grad")

    def _delete_grad(self) -> None:
        self._values.grad = None

    grad = property(_get_grad, _set_grad, _delete_grad)
    grad_fn = property(lambda self: self._values.grad_fn)
    is_leaf = property(lambda self: self._values.is_leaf)
    retains_grad = property(lambda self: self._values.retains_grad)

    def retain_grad(self) -> None:
        self._values.retain_grad()

    def register_hook(self, hook: Callable[[Tensor], Any]) -> Any:
        def on_values(grad: Tensor) -> Any:
            found = hook(self.like(grad))
            return found if found is None else self.values_of(found, "register_hook")

        return self._values.register_hook(on_values)

    @property
    def data(self) -> NestedBase:
        return self.like(self._values.data)

    @data.setter
    def data(self, value: Any) -> None:
        self._values.data = self.values_of(value, "data")

    def set_(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("the rows of a nested tensor do not change; make another one")

    resize_ = resize_as_ = set_

    def __deepcopy__(self, memo: dict[int, Any]) -> NestedBase:
        if id(self) not in memo:
            memo[id(self)] = self.like(copy.deepcopy(self._values, memo))
        return memo[id(self)]

    def tolist(self) -> list[Any]:
        return [row.tolist() for row in self.unbind()]

    def numpy(self, *, force: bool = False) -> np.ndarray:
        raise TypeError(
            "a nested tensor is not one array: use values().numpy(), unbind() or to_padded_tensor(padding)"
        )
