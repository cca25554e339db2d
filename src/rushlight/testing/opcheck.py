"""`opcheck`: whether an operator keeps what its schema and its registrations promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._api.compile import compile as compile_
from .._library.fake import DataDependentShape
from .._library.operators import Custom, CustomOverload, _flat
from ..core.aten import OpOverload, OpOverloadPacket
from ..core.modes import MODES
from ..core.pytree import flatten
from ..core.resolve import bind
from ..core.tensor import Tensor
from .closeness import assert_close

DEFAULT_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """An operator does not do what it says."""


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = DEFAULT_TESTS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, str]:
    """Run checks on one call of an operator; "SUCCESS" or what is wrong, by the name of the check.

    test_schema                 it writes to what its schema says, and returns nothing of its inputs
    test_autograd_registration  what it computes for tensors that require grad has a derivative of its own
    test_faketensor             its fake kernel gives the shapes, dtypes and strides that it computes
    test_aot_dispatch_dynamic   compiled, it gives the same values and gradients
    """
    if hasattr(op, "_opoverload"):
        op = op._opoverload
    if isinstance(op, OpOverloadPacket):
        names = op.overloads()
        op = getattr(op, "default" if "default" in names else names[0])
    if not isinstance(op, OpOverload):
        raise ValueError(
            f"opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. "
            f"ops.aten.sin.default or a custom_op, got {type(op)}"
        )
    names = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    strange = [name for name in names if name not in _CHECKS]
    if strange:
        raise ValueError(
            f"opcheck: expected test_utils to be subset of {', '.join(_CHECKS)}, not {strange[0]!r}"
        )
    results = {}
    for name in names:
        try:
            _CHECKS[name](op, args, kwargs or {}, {"atol": atol, "rtol": rtol})
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)"
                ) from error
            results[name] = error  # type: ignore[assignment]
    return results


def _copies(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()._set_requires_grad(value.requires_grad)
    if isinstance(value, tuple | list):
        return type(value)([_copies(part) for part in value])
    if isinstance(value, dict):
        return {name: _copies(part) for name, part in value.items()}
    return value


def _check_schema(op: OpOverload, args: Any, kwargs: Any, options: Any) -> None:
    args, kwargs = _copies(args), _copies(kwargs)
    values = bind(op.op, args, kwargs)
    if isinstance(values, str):
        raise TypeError(values)
    written = op.schema.mutable_arguments
    watched = [
        (argument.name, tensor, tensor.detach().clone())
        for i, (argument, value) in enumerate(zip(op.schema.arguments, values, strict=False))
        if i not in written
        for tensor in _flat(value)
        if isinstance(tensor, Tensor)
    ]
    given = [t.storage_object for value in values for t in _flat(value) if isinstance(t, Tensor)]
    with _no_grad():
        result = op(*args, **kwargs)
    for name, tensor, before in watched:
        if not bool((tensor.detach() == before).logical_or(before != before).all()):
            raise RuntimeError(f"Argument {name} is not defined as mutable but was mutated")
    may_alias = any(r.type.alias is not None for r in op.schema.returns)
    for i, output in enumerate(_flat(result)):
        if isinstance(output, Tensor) and not may_alias and any(output.storage_object is s for s in given):
            raise RuntimeError(
                f"An argument of {op.name()} is not defined to alias output {i} but was aliasing"
            )


class _no_grad:
    def __enter__(self) -> None:
        self._before, MODES.grad = MODES.grad, False

    def __exit__(self, *exception: object) -> None:
        MODES.grad = self._before


def _check_autograd(op: OpOverload, args: Any, kwargs: Any, options: Any) -> None:
    leaves, _ = flatten((args, kwargs))
    if not isinstance(op, CustomOverload) or not any(
        isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves
    ):
        return
    custom: Custom = op.custom
    if (
        custom.backward is not None
        or custom.op.derivative is not None
        or custom.definition is not None
        or custom.is_composite()
        or any(key.startswith("Autograd") for key in custom.kernels)
    ):
        return
    outputs = op(*_copies(args), **_copies(kwargs))
    if any(isinstance(output, Tensor) and output.requires_grad for output in _flat(outputs)):
        raise AssertionError(
            f"{op.name()}: at least one output of this operator has requires_grad=True, "
            "because its CPU implementation is made of differentiable operators, but no "
            "autograd formula was registered; use register_autograd, or the key "
            "CompositeImplicitAutograd"
        )


def _check_fake(op: OpOverload, args: Any, kwargs: Any, options: Any) -> None:
    with _no_grad():
        expected = op(*_copies(args), **_copies(kwargs))
        try:
            found = op(*_on_meta(args), **_on_meta(kwargs))
        except DataDependentShape:
            return  # there is nothing to compare
    for real, fake in zip(_flat(expected), _flat(found), strict=True):
        if isinstance(real, Tensor) and (
            real.shape != fake.shape or real.dtype is not fake.dtype or real.strides() != fake.strides()
        ):
            raise AssertionError(
                f"{op.name()}: the fake kernel gives {fake.dtype.name}{list(fake.shape)} "
                f"with strides {fake.strides()}, the kernel {real.dtype.name}"
                f"{list(real.shape)} with strides {real.strides()}"
            )


def _on_meta(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().to("meta")
    if isinstance(value, tuple | list):
        return type(value)([_on_meta(part) for part in value])
    if isinstance(value, dict):
        return {name: _on_meta(part) for name, part in value.items()}
    return value


def _check_compiled(op: OpOverload, args: Any, kwargs: Any, options: Any) -> None:
    runs = []
    for run in (op, compile_(lambda *args, **kwargs: op(*args, **kwargs))):
        given, named = _copies(args), _copies(kwargs)
        outputs = [o for o in _flat(run(*given, **named)) if isinstance(o, Tensor)]
        leaves = [leaf for leaf in flatten((given, named))[0] if isinstance(leaf, Tensor)]
        differentiable = [o for o in outputs if o.requires_grad]
        if differentiable:
            sum((o.sum() for o in differentiable[1:]), differentiable[0].sum()).abs().backward()
        runs.append(
            (
                [o.detach() for o in outputs],
                [leaf.detach() for leaf in leaves],
                [leaf.grad for leaf in leaves],
            )
        )
    tolerances = {name: value for name, value in options.items() if value is not None}
    assert_close(runs[1], runs[0], **tolerances)


_CHECKS: dict[str, Callable[..., None]] = {
    "test_schema": _check_schema,
    "test_autograd_registration": _check_autograd,
    "test_faketensor": _check_fake,
    "test_aot_dispatch_static": _check_compiled,
    "test_aot_dispatch_dynamic": _check_compiled,
}
