"""A compiled graph of PyTorch's: what AOTAutograd calls with a list of arguments.

Nothing is compiled before the first call, which knows the sizes. A part that cannot be compiled runs as PyTorch's
operators, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import get_num_threads
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from ..capture.errors import CaptureError
from ..core.errors import InternalError
from ..logs import logger
from ..runtime.threads import pool
from .options import Options
from .program import MOST_SIZES, NativePart, PartAtSizes
from .sizes import bind, number, readers, symbols_of
from .steps import PartStep, is_number, split

# what a compiler that meets what it does not know raises
_FAILURES = (
    CaptureError,
    InternalError,
    NotImplementedError,
    TypeError,
    ValueError,
    RuntimeError,
    LookupError,
)

Environment = dict[Node, Any]


class CompiledPart:
    """A native part as a step of a graph; `fallback`: whether PyTorch runs what we cannot compile."""

    def __init__(self, module: GraphModule, step: PartStep, options: Options, *, checks: bool) -> None:
        self.step, self._fallback = step, options.fallback
        self.native = NativePart(module, step, checks=checks, use_cache=options.use_cache)
        self._failed = False

    def find(self, bindings: dict[Any, Any]) -> PartAtSizes | None:
        """What runs the part for these sizes; None if PyTorch does."""
        if self._failed:
            return None
        try:
            return self.native.at(bindings)
        except _FAILURES as error:
            if not self._fallback:
                raise
            self._failed = True
            warnings.warn(
                f"rushlight: {len(self.step.nodes)} operators run in PyTorch, for they could not be compiled: "
                f"{type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
            return None

    def run(self, known: Environment, bindings: dict[Any, Any]) -> None:
        found = self.find(bindings)
        step = self.step
        if found is None:
            for node in step.nodes:
                known[node] = call(node, known, bindings)
            for target, source in step.writes:
                known[target].copy_(known[source])
        else:
            results = found([known[node] for node in step.inputs])
            known.update(zip(step.outputs, results, strict=True))


def call(node: Node, known: Environment, bindings: dict[Any, Any]) -> Any:
    """Run a node in PyTorch."""

    def argument(given: Node) -> Any:
        if given in known:
            return known[given]
        return number(given.meta["val"], bindings)

    args, kwargs = (map_arg(given, argument) for given in (node.args, node.kwargs))
    found = node.target(*args, **kwargs)
    if symbols_of(node.meta.get("val")):
        bind(node.meta["val"], found, bindings)
    return found


def compiled_function(module: GraphModule, options: Options, *, backward: bool) -> Callable[..., Any]:
    """What AOTAutograd calls."""
    graph = CompiledGraph(module, options, backward=backward)

    def run(args: list[Any]) -> list[Any]:
        return graph(args)

    boxed: Any = run
    boxed._boxed_call = True  # it takes a list, which it empties
    return boxed


class DirectCall(NamedTuple):
    """A graph that is one native part, for the sizes of a call."""

    part: PartAtSizes
    taken: list[int]  # the arguments that are the inputs of the part
    # results: the number of an output of the part, or of an argument, or neither (-1) and a number
    results: list[tuple[int, int, Any]]

    def run(self, args: list[Any]) -> list[Any]:
        made = self.part([args[i] for i in self.taken])
        found = [made[m] if m >= 0 else args[i] if i >= 0 else number for m, i, number in self.results]
        args.clear()
        return found


class CompiledGraph:
    """The steps of a graph, with what they know of each other."""

    def __init__(self, module: GraphModule, options: Options, *, backward: bool) -> None:
        nodes = list(module.graph.nodes)
        self._placeholders = [node for node in nodes if node.op == "placeholder"]
        read = readers([node.meta.get("val") for node in self._placeholders])
        self._symbols, self._readers = list(read), list(read.values())
        self._constants = {n: _attribute(module, n.target) for n in nodes if n.op == "get_attr"}
        self.steps = [
            CompiledPart(module, step, options, checks=not backward) if isinstance(step, PartStep) else step
            for step in split(module.graph)
        ]
        self._results = list(next(node for node in nodes if node.op == "output").args[0])
        self._pool = pool()
        # by the numbers of a call, for a graph that is one part; None: PyTorch runs it
        self._direct: dict[tuple[Any, ...], DirectCall | None] = {}
        outside = [s.node.target for s in self.steps if not isinstance(s, CompiledPart)]
        if outside:
            logger("breaks").info("operators that PyTorch runs: %s", ", ".join(map(str, outside)))

    def __call__(self, args: list[Any]) -> list[Any]:
        if self._pool.size != get_num_threads():
            self._pool.resize(get_num_threads())
        numbers = tuple([read(args) for read in self._readers])
        try:
            direct = self._direct[numbers]
        except KeyError:
            direct = self._find_direct(numbers)
        return self._run(args, numbers) if direct is None else direct.run(args)

    def _find_direct(self, numbers: tuple[Any, ...]) -> DirectCall | None:
        if len(self._direct) >= MOST_SIZES:
            self._direct.clear()
        found = self._direct[numbers] = self._make_direct(dict(zip(self._symbols, numbers, strict=True)))
        return found

    def _make_direct(self, bindings: dict[Any, Any]) -> DirectCall | None:
        if len(self.steps) != 1 or not isinstance(self.steps[0], CompiledPart):
            return None
        part = self.steps[0]
        place = {node: i for i, node in enumerate(self._placeholders)}
        if not all(node in place for node in part.step.inputs):
            return None
        made = {node: i for i, node in enumerate(part.step.outputs)}
        results = []
        for result in self._results:
            known = not isinstance(result, Node) or result in made or result in place
            if not known and not is_number(result):
                return None
            value = None if known and isinstance(result, Node) else self._result(result, {}, bindings)
            results.append((made.get(result, -1), place.get(result, -1), value))
        found = part.find(bindings)
        return None if found is None else DirectCall(found, [place[n] for n in part.step.inputs], results)

    def _run(self, args: list[Any], numbers: tuple[Any, ...]) -> list[Any]:
        """Step by step."""
        bindings = dict(zip(self._symbols, numbers, strict=True))
        known: Environment = {**self._constants, **dict(zip(self._placeholders, args, strict=True))}
        args.clear()
        for step in self.steps:
            if isinstance(step, CompiledPart):
                step.run(known, bindings)
                dead = step.step.dead
            else:
                known[step.node] = call(step.node, known, bindings)
                dead = step.dead
            for node in dead:
                known.pop(node, None)
        return [self._result(result, known, bindings) for result in self._results]

    def _result(self, result: Any, known: Environment, bindings: dict[Any, Any]) -> Any:
        if not isinstance(result, Node):
            return result
        if result in known:
            return known[result]
        return number(result.meta["val"], bindings)


def _attribute(module: GraphModule, name: Any) -> Any:
    found: Any = module
    for part in str(name).split("."):
        found = getattr(found, part)
    return found
