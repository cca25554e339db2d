"""Running the tape backwards.

Nodes run when everything that depends on them has run, the most recently recorded first, leaves' accumulators
as soon as they are ready. So the order, and with it the rounding of every sum of gradients, is the same on
each run. Nothing here recurses: a chain of any length works. The state of a run is local to it, so several
threads may run backwards at once.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

import numpy as np

from ..core.dispatch import AMBIENT
from ..core.modes import MODES
from ..core.quiet import quietly
from ..core.tensor import Tensor
from ..core.threads import on_fresh_stack
from .edges import edge_of
from .fit import can_fit, fit
from .hooks import run_post_hooks, run_pre_hooks, run_tensor_hooks, told
from .saved import OpNode
from .tape import ACCUMULATE, AccumulateGrad, Edge, Node, added

NOTHING: Any = object()
_BY_SEQUENCE = attrgetter("_sequence")
_ids = itertools.count()
# So many passes, each run by a backward function of the one before, share a stack; the next gets a new one,
# so that Python's limit on recursion is not met (PyTorch does the same at a depth of 60).
_PASSES_PER_STACK = 20


class Run:
    """One backward pass. `inputs`, where given, are the edges whose gradients are asked for; only what leads
    there runs. With `stop` it ends at them: no hook of theirs runs, nor what they were made from."""

    def __init__(
        self,
        *,
        retain_graph: bool,
        create_graph: bool,
        inputs: Sequence[Edge] | None,
        accumulate: bool,
        trace: Any = None,
        stop: bool = False,
    ) -> None:
        self.retain_graph = retain_graph
        self.create_graph = create_graph
        self.id = next(_ids)
        self.node: Node | None = None  # the one that is running
        self.depth = 0  # how many passes this one runs inside of
        self.line: str | None = None  # of the program, that began it, where that was looked for
        self.callbacks: list[Callable[[], None]] = []  # what to do when the pass is done
        # the interpreter at whose level the graph was recorded; below a capture there is none
        self.trace = None if trace is None or trace.lowest else trace
        self.stop = stop
        self.accumulate = accumulate
        self.captured: dict[int, Any] = {}  # index in inputs -> gradient
        self.captures: dict[Node, list[tuple[int, int]]] = {}  # node -> (output number, index in inputs)
        self.targets: set[Node] | None = None
        if inputs is not None:
            self.targets = set()
            for index, (node, number) in enumerate(inputs):
                if accumulate and isinstance(node, AccumulateGrad):
                    self.targets.add(node)
                else:
                    self.captures.setdefault(node, []).append((number, index))
        self.visited: set[Node] = set()
        self.needed: set[Node] | None = None  # the nodes to visit, None for all
        self.buffers: dict[Node, list[Any]] = {}
        self.dependencies: dict[Node, int] = {}
        self.ready: list[tuple[int, int, Node]] = []
        self.order = 0
        self.sums: set[tuple[Node, int]] = set()  # pending gradients that are sums made here
        self.owned: set[Node] = set()  # accumulators whose pending gradient is held by nobody else

    def start(self, roots: Sequence[tuple[Edge, Tensor]]) -> None:
        self._explore([node for (node, _), _ in roots])
        if AMBIENT.trace is not None:
            AMBIENT.trace.sees_backward(self)
        nodes = []
        for (node, number), grad in roots:
            if node not in self.buffers:
                self.buffers[node] = [None] * len(node._meta)
            self._add(node, number, grad)
            if node not in nodes:
                nodes.append(node)
        for node in nodes:
            if not self.dependencies.get(node):
                self._push(node)
        modes = MODES
        saved = modes.grad, modes.silent, modes.run, modes.plain, modes.saved_hooks
        if modes.run is not None:
            self.depth = modes.run.depth + 1
        modes.run, modes.plain = self, True
        if self.create_graph or self.trace is None:
            modes.grad = self.create_graph
        else:
            modes.silent = modes.silent | {self.trace}  # levels below may still have to record
        try:
            if self.depth % _PASSES_PER_STACK == _PASSES_PER_STACK - 1:
                on_fresh_stack(self._loop)
            else:
                self._loop()
            while self.callbacks:
                self.callbacks.pop(0)()
        finally:
            modes.grad, modes.silent, modes.run, modes.plain, modes.saved_hooks = saved

    def is_full(self) -> bool:
        """Whether all leaves get their gradients, not just some inputs."""
        return self.targets is None

    def count_of(self, nodes: Sequence[Node]) -> int:
        """How many of `nodes` (repetitions counted) this run comes to."""
        return sum(node in self.visited and (self.needed is None or node in self.needed) for node in nodes)

    def _explore(self, roots: list[Node]) -> None:
        """Count how many edges lead to each node; with inputs, also find the nodes on a path to one."""
        dependencies, floor = self.dependencies, self._floor()
        stack = list(dict.fromkeys(roots))
        first = set(stack)
        while stack:
            node = stack.pop()
            for edge in self._edges(node) if self.stop else node._next:
                if edge is not None:
                    after = edge[0]
                    if after._sequence < floor:
                        continue
                    count = dependencies.get(after)
                    if count is None:
                        dependencies[after] = 1
                        if after not in first:
                            stack.append(after)
                    else:
                        dependencies[after] = count + 1
        self.visited = first.union(dependencies)
        seen = self.visited
        if self.targets is None:
            return
        needed: set[Node] = {node for node in seen if node in self.captures or node in self.targets}
        for node in sorted(seen - needed, key=_BY_SEQUENCE):
            for edge in node._next:
                if edge is not None and edge[0] in needed:
                    needed.add(node)
                    break
        # A captured node that also leads to another input must run; needed holds both kinds.
        self.needed = needed

    def _floor(self) -> int:
        """The number below which no node leads to an input: edges lead to lower numbers, but for leaves."""
        if self.targets is None or self.targets or Node.renumbered:
            return -1
        floor = min([node._sequence for node in self.captures], default=-1)
        return -1 if any(node._sequence == ACCUMULATE for node in self.captures) else floor

    def _edges(self, node: Node) -> tuple[Edge | None, ...]:
        return () if self.stop and node in self.captures else node._next

    def called(self) -> Iterator[Node]:
        """The nodes, but for accumulators, that this run calls."""
        for node in self.visited:
            if (
                node._sequence != ACCUMULATE
                and self._edges(node)
                and (self.needed is None or (node in self.needed and self._wanted(node) is not NOTHING))
            ):
                yield node

    def executes(self, node: Node) -> bool:
        """Whether this run calls `node`."""
        if isinstance(node, AccumulateGrad) and self.targets is not None and not self.accumulate:
            raise RuntimeError(
                "A leaf node was passed to _will_engine_execute_node, but we are currently "
                "running autograd.grad(), which runs no accumulator"
            )
        return node in self.visited and (
            self.needed is None
            or (
                node in self.needed
                and (self._wanted(node) is not NOTHING or isinstance(node, AccumulateGrad))
            )
        )

    def planned(self) -> list[Node]:
        """The nodes that are still to come, the present one first, in the order in which they will run."""
        left, ready, order = dict(self.dependencies), list(self.ready), []
        count = itertools.count(self.order + 1)
        if self.node is not None:
            heappush(ready, (-ACCUMULATE - 1, 0, self.node))
        while ready:
            node = heappop(ready)[2]
            order.append(node)
            for edge in self._edges(node):
                if edge is not None and (self.needed is None or edge[0] in self.needed):
                    left[edge[0]] -= 1
                    if not left[edge[0]]:
                        heappush(ready, (-edge[0]._sequence, next(count), edge[0]))
        return order

    def _push(self, node: Node) -> None:
        self.order += 1
        heappush(self.ready, (-node._sequence, self.order, node))

    def _add(self, node: Node, number: int, grad: Tensor) -> None:
        """Add `grad` to what has arrived for output `number` of `node`; for others, something has."""
        buffer = self.buffers[node]
        current = buffer[number]
        if current is None:
            buffer[number] = grad
            return
        if (node, number) in self.sums and not (current._keys or grad._keys) and current.dtype is grad.dtype:
            quietly(np.add, current._array, grad._array, current._array)
            return
        # the order of operands is that of the indices of a sparse sum; PyTorch puts the new one first
        buffer[number] = added(current, grad) if current._parts is None else added(grad, current)
        self.sums.add((node, number))
        if node._sequence == ACCUMULATE:
            self.owned.add(node)

    def _loop(self) -> None:
        ready, buffers, dependencies, needed = self.ready, self.buffers, self.dependencies, self.needed
        # whether a node without hooks, whose gradients nobody asks for, has nothing to do but to be called
        plain, asked = not MODES.anomaly, self.captures
        apply, keep, wanted = _applier(), self.retain_graph, None
        while ready:
            node = heappop(ready)[2]
            grads = buffers.pop(node, None)
            outputs: Any = ()
            if grads is not None:
                if not plain or node._hooks is not None or node in asked:
                    outputs = self._run(node, grads)
                elif node._sequence == ACCUMULATE:
                    self.node = node
                    self._accumulate_plainly(node, grads)
                elif needed is None or (wanted := self._wanted(node)) is not NOTHING:
                    self.node = node
                    outputs = node.apply(grads, wanted) if apply is None else apply(node, grads, wanted)
                    if self.node._hooks is not None:  # added while it ran
                        outputs = run_post_hooks(node, outputs, [])
                    if not keep:
                        node._release()
            elif (node._hooks is not None or node.runs_on_nothing) and (needed is None or node in needed):
                grads = [None] * len(node._meta)
                outputs = self._run(node, grads)
            index = -1
            for edge in self._edges(node) if self.stop else node._next:
                index += 1
                if edge is None:
                    continue
                after, number = edge
                if needed is not None and after not in needed:
                    continue  # nor is anything behind it
                if outputs:
                    grad = outputs[index]
                    if grad is not None:
                        meta = after._meta[number]
                        array = grad._array
                        if array is None or array.shape != meta[0] or grad.dtype is not meta[1]:
                            grad = self._fitted(node, index, grad, meta)
                        if after in buffers:
                            self._add(after, number, grad)
                        elif number or len(after._meta) != 1:
                            buffers[after] = [None] * len(after._meta)
                            buffers[after][number] = grad
                        else:
                            buffers[after] = [grad]
                            if after._sequence == ACCUMULATE and _is_fresh(node, grad, grads, outputs):
                                self.owned.add(after)
                left = dependencies[after] - 1
                dependencies[after] = left
                if not left:
                    self.order += 1
                    heappush(ready, (-after._sequence, self.order, after))

    def _fitted(self, node: Node, index: int, grad: Any, meta: Any) -> Tensor:
        if not isinstance(grad, Tensor):
            raise TypeError(
                f"{node.name()} returned a gradient of type {type(grad).__name__} at index "
                f"{index}, expected a tensor or None"
            )
        if not can_fit(grad, meta[0]):
            raise RuntimeError(
                f"Function {node.name()} returned an invalid gradient at index {index} - got "
                f"{list(grad.shape)} but expected shape compatible with {list(meta[0])}"
            )
        return fit(grad, meta)

    def _run(self, node: Node, grads: list[Any]) -> Any:
        """Hooks, capture, and the node itself; the gradients of its inputs."""
        self.node = node
        captures = self.captures.get(node)
        if self.stop and captures is not None:
            self.captured.update((index, grads[number]) for number, index in captures)
            return ()
        wanted = self._wanted(node)
        before = list(grads) if captures is not None else grads
        if node._hooks is not None or node._sequence == ACCUMULATE:
            run_tensor_hooks(node, grads)
        if captures is not None:
            # As PyTorch has it: a gradient that also flows on is captured as it was before the hooks.
            for number, index in captures:
                self.captured[index] = before[number] if wanted is not NOTHING else grads[number]
        if node._sequence == ACCUMULATE:
            self._accumulate(node, grads[0])
            return ()
        if wanted is NOTHING:
            if node._hooks is not None and captures is not None and self.accumulate:
                run_pre_hooks(node, grads)  # as PyTorch has it: they run, and what they return is not used
            return ()
        if node._hooks is not None:
            grads = run_pre_hooks(node, grads)
        # as PyTorch has it: a hook that is added while the node runs is not told what went into it
        informed = node._hooks is not None and bool(node._hooks.post)
        if not node.runs_on_nothing and all(grad is None for grad in grads):
            outputs = [None] * len(node._next)
        else:
            outputs = self._call(node, grads, wanted)
        if node._hooks is not None:
            outputs = run_post_hooks(node, outputs, grads if informed else [])
        if not self.retain_graph:
            node._release()
        return outputs

    def _wanted(self, node: Node) -> Any:
        """Which edges of `node` lead to something that is asked for: None for all, NOTHING for none."""
        if self.needed is None:
            return None
        wanted = tuple([edge is not None and edge[0] in self.needed for edge in node._next])
        return wanted if True in wanted else NOTHING

    def _call(self, node: Node, grads: list[Any], wanted: Any) -> Any:
        if MODES.anomaly:
            return blame(node, grads, wanted)
        apply = _applier()
        return node.apply(grads, wanted) if apply is None else apply(node, grads, wanted)

    def _accumulate_plainly(self, node: Any, grads: list[Any]) -> None:
        """The same as `_run`, of an accumulator whose gradient is wanted."""
        if node.variable._hooks is not None or self.targets is not None:
            run_tensor_hooks(node, grads)
            self._accumulate(node, grads[0])
        elif self.accumulate and grads[0] is not None:
            node.accumulate(grads[0], node in self.owned)

    def _accumulate(self, node: Node, grad: Any) -> None:
        if not self.accumulate or (self.targets is not None and node not in self.targets):
            return
        assert isinstance(node, AccumulateGrad)
        hooks = node._hooks
        if hooks is not None and hooks.pre:
            grad = run_pre_hooks(node, [grad])[0]
        if grad is not None:
            node.accumulate(grad, node in self.owned)
        after = node.variable._hooks
        if after is not None and grad is not None:
            for hook in list(after.accumulated.values()):
                if told(hook)(node.variable) is not None:
                    raise RuntimeError("Tensor post accumulate grad hooks should return None.")
        hooks = node._hooks
        if hooks is not None and hooks.post:
            run_post_hooks(node, (), [grad])


def _applier() -> Callable[[Node, list[Any], Any], Any] | None:
    """In a capture, what calls a node: it records what was recorded before again. Else None."""
    templates = None if AMBIENT.trace is None else AMBIENT.trace.templates
    if templates is None:
        return None
    return lambda node, grads, wanted: (
        templates.backward(node, grads, wanted) if isinstance(node, OpNode) else node.apply(grads, wanted)
    )


def _is_fresh(node: Node, grad: Tensor, grads: list[Any] | None, outputs: Any) -> bool:
    """Whether nobody but the engine holds `grad`, so that a leaf may keep it as its gradient."""
    if not node._owns_results() or node._hooks is not None:
        return False
    if grad._base is not None:
        return False
    if grad._storage is not None and (grad._trace is None or not grad._trace.holds_alone(grad)):
        return False
    for given in grads or ():
        if given is grad:
            return False
    count = 0
    for output in outputs:
        if output is grad:
            count += 1
    return count <= 1


def blame(node: Node, grads: list[Any], wanted: Any) -> Any:
    """Run a node in anomaly mode: an error, or a NaN in its result, points at the line that recorded it."""
    try:
        outputs = node.apply(grads, wanted)
    except Exception:
        tell_where(node)
        raise
    if MODES.check_nan:
        for index, output in enumerate(outputs):
            if isinstance(output, Tensor) and bool((output != output).any()):
                tell_where(node)
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {index}th output.")
    return outputs


def tell_where(node: Node) -> None:
    """Warn of where a node was recorded, of where the node was whose backward recorded it, and so on."""
    said = f"Error detected in {node.name()}."
    seen: Node | None = node
    while seen is not None:
        if seen._trace is None:
            _warn(
                f"{said} No forward pass information is there: it was recorded outside of anomaly mode; "
                "switch it on for the forward pass to see where."
            )
            return
        _warn(f"{said} It was recorded here:\n{seen._trace}")
        seen = seen._parent
        said = "" if seen is None else f"That was done by the backward of {seen.name()}, the node before it."


def _warn(text: str) -> None:
    """A warning that must not take the place of the error it comes with: if it is itself to be raised, it is
    printed."""
    try:
        warnings.warn(text, stacklevel=2)
    except Warning as raised:
        print(raised, file=sys.stderr)


def gradients(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    grad_outputs: Sequence[Tensor],
    *,
    create_graph: bool = False,
    retain_graph: bool | None = None,
    stop: bool = False,
) -> list[Tensor | None]:
    """The gradients of `inputs` for given gradients of `outputs`; None where an input was not used. With
    `stop` as if none of them depended on another."""
    roots = []
    for output, grad in zip(outputs, grad_outputs, strict=True):
        edge = edge_of(output)
        if edge is not None:
            roots.append((edge, grad))
    edges = [edge_of(tensor) for tensor in inputs]
    present = [(i, edge) for i, edge in enumerate(edges) if edge is not None]
    run = Run(
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        inputs=[edge for _, edge in present],
        accumulate=False,
        trace=outputs[0]._trace,
        stop=stop,
    )
    run.start(roots)
    found: list[Tensor | None] = [None] * len(inputs)
    for position, (i, _) in enumerate(present):
        found[i] = run.captured.get(position)
    return found
