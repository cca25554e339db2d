"""Parameter and Buffer: tensors that a Module registers when they are assigned to it."""

from __future__ import annotations

from typing import Any

from .._api.link import API
from ..core.conversions import _parse_to
from ..core.dtypes import DType, get_default_dtype
from ..core.errors import check
from ..core.overrides import as_class
from ..core.tensor import Tensor, TensorMeta, refuse_overrides
from ..core.tokens import place, preserve_format

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]

_empty = API.functions[""]["empty"]


class _ParameterMeta(TensorMeta):
    """A tensor of another class counts as a Parameter once `Parameter(tensor)` has marked it."""

    def __instancecheck__(self, instance: Any) -> bool:
        if self is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False):
            return True
        return super().__instancecheck__(instance)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that is a parameter of the module it is assigned to.

    >>> nn.Parameter(rl.zeros(2)).requires_grad
    True
    """

    __torch_function__ = staticmethod(refuse_overrides)

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = _empty(0)
        check(isinstance(data, Tensor), f"Parameter() takes a tensor, not a {type(data).__name__}", TypeError)
        if type(data) is not Tensor and not issubclass(type(data), Parameter):
            marked: Any = data.detach()
            if type(marked) is not type(data):
                check(
                    not type(data)._dispatches,
                    f"Creating a Parameter from an instance of type "
                    f"{type(data).__name__} requires that detach() returns an instance of the same type, "
                    f"but return type {type(marked).__name__} was found instead. Make detach() of "
                    "the class keep the class",
                )
                marked = as_class(marked, type(data))
            marked._is_param = True
            return marked._set_requires_grad(requires_grad)
        return _as_class(cls, data, requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """The values are copied, the gradient is not."""
        if id(self) not in memo:
            copied = self.detach().clone(memory_format=preserve_format)
            memo[id(self)] = _as_class(type(self), copied, self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class _BufferMeta(TensorMeta):
    def __instancecheck__(self, instance: Any) -> bool:
        if self is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False):
            return True
        return super().__instancecheck__(instance)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that is a buffer of the module it is assigned to; saved with it if `persistent`.

    >>> nn.Buffer(rl.zeros(2))
    tensor([0., 0.])
    """

    __torch_function__ = staticmethod(refuse_overrides)
    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Tensor:  # type: ignore[misc]
        source = _empty(0) if data is None else data
        result: Any = source.detach()._set_requires_grad(source.requires_grad)
        result.persistent = persistent
        result._is_buffer = True
        return result


def is_plain(value: Any) -> bool:
    """Whether it is a tensor that is surely neither a parameter, which is of another class, nor a buffer."""
    return type(value) is Tensor and not getattr(value, "_is_buffer", False)


def _as_class(cls: type[Any], data: Tensor, requires_grad: bool) -> Any:
    """`data`, without its history, as an instance of a subclass of Tensor over the same memory."""
    result = data.detach()
    result.__class__ = cls
    if requires_grad or result._requires_grad:
        result._set_requires_grad(requires_grad)
    return result


# Methods of tensors that have no shape yet.
_WITHOUT_SHAPE = frozenset(
    ("requires_grad_", "is_complex", "is_floating_point", "get_device", "size", "detach")
)


class UninitializedTensorMixin(Tensor):
    """A tensor whose shape is not known yet: it has a dtype and a device, and `materialize` gives it the
    rest."""

    cls_to_become: Any = Tensor

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Only what needs no shape can be done with it."""
        check(
            func.__name__ in _WITHOUT_SHAPE,
            f"{func.__name__}: Attempted to use an uninitialized parameter or buffer. It gets its shape from "
            "the first call of its lazy module, or from materialize(shape).",
            ValueError,
        )
        return refuse_overrides(func, types, args, kwargs)

    def materialize(self, shape: Any, device: Any = None, dtype: DType | None = None) -> None:
        """Become a tensor of `shape`, with memory that is not initialised."""
        data = _empty(
            shape,
            device=self.device if device is None else device,
            dtype=self.dtype if dtype is None else dtype,
        )
        self.__class__ = self.cls_to_become
        self.data = data

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """The same in another dtype or on another device, still without a shape."""
        dtype, place, _, _ = _parse_to(args, kwargs)
        made = type(self)(device=place or self.device, dtype=dtype or self.dtype)
        return made._set_requires_grad(self._requires_grad)

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self._requires_grad, str(self.device), self.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            made = type(self)(device=self.device, dtype=self.dtype)
            memo[id(self)] = made._set_requires_grad(self._requires_grad)
        return memo[id(self)]


def parameter_of(tensor: Tensor) -> Parameter:
    return _as_class(Parameter, tensor, tensor.requires_grad)


def is_lazy(param: Any) -> bool:
    """Whether the shape of `param` is still unknown."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape the first call of its lazy module decides.

    >>> weight = nn.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> weight.shape
    rushlight.Size([2, 3])
    """

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: DType | None = None
    ) -> UninitializedParameter:
        return _as_class(cls, _placeholder(device, dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin):
    """A buffer whose shape the first call of its lazy module decides.

    >>> isinstance(nn.UninitializedBuffer(), rl.Tensor)
    True
    """

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        result: UninitializedBuffer = _as_class(cls, _placeholder(device, dtype), requires_grad)
        result.persistent = persistent  # type: ignore[attr-defined]
        result._is_buffer = True  # type: ignore[attr-defined]
        return result


def _placeholder(device: Any, dtype: DType | None) -> Tensor:
    return _empty(0, device=None if device is None else place(device), dtype=dtype or get_default_dtype())
