"""Operators of one's own: `custom_op` makes a function that the rest of the system takes for one operator,
`Library` defines operators by their schemas and gives them kernels by dispatch key.

A custom operator has a kernel, which sees plain tensors without history, and may have a fake kernel (for
tensors without data; with it the operator stays inside of compiled programs), a derivative and a batching
rule. It is found as `ops.<namespace>.<name>` as well.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from ._library import operators
from ._library.custom_ops import CustomOpDef, custom_op
from ._library.fake import get_ctx
from ._library.infer_schema import infer_schema
from ._library.operators import DEVICE_KEYS, KEYS, Custom
from ._library.stages import (
    register_decomposition,
    register_derivative,
    register_lowering,
    register_torch_dispatch,
    set_autograd,
    set_batched,
    source,
)
from .core import declare_pointwise
from .core.aten import NOT_LOADED, OpOverload, OpOverloadPacket, Tag, find, namespace
from .core.dispatch import OVERRIDDEN, run_by
from .core.errors import check
from .core.lazy import LazyModule
from .core.promotion import Promotion
from .core.python_dispatch import as_called
from .core.registry import REGISTRY
from .core.schema import parse_schema
from .derivatives.declare import AUTO_ELEMENTWISE, AUTO_LINEAR, NOT_DIFFERENTIABLE
from .loops.nest import Combine

__all__ = [
    "AUTO_ELEMENTWISE",
    "AUTO_LINEAR",
    "NOT_DIFFERENTIABLE",
    "Combine",
    "CustomOpDef",
    "Library",
    "Promotion",
    "Tag",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "pointwise",
    "register_autograd",
    "register_decomposition",
    "register_derivative",
    "register_fake",
    "register_kernel",
    "register_lowering",
    "register_torch_dispatch",
    "register_vmap",
]

_DEVICES = ", ".join(DEVICE_KEYS)
_opcheck = LazyModule("rushlight.testing.opcheck")


def fallthrough_kernel() -> None:
    """Given to `Library.impl`: the operator has nothing to do at that key.

    >>> rl.library.fallthrough_kernel.__name__
    'fallthrough_kernel'
    """
    raise NotImplementedError("fallthrough_kernel() should never be called: it stands for no kernel")


def opcheck(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, **options: Any
) -> dict[str, str]:
    """Whether an operator keeps what its schema and registrations promise: see `testing.opcheck`.

    >>> @rl.library.custom_op("docs::negated", mutates_args=())
    ... def negated(x: rl.Tensor) -> rl.Tensor:
    ...     return rl.from_numpy(-x.numpy())
    >>> _ = negated.register_fake(rl.empty_like)
    >>> set(rl.library.opcheck(negated, (rl.ones(2),)).values())
    {'SUCCESS'}
    """
    found: dict[str, str] = _opcheck.opcheck(op, args, kwargs, **options)
    return found


# Operators by their scalar bodies.


def pointwise(*schemas: str, lib: Library | None = None, **options: Any) -> Callable[..., OpOverloadPacket]:
    """Declare an elementwise operator "namespace::name(Tensor self) -> Tensor" by its scalar body.

    A decorator: `body(ops, *arguments)` computes one element with the instructions of `ops`. It is the eager
    kernel, the shape rule, the batching rule and the loops of compiled programs at once. `options` are those
    of the package's own elementwise operators (core/declare_pointwise.py): promote, dtypes, parameters, check.

    >>> @rl.library.pointwise("docs::cube(Tensor self) -> Tensor")
    ... def cube(ops, self):
    ...     return ops.mul(self, ops.mul(self, self))
    >>> cube(rl.tensor([2.0]))
    tensor([8.])
    """
    parsed = [parse_schema(text) for text in schemas]
    for schema in parsed:
        check(
            schema.namespace not in ("", "aten"),
            f"pointwise: the name must be 'namespace::name', not {schema.full_name!r}",
            ValueError,
        )

    def declare(body: Callable[..., Any]) -> OpOverloadPacket:
        declare_pointwise.pointwise(*schemas, **options)(body)
        for schema in parsed:
            namespace(schema.namespace).forget(schema.name)
            if lib is not None:
                lib._op_defs.add(schema.full_name)
        packet: OpOverloadPacket = find(parsed[0].namespace, parsed[0].name)
        return packet

    return declare


# Operators by their schemas.


class Library:
    """Definitions of operators of a namespace, and kernels for them; they go when the library does.

    `kind` is "DEF" for the one library that owns a namespace, "FRAGMENT" for further definitions, "IMPL" for
    kernels of operators that others define, `dispatch_key` the key that is meant where none is said.

    >>> mine = rl.library.Library("docs_library", "FRAGMENT")
    >>> mine.define("half(Tensor x) -> Tensor")
    'half'
    >>> mine.impl("half", lambda x: x / 2)
    >>> rl.ops.docs_library.half(rl.ones(2))
    tensor([0.5000, 0.5000])
    """

    _owned: ClassVar[set[str]] = set()

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        check(kind in ("IMPL", "DEF", "FRAGMENT"), f"Unsupported kind: {kind}", ValueError)
        check(
            ns not in ("prim",) or kind == "IMPL",
            f"{ns} is a reserved namespace. Please try creating a library with another name.",
            ValueError,
        )
        if kind == "DEF":
            check(
                ns not in Library._owned,
                f"Only a single library of kind DEF can be used to register the "
                f"namespace {ns}; use the kind FRAGMENT for further definitions",
            )
            Library._owned.add(ns)
        self.ns, self.kind = ns, kind
        self.dispatch_key = _key(dispatch_key)
        self._op_defs: set[str] = set()
        self._undo: list[Callable[[], None]] = []
        self._finalizer = weakref.finalize(
            self, _close, self._op_defs, self._undo, ns if kind == "DEF" else None
        )

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """A new operator; gives its name."""
        check(self.kind != "IMPL", f"{self!r} cannot define operators: its kind is IMPL")
        check(
            alias_analysis in ("", "FROM_SCHEMA", "CONSERVATIVE"),
            f"Invalid alias_analysis type {alias_analysis}",
        )
        name, _, rest = schema.partition("(")
        name = name.strip()
        short = name.rpartition("::")[2]
        operators.define(f"{self.ns}::{short}", f"({rest}", tags)
        self._op_defs.add(f"{self.ns}::{short}")
        return short

    def impl(
        self,
        op_name: str | OpOverload,
        fn: Callable[..., Any],
        dispatch_key: Any = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """A kernel for an operator at a dispatch key."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        check(
            not with_keyset,
            "Library.impl: there are no sets of dispatch keys for a kernel to be given",
            NotImplementedError,
        )
        key = _key(dispatch_key) or self.dispatch_key or "CompositeImplicitAutograd"
        if isinstance(op_name, OpOverload):
            name = op_name.name().partition("::")[2]
        else:
            name = op_name.partition("::")[2] or op_name
            namespace = op_name.partition("::")[0] if "::" in op_name else self.ns
            check(namespace == self.ns, f"{op_name}: {self!r} has kernels for the namespace {self.ns} only")
        full = f"{self.ns}::{name.removesuffix('.default')}"
        if fn is fallthrough_kernel:
            return
        custom = operators.CUSTOM.get(full)
        if custom is None:
            if self.ns == "aten" and name.removesuffix(".default") in REGISTRY:
                self._override(REGISTRY[name.removesuffix(".default")], fn, key)
                return
            raise RuntimeError(f"impl: there is no operator {full} to give a kernel to; define it first")
        known = custom.kernels.get(key)
        if known is not None and not allow_override:
            raise RuntimeError(
                "This is not allowed since there's already a kernel registered from python overriding "
                f"{name}'s behavior for {key} dispatch key and {self.ns} namespace."
            )
        if key == "Meta" and custom.fake is not None:
            raise RuntimeError(
                f"We should not register a meta kernel directly to the operator {full}: it "
                f"has a fake kernel already, from {custom.fake_source}"
            )
        custom.kernels[key] = fn
        self._undo.append(lambda: _restore(custom, key, fn, known))

    def _override(self, op: Any, fn: Callable[..., Any], key: str) -> None:
        """Run an operator of the package by another kernel."""
        check(
            key == "CPU",
            f"impl: an operator of the package can be given another kernel at the key CPU, not {key}",
            NotImplementedError,
        )
        former = op.own_run

        def run(op: Any, args: Any) -> Any:
            positional, keywords = as_called(op.schema, args)
            return fn(*positional, **keywords)

        def undo() -> None:
            run_by(op, former)
            OVERRIDDEN.remove(op)

        run_by(op, run)
        OVERRIDDEN.append(op)
        self._undo.append(undo)

    def fallback(self, fn: Callable[..., Any], dispatch_key: Any = "", *, with_keyset: bool = False) -> None:
        raise NotImplementedError(
            "Library.fallback: there is no kernel for all operators of a dispatch key; "
            "a TorchDispatchMode is given every operator"
        )

    def _register_fake(
        self, op_name: str, fn: Callable[..., Any], _stacklevel: int = 1, *, allow_override: bool = False
    ) -> None:
        register_fake(f"{self.ns}::{op_name}", fn, lib=self, allow_override=allow_override)

    def _register_torch_dispatch_rule(
        self, op_name: str, torch_dispatch_class: type, fn: Callable[..., Any]
    ) -> None:
        register_torch_dispatch(f"{self.ns}::{op_name}", torch_dispatch_class, fn, lib=self)

    def _destroy(self) -> None:
        """Take back all definitions and kernels."""
        self._finalizer()
        self._op_defs.clear()


