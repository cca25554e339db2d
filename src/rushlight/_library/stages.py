"""What a program adds to an operator of its own: derivative, batching rule, decomposition, lowering.

In: an operator (by name, overload or CustomOpDef) and a rule. Out: the stage of its OpDef, attached by the
functions that attach those of the package's own operators (`derivative`, `batching`, `decomposition`,
`lowering`), which check the names that a rule asks for and refuse a second one. `set_autograd` and
`set_batched` take the rules in PyTorch's form instead. A rule that is registered with a library goes when the
library does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..autograd.function_vmap import VmapInfo
from ..batching.declare import Call, Generic, batching, expand_batch
from ..core.aten import OpOverload, OpOverloadPacket
from ..core.dispatch import run_name
from ..core.errors import RegistrationError, check
from ..core.lazy import LazyModule
from ..core.python_dispatch import RULES
from ..core.registry import LIBRARY, REGISTRY, OpDef, decomposition
from ..derivatives.declare import derivative
from . import operators
from .differentiation import flatten, inputs_of
from .operators import Custom

_lowering = LazyModule("rushlight.lowering.declare")
_checked = LazyModule("rushlight.lowering.declare_checked")


def source(fn: Callable[..., Any]) -> str:
    """Where a function was written, as "file:line"."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(fn)


def own_operator(op: Any) -> OpDef:
    """The operator of a program that `op` means; one of the package is refused."""
    if hasattr(op, "_custom"):
        op = op._custom.op
    elif isinstance(op, OpOverloadPacket):
        op = getattr(op, op.overloads()[0])
    if isinstance(op, OpOverload):
        op = op.op
    if isinstance(op, str):
        name = op.removesuffix(".default").removeprefix("aten::")
        op = LIBRARY.ops.get(name) or REGISTRY.ops.get(name)
        check(op is not None, f"operator {name} does not exist; custom_op, pointwise or define makes one")
    found: OpDef = op
    if REGISTRY.ops.get(found.name) is found:
        raise RegistrationError(f"{found.name} is an operator of the package, whose rules are fixed")
    return found


def _attach(op: Any, stage: str, lib: Any, attach: Callable[[str], Any]) -> None:
    found = own_operator(op)
    custom = operators.CUSTOM.get(found.name)
    if custom is not None:
        check(
            not custom.written,
            f"{found.name} writes to its arguments ({found.schema}): only an operator that writes to none "
            f"takes a {stage}",
        )
        check(
            not custom.is_composite(),
            f"{found.name} has a CompositeImplicitAutograd kernel: every stage runs that, "
            f"so that a {stage} would never be used",
        )
    attach(found.name)
    if lib is not None:
        lib._undo.append(functools.partial(setattr, found, stage, None))


def register_derivative(op: Any, /, *rest: Any, lib: Any = None, **formulas: Any) -> None:
    """The derivative of an operator, as formulas: `argument=formula` for the gradient of an argument,
    `result=` for the tangent (a formula, AUTO_LINEAR or AUTO_ELEMENTWISE).

    A formula names what it needs: grad, arguments, result, self_shape. In `rest`, NOT_DIFFERENTIABLE for the
    whole operator, or ("a", "b"), formula for several gradients at once.

    >>> @rl.library.pointwise("docs::double(Tensor self) -> Tensor")
    ... def double(ops, self):
    ...     return ops.add(self, self)
    >>> rl.library.register_derivative(double, self=lambda grad: grad * 2)
    >>> rl.func.grad(lambda x: double(x).sum())(rl.ones(2))
    tensor([2., 2.])
    """
    custom = operators.CUSTOM.get(own_operator(op).name)
    check(
        custom is None or custom.backward is None,
        f"{op} already has a derivative, from register_autograd",
        RegistrationError,
    )
    _attach(op, "derivative", lib, lambda name: derivative(name, *rest, **formulas))


