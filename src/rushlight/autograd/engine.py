"""Running the tape backwards.

Nodes run when everything that depends on them has run, the most recently recorded first, leaves' accumulators
as soon as they are ready. So the order, and with it the rounding of every sum of gradients, is the same on
each run. Nothing here recurses: a chain of any length works. The state of a run is local to it, so several
threads may run backwards at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ..core.dispatch import AMBIENT
from ..core.modes import MODES
from ..core.quiet import quietly
from ..core.tensor import Tensor
from .edges import edge_of
from .fit import can_fit, fit
from .hooks import run_post_hooks, run_pre_hooks, run_tensor_hooks
from .tape import ACCUMULATE, AccumulateGrad, Edge, Node, added

NOTHING: Any = object()


class Run:
    """One backward pass. `inputs`, where given, are the edges whose gradients are asked for; only what leads
    there runs. With `stop` it ends at them: no hook of theirs runs, nor what they were made from."""

    def __init__(self, *, retain_graph: bool, create_graph: bool, inputs: Sequence[Edge] | None,
                 accumulate: bool, trace: Any = None, stop: bool = False) -> None:
        self.retain_graph = retain_graph
        self.create_graph = create_graph
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
            self._deliver(node, number, grad, False)
            if node not in nodes:
                nodes.append(node)
        for node in nodes:
            if not self.dependencies.get(node):
                self._push(node)
        modes = MODES
        saved = modes.grad, modes.silent, modes.run, modes.plain
        modes.run, modes.plain = self, True
        if self.create_graph or self.trace is None:
            modes.grad = self.create_graph
        else:
            modes.silent = modes.silent | {self.trace}  # levels below may still have to record
        try:
            self._loop()
        finally:
            modes.grad, modes.silent, modes.run, modes.plain = saved

    def is_full(self) -> bool:
        """Whether all leaves get their gradients, not just some inputs."""
        return self.targets is None

    def count_of(self, nodes: Sequence[Node]) -> int:
        """How many of `nodes` (repetitions counted) this run comes to."""
        return sum(node in self.visited and (self.needed is None or node in self.needed) for node in nodes)

    def _explore(self, roots: list[Node]) -> None:
        """Count how many edges lead to each node; with inputs, also find the nodes on a path to one."""
        dependencies = self.dependencies
        stack = list(dict.fromkeys(roots))
        seen = self.visited = set(stack)
        while stack:
            node = stack.pop()
            for edge in self._edges(node) if self.stop else node.next:
                if edge is not None:
                    after = edge[0]
                    dependencies[after] = dependencies.get(after, 0) + 1
                    if after not in seen:
                        seen.add(after)
                        stack.append(after)
        if self.targets is None:
            return
        needed: set[Node] = {node for node in seen if node in self.captures or node in self.targets}
        for node in sorted(seen - needed, key=lambda n: n.sequence):
            if any(edge is not None and edge[0] in needed for edge in node.next):
                needed.add(node)
        # A captured node that also leads to another input must run; needed holds both kinds.
        self.needed = needed

    def _edges(self, node: Node) -> tuple[Edge | None, ...]:
        return () if self.stop and node in self.captures else node.next

    def called(self) -> Iterator[Node]:
        """The nodes, but for accumulators, that this run calls."""
        for node in self.visited:
            if node.sequence != ACCUMULATE and self._edges(node) and (
                    self.needed is None or (node in self.needed and self._wanted(node) is not NOTHING)):
                yield node

    def _push(self, node: Node) -> None:
        self.order += 1
        heappush(self.ready, (-node.sequence, self.order, node))

    def _deliver(self, node: Node, number: int, grad: Tensor, owned: bool) -> None:
        """Add `grad` to what has arrived for output `number` of `node`."""
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = [None] * len(node.meta)
        current = buffer[number]
        if current is None:
            buffer[number] = grad
            if owned:
                self.owned.add(node)
            return
        if (node, number) in self.sums and not (current._keys or grad._keys) and current.dtype is grad.dtype:
            quietly(np.add, current._array, grad._array, current._array)
            return
        buffer[number] = added(current, grad)
        self.sums.add((node, number))
        if node.sequence == ACCUMULATE:
            self.owned.add(node)

    def _loop(self) -> None:
        ready, buffers, dependencies, needed = self.ready, self.buffers, self.dependencies, self.needed
        while ready:
            node = heappop(ready)[2]
            grads = buffers.pop(node, None)
            outputs: Any = ()
            if grads is not None:
                outputs = self._run(node, grads)
            edges = self._edges(node) if self.stop else node.next
            for index, edge in enumerate(edges):
                if edge is None:
                    continue
                after, number = edge
                if outputs:
                    grad = outputs[index]
                    if grad is not None and (needed is None or after in needed):
                        meta = after.meta[number]
                        array = grad._array
                        if array is None or array.shape != meta[0] or grad.dtype is not meta[1]:
                            grad = self._fitted(node, index, grad, meta)
                        owned = after.sequence == ACCUMULATE and _is_fresh(node, grad, grads or [], outputs)
                        self._deliver(after, number, grad, owned)
                left = dependencies[after] - 1
                dependencies[after] = left
                if not left:
                    self._push(after)

    def _fitted(self, node: Node, index: int, grad: Any, meta: Any) -> Tensor:
        if not isinstance(grad, Tensor):
            raise TypeError(f"{node.name()} returned a gradient of type {type(grad).__name__} at index "
                            f"{index}, expected a tensor or None")
        if not can_fit(grad, meta[0]):
            raise RuntimeError(f"Function {node.name()} returned an invalid gradient at index {index} - got "
                               f"{list(grad.shape)} but expected shape compatible with {list(meta[0])}")
        return fit(grad, meta)

    def _run(self, node: Node, grads: list[Any]) -> Any:
        """Hooks, capture, and the node itself; the gradients of its inputs."""
        captures = self.captures.get(node)
        if self.stop and captures is not None:
            self.captured.update((index, grads[number]) for number, index in captures)
            return ()
        wanted = self._wanted(node)
        before = list(grads) if captures is not None else grads
        if node.hooks is not None or node.sequence == ACCUMULATE:
            run_tensor_hooks(node, grads)
        if captures is not None:
            # As PyTorch has it: a gradient that also flows on is captured as it was before the hooks.
            for number, index in captures:
                self.captured[index] = before[number] if wanted is not NOTHING else grads[number]
        if node.sequence == ACCUMULATE:
            self._accumulate(node, grads[0])
            return ()
        if wanted is NOTHING or all(grad is None for grad in grads):
            return ()
        if node.hooks is not None:
            grads = run_pre_hooks(node, grads)
        outputs = self._call(node, grads, wanted)
        if node.hooks is not None:
            outputs = run_post_hooks(node, outputs, grads)
        if not self.retain_graph:
            node.release()
        return outputs

    def _wanted(self, node: Node) -> Any:
        """Which edges of `node` lead to something that is asked for: None for all, NOTHING for none."""
        if self.needed is None:
            return None
        wanted = tuple([edge is not None and edge[0] in self.needed for edge in node.next])
        return wanted if True in wanted else NOTHING

    def _call(self, node: Node, grads: list[Any], wanted: Any) -> Any:
        if not MODES.anomaly:
            return node.apply(grads, wanted)
        return blame(node, grads, wanted)

    def _accumulate(self, node: Node, grad: Any) -> None:
        if grad is None or not self.accumulate or (self.targets is not None and node not in self.targets):
            return
        assert isinstance(node, AccumulateGrad)
        hooks = node.hooks
        if hooks is not None and hooks.pre:
            grad = run_pre_hooks(node, [grad])[0]
        node.accumulate(grad, node in self.owned)
        if hooks is not None and hooks.post:
            run_post_hooks(node, (), [grad])
        after = node.variable._hooks
        if after is not None:
            for hook in list(after.accumulated.values()):
                hook(node.variable)


def _is_fresh(node: Node, grad: Tensor, grads: list[Any] | None, outputs: Any) -> bool:
    """Whether nobody but the engine holds `grad`, so that a leaf may keep it as its gradient."""
    if not node.owns_results() or node.hooks is not None:
        return False
    if grad._storage is not None or grad._base is not None:
        return False
    return not any(grad is g for g in grads or ()) and sum(grad is o for o in outputs) <= 1


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
    import warnings
    if node.trace is None:
        warnings.warn(f"Error detected in {node.name()}, which was recorded outside of anomaly mode; switch "
                      "it on for the forward pass to see where.", stacklevel=2)
        return
    warnings.warn(f"Error detected in {node.name()}. It was recorded here:\n{node.trace}",
                  stacklevel=2)


def gradients(outputs: Sequence[Tensor], inputs: Sequence[Tensor], grad_outputs: Sequence[Tensor], *,
              create_graph: bool = False, retain_graph: bool | None = None,
              stop: bool = False) -> list[Tensor | None]:
    """The gradients of `inputs` for given gradients of `outputs`; None where an input was not used. With
    `stop` as if none of them depended on another."""
    roots = []
    for output, grad in zip(outputs, grad_outputs, strict=True):
        edge = edge_of(output)
        if edge is not None:
            roots.append((edge, grad))
    edges = [edge_of(tensor) for tensor in inputs]
    present = [(i, edge) for i, edge in enumerate(edges) if edge is not None]
    run = Run(retain_graph=create_graph if retain_graph is None else retain_graph, create_graph=create_graph,
              inputs=[edge for _, edge in present], accumulate=False, trace=outputs[0]._trace,
              stop=stop)
    run.start(roots)
    found: list[Tensor | None] = [None] * len(inputs)
    for position, (i, _) in enumerate(present):
        found[i] = run.captured.get(position)
    return found
