"""One operator that a program defines: its schema, its kernels by dispatch key, and how a call finds them.

An operator is an OpDef outside of the package's registry (`LIBRARY`), so that every stage takes it for one of
its own: a capture records it by the shapes that its fake kernel gives, a compiled program calls its kernel,
modes and classes with `__torch_dispatch__` are given it. What it adds:

- kernels by dispatch key: "CPU", "Meta" or a fake kernel for tensors without data, the composite ones, and
  "Autograd", which is called instead of all others while autograd records;
- a derivative, as a `Function` of autograd around the call, and a batching rule;
- writes: arguments that the schema marks are checked before, counted after, and in a capture the operator is
  recorded as one that returns what they become.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..core.aten import OpOverload, Tag, calls_overloads, forget, know, namespace
from ..core.dispatch import AMBIENT, Arguments, call, run_by, tensors_in
from ..core.errors import RegistrationError, check
from ..core.modes import MODES
from ..core.mutation import assign, check_target
from ..core.overrides import modes_replaced
from ..core.python_dispatch import as_called
from ..core.registry import LIBRARY, REGISTRY, Api, Kind, OpDef
from ..core.resolve import bind
from ..core.schema import Argument, Schema, SchemaError, Type, parse_schema
from ..core.tensor import META, TRACED, Tensor, meta_tensor
from . import differentiation
from .fake import DataDependentShape

KEYS = frozenset(
    (
        "",
        "CPU",
        "CUDA",
        "XPU",
        "MPS",
        "HPU",
        "MTIA",
        "XLA",
        "Meta",
        "PrivateUse1",
        "SparseCPU",
        "CompositeImplicitAutograd",
        "CompositeExplicitAutograd",
        "CompositeExplicitAutogradNonFunctional",
        "CompositeImplicitAutogradNestedTensor",
        "Autograd",
        "AutogradCPU",
        "AutogradCUDA",
        "AutogradMeta",
        "ADInplaceOrView",
        "BackendSelect",
        "Functionalize",
        "FuncTorchBatched",
        "Python",
    )
)
DEVICE_KEYS = {
    "cpu": "CPU",
    "cuda": "CUDA",
    "xpu": "XPU",
    "mps": "MPS",
    "hpu": "HPU",
    "mtia": "MTIA",
    "meta": "Meta",
    "privateuseone": "PrivateUse1",
}
_ON_DATA = (
    "CPU",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "CompositeImplicitAutograd",
)
_AUTOGRAD = ("AutogradCPU", "Autograd")


class Custom:
    """What is known of one operator."""

    def __init__(self, schema: Schema, tags: tuple[Tag, ...] = (), owner: Any = None) -> None:
        self.op = OpDef(schema, Kind.STRUCTURAL, "library", api=Api.NONE, rule=self._specs)
        run_by(self.op, lambda op, args: self._below_autograd(args))
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.fake: Callable[..., Any] | None = None
        self.fake_source = ""
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.batched: Callable[..., Any] | None = None
        # the CustomOpDef it belongs to: its outputs have a history, with or without a derivative
        self.definition: Any = owner
        self.disabled: set[str] = set()
        self.autograd_required = False  # of one made the former way: it cannot do without a derivative
        self.output_differentiability: list[bool] | None = None
        self.saves_by_name = False
        self.tags = tags
        self.written = schema.mutable_arguments
        self._functional: OpDef | None = None
        self.functions: dict[str, Any] = {}  # of autograd, by the structure of their arguments

    def __repr__(self) -> str:
        return repr(self.definition) if self.definition is not None else self.op.name

    # Calling.

    def __call__(self, args: Arguments) -> Any:
        """Run the operator on its complete argument tuple, autograd and transforms included."""
        tensors = tensors_in(self.op, args)
        traced = AMBIENT.trace is not None or any(tensor._keys & TRACED for tensor in tensors)
        if not MODES.below:
            for key in _AUTOGRAD:
                if key in self.kernels:
                    return self.kernel(key, args)
        if self.is_composite():
            return self.kernel("CompositeImplicitAutograd", args)
        if self.written:
            return self._call_writing(args)
        if self.op.derivative is not None:
            return self.run(args)
        recorded = MODES.grad and not MODES.below and any(tensor.requires_grad for tensor in tensors)
        if recorded and self.autograd_required:
            check(
                self.backward is not None,
                f"Autograd has not been implemented for operator {self.op.name}; impl_backward does",
            )
        if recorded and self.backward is not None and self.setup_context is None and self.saves_by_name:
            raise RuntimeError(
                f"{self.op.name}: unable to find a 'save_for_backward' beside its backward; "
                "impl_save_for_backward adds one"
            )
        differentiable = self.backward is not None or self.definition is not None
        if (recorded and differentiable) or (traced and (differentiable or self.batched is not None)):
            return differentiation.apply(self, args)
        return self.run(args)

    def run(self, args: Arguments) -> Any:
        """The operator below autograd."""
        if AMBIENT.trace is not None:
            self._check_graph()
            try:
                return call(self.op, args)
            except DataDependentShape as problem:
                AMBIENT.trace.refuse(f"the custom operator {self.op.name}: {problem}")
        elif AMBIENT.keys == 0 and any(tensor._keys & META for tensor in tensors_in(self.op, args)):
            return self.run_fake(args)
        return call(self.op, args)

    def is_composite(self) -> bool:
        return "CompositeImplicitAutograd" in self.kernels and not (
            self.kernels.keys() & {"CPU", "CompositeExplicitAutograd"}
        )

    def kernel(self, key: str, args: Arguments) -> Any:
        positional, keywords = as_called(self.op.schema, args)
        return self.kernels[key](*positional, **keywords)

    def _below_autograd(self, args: Arguments) -> Any:
        """The kernel, where autograd records the operator and not what the kernel does."""
        if self.op.derivative is None:
            return self.execute(args)
        grad, MODES.grad = MODES.grad, False
        try:
            return self.execute(args)
        finally:
            MODES.grad = grad

    def execute(self, args: Arguments) -> Any:
        """The kernel for tensors with data."""
        for key in _ON_DATA:
            if key in self.kernels and key not in self.disabled:
                return self._checked(self.kernel(key, args), args)
        if self.op.decomposition is not None:
            return self.op.decomposition(args)
        raise NotImplementedError(
            f"Could not run '{self.op.name}' with arguments from the 'CPU' backend: there was no cpu impl "
            f"registered; it has kernels for {sorted(self.kernels) or 'none'} alone"
        )

    def _checked(self, result: Any, args: Arguments) -> Any:
        if self.definition is not None:
            given = [tensor.storage_object for tensor in tensors_in(self.op, args) if tensor._parts is None]
            for output in _flat(result):
                check(
                    not isinstance(output, Tensor)
                    or output._parts is not None
                    or not any(output.storage_object is storage for storage in given),
                    f"{self.op.name} (with implementation in {self.definition.where()}): The output of "
                    "this custom operator (1) must not also be an input to this custom operator and (2) "
                    "may not alias any inputs to this custom operator or other returns; clone() it.",
                )
                if isinstance(output, Tensor) and output._parts is None:
                    given.append(output.storage_object)
        return tuple(result) if isinstance(result, list) and len(self.op.schema.returns) > 1 else result

    # Without data.

    def has_fake(self) -> bool:
        return (
            self.fake is not None
            or "Meta" in self.kernels
            or self.is_composite()
            or "CompositeExplicitAutograd" in self.kernels
            or self.op.decomposition is not None
        )

    def run_fake(self, args: Arguments) -> Any:
        """The outputs for tensors without data."""
        positional, keywords = as_called(self.op.schema, args)
        if self.fake is not None:
            return self.fake(*positional, **keywords)
        for key in ("Meta", "CompositeExplicitAutograd", "CompositeImplicitAutograd"):
            if key in self.kernels and (key == "Meta" or self.definition is None):
                return self.kernels[key](*positional, **keywords)
        if self.op.decomposition is not None:
            return self.op.decomposition(args)
        if self.definition is not None and not self.op.schema.returns:
            return None
        name = self.op.schema.name
        check(
            self.definition is None,
            f"There was no fake impl registered for {self!r}. This is necessary "
            f"for tensors without data and for compiled functions. Please use `{name}.register_fake` to "
            "add an fake impl.",
        )
        raise NotImplementedError(
            f"{self.op.name}: Could not run '{self.op.name}' with arguments from the "
            "'Meta' backend; register_fake adds a kernel for tensors without data"
        )

    def _specs(self, args: Arguments) -> Any:
        """The shape rule: what the fake kernel says of the outputs."""
        results = self._abstract(args)
        specs = tuple([result.spec() for result in _flat(results)])
        return specs[0] if isinstance(results, Tensor) else specs

    def _abstract(self, args: Arguments) -> Any:
        bare = tuple([_map(value, lambda t: meta_tensor(t.spec())) for value in args])
        with _outside():
            results = self.run_fake(bare)
        for result in _flat(results):
            check(
                isinstance(result, Tensor),
                f"{self.op.name}: its fake kernel must return tensors, not a {type(result).__name__}",
            )
        return results

    def _check_graph(self) -> None:
        """Let a capture end where the operator has no place in a graph."""
        trace = AMBIENT.trace
        if not self.has_fake() and (self.op.schema.returns or self.definition is None):
            trace.refuse(f"the custom operator {self.op.name} has no fake impl; register_fake adds one")
        returns = self.op.schema.returns
        if not all(r.type.is_tensor and r.type.alias is None for r in returns) or (
            not returns and not self.written
        ):
            trace.refuse(
                f"the custom operator {self.op.name}: only support functionalizing operators whose "
                "outputs do not have alias annotations and are tensors"
            )

    # Writing.

    def _call_writing(self, args: Arguments) -> Any:
        targets = [t for i in self.written for t in _flat(args[i]) if isinstance(t, Tensor)]
        for target in targets:
            check_target(target, self.op.schema.name)
        traced = AMBIENT.trace is not None or any(t._keys & TRACED for t in tensors_in(self.op, args))
        if traced:
            if AMBIENT.trace is not None:
                self._check_graph()
            if AMBIENT.trace is not None:  # the capture goes on
                if targets or self.op.schema.returns:
                    return self._call_functional(args)
                AMBIENT.trace.refuse(f"the custom operator {self.op.name}, which has no result here")
        before = [target.version_counter.value for target in targets]
        result = self.run(args)
        for target, version in zip(targets, before, strict=True):
            if target.version_counter.value == version:
                target.version_counter.value += 1
        return result

    def _call_functional(self, args: Arguments) -> Any:
        """In a capture: what the operator returns and what its arguments become, which are then written."""
        count = len(self.op.schema.returns)
        results = call(self.functional(), args)
        results = results if isinstance(results, tuple) else (results,)
        news = iter(results[count:])
        for i in self.written:
            for target in _flat(args[i]):
                if target is not None:
                    assign(target, next(news))
        if count == 0:
            return None
        return results[0] if count == 1 else results[:count]

    def functional(self) -> OpDef:
        """The operator as one that writes nothing and returns copies of what it would write to."""
        if self._functional is None:
            schema = self.op.schema
            arguments = tuple([_unwritten(argument) for argument in schema.arguments])
            extra = tuple([Argument("", Type("Tensor")) for _ in self.written])
            made = Schema(
                schema.namespace,
                f"{schema.name}_functional",
                schema.overload,
                arguments,
                (*schema.returns, *extra),
            )
            op = OpDef(made, Kind.STRUCTURAL, "library", api=Api.NONE, rule=self._functional_specs)
            run_by(op, lambda op, args: self._run_functional(args))
            self._functional = op
        return self._functional

    def _functional_specs(self, args: Arguments) -> Any:
        specs = [result.spec() for result in _flat(self._abstract(args))] if self.op.schema.returns else []
        specs += [tensor.spec() for i in self.written for tensor in _flat(args[i]) if tensor is not None]
        return tuple(specs) if len(specs) > 1 else specs[0]

    def _run_functional(self, args: Arguments) -> Any:
        copies = list(args)
        clone = REGISTRY["clone"]
        for i in self.written:
            copies[i] = _map(args[i], lambda t: call(clone, (t, None)))
        result = self.execute(tuple(copies))
        results = [*_flat(result)] if self.op.schema.returns else []
        results += [tensor for i in self.written for tensor in _flat(copies[i]) if tensor is not None]
        return tuple(results) if len(results) > 1 else results[0]


def _unwritten(argument: Argument) -> Argument:
    kind = argument.type
    if kind.alias is None:
        return argument
    plain = Type(
        kind.name,
        None,
        optional=kind.optional,
        is_list=kind.is_list,
        size=kind.size,
        element_optional=kind.element_optional,
    )
    return Argument(argument.name, plain, argument.default, argument.default_text, argument.keyword_only)


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _map(value: Any, change: Callable[[Tensor], Any]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)([_map(part, change) for part in value])
    return value


@contextmanager
def _outside() -> Iterator[None]:
    """A context in which no capture, mode or recording concerns what is run."""
    saved = AMBIENT.keys, AMBIENT.trace, MODES.grad, MODES.traces[:]
    AMBIENT.keys, AMBIENT.trace, MODES.grad = 0, None, False
    MODES.traces[:] = []
    try:
        with modes_replaced(()):
            yield
    finally:
        AMBIENT.keys, AMBIENT.trace, MODES.grad = saved[:3]
        MODES.traces[:] = saved[3]


class CustomOverload(OpOverload):
    """An overload that a program defined."""

    _defined_in_python = True

    def __init__(self, custom: Custom) -> None:
        super().__init__(custom.op)
        self.custom = custom
        self.tags = list(custom.tags)

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        args = tuple([_plain_list(a) for a in args])
        values = bind(self.op, args, {name: _plain_list(a) for name, a in kwargs.items()})
        if isinstance(values, str):
            raise RuntimeError(f"{self.name()}() {values}. The signature is {self.schema}")
        return values

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.custom(self.bound(args, kwargs))

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        if "CompositeImplicitAutograd" not in self.custom.kernels:
            return NotImplemented
        return self.custom.kernel("CompositeImplicitAutograd", self.bound(args, kwargs))

    def _can_decompose(self) -> bool:
        return "CompositeImplicitAutograd" in self.custom.kernels

    def has_kernel_for_dispatch_key(self, key: Any) -> bool:
        return getattr(key, "name", key) in self.custom.kernels


def _plain_list(value: Any) -> Any:
    """Any sequence as a list."""
    plain = isinstance(value, tuple | list | str | Tensor) or not (
        hasattr(value, "__getitem__") and hasattr(value, "__len__") and hasattr(value, "__iter__")
    )
    return value if plain or hasattr(value, "__array__") or isinstance(value, dict) else list(value)


# The table of all of them.

CUSTOM: dict[str, Custom] = {}  # by "namespace::name" or "namespace::name.overload"
FAKES: dict[
    str, Callable[..., Any]
] = {}  # of operators of libraries that cannot be loaded, until they are defined


def define(qualified: str, text: str, tags: Any = (), owner: Any = None) -> Custom:
    """A new operator "namespace::name.overload" with the rest of its schema, "(Tensor x) -> Tensor"."""
    schema = parsed(qualified + re.sub(r"\s*=\s*", "=", text))
    full = schema.full_name if schema.namespace not in ("", "aten") else f"aten::{schema.full_name}"
    if full in CUSTOM or schema.full_name in REGISTRY:
        raise RuntimeError(
            f"Tried to register an operator ({schema}) with the same name and overload name multiple times."
        )
    every = (tags,) if isinstance(tags, Tag) else tuple(tags or ())
    custom = Custom(schema, every, owner)
    try:
        LIBRARY.add(custom.op)
    except RegistrationError as error:
        raise RuntimeError(str(error)) from None
    CUSTOM[full] = custom
    custom.fake = FAKES.pop(full, None)
    know(CustomOverload(custom))
    calls_overloads(schema.namespace or "aten")
    namespace(schema.namespace or "aten").forget(schema.name)
    return custom


def parsed(text: str) -> Schema:
    """A schema; RuntimeError with what is wrong."""
    for wrong, right in (("int64_t", "`SymInt` or `int`"), ("double", "`float`")):
        check(
            re.search(rf"[(,\s]{wrong}\b", text) is None,
            f"schema: {wrong} is not a type. Use {right} instead: {text}",
        )
    try:
        return parse_schema(text)
    except SchemaError as error:
        message = str(error)
        found = re.search(r"unknown type '([^']*)'", message)
        raise RuntimeError(
            f"unknown type specifier: {found.group(1)}: {message}" if found else message
        ) from None


def destroy(full: str) -> None:
    """Forget an operator."""
    custom = CUSTOM.pop(full, None)
    op = custom.op if custom is not None else LIBRARY.ops.get(full)
    if op is None:
        return
    LIBRARY.ops.pop(op.name, None)
    LIBRARY._overloads.get(op.schema.name, []).remove(op)
    forget(op)
    namespace(op.schema.namespace or "aten").forget(op.schema.name)


def find(op: Any) -> Custom:
    """The operator that a name, an overload or a CustomOpDef means; RuntimeError if there is none."""
    if isinstance(op, CustomOverload):
        return op.custom
    if hasattr(op, "_custom"):
        found: Custom = op._custom
        return found
    name = op.name() if isinstance(op, OpOverload) else op
    check(
        isinstance(name, str),
        f"expected the name of an operator, an overload or a custom operator, not a {type(op).__name__}",
        ValueError,
    )
    custom = CUSTOM.get(name.removesuffix(".default"))
    if custom is None:
        raise RuntimeError(
            f"operator {name} does not exist: there is no custom operator of that name; "
            "custom_op or Library.define makes one"
        )
    return custom
