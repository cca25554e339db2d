"""`rushlight.ops.aten`: every operator by its ATen name and overload, as `torch.ops.aten` spells them.

`aten.add.Tensor(x, y)` calls one overload, `aten.add(x, y)` the first that fits, `aten.add_.Tensor` the
derived in-place form and `aten.add.out` the derived out= form. Operators that are not ATen's are found under
the namespace of their schema. There is one `OpOverload` for each operator and form, so that they can be
compared by identity; it is also what `__torch_dispatch__` is given.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
from collections.abc import Iterator
from typing import Any

from . import dtypes
from .construct import scalar_tensor
from .dispatch import call
from .modes import MODES
from .mutation import call_inplace
from .out_calls import call_out
from .out_names import inplace_form, out_form
from .overrides import ask, overriding_types
from .registry import LIBRARY, REGISTRY, Kind, OpDef
from .resolve import Packet, bind
from .schema import REQUIRED, Alias, Argument, Schema
from .tensor import Tensor
from .tokens import strided

FUNCTIONAL, INPLACE, OUT = "", "_", "out"  # the forms of an operator
_NUMBERS = (bool, int, float, complex)
# Operators that take a number in the place of a tensor.
_TAKE_NUMBERS = frozenset(
    ("add", "sub", "mul", "div", "subtract", "multiply", "divide", "true_divide", "floor_divide")
)


class Tag(enum.Enum):
    """What is known of an operator besides its schema.

    >>> rl.Tag.pointwise.name
    'pointwise'
    """

    core = 0
    cudagraph_unsafe = 1
    data_dependent_output = 2
    dynamic_output_shape = 3
    flexible_layout = 4
    generated = 5
    inplace_view = 6
    maybe_aliasing_or_mutating = 7
    needs_contiguous_strides = 8
    needs_exact_strides = 9
    needs_fixed_stride_order = 10
    nondeterministic_bitwise = 11
    nondeterministic_seeded = 12
    out_variant = 13
    pointwise = 14
    pt2_compliant_tag = 15
    reduction = 16
    view_copy = 17


class FunctionSchema:
    """A schema under the names that PyTorch gives its parts."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.name = f"{schema.namespace or 'aten'}::{schema.name}"
        self.overload_name = schema.overload
        outs = schema.out_arguments
        self.arguments = [FunctionArgument(a, i in outs) for i, a in enumerate(schema.arguments)]
        self.returns = [FunctionArgument(r, False) for r in schema.returns]
        self.is_mutable = bool(schema.mutable_arguments)

    def __str__(self) -> str:
        text = str(self.schema)
        return text if "::" in text.partition("(")[0] else f"aten::{text}"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionSchema) and self.schema == other.schema

    def __hash__(self) -> int:
        return hash(str(self))


class FunctionArgument:
    """An argument or a return of a `FunctionSchema`."""

    def __init__(self, argument: Argument, is_out: bool) -> None:
        self.name = argument.name
        self.type = self.real_type = argument.type
        self.kwarg_only = argument.keyword_only
        self.is_out = is_out
        self.default_value = None if argument.default is REQUIRED else argument.default
        self._has_default = argument.default is not REQUIRED
        alias = argument.type.alias
        self.alias_info = None if alias is None else AliasInfo(alias)
        self.is_write = alias is not None and alias.write

    def has_default_value(self) -> bool:
        return self._has_default


class AliasInfo:
    """Which memory an argument or return shares with others, and whether it is written to."""

    def __init__(self, alias: Alias) -> None:
        self.is_write = alias.write
        self.before_set = {f"alias::{name}" for name in alias.before}
        self.after_set = {f"alias::{name}" for name in alias.after or alias.before}


