"""The Tensor: a NumPy array with PyTorch's semantics of storage, views, versions and dispatch keys.

What comes in: arrays (shared, never copied here) or, on the meta device, a Spec alone. Invariants:
- `_array` is an ndarray of `dtype.numpy` with non-negative strides, or None for tensors that have no data of
  their own (meta tensors and the wrappers of transforms);
- aliases share one Storage and, unless detached through `.data`, one VersionCounter;
- `_keys` is 0 for a plain tensor; any bit makes dispatch take the long way (see dispatch.py).

Operator methods are attached from the registry (see api.py); the ones written here concern the object itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .arrays import array_over, legacy_arguments, legacy_data
from .dtypes import BY_NUMPY, DType
from .errors import check
from .methods import TensorMethods
from .modes import MODES, refuse_in_transform
from .shapes import Shape, Spec, is_channels_last, is_contiguous, numel, strides_of_array
from .storage import Storage, VersionCounter
from .tokens import (
    Size,
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    make_size,
    sparse_coo,
    sparse_csr,
    strided,
)
from .tokens import memory_format as MemoryFormat

AUTOGRAD = 1  # requires grad, or carries a tangent
TRACED = 2  # belongs to a transform or to a capture
META = 4  # has no data
LAZY = 8  # conjugate or negative bit set
SPARSE = 32  # not strided: what it consists of is in `_parts` (see sparse.py)
QUANTIZED = 64  # integers that stand for points of the grid in `_quantizer` (see quantized.py)
RANDOM = 16  # ambient only: a transform wants to see every random operator
AUTOCAST = 128  # ambient only: operators with a policy have their arguments cast (see autocast.py)
PROFILED = 512  # ambient only: a profiler sees every call (autograd/profiler.py)
DISPATCH = 256  # its class, or ambient an open mode, runs operators itself (see python_dispatch.py)

CPU = device("cpu")
META_DEVICE = device("meta")

_new = object.__new__

# What a capture wants to know: called with a tensor before its requires_grad flag changes.
_before_flag: Callable[[Any], None] | None = None


def install_before_flag(function: Callable[[Any], None]) -> None:
    global _before_flag
    _before_flag = function


# How an object of a class that runs operators itself is asked for a fact: None if it does not want to be.
_asked: Callable[[Any, str], Any]


def install_asked(function: Callable[[Any, str], Any]) -> None:
    global _asked
    _asked = function


def refuse_overrides(func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """`__torch_function__` of classes whose objects are like any tensor: results are plain ones."""
    return func(*args, **(kwargs or {}))


_DTYPE = property(lambda tensor: tensor.dtype, doc="The dtype of the elements.")


class TensorMeta(type):
    """What classes of tensors have as classes: their objects keep `dtype` as a plain attribute, for speed,
    and `Tensor.dtype` is the property it would be otherwise."""

    @property
    def dtype(cls) -> Any:
        return _DTYPE


class Tensor(TensorMethods, metaclass=TensorMeta):
    """A multi-dimensional array of one dtype, with autograd.

    >>> x = rl.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> (x @ x).sum().backward()
    >>> x.grad
    tensor([[ 7., 11.],
            [ 9., 13.]])
    """

    _array: np.ndarray | None
    dtype: DType
    _keys: int = 0
    # of tensors without an array; of one that is captured with sizes that change, what it stands for
    _spec: Spec | None = None
    _strides: Shape | None = None  # known strides of a view, in elements
    _storage: Storage | None = None
    _offset: int = 0
    _versions: VersionCounter | None = None
    _base: Tensor | None = None  # the tensor that this one is a view of
    _view_of: Any = None  # (operator, arguments) that made the view from its base or from another view
    _reshaped: bool = False  # it got another geometry in place: views of it may be of the former one
    _conj: bool = False
    _neg: bool = False
    _parts: Any = None  # of a tensor that is not strided: its member tensors
    _quantizer: Any = None  # of a quantized tensor: what its integers stand for
    # Autograd's fields; autograd/ gives them their meaning.
    _requires_grad: bool = False
    _node: Any = None
    _output_nr: int = 0
    _grad: Any = None
    _hooks: Any = None
    _accumulator: Any = None
    _transform: Any = None  # the transform of reverse mode that differentiates by it
    _retains: bool = False  # of a tensor that is not a leaf: its gradient is kept
    _seen: Any = None  # the node of the base when the history of this view was last made
    _creation: Any = None  # of a view: in which mode it was made, where that restricts writing through it
    _seen_version: int = 0  # of such a view: how many writes its memory had seen when it was made
    _tangents: Any = None
    _tangent_base: Any = None  # of a view: the tangent of the base that its own was taken from
    _own_levels: frozenset[Any] = frozenset()  # levels whose tangent does not follow that of the base
    _trace: Any = None  # the interpreter of a tensor that is not plain
    _inference: bool = False
    _foreign: bool = False  # others hold arrays over this memory (a Storage, once there, knows)
    _overrides: bool = False  # whether the class decides what functions do with its objects (overrides.py)
    _dispatches: bool = False  # whether it runs operators itself (python_dispatch.py)
    _has_graph: bool = False  # of such a class: captures see the operators that it runs on what it holds
    _policy: Any = None  # of an object of such a class: which facts about itself it is asked for
    _layout: Any = None  # of such an object: the layout that it says it has
    _slots: tuple[str, ...] = ()  # what the class keeps in slots
    __torch_function__: Callable[..., Any]
    __torch_dispatch__: Callable[..., Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Tensor:
        """`Tensor(2, 3)` is an uninitialised float tensor, `Tensor([1, 2])` a float tensor of the data."""
        args = legacy_arguments(args, kwargs) if kwargs and cls is Tensor else args
        if len(args) == 1 and cls is Tensor and isinstance(args[0], Tensor):
            return args[0].detach()
        tensor, data = _new(cls), legacy_data(args)
        tensor._array, tensor.dtype = data, BY_NUMPY[data.dtype]
        return tensor

    # What it is.

    @property
    def shape(self) -> Size:
        spec = self._spec
        if spec is None:
            return make_size(self._array.shape)  # type: ignore[union-attr]
        if self._policy is not None and (found := _asked(self, "shape")) is not None:
            return make_size(tuple(found))
        if spec.shape is None:
            self._trace.reveal(self)
            return self.shape
        return make_size(spec.shape)

    @property
    def ndim(self) -> int:
        array = self._array
        return array.ndim if array is not None else len(self.shape)

    def dim(self) -> int:
        return self.ndim

    ndimension = dim

    def size(self, dim: int | None = None) -> Any:
        if dim is None:
            return self.shape
        rank = self.ndim
        if rank == 0 or not -rank <= dim < rank:
            raise IndexError(f"size: Dimension {dim} is out of range for a tensor of {rank} dimensions")
        return self.shape[dim]

    def strides(self) -> Shape:
        """Strides in elements."""
        if self._strides is not None:
            return self._strides
        spec = self._spec
        if spec is not None:
            check(self._parts is None, f"{self.layout.name} tensors do not have strides")
            if self._policy is not None and (found := _asked(self, "strides")) is not None:
                return tuple(found)
            if spec.shape is None:
                self._trace.reveal(self)
                return self.strides()
            return spec.known_strides()
        array = self._array
        assert array is not None
        # also of empty arrays; NumPy says nothing sure of their strides or of size 1
        if array.flags.c_contiguous:
            return strides_of_array(array.shape)
        itemsize = array.itemsize
        return tuple([s // itemsize for s in array.strides])

    def stride(self, dim: int | None = None) -> Any:
        if self._parts is not None and self.layout is sparse_coo:
            strides: Shape = (0,) * self.ndim  # as in PyTorch
        else:
            strides = self.strides()
        if dim is None:
            return strides
        rank = len(strides)
        if rank == 0 or not -rank <= dim < rank:
            raise IndexError(f"stride: Dimension {dim} is out of range for a tensor of {rank} dimensions")
        return strides[dim]

    def numel(self) -> int:
        return self._array.size if self._spec is None else numel(self.shape)  # type: ignore[union-attr]

    def nelement(self) -> int:
        return self.numel()

    def element_size(self) -> int:
        return self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.numel() * self.dtype.itemsize

    @property
    def device(self) -> device:
        if self._policy is not None and (found := _asked(self, "device")) is not None:
            return found
        return META_DEVICE if self._keys & META else CPU

    def get_device(self) -> int:
        return -1

    @property
    def layout(self) -> Any:
        if shapeless(self):
            self._trace.reveal(self)
        if self._keys & DISPATCH:
            asked = None if self._policy is None else _asked(self, "layout")
            return asked or self._layout or strided
        return strided if self._parts is None else self._parts.layout

    @property
    def is_meta(self) -> bool:
        return bool(self._keys & META)

    is_cpu = property(lambda self: not self.is_meta)
    is_sparse = property(lambda self: self.layout is sparse_coo)
    is_sparse_csr = property(lambda self: self.layout is sparse_csr)
    is_quantized = property(lambda self: self._quantizer is not None)
    is_cuda = is_mkldnn = is_nested = is_mps = is_xpu = property(lambda self: False)

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        return self.dtype.is_signed

    def is_conj(self) -> bool:
        return self._conj

    def is_neg(self) -> bool:
        return self._neg

    def is_inference(self) -> bool:
        return self._inference

    def is_contiguous(self, memory_format: MemoryFormat = contiguous_format) -> bool:
        array, usual = self._array, memory_format is contiguous_format
        if usual and array is not None and self._spec is None and array.flags.c_contiguous and array.size:
            return True
        if self._parts is not None and self.layout is sparse_coo:
            return False
        shape, strides = self.shape, self.strides()
        if memory_format is contiguous_format:
            return is_contiguous(shape, strides)
        if memory_format is channels_last:
            return len(shape) == 4 and is_channels_last(shape, strides)
        if memory_format is channels_last_3d:
            return len(shape) == 5 and is_channels_last(shape, strides)
        raise RuntimeError(
            "is_contiguous: preserve_format is not a memory format to ask for; use "
            "contiguous_format, "
            "channels_last or channels_last_3d"
        )

    # Autograd's view of the tensor; the engine is in autograd/.

    @property
    def requires_grad(self) -> bool:
        if self._requires_grad or self._node is not None:
            return True
        base = self._base
        return base is not None and (base._requires_grad or base._node is not None)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask autograd to record what is done with this leaf (or stop doing so)."""
        if requires_grad and MODES.transforms:
            refuse_in_transform("requires_grad_()")
        return self._set_requires_grad(requires_grad)

    def _set_requires_grad(self, requires_grad: bool = True) -> Tensor:
        """As `requires_grad_`, by the library itself: transforms do it, too."""
        if self._node is not None:
            check(
                requires_grad,
                "you can only change requires_grad flags of leaf variables. If you want to use a computed "
                "variable in a subgraph that doesn't require differentiation use var_no_grad = "
                "var.detach().",
            )
            return self
        check(
            not requires_grad or self.dtype.is_floating_point or self.dtype.is_complex,
            f"only Tensors of floating point and complex dtype can require gradients, not {self.dtype.name}",
        )
        if self._inference and requires_grad and not MODES.inference:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
            )
        if self._requires_grad is not requires_grad and _before_flag is not None:
            _before_flag(self)
        self._requires_grad = requires_grad
        stays = requires_grad or self._tangents or self._base is not None or self._inference
        self._keys = self._keys | AUTOGRAD if stays else self._keys & ~AUTOGRAD
        return self

    @property
    def output_nr(self) -> int:
        return self._output_nr

    # Memory.

    @property
    def storage_object(self) -> Storage:
        """The Storage, made on first need."""
        storage = self._storage
        if storage is None:
            array = self._array
            if array is None:
                if self._parts is not None:
                    raise NotImplementedError(
                        f"Cannot access storage of a {self.layout.name} tensor: its "
                        "members have one each; see indices() and values()"
                    )
                storage = Storage.of_size(self.nbytes)
            else:
                storage = Storage.of_array(array)
                if self._foreign:
                    storage._fixed = True
            self._storage = storage
        return storage

    def untyped_storage(self) -> Storage:
        return self.storage_object

    def storage_offset(self) -> int:
        return self._offset

    def data_ptr(self) -> int:
        check(self._parts is None, "Cannot access data pointer of Tensor that doesn't have storage")
        if self._array is None or self._array.size == 0:
            return 0
        return int(self._array.__array_interface__["data"][0])

    @property
    def version_counter(self) -> VersionCounter:
        versions = self._versions
        if versions is None:
            versions = self._versions = VersionCounter()
        return versions

    @property
    def _version(self) -> int:
        check(not self._inference, "Inference tensors do not track version counter.")
        return 0 if self._versions is None else self._versions.value

    def numpy_array(self) -> np.ndarray:
        """The values as an ndarray, shared where possible; lazy conjugation and negation are carried out."""
        array = self._array
        if array is None:
            if self._parts is not None:
                raise TypeError(
                    f"can't convert a {self.layout.name} tensor to an array. Use Tensor.to_dense() first"
                )
            if self._keys & DISPATCH:
                raise RuntimeError(
                    ".numpy() is not supported for tensor subclasses without data: "
                    f"{type(self).__name__} is one"
                )
            raise NotImplementedError(
                "a tensor on the meta device has no data; create it on 'cpu' to read values"
            )
        if self._keys & (LAZY | QUANTIZED):
            if self._quantizer is not None:
                raise TypeError(
                    f"can't convert a tensor of dtype {self.dtype.name} to an array; use "
                    "Tensor.dequantize() or Tensor.int_repr() first"
                )
            if self._conj:
                array = np.conjugate(array)
            if self._neg:
                array = np.negative(array)
            array = np.asarray(array)
        return array

    def spec(self) -> Spec:
        """Shape, dtype, strides and offset, without data."""
        if self._parts is not None:
            return self._spec  # type: ignore[return-value]
        if self._spec is None and self._array is not None:
            return _known_spec(self._array.shape, self.dtype, self.strides(), self._offset)
        return Spec(tuple(self.shape), self.dtype, self.strides(), self.storage_offset())


