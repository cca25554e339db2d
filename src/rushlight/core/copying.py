"""Copies of tensors: copy.copy, copy.deepcopy and pickles.

Tensors that share memory share it again after being copied or pickled together, as far as a pickle holds
whole storages: a view of part of a storage is pickled alone, without the rest.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from . import construct, dtypes
from .dispatch import AMBIENT, read_array, run_name
from .errors import check
from .overrides import as_class
from .quantized import integers_of, make_quantized
from .shapes import Spec, is_dense
from .sparse import Parts, make_sparse
from .storage import Storage
from .tensor import DISPATCH, LAZY, Tensor, alias
from .tokens import preserve_format
from .views import copied_object


def deepcopy_tensor(self: Tensor, memo: dict[int, Any]) -> Tensor:
    check(
        self.grad_fn is None,
        "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
        "protocol at the moment; use detach().clone()",
    )
    if id(self) in memo:
        return memo[id(self)]
    if self._parts is not None:
        return _deepcopy_sparse(self, memo)
    if self._keys & DISPATCH and self._array is None:
        return _deepcopy_dispatched(self, memo)
    storage = self.storage_object
    if AMBIENT.trace is not None and self._trace in (None, AMBIENT.trace) and id(storage) not in memo:
        memo[id(storage)] = storage
        return _finish_copy(self, run_name("clone", run_name("detach", self), preserve_format), memo)
    if AMBIENT.trace is not None and id(storage) in memo:
        AMBIENT.trace.refuse("it copies tensors that share memory")
    if id(storage) not in memo:
        memo[id(storage)] = storage.clone()
    carrier = alias(self, self.spec())
    carrier._storage = memo[id(storage)]
    return _finish_copy(self, alias(carrier, self.spec()), memo)


def _deepcopy_dispatched(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """A copy of an object without data, which its class makes."""
    copied = self.clone()
    check(
        type(copied) is type(self),
        f"The default implementation of __deepcopy__() for wrapper subclasses "
        f"only works for subclass types that properly implement clone(): that of {type(self).__name__} "
        f"gave a {type(copied).__name__}. Implement clone() for it, or __deepcopy__()",
    )
    return _finish_copy(self, copied.detach(), memo)


def _finish_copy(self: Tensor, result: Tensor, memo: dict[int, Any]) -> Tensor:
    result = as_class(result, self.__class__)
    result._versions = None
    memo[id(self)] = result
    Tensor._set_requires_grad(result, self.requires_grad)
    for name in self._slots:
        if hasattr(self, name):
            setattr(result, name, copy.deepcopy(getattr(self, name), memo))
    if self._grad is not None:
        result._grad = deepcopy_tensor(self._grad, memo)
    result.__dict__.update(copy.deepcopy(own_attributes(self), memo))
    return result


def own_attributes(self: Tensor) -> dict[str, Any]:
    """What a program set on this tensor, as it may on any Python object."""
    return {name: value for name, value in self.__dict__.items() if name not in Tensor.__annotations__}


def _deepcopy_sparse(self: Tensor, memo: dict[int, Any]) -> Tensor:
    result = memo[id(self)] = make_sparse(self._parts.copy(), tuple(self.shape))
    result.__class__ = self.__class__
    result._set_requires_grad(self.requires_grad)
    if self._grad is not None:
        result._grad = deepcopy_tensor(self._grad, memo)
    return result


def copy_tensor(self: Tensor) -> Tensor:
    if AMBIENT.trace is not None:
        AMBIENT.trace.meet(self)
    result = copied_object(self)
    if AMBIENT.trace is not None:
        AMBIENT.trace.copied(self, result)
    return result


def reduce_tensor(self: Tensor) -> Any:
    if self._parts is not None:
        return _rebuild_sparse, (self._parts, tuple(self.shape), self.requires_grad, self.__class__)
    if self._quantizer is not None:
        return make_quantized, (integers_of(self).clone(), self._quantizer)
    if self._array is not None and not self._keys & LAZY and AMBIENT.trace is None:
        storage = self.storage_object
        if storage.nbytes() == self.nbytes and is_dense(self.shape, self.strides()):
            # the storage itself, so that tensors over the same memory are so again
            return (
                _rebuild_over,
                (
                    storage,
                    self.dtype.name,
                    tuple(self.shape),
                    self.strides(),
                    self.requires_grad,
                    self.__class__,
                ),
                own_attributes(self) or None,
            )
    return (
        _rebuild,
        (read_array(self), self.dtype.name, self.requires_grad, self.__class__),
        own_attributes(self) or None,
    )


def _rebuild(array: np.ndarray, dtype: str, requires_grad: bool, cls: Any) -> Tensor:
    result = as_class(construct.over_array(array.view(dtypes.DTYPES[dtype].numpy)), cls)
    return result._set_requires_grad(requires_grad)


def _rebuild_over(
    storage: Storage,
    dtype: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    requires_grad: bool,
    cls: Any,
) -> Tensor:
    whole = construct.of_storage(storage, dtypes.DTYPES[dtype])
    result = alias(whole, Spec(shape, whole.dtype, strides))
    result._versions = None
    return as_class(result, cls)._set_requires_grad(requires_grad)


def _rebuild_sparse(parts: Parts, shape: tuple[int, ...], requires_grad: bool, cls: Any) -> Tensor:
    result = make_sparse(parts, shape)
    result.__class__ = cls
    return result._set_requires_grad(requires_grad)