def register_decomposition(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """What an operator is in terms of simpler ones: compiled programs run these instead, so does an operator
    without a kernel, and one without a fake kernel gets its shapes from them.

    >>> @rl.library.custom_op("docs::plus_one", mutates_args=())
    ... def plus_one(x: rl.Tensor) -> rl.Tensor:
    ...     return rl.from_numpy(x.numpy() + 1)
    >>> _ = plus_one.register_fake(rl.empty_like)
    >>> _ = rl.library.register_decomposition(plus_one, lambda x: x + 1)
    >>> rl.compile(plus_one, fullgraph=True)(rl.ones(2))
    tensor([2., 2.])
    """
    if func is None:
        return lambda function: register_decomposition(op, function, lib=lib)
    _attach(op, "decomposition", lib, lambda name: decomposition(name)(func))
    return func


def register_lowering(op: Any, rule: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """The loops of an operator in a compiled program.

    The rule names the arguments it needs, tensors as `Lowered` (a shape, a dtype, and an element for each
    index), and returns a `Lowered`, or a tuple of them.

    >>> @rl.library.custom_op("docs::reverse", mutates_args=())
    ... def reverse(x: rl.Tensor) -> rl.Tensor:
    ...     return x.flip(0)
    >>> _ = reverse.register_fake(rl.empty_like)
    >>> @rl.library.register_lowering(reverse)
    ... def reversed_loop(x):
    ...     return x.reindex(x.shape, lambda i: [x.shape[0] - 1 - i[0], *i[1:]])
    >>> rl.compile(reverse, fullgraph=True)(rl.arange(3.0))
    tensor([2., 1., 0.])
    """
    if rule is None:
        return lambda function: register_lowering(op, function, lib=lib)
    _attach(op, "lowering", lib, lambda name: _lowering.lowering(name)(rule))
    found = own_operator(op)
    found.lowering = _checked.checked(found, found.lowering)
    return rule


def register_torch_dispatch(
    op: Any, torch_dispatch_class: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Any:
    """What a class or mode with `__torch_dispatch__` does with one operator: func(cls or mode, func, types,
    args, kwargs).

    >>> from rushlight.utils._python_dispatch import TorchDispatchMode
    >>> class Watch(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         return func(*args, **(kwargs or {}))
    >>> @rl.library.custom_op("docs::seventh", mutates_args=())
    ... def seventh(x: rl.Tensor) -> rl.Tensor:
    ...     return x / 7
    >>> @rl.library.register_torch_dispatch("docs::seventh", Watch)
    ... def _(mode, func, types, args, kwargs):
    ...     return func(*args) + 1
    >>> with Watch():
    ...     seventh(rl.tensor([7.0]))
    tensor([2.])
    """
    if func is None:
        return lambda function: register_torch_dispatch(op, torch_dispatch_class, function, lib=lib)
    place = (operators.find(op).op, torch_dispatch_class)
    RULES[place] = func
    if lib is not None:
        lib._undo.append(functools.partial(RULES.pop, place, None))
    return func


# Rules in PyTorch's form.


def set_autograd(
    custom: Custom, backward: Callable[..., Any], setup_context: Callable[..., Any] | None
) -> None:
    schema = custom.op.schema
    check(
        not custom.written and not any(r.type.alias for r in schema.returns),
        f"Cannot register autograd formula for non-functional operator {custom.op.name} with schema "
        f"{schema}: it writes to its arguments, or returns them",
    )
    check(
        custom.op.derivative is None,
        f"{custom.op.name} already has a derivative, from register_derivative",
        RegistrationError,
    )
    _refuse_keyword_tensors(custom, "register_autograd")
    custom.backward, custom.setup_context = backward, setup_context
    custom.functions.clear()


def set_batched(custom: Custom, func: Callable[..., Any]) -> None:
    """func(info, in_dims, *args) gives the outputs for a batch, and along which dimensions they lie."""
    _refuse_keyword_tensors(custom, "register_vmap")
    custom.batched = func
    custom.functions.clear()
    custom.op.batching = None
    batching(custom.op.name, _ByVmap(custom))


def _refuse_keyword_tensors(custom: Custom, what: str) -> None:
    for argument in custom.op.schema.keyword_only:
        if argument.type.base == "Tensor":
            raise NotImplementedError(f"{what}: kwarg-only Tensor args are not supported: {custom.op.schema}")


class _ByVmap(Generic):
    """A batching rule in PyTorch's form as one of the registry's."""

    def __init__(self, custom: Custom) -> None:
        self.custom = custom

    def apply(self, request: Call) -> Any:
        assert self.custom.batched is not None
        dims = [_dims(batched) for batched in request.batched]
        positional, keywords = inputs_of(self.custom, request.args)
        in_dims, _ = inputs_of(self.custom, dims)
        info = VmapInfo(request.batch, request.randomness)
        found = self.custom.batched(info, in_dims, *positional, **keywords)
        check(
            isinstance(found, tuple) and len(found) == 2,
            f"the vmap rule of {self.custom.op.name} must return the outputs and their batch dimensions",
        )
        outputs, out_dims = found
        if not isinstance(outputs, tuple | list):
            return _front(outputs, out_dims, request.batch)
        each, _ = flatten(out_dims)
        each = each if len(each) == len(outputs) else each * len(outputs)
        return tuple([_front(o, d, request.batch) for o, d in zip(outputs, each, strict=True)])


def _dims(batched: Any) -> Any:
    if isinstance(batched, tuple):
        return [_dims(one) for one in batched]
    return 0 if batched else None


def _front(tensor: Any, dim: int | None, batch: int) -> Any:
    """An output with its batch dimension in front."""
    if dim is None:
        return expand_batch(tensor, batch)
    if dim % tensor.ndim == 0:
        return tensor
    dim %= tensor.ndim
    return run_name("permute", tensor, (dim, *[d for d in range(tensor.ndim) if d != dim]))
