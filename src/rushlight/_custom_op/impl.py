"""The former way to define operators: `custom_op` by a schema or an annotated function, then `impl`,
`impl_abstract`, `impl_save_for_backward` and `impl_backward` for what it does."""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable, Iterable
from typing import Any

from .._library import operators
from .._library.fake import get_ctx
from .._library.infer_schema import infer_schema
from .._library.utils import is_functional_schema, parse_namespace
from ..core.errors import check
from ..core.schema import SchemaError, parse_schema
from ..core.tensor import Tensor

__all__ = ["CustomOp", "custom_op", "get_ctx", "get_op", "infer_schema"]

SUPPORTED_DEVICE_TYPE_TO_KEY = {"cpu": "CPU", "cuda": "CUDA"}
RESERVED_NS = {"prim", "prims", "aten", "at", "torch", "pytorch"}
global_registry: dict[str, CustomOp] = {}


def custom_op(qualname: str, manual_schema: str | None = None) -> Callable[..., CustomOp]:
    """A decorator that defines an operator with the schema of a function, which must be of the same name."""

    def define(function: Callable[..., Any]) -> CustomOp:
        check(
            inspect.isfunction(function),
            f"custom_op(...)(func): Expected `func` to be a Python function, got: {type(function)}",
            ValueError,
        )
        namespace, name = parse_namespace(qualname)
        validate_namespace(namespace)
        check(
            function.__name__ == name,
            f"custom_op(qualname='{qualname}', ...)(func): expected `func` to "
            f"have name '{name}' but got '{function.__name__}'. Either change the name of the function or "
            "the name of the operator",
            ValueError,
        )
        text = infer_schema(function, mutates_args=()) if manual_schema is None else manual_schema
        validate_schema(f"{name}{text}")
        if manual_schema is not None:
            validate_function_matches_schema(f"{name}{text}", function)
        return make(namespace, name, text)

    return define


def make(namespace: str, name: str, text: str) -> CustomOp:
    made = CustomOp(namespace, name, operators.define(f"{namespace}::{name}", text), _private=True)
    global_registry[f"{namespace}::{name}"] = made
    return made


def get_op(qualname: str) -> Any:
    """The overload that a program defined under this name."""
    custom = operators.find(qualname)
    return operators.CustomOverload(custom) if custom.definition is None else custom.definition


def validate_namespace(namespace: str) -> None:
    if "." in namespace:
        raise ValueError(f"custom_op(..., ns={namespace!r}): expected ns to not contain any .")
    if namespace in RESERVED_NS:
        raise ValueError(
            f"custom_op(..., ns='{namespace}'): '{namespace}' is a reserved namespace, please "
            "choose something else."
        )


def validate_schema(text: str) -> None:
    try:
        schema = parse_schema(text)
    except SchemaError as error:
        raise AssertionError(f"Invalid function schema: {text}: {error}") from None
    check(
        is_functional_schema(schema),
        "custom_op only supports functional operators (ops that do not "
        f"mutate any inputs, do not return views of the inputs, and have at least one return). Got: {text}",
        ValueError,
    )
    check(
        "self" not in schema.argument_names,
        f"custom_op does not support arguments named 'self': {text}",
        ValueError,
    )


def validate_function_matches_schema(text: str, function: Callable[..., Any]) -> None:
    schema = parse_schema(text)
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        raise ValueError(
            f"custom_op(..., manual_schema)(func): positional-only args, varargs, and kwargs "
            f"are not supported; got {inspect.signature(function)}"
        )
    if any(p.annotation is not inspect.Parameter.empty for p in parameters):
        raise ValueError(
            "custom_op(..., manual_schema)(func): When passing in a manual schema, we expect "
            "`func` to have no type annotations to avoid ambiguity"
        )
    if any(p.default is not inspect.Parameter.empty for p in parameters):
        raise ValueError(
            "custom_op(..., manual_schema)(func): default arguments are not supported; got "
            f"{inspect.signature(function)}"
        )
    for keyword_only, wanted in ((False, schema.positional), (True, schema.keyword_only)):
        given = [p.name for p in parameters if (p.kind is p.KEYWORD_ONLY) is keyword_only]
        if given != [a.name for a in wanted]:
            raise ValueError(
                "custom_op(..., manual_schema)(func): When passing in a manual schema, we "
                f"expect `func`'s signature to match `manual_schema`; got {schema} and "
                f"{inspect.signature(function)}"
            )


