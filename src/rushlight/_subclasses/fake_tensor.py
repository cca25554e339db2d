"""Tensors without data that say they are on a device: what a program would compute, by shapes alone.

Inside of a `FakeTensorMode` operators run on the meta device and their results are `FakeTensor`s, which have
shape, strides and dtype and claim the device that they would be on. Reading a value is an error.
"""

from __future__ import annotations

from typing import Any

from ..core.aten import OpOverload
from ..core.modes import MODES
from ..core.overrides import modes_replaced
from ..core.python_dispatch import pop_mode, push_mode
from ..core.pytree import flatten, unflatten
from ..core.tensor import CPU, Tensor

__all__ = ["DataDependentOutputException", "FakeTensor", "FakeTensorMode", "is_fake"]


class DataDependentOutputException(RuntimeError):
    """A value was asked for that only data could give."""

    def __init__(self, func: Any) -> None:
        super().__init__(f"{func} reads a value of a FakeTensor, which has none")
        self.func = func


class FakeTensor(Tensor):
    """A tensor without data; `fake_mode` made it."""

    fake_mode: FakeTensorMode
    _meta: Tensor
    _claimed: Any

    @staticmethod
    def __new__(cls, fake_mode: FakeTensorMode, elem: Tensor, device: Any) -> FakeTensor:
        made: FakeTensor = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            elem.shape,
            strides=elem.strides(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            device=device,
            requires_grad=elem.requires_grad,
        )
        made.fake_mode, made._meta, made._claimed = fake_mode, elem.detach(), device
        return made

    def __init__(self, *args: Any) -> None:
        pass

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves, _ = flatten((args, kwargs or {}))
        mode = next(leaf.fake_mode for leaf in leaves if isinstance(leaf, FakeTensor))
        return mode.__torch_dispatch__(func, types, args, kwargs)

    def __repr__(self) -> str:
        return f"FakeTensor(..., size={tuple(self.shape)}, dtype={self.dtype!r})"


class FakeTensorMode:
    """Inside of it, operators make FakeTensors."""

    def __init__(self, *, allow_non_fake_inputs: bool = True, shape_env: Any = None) -> None:
        if shape_env is not None:
            raise NotImplementedError("FakeTensorMode: there are no symbolic shapes; shape_env must be None")
        self.allow_non_fake_inputs = allow_non_fake_inputs

    def __enter__(self) -> FakeTensorMode:
        push_mode(self)
        return self

    def __exit__(self, *exception: object) -> None:
        pop_mode()

    def from_tensor(self, tensor: Tensor) -> FakeTensor:
        """A tensor like `tensor`, without its data."""
        if isinstance(tensor, FakeTensor):
            return tensor
        with modes_replaced(()):
            bare = tensor.detach().to("meta").requires_grad_(tensor.requires_grad)
        return FakeTensor(self, bare, tensor.device)

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves, structure = flatten((args, kwargs or {}))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if func.schema.name in ("_local_scalar_dense", "item"):
            raise DataDependentOutputException(func)
        bare = [
            leaf._meta
            if isinstance(leaf, FakeTensor)
            else leaf.detach().to("meta")
            if isinstance(leaf, Tensor)
            else leaf
            for leaf in leaves
        ]
        given, named = unflatten(bare, structure)
        device = next((t.device for t in tensors), CPU)
        if "device" in func.schema.argument_names:
            device = named.get("device") or device
            named["device"] = "meta"
        with modes_replaced(()):
            results = func(*given, **named)
        written = {id(leaf._meta): leaf for leaf in tensors if isinstance(leaf, FakeTensor)}

        def wrap(value: Any) -> Any:
            if isinstance(value, Tensor):
                same = written.get(id(value))
                return FakeTensor(self, value, device) if same is None else same
            if isinstance(value, tuple | list):
                return type(value)([wrap(part) for part in value])
            return value

        return wrap(results)


def is_fake(x: object) -> bool:
    """Whether an object is a tensor without data that a FakeTensorMode made."""
    return isinstance(x, FakeTensor)


def unset_fake_temporarily() -> Any:
    """A context without open modes."""
    return modes_replaced(tuple(mode for mode in MODES.dispatchers if not isinstance(mode, FakeTensorMode)))
