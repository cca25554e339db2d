"""What lowering hands to scheduling: definitions of buffers, which do not say yet how their loops run.

A definition is a `Map`, a `Reduction`, or one of the kernels that are not plain loop nests (loops/kernels.py).
The order of a program's definitions is one in which they may run.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.index import Index, Var
from .expr import Expr, buffers_in
from .extents import points_of
from .kernels import Routine
from .nest import Buffer, Combine


@dataclass(frozen=True)
class Map:
    """buffer[flat position of variables] = value, for every point."""

    buffer: Buffer
    variables: tuple[Var, ...]
    value: Expr

    def __str__(self) -> str:
        return f"{self.buffer} = {self.value}{_loops('for', self.variables)}"


@dataclass(frozen=True)
class Reduction:
    """buffer[flat position of outer] = fold of value over inner."""

    buffer: Buffer
    outer: tuple[Var, ...]
    inner: tuple[Var, ...]
    combine: Combine
    value: Expr

    def __str__(self) -> str:
        over = _loops("over", self.inner)
        return f"{self.buffer} = {self.combine.value} of {self.value}{over}{_loops('for', self.outer)}"


def _loops(word: str, variables: tuple[Var, ...]) -> str:
    return f", {word} {', '.join(f'{v} in {v.extent}' for v in variables)}" if variables else ""


@dataclass(frozen=True)
class Structured:
    """A definition with the loop over rows made explicit."""

    definition: Map | Reduction
    row: Var
    inner: tuple[Var, ...]
    value: Expr
    position: Index  # where it writes, in elements of its buffer


Definition = Map | Reduction | Routine


def written(definition: Definition) -> tuple[Buffer, ...]:
    return (definition.buffer,) if isinstance(definition, Map | Reduction) else definition.outputs


def read(definition: Definition) -> tuple[Buffer, ...]:
    if isinstance(definition, Map | Reduction):
        return buffers_in(definition.value)
    return definition.inputs


def points(definition: Map | Reduction) -> int:
    """How many elements it writes."""
    return points_of(definition.variables if isinstance(definition, Map) else definition.outer)
