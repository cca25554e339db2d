"""Functions on creating, indexing and sorting whose Python signature is not an operator's."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays import legacy_arguments
from ..core.construct import of_storage
from ..core.dispatch import run_name
from ..core.errors import check
from ..core.mutation import call_inplace
from ..core.out_calls import call_out
from ..core.registry import REGISTRY
from ..core.tensor import Tensor, tensor_method
from ..core.tokens import Size

__all__ = [
    "embedding_renorm_",
    "is_complex",
    "is_conj",
    "is_floating_point",
    "is_inference",
    "is_neg",
    "is_signed",
    "is_tensor",
    "nonzero",
    "numel",
    "resize_as_",
    "unique",
    "unique_consecutive",
    "zero_",
]


@tensor_method
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """The positions of the nonzero elements: one row each, or with `as_tuple` a tensor per dimension.

    >>> rl.nonzero(rl.tensor([0, 3, 4]))
    tensor([[1],
            [2]])
    """
    if as_tuple:
        return run_name("nonzero_numpy", input)
    if out is not None:
        return call_out(REGISTRY["nonzero"], (input,), out)
    return run_name("nonzero", input)


def _from_method(name: str, doc: str, of_ones: Any) -> Any:
    """The function that calls a method of Tensor; what it gives for `ones(2)` is the example of its docstring."""

    def function(input: Tensor) -> Any:
        if not isinstance(input, Tensor):
            raise TypeError(
                f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
            )
        return getattr(input, name)()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc}\n\n>>> rl.{name}(rl.ones(2))\n{of_ones}\n"
    return function


is_complex = _from_method("is_complex", "Whether the dtype is complex.", False)
is_conj = _from_method("is_conj", "Whether the values are to be read as conjugated.", False)
is_floating_point = _from_method("is_floating_point", "Whether the dtype is a real floating one.", True)
is_inference = _from_method("is_inference", "Whether the tensor was made in inference mode.", False)
is_neg = _from_method("is_neg", "Whether the values are to be read as negated.", False)
is_signed = _from_method("is_signed", "Whether the dtype has negative values.", True)
numel = _from_method("numel", "The number of elements.", 2)


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a tensor.

    >>> rl.is_tensor([1, 2])
    False
    """
    return isinstance(obj, Tensor)


@tensor_method
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both tensors look at the same elements of the same memory in the same way."""
    return (
        self.storage_object is tensor.storage_object
        and self.storage_offset() == tensor.storage_offset()
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
    )


@tensor_method
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the memory is pinned for an accelerator; it never is."""
    return False


@tensor_method
def new(self: Tensor, *args: Any, size: Any = None, device: Any = None) -> Tensor:
    """The old form of new_empty and new_tensor: sizes give an uninitialised tensor, a sequence its values."""
    if size is not None:
        check(not args, "new() takes either a size by keyword or positional arguments", TypeError)
        args = (Size(size),)
    if device is not None:
        args = legacy_arguments(args, {"device": device}, self.device.type)
    if len(args) == 1 and isinstance(args[0], list | tuple | np.ndarray) and not isinstance(args[0], Size):
        return self.new_tensor(args[0], device=device)
    if len(args) == 1 and isinstance(args[0], Tensor):
        check(
            args[0].dtype is self.dtype and args[0].device == self.device and args[0].layout is self.layout,
            f"new(): expected a tensor of {self.dtype.name} on {self.device}, but got one of "
            f"{args[0].dtype.name} on {args[0].device}",
            TypeError,
        )
        return args[0].detach()
    if len(args) == 1 and (hasattr(args[0], "_untyped_storage") or hasattr(args[0], "untyped")):
        return of_storage(args[0], self.dtype)
    sizes = args[0] if len(args) == 1 and isinstance(args[0], Size) else args or (0,)
    return self.new_empty(tuple(sizes), device=device)


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale those rows of `input` named by `indices` whose norm is above `max_norm` down to it, in place.

    >>> rl.embedding_renorm_(rl.tensor([[3.0, 4.0]]), rl.tensor([0]), 1.0, 2.0)
    tensor([[0.6000, 0.8000]])
    """
    return call_inplace(REGISTRY["embedding_renorm"], (input, indices, float(max_norm), float(norm_type)))


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Give `input` the shape of another tensor, in place.

    >>> rl.resize_as_(rl.ones(2), rl.ones(1, 2)).shape
    rushlight.Size([1, 2])
    """
    return input.resize_as_(the_template, memory_format=memory_format)


def zero_(input: Tensor) -> Tensor:
    """Fill `input` with zeros, in place.

    >>> rl.zero_(rl.ones(2))
    tensor([0., 0.])
    """
    return input.zero_()


@tensor_method
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different values (slices along `dim`), in ascending order; inverse and counts if asked for.

    >>> rl.unique(rl.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    if dim is None:
        outputs = run_name("_unique2", input, sorted, return_inverse, return_counts)
    else:
        outputs = run_name("unique_dim", input, dim, sorted, return_inverse, return_counts)
    return _asked(outputs, return_inverse, return_counts)


@tensor_method
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of every run of equal values (slices along `dim`); inverse and counts only if asked for.

    >>> rl.unique_consecutive(rl.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    outputs = run_name("unique_consecutive", input, return_inverse, return_counts, dim)
    return _asked(outputs, return_inverse, return_counts)


def _asked(outputs: tuple[Tensor, Tensor, Tensor], return_inverse: bool, return_counts: bool) -> Any:
    output, inverse, counts = outputs
    chosen = (output, *([inverse] if return_inverse else []), *([counts] if return_counts else []))
    return chosen if len(chosen) > 1 else output
