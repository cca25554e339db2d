"""The programs of a captured call: one, or, where results require grad, a forward and a backward one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..core.symbols import hint
from ..core.tensor import Tensor
from ..graph.ir import Graph, Value
from ..graph.passes import remove_dead_code
from .captured_call import CapturedCall
from .partition import partition


@dataclass(frozen=True)
class Programs:
    """`forward` returns `outputs` results, then what is saved for `backward`, which uses the inputs `kept` as
    they are."""

    call: CapturedCall
    forward: Graph
    backward: Graph | None
    outputs: int
    taken: set[int]  # outputs that are nothing but the new contents of one tensor
    kept: list[int] = field(default_factory=list)

    @property
    def graphs(self) -> list[Graph]:
        return [self.forward] if self.backward is None else [self.forward, self.backward]


def partition_call(call: CapturedCall) -> Programs:
    """Cut the joint graph of a call in two, where there is one; else say which outputs are written in place."""
    graph = call.graph
    results = list(graph.outputs)
    taken = _taken_over(call)
    if call.tangents:
        wanted = [g for g in call.backward if g is not None]
        halves = partition(graph, results, call.tangents, wanted, _unchanged(call))
        return Programs(call, halves.forward, halves.backward, len(results), taken, halves.kept)
    remove_dead_code(graph, [size for _, size in graph.data_sizes])
    # not of tensors with gaps: a copy of one has not the memory that the program writes to
    graph.updates = {
        output: source
        for source, output in call.writes
        if output in taken
        and call.sources[source]._array.shape == tuple(map(hint, graph.inputs[source].shape))
    }
    return Programs(call, graph, None, len(results), taken)


def _unchanged(call: CapturedCall) -> set[Value]:
    """The graph inputs that are as they were when the backward program runs, or an error says that they are
    not."""
    if call.changes or call.replaced:
        return set()
    fresh = {
        value
        for value, source in zip(call.graph.inputs, call.sources, strict=False)
        if not isinstance(source, Tensor)
    }
    return (call.kept | fresh) - {call.graph.inputs[source] for source, _ in call.writes}


def _taken_over(call: CapturedCall) -> set[int]:
    """Outputs that are nothing but the new contents of one tensor."""
    used = {leaf.index for leaf in call.all_leaves() if leaf.kind in ("value", "view", "shared")}
    written = Counter(output for _, output in call.writes)
    return {output for output, times in written.items() if output not in used and times == 1}
