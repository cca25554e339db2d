"""`custom_op`: an operator made of a Python function, its kernel; the object it returns is told the rest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ..core.aten import OpOverload, find
from ..core.errors import check
from ..core.schema import parse_schema
from . import operators
from .infer_schema import infer_schema
from .stages import register_torch_dispatch, set_autograd, set_batched, source

_log = logging.getLogger("rushlight.library")


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """An operator "namespace::name" whose kernel is `fn`; without `fn`, a decorator.

    `mutates_args` names the arguments that it writes to; its outputs must not be its inputs.

    >>> @rl.library.custom_op("docs::twice", mutates_args=())
    ... def twice(x: rl.Tensor) -> rl.Tensor:
    ...     return rl.from_numpy(x.numpy() * 2)
    >>> twice(rl.ones(2))
    tensor([2., 2.])
    """
    if fn is None:
        return lambda function: custom_op(
            name, function, mutates_args=mutates_args, device_types=device_types, schema=schema, tags=tags
        )
    text = infer_schema(fn, mutates_args=mutates_args) if schema is None else schema
    namespace, _, short = name.partition("::")
    check(bool(short), f"custom_op: the name must be 'namespace::name', not {name!r}", ValueError)
    if schema is not None:
        found = parse_schema(f"{name}{text}")
        written = {found.arguments[i].name for i in found.mutable_arguments}
        wanted = written if mutates_args == "unknown" else set(mutates_args)
        check(
            written == wanted,
            f"custom_op: mutates_args says {wanted or '{}'}, but according to its "
            f"schema {text} the op mutates {written or '{}'}",
            ValueError,
        )
    return CustomOpDef(namespace, short, text, fn, device_types, tags)


class CustomOpDef:
    """A custom operator: call it, or tell it more about itself.

    >>> @rl.library.custom_op("docs::thrice", mutates_args=())
    ... def thrice(x: rl.Tensor) -> rl.Tensor:
    ...     return rl.from_numpy(x.numpy() * 3)
    >>> isinstance(thrice, rl.library.CustomOpDef)
    True
    """

    def __init__(
        self,
        namespace: str,
        name: str,
        schema: str,
        fn: Callable[..., Any],
        device_types: Any = None,
        tags: Any = None,
    ) -> None:
        self._namespace, self._name, self._schema = namespace, name, schema
        self._init_fn = fn
        self._qualname = f"{namespace}::{name}"
        operators.destroy(self._qualname)
        self._custom = operators.define(self._qualname, schema, tags or (), owner=self)
        schema_of = self._custom.op.schema
        for argument in schema_of.keyword_only:
            if argument.type.base == "Tensor":
                operators.destroy(self._qualname)
                raise NotImplementedError(
                    f"custom_op: kwarg-only Tensor args are not supported: {self._qualname}{schema}"
                )
        self._kernels: dict[str | None, Callable[..., Any]] = {}
        try:
            self.register_kernel(device_types, fn)
        except ValueError:
            operators.destroy(self._qualname)
            raise
        self.__name__ = name

    @property
    def _opoverload(self) -> OpOverload:
        short, _, overload = self._name.partition(".")
        found: OpOverload = find(self._namespace, short, overload or "default")
        return found

    @property
    def default(self) -> OpOverload:
        return self._opoverload

    @property
    def _tensor_arguments(self) -> list[str]:
        return [a.name for a in self._custom.op.schema.arguments if a.type.base == "Tensor"]

    def where(self) -> str:
        """The module that the kernel was written in."""
        module: str = self._init_fn.__module__
        return module

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """What the operator does with tensors without data: outputs of the right shapes."""
        self._custom.fake = fn
        self._custom.fake_source = source(fn)
        return fn

    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Another kernel, for some devices; without `device_types` for all that have none of their own."""
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        named = (
            [None]
            if device_types is None
            else [device_types]
            if isinstance(device_types, str)
            else list(device_types)
        )
        if named != [None] and not self._tensor_arguments:
            check(
                "device" in self._custom.op.schema.argument_names,
                "Functions without tensor inputs are required to have a `device: torch.device` argument",
                ValueError,
            )
        for device in named:
            self._kernels[device] = fn
        self._update()
        return fn

    def _update(self) -> None:
        """Let the kernels in force be those of the operator."""
        custom = self._custom
        chosen = self._kernels.get("cpu") if "cpu" not in custom.disabled else None
        chosen = chosen or self._kernels.get(None)
        custom.kernels.pop("CPU", None)
        if chosen is not None:
            custom.kernels["CPU"] = chosen

    @contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """A context in which the kernel of a device is used, or is not."""
        disabled = self._custom.disabled
        before = set(disabled)
        if device_type not in self._kernels:
            _log.warning(
                "set_kernel_enabled: %s: no kernel was registered for this device type: %s",
                self._qualname,
                device_type,
            )
        elif enabled is (device_type not in disabled):
            _log.warning(
                "set_kernel_enabled: the kernel of %s for %s is already %s",
                self._qualname,
                device_type,
                "enabled" if enabled else "disabled",
            )
        if enabled:
            disabled.discard(device_type)
        elif device_type in self._kernels:
            disabled.add(device_type)
        self._update()
        try:
            yield
        finally:
            self._custom.disabled = before
            self._update()

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """backward(ctx, *grads) gives the gradients of the inputs; setup_context(ctx, inputs, output) saves
        what it needs."""
        set_autograd(self._custom, backward, setup_context)

    def register_vmap(self, func: Callable[..., Any] | None = None, /) -> Any:
        """func(info, in_dims, *args) gives the outputs for a batch, and along which dimensions they lie."""
        if func is None:
            return self.register_vmap
        set_batched(self._custom, func)
        return func

    def register_torch_dispatch(
        self, torch_dispatch_class: Any, fn: Callable[..., Any] | None = None, /
    ) -> Any:
        return register_torch_dispatch(self, torch_dispatch_class, fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        names = self._custom.op.schema.argument_names
        if not self._tensor_arguments and "device" in names:
            at = names.index("device")
            device = str(args[at] if at < len(args) else kwargs.get("device", "cpu")).partition(":")[0]
            check(
                device in self._kernels or None in self._kernels,
                f"{self._name} does not have a kernel registered for {device}",
            )
        return self._custom(self._opoverload.bound(args, kwargs))

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"
