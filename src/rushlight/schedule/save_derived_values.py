"""What is kept for later: of a value that later maps read only to compute one function of it, that function.

The gradient of an activation, for example, contains a costly function of the activation's input, which was
computed long before and is needed for nothing else by then. Computed where the input is, and kept instead of
it, the function takes the same memory and shares its work with what else is computed there, the activation
itself. No value changes.
"""

from __future__ import annotations

from dataclasses import replace

from ..core.index import Index, Var, as_index
from ..loops.definitions import Definition, Map, read, written
from ..loops.expr import Expr, Recorder, cost, substitute, walk
from ..loops.nest import Buffer, MemoryKind
from ..loops.program import Program
from .cost import WORTH_SAVING


def save_derived_values(program: Program) -> Program:
    """Keep functions in place of the values that only they need."""
    recorder, definitions = program.recorder, program.definitions
    home = {buffer: at for at, definition in enumerate(definitions) for buffer in written(definition)}
    readers: dict[Buffer, list[int]] = {}
    for at, definition in enumerate(definitions):
        for buffer in read(definition):
            readers.setdefault(buffer, []).append(at)
    changed = list(definitions)
    added: dict[int, list[Definition]] = {}  # by what they follow
    for buffer, at in home.items():
        users = readers.get(buffer, [])
        if len(users) < 2 or buffer.memory is not MemoryKind.TEMPORARY:
            continue
        late = [n for n in users if any(home.get(other, -1) > at for other in read(definitions[n]))]
        if not late or len(late) == len(users) or not all(isinstance(definitions[n], Map) for n in users):
            continue
        place = Var("at", buffer.size)
        found = {_function_of(recorder, changed[n], buffer, place) for n in late}
        function = found.pop() if len(found) == 1 else None
        if function is None:
            continue
        kept = Buffer(f"{buffer.name}_function", buffer.dtype, buffer.size, MemoryKind.TEMPORARY)
        added.setdefault(at, []).append(Map(kept, (place,), function))
        for n in late:
            changed[n] = _reading(recorder, changed[n], buffer, kept)
    kept_too = (d for at, definition in enumerate(changed) for d in (definition, *added.get(at, ())))
    return replace(program, definitions=tuple(kept_too))


def _function_of(recorder: Recorder, definition: Definition, buffer: Buffer, place: Var) -> Expr | None:
    """What `definition` computes of elements of `buffer` alone, as a function of the element at `place`, if
    that is costly, all that it uses of them, and no larger than they are."""
    assert isinstance(definition, Map)
    roots = _roots(definition.value, buffer)
    if len(roots) != 1:
        return None
    root = roots[0]
    if cost(root) < WORTH_SAVING or root.dtype is not buffer.dtype:
        return None
    return substitute(
        recorder,
        root,
        lambda node: recorder.load_at(buffer, as_index(place), node.dtype) if node.op == "load" else None,
    )


def _roots(value: Expr, buffer: Buffer) -> list[Expr]:
    """The largest parts of an expression that read one element of `buffer` and nothing else."""
    alone: dict[Expr, Index | None] = {}  # where such a part reads; None for what reads nothing at all
    others: set[Expr] = set()
    for node in walk(value):
        if node.op == "load":
            if node.data.buffer is buffer and not node.data.indirect:
                alone[node] = node.data.index
            else:
                others.add(node)
        elif node.op == "constant":
            alone[node] = None
        elif not node.args or any(a in others for a in node.args):
            others.add(node)
        else:
            places = {alone[a] for a in node.args} - {None}
            if len(places) > 1:
                others.add(node)
            else:
                alone[node] = places.pop() if places else None
    used = {a for node in others for a in node.args} | {value}
    return [node for node, index in alone.items() if index is not None and node in used]


def _reading(recorder: Recorder, definition: Definition, buffer: Buffer, kept: Buffer) -> Definition:
    """The definition with what it computes of `buffer` read from `kept`."""
    assert isinstance(definition, Map)
    (root,) = _roots(definition.value, buffer)
    index = next(node.data.index for node in walk(root) if node.op == "load")
    new = recorder.load_at(kept, index, kept.dtype)
    done: dict[Expr, Expr] = {root: new}
    for node in walk(definition.value):
        if node not in done:
            done[node] = (
                node
                if not node.args
                else recorder.make(node.op, tuple(done[a] for a in node.args), node.dtype, node.data)
            )
    return replace(definition, value=done[definition.value])