class CustomOp:
    """An operator that was defined this way."""

    def __init__(self, namespace: Any, name: Any, custom: Any, *rest: Any, _private: bool = False) -> None:
        check(
            _private,
            "The CustomOp constructor is private and we do not guarantee BC for it. Please use "
            "custom_op(...) to create a CustomOp object",
        )
        self._namespace, self._name, self._custom = namespace, name, custom
        self._qualname = f"{namespace}::{name}"
        custom.autograd_required = True

    def _destroy(self) -> None:
        operators.destroy(self._qualname)
        global_registry.pop(self._qualname, None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return get_op(self._qualname)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOp(op='{self._qualname}')>"

    def impl(self, device_types: str | Iterable[str], _stacklevel: int = 2) -> Callable[..., Any]:
        return lambda function: set_kernel(self._custom, device_types, function)

    def impl_abstract(self, _stacklevel: int = 2) -> Callable[..., Any]:
        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._custom.fake = function
            return function

        return register

    def impl_save_for_backward(self, _stacklevel: int = 2) -> Callable[..., Any]:
        return lambda function: set_save(self._custom, function)

    def impl_backward(self, output_differentiability: Any = None, _stacklevel: int = 2) -> Callable[..., Any]:
        return lambda function: set_backward(self._custom, function, output_differentiability)


def set_kernel(custom: Any, device_types: str | Iterable[str], function: Callable[..., Any]) -> Any:
    """A kernel for some devices."""
    named = [device_types] if isinstance(device_types, str) else list(device_types)
    for device in named:
        check(
            device in SUPPORTED_DEVICE_TYPE_TO_KEY,
            f"CustomOp.impl(device_types=[{device!r}, ...]): we "
            f"only support device_type in {list(SUPPORTED_DEVICE_TYPE_TO_KEY)}",
            ValueError,
        )
    for device in named:
        key = SUPPORTED_DEVICE_TYPE_TO_KEY[device]
        for known in (key, "CompositeImplicitAutograd", "CompositeExplicitAutograd"):
            check(
                known not in custom.kernels,
                f"impl(...): the operator {custom.op.name} already has an "
                f"implementation for this device type via a pre-existing registration to {known}",
            )
    for device in named:
        custom.kernels[SUPPORTED_DEVICE_TYPE_TO_KEY[device]] = function
    return function


def _check_differentiable(custom: Any) -> None:
    schema = custom.op.schema
    what = f"Cannot use torch._custom_ops APIs to register backward formula for the operator {custom.op.name}"
    check(bool(schema.returns), f"{what}, which has no returns")
    check(not schema.mutable_arguments, f"{what}: it is a non-functional operator, {schema}")
    check(
        all(r.type.alias is None for r in schema.returns),
        f"{what}: it is an operator that returns views, {schema}",
    )
    for key in ("CompositeImplicitAutograd", "Autograd", "AutogradCPU", "AutogradCUDA"):
        check(
            key not in custom.kernels,
            f"{what}: it already has an implementation at {key}, which decides how it is differentiated",
        )


def set_save(custom: Any, function: Callable[..., Any]) -> Any:
    """What the backward of an operator needs: function(inputs, output), with the inputs by name."""
    _check_differentiable(custom)
    names = custom.op.schema.argument_names
    inputs_of = namedtuple(f"{custom.op.schema.name}_args", names)  # type: ignore[misc]

    def setup_context(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None) -> None:
        differentiable = getattr(custom, "output_differentiability", None)
        outputs = output if isinstance(output, tuple) and len(custom.op.schema.returns) > 1 else (output,)
        if differentiable is not None:
            without = []
            for flag, part in zip(differentiable, outputs, strict=True):
                if flag:
                    check(
                        all(isinstance(t, Tensor) for t in _leaves(part)),
                        "With output_differentiability="
                        f"{differentiable}, an output was marked as differentiable that is not a Tensor",
                    )
                else:
                    without += [t for t in _leaves(part) if isinstance(t, Tensor)]
            ctx.mark_non_differentiable(*without)
        values = [*inputs, *(keyword_only_inputs or {}).values()]
        saved = function(inputs_of(*values), output)
        ctx.set_materialize_grads(True)
        ctx._saved_by_name = saved

    custom.setup_context = setup_context
    custom.functions.clear()
    return function


def _leaves(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in _leaves(part)] if isinstance(value, list | tuple) else [value]


def set_backward(custom: Any, function: Callable[..., Any], output_differentiability: Any = None) -> Any:
    """The backward of an operator: function(ctx, saved, *grads) gives the gradients of its tensors."""
    _check_differentiable(custom)
    if output_differentiability is not None:
        returns = custom.op.schema.returns
        check(
            isinstance(output_differentiability, list) and len(output_differentiability) == len(returns),
            f"impl_backward(output_differentiability): expected output_differentiability to be a list of "
            f"{len(returns)} bools, one for each output, got {output_differentiability}",
        )
    custom.output_differentiability = output_differentiability
    tensors = [a for a in custom.op.schema.arguments if a.type.base == "Tensor"]

    def backward(ctx: Any, *grads: Any) -> Any:
        found = function(ctx, ctx._saved_by_name, *grads)
        _check_gradients(custom, tensors, found)
        return tuple([found.get(a.name) for a in custom.op.schema.positional])

    custom.backward, custom.saves_by_name = backward, True
    custom.functions.clear()
    return function


def _check_gradients(custom: Any, tensors: list[Any], found: Any) -> None:
    what = f"The backward of {custom.op.name}"
    check(
        isinstance(found, dict),
        f"{what}: expected the output of its function to be a dict, got {type(found)}",
    )
    names = {a.name for a in tensors}
    strange = set(found) - names - set(custom.op.schema.argument_names)
    others = set(found) & set(custom.op.schema.argument_names) - names
    check(not others, f"{what}: its result has gradients for {others}, which are of non-Tensor-like types")
    check(
        set(found) == names and not strange,
        f"{what}: expected the dict to have keys {names}, one for each tensor, but got {set(found)}",
    )
    for argument in tensors:
        grad = found[argument.name]
        if not argument.type.is_list:
            check(
                grad is None or isinstance(grad, Tensor),
                f"{what}: expected either None or a Tensor for {argument.name}, got a {type(grad).__name__}",
            )
            continue
        check(
            isinstance(grad, list | tuple),
            f"{what}: expected a list of gradients for {argument.name}, got a {type(grad).__name__}",
        )
        for part in grad:
            check(
                part is None or isinstance(part, Tensor),
                f"{what}: expected None or Tensor in the list of "
                f"gradients for {argument.name}, got a {type(part).__name__}",
            )
