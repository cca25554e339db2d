"""Operators of libraries as these write them in ONNX: `register_custom_op_symbolic(name, function, opset)`.

Such a function takes a graph, whose `op` adds a node, and the arguments of the operator: tensors of the model as
names, numbers and lists as they are. It returns the name of a result, or a tuple of names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ._model import Model, Number, Value, to_proto

_FUNCTIONS: dict[str, dict[int, Callable[..., Any]]] = {}  # by the operator's name, then by opset
_NAME = re.compile(r"[a-zA-Z0-9-_]+::[a-zA-Z0-9-_]+(\.[a-zA-Z0-9-_]+)?")
_RESERVED = ("onnx", "prim")
_ATTRIBUTE = re.compile(r"(.+)_([ifst])")


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Have calls of an operator ("library::operator") written as `symbolic_fn(graph, *arguments)` writes them,
    in models of this opset and later ones, up to the next for which there is another function.

    >>> rl.onnx.register_custom_op_symbolic("mine::twice", lambda g, x: g.op("Add", x, x), 11)
    >>> rl.onnx.unregister_custom_op_symbolic("mine::twice", 11)
    """
    _FUNCTIONS.setdefault(_checked(symbolic_name), {})[opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Undo `register_custom_op_symbolic`.

    >>> rl.onnx.unregister_custom_op_symbolic("mine::unknown", 11)
    """
    _FUNCTIONS.get(_checked(symbolic_name), {}).pop(opset_version, None)


def _checked(name: str) -> str:
    """An operator's name; one without a library's is one of PyTorch's own."""
    name = f"aten{name}" if name.startswith("::") else name
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"Failed to register operator {name}. The symbolic name must match the format domain::name"
        )
    if name.partition("::")[0] in _RESERVED:
        raise ValueError(f"Failed to register operator {name}. Its domain cannot be modified")
    return name


def custom_function(namespace: str, name: str, opset: int) -> Callable[..., Any] | None:
    """The function for an operator in models of an opset; `name` with or without its overload."""
    for each in (name, name.partition(".")[0]):
        known = _FUNCTIONS.get(f"{namespace}::{each}", {})
        fitting = [version for version in known if version <= opset]
        if fitting:
            return known[max(fitting)]
    return None


class SymbolicGraph:
    """The graph that such functions add nodes to."""

    def __init__(self, model: Model) -> None:
        self.model, self.opset = model, model.opset

    def op(self, opname: str, *raw_args: Any, outputs: int = 1, **kwargs: Any) -> Any:
        """Add a node. The last letter of an attribute's name says what it is: `axis_i`, `scale_f`, `mode_s`,
        `value_t`; of integers and floats a list is allowed."""
        domain, _, kind = opname.rpartition("::")
        attributes = dict(map(_attribute, kwargs.items()))
        if not domain or domain == "onnx":
            return self.model.op(kind, *map(_given, raw_args), outputs=outputs, **attributes)
        return self.model.op(kind, *map(_given, raw_args), outputs=outputs, domain=domain, **attributes)


def _given(argument: Any) -> Any:
    """An argument of a node: a tensor of the model, or a constant."""
    if isinstance(argument, Tensor):
        return argument.detach().numpy_array()
    if isinstance(argument, float):
        return np.float32(argument)
    return argument


def _attribute(item: tuple[str, Any]) -> tuple[str, Any]:
    found = _ATTRIBUTE.fullmatch(item[0])
    if found is None:
        raise ValueError(f"Invalid attribute specifier '{item[0]}': names end with _i, _f, _s or _t")
    name, kind = found.groups()
    value = item[1]
    if kind == "t":
        array = value.detach().numpy_array() if isinstance(value, Tensor) else np.asarray(value)
        return name, to_proto(np.ascontiguousarray(array), "")
    convert: Callable[[Any], Any] = {"i": int, "f": float, "s": str}[kind]
    return name, [convert(v) for v in value] if isinstance(value, Sequence) and kind != "s" else convert(
        value
    )


def by_custom(function: Callable[..., Any], model: Model, known: Sequence[Any], results: int) -> Any:
    """What such a function makes of a call: a name, or a list of them."""
    arguments = [value.name if isinstance(value, Value | Number) else value for value in known]
    made = function(SymbolicGraph(model), *arguments)
    if isinstance(made, str):
        made = (made,)
    if not isinstance(made, tuple | list) or len(made) != results:
        raise NotImplementedError(f"the function that was registered for it does not give {results} results")
    return made[0] if results == 1 else list(made)
