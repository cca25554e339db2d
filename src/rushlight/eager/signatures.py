"""The function that runs an operator by its native callables, written for the operator's schema.

It makes the signature of a call (dtypes, shapes and strides of tensors, types of numbers, all else by value),
looks up the native callable for it, and calls that with the arrays and with the numbers that are not defaults.
Everything else is left to `meet(args, signature, arrays)`. What depends on the schema alone is decided here,
once: this is the way that every eager call takes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from ..core.dispatch import Arguments
from ..core.registry import OpDef
from ..core.tensor import AUTOGRAD, Tensor
from .layouts import exactly

Runner = Callable[[OpDef, Arguments], Any]


def write_runner(
    op: OpDef,
    reference: Runner,
    natives: Mapping[Any, Callable[..., Any]],
    meet: Callable[[Arguments, Any, list[Any]], Any],
    allowed: Callable[[Arguments], bool] | None,
) -> Runner:
    """The runner of `op`. `allowed` says of a call whether it may be looked at; None: of every call."""
    scope: dict[str, Any] = {
        "__name__": __name__,  # captures look into functions of others alone
        "reference": reference,
        "native_of": natives.get,
        "meet": meet,
        "allowed": allowed,
        "exactly": exactly,
        "several": _several,
        "Tensor": Tensor,
        "defaults": op.defaults,
    }
    exec(_code(_text(op, allowed is not None)), scope)
    run: Runner = scope["run"]
    return run


@functools.cache
def _code(text: str) -> Any:
    """Operators whose arguments are of the same kinds share their code."""
    return compile(text, __name__, "exec")


def _text(op: OpDef, asks: bool) -> str:
    arguments = op.schema.arguments
    lines = [f"({''.join(f'a{i}, ' for i in range(len(arguments)))}) = args"]
    if asks:
        lines += ["if not allowed(args):", "    return reference(op, args)"]
    key, arrays, scalars = [], [], []
    for i, argument in enumerate(arguments):
        kind, own = argument.type, f"a{i}"
        if kind.is_tensor and not kind.optional:
            lines += _looks(i)
            key.append(_layout(i))
            arrays.append(f"x{i}")
        elif kind.is_tensor:
            lines += [f"if {own} is None:", f"    k{i} = None", "else:"]
            lines += [f"    {line}" for line in (*_looks(i), f"k{i} = ({_layout(i)})")]
            key.append(f"k{i}")
            arrays.append(f"*(() if {own} is None else (x{i},))")
        elif kind.is_tensor_list:
            lines += [f"k{i} = several({own})", f"if k{i} is None:", "    return reference(op, args)"]
            key.append(f"k{i}[0]")
            arrays.append(f"*k{i}[1]")
        elif kind.base == "Scalar" and not kind.is_list:
            lines.append(
                f"k{i} = {own} if {own} is defaults[{i}] else type({own}) if type({own}) is float or "
                f"type({own}) is int else exactly({own})"
            )
            key.append(f"k{i}")
            scalars.append(f"*(() if {own} is defaults[{i}] else ({own},))" if _has_default(op, i) else own)
        elif kind.base == "float":
            key.append(f"{own} or repr({own})")
        else:
            key.append(own)
    given = ", ".join([*arrays, *scalars])
    lines += [
        f"key = ({', '.join(key)},)",
        "try:",
        "    native = native_of(key)",
        "except TypeError:",  # an argument that cannot be looked up
        "    return reference(op, args)",
        "if native is not None:",
        "    try:",
        f"        found = native({given})",
        "    except MemoryError:",  # of which the long way tells more
        "        return reference(op, args)",
        "    if found is not NotImplemented:",
        "        return found",
        f"return meet(args, key, [{', '.join(arrays)}])",
    ]
    return "def run(op, args):\n" + "".join(f"    {line}\n" for line in lines)


def _has_default(op: OpDef, i: int) -> bool:
    return not op.schema.arguments[i].is_required


def _looks(i: int) -> list[str]:
    return [
        f"x{i} = a{i}._array",
        f"if x{i} is None or a{i}._keys > {AUTOGRAD}:",
        "    return reference(op, args)",
    ]


def _layout(i: int) -> str:
    return f"a{i}.dtype, x{i}.shape, x{i}.strides, a{i}._strides"


def _several(tensors: Any) -> tuple[Any, list[Any]] | None:
    """The signature of a list of tensors, and their arrays; None for tensors that no kernel takes."""
    key: list[Any] = []
    arrays: list[Any] = []
    for tensor in () if tensors is None else tensors:
        if tensor is None:
            key.append(None)
            continue
        array = tensor._array
        if array is None or tensor._keys > AUTOGRAD:
            return None
        key += (tensor.dtype, array.shape, array.strides, tensor._strides)
        arrays.append(array)
    return tuple(key), arrays
