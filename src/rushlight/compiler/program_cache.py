"""The keys of compiled programs on disk (runtime/known_programs.py).

The key of a program is the text of its graph, with
everything that decides the code: this package, LLVM, the CPU. A graph with an argument that has no exact text,
or with an operator that a program lowers itself, has no key and is compiled every time.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from ..core.registry import Kind, OpDef
from ..core.symbols import Symbols
from ..graph.ir import Graph, Node, Value
from ..graph.subgraph import Subgraph
from ..lowering.folding import Folded
from ..runtime.keys import NoText, exact_text, key_under


def program_key(graph: Graph, symbols: Symbols | None, folded: Folded | None = None) -> str | None:
    """The key of a graph after its passes, or before them if it is folded; None if it has no exact text."""
    try:
        return key_under(_text(graph) if folded is None else _text_of_layers(folded), _symbols(symbols))
    except NoText:
        return None


def _text(graph: Graph) -> str:
    names = {value: f"%{i}" for i, value in enumerate(graph.values())}
    known: dict[int, str] = {}  # by the identity of a spec, which many values share
    lines = [f"{names[v]} {_described(v, known)}" for v in graph.inputs]
    lines += [_node_text(node, names, known) for node in graph.nodes]
    lines.append(" ".join(names[v] for v in graph.outputs))
    lines.append(f"updates {sorted(graph.updates.items())}")
    return "\n".join(lines)


def _text_of_layers(folded: Folded) -> str:
    """The text of a graph of many equal nodes: the first of each kind, and which is where and uses what."""
    graph, found = folded.whole, folded.found
    known: dict[int, str] = {}
    lines = [_described(v, known) for v in graph.inputs]
    _, first = np.unique(found.labels, return_index=True)
    for at in first.tolist():
        if at < len(graph.nodes):
            node = graph.nodes[at]
            lines.append(_node_text(node, dict.fromkeys((*node.inputs(), *node.outputs), "%"), known))
            lines += [_described(v, known) for v in node.inputs()]
        else:
            given = at - len(graph.nodes)
            lines.append(f"output {given in graph.updates} {_described(graph.outputs[given], known)}")
    inputs = np.array([found.symbols.get(v, -1) for v in graph.inputs], np.int64)
    arrays = (found.labels, found.uses, inputs)
    lines += [f"{len(a)} {hashlib.sha256(a.tobytes()).hexdigest()}" for a in arrays]
    return "\n".join(lines)


def _node_text(node: Node, names: dict[Value, str], known: dict[int, str]) -> str:
    if _is_lowered_by_program(node.op):
        raise NoText
    outputs = ", ".join([f"{names[v]} {_described(v, known)}" for v in node.outputs])
    arguments = ", ".join([_argument(a, names) for a in node.args])
    return f"{outputs} = {node.op.name}({arguments}) {node.returns_list}"


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
        raise NoText
    text = known.get(id(spec))
    if text is None:
        layout = f"{spec.known_shape()}{spec.known_strides()}{spec.offset}"
        text = known[id(spec)] = f"{spec.dtype.name}{layout}{spec.conj}{spec.neg}"
    return f"{text}{number}"


def _argument(argument: Any, names: dict[Value, str]) -> str:
    kind = type(argument)
    if kind is Value:
        return names[argument]
    if isinstance(argument, tuple | list):
        return f"[{', '.join([_argument(a, names) for a in argument])}]"
    if isinstance(argument, Subgraph) and argument.program is not None and argument.program.cached:
        name: str = argument.program.name
        return name
    return exact_text(argument)
