"""Compiled programs on disk: what is needed to run a graph again without lowering, scheduling or emitting it.

A stored program is the description of an executable as plain data (JSON) and its object code, in one entry of
the object cache (runtime/cache.py), which vouches for the bytes. Its key is the text of the graph, with
everything that decides the code: this package, LLVM, the CPU. A graph with an argument that has no exact text,
or with an operator that a program lowers itself, has no key and is compiled every time.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from ..core.determinism import DETERMINISM
from ..core.dtypes import DType
from ..core.registry import Kind, OpDef
from ..core.symbols import Symbols
from ..core.tokens import device, layout, memory_format
from ..graph.ir import Graph, Value
from ..graph.subgraph import Subgraph
from ..runtime import profile, redzones
from ..runtime.cache import fingerprint, key_of
from ..runtime.engine import engine

_TOKENS = (device, layout, memory_format)


def program_key(graph: Graph, symbols: Symbols | None) -> str | None:
    """The key of a graph after its passes; None if it has no exact text."""
    try:
        return key_of(
            (
                _text(graph),
                _symbols(symbols),
                "guarded" * redzones.enabled(),
                "timed, with events" * profile.enabled(),
                "filled" * DETERMINISM.fills,
                *_surroundings(),
            )
        )
    except _NoText:
        return None


@functools.cache
def _surroundings() -> tuple[str, ...]:
    return ("program 2", fingerprint(), engine().identity())


class _NoText(Exception):
    pass


def _text(graph: Graph) -> str:
    names = {value: f"%{i}" for i, value in enumerate(graph.values())}
    known: dict[int, str] = {}  # by the identity of a spec, which many values share
    lines = [f"{names[v]} {_described(v, known)}" for v in graph.inputs]
    for node in graph.nodes:
        if _is_lowered_by_program(node.op):
            raise _NoText
        outputs = ", ".join([f"{names[v]} {_described(v, known)}" for v in node.outputs])
        arguments = ", ".join([_argument(a, names) for a in node.args])
        lines.append(f"{outputs} = {node.op.name}({arguments}) {node.returns_list}")
    lines.append(" ".join(names[v] for v in graph.outputs))
    lines.append(f"updates {sorted(graph.updates.items())}")
    return "\n".join(lines)


def _symbols(symbols: Symbols | None) -> str:
    """The symbols of its sizes, how large they can be, which code that was compiled before relies on, and about
    how large they are here, by which its vectors, tiles and parts were chosen."""
    if symbols is None:
        return ""
    return " ".join(f"{d.name} {d.low} {d.high} {n.bit_length()}" for d, n in symbols.hints.items())


def _is_lowered_by_program(op: OpDef) -> bool:
    """Whether the loops of an operator come from a rule outside of this package, of which no text is known."""
    return op.family == "library" and (callable(op.lowering) or op.kind is Kind.POINTWISE)


def _described(value: Value, known: dict[int, str]) -> str:
    spec = value.spec
    number = "" if value.number is None else value.number.__name__
    if value.constant is not None:
        raise _NoText
    text = known.get(id(spec))
    if text is None:
        layout = f"{spec.known_shape()}{spec.known_strides()}{spec.offset}"
        text = known[id(spec)] = f"{spec.dtype.name}{layout}{spec.conj}{spec.neg}"
    return f"{text}{number}"


def _argument(argument: Any, names: dict[Value, str]) -> str:
    kind = type(argument)
    if kind is Value:
        return names[argument]
    if kind is int:
        return f"int {argument}"
    if argument is None or isinstance(argument, bool | int | float | complex | str):
        return f"{type(argument).__name__} {argument!r}"
    if isinstance(argument, tuple | list):
        return f"[{', '.join([_argument(a, names) for a in argument])}]"
    if isinstance(argument, DType):
        return f"dtype {argument.name}"
    if isinstance(argument, _TOKENS):
        return repr(argument)
    if isinstance(argument, Subgraph) and argument.program is not None and argument.program.cached:
        return argument.program.name
    raise _NoText


def pack(description: dict[str, Any], code: bytes) -> bytes:
    text = json.dumps(description, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text + code


def unpack(data: bytes) -> tuple[dict[str, Any], bytes]:
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]