class OpOverload:
    """One overload, called with a user's arguments."""

    _defined_in_python = False

    def __init__(self, op: OpDef, form: str = FUNCTIONAL) -> None:
        self.op = op
        self.form = form
        self.schema = op.schema if form == FUNCTIONAL else derived_schema(op, form)
        self.namespace = self._namespace = self.schema.namespace or "aten"
        self._opname = self.schema.name
        self._overloadname = self.schema.overload or "default"
        self.__name__ = f"{self._opname}.{self._overloadname}"
        self.__qualname__ = self.__name__
        self.__module__ = f"rushlight.ops.{self.namespace}"

    @property
    def inplace(self) -> bool:
        return self.form == INPLACE

    @functools.cached_property
    def _schema(self) -> FunctionSchema:
        return FunctionSchema(self.schema)

    def name(self) -> str:
        """The full name, such as "aten::add.Tensor"."""
        overload = f".{self.schema.overload}" if self.schema.overload else ""
        return f"{self.namespace}::{self._opname}{overload}"

    _name = property(name)

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        return getattr(namespace(self.namespace), self._opname)

    _overloadpacket = overloadpacket

    @functools.cached_property
    def tags(self) -> list[Tag]:
        op, found = self.op, [Tag.pt2_compliant_tag]
        if op.kind is Kind.POINTWISE:
            found.append(Tag.pointwise)
        if op.random:
            found.append(Tag.nondeterministic_seeded)
        if op.data_dependent:
            found.append(Tag.dynamic_output_shape)
        if op.kind is Kind.VIEW and self.form == INPLACE:
            found.append(Tag.inplace_view)
        return found

    @property
    def is_view(self) -> bool:
        returns = self.schema.returns
        return bool(returns) and returns[0].type.alias is not None and not returns[0].type.alias.write

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        """The operator as its decomposition computes it; NotImplemented if it has none."""
        if self.op.decomposition is None or self.form != FUNCTIONAL:
            return NotImplemented
        return self.op.decomposition(self.bound(args, kwargs))

    def _can_decompose(self) -> bool:
        return self.op.decomposition is not None and self.form == FUNCTIONAL

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The argument tuple of the functional operator; numbers in the place of tensors become tensors."""
        values = bind(self.op, args, kwargs)
        if isinstance(values, str):
            made = self._with_tensors(args, kwargs)
            values = values if made is None else bind(self.op, *made)
        if isinstance(values, str):
            raise TypeError(f"{self.__name__}(): {values}. The signature is {self.schema}")
        return values

    def _with_tensors(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The arguments with numbers made tensors where tensors are wanted; None if there are none such."""
        if self.op.schema.name not in _TAKE_NUMBERS:
            return None
        given = self._numbers_at(args)
        named = {
            n: a
            for n, a in kwargs.items()
            if type(a) in _NUMBERS
            and n in self.op.schema.argument_names
            and self.op.schema.argument(n).type.is_tensor
        }
        if not given and not named:
            return None
        return (
            tuple([_number_tensor(a) if i in given else a for i, a in enumerate(args)]),
            {n: _number_tensor(a) if n in named else a for n, a in kwargs.items()},
        )

    def _numbers_at(self, args: tuple[Any, ...]) -> list[int]:
        """Where numbers are given and tensors wanted."""
        wanted = zip(args, self.op.schema.positional, strict=False)
        return [i for i, (a, b) in enumerate(wanted) if type(a) in _NUMBERS and b.type.is_tensor]

    def _with_numbers(self, args: tuple[Any, ...]) -> OpDef | None:
        """The overload that takes numbers where this one wants tensors and is given numbers."""
        if self.op.schema.name not in _TAKE_NUMBERS or self.op.schema.namespace:
            return None
        at = self._numbers_at(args)
        if not at or overriding_types(args):
            return None
        names = self.op.schema.argument_names
        for other in REGISTRY.overloads(self.op.schema.name):
            if other.schema.argument_names == names and all(
                a.type.is_scalar if i in at else a.type == b.type
                for i, (a, b) in enumerate(zip(other.schema.arguments, self.op.schema.arguments, strict=True))
            ):
                return other
        return None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self.form == OUT:
            return self._call_out(args, kwargs)
        try:
            other = None if kwargs else self._with_numbers(args)
            if other is not None:
                return overload(other, self.form)(*args)
            values = self.bound(args, kwargs)
        except TypeError:
            if MODES.plain or not (kinds := overriding_types((*args, *kwargs.values()))):
                raise
            return ask(self, kinds, args, kwargs)
        return call(self.op, values) if self.form == FUNCTIONAL else call_inplace(self.op, values)

    def _call_out(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        names = [self.schema.arguments[i].name for i in self.schema.out_arguments]
        missing = [name for name in names if name not in kwargs]
        if missing:
            raise TypeError(
                f"{self.__name__}(): missing argument '{missing[0]}'. The signature is {self.schema}"
            )
        outs = [kwargs.pop(name) for name in names]
        result = call_out(self.op, self.bound(args, kwargs), outs[0] if len(outs) == 1 else tuple(outs))
        return None if not self.schema.returns else result

    def __copy__(self) -> OpOverload:
        return self

    def __deepcopy__(self, memo: Any) -> OpOverload:
        return self

    def __reduce__(self) -> Any:
        return find, (self.namespace, self._opname, self._overloadname)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"


def _number_tensor(value: Any) -> Tensor:
    """A number as a tensor whose dtype counts for as little as a number's does."""
    return scalar_tensor(value, dtypes.get_default_dtype() if isinstance(value, float) else None)


_known: dict[tuple[OpDef, str], OpOverload] = {}


def overload(op: OpDef, form: str = FUNCTIONAL) -> OpOverload:
    """The one object for an operator in one of its forms."""
    found = _known.get((op, form))
    return found if found is not None else _known.setdefault((op, form), OpOverload(op, form))


def derived_schema(op: OpDef, form: str) -> Schema:
    """The schema of the in-place or out= form of an operator."""
    schema = op.schema
    if form == INPLACE:
        first = schema.arguments[0]
        written = dataclasses.replace(first.type, alias=Alias(("a",), True))
        arguments = (dataclasses.replace(first, type=written), *schema.arguments[1:])
        returns: tuple[Argument, ...] = (Argument("", written),) if first.type.is_tensor else ()
        return Schema(schema.namespace, *inplace_form(op), arguments, returns)
    name, names = out_form(op)
    outs = []
    for letter, (target, result) in zip("abcdefghij", zip(names, schema.returns, strict=True), strict=False):
        kind = dataclasses.replace(result.type, alias=Alias((letter,), True))
        outs.append(Argument(target, kind, keyword_only=True))
    kept = [a for a in schema.arguments if a.name not in _MADE_BY_TARGET or not _is_factory(schema)]
    returns = (
        ()
        if outs[0].type.is_list
        else tuple(
            [Argument(result.name, out.type) for out, result in zip(outs, schema.returns, strict=True)]
        )
    )
    return Schema(schema.namespace, schema.name, name, (*kept, *outs), returns)


_MADE_BY_TARGET = frozenset(("dtype", "layout", "device", "pin_memory"))


def _is_factory(schema: Schema) -> bool:
    return set(schema.argument_names) >= _MADE_BY_TARGET


class OpOverloadPacket:
    """All overloads of one name; attributes are the overloads (`default` for the unnamed one)."""

    def __init__(self, name: str, overloads: list[OpDef], *, inplace: bool, namespace: str = "aten") -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = f"rushlight.ops.{namespace}"
        self._name = f"{namespace}.{name}"
        self._qualified_op_name = f"{namespace}::{name}"
        self._namespace = namespace
        self._packet = Packet(name, overloads, inplace=inplace)
        form = INPLACE if inplace else FUNCTIONAL
        self._overloads = {}
        for op in overloads:
            made = overload(op, form)
            self._overloads[made.schema.overload or "default"] = made
        for op in () if inplace or namespace != "aten" else overloads:
            if op.schema.returns and all(
                result.type.base == "Tensor" and result.type.alias is None for result in op.schema.returns
            ):
                self._overloads.setdefault(out_form(op)[0], overload(op, OUT))

    def __getattr__(self, overload: str) -> OpOverload:
        try:
            return self.__dict__["_overloads"][overload]
        except KeyError:
            known = ", ".join(self.__dict__.get("_overloads", ()))
            raise AttributeError(
                f"the operator {self.__dict__.get('_name')} has no overload '{overload}'; it has {known}"
            ) from None

    def overloads(self) -> list[str]:
        return list(self._overloads)

    @property
    def op(self) -> Packet:
        return self._packet

    _op = op

    def __iter__(self) -> Iterator[str]:
        return iter(self._overloads)

    def __copy__(self) -> OpOverloadPacket:
        return self

    def __deepcopy__(self, memo: Any) -> OpOverloadPacket:
        return self

    def __reduce__(self) -> Any:
        return find, (self._namespace, self.__name__)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self._namespace in _called_by_overload:
            for candidate in self._overloads.values():
                if not isinstance(bind(candidate.op, args, kwargs), str) or len(self._overloads) == 1:
                    return candidate(*args, **kwargs)
        numbers = len(args) > 1 and all(isinstance(a, _NUMBERS) for a in args[:2])
        if numbers and self.__name__ in _TAKE_NUMBERS:
            args = (scalar_tensor(args[0], dtypes.scalar_dtype(args[0])), *args[1:])
        return self._packet(*args, **_with_enums(kwargs))

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._name}')>"