def _close(names: set[str], undo: list[Callable[[], None]], owned: str | None) -> None:
    for step in reversed(undo):
        step()
    undo.clear()
    for name in names:
        operators.destroy(name)
    if owned is not None:
        Library._owned.discard(owned)


def _restore(custom: Custom, key: str, fn: Callable[..., Any], known: Callable[..., Any] | None) -> None:
    if custom.kernels.get(key) is fn:
        del custom.kernels[key]
        if known is not None:
            custom.kernels[key] = known


def _key(key: Any) -> str:
    name: str = getattr(key, "name", key)
    check(name in KEYS, f"could not parse dispatch key: {name}")
    return name


@contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A library for the length of a context."""
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()


_kept: list[Library] = []  # libraries of definitions that nobody else keeps


def _kept_library(namespace: str) -> Library:
    found = next((library for library in _kept if library.ns == namespace), None)
    if found is None:
        found = Library(namespace, "FRAGMENT")
        _kept.append(found)
    return found


def define(
    qualname: Any, schema: str, alias_analysis: str = "", *, lib: Library | None = None, tags: Any = ()
) -> Any:
    """A new operator "namespace::name" of the schema "(Tensor x) -> Tensor".

    As `define(library, "name(Tensor x) -> Tensor")` a decorator of its kernel.

    >>> rl.library.define("docs_define::third", "(Tensor x) -> Tensor")
    >>> rl.library.impl("docs_define::third", "default", lambda x: x / 3)
    >>> rl.ops.docs_define.third(rl.tensor([6.0]))
    tensor([2.])
    """
    if isinstance(qualname, Library):
        name = qualname.define(schema, alias_analysis, tags=tags)

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            qualname.impl(name, function)
            return function

        return decorate
    if not isinstance(qualname, str):
        raise ValueError(
            f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}"
        )
    namespace, _, name = qualname.partition("::")
    if not name:
        raise ValueError(f"define: expected a name with a namespace, such as 'mylib::foo', not {qualname!r}")
    if not schema.lstrip().startswith("("):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> '
            f'Tensor" but got "{schema}"'
        )
    library = lib if lib is not None else _kept_library(namespace)
    library.define(name + schema.strip(), alias_analysis, tags=tags)
    return None


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """A kernel of an operator, for dispatch keys or for devices ("cpu", "default" for all).

    As `impl(library, "name", key)` a decorator.

    >>> rl.library.define("docs_impl::quarter", "(Tensor x) -> Tensor")
    >>> rl.library.impl("docs_impl::quarter", "default", lambda x: x / 4)
    >>> rl.ops.docs_impl.quarter(rl.tensor([8.0]))
    tensor([2.])
    """
    if isinstance(qualname, Library):
        name, key = types, func or ""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            qualname.impl(name, function, key)
            return function

        return decorate
    keys = _keys_of(types)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        library = lib if lib is not None else _kept_library(str(qualname).partition("::")[0])
        for key in keys:
            library.impl(qualname, function, key)
        return function

    if func is None:
        return register
    register(func)
    return None


def _keys_of(types: Any) -> list[str]:
    keys = []
    for kind in (types,) if isinstance(types, str) else types:
        if kind == "default":
            keys.append("CompositeExplicitAutograd")
        elif kind in DEVICE_KEYS:
            keys.append(DEVICE_KEYS[kind])
        else:
            check(
                kind in KEYS and kind != "",
                f"impl: unknown device or dispatch key {kind!r}. Expected one "
                f"of {_DEVICES}, 'default', or a dispatch key",
            )
            keys.append(kind)
    return list(dict.fromkeys(keys))


# More about an operator, by name.


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    allow_override: bool = False,
    _stacklevel: int = 1,
) -> Any:
    """What an operator does with tensors without data; with it a compiled program keeps the operator.

    >>> @rl.library.custom_op("docs::same", mutates_args=())
    ... def same(x: rl.Tensor) -> rl.Tensor:
    ...     return x.clone()
    >>> _ = rl.library.register_fake("docs::same", rl.empty_like)
    >>> same(rl.ones(2, device="meta")).shape
    rushlight.Size([2])
    """
    if func is None:
        return lambda function: register_fake(op, function, lib=lib, allow_override=allow_override)
    if isinstance(op, str) and op not in operators.CUSTOM and op.partition("::")[0] in NOT_LOADED:
        operators.FAKES[op] = func
        return func
    custom = operators.find(op)
    if custom.definition is None and not allow_override:
        check(
            custom.fake is None,
            f"register_fake(...): the operator {custom.op.name} already has an fake "
            f"impl registered at {custom.fake_source}.",
        )
        for key, what in (("Meta", "an"), ("CompositeImplicitAutograd", "a")):
            check(
                key not in custom.kernels,
                f"register_fake(...): the operator {custom.op.name} already has "
                f"{what} {key} implementation; a fake kernel would never be used"
                + (" (see CompositeImplicitAutograd)" if key != "Meta" else ""),
            )
    custom.fake, custom.fake_source = func, source(func)
    if lib is not None:
        lib._undo.append(lambda: setattr(custom, "fake", None) if custom.fake is func else None)
    return func


def impl_abstract(
    qualname: Any, func: Callable[..., Any] | None = None, *, lib: Library | None = None, _stacklevel: int = 1
) -> Any:
    """The former name of `register_fake`.

    >>> @rl.library.custom_op("docs::sixth", mutates_args=())
    ... def sixth(x: rl.Tensor) -> rl.Tensor:
    ...     return x / 6
    >>> _ = rl.library.impl_abstract("docs::sixth", rl.empty_like)
    >>> sixth(rl.empty(2, 3, device="meta")).shape
    rushlight.Size([2, 3])
    """
    return register_fake(qualname, func, lib=lib)


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """A kernel of an operator for some devices, None for all.

    >>> @rl.library.custom_op("docs::fifth", mutates_args=(), device_types="meta")
    ... def fifth(x: rl.Tensor) -> rl.Tensor:
    ...     return rl.empty_like(x)
    >>> _ = rl.library.register_kernel("docs::fifth", "cpu", lambda x: x / 5)
    >>> fifth(rl.tensor([10.0]))
    tensor([2.])
    """
    if func is None:
        return lambda function: register_kernel(op, device_types, function, lib=lib)
    custom = operators.find(op)
    if custom.definition is not None:
        return custom.definition.register_kernel(device_types, func)
    keys = ["CompositeExplicitAutograd"] if device_types is None else _keys_of(device_types)
    library = lib if lib is not None else _kept_library(custom.op.schema.namespace)
    for key in keys:
        library.impl(custom.op.name, func, key)
    return func


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """The backward of an operator: a function of the gradient, and one that saves what it needs.

    >>> @rl.library.custom_op("docs::squared", mutates_args=())
    ... def squared(x: rl.Tensor) -> rl.Tensor:
    ...     return rl.from_numpy(x.numpy() ** 2)
    >>> rl.library.register_autograd("docs::squared", lambda ctx, grad: 2 * grad * ctx.saved_tensors[0],
    ... setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    >>> x = rl.tensor([3.0], requires_grad=True)
    >>> squared(x).backward()
    >>> x.grad
    tensor([6.])
    """
    custom = operators.find(op)
    set_autograd(custom, backward, setup_context)
    if lib is not None:
        lib._undo.append(lambda: setattr(custom, "backward", None))


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None) -> Any:
    """How an operator runs over a batch: a function of `info`, `in_dims` and the arguments.

    >>> @rl.library.custom_op("docs::tripled", mutates_args=())
    ... def tripled(x: rl.Tensor) -> rl.Tensor:
    ...     return rl.from_numpy(x.numpy() * 3)
    >>> _ = rl.library.register_vmap("docs::tripled", lambda info, in_dims, x: (tripled(x), in_dims[0]))
    >>> rl.vmap(tripled)(rl.ones(2))
    tensor([3., 3.])
    """
    custom = operators.find(op)
    if func is None:
        return lambda function: register_vmap(op, function, lib=lib)
    set_batched(custom, func)
    return func
