"""Bodies of control flow: graphs that are arguments of nodes of other graphs.

A `Subgraph` is a functional graph whose inputs and outputs are contiguous. A node of a higher-order operator
(capture/control_flow.py) runs it once, once or not at all, or many times. `Subgraph.program` is what the
compiler made of it (compiler/bodies.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..core.shapes import Spec
from .ir import Graph, Value, print_graph


@dataclass(frozen=True)
class BodyProgram:
    """A compiled body, as the code that calls it sees it: an entry that takes a block of addresses."""

    name: str  # the symbol of its entry; equal for equal bodies
    cached: bool  # whether the name says all about it, also in another process
    native: bool  # whether it is native code throughout; if not, nothing below holds
    address: int = 0  # of the entry; 0 if there is nothing to do
    slots: int = 0  # of the block
    inputs: tuple[int | None, ...] = ()  # the slot of each input, None if it is not read
    outputs: tuple[int, ...] = ()
    # slots of outputs that exist so that what they are made of is checked, with their bytes
    discarded: tuple[tuple[int, int], ...] = ()
    temporaries: tuple[tuple[int, int], ...] = ()  # slots, with their offsets in the workspace
    workspace: int = 0  # bytes
    reports: tuple[tuple[type[Exception], str], ...] = ()  # the errors it finds, by number from 1 on
    keep: Any = field(default=None, compare=False)  # what the code lives in

    def layout(self) -> str:
        """What code that calls it relies on, as text."""
        parts = (self.slots, self.inputs, self.outputs, self.discarded, self.temporaries, self.workspace)
        return repr((*parts, bool(self.address), [(kind.__name__, text) for kind, text in self.reports]))


@dataclass(frozen=True)
class Joint:
    """A body and its derivative in one graph: `tangents` are inputs for the gradients of the outputs with the
    numbers `outputs`, `gradients` the values that follow for the inputs with the numbers `inputs`. Of the other
    inputs in `recorded` the gradient is zero."""

    graph: Graph
    given: tuple[Value, ...]  # the inputs of the body
    results: tuple[Value, ...]  # its outputs
    tangents: tuple[Value, ...]
    gradients: tuple[Value, ...]
    outputs: tuple[int, ...]
    inputs: tuple[int, ...]
    recorded: frozenset[int]


@dataclass(frozen=True)
class BodyHalves:
    """A body cut in two: `forward` gives the outputs and then what is saved, `backward` takes the inputs with
    the numbers `kept`, what is saved, and the tangents, and gives the gradients of the `Joint`."""

    forward: Subgraph
    backward: Subgraph
    kept: tuple[int, ...]


@dataclass(eq=False)
class Subgraph:
    """A body. `opaque`: its derivatives are not those of its operators (it has a custom function, or a region
    that is not recorded), so that none but `joint` gives them."""

    graph: Graph
    opaque: bool = False
    joint: Joint | None = None
    program: BodyProgram | None = None

    def input_specs(self) -> list[Spec]:
        return [value.spec for value in self.graph.inputs]

    def output_specs(self) -> list[Spec]:
        return [value.spec for value in self.graph.outputs]

    def __str__(self) -> str:
        body = print_graph(self.graph).replace("\n", "\n    ")
        return f"{{{body}}}"

    __repr__ = __str__


def subgraphs_in(graph: Graph) -> list[Subgraph]:
    """The bodies among the arguments of the nodes of a graph, each once, in order."""
    found = (argument for node in graph.nodes for argument in node.args if isinstance(argument, Subgraph))
    return list(dict.fromkeys(found))