# ATen's numbers of dtypes, which schemas call ScalarType.
_SCALAR_TYPES = (
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex32",
    "complex64",
    "complex128",
    "bool",
    "qint8",
    "quint8",
    "qint32",
    "bfloat16",
)


def _with_enums(kwargs: dict[str, Any]) -> dict[str, Any]:
    """`kwargs` with the dtype and the layout that ATen's numbers stand for."""
    if type(kwargs.get("dtype")) is int and 0 <= kwargs["dtype"] < len(_SCALAR_TYPES):
        kwargs = {**kwargs, "dtype": dtypes.DTYPES[_SCALAR_TYPES[kwargs["dtype"]]]}
    if type(kwargs.get("layout")) is int and kwargs["layout"] == 0:
        kwargs = {**kwargs, "layout": strided}
    return kwargs


class OpNamespace:
    """The operators of one namespace as attributes, looked up when first asked for."""

    def __init__(self, namespace: str = "aten") -> None:
        self._namespace = namespace
        self.__name__ = f"rushlight.ops.{namespace}"

    def __getattr__(self, name: str) -> OpOverloadPacket:
        overloads = [op for op in self._operators() if op.schema.name == name]
        inplace = not overloads and name.endswith("_")
        if inplace:
            overloads = [
                op
                for op in self._operators()
                if inplace_form(op)[0] == name
                and (op.tensor_positions[:1] == (0,) or op.list_positions[:1] == (0,))
            ]
        if not overloads:
            raise AttributeError(f"there is no operator {self._namespace}::{name}")
        packet = OpOverloadPacket(name, overloads, inplace=inplace, namespace=self._namespace)
        setattr(self, name, packet)
        return packet

    def forget(self, name: str) -> None:
        """The overloads of a name have changed."""
        self.__dict__.pop(name, None)

    def _operators(self) -> list[OpDef]:
        return [
            op
            for registry in (REGISTRY, LIBRARY)
            for op in registry
            if (op.schema.namespace or "aten") == self._namespace
        ]

    def __deepcopy__(self, memo: Any) -> OpNamespace:
        return self

    def __reduce__(self) -> Any:
        return namespace, (self._namespace,)

    def __dir__(self) -> list[str]:
        return sorted({op.schema.name for op in self._operators()})