_known_spec = functools.lru_cache(maxsize=4096)(Spec)


def wrap(array: Any) -> Tensor:
    """A tensor that owns `array` (an ndarray or NumPy scalar just computed, aliased by nobody else)."""
    if type(array) is not np.ndarray:
        array = np.asarray(array)
    tensor = _new(Tensor)
    tensor._array = array
    tensor.dtype = BY_NUMPY[array.dtype]
    return tensor


def is_whole(tensor: Tensor) -> bool:
    """Whether it is surely contiguous: with data of its own, and no view."""
    array = tensor._array
    return array is not None and tensor._strides is None and tensor._spec is None and array.flags.c_contiguous


def shapeless(result: Any) -> bool:
    """Whether the shape of a result of an operator, recorded by a capture, is known only after a run."""
    first = result[0] if type(result) is tuple and result else result
    return isinstance(first, Tensor) and first._spec is not None and first._spec.shape is None


def meta_tensor(spec: Spec) -> Tensor:
    """A tensor of `spec` without data."""
    tensor = _new(Tensor)
    tensor._array, tensor.dtype = None, spec.dtype
    tensor._spec = Spec(spec.known_shape(), spec.dtype, spec.strides, 0)
    tensor._keys = META
    return tensor


def alias(source: Tensor, spec: Spec) -> Tensor:
    """A tensor of `spec` over the storage of `source`; shares its version counter and lazy bits."""
    storage = source.storage_object
    shape, strides, dtype = spec.known_shape(), spec.known_strides(), spec.dtype
    tensor = _new(Tensor)
    tensor.dtype = dtype
    tensor._storage, tensor._offset, tensor._strides = storage, spec.offset, strides
    tensor._versions = source.version_counter
    if source._keys:
        tensor._keys = source._keys & (META | LAZY | QUANTIZED)
        tensor._conj, tensor._neg, tensor._quantizer = source._conj, source._neg, source._quantizer
    if spec.conj is not None or spec.neg is not None:
        tensor._conj = tensor._conj if spec.conj is None else spec.conj
        tensor._neg = tensor._neg if spec.neg is None else spec.neg
        tensor._keys = tensor._keys | LAZY if tensor._conj or tensor._neg else tensor._keys & ~LAZY
    if storage.buffer is None:
        tensor._array, tensor._spec = None, Spec(shape, dtype, strides, spec.offset)
        return tensor
    tensor._array = array_over(storage.buffer, shape, strides, spec.offset, dtype)
    return tensor


Function = TypeVar("Function", bound=Callable[..., Any])


def tensor_method(function: Function) -> Function:
    """Attach `function` to Tensor as a method of the same name; a name is attached once."""
    name = function.__name__
    if name in Tensor.__dict__:
        raise TypeError(f"Tensor.{name} is already defined")
    setattr(Tensor, name, function)
    return function
