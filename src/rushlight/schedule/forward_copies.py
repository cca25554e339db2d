"""Copies that need not be made: parts of a tensor that is only rearranged go where they are wanted.

A tensor put together from parts (lowering/assemble.py) is often read once, by a map that permutes its
dimensions: gradients of the queries, keys and values, which become one gradient of what they were cut out of.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..core.index import Index, Var, as_index
from ..core.symbols import hint, size_of
from ..loops.definitions import Definition, Map, points
from ..loops.expr import Access, Recorder
from ..loops.extents import flatten
from ..loops.kernels import Copy
from ..loops.nest import Buffer, MemoryKind, Nest, Phase, Store
from ..loops.program import Program
from ..loops.rewrite import rewrite_nest
from .loops import unmerged


@dataclass(frozen=True)
class _Way:
    """Where elements go: the one at sum of i_d * strides[d] to the row-major position of i in the target."""

    target: Buffer
    variables: tuple[Var, ...]
    strides: tuple[int, ...]

    def position(self, source: Index) -> Index:
        """Where the element that was at `source` goes."""
        position = as_index(0)
        for var, step in zip(self.variables, self.strides, strict=True):
            position = position * var.extent
            if var.extent != 1:
                position = position + source // step % var.extent
        return position


def forward_copies(program: Program) -> Program:
    """Without maps that read what parts have written, all of it and nothing else, in another order."""
    if not any(isinstance(definition, Copy) for definition in program.definitions):
        return program
    ways: dict[Buffer, _Way] = {}
    kept: list[Definition] = []
    for definition in program.definitions:
        source = _rearranged(definition)
        if (
            source is not None
            and source.memory is MemoryKind.TEMPORARY
            and program.readers(source) == (definition,)
            and all(isinstance(writer, Copy) for writer in program.writers(source))
        ):
            assert isinstance(definition, Map)
            way = _way(program.recorder, definition)
            if way is not None:
                ways[source] = way
                continue
        kept.append(definition)
    return replace(program, definitions=tuple(_moved(definition, ways) for definition in kept))


def _rearranged(definition: Definition) -> Buffer | None:
    """What a map copies, if it does nothing else."""
    if not isinstance(definition, Map) or definition.value.op != "load" or definition.value.data.indirect:
        return None
    source: Buffer = definition.value.data.buffer
    same = source.dtype is definition.buffer.dtype and source.size == as_index(points(definition))
    return source if same else None


def _way(recorder: Recorder, copy: Map) -> _Way | None:
    """Where a map puts the elements of what it copies, if it reads each of them once."""
    store = Store(Access(copy.buffer, flatten(copy.variables)), copy.value)
    nest = unmerged(recorder, Nest(copy.buffer.name, copy.variables, (Phase((), (store,)),)))
    index: Index = nest.phases[0].statements[0].value.data.index
    found = [index.stride(var) for var in nest.outer]
    strides = tuple(0 if step is None else size_of(step) for step in found)
    room = 1
    for step, var in sorted(zip(strides, nest.outer, strict=True), key=lambda pair: hint(pair[0])):
        if var.extent != 1 and as_index(step) != as_index(room):
            return None
        room *= size_of(var.extent)
    starts = index.substitute(dict.fromkeys(nest.outer, 0)) == 0
    return _Way(copy.buffer, nest.outer, strides) if starts else None


def _moved(definition: Definition, ways: dict[Buffer, _Way]) -> Definition:
    """A part of a tensor in its new place."""
    if not isinstance(definition, Copy) or definition.outputs[0] not in ways:
        return definition
    way = ways[definition.outputs[0]]

    def there(access: Access) -> Access:
        return Access(way.target, way.position(access.index))

    return replace(definition, nest=rewrite_nest(definition.nest, lambda value: value, there))
