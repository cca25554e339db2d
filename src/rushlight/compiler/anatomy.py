"""A compiled program taken apart for people: every stage as data, with links between the stages.

`anatomy(artifact)` compiles the graph of a program once more, each layer with kernels of its own, and remembers
what the compiler has no use for: which nodes a kernel is of (lowering/origins.py) and which functions it calls.
So a line of the user's program leads to nodes, these to kernels, loops and plans, and those to LLVM IR and
assembly, and back. Indices stand for nodes and kernels throughout; all of it can be written as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..capture.trace import OF_GRADIENT
from ..codegen.llvm.routines import PREFIX, emitted
from ..core.passes import PassLog
from ..core.registry import Kind
from ..graph.ir import Graph, Node, Value, print_node, print_spec, symbols_of
from ..loops.definitions import Map, Reduction, read, written
from ..loops.kernels import Extern, Product
from ..loops.nest import MemoryKind
from ..loops.plans import LoopPlan
from ..loops.program import Group, Step
from ..lowering.origins import Origins
from ..plan.places import aligned
from ..runtime.engine import engine
from ..schedule.memory import buffers_of, bytes_hint
from ..schedule.work import operations_of
from .pipeline import GENERATE_PASSES, Artifact, Compilation

DEFINE = re.compile(r"^define .*?^}\n?", re.M | re.S)
FUNCTION_NAME = re.compile(r'^define .*?@"?([^"(]+)"?\(')
CALLED = re.compile(r'\bcall [^@\n]*@"?([^"(\s]+)"?\(')
DIRECTIVE = re.compile(r"\s*(?:\.(?!L)\w|#)")  # of an assembler: says nothing about what runs
JOINED = re.compile(r"kernel (\d+): (\S+) (joined|stays apart): (.*)")


@dataclass
class Anatomy:
    """One program: its nodes, kernels and functions, and what was decided on the way."""

    name: str
    nodes: list[dict[str, Any]]
    values: list[dict[str, Any]]  # inputs of the program, by name
    outputs: list[str]
    kernels: list[dict[str, Any]]
    functions: dict[str, dict[str, Any]]
    notes: list[dict[str, Any]]
    stages: list[list[int]]
    workspace: dict[str, Any] = field(default_factory=dict)

    def to_data(self) -> dict[str, Any]:
        return dict(vars(self))


def anatomy(name: str, artifact: Artifact) -> Anatomy:
    """The program of an artifact whose sizes do not change, or are as in the call that was captured."""
    origins = Origins()
    graph = artifact.graph_after_passes()
    compilation = Compilation(graph, symbols=symbols_of(graph), keeps=(), origins=origins)
    made: Compilation = PassLog().run_all(GENERATE_PASSES, compilation)
    return _Dissection(name, made, origins).anatomy()


class _Dissection:
    def __init__(self, name: str, made: Compilation, origins: Origins) -> None:
        assert made.planned is not None
        assert made.module is not None
        self.name, self.graph, self.planned, self.module = name, made.graph, made.planned, made.module
        self.origins = origins
        self.number = {node: i for i, node in enumerate(self.graph.nodes)}
        self.steps: list[Step] = [step for stage in self.planned.stages for step in stage.steps]
        self.kernel_number = {step.name: i for i, step in enumerate(self.steps)}
        groups = self.planned.schedule.groups
        self.group_of = {_name_of(number, group): group for number, group in enumerate(groups)}
        self.names = [_name_of(number, group) for number, group in enumerate(groups)]
        self._readers: dict[str, list[str]] = {}  # who reads a buffer: the buffers written from it
        for group in groups:
            for member in group.members:
                for buffer in read(member):
                    self._readers.setdefault(buffer.name, []).extend(b.name for b in written(member))

    def anatomy(self) -> Anatomy:
        nodes_of = [self._nodes_of(step) for step in self.steps]
        nodes = [_node_data(node, self.number) for node in self.graph.nodes]
        for kernel, found in enumerate(nodes_of):
            for node in found:
                nodes[node]["kernels"].append(kernel)
        self._place_views(nodes)
        self._add_views(nodes, nodes_of)
        at = [(number, stage) for number, stage in enumerate(self.planned.stages) for _ in stage.steps]
        kernels = [
            self._kernel_data(step, found, number, stage.parallel)
            for step, found, (number, stage) in zip(self.steps, nodes_of, at, strict=True)
        ]
        stages = [[self.kernel_number[s.name] for s in stage.steps] for stage in self.planned.stages]
        values = [
            {"name": v.name, "spec": print_spec(v.spec), "constant": v.constant is not None}
            for v in self.graph.inputs
        ]
        outputs = [value.name for value in self.graph.outputs]
        return Anatomy(
            self.name,
            nodes,
            values,
            outputs,
            kernels,
            self._functions(kernels),
            self._notes(),
            stages,
            self._workspace(),
        )

    # From kernels to nodes.

    def _nodes_of(self, step: Step) -> list[int]:
        if isinstance(step, Extern):
            return [self.number[step.node]] if step.node in self.number else []
        group = self.group_of.get(step.name)
        buffers = [b.name for b in step.outputs]
        if group is not None:
            buffers += [b.name for member in group.members for b in written(member)]
        found: dict[Node, None] = {}
        for buffer in dict.fromkeys(buffers):
            for node in self._behind(buffer):
                found[node] = None
        return sorted(self.number[node] for node in found if node in self.number)

    def _behind(self, buffer: str) -> tuple[Node, ...]:
        """The nodes of a buffer; what a pass put between is of the nodes that read it."""
        left, seen = [buffer], {buffer}
        while left:
            name = left.pop()
            if name in self.origins.nodes:
                return self.origins.nodes[name]
            new = [b for b in self._readers.get(name, ()) if b not in seen]
            seen.update(new)
            left = new + left
        return ()

    def _place_views(self, nodes: list[dict[str, Any]]) -> None:
        """A view runs nowhere; it belongs to the kernels that read through it, or to that of what it is of."""
        users: dict[int, list[int]] = {}
        for i, node in enumerate(nodes):
            for other in node["inputs"]:
                if isinstance(other, int):
                    users.setdefault(other, []).append(i)
        for i in reversed(range(len(nodes))):
            if not nodes[i]["kernels"]:
                found = [k for user in users.get(i, ()) for k in nodes[user]["kernels"]]
                nodes[i]["kernels"] = sorted(set(found))
        for node in nodes:
            if not node["kernels"]:
                found = [k for i in node["inputs"] if isinstance(i, int) for k in nodes[i]["kernels"]]
                node["kernels"] = sorted(set(found))

    def _add_views(self, nodes: list[dict[str, Any]], nodes_of: list[list[int]]) -> None:
        """Let every kernel have a node; and those that views are of have the views."""
        for i, node in enumerate(nodes):
            for kernel in node["kernels"]:
                if i not in nodes_of[kernel]:
                    nodes_of[kernel] = sorted([*nodes_of[kernel], i])

    # Kernels.

    def _kernel_data(self, step: Step, nodes: list[int], stage: int, parallel: bool) -> dict[str, Any]:
        kernel = step.nest if isinstance(step, LoopPlan) else step
        plan = str(self.planned.plans.get(step.name, ""))
        lines = plan.splitlines()
        moved = [b for b in buffers_of(step) if b.memory is not MemoryKind.ROW]
        return {
            "name": step.name,
            "kind": "loops" if isinstance(step, LoopPlan) else type(step).__name__.lower(),
            "nodes": nodes,
            "stage": stage,
            "parallel": parallel,
            "loops": str(kernel),
            "plan": [line.strip().removeprefix("-- ") for line in lines if line.startswith("  -- ")],
            "reads": [b.name for b in step.inputs if b.memory is not MemoryKind.ROW],
            "writes": [b.name for b in step.outputs if b.memory is not MemoryKind.ROW],
            "bytes": sum(bytes_hint(b) for b in moved),
            "flops": operations_of(step),
            "functions": list(self.module.functions.get(step.name, ())),
            "product": str(step.shape) if isinstance(step, Product) else "",
        }

    # Code.

    def _functions(self, kernels: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """The functions of the module and the shared routines that its kernels use, as LLVM IR and assembly."""
        llvm = _split_llvm(self.module.text)
        assembly = _split_assembly(engine().assembly(self.module.text), llvm)
        wanted = {function for kernel in kernels for function in kernel["functions"]}
        for name in sorted(n for n in wanted if n.startswith(PREFIX)):
            text = emitted(name, self.planned.target)
            llvm |= _split_llvm(text)
            assembly |= _split_assembly(engine().assembly(text), [name])
        users: dict[str, list[int]] = {name: [] for name in llvm}
        calls = {name: [c for c in CALLED.findall(text) if c in llvm] for name, text in llvm.items()}
        for number, kernel in enumerate(kernels):
            kernel["functions"] = _with_called([f for f in kernel["functions"] if f in llvm], calls)
            for name in kernel["functions"]:
                users[name].append(number)
        return {
            name: {"llvm": text, "assembly": assembly.get(name, ""), "kernels": users[name]}
            for name, text in llvm.items()
        }

    # Decisions.

    def _notes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for note in self.planned.schedule.notes:
            matched = JOINED.fullmatch(note)
            if matched is None:
                found.append({"text": note})
                continue
            number, buffer, verdict, reason = matched.groups()
            nodes = [self.number[node] for node in self._behind(buffer) if node in self.number]
            kernel = self.kernel_number.get(self.names[int(number)])
            found.append(
                {
                    "kernel": kernel,
                    "buffer": buffer,
                    "joined": verdict == "joined",
                    "reason": reason,
                    "nodes": nodes,
                }
            )
        return found

    def _workspace(self) -> dict[str, Any]:
        space = self.planned.workspace
        lives = dict(space.lives)
        buffers = [
            {"name": b.name, "offset": offset, "bytes": aligned(max(bytes_hint(b), 1)), "life": lives[b]}
            for b, offset in space.offsets.items()
            if b in lives
        ]
        return {"bytes": space.size, "buffers": buffers, "stages": len(self.planned.stages)}


def _name_of(number: int, group: Group) -> str:
    """The name of the kernel that a group becomes (schedule/kernels.py)."""
    first = group.members[0]
    return f"kernel{number}" if isinstance(first, Map | Reduction) else first.name


def _node_data(node: Node, number: dict[Node, int]) -> dict[str, Any]:
    def source(value: Value) -> int | str:
        return value.name if value.node is None else number[value.node]

    place = node.line.removesuffix(OF_GRADIENT)
    file, _, line = place.rpartition(":")
    return {
        "op": node.op.name,
        "name": node.outputs[0].name,
        "text": print_node(node),
        "shape": print_spec(node.outputs[0].spec).partition(" strides")[0],
        "file": file,
        "line": int(line) if line.isdigit() else 0,
        "backward": node.line.endswith(OF_GRADIENT),
        "view": node.op.kind is Kind.VIEW,
        "inputs": list(dict.fromkeys(map(source, node.inputs()))),
        "kernels": [],
    }


def graph_data(graph: Graph) -> list[dict[str, Any]]:
    """The nodes of a graph."""
    number = {node: i for i, node in enumerate(graph.nodes)}
    return [_node_data(node, number) for node in graph.nodes]


def _split_llvm(text: str) -> dict[str, str]:
    found = {}
    for function in DEFINE.findall(text):
        name = FUNCTION_NAME.match(function)
        assert name is not None
        found[name[1]] = function.rstrip()
    return found


def _with_called(names: Sequence[str], calls: dict[str, list[str]]) -> list[str]:
    """Functions and those that they call: what does the work first, then what leads to it."""
    found = dict.fromkeys(names)
    left = list(names)
    while left:
        new = [name for name in calls[left.pop()] if name not in found]
        found.update(dict.fromkeys(new))
        left += new
    return sorted(found, key=lambda name: name.startswith("run."))


def _split_assembly(text: str, names: Sequence[str] | dict[str, str]) -> dict[str, str]:
    """The instructions of each function, without what is for the assembler alone."""
    wanted, found, inside = set(names), {}, ""
    lines: list[str] = []
    for line in text.splitlines():
        label = line[:-1].strip('"') if line.endswith(":") else line.split(":")[0].strip('"')
        if line and not line[0].isspace() and label in wanted:
            inside, lines = label, []
        if not inside:
            continue
        if line.startswith((".Lfunc_end", "Lfunc_end")):
            found[inside] = "\n".join(lines)
            inside = ""
        elif not DIRECTIVE.match(line) or line.startswith(".L"):
            lines.append(line.split("#")[0].rstrip() if line.startswith(".L") else line.rstrip())
    return found
