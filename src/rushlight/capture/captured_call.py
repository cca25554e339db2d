"""A captured call, as data: its graph, where its inputs come from, and what its outputs are for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..core.pytree import TreeSpec
from ..core.shapes import Spec
from ..core.tensor import Tensor
from ..graph.ir import Graph, Value
from .deferred import DeferredCall
from .effects import StoredValue
from .geometry import Change
from .live_inputs import LiveInputs
from .locations import Place
from .random import Draws
from .references import TensorRef


@dataclass(frozen=True)
class Leaf:
    """One leaf of what the call returns."""

    # "value": a new tensor; "view": a view of a new one; "alias": a view of a tensor of the caller; "given":
    # a tensor of the caller itself; "replayed": a view that its operators make again; "number": a live
    # number; "shared": a differentiable view of a new one, made by the operators in `python` or, without
    # any, by its spec; "deferred": a result of a deferred call, or of one of its results the one with the number
    # `python`; "holder": what `python` makes of another leaf, which it holds; "python": anything else
    kind: str
    index: int = 0  # of the graph output, of the source, or of the deferred call
    spec: Spec | None = None
    python: Any = None  # of an alias: the tensor of the caller that it is, if it is one
    requires_grad: bool = False
    given: TensorRef | None = None  # the caller's tensor that was in `python`
    # of a differentiable view: the tensor of the caller; a reference to it, when the call is compiled
    of: Any = None
    held: Leaf | None = None

    @property
    def differentiated(self) -> bool:
        """Whether the graph output that it is, or shows, has a gradient."""
        return self.requires_grad and self.kind in ("value", "shared")


@dataclass
class CapturedCall:
    """What running the function once has shown.

    A tensor of the caller is named by itself in a call that was captured just now, and by a reference
    (capture/references.py) in one that was compiled; `sources` and `leaves_used` are empty then.
    """

    graph: Graph
    # what is behind each graph input, in order: a tensor of the caller, Draws from a generator, or float or
    # int for the live numbers of that type
    sources: list[Any]
    leaves: list[Leaf]
    structure: TreeSpec
    writes: list[tuple[int, int]]  # (source, graph output)
    gradients: list[tuple[Any, Leaf]]  # (a tensor of the caller, what its .grad becomes)
    live: LiveInputs  # the numbers that stay live
    # tensors of the caller whose .grad the program looks at, with what it was
    leaves_used: list[tuple[Tensor, Any]] = field(default_factory=list)
    draws: list[Draws] = field(default_factory=list)
    versions: list[tuple[Any, int]] = field(default_factory=list)  # (a tensor of the caller, changes counted)
    changes: list[Change] = field(default_factory=list)  # tensors of the caller that get another shape
    replaced: list[tuple[Any, Leaf]] = field(default_factory=list)  # that get other data, and which
    flags: list[tuple[Any, bool]] = field(default_factory=list)  # arguments whose requires_grad changes
    differentiable: list[Any] = field(default_factory=list)  # tensors of the caller that results depend on
    tangents: list[Value] = field(default_factory=list)  # graph inputs for the gradients of returned tensors
    backward: list[Value | None] = field(default_factory=list)  # gradients of `differentiable`
    # graph outputs that other differentiable ones are computed from, in code that nobody has asked to compile
    inner: frozenset[int] = frozenset()
    kept: set[Value] = field(default_factory=set)  # graph inputs that the eager tape keeps for backward
    deferred: list[DeferredCall] = field(default_factory=list)  # what runs after the graph, on leaves
    kinds: dict[int, type] = field(default_factory=dict)  # leaves of classes derived from Tensor
    inference: list[int] = field(default_factory=list)  # leaves that were made in inference mode
    grad_mode: bool | None = None  # what it leaves the grad mode as, if it changes that
    # what is put into Python's containers; if any, `structure` is that of the result and a list of the values
    stores: list[StoredValue] = field(default_factory=list)
    # what it may have read of Python's state; a tensor that it only replaces need not be the same one
    locations: list[Place] = field(default_factory=list)

    def all_leaves(self) -> list[Leaf]:
        """Of what it returns, leaves behind and uses afterwards."""
        found = [
            *self.leaves,
            *(leaf for _, leaf in (*self.gradients, *self.replaced)),
            *(leaf for call in self.deferred for leaf in call.among(Leaf)),
        ]
        return [*found, *(leaf.held for leaf in found if leaf.held is not None)]
