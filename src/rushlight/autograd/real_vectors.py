"""Tensors as real vectors, for gradcheck: a complex number counts as its real and its imaginary part.

In come tensors of any kind (sparse ones count by their stored values, wrapper subclasses by what their operators
read); out come float64 vectors, and tensors made from such vectors. `Memory` writes a tensor's elements without
autograd or version counters noticing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core.construct import from_numpy
from ..core.dispatch import run_name
from ..core.sparse import with_values
from ..core.tensor import Tensor
from ..kernels.sparse import structure
from ..kernels.sparse_conversion import filled
from .grad_mode import no_grad


def tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, tuple | list):
        return [tensor for item in tree for tensor in tensors(item)]
    return []


def as_tuple(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)


def replaced(tree: Any, by_identity: dict[int, Tensor]) -> Any:
    if isinstance(tree, Tensor):
        return by_identity.get(id(tree), tree)
    if isinstance(tree, tuple | list):
        return type(tree)(replaced(item, by_identity) for item in tree)
    return tree


def strided_outputs(func: Callable[..., Any]) -> Callable[..., Any]:
    def strided(tree: Any) -> Any:
        if isinstance(tree, Tensor):
            return tree if tree._parts is None else tree.to_dense()
        return type(tree)(map(strided, tree)) if type(tree) in (tuple, list) else tree

    return lambda *args: strided(func(*args))


def with_all_stored(tree: Any) -> Any:
    """`tree` with sparse tensors that require grad replaced by ones that store all of their elements."""
    if isinstance(tree, Tensor):
        is_variable = tree._parts is not None and tree.requires_grad
        return filled(tree.detach())._set_requires_grad() if is_variable else tree
    return type(tree)(map(with_all_stored, tree)) if type(tree) in (tuple, list) else tree


def stored(tensor: Tensor) -> Tensor:
    """What of `tensor` is varied: the values of a sparse one."""
    return tensor if tensor._parts is None else tensor._parts.values


def real_count(tensor: Tensor) -> int:
    return stored(tensor).numel() * (2 if tensor.dtype.is_complex else 1)


def real(tensor: Tensor) -> np.ndarray:
    """The values as a real vector."""
    tensor = tensor if tensor._parts is None else run_name("_to_dense", tensor.detach(), None, None)
    array = np.ascontiguousarray(tensor.detach().numpy(force=True)).reshape(-1)
    return (
        array.view(np.float64 if array.dtype == np.complex128 else np.float32).astype(np.float64)
        if np.iscomplexobj(array)
        else array.astype(np.float64)
    )


def real_like(tensor: Tensor | None, like: Tensor) -> np.ndarray:
    if tensor is None:
        return np.zeros(real_count(like))
    if like._parts is not None:
        tensor = run_name("_sparse_take", tensor.detach(), structure(like))
    return real(tensor)


def from_real(values: np.ndarray, like: Tensor) -> Tensor:
    """The tensor like `like` whose real vector is `values`."""
    array = np.ascontiguousarray(values, np.float64)
    if like.dtype.is_complex:
        array = array.view(np.complex128)
    made = from_numpy(array.astype(like.dtype.numpy).reshape(tuple(stored(like).shape)))
    return made if like._parts is None else with_values(like, made)


def units(output: Tensor) -> Iterator[Tensor]:
    length = real_count(output)
    for k in range(length):
        yield from_real(np.eye(1, length, k)[0], output)


def unit_vector(random: np.random.Generator, length: int) -> np.ndarray:
    vector = random.uniform(0.5, 1.0, length) * random.choice([-1.0, 1.0], length)
    return vector / max(float(np.linalg.norm(vector)), 1e-30)


class Memory:
    """The elements of a tensor, to be changed behind autograd's back.

    `array` is the tensor's own memory, or a copy of it for a wrapper subclass, which has none; `commit` makes
    what was written to it the tensor's values.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = stored(tensor).data
        self.is_shared = self.tensor._array is not None
        self.array = self.tensor.numpy_array() if self.is_shared else self.tensor.numpy(force=True)

    def commit(self) -> None:
        if not self.is_shared:
            with no_grad():
                self.tensor.copy_(from_numpy(self.array))

    def real_view(self) -> np.ndarray:
        """`array` as real numbers; those of complex ones have one more dimension, of 2."""
        array = self.array
        if not np.iscomplexobj(array):
            return array
        part = np.float64 if array.dtype == np.complex128 else np.float32
        strides = (*array.strides, array.itemsize // 2)
        return np.lib.stride_tricks.as_strided(array.real.view(part), (*array.shape, 2), strides)


def perturbed(tensor: Tensor, eps: float) -> Iterator[None]:
    """Change one element of `tensor` at a time, up and then down, by `eps`."""
    memory = Memory(tensor)
    array = memory.array
    steps = (eps, 1j * eps) if np.iscomplexobj(array) else (eps,)
    for index in np.ndindex(*array.shape):
        original = array[index].copy()
        for step in steps:
            for sign in (1, -1):
                array[index] = original + sign * step
                memory.commit()
                yield
        array[index] = original
        memory.commit()