_namespaces: dict[str, OpNamespace] = {}
NOT_LOADED: set[str] = set()  # namespaces whose operators are in libraries of C++ that were asked for
_on_demand: dict[str, str] = {}
_called_by_overload: set[str] = set()  # namespaces whose overloads do more than run their operator


def namespace(name: str) -> OpNamespace:
    """The namespace `name`, with or without operators so far."""
    found = _namespaces.get(name)
    if found is None:
        if name in _on_demand:
            importlib.import_module(_on_demand[name])
        found = _namespaces.setdefault(name, OpNamespace(name))
    return found


def load_with(name: str, module: str) -> None:
    """Import `module`, which declares its operators, when the namespace `name` is first asked for."""
    _on_demand[name] = module


def calls_overloads(name: str) -> None:
    """Calls of the packets of a namespace go through the objects of their overloads from now on."""
    _called_by_overload.add(name)


def know(found: OpOverload) -> None:
    """Let `found` be the one object for its operator."""
    _known[found.op, found.form] = found


def forget(op: OpDef) -> None:
    for form in (FUNCTIONAL, INPLACE, OUT):
        _known.pop((op, form), None)


def find(space: str, name: str, overload: str = "") -> Any:
    """An operator by name: what pickles of them refer to."""
    packet = getattr(namespace(space), name)
    return getattr(packet, overload) if overload else packet
